//! Checks an Ignition config that a VIM returned, before any disk is touched.
//!
//! `coreos-installer` only checks late that a config is JSON (coreos-installer `src/install.rs`), and Ignition on the
//! installed system parses it after the reboot. A config that Ignition refuses leaves the node in its emergency shell,
//! with the old disk overwritten. So everything that Ignition would refuse is refused here.
//!
//! The types and the exact versions come from `ignition-config`, which detects wrong types and unknown keys. The rules that Ignition applies beyond the types (`Validate` functions
//! of `config/v3_*/types/*.go`, specification `docs/configuration-v3_*.md`) are in the modules below,
//! and a test compares them, case by case, with the output of the real `ignition-validate`.
//!
//! Some rules are stricter than Ignition's, because such a config would fail later or not do what it says: a hash must be
//! hexadecimal, a path has at most 4095 bytes (`PATH_MAX`), nothing is below a file, no file has the path of a unit,
//! users and groups have names, links have targets and merged configs have sources in every version, a key occurs once
//! in an object and in its exact case, and a list contains no null.

mod at;
mod data_url;
mod disks;
mod findings;
mod later;
mod place;
mod schema;
mod source;
mod storage;
mod systemd;
mod top;

use std::fmt;

use findings::Findings;
pub use findings::Problem;
pub(crate) use source::url_form;

/// Largest config, in bytes.
pub const MAX_CONFIG_BYTES: usize = 8 * 1024 * 1024;

/// A config that Ignition can apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Spec version, e.g. `3.4.0`. Ignition on the installed system must support it.
    pub version: String,
    /// SHA-512 of the bytes as given, e.g. for `coreos-installer install --ignition-hash`.
    pub sha512: String,
    /// Whether Ignition may need the network for this config: it fetches something, or contains another config.
    pub may_fetch: bool,
    /// What Ignition would accept but the author probably did not mean; unknown keys first.
    pub warnings: Vec<Warning>,
}

/// Something in an accepted config that the author probably did not mean.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Warning {
    /// Where, e.g. `$.systemd.units.0.enable`.
    pub path: String,
    /// What, e.g. `unknown key, which Ignition ignores unless only its case is wrong`.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Stable code of a refusal, part of the VIM API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The spec version is missing, unknown, experimental or of Ignition 2.x.
    Version,
    /// The bytes are not an Ignition config, or one that Ignition would refuse.
    Invalid,
    /// The digest of the bytes differs from the expected one, or the expected one is malformed.
    Hash,
}

impl Code {
    /// The code as in events and results, e.g. `IGNITION_VERSION`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Version => "IGNITION_VERSION",
            Self::Invalid => "IGNITION_INVALID",
            Self::Hash => "IGNITION_HASH",
        }
    }
}

/// Why a config is refused: a stable code and at least one problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Stable code.
    pub code: Code,
    /// What is wrong, in the order of the document; at most [`Refusal::MAX_PROBLEMS`].
    pub problems: Vec<Problem>,
    /// How many more problems were found.
    pub n_more: usize,
}

impl Refusal {
    /// Most problems that are kept; more would only hide the first.
    pub const MAX_PROBLEMS: usize = 20;

    pub(crate) fn new(
        code: Code,
        path: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        let (path, found, expected) = (path.to_owned(), found.into(), expected.into());
        Self { code, problems: vec![Problem { path, found, expected }], n_more: 0 }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = match self.code {
            Code::Hash => "the digest of the Ignition config does not match",
            Code::Version | Code::Invalid => "the Ignition config is refused",
        };
        f.write_str(subject)?;
        for (i, problem) in self.problems.iter().enumerate() {
            f.write_str(if i == 0 { ": " } else { "; " })?;
            match self.code {
                Code::Hash => write!(f, "found {}, expected {}", problem.found, problem.expected)?,
                Code::Version | Code::Invalid => write!(f, "{problem}")?,
            }
        }
        if self.n_more > 0 {
            write!(f, "; and {} more", self.n_more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

/// Checks that `bytes` is an Ignition config of spec 3.0.0 to 3.6.0 that Ignition would apply.
///
/// Nothing is fetched: only the form of sources is checked.
///
/// # Errors
/// A [`Refusal`] with [`Code::Version`] if the spec version is not one of those, and with [`Code::Invalid`] for
/// everything else; it contains all problems, not only the first.
pub fn check(bytes: &[u8]) -> Result<Checked, Refusal> {
    if bytes.len() > MAX_CONFIG_BYTES {
        let expected = format!("at most {MAX_CONFIG_BYTES} bytes");
        return Err(Refusal::new(Code::Invalid, "$", format!("{} bytes", bytes.len()), expected));
    }
    let parsed = schema::parse(bytes)?;
    let mut findings = Findings::new(parsed.minor, parsed.warnings);
    top::rules(&parsed.config, &mut findings);
    findings.into_result(parsed.version, source::may_fetch(&parsed.config), bytes)
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
