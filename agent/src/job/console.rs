//! Console lines of a node that is quiet: its identity, its addresses, the reason for the wait, and its start; or its
//! work, and for how long.
//!
//! For a wait one line when it has lasted some seconds, and one each minute. Whatever the job does, no more than half a
//! minute passes without a line of any part of the program.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant, SystemTime};

use formats::time::rfc3339;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use probes::guard;
use tracing::{info, warn};

use crate::act::Stage;
use crate::clean::RecentLog;
use crate::clock::Clock;
use crate::monitor::Monitor;

/// Shorter waits are not worth a line.
const FIRST_LINE: Duration = Duration::from_secs(3);
/// Interval between further lines of a wait.
const INTERVAL: Duration = Duration::from_mins(1);
/// The longest silence of the whole program, a little less than the half minute that is promised.
const SILENCE: Duration = Duration::from_secs(28);
/// Interval between lines that are warnings, so that a node that waits for hours does not look hung with `--log-level
/// warn`.
const WARNING_INTERVAL: Duration = Duration::from_mins(5);
/// Stack of the thread that writes the lines.
const STACK_BYTES: usize = 256 << 10;
/// Most addresses in a line.
const MAX_ADDRESSES: usize = 8;

/// Writes the lines, on a thread that the first wait or work starts; dropping it ends them.
#[derive(Debug)]
pub(crate) struct Console {
    clock: Arc<dyn Clock>,
    log: RecentLog,
    state: Arc<Monitor<State>>,
    thread: Once,
}

#[derive(Debug, Default)]
struct State {
    activity: Option<Activity>,
    is_ending: bool,
}

/// What the node does or waits for.
#[derive(Debug, Clone)]
struct Activity {
    what: String,
    /// The name of the node, if it waits.
    waiting: Option<String>,
    percent: Option<u8>,
    since: SystemTime,
    started: Instant,
    /// When the last line and the last warning were written for it.
    said: Option<Instant>,
    warned: Instant,
}

impl Activity {
    /// When the next line is due, if the last one of the whole program was written at `last`.
    fn due(&self, last: Option<Instant>) -> Instant {
        let quiet = [Some(self.started), self.said, last].into_iter().flatten().max();
        let due = quiet.unwrap_or(self.started) + SILENCE;
        if self.waiting.is_none() {
            return due;
        }
        due.min(self.said.map_or(self.started + FIRST_LINE, |said| said + INTERVAL))
    }

    fn line(&self, now: Instant, addresses: &[String]) -> String {
        let Some(node_id) = &self.waiting else {
            let percent = self.percent.map(|percent| format!(" ({percent} %)")).unwrap_or_default();
            let seconds = now.saturating_duration_since(self.started).as_secs();
            return format!("still {}{percent}: since {seconds} s", self.what);
        };
        let addresses = match addresses {
            [] => "no address".to_owned(),
            all => all.join(", "),
        };
        let since = rfc3339(self.since);
        format!("node {node_id} ({addresses}) waits for {} since {since}", self.what)
    }

    /// Notes a line that is written now; true if it is a warning.
    fn say(&mut self, now: Instant) -> bool {
        self.said = Some(now);
        let is_warning = now.saturating_duration_since(self.warned) >= WARNING_INTERVAL;
        if is_warning {
            self.warned = now;
        }
        is_warning
    }
}

impl Console {
    /// Nothing is written before the first wait or work.
    pub(crate) fn new(clock: Arc<dyn Clock>, log: RecentLog) -> Self {
        Self { clock, log, state: Arc::default(), thread: Once::new() }
    }

    fn start(&self) {
        let (state, clock) = (Arc::clone(&self.state), Arc::clone(&self.clock));
        let log = self.log.clone();
        let on_panic = |panic| warn!("a bug ended the lines on the console: {panic}");
        let work = move || write_lines(&state, clock.as_ref(), &log);
        // Without the thread the job runs as well.
        guard::spawn("console", STACK_BYTES, work, on_panic).ok();
    }

    /// Sets the reason for the wait. The same again does not restart it.
    pub(crate) fn waits_for(&self, what: &str, node_id: &str) {
        self.set(what, Some(node_id), None);
    }

    /// Sets the work, such as `writing the disk`. The same again does not restart it.
    pub(crate) fn works_on(&self, what: &str) {
        self.set(what, None, None);
    }

    /// Writes nothing more until the next work or wait.
    pub(crate) fn rests(&self) {
        self.state.change(|state| state.activity = None);
    }

    /// Sets the stage of the job, and the share of it that is done. A wait has its own reason.
    pub(crate) fn works_at(&self, stage: Stage, percent: Option<u8>) {
        let what = match stage {
            Stage::Collect => "reading the machine's hardware",
            Stage::Report => "sending the report",
            Stage::Instruction => "preparing what was ordered",
            Stage::Preflight => "checking everything before the write",
            Stage::Write => "writing the disk",
            Stage::Proof => "proving the disk",
            Stage::Result => "delivering the result",
            Stage::Wait => return,
        };
        self.set(what, None, percent);
    }

