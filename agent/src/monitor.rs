//! A value that threads change, and whose changes others wait for.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Clock;

/// The value, and the threads that wait for its changes.
#[derive(Debug, Default)]
pub(crate) struct Monitor<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Monitor<T> {
    /// Locks the value. A change that others wait for is made with [`Monitor::change`].
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the value and wakes the threads that wait.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Waits for the next change, for at most `limit`.
    pub(crate) fn wait<'a>(&self, value: MutexGuard<'a, T>, limit: Duration) -> MutexGuard<'a, T> {
        self.changed.wait_timeout(value, limit).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits while the condition holds, for at most `limit` by the clock.
    pub(crate) fn wait_while(
        &self,
        clock: &dyn Clock,
        limit: Duration,
        condition: impl Fn(&T) -> bool,
    ) -> MutexGuard<'_, T> {
        let end = clock.now().checked_add(limit);
        let mut value = self.lock();
        while condition(&value) {
            let left = end.map_or(limit, |end| end.saturating_duration_since(clock.now()));
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(value, left);
            let (guard, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            value = guard;
            // The clock of a test may not advance by itself.
            if waited.timed_out() {
                break;
            }
        }
        value
    }
}
