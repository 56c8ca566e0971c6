//! The VIM's clock as text: RFC 3339 in UTC, to the millisecond.

use std::time::{SystemTime, UNIX_EPOCH};

/// The time now, e.g. `2026-11-20T10:00:00.123Z`; such texts sort as the times do.
pub(crate) fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    rfc3339(since.as_secs(), since.subsec_millis())
}

/// Days to year, month and day as in the proleptic Gregorian calendar.
fn rfc3339(seconds: u64, milliseconds: u32) -> String {
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that the leap day is the last of a year.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_the_right_day_also_around_leap_days() {
        assert_eq!(rfc3339(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_399, 999), "2000-02-28T23:59:59.999Z");
        assert_eq!(rfc3339(951_782_400, 0), "2000-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(1_795_168_800, 5), "2026-11-20T10:00:00.005Z");
    }
}