    fn set(&self, what: &str, waiting: Option<&str>, percent: Option<u8>) {
        let is_same = |activity: &&mut Activity| {
            activity.what == what && activity.waiting.is_some() == waiting.is_some()
        };
        self.state.change(|state| {
            if let Some(activity) = state.activity.as_mut().filter(is_same) {
                activity.waiting = waiting.map(str::to_owned);
                activity.percent = percent;
                return;
            }
            let started = self.clock.now();
            state.activity = Some(Activity {
                what: what.to_owned(),
                waiting: waiting.map(str::to_owned),
                percent,
                since: self.clock.time_of_day(),
                started,
                said: None,
                warned: started,
            });
        });
        self.thread.call_once(|| self.start());
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.state.change(|state| state.is_ending = true);
    }
}

fn write_lines(monitor: &Monitor<State>, clock: &dyn Clock, log: &RecentLog) {
    let mut state = monitor.lock();
    while !state.is_ending {
        let Some(activity) = &mut state.activity else {
            state = monitor.wait(state, Duration::MAX);
            continue;
        };
        let now = clock.now();
        let left = activity.due(log.last_line()).saturating_duration_since(now);
        if left.is_zero() {
            let line = activity.line(now, &addresses());
            if activity.say(now) {
                warn!("{line}");
            } else {
                info!("{line}");
            }
            continue;
        }
        state = monitor.wait(state, left);
    }
}

/// The addresses under which the node can be reached: not loopback, not link-local.
fn addresses() -> Vec<String> {
    let Ok(all) = getifaddrs() else { return Vec::new() };
    let addresses = all.filter_map(|interface| ip_of(&interface.address?));
    let addresses: BTreeSet<IpAddr> = addresses.filter(is_reachable).collect();
    addresses.iter().take(MAX_ADDRESSES).map(ToString::to_string).collect()
}

/// The IP address of a port; `None` for one of another family.
pub(crate) fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(v4), _) => Some(IpAddr::V4(v4.ip())),
        (_, Some(v6)) => Some(IpAddr::V6(v6.ip())),
        _ => None,
    }
}

fn is_reachable(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local(),
        IpAddr::V6(v6) => *v6 != Ipv6Addr::LOCALHOST && !v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::RealClock;

    fn activity(waiting: Option<&str>) -> Activity {
        let started = Instant::now();
        Activity {
            what: "an instruction from https://vim.example".into(),
            waiting: waiting.map(str::to_owned),
            percent: None,
            since: SystemTime::UNIX_EPOCH,
            started,
            said: None,
            warned: started,
        }
    }

    #[test]
    fn line_names_node_addresses_what_is_waited_for_and_since_when() {
        let wait = activity(Some("mac-02"));
        let line = wait.line(wait.started, &["192.0.2.7".into(), "fd02::7".into()]);
        assert_eq!(
            line,
            "node mac-02 (192.0.2.7, fd02::7) waits for an instruction from https://vim.example \
             since 1970-01-01T00:00:00Z"
        );
        assert!(wait.line(wait.started, &[]).contains("(no address)"));
        let work = Activity { what: "writing the disk".into(), percent: Some(7), ..activity(None) };
        let line = work.line(work.started + Duration::from_secs(42), &[]);
        assert_eq!(line, "still writing the disk (7 %): since 42 s");
    }

    /// The seconds at which the activity gets a line within 400 s, and which of them are warnings; the rest of the program
    /// writes one at `others`.
    fn lines(mut activity: Activity, others: &[u64]) -> Vec<(u64, bool)> {
        let started = activity.started;
        let mut last = None;
        let mut lines = Vec::new();
        for second in 0..400 {
            let now = started + Duration::from_secs(second);
            if activity.due(last) <= now {
                last = Some(now);
                lines.push((second, activity.say(now)));
            }
            if others.contains(&second) {
                last = Some(now);
            }
        }
        lines
    }

    #[test]
    fn no_half_minute_passes_without_a_line_whatever_the_job_does() {
        for waiting in [None, Some("mac-02")] {
            for others in [&[][..], &[5, 31, 90, 91]] {
                let own = lines(activity(waiting), others);
                let mut all: Vec<u64> = own.iter().map(|line| line.0).chain([0]).collect();
                all.extend(others);
                all.sort_unstable();
                assert!(all.windows(2).all(|pair| pair[1] - pair[0] <= 30), "{all:?}");
                assert!(all.last() > Some(&370), "{all:?}");
                assert!(own.iter().filter(|line| line.1).count() == 1, "{own:?}");
            }
        }
        let often: Vec<u64> = (0..80).map(|n| n * 5).collect();
        assert_eq!(lines(activity(None), &often), []);
        let waits: Vec<u64> = lines(activity(Some("n")), &often).iter().map(|l| l.0).collect();
        assert_eq!(waits[..4], [3, 63, 123, 183], "a wait has a line each minute");
    }

    #[test]
    fn same_wait_again_does_not_restart_it() {
        let console = Console::new(Arc::new(RealClock), RecentLog::default());
        let activity = || console.state.lock().activity.clone().unwrap();
        console.waits_for("a", "n1");
        let started = activity().started;
        console.waits_for("a", "n2");
        assert_eq!((activity().started, activity().waiting), (started, Some("n2".to_owned())));
        console.waits_for("b", "n2");
        assert!(activity().started > started);
        console.works_at(Stage::Write, None);
        let writing = activity();
        console.works_at(Stage::Write, Some(7));
        console.works_at(Stage::Wait, None);
        assert_eq!((activity().started, activity().percent), (writing.started, Some(7)));
        assert_eq!((activity().waiting, activity().what.as_str()), (None, "writing the disk"));
    }
}
