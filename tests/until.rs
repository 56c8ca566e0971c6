//! Waiting for what another thread or process does.

use std::time::{Duration, Instant};

/// Far more than anything needs that a test waits for.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);

/// Waits until there is something.
#[track_caller]
pub(crate) fn until<T>(what: &str, find: impl FnMut() -> Option<T>) -> T {
    until_within(what, LIMIT, find)
}

/// Waits until there is something, for this time at most.
#[track_caller]
pub(crate) fn until_within<T>(
    what: &str,
    limit: Duration,
    mut find: impl FnMut() -> Option<T>,
) -> T {
    let (started, mut pause) = (Instant::now(), Duration::from_millis(2));
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(started.elapsed() < limit, "waited in vain for {what}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}
