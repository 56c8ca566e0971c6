//! Times as text: RFC 3339 in reports and bodies, IMF-fixdate (RFC 9110 §5.6.7) in HTTP headers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last second that httpdate writes: that of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

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
    let time = UNIX_EPOCH + Duration::from_secs(seconds.min(LAST_SECOND));
    // httpdate gives its parts only as a whole date: `Sun, 06 Nov 1994 08:49:37 GMT`.
    let date = httpdate::fmt_http_date(time);
    let [_, day, month, year, time, _] = date.split(' ').collect::<Vec<_>>()[..] else {
        return date;
    };
    let month = (1..).zip(MONTHS).find(|(_, name)| *name == month).map_or(0, |(n, _)| n);
    format!("{year}-{month:02}-{day}T{time}")
}

/// Parses an HTTP date, e.g. `Sun, 06 Nov 1994 08:49:37 GMT`; `None` if it is anything else, or if the
/// weekday is not that of the date.
pub fn parse_http_date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text.trim()).ok()
}

#[cfg(test)]
mod tests {
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
        // The middle of each month of 1970.
        for n in 1..=12 {
            let date = date_time(1_209_600 + (n - 1) * 2_629_746);
            assert_eq!(date[..8], format!("1970-{n:02}-"), "{date}");
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
