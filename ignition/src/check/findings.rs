//! Findings of the rules, limited in number.

use super::at::At;
use crate::refusal::{Code, Problem, Refusal, Warning};
use crate::text::shown_url;

/// Maximum number of warnings that are kept.
const MAX_WARNINGS: usize = 50;

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
    pub(super) fn new(minor: u64) -> Self {
        Self { minor, problems: Vec::new(), n_more: 0, warnings: Vec::new() }
    }

    /// Records that `path` holds `found` instead of `expected`.
    pub(super) fn problem(&mut self, path: &str, found: impl Into<String>, expected: &str) {
        let found = found.into();
        // Two rules may notice the same, such as a label that is also a key.
        if self.problems.iter().any(|known| known.path == path && known.found == found) {
            return;
        }
        if self.problems.len() == Refusal::MAX_PROBLEMS {
            self.n_more += 1;
            return;
        }
        let (path, expected) = (path.to_owned(), expected.to_owned());
        self.problems.push(Problem { path, found, expected });
    }

    /// Records a problem with the string at `at`, which is quoted without the secrets of a URL.
    pub(super) fn bad_text(&mut self, at: &At<'_>, expected: &str) {
        self.problem(&at.path, shown_url(at.text()), expected);
    }

    /// Records that the value of `key` is absent or empty.
    pub(super) fn missing(&mut self, at: &At<'_>, key: &str, expected: &str) {
        let found = if at.get(key).is_some() { "empty" } else { "missing" };
        self.problem(&format!("{}.{key}", at.path), found, expected);
    }

    /// Records what Ignition accepts but the author probably did not mean.
    pub(super) fn warning(&mut self, path: &str, message: impl Into<String>) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(Warning { path: path.to_owned(), message: message.into() });
        }
    }

    /// The warnings, unless there is a problem.
    pub(super) fn into_warnings(self) -> Result<Vec<Warning>, Refusal> {
        let Self { problems, n_more, warnings, .. } = self;
        if problems.is_empty() {
            return Ok(warnings);
        }
        Err(Refusal { code: Code::Invalid, problems, n_more })
    }
}
