//! Reasons to refuse a config, and warnings about one that is accepted.

use std::fmt;

/// Between the place that names a config and the place in that config.
const WITHIN: &str = " → ";

/// Something in an accepted config that the author probably did not mean.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Warning {
    /// Place in the JSON, e.g. `$.systemd.units.0.enable`.
    pub path: String,
    /// Text of the warning, e.g. `unknown key, which Ignition ignores unless only its case is wrong`.
    pub message: String,
}

impl Warning {
    /// The same about a config that another one names at `key`.
    pub(crate) fn within(self, key: &str) -> Self {
        Self { path: format!("{key}{WITHIN}{}", self.path), ..self }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Something in a config that Ignition would refuse.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// Place in the JSON, e.g. `$.storage.files.0.mode`; empty for a digest.
    pub path: String,
    /// The value found, quoted and shortened, e.g. `"0644"`.
    pub found: String,
    /// Description of the expected value.
    pub expected: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{} ", self.path)?;
        }
        write!(f, "is {}, expected {}", self.found, self.expected)
    }
}

/// The kind of a refusal, which has a code of its own in the VIM API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The spec version is missing, unknown, experimental or of Ignition 2.x.
    Version,
    /// The bytes are not an Ignition config, or one that Ignition would refuse.
    Invalid,
    /// The digest of the bytes differs from the expected one, or the expected one is malformed.
    Hash,
}

/// Refusal of a config: its kind and at least one problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its kind.
    pub code: Code,
    /// Faults in the config; at most [`Refusal::MAX_PROBLEMS`].
    pub problems: Vec<Problem>,
    /// Number of further problems.
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

    /// True if the problems are in a config that the given one names.
    pub fn is_within(&self) -> bool {
        self.problems.iter().any(|problem| problem.path.contains(WITHIN))
    }

    /// The same about a config that another one names at `key`.
    pub(crate) fn within(mut self, key: &str) -> Self {
        for problem in &mut self.problems {
            let below = std::mem::take(&mut problem.path);
            let below = if below.is_empty() { "$" } else { &below };
            problem.path = format!("{key}{WITHIN}{below}");
        }
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, is_hash) = match self.code {
            Code::Hash => ("the digest of the Ignition config does not match", true),
            Code::Version | Code::Invalid => ("the Ignition config is refused", false),
        };
        let problems = self.problems.iter().map(|problem| match problem {
            Problem { found, expected, .. } if is_hash => {
                format!("found {found}, expected {expected}")
            }
            problem => problem.to_string(),
        });
        let more = (self.n_more > 0).then(|| format!("and {} more", self.n_more));
        write!(f, "{what}: {}", problems.chain(more).collect::<Vec<_>>().join("; "))
    }
}

impl std::error::Error for Refusal {}
