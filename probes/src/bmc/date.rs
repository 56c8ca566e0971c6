//! Times of a management controller as dates.

/// Seconds since 1970 as `YYYY-MM-DDThh:mm:ss`.
pub(super) fn date_time(seconds: u32) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (mut year, mut day) = (1970, days);
    let is_leap = |year: u32| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    while day >= 365 + u32::from(is_leap(year)) {
        day -= 365 + u32::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u32::from(is_leap(year));
    let mut month = 1;
    for n_days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < n_days {
            break;
        }
        day -= n_days;
        month += 1;
    }
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{:02}", day + 1, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_written_as_dates() {
        assert_eq!(date_time(0), "1970-01-01T00:00:00");
        assert_eq!(date_time(951_782_400), "2000-02-29T00:00:00");
        assert_eq!(date_time(1_767_225_599), "2025-12-31T23:59:59");
        assert_eq!(date_time(u32::MAX - 1), "2106-02-07T06:28:14");
    }
}
