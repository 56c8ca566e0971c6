//! Echo requests of ICMP (RFC 792) and `ICMPv6` (RFC 4443) through chosen ports. The kernel's ping sockets
//! (`net.ipv4.ping_group_range`) are used, or raw sockets where these are not allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use formats::icmp::{self, Cookie};
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
    let cookie: Cookie = crate::random::random_bytes().unwrap_or([0x5a; 16]);
    for round in 0..ROUNDS {
        let mut sent = BTreeMap::new();
        for target in targets {
            let (nic, ip) = target;
            let Some(socket) = pingers.get(&(nic.as_str(), ip.is_ipv4())) else { continue };
            echoes.entry(target.clone()).or_insert_with(Echo::default);
            sent.insert(target.clone(), clock.now());
            socket.send_to(&icmp::request(round, cookie, ip.is_ipv4()), (*ip, 0)).ok();
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

/// The next response to a request of this round.
fn next(
    pingers: &Pingers<'_>,
    round: u16,
    cookie: Cookie,
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
                if icmp::is_response(packet, round, cookie) {
                    return Some((((*nic).to_owned(), from.ip()), clock.now()));
                }
            }
        }
        let fds = pingers.values().map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN));
        let mut fds: Vec<PollFd<'_>> = fds.collect();
        poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)).ok()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::RealClock;

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
