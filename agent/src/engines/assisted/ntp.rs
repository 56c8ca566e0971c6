//! The step `ntp-synchronizer`: asks time servers for the time (SNTP, RFC 4330) and compares it with the clock of this
//! host. Nothing sets the clock: that is the work of chronyd, which the live image runs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use formats::ntp::{self, Answer};
use probes::machine::{Machine, Source};
use probes::sys::clock::CLOCK;
use serde_json::{Value, json};

use super::step::Step;
use super::tasks::{Around, ask_each};
use crate::clock::Clock;

const PORT: u16 = 123;
/// Most sources, and most addresses of one.
const MAX_SOURCES: usize = 32;
const MAX_ADDRESSES: usize = 4;
/// Time limit for a server, and number of times it is asked.
const LIMIT: Duration = Duration::from_secs(2);
const TRIES: u32 = 3;
/// Time limit for all sources together.
const ALL_LIMIT: Duration = Duration::from_mins(1);
/// The greatest difference from a source to which the clock is synchronised, in seconds.
const MAX_OFFSET_S: f64 = 0.5;

/// Asks the sources of the step and those in chronyd's configuration.
pub(super) fn check(step: &Step, around: &Around) -> Result<Value, String> {
    let request = step.json(0)?;
    let asked = request.get("ntp_source").and_then(Value::as_str).unwrap_or_default();
    let machine = Machine::new(Arc::new(Source::live()), "assisted");
    let configured = ntp::sources(&machine.text("etc/chrony.conf").unwrap_or_default());
    let asked = asked.split(',').map(str::trim).filter(|name| !name.is_empty());
    let mut seen = std::collections::BTreeSet::new();
    let new = asked.map(str::to_owned).chain(configured).filter(|name| seen.insert(name.clone()));
    let names: Vec<String> = new.take(MAX_SOURCES).collect();
    let state = machine.ask(&CLOCK).unwrap_or_default();
    let is_synchronized = state.trim_ascii_end().ends_with(b" 1");
    let state = |(name, answer): (String, Option<Option<Answer>>)| {
        let words = in_words(answer.flatten(), is_synchronized);
        json!({"source_name": name, "source_state": words})
    };
    let answers = ask_each(names, "ntp", ALL_LIMIT, &around.api.client.clock, query);
    let sources: Vec<Value> = answers.into_iter().map(state).collect();
    Ok(json!({"ntp_sources": sources}))
}

/// The state of a source in the words of chronyc, as far as one answer allows. `synced` needs both the kernel, which says
/// that some program keeps the clock, and a source whose time the clock shows.
fn in_words(answer: Option<Answer>, is_synchronized: bool) -> &'static str {
    match answer {
        None => "unreachable",
        Some(Answer::Offset(_)) if !is_synchronized => "not_combined",
        Some(Answer::Offset(offset)) if offset.abs() <= MAX_OFFSET_S => "synced",
        Some(Answer::Offset(_) | Answer::Unsynchronized) => "error",
    }
}

/// Asks the addresses of a source until one responds.
fn query(name: &str, clock: &dyn Clock) -> Option<Answer> {
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let mut addresses = (bare, PORT).to_socket_addrs().ok()?.take(MAX_ADDRESSES);
    addresses.find_map(|address| (0..TRIES).find_map(|_| ask(address, clock)))
}

fn ask(server: SocketAddr, clock: &dyn Clock) -> Option<Answer> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Only this server's answers arrive.
    socket.connect(server).ok()?;
    socket.set_read_timeout(Some(LIMIT)).ok()?;
    let cookie: [u8; 8] = crate::random::random_bytes().ok()?;
    let sent = unix_seconds(clock);
    socket.send(&ntp::request(cookie)).ok()?;
    let mut answer = [0; 512];
    let n = socket.recv(&mut answer).ok()?;
    ntp::parse(answer.get(..n)?, cookie, f64::midpoint(sent, unix_seconds(clock)))
}

fn unix_seconds(clock: &dyn Clock) -> f64 {
    clock.time_of_day().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::RealClock;

    #[test]
    fn source_is_synced_only_if_the_clock_is_kept_and_shows_its_time() {
        assert_eq!(in_words(Some(Answer::Offset(0.1)), true), "synced");
        assert_eq!(in_words(Some(Answer::Offset(-0.1)), false), "not_combined");
        assert_eq!(in_words(Some(Answer::Offset(-9.0)), true), "error");
        assert_eq!(in_words(Some(Answer::Unsynchronized), true), "error");
        assert_eq!(in_words(None, true), "unreachable");
    }

    #[test]
    fn server_that_responds_is_asked_once_and_a_silent_one_is_unreachable() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let serving = std::thread::spawn(move || {
            let mut question = [0; 512];
            let (n, from) = server.recv_from(&mut question).unwrap();
            assert_eq!((n, question[0]), (48, 0x23));
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "until 2036"
            )]
            let now = (unix_seconds(&RealClock) + 2_208_988_800.0) as u32;
            let mut message = [0; 48];
            (message[0], message[1]) = (0x24, 3);
            message[24..32].copy_from_slice(&question[40..48]);
            message[32..36].copy_from_slice(&now.to_be_bytes());
            message[40..44].copy_from_slice(&now.to_be_bytes());
            server.send_to(&message, from).unwrap();
        });
        let Some(Answer::Offset(offset)) = ask(address, &RealClock) else { panic!() };
        assert!(offset.abs() < 10.0, "{offset}");
        serving.join().unwrap();
    }
}
