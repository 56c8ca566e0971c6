//! The progress of a stream: bytes, rate, estimate, and a source that sends nothing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::{info, warn};

use crate::clock::Clock;

/// Minimum interval between reports of progress.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time over which the rate is measured.
const WINDOW: usize = 10;
/// Interval between further reports of a source that still sends nothing.
const STALL_INTERVAL: Duration = Duration::from_mins(1);

/// Counts the bytes of a stream. One thread writes, another one reads.
#[derive(Debug)]
pub(super) struct Meter {
    counts: Mutex<Counts>,
    clock: Arc<dyn Clock>,
}

/// The meter's readings at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    n_bytes: u64,
    total_bytes: Option<u64>,
    /// Since when the stream waits for its source; `None` while coreos-installer is slower.
    waits_since: Option<Instant>,
}

impl Meter {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { counts: Mutex::default(), clock }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The source is asked for the first byte.
    pub(super) fn start(&self) {
        *self.lock() = Counts { waits_since: Some(self.clock.now_outside()), ..Counts::default() };
    }

    /// The source knows the size of the image.
    pub(super) fn set_total(&self, total_bytes: Option<u64>) {
        self.lock().total_bytes = total_bytes;
    }

    /// The source is asked for more.
    pub(super) fn wait(&self) {
        self.lock().waits_since.get_or_insert_with(|| self.clock.now_outside());
    }

    /// `n` bytes arrived.
    pub(super) fn add(&self, n: usize) {
        let mut counts = self.lock();
        counts.n_bytes += n as u64;
        counts.waits_since = None;
    }

    /// No more is expected.
    pub(super) fn stop(&self) {
        self.lock().waits_since = None;
    }

    /// True while the source is being waited for.
    pub(super) fn waits(&self) -> bool {
        self.lock().waits_since.is_some()
    }
}

/// A change that is worth reporting: the percentage of the image, if its size is known, and the message.
pub type Update = (Option<u8>, String);

/// Reads a meter now and then.
#[derive(Debug)]
pub(super) struct Reading {
    /// When bytes were counted, and how many there were then; the oldest first.
    window: VecDeque<(Instant, u64)>,
    /// When progress was last reported, and the bytes then.
    last: Option<(Instant, u64)>,
    stall_notice: Duration,
    /// When the current stall was last reported.
    stall_reported: Option<Instant>,
}

impl Reading {
    pub(super) fn new(stall_notice: Duration) -> Self {
        Self { window: VecDeque::new(), last: None, stall_notice, stall_reported: None }
    }

    /// Returns the change at `now`, and logs a stall and its end; call it often.
    pub(super) fn update(&mut self, meter: &Meter, now: Instant) -> Option<Update> {
        let counts = *meter.lock();
        if let Some(since) = counts.waits_since {
            let waited = now.saturating_duration_since(since);
            let is_due = self
                .stall_reported
                .is_none_or(|at| now.saturating_duration_since(at) >= STALL_INTERVAL);
            if waited >= self.stall_notice && is_due {
                self.stall_reported = Some(now);
                self.window.clear();
                let (waited_s, amount) = (waited.as_secs(), amount(counts));
                let message =
                    format!("no byte of the image has arrived for {waited_s} s, after {amount}");
                warn!("{message}");
                return Some((None, message));
            }
        } else if self.stall_reported.take().is_some() {
            let message = format!("the image arrives again, after {}", amount(counts));
            info!("{message}");
            return Some((None, message));
        }
        let n_bytes = self.last.map_or(0, |(_, n_bytes)| n_bytes);
        let is_soon = self.last.is_some_and(|(at, _)| now.saturating_duration_since(at) < INTERVAL);
        if is_soon || n_bytes == counts.n_bytes {
            return None;
        }
        if n_bytes > counts.n_bytes {
            // The image is being read from its start again.
            self.window.clear();
        }
        self.last = Some((now, counts.n_bytes));
        self.window.push_back((now, counts.n_bytes));
        if self.window.len() > WINDOW {
            self.window.pop_front();
        }
        Some((percent(counts), self.message(counts)))
    }

