//! The VIM's clock as text: RFC 3339 in UTC, to the millisecond.

use std::time::SystemTime;

/// The time now, e.g. `2026-11-20T10:00:00.123Z`; such texts sort as the times do.
pub(crate) fn now() -> String {
    formats::time::rfc3339_ms(SystemTime::now())
}
