//! The step `ntp-synchronizer`: asks time servers for the time (SNTP, RFC 4330) and compares it with the clock of this
//! host. Nothing sets the clock: that is the work of chronyd, which the live image runs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

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
/// Bytes of a message without extensions.
const MESSAGE_BYTES: usize = 48;
/// From 1900, when NTP's seconds begin, to 1970.
const NTP_EPOCH_S: f64 = 2_208_988_800.0;
/// The greatest difference from a source to which the clock is synchronised, in seconds.
const MAX_OFFSET_S: f64 = 0.5;

/// The response of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Answer {
    /// It knows the time; the clock of this host differs from it by this number of seconds.
    Offset(f64),
    /// It responded that it does not know the time, or refuses this host.
    Unsynchronized,
}

/// Asks the sources of the step and those in chronyd's configuration.
pub(super) fn check(step: &Step, around: &Around) -> Result<Value, String> {
    let request = step.json(0)?;
    let asked = request.get("ntp_source").and_then(Value::as_str).unwrap_or_default();
    let machine = Machine::new(Arc::new(Source::live()), "assisted");
    let configured = sources(&machine.text("etc/chrony.conf").unwrap_or_default());
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

/// The names in the lines `server`, `pool` and `peer` of `chrony.conf(5)`.
fn sources(configuration: &str) -> Vec<String> {
    let name = |line: &str| {
        let mut words = line.split_whitespace();
        let kind = words.next()?;
        ["server", "pool", "peer"].contains(&kind).then(|| words.next().map(str::to_owned))?
    };
    configuration.lines().filter_map(name).collect()
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
    let mut message = [0; MESSAGE_BYTES];
    // Version 4, mode 3: a client.
    message[0] = 4 << 3 | 3;
    message[40..].copy_from_slice(&cookie);
    let sent = unix_seconds(clock);
    socket.send(&message).ok()?;
    let mut answer = [0; 512];
    let n = socket.recv(&mut answer).ok()?;
    parse(answer.get(..n)?, cookie, f64::midpoint(sent, unix_seconds(clock)))
}

fn unix_seconds(clock: &dyn Clock) -> f64 {
    clock.time_of_day().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Reads an answer; `now` is this host's time in the middle of question and answer.
fn parse(message: &[u8], cookie: [u8; 8], now: f64) -> Option<Answer> {
    let message = message.get(..MESSAGE_BYTES)?;
    let (leap, mode, stratum) = (message[0] >> 6, message[0] & 7, message[1]);
    // The answer repeats what identifies the question.
    if mode != 4 || message[24..32] != cookie {
        return None;
    }
    if leap == 3 || !(1..=15).contains(&stratum) {
        return Some(Answer::Unsynchronized);
    }
    let server = f64::midpoint(seconds(message, 32)?, seconds(message, 40)?) - NTP_EPOCH_S;
    // The seconds overflow in 2036; the nearest moment is meant.
    let era = f64::from(u32::MAX) + 1.0;
    let offset = server - now;
    Some(Answer::Offset(offset - (offset / era).round() * era))
}

/// The time at `at` in seconds and their fraction.
fn seconds(message: &[u8], at: usize) -> Option<f64> {
    let number = |at: usize| Some(u32::from_be_bytes(message.get(at..at + 4)?.try_into().ok()?));
    let fraction = f64::from(number(at + 4)?) / (f64::from(u32::MAX) + 1.0);
    Some(f64::from(number(at)?) + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::RealClock;

    const COOKIE: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

    fn answer(stratum: u8, seconds: u32) -> Vec<u8> {
        let mut message = vec![0; MESSAGE_BYTES];
        (message[0], message[1]) = (0x24, stratum);
        message[24..32].copy_from_slice(&COOKIE);
        for at in [32, 40] {
            message[at..at + 4].copy_from_slice(&seconds.to_be_bytes());
            message[at + 4..at + 8].copy_from_slice(&(1_u32 << 31).to_be_bytes());
        }
        message
    }

    #[test]
    fn offset_is_the_difference_to_the_nearest_moment_that_is_meant() {
        let offset = |seconds: u32, now: f64| match parse(&answer(2, seconds), COOKIE, now) {
            Some(Answer::Offset(offset)) => offset,
            other => panic!("{other:?}"),
        };
        // 2026-11-22 is 4004294400 in NTP's seconds.
        assert!((offset(4_004_294_400, 1_795_305_600.0) - 0.5).abs() < 1e-6);
        assert!((offset(4_004_294_400, 1_795_305_610.5) + 10.0).abs() < 1e-6);
        // After the overflow in 2036.
        assert!((offset(100, 4_294_967_296.0 - 2_208_988_800.0 + 100.0) - 0.5).abs() < 1e-3);
    }

    #[test]
    fn answer_to_another_question_is_ignored_and_one_without_the_time_is_an_error() {
        assert_eq!(parse(&answer(2, 0), [9; 8], 0.0), None);
        assert_eq!(parse(&answer(0, 0), COOKIE, 0.0), Some(Answer::Unsynchronized));
        assert_eq!(parse(&answer(16, 0), COOKIE, 0.0), Some(Answer::Unsynchronized));
        for n in 0..MESSAGE_BYTES {
            assert_eq!(parse(&answer(2, 0)[..n], COOKIE, 0.0), None);
        }
    }

    #[test]
    fn source_is_synced_only_if_the_clock_is_kept_and_shows_its_time() {
        assert_eq!(in_words(Some(Answer::Offset(0.1)), true), "synced");
        assert_eq!(in_words(Some(Answer::Offset(-0.1)), false), "not_combined");
        assert_eq!(in_words(Some(Answer::Offset(-9.0)), true), "error");
        assert_eq!(in_words(Some(Answer::Unsynchronized), true), "error");
        assert_eq!(in_words(None, true), "unreachable");
    }

    #[test]
    fn sources_of_chronyd_are_read_from_its_configuration() {
        let text = "# server no\npool 2.fedora.pool.ntp.org iburst\nserver 192.0.2.1\nmakestep 1 3\nserver\n";
        assert_eq!(sources(text), ["2.fedora.pool.ntp.org", "192.0.2.1"]);
    }

    #[test]
    fn server_that_responds_is_asked_once_and_a_silent_one_is_unreachable() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let serving = std::thread::spawn(move || {
            let mut question = [0; 512];
            let (n, from) = server.recv_from(&mut question).unwrap();
            assert_eq!((n, question[0]), (MESSAGE_BYTES, 0x23));
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "until 2036"
            )]
            let now = (unix_seconds(&RealClock) + NTP_EPOCH_S) as u32;
            let mut message = answer(3, now);
            message[24..32].copy_from_slice(&question[40..48]);
            server.send_to(&message, from).unwrap();
        });
        let Some(Answer::Offset(offset)) = ask(address, &RealClock) else { panic!() };
        assert!(offset.abs() < 10.0, "{offset}");
        serving.join().unwrap();
    }
}
