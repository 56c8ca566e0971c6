//! Checks an Ignition config that a VIM returned, before any disk is touched.
//!
//! `coreos-installer` looks at a config late and only asks whether it is JSON (coreos-installer
//! `src/install.rs`), and the Ignition on the installed system looks at it after the reboot. A config
//! that it refuses leaves a node in its emergency shell with its old disk gone. So everything that
//! Ignition would refuse is refused here.
//!
//! The types and the exact versions come from `ignition-config`, which says what is of the wrong type
//! and which keys nothing reads. The rules that Ignition applies beyond the types (`Validate` functions
//! of `config/v3_*/types/*.go`, specification `docs/configuration-v3_*.md`) are in the modules below,
//! and a test compares them, case by case, with the answers of the real `ignition-validate`.
//! Stricter than Ignition, because such a config can only fail later or does not mean what it says: a
//! hash must be hexadecimal, a path has at most 4095 bytes (`PATH_MAX`), nothing lies below a file, no
//! file stands where a unit is written, users and groups have names, links have
//! targets and merged configs have sources in every version, a key stands once in an object and
//! is spelled in its own case, a list has no null in it.

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

/// Largest config that is looked at, in bytes.
pub const MAX_CONFIG_BYTES: usize = 8 * 1024 * 1024;

/// What a config that can be applied says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Spec version, e.g. `3.4.0`. The Ignition of the installed system must know it.
    pub version: String,
    /// SHA-512 of the bytes as given, e.g. for `coreos-installer install --ignition-hash`.
    pub sha512: String,
    /// What Ignition would accept but is probably not meant: keys that nothing reads first.
    pub warnings: Vec<Warning>,
}

/// Something in an accepted config that is probably not what its author meant.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Warning {
    /// Where, e.g. `$.systemd.units.0.enable`.
    pub path: String,
    /// What, e.g. `unknown key`.
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
    /// The bytes are no Ignition config, or one that Ignition would refuse.
    Invalid,
    /// The digest of the bytes is not the expected one, or the expected one has no known form.
    Hash,
}

impl Code {
    /// The code as it stands in events and results, e.g. `IGNITION_VERSION`.
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
    /// How many further problems were found and not kept.
    pub n_more: usize,
}

impl Refusal {
    /// How many problems are kept; more would only bury the first.
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
            Code::Hash => "the digest of the Ignition config is not as expected",
            Code::Version | Code::Invalid => "the Ignition config is refused",
        };
        f.write_str(subject)?;
        for (i, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if i == 0 { ": " } else { "; " })?;
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
/// Nothing is fetched: sources are checked by their form only.
///
/// # Errors
/// A [`Refusal`] with [`Code::Version`] when the spec version is not one of those, and with
/// [`Code::Invalid`] for everything else; all problems found are in it, not only the first.
pub fn check(bytes: &[u8]) -> Result<Checked, Refusal> {
    if bytes.len() > MAX_CONFIG_BYTES {
        let expected = format!("at most {MAX_CONFIG_BYTES} bytes");
        return Err(Refusal::new(Code::Invalid, "$", format!("{} bytes", bytes.len()), expected));
    }
    let parsed = schema::parse(bytes)?;
    let mut findings = Findings::new(parsed.minor, parsed.warnings);
    top::rules(&parsed.config, &mut findings);
    findings.into_result(parsed.version, bytes)
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
