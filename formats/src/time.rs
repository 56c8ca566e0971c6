//! Times as text: RFC 3339 in reports and bodies, IMF-fixdate (RFC 9110 §5.6.7) in HTTP headers.

use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_PER_DAY: u64 = 86_400;

/// A time as RFC 3339 in UTC with whole seconds, e.g. `2026-11-20T10:00:00Z`.
pub fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    format!("{}Z", date_time(seconds))
}

/// A time as RFC 3339 in UTC to the millisecond, e.g. `2026-11-20T10:00:00.123Z`; such texts sort as the
/// times do.
pub fn rfc3339_ms(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:03}Z", date_time(since.as_secs()), since.subsec_millis())
}

/// Seconds since 1970 as `YYYY-MM-DDThh:mm:ss`, of a clock whose time zone is not known.
pub fn date_time(seconds: u64) -> String {
    let (year, month, day) = civil_from_days(seconds / SECONDS_PER_DAY);
    let rest = seconds % SECONDS_PER_DAY;
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// Parses an HTTP date, e.g. `Sun, 06 Nov 1994 08:49:37 GMT`; `None` if it is anything else, or if the
/// weekday is not that of the date.
pub fn parse_http_date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text.trim()).ok()
}

/// Year, month and day of the day that is `days` after 1970-01-01.
///
/// Counts in eras of 400 years that begin on 1 March, so that the leap day ends a year. httpdate does
/// the same, but gives the result only as a whole HTTP date.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn times_are_written_as_rfc_3339_also_around_leap_days() {
        assert_eq!(rfc3339(at(0)), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(at(951_782_399)), "2000-02-28T23:59:59Z");
        assert_eq!(rfc3339(at(951_782_400)), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(at(1_795_168_800)), "2026-11-20T10:00:00Z");
        let time = at(1_795_168_800) + Duration::from_millis(5);
        assert_eq!(rfc3339_ms(time), "2026-11-20T10:00:00.005Z");
        assert_eq!(date_time(1_767_225_599), "2025-12-31T23:59:59");
        assert_eq!(date_time(u64::from(u32::MAX - 1)), "2106-02-07T06:28:14");
    }

    #[test]
    fn dates_agree_with_those_of_httpdate() {
        for days in (0..80_000).step_by(7) {
            let time = at(days * SECONDS_PER_DAY + 3661);
            let expected = httpdate::fmt_http_date(time);
            let (year, month, day) = civil_from_days(days);
            let month = [
                "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
            ][usize::try_from(month - 1).unwrap()];
            let found = format!("{day:02} {month} {year} 01:01:01 GMT");
            assert_eq!(expected.split_once(", ").unwrap().1, found);
        }
    }

    #[test]
    fn an_http_date_is_read_to_the_second() {
        assert_eq!(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(at(784_111_777)));
        assert_eq!(parse_http_date("Thu, 29 Feb 2024 00:00:00 GMT"), Some(at(1_709_164_800)));
    }

    #[test]
    fn anything_else_is_no_http_date() {
        for text in [
            "",
            "120",
            "Sun, 06 Nov 1994",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 99 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 99999999999999999999 08:49:37 GMT",
            "Sun, 06 Nov 1900 08:49:37 GMT",
        ] {
            assert_eq!(parse_http_date(text), None, "{text}");
        }
    }
}
