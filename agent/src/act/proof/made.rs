//! The checks of a proof while they are made, so that those that were made count if the next one never ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::check;
use crate::act::{Check, CheckName, Compared, Proof};

/// The checks that were made so far, and the one that is being made.
#[derive(Debug, Clone, Default)]
pub(super) struct Made(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    checks: Vec<Check>,
    current: Option<CheckName>,
    compared: Option<Compared>,
}

impl Made {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A check begins.
    pub(super) fn begin(&self, name: CheckName) {
        self.lock().current = Some(name);
    }

    /// Makes a check: `work` returns what it found.
    pub(super) fn make(
        &self,
        name: CheckName,
        expected: &str,
        work: impl FnOnce() -> Result<String, String>,
    ) {
        self.begin(name);
        self.push(check(name, expected, work()));
    }

    /// A check was made.
    pub(super) fn push(&self, check: Check) {
        self.lock().checks.push(check);
    }

    /// The current check could not be made.
    pub(super) fn fail(&self, why: &str) {
        let mut state = self.lock();
        let name = state.current.unwrap_or(CheckName::PartitionTable);
        let failed = check(name, "a disk that can be read", Err(why.to_owned()));
        state.checks.push(failed);
    }

    /// The content of the image was compared, and is the same.
    pub(super) fn set_compared(&self, compared: Compared) {
        self.lock().compared = Some(compared);
    }

    /// Every check that was made.
    pub(super) fn proof(&self) -> Proof {
        let state = self.lock();
        Proof { checks: state.checks.clone(), compared: state.compared }
    }
}
