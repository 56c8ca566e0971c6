//! Computes the wait before the next attempt: exponential back-off with full jitter, or `Retry-After`.

use std::time::{Duration, SystemTime};

use formats::text::is_number;
use formats::time::parse_http_date;

use crate::clock::Clock;

/// The longest wait that a server may ask for.
pub const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);
/// Time to wait for an instruction if the VIM does not specify it, or specifies 0.
const DEFAULT_POLL: Duration = Duration::from_secs(10);
/// Nodes that were given the same date return over at least this time.
const DATE_SPREAD: Duration = Duration::from_secs(10);
/// The shortest wait, so that a failing server is not flooded.
const MIN_WAIT: Duration = Duration::from_millis(250);

/// Why an attempt failed, as far as the next one depends on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Why {
    /// The server could not be reached, or the connection broke.
    #[default]
    Network,
    /// The server cannot respond now, see [`is_transient`].
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

/// True if a status says that the server cannot respond now, and may respond later. 501 and 505 do not pass: the server
/// does not know the method, or the version of HTTP.
pub fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599) && !matches!(status, 501 | 505)
}

/// A failed attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failed {
    /// The kind of failure.
    pub why: Why,
    /// A description and, if a person must act, advice: one line.
    pub message: String,
    /// The wait that the server asks for.
    pub retry_after: Option<RetryAfter>,
    /// The HTTP status, if there was a response.
    pub status: Option<u16>,
    /// True if the server may have received the request, although there was no response.
    pub may_have_arrived: bool,
}

impl Failed {
    /// A server that wants to be asked again later.
    pub fn unavailable(message: String) -> Self {
        Self { why: Why::Unavailable, ..Self::network(message) }
    }

    /// A failure below HTTP.
    pub fn network(message: String) -> Self {
        Self { message, ..Self::default() }
    }
}

/// Counts consecutive failures.
#[derive(Debug, Clone, Copy, Default)]
pub struct Backoff {
    n_failed: u32,
}

impl Backoff {
    /// Returns the wait after another failure.
    ///
    /// At least as long as the server asked for, plus up to a tenth of that, so that a fleet does not return all at once.
    pub fn wait(&mut self, failed: &Failed, clock: &dyn Clock) -> Duration {
        let (base, cap) = failed.why.bounds();
        let ceiling = base.saturating_mul(1 << self.n_failed.min(16)).min(cap);
        self.n_failed = self.n_failed.saturating_add(1);
        let own = match failed.why {
            // A person must act before a refused request can succeed, so half of the wait is fixed.
            Why::Refused => ceiling / 2 + part(ceiling / 2, clock.random()),
            _ => part(ceiling, clock.random()).max(MIN_WAIT),
        };
        // "Now" from a server that has just failed is no reason to flood it.
        failed.retry_after.map_or(own, |asked| asked.spread(clock).max(own))
    }

    /// The number of consecutive failures.
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

/// The wait that a server asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryAfter {
    wait: Duration,
    /// True if it gave a moment, which is the same for every node that it asked to wait.
    is_date: bool,
}

impl RetryAfter {
    /// A wait in seconds, of at most an hour.
    pub fn seconds(seconds: u64) -> Self {
        Self { wait: Duration::from_secs(seconds).min(MAX_RETRY_AFTER), is_date: false }
    }

    /// Parses the header `Retry-After`: seconds or an HTTP date; at most an hour, `None` if it is neither.
    pub fn parse(text: &str, now: SystemTime) -> Option<Self> {
        let text = text.trim();
        if is_number(text) {
            // A number that overflows is longer than any wait that is granted.
            return Some(Self::seconds(text.parse().unwrap_or(u64::MAX)));
        }
        let date = parse_http_date(text)?;
        let wait = date.duration_since(now).unwrap_or_default().min(MAX_RETRY_AFTER);
        Some(Self { wait, is_date: true })
    }

