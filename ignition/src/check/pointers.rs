//! The configs that a config is replaced by or merges: in data URLs, or fetched at the first boot.
//!
//! Ignition refuses the whole if one of them is invalid. Source: `RenderConfig` in Ignition `internal/exec/stages/fetch/*.go`.

use std::io::Read as _;

use flate2::read::MultiGzDecoder;
use serde_json::{Map, Value, json};

use super::at::At;
use super::parse::{Parsed, parse};
use super::{Erased, MAX_CONFIG_BYTES, rules};
use crate::digest::verify_hash;
use crate::merge::merge;
use crate::refusal::{Code, Refusal, Warning};
use crate::url::data_url;

/// The part of [`MAX_CONFIG_BYTES`] that a contained config uses up in addition to its own length: it bounds their number.
const CONTAINED_BYTES: usize = MAX_CONFIG_BYTES / 128;

/// A config that another one names by its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer<'a> {
    /// The place in the config, e.g. `$.ignition.config.merge.0`.
    pub key: &'a str,
    /// The address.
    pub url: &'a str,
    /// Names and values of the headers that Ignition sends.
    pub headers: Vec<(&'a str, &'a str)>,
    /// The CAs of the configs that lead to it, as PEM. Ignition trusts them in addition to the system's.
    pub authorities: &'a [u8],
}

/// Fetches a config; `None` if that is not possible now.
pub type Fetch<'a> = &'a mut dyn FnMut(&Pointer<'_>) -> Option<Vec<u8>>;

/// Reads the configs that a config names.
pub(super) struct Reader<'a> {
    pub(super) fetch: Fetch<'a>,
    n_bytes_left: usize,
    authorities: Vec<u8>,
    /// Those that cannot be read.
    pub(super) unread: Vec<Erased>,
    pub(super) warnings: Vec<Warning>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(fetch: Fetch<'a>) -> Self {
        Self {
            fetch,
            n_bytes_left: MAX_CONFIG_BYTES,
            authorities: Vec::new(),
            unread: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The disks of a config after Ignition has replaced it by, or merged into it, those that it names.
    ///
    /// # Errors
    /// One of them is refused.
    pub(super) fn storage(&mut self, config: &Value) -> Result<Value, Refusal> {
        let root = At::root(config);
        for at in root.each("ignition.security.tls.certificateAuthorities.*") {
            let is_here = at.str("source").is_some_and(|url| url.starts_with("data:"));
            let pem = if is_here { self.bytes(&at) } else { None };
            self.authorities.extend(pem.into_iter().flatten().chain(*b"\n"));
        }
        let replacing = root.each("ignition.config.replace");
        if let Some(at) = replacing.iter().find(|at| at.filled("source").is_some()) {
            return self.read(at);
        }
        let list = |key: &str| Some((key.to_owned(), config.get("storage")?.get(key)?.clone()));
        let lists: Map<_, _> =
            ["disks", "raid", "filesystems", "luks"].into_iter().filter_map(list).collect();
        let mut whole = json!({"storage": lists});
        for at in root.each("ignition.config.merge.*") {
            whole = merge(&whole, &self.read(&at)?);
        }
        Ok(whole)
    }

    fn read(&mut self, at: &At<'_>) -> Result<Value, Refusal> {
        let Some(bytes) = self.bytes(at) else {
            self.unread.push(Erased { device: None, key: at.path.clone(), is_table: false });
            return Ok(Value::Null);
        };
        let within = |refusal: Refusal| refusal.within(&at.path);
        if let Some(hash) = at.get("verification").and_then(|hash| hash.filled("hash")) {
            let invalid = |refusal| Refusal { code: Code::Invalid, ..within(refusal) };
            verify_hash(&bytes, hash).map_err(invalid)?;
        }
        let Parsed { config, mut findings, .. } = parse(&bytes).map_err(within)?;
        rules::apply(&config, &mut findings);
        let warnings = findings.into_warnings().map_err(within)?;
        self.warnings.extend(warnings.into_iter().map(|warning| warning.within(&at.path)));
        self.storage(&config).map_err(within)
    }

    /// The config without its compression; `None` if it is elsewhere, malformed or too large.
    fn bytes(&mut self, at: &At<'_>) -> Option<Vec<u8>> {
        let url = at.filled("source")?;
        let mut bytes = if url.starts_with("data:") {
            data_url(url).ok()?
        } else {
            let headers = at.items("httpHeaders");
            let headers = headers.filter_map(|at| Some((at.filled("name")?, at.str("value")?)));
            let headers = headers.collect();
            let authorities = &self.authorities;
            (self.fetch)(&Pointer { key: &at.path, url, headers, authorities })?
        };
        if at.str("compression") == Some("gzip") {
            let packed = std::mem::take(&mut bytes);
            let mut unpacked = MultiGzDecoder::new(&packed[..]).take(self.n_bytes_left as u64);
            // What was unpacked before an error counts, and is no JSON if anything is missing.
            let _ = unpacked.read_to_end(&mut bytes);
        }
        self.n_bytes_left = self.n_bytes_left.saturating_sub(bytes.len() + CONTAINED_BYTES);
        (self.n_bytes_left > 0).then_some(bytes)
    }
}
