//! How long to wait before the next attempt: exponential back-off with full jitter, or `Retry-After`.

use std::time::{Duration, SystemTime};

use formats::time::parse_http_date;

use crate::clock::Clock;

/// The longest wait that a server may ask for.
pub const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);
/// The shortest wait, so that a failing server is not flooded.
const MIN_WAIT: Duration = Duration::from_millis(250);

/// Why an attempt failed, as far as the next one depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The server could not be reached, or the connection broke.
    Network,
    /// The server cannot respond now: 5xx, 408, 429.
    Unavailable,
    /// The server refuses the request (other 4xx, redirects) or TLS failed. A person must act.
    Refused,
}

impl Why {
    /// First and longest wait.
    fn bounds(self) -> (Duration, Duration) {
        match self {
            Self::Network => (Duration::from_secs(1), Duration::from_secs(30)),
            Self::Unavailable => (Duration::from_secs(2), Duration::from_mins(1)),
            Self::Refused => (Duration::from_secs(30), Duration::from_mins(5)),
        }
    }
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// What kind of failure.
    pub why: Why,
    /// What happened and, if a person must act, what to do: one line.
    pub message: String,
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
    /// The HTTP status, if there was a response.
    pub status: Option<u16>,
}

impl Failed {
    /// A server that wants to be asked again later.
    #[must_use]
    pub fn unavailable(message: String) -> Self {
        Self { why: Why::Unavailable, ..Self::network(message) }
    }

    /// A failure below HTTP.
    #[must_use]
    pub fn network(message: String) -> Self {
        Self { why: Why::Network, message, retry_after: None, status: None }
    }
}

/// Counts consecutive failures.
#[derive(Debug, Clone, Copy, Default)]
pub struct Backoff {
    n_failed: u32,
}

impl Backoff {
    /// How long to wait after another failure.
    ///
    /// At least as long as the server asked for, plus up to a tenth of that, so that a fleet does not return all at once.
    pub fn wait(&mut self, failed: &Failed, clock: &dyn Clock) -> Duration {
        let (base, cap) = failed.why.bounds();
        let ceiling = base.saturating_mul(1 << self.n_failed.min(16)).min(cap);
        self.n_failed = self.n_failed.saturating_add(1);
        match failed.retry_after {
            Some(asked) => {
                let asked = asked.min(MAX_RETRY_AFTER);
                asked + part(asked / 10, clock.random()).max(MIN_WAIT)
            }
            // A person must act before a refused request can succeed, so half of the wait is fixed.
            None if failed.why == Why::Refused => ceiling / 2 + part(ceiling / 2, clock.random()),
            None => part(ceiling, clock.random()).max(MIN_WAIT),
        }
    }

    /// The number of consecutive failures.
    #[must_use]
    pub fn n_failed(&self) -> u32 {
        self.n_failed
    }

    /// Starts again after a success.
    pub fn reset(&mut self) {
        self.n_failed = 0;
    }
}

/// `duration` times `random / 2³²`.
fn part(duration: Duration, random: u32) -> Duration {
    let nanos = duration.as_nanos().saturating_mul(u128::from(random)) >> 32;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Parses `Retry-After`: seconds or an HTTP date; at most an hour, `None` if it is neither.
#[must_use]
pub fn parse_retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // A number that overflows is longer than any wait that is granted.
        let seconds = text.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
    }
    let date = parse_http_date(text)?;
    Some(date.duration_since(now).unwrap_or_default().min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::signals::Stop;

    #[derive(Debug)]
    struct Fixed(u32);

    impl Clock for Fixed {
        fn now(&self) -> Instant {
            Instant::now()
        }
        fn time_of_day(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH
        }
        fn sleep(&self, _: Duration, _: &Stop) {}
        fn random(&self) -> u32 {
            self.0
        }
    }

    fn failed(why: Why, retry_after: Option<u64>) -> Failed {
        Failed {
            why,
            message: String::new(),
            retry_after: retry_after.map(Duration::from_secs),
            status: None,
        }
    }

    #[test]
    fn waits_grow_to_their_cap_and_are_never_zero() {
        let (mut longest, mut shortest) = (Backoff::default(), Backoff::default());
        let mut last = Duration::ZERO;
        for _ in 0..40 {
            let long = longest.wait(&failed(Why::Network, None), &Fixed(u32::MAX));
            let short = shortest.wait(&failed(Why::Network, None), &Fixed(0));
            assert!(long >= last && long <= Duration::from_secs(30));
            assert_eq!(short, MIN_WAIT);
            last = long;
        }
        assert!(last > Duration::from_secs(29));
    }

    #[test]
    fn retry_after_is_the_shortest_wait_and_capped_at_an_hour() {
        let mut backoff = Backoff::default();
        for random in [0, u32::MAX] {
            let wait = backoff.wait(&failed(Why::Unavailable, Some(120)), &Fixed(random));
            assert!(wait > Duration::from_mins(2) && wait <= Duration::from_secs(132));
        }
        let wait = backoff.wait(&failed(Why::Unavailable, Some(1 << 40)), &Fixed(0));
        assert!(wait < Duration::from_secs(3700));
    }

    #[test]
    fn a_refused_request_slows_down() {
        let wait = Backoff::default().wait(&failed(Why::Refused, None), &Fixed(0));
        assert_eq!(wait, Duration::from_secs(15));
    }

    #[test]
    fn retry_after_is_parsed_in_both_forms() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (text, expected) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("99999999999999999999999", Some(3600)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sat, 06 Nov 1993 08:50:37 GMT", Some(0)),
            ("Sat, 06 Nov 2094 08:50:37 GMT", Some(3600)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(parse_retry_after(text, now), expected.map(Duration::from_secs), "{text:?}");
        }
    }
}
