//! Finds the IPv4 neighbours that respond to ARP. A datagram to each makes the kernel ask for its MAC, and
//! `/proc/net/arp` (`net/ipv4/arp.c`) has the results; no socket for raw frames is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt::BindToDevice};
use probes::machine::{Machine, Source};

use super::ping::Target;
use crate::clock::Clock;
use crate::signals::Stop;

/// The port of the service "discard" (RFC 863).
const DISCARD: u16 = 9;
/// The kernel's flag of an entry with a MAC (`ATF_COM`, `uapi/linux/if_arp.h`).
const COMPLETE: u32 = 2;

/// The MAC of each neighbour that was asked for; `None` if it did not respond.
pub(super) type Answers = BTreeMap<Target, Option<String>>;

/// Asks for every neighbour and waits. The result has the MAC of each that responded, and `None` for each that the kernel
/// asked for without a response. A neighbour that the kernel did not ask for is absent: nothing is known of it.
///
/// # Errors
/// A message if the kernel's table cannot be read.
pub(super) fn ask(
    neighbours: &[Target],
    wait: Duration,
    clock: &dyn Clock,
    stop: &Stop,
) -> Result<Answers, String> {
    let nics: BTreeSet<&str> = neighbours.iter().map(|(nic, _)| nic.as_str()).collect();
    let sockets = nics.into_iter().filter_map(|nic| Some((nic, socket(nic)?)));
    let sockets: BTreeMap<&str, UdpSocket> = sockets.collect();
    for (nic, ip) in neighbours {
        // A full queue costs this neighbour, which then is absent from the result.
        if let Some(socket) = sockets.get(nic.as_str()) {
            socket.send_to(&[0], (*ip, DISCARD)).ok();
        }
    }
    clock.sleep(wait, stop);
    let table = Machine::new(Arc::new(Source::live()), "assisted").whole_text("proc/net/arp");
    let mut known = parse(&table.ok_or("the kernel's ARP table, /proc/net/arp, cannot be read")?);
    known.retain(|neighbour, _| neighbours.contains(neighbour));
    Ok(known)
}

fn socket(nic: &str) -> Option<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    setsockopt(&socket, BindToDevice, &OsString::from(nic)).ok()?;
    socket.set_nonblocking(true).ok()?;
    Some(socket)
}

/// Reads lines such as `192.0.2.1  0x1  0x2  02:00:00:00:00:01  *  eno1`.
fn parse(table: &str) -> Answers {
    let entry = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [ip, _, flags, mac, _, nic] = fields[..] else { return None };
        let flags = u32::from_str_radix(flags.strip_prefix("0x")?, 16).ok()?;
        let mac = (flags & COMPLETE != 0).then(|| mac.to_ascii_lowercase());
        Some(((nic.to_owned(), ip.parse().ok()?), mac))
    };
    table.lines().skip(1).filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_without_a_mac_is_an_address_that_nobody_has() {
        let table = "IP address       HW type     Flags       HW address            Mask     Device\n\
            192.0.2.1        0x1         0x2         02:00:00:00:00:0A     *        eno1\n\
            192.0.2.9        0x1         0x0         00:00:00:00:00:00     *        eno1\n\
            192.0.2.8        0x1         0x6         02:00:00:00:00:0b     *        eno2\n\
            malformed\n";
        let known = parse(table);
        let mac = |nic: &str, ip: &str| known.get(&(nic.to_owned(), ip.parse().unwrap())).cloned();
        assert_eq!(mac("eno1", "192.0.2.1"), Some(Some("02:00:00:00:00:0a".into())));
        assert_eq!(mac("eno1", "192.0.2.9"), Some(None));
        assert_eq!(mac("eno2", "192.0.2.8"), Some(Some("02:00:00:00:00:0b".into())));
        assert_eq!(known.len(), 3);
    }
}
