//! The lab VIM's state, shared by all connections.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, anyhow};
use bytes::Bytes;
use tokio::sync::Semaphore;

use crate::cli::Options;
use crate::contract::{self, Contract};
use crate::faults::Faults;
use crate::files::Shelf;
use crate::http::Refusal;
use crate::journal::Journal;
use crate::sign::Signer;
use crate::store::Store;

/// Maximum number of pages kept up to date at a time.
pub(crate) const MAX_VIEWERS: usize = 200;

/// A page about all nodes, with the key of its data.
#[derive(Debug, Default)]
pub(crate) struct Made(Mutex<Option<(String, Bytes)>>);

impl Made {
    /// Returns the page for `key`, made anew if the last one had another key. One caller makes it at a time: each takes time
    /// and memory.
    pub(crate) fn page(
        &self,
        key: String,
        make: impl FnOnce() -> Result<String, Refusal>,
    ) -> Result<Bytes, Refusal> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, page)) = &*last
            && *known == key
        {
            return Ok(page.clone());
        }
        let page = Bytes::from(make()?);
        *last = Some((key, page.clone()));
        Ok(page)
    }
}

/// Everything that the answers depend on.
#[derive(Debug)]
pub(crate) struct Lab {
    /// The command line.
    pub(crate) options: Options,
    /// The `OpenAPI` document.
    pub(crate) contract: Contract,
    /// The database.
    pub(crate) store: Store,
    /// The faults to carry out.
    pub(crate) faults: Faults,
    /// Files that are served besides the API.
    pub(crate) shelf: Shelf,
    /// Files for network boot; `None` if it is not served.
    pub(crate) boot: Option<Shelf>,
    /// The requests received.
    pub(crate) journal: Journal,
    /// The bearer token for /v1; `None` when none is required.
    pub(crate) token: Option<String>,
    /// Signs the answers of /v1; `None` if they are not signed.
    pub(crate) signer: Option<Signer>,
    /// The CA for HTTPS; `None` without HTTPS.
    pub(crate) ca_pem: Option<String>,
    /// A token in the forms of this VIM's pages, which a form on another site does not contain.
    pub(crate) form_token: String,
    /// The last page about all nodes: many viewers fetch it after each change.
    pub(crate) fleet: Made,
    /// The same for the page about models.
    pub(crate) models: Made,
    /// A place for each page that is kept up to date.
    pub(crate) viewers: Arc<Semaphore>,
    polls: Mutex<BTreeMap<String, u32>>,
}

impl Lab {
    /// Reads the files that the command line names.
    ///
    /// # Errors
    /// When one of them cannot be read or the database cannot be opened.
    pub(crate) fn open(options: Options, ca_pem: Option<String>) -> anyhow::Result<Self> {
        Ok(Self {
            contract: Contract::read(contract::DOCUMENT).context("reading the OpenAPI document")?,
            store: Store::open(&options.db)?,
            faults: Faults::new(options.fault.clone()),
            shelf: Shelf::fill(&options)?,
            boot: options.boot.as_deref().map(Shelf::folder).transpose()?,
            journal: Journal::default(),
            token: options.token.as_deref().map(read_token).transpose()?,
            signer: options.sign_key.as_deref().map(Signer::open).transpose()?,
            ca_pem,
            // The standard library seeds it from the system's random numbers.
            form_token: format!("{:016x}", RandomState::new().hash_one(std::process::id())),
            fleet: Made::default(),
            models: Made::default(),
            viewers: Arc::new(Semaphore::new(MAX_VIEWERS)),
            polls: Mutex::default(),
            options,
        })
    }

    /// Counts how often a node has asked since its report, this time included.
    pub(crate) fn count_poll(&self, node: &str) -> u32 {
        let mut polls = self.polls.lock().unwrap_or_else(PoisonError::into_inner);
        let n = polls.entry(node.to_owned()).or_default();
        *n += 1;
        *n
    }

    /// A new report: the count begins again.
    pub(crate) fn forget_polls(&self, node: &str) {
        self.polls.lock().unwrap_or_else(PoisonError::into_inner).remove(node);
    }
}

fn read_token(path: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("reading the token {}", path.display()))?;
    match text.trim() {
        "" => Err(anyhow!("{} is empty, expected a bearer token", path.display())),
        token => Ok(token.to_owned()),
    }
}