    /// The wait, plus up to a tenth of it so that a fleet does not return all at once. A fleet that got a date would
    /// return even if its requests were spread, so a date is spread over at least `DATE_SPREAD`.
    pub fn spread(self, clock: &dyn Clock) -> Duration {
        let tenth = self.wait / 10;
        let spread = if self.is_date { tenth.max(DATE_SPREAD) } else { tenth };
        self.wait + part(spread, clock.random())
    }

    /// Returns the wait before the next request for the instruction: "now" becomes `DEFAULT_POLL`.
    pub fn poll(asked: Option<Self>, clock: &dyn Clock) -> Duration {
        match asked.filter(|asked| !asked.wait.is_zero()) {
            Some(asked) => asked.spread(clock),
            None => Self { wait: DEFAULT_POLL, is_date: false }.spread(clock),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::VirtualClock;

    /// A clock with this random number.
    fn fixed(random: u32) -> VirtualClock {
        VirtualClock::new(random, |_| {})
    }

    fn failed(why: Why, retry_after: Option<u64>) -> Failed {
        let retry_after = retry_after.map(RetryAfter::seconds);
        Failed { why, retry_after, ..Failed::network(String::new()) }
    }

    #[test]
    fn waits_grow_to_their_cap_and_are_never_zero() {
        let (mut longest, mut shortest) = (Backoff::default(), Backoff::default());
        let mut last = Duration::ZERO;
        for _ in 0..40 {
            let long = longest.wait(&failed(Why::Network, None), &fixed(u32::MAX));
            let short = shortest.wait(&failed(Why::Network, None), &fixed(0));
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
            let wait = backoff.wait(&failed(Why::Unavailable, Some(120)), &fixed(random));
            assert!(wait >= Duration::from_mins(2) && wait <= Duration::from_secs(132));
        }
        let wait = backoff.wait(&failed(Why::Unavailable, Some(1 << 40)), &fixed(0));
        assert!(wait < Duration::from_secs(3700));
    }

    #[test]
    fn a_refused_request_slows_down() {
        let wait = Backoff::default().wait(&failed(Why::Refused, None), &fixed(0));
        assert_eq!(wait, Duration::from_secs(15));
    }

    #[test]
    fn retry_after_of_zero_or_in_the_past_keeps_the_floor_of_the_back_off() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for text in ["0", "Sat, 06 Nov 1993 08:50:37 GMT"] {
            let asked = RetryAfter::parse(text, now);
            let (mut backoff, mut own) = (Backoff::default(), Backoff::default());
            for _ in 0..10 {
                let plain = failed(Why::Unavailable, None);
                let wait = own.wait(&plain, &fixed(u32::MAX));
                let now = Failed { retry_after: asked, ..plain };
                assert!(backoff.wait(&now, &fixed(u32::MAX)) >= wait, "{text}");
            }
            assert!(RetryAfter::poll(asked, &fixed(0)) >= Duration::from_secs(10) || text != "0");
        }
    }

    #[test]
    fn nodes_that_were_given_the_same_date_do_not_return_together() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let date = RetryAfter::parse("Sun, 06 Nov 1994 08:49:47 GMT", now).unwrap();
        let spread = date.spread(&fixed(u32::MAX)).checked_sub(date.spread(&fixed(0))).unwrap();
        assert!(spread > Duration::from_secs(9), "{spread:?}");
    }

    #[test]
    fn polls_have_jitter() {
        let asked = Some(RetryAfter::seconds(30));
        let (least, most) =
            (RetryAfter::poll(asked, &fixed(0)), RetryAfter::poll(asked, &fixed(u32::MAX)));
        assert!(least == Duration::from_secs(30) && most > Duration::from_millis(32_900));
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
            let wait = RetryAfter::parse(text, now).map(|asked| asked.wait.as_secs());
            assert_eq!(wait, expected, "{text:?}");
        }
    }
}
