//! Echo requests of ICMP (RFC 792) and `ICMPv6` (RFC 4443) through chosen ports. The kernel's ping sockets
//! (`net.ipv4.ping_group_range`) are used, or raw sockets where these are not allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::BindToDevice;
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, setsockopt, socket};

use crate::clock::Clock;
use crate::signals::Stop;

/// Number of times each address is asked.
const ROUNDS: u16 = 5;
/// Time to wait after each round, and after the last one.
const PAUSE: Duration = Duration::from_millis(400);
const LAST_PAUSE: Duration = Duration::from_secs(2);
/// The longest time without a look at the clock.
const SLICE: Duration = Duration::from_millis(50);
/// Bytes of a request's header, before the cookie.
const HEADER_BYTES: usize = 8;
const COOKIE_BYTES: usize = 16;

/// A port and an address to reach through it.
pub(super) type Target = (String, IpAddr);

/// The responses of an address.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Echo {
    pub(super) n_received: u16,
    total: Duration,
}

impl Echo {
    /// The average time of a response in ms; `None` without one.
    pub(super) fn average_ms(&self) -> Option<f64> {
        let n = f64::from(self.n_received);
        (self.n_received > 0).then(|| self.total.as_secs_f64() * 1000.0 / n)
    }

    /// The share of requests without a response, in percent.
    pub(super) fn loss_percent(&self) -> f64 {
        100.0 * (1.0 - f64::from(self.n_received) / f64::from(ROUNDS))
    }
}

/// The sockets, each of a port and for IPv4 or not.
type Pingers<'t> = BTreeMap<(&'t str, bool), UdpSocket>;

/// Pings every target several times. Targets of a port for which no socket is allowed are absent from the result.
pub(super) fn ping(targets: &[Target], clock: &dyn Clock, stop: &Stop) -> BTreeMap<Target, Echo> {
    let keys: BTreeSet<(&str, bool)> =
        targets.iter().map(|(nic, ip)| (nic.as_str(), ip.is_ipv4())).collect();
    let open = |(nic, is_v4)| Some(((nic, is_v4), open(nic, is_v4).ok()?));
    let pingers: Pingers<'_> = keys.into_iter().filter_map(open).collect();
    let mut echoes = BTreeMap::new();
    let cookie: [u8; COOKIE_BYTES] = crate::random::random_bytes().unwrap_or([0x5a; COOKIE_BYTES]);
    for round in 0..ROUNDS {
        let mut sent = BTreeMap::new();
        for target in targets {
            let (nic, ip) = target;
            let Some(socket) = pingers.get(&(nic.as_str(), ip.is_ipv4())) else { continue };
            echoes.entry(target.clone()).or_insert_with(Echo::default);
            sent.insert(target.clone(), clock.now());
            socket.send_to(&request(round, cookie, ip.is_ipv4()), (*ip, 0)).ok();
        }
        let pause = if round + 1 == ROUNDS { LAST_PAUSE } else { PAUSE };
        let until = clock.now() + pause;
        while !sent.is_empty()
            && let Some((target, at)) = next(&pingers, round, cookie, until, clock, stop)
        {
            // A second response to the same request does not count.
            if let (Some(began), Some(echo)) = (sent.remove(&target), echoes.get_mut(&target)) {
                echo.n_received += 1;
                echo.total += at.saturating_duration_since(began);
            }
        }
        clock.sleep(until.saturating_duration_since(clock.now()).min(PAUSE), stop);
    }
    echoes
}

