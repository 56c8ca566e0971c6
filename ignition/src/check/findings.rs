//! What the rules found, in the order of the document and limited in number.

use std::fmt;

use super::at::At;
use super::{Checked, Code, Refusal, Warning};
use crate::text::shown;

/// How many warnings are kept.
const MAX_WARNINGS: usize = 50;

/// Something in a config that Ignition would refuse.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// Where in the JSON, e.g. `$.storage.files.0.mode`; empty for a digest.
    pub path: String,
    /// What was found, quoted and shortened, e.g. `"0644"`.
    pub found: String,
    /// What was expected, in words.
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

/// Collects problems and warnings while the rules walk a config.
#[derive(Debug)]
pub(super) struct Findings {
    /// Minor spec version: 4 for 3.4.0.
    pub(super) minor: u64,
    problems: Vec<Problem>,
    n_more: usize,
    warnings: Vec<Warning>,
}

impl Findings {
    pub(super) fn new(minor: u64, warnings: Vec<Warning>) -> Self {
        Self { minor, problems: Vec::new(), n_more: 0, warnings }
    }

    /// Records that `path` holds `found` instead of `expected`.
    pub(super) fn problem(&mut self, path: &str, found: impl Into<String>, expected: &str) {
        if self.problems.len() == Refusal::MAX_PROBLEMS {
            self.n_more += 1;
            return;
        }
        let (found, expected) = (found.into(), expected.to_owned());
        self.problems.push(Problem { path: path.to_owned(), found, expected });
    }

    /// Records a problem with the string at `at`, which is quoted.
    pub(super) fn bad_text(&mut self, at: &At<'_>, expected: &str) {
        self.problem(&at.path, shown(at.text().unwrap_or_default()), expected);
    }

    /// Records what Ignition accepts but the author probably did not mean.
    pub(super) fn warning(&mut self, path: &str, message: impl Into<String>) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(Warning { path: path.to_owned(), message: message.into() });
        }
    }

    pub(super) fn into_result(
        self,
        version: String,
        may_fetch: bool,
        bytes: &[u8],
    ) -> Result<Checked, Refusal> {
        let Self { problems, n_more, warnings, .. } = self;
        if problems.is_empty() {
            let sha512 = crate::digest::sha512(bytes);
            return Ok(Checked { version, sha512, may_fetch, warnings });
        }
        Err(Refusal { code: Code::Invalid, problems, n_more })
    }
}