    /// `412.0 MB of 850.0 MB, 85.2 MB/s, 5 s left`.
    fn message(&self, counts: Counts) -> String {
        let mut message = amount(counts);
        let (Some(first), Some(last)) = (self.window.front(), self.window.back()) else {
            return message;
        };
        let n_ms = last.0.saturating_duration_since(first.0).as_millis();
        let n_bytes = u128::from(last.1.saturating_sub(first.1));
        let rate = (n_bytes * 1000).checked_div(n_ms).unwrap_or_default();
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        if rate > 0 {
            message = format!("{message}, {}/s", megabytes(rate));
            if let Some(total) = counts.total_bytes {
                let left_s = total.saturating_sub(counts.n_bytes) / rate;
                message = format!("{message}, {left_s} s left");
            }
        }
        message
    }
}

fn percent(counts: Counts) -> Option<u8> {
    let total = counts.total_bytes.filter(|total| *total > 0)?;
    let percent = u128::from(counts.n_bytes) * 100 / u128::from(total);
    u8::try_from(percent.min(100)).ok()
}

fn amount(counts: Counts) -> String {
    let of = counts.total_bytes.map(|total| format!(" of {}", megabytes(total)));
    format!("{}{}", megabytes(counts.n_bytes), of.unwrap_or_default())
}

/// `12.3 MB`.
fn megabytes(n_bytes: u64) -> String {
    let tenths = n_bytes / 100_000;
    format!("{}.{} MB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::RealClock;

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn progress_has_bytes_rate_and_estimate_once_a_second() {
        let (meter, start) = (Meter::new(Arc::new(RealClock)), Instant::now());
        let mut reading = Reading::new(Duration::from_secs(15));
        meter.start();
        meter.set_total(Some(100_000_000));
        assert_eq!(reading.update(&meter, start), None, "nothing has arrived");
        let progress = |percent, message: &str| Some((Some(percent), message.to_owned()));
        meter.add(10_000_000);
        assert_eq!(reading.update(&meter, start), progress(10, "10.0 MB of 100.0 MB"));
        meter.add(1);
        assert_eq!(reading.update(&meter, start + Duration::from_millis(999)), None);
        meter.add(19_999_999);
        let expected = progress(30, "30.0 MB of 100.0 MB, 10.0 MB/s, 7 s left");
        assert_eq!(reading.update(&meter, after(start, 2)), expected);
        assert_eq!(reading.update(&meter, after(start, 9)), None, "nothing new");
        meter.start();
        meter.add(5_000_000);
        assert_eq!(reading.update(&meter, after(start, 12)), Some((None, "5.0 MB".to_owned())));
    }

    #[test]
    fn source_that_sends_nothing_is_reported_and_a_slow_installer_is_not() {
        let (meter, start) = (Meter::new(Arc::new(RealClock)), Instant::now());
        let mut reading = Reading::new(Duration::from_secs(15));
        meter.start();
        meter.add(1_000_000);
        assert!(reading.update(&meter, after(start, 1)).is_some());
        assert_eq!(reading.update(&meter, after(start, 100)), None, "coreos-installer is slow");
        meter.wait();
        assert_eq!(reading.update(&meter, after(start, 14)), None);
        let message = reading.update(&meter, after(start, 30)).unwrap().1;
        assert!(message.ends_with("s, after 1.0 MB"), "{message}");
        assert_eq!(reading.update(&meter, after(start, 31)), None);
        let again = reading.update(&meter, after(start, 95)).unwrap().1;
        assert!(again.starts_with("no byte of the image has arrived for "), "{again}");
        meter.add(1);
        let resumed = reading.update(&meter, after(start, 96)).unwrap().1;
        assert_eq!(resumed, "the image arrives again, after 1.0 MB");
    }
}