fn open(nic: &str, is_v4: bool) -> io::Result<UdpSocket> {
    let (family, protocol) = if is_v4 {
        (AddressFamily::Inet, SockProtocol::Icmp)
    } else {
        (AddressFamily::Inet6, SockProtocol::IcmpV6)
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(family, SockType::Datagram, flags, protocol)
        .or_else(|_| socket(family, SockType::Raw, flags, protocol))?;
    setsockopt(&fd, BindToDevice, &OsString::from(nic))?;
    Ok(UdpSocket::from(fd))
}

/// An echo request. The kernel fills in the checksum of `ICMPv6`, and that of ICMP on ping sockets only.
fn request(round: u16, cookie: [u8; COOKIE_BYTES], is_v4: bool) -> Vec<u8> {
    let kind = if is_v4 { 8 } else { 128 };
    let [high, low] = round.to_be_bytes();
    let mut packet = vec![kind, 0, 0, 0, cookie[0], cookie[1], high, low];
    packet.extend(cookie);
    let [high, low] = checksum(&packet).to_be_bytes();
    (packet[2], packet[3]) = (high, low);
    packet
}

/// The checksum of the Internet (RFC 1071).
fn checksum(packet: &[u8]) -> u16 {
    let words = packet.chunks(2).map(|pair| {
        u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or_default()]))
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or_default()
}

/// The next response to a request of this round.
fn next(
    pingers: &Pingers<'_>,
    round: u16,
    cookie: [u8; COOKIE_BYTES],
    until: Instant,
    clock: &dyn Clock,
    stop: &Stop,
) -> Option<(Target, Instant)> {
    let mut buffer = [0; 2048];
    loop {
        let left = until.saturating_duration_since(clock.now()).min(SLICE);
        if left.is_zero() || stop.is_stopped() {
            return None;
        }
        for ((nic, _), socket) in pingers {
            while let Ok((n, from)) = socket.recv_from(&mut buffer) {
                let packet = buffer.get(..n).unwrap_or_default();
                if is_response(packet, round, cookie) {
                    return Some((((*nic).to_owned(), from.ip()), clock.now()));
                }
            }
        }
        let fds = pingers.values().map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN));
        let mut fds: Vec<PollFd<'_>> = fds.collect();
        poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)).ok()?;
    }
}

/// True if a packet is the response to a request of this round. Raw sockets of IPv4 put the IP header before it.
fn is_response(packet: &[u8], round: u16, cookie: [u8; COOKIE_BYTES]) -> bool {
    let packet = match packet.first() {
        Some(first) if first >> 4 == 4 => packet.get(usize::from(first & 0xf) * 4..),
        _ => Some(packet),
    };
    let Some(packet) = packet.filter(|packet| packet.len() >= HEADER_BYTES) else { return false };
    [0, 129].contains(&packet[0])
        && packet[6..8] == round.to_be_bytes()
        && packet.get(HEADER_BYTES..HEADER_BYTES + COOKIE_BYTES) == Some(&cookie[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::RealClock;

    const COOKIE: [u8; COOKIE_BYTES] = [7; COOKIE_BYTES];

    #[test]
    fn only_the_response_to_our_own_request_of_this_round_counts() {
        let mut packet = request(3, COOKIE, true);
        assert!(!is_response(&packet, 3, COOKIE), "a request is no response");
        packet[0] = 0;
        assert!(is_response(&packet, 3, COOKIE));
        assert!(!is_response(&packet, 2, COOKIE));
        assert!(!is_response(&packet, 3, [8; COOKIE_BYTES]));
        let mut raw = vec![0x45; 20];
        raw.extend(&packet);
        assert!(is_response(&raw, 3, COOKIE));
        for n in 0..packet.len() {
            assert!(!is_response(&packet[..n], 3, COOKIE));
        }
    }

    #[test]
    fn checksum_of_a_packet_with_its_checksum_is_zero() {
        assert_eq!(checksum(&request(1, COOKIE, true)), 0);
    }

    #[test]
    fn share_of_lost_requests_is_a_percentage() {
        let echo = Echo { n_received: 4, total: Duration::from_millis(10) };
        assert!((echo.loss_percent() - 20.0).abs() < 1e-9);
        assert_eq!(echo.average_ms(), Some(2.5));
        assert_eq!(Echo::default().average_ms(), None);
    }

    #[test]
    fn this_host_responds_where_ping_is_allowed() {
        let localhost = ("lo".to_owned(), IpAddr::from([127, 0, 0, 1]));
        let echoes = ping(std::slice::from_ref(&localhost), &RealClock, &Stop::default());
        // Without the right to ping nothing is claimed.
        if let Some(echo) = echoes.get(&localhost) {
            assert_eq!(echo.n_received, ROUNDS);
        }
    }
}
