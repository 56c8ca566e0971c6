//! Console lines of a waiting node: its identity, its addresses, the reason for the wait, and its start.
//!
//! One line when the wait has lasted some seconds, and one each minute after it.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant, SystemTime};

use formats::time::rfc3339;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use probes::guard;
use tracing::{info, warn};

use crate::clock::Clock;
use crate::monitor::Monitor;

/// Shorter waits are not worth a line.
const FIRST_LINE: Duration = Duration::from_secs(3);
/// Interval between further lines.
const INTERVAL: Duration = Duration::from_mins(1);
/// One line in this number is a warning, so that a node that waits for hours does not look hung with `--log-level warn`.
const LINES_PER_WARNING: u32 = 5;
/// Stack of the thread that writes the lines.
const STACK_BYTES: usize = 256 << 10;
/// Most addresses in a line.
const MAX_ADDRESSES: usize = 8;

/// Writes the lines, on a thread that the first wait starts; dropping it ends them.
#[derive(Debug)]
pub(crate) struct Console {
    clock: Arc<dyn Clock>,
    state: Arc<Monitor<State>>,
    thread: Once,
}

#[derive(Debug, Default)]
struct State {
    wait: Option<Wait>,
    is_ending: bool,
}

/// A wait of the node.
#[derive(Debug, Clone)]
struct Wait {
    what: String,
    node_id: String,
    since: SystemTime,
    started: Instant,
    n_lines: u32,
}

impl Wait {
    /// When the next line is due, after the start of the wait.
    fn next_line(&self) -> Duration {
        if self.n_lines == 0 { FIRST_LINE } else { INTERVAL * self.n_lines }
    }

    fn line(&self, addresses: &[String]) -> String {
        let addresses = match addresses {
            [] => "no address".to_owned(),
            all => all.join(", "),
        };
        let since = rfc3339(self.since);
        format!("node {} ({addresses}) waits for {} since {since}", self.node_id, self.what)
    }
}

impl Console {
    /// Nothing is written before the first wait.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Arc::default(), thread: Once::new() }
    }

    fn start(&self) {
        let (state, clock) = (Arc::clone(&self.state), Arc::clone(&self.clock));
        let on_panic = |panic| warn!("a bug ended the lines on the console: {panic}");
        let work = move || write_lines(&state, clock.as_ref());
        // Without the thread the job runs as well.
        guard::spawn("console", STACK_BYTES, work, on_panic).ok();
    }

    /// Sets the reason for the wait. The same again does not restart it.
    pub(crate) fn waits_for(&self, what: &str, node_id: &str) {
        self.state.change(|state| match &mut state.wait {
            Some(wait) if wait.what == what => node_id.clone_into(&mut wait.node_id),
            _ => {
                state.wait = Some(Wait {
                    what: what.to_owned(),
                    node_id: node_id.to_owned(),
                    since: self.clock.time_of_day(),
                    started: self.clock.now(),
                    n_lines: 0,
                });
            }
        });
        self.thread.call_once(|| self.start());
    }

    /// The node works.
    pub(crate) fn works(&self) {
        self.state.change(|state| state.wait = None);
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.state.change(|state| state.is_ending = true);
    }
}

fn write_lines(monitor: &Monitor<State>, clock: &dyn Clock) {
    let mut state = monitor.lock();
    while !state.is_ending {
        let Some(wait) = &mut state.wait else {
            state = monitor.wait(state, Duration::MAX);
            continue;
        };
        let left = wait.next_line().saturating_sub(clock.now().duration_since(wait.started));
        if left.is_zero() {
            wait.n_lines += 1;
            let line = wait.line(&addresses());
            if wait.n_lines.is_multiple_of(LINES_PER_WARNING) {
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
    let mut addresses: Vec<IpAddr> = all
        .filter_map(|interface| interface.address)
        .filter_map(|address| ip_of(&address))
        .filter(is_reachable)
        .collect();
    addresses.sort();
    addresses.dedup();
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

    fn wait() -> Wait {
        Wait {
            what: "an instruction from https://vim.example".into(),
            node_id: "mac-02".into(),
            since: SystemTime::UNIX_EPOCH,
            started: Instant::now(),
            n_lines: 0,
        }
    }

    #[test]
    fn line_names_node_addresses_what_is_waited_for_and_since_when() {
        let line = wait().line(&["192.0.2.7".into(), "fd02::7".into()]);
        assert_eq!(
            line,
            "node mac-02 (192.0.2.7, fd02::7) waits for an instruction from https://vim.example \
             since 1970-01-01T00:00:00Z"
        );
        assert!(wait().line(&[]).contains("(no address)"));
    }

    #[test]
    fn one_line_follows_each_minute() {
        let due: Vec<u64> =
            (0..4).map(|n_lines| Wait { n_lines, ..wait() }.next_line().as_secs()).collect();
        assert_eq!(due, [3, 60, 120, 180]);
    }

    #[test]
    fn same_wait_again_does_not_restart_it() {
        let console = Console::new(Arc::new(RealClock));
        console.waits_for("a", "n1");
        let started = console.state.lock().wait.as_ref().unwrap().started;
        console.waits_for("a", "n2");
        let again = console.state.lock().wait.clone().unwrap();
        assert_eq!((again.started, again.node_id.as_str()), (started, "n2"));
        console.waits_for("b", "n2");
        assert!(console.state.lock().wait.as_ref().unwrap().started > started);
        console.works();
        assert!(console.state.lock().wait.is_none());
    }
}
