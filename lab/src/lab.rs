//! The lab VIM's state, shared by all connections.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::{Semaphore, watch};

use crate::cli::{AfterInstall, Options};
use crate::contract::Contract;
use crate::faults::Faults;
use crate::files::Shelf;
use crate::http::Refusal;
use crate::journal::Journal;
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
    /// True if /v1 is only for clients with a certificate.
    pub(crate) client_certificate: bool,
    /// True if other machines may use /lab.
    pub(crate) open_admin: bool,
    /// Largest request body.
    pub(crate) max_body_bytes: usize,
    /// This VIM's address in instructions; `None`: as the Host header says.
    pub(crate) public_url: Option<String>,
    /// The answer to an installed node that reports again.
    pub(crate) after_install: AfterInstall,
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
    changes: watch::Sender<u64>,
}

impl Lab {
    /// A lab VIM without nodes.
    pub(crate) fn new(
        options: &Options,
        contract: Contract,
        store: Store,
        shelf: Shelf,
        token: Option<String>,
        ca_pem: Option<String>,
    ) -> Self {
        Self {
            contract,
            store,
            faults: Faults::new(options.fault.clone()),
            shelf,
            boot: None,
            journal: Journal::default(),
            token,
            client_certificate: options.require_client_certificate,
            open_admin: options.open_admin,
            max_body_bytes: options.max_body_bytes,
            public_url: options.public_url.clone(),
            after_install: options.after_install,
            ca_pem,
            // The standard library seeds it from the system's random numbers.
            form_token: format!("{:016x}", RandomState::new().hash_one(std::process::id())),
            fleet: Made::default(),
            models: Made::default(),
            viewers: Arc::new(Semaphore::new(MAX_VIEWERS)),
            polls: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    /// Notifies pages and waiting tests of a change.
    pub(crate) fn changed(&self) {
        self.changes.send_modify(|n| *n += 1);
    }

    /// Returns a receiver for these notifications.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
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
