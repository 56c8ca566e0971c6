//! Checks an Ignition config that a VIM returned, before any disk is touched.
//!
//! `coreos-installer` only checks late that a config is JSON (coreos-installer `src/install.rs`), and Ignition on the
//! installed system parses it after the reboot. A config that Ignition refuses leaves the node in its emergency shell,
//! with the old disk overwritten. So everything that Ignition would refuse is refused here.
//!
//! The types and the exact versions come from `ignition-config`, which detects wrong types and unknown keys. The rules
//! that Ignition applies beyond the types (`Validate` functions of `config/v3_*/types/*.go`, specification
//! `docs/configuration-v3_*.md`) are in the modules below, and a test compares them, case by case, with the output of the
//! real `ignition-validate`.
//!
//! Some rules are stricter than Ignition's, because such a config would fail at the boot: a hash must be hexadecimal, a path
//! has at most 4095 bytes (`PATH_MAX`), nothing is below a file, the name of a unit has no slash, users and groups have
//! names, links have targets and merged configs have sources in every version, a key occurs once in an object and in its
//! exact case, and a list contains no null.

mod at;
mod disks;
mod effects;
mod findings;
mod later;
mod nodes;
mod parse;
mod place;
mod pointers;
mod rules;
mod source;
mod units;

use at::At;
pub use effects::Erased;
use formats::digest::sha512;
pub use parse::MAX_MINOR;
use parse::Parsed;
use pointers::Reader;
pub use pointers::{Fetch, Pointer};

use crate::refusal::{Code, Refusal, Warning};

/// Largest config, in bytes.
pub const MAX_CONFIG_BYTES: usize = 8 * 1024 * 1024;

/// A config that Ignition can apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Spec version, e.g. `3.4.0`. Ignition on the installed system must support it.
    pub version: String,
    /// SHA-512 of the bytes as given, e.g. for `coreos-installer install --ignition-hash`.
    pub sha512: String,
    /// True if Ignition may need the network for this config: it fetches something, or contains another config.
    pub may_fetch: bool,
    /// Settings that Ignition would accept but the author probably did not intend; unknown keys first.
    pub warnings: Vec<Warning>,
    /// The devices whose content the first boot destroys, also by configs in data URLs that this one contains.
    pub erased: Vec<Erased>,
    /// Why no one can log in on the installed system; `None` if someone may.
    pub lock_out: Option<&'static str>,
}

/// Checks that `bytes` is an Ignition config of spec 3.0.0 to 3.6.0 that Ignition would apply.
///
/// Nothing is fetched: only the form of sources is checked.
///
/// # Errors
/// A [`Refusal`] with [`Code::Version`] if the spec version is not one of those, with [`Code::Hash`] if a config in a data URL
/// has another digest than it says, and with [`Code::Invalid`] for everything else; it contains all problems of the config,
/// not only the first.
pub fn check(bytes: &[u8]) -> Result<Checked, Refusal> {
    check_with(bytes, &mut |_| None)
}

/// The same with the configs that this one names by their addresses, as far as `fetch` returns them.
///
/// # Errors
/// As for [`check()`]. The path of a problem in another config begins with the place that names it.
pub fn check_with(bytes: &[u8], fetch: Fetch<'_>) -> Result<Checked, Refusal> {
    if bytes.len() > MAX_CONFIG_BYTES {
        let expected = format!("at most {MAX_CONFIG_BYTES} bytes");
        return Err(Refusal::new(Code::Invalid, "$", format!("{} bytes", bytes.len()), expected));
    }
    let Parsed { version, config, mut findings } = parse::parse(bytes)?;
    rules::apply(&config, &mut findings);
    let mut warnings = findings.into_warnings()?;
    let mut reader = Reader::new(fetch);
    let storage = reader.storage(&config)?;
    warnings.append(&mut reader.warnings);
    Ok(Checked {
        version,
        warnings,
        may_fetch: source::may_fetch(&config),
        erased: [reader.unread, effects::erased(&storage)].concat(),
        lock_out: effects::lock_out(&At::root(&config)),
        sha512: sha512(bytes),
    })
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
