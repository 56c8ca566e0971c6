//! LLDP frames as they arrive at the ports: `AF_PACKET` sockets bound to the ethertype 0x88cc that
//! join the three groups of IEEE 802.1AB-2016, table 7-1 (`packet(7)`, `uapi/linux/if_packet.h`).
//!
//! Nothing is sent. Needs `CAP_NET_RAW`. A port that fails costs only itself.

#[cfg(test)]
pub(crate) mod testing;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::libc;
use nix::net::if_::InterfaceFlags;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, socket};

use super::Question;
use formats::lldp::{self, ETHERTYPE, Record, push};

/// Nearest bridge, nearest bridge that is not a two-port relay, nearest customer bridge.
const GROUPS: [[u8; 6]; 3] = [
    [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e],
    [0x01, 0x80, 0xc2, 0x00, 0x00, 0x03],
    [0x01, 0x80, 0xc2, 0x00, 0x00, 0x00],
];
/// Most ports to listen on; each needs a socket.
const LIMIT_PORTS: usize = 512;
/// Most different frames that are kept per port; after that the port is ignored.
const LIMIT_FRAMES: usize = 32;
/// A frame has at most 1500 bytes and its header (IEEE 802.1AB-2016, 8.2).
const FRAME_BYTES: usize = 2048;
/// Time in which a port without a link may still be negotiating one.
const LINK_GRACE: Duration = Duration::from_secs(5);
/// Interval between checks of the links.
const CARRIER_POLL: Duration = Duration::from_millis(500);

/// A port to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenPort {
    /// The interface's name.
    pub name: String,
    /// The kernel's number of the interface.
    pub index: u32,
    /// True to keep listening until a frame arrives, if the port has a link.
    pub is_awaited: bool,
}

/// Listens on all ports at once, until every awaited port with a link has received a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LldpFrames {
    /// Ports to listen on.
    pub ports: Vec<ListenPort>,
    /// Time limit for listening.
    pub wait: Duration,
}

impl Question for LldpFrames {
    fn name(&self) -> String {
        "lldp/frames".to_owned()
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        let start = Instant::now();
        let end = start + self.wait;
        let mut answer = Vec::new();
        let mut listeners = Vec::new();
        for port in within_limit(&self.ports, &mut answer) {
            match Listener::open(port) {
                Ok(listener) => listeners.push(listener),
                Err(error @ (Errno::EPERM | Errno::EACCES)) => return Err(error.into()),
                Err(error) => push(&mut answer, Record::Failed(&port.name, error as i32)),
            }
        }
        loop {
            // Negotiating a link takes a while.
            let running = (start.elapsed() >= LINK_GRACE).then(running);
            if listeners.iter().all(|listener| listener.is_done(running.as_ref())) {
                break;
            }
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            listen(&mut listeners, rest.min(CARRIER_POLL))?;
        }
        for listener in &listeners {
            let name = &listener.port.name;
            push(&mut answer, Record::Listened(name));
            listener.frames.iter().for_each(|frame| push(&mut answer, Record::Frame(name, frame)));
        }
        Ok(answer)
    }
}

/// The first ports; for the others `answer` says that no socket is left.
fn within_limit<'a>(ports: &'a [ListenPort], answer: &mut Vec<u8>) -> &'a [ListenPort] {
    let (first, rest) = ports.split_at(ports.len().min(LIMIT_PORTS));
    for port in rest {
        push(answer, Record::Failed(&port.name, Errno::EMFILE as i32));
    }
    first
}

/// Waits for a frame on any port and reads all that arrived.
fn listen(listeners: &mut [Listener], wait: Duration) -> io::Result<()> {
    let is_open = |listener: &&mut Listener| listener.frames.len() < LIMIT_FRAMES;
    let mut open: Vec<&mut Listener> = listeners.iter_mut().filter(is_open).collect();
    let fds = open.iter().map(|listener| PollFd::new(listener.socket.as_fd(), PollFlags::POLLIN));
    let mut fds: Vec<PollFd> = fds.collect();
    match poll(&mut fds, PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO)) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let ready: Vec<bool> = fds.iter().map(|fd| fd.any() == Some(true)).collect();
    for (listener, _) in open.iter_mut().zip(ready).filter(|(_, is_ready)| *is_ready) {
        listener.take();
    }
    Ok(())
}

/// A port with its socket.
struct Listener<'a> {
    port: &'a ListenPort,
    socket: OwnedFd,
    frames: Vec<Vec<u8>>,
}

impl<'a> Listener<'a> {
    fn open(port: &'a ListenPort) -> Result<Listener<'a>, Errno> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        // Without a protocol the socket receives nothing until it is bound to one port.
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None)?;
        for group in GROUPS {
            join(&socket, port.index, group)?;
        }
        bind(&socket, port.index)?;
        Ok(Listener { port, socket, frames: Vec::new() })
    }

    /// True if waiting on this port has ended. Without `running`, any port may still get a link.
    fn is_done(&self, running: Option<&BTreeSet<String>>) -> bool {
        !self.port.is_awaited
            || self.frames.iter().any(|frame| !is_shutdown(frame))
            || running.is_some_and(|running| !running.contains(&self.port.name))
    }

    /// Reads the frames that arrived; each different one is kept once.
    fn take(&mut self) {
        let mut buffer = [0; FRAME_BYTES];
        // Bounded, so that a flooded port cannot starve the others.
        for _ in 0..LIMIT_FRAMES {
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_TRUNC) {
                // A frame that does not fit is not an LLDP frame.
                Ok(length) => {
                    let frame =
                        buffer.get(..length).filter(|f| !self.frames.iter().any(|o| o == f));
                    self.frames.extend(frame.map(<[u8]>::to_vec));
                }
                Err(Errno::EINTR) => {}
                // Nothing left, or the port went down, which the next check of its link shows.
                Err(_) => return,
            }
            if self.frames.len() >= LIMIT_FRAMES {
                return;
            }
        }
    }
}

/// True if a frame only announces that its sender leaves: its TTL, the third TLV, is 0 (IEEE 802.1AB-2016, 8.5.4 and
/// 9.2.5). The next sender's frame is still awaited.
fn is_shutdown(frame: &[u8]) -> bool {
    let Some(frame) = lldp::frame(frame) else { return false };
    let ttl = lldp::tlvs(frame.lldpdu).find(|part| part.kind == lldp::TTL);
    ttl.is_some_and(|ttl| ttl.value == [0, 0])
}

#[expect(unsafe_code, reason = "this socket option has no safe wrapper")]
fn join(socket: &OwnedFd, index: u32, group: [u8; 6]) -> Result<(), Errno> {
    let mut address = [0; 8];
    address[..6].copy_from_slice(&group);
    let request = libc::packet_mreq {
        mr_ifindex: i32::try_from(index).map_err(|_| Errno::ENODEV)?,
        mr_type: u16::try_from(libc::PACKET_MR_MULTICAST).map_err(|_| Errno::EINVAL)?,
        mr_alen: 6,
        mr_address: address,
    };
    let length = libc::socklen_t::try_from(size_of_val(&request)).map_err(|_| Errno::EINVAL)?;
    // SAFETY: `request` is a whole `struct packet_mreq`, alive during the call, and `length` is its
    // size. The kernel copies from it and keeps no pointer (`packet_setsockopt`).
    let code = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const request).cast(),
            length,
        )
    };
    Errno::result(code).map(drop)
}

#[expect(unsafe_code, reason = "an address of this family has no safe wrapper that makes one")]
fn bind(socket: &OwnedFd, index: u32) -> Result<(), Errno> {
    let address = libc::sockaddr_ll {
        sll_family: u16::try_from(libc::AF_PACKET).map_err(|_| Errno::EINVAL)?,
        sll_protocol: ETHERTYPE.to_be(),
        sll_ifindex: i32::try_from(index).map_err(|_| Errno::ENODEV)?,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = libc::socklen_t::try_from(size_of_val(&address)).map_err(|_| Errno::EINVAL)?;
    // SAFETY: `address` is a whole `struct sockaddr_ll`, alive during the call, and `length` is its
    // size. The kernel copies from it and keeps no pointer (`packet_bind`).
    let code = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    Errno::result(code).map(drop)
}

/// The names of the interfaces that have a link: `IFF_RUNNING`; none on an error.
fn running() -> BTreeSet<String> {
    let all = getifaddrs().into_iter().flatten();
    let running = all.filter(|address| address.flags.contains(InterfaceFlags::IFF_RUNNING));
    running.map(|address| address.interface_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes::survives_any_bytes;

    #[test]
    fn frame_with_ttl_zero_does_not_end_the_wait() {
        let frame = |ttl: &[u8]| {
            let parts = [&[2, 3, 7, b'a', b'b'][..], &[4, 2, 7, b'1'], &[6, 2], ttl, &[0, 0]];
            [&[0; 12][..], &ETHERTYPE.to_be_bytes(), &parts.concat()].concat()
        };
        assert!(is_shutdown(&frame(&[0, 0])));
        assert!(!is_shutdown(&frame(&[0, 120])));
        assert!(!is_shutdown(&[]));
        let port = ListenPort { name: "rci-none0".into(), index: 1, is_awaited: true };
        let socket = std::os::unix::net::UnixDatagram::unbound().unwrap().into();
        let mut listener = Listener { port: &port, socket, frames: vec![frame(&[0, 0])] };
        assert!(!listener.is_done(None));
        assert!(listener.is_done(Some(&BTreeSet::new())), "no link");
        assert!(!listener.is_done(Some(&BTreeSet::from(["rci-none0".to_owned()]))));
        listener.frames.push(frame(&[0, 120]));
        assert!(listener.is_done(None));
        survives_any_bytes(&frame(&[0, 0]), |bytes| {
            is_shutdown(bytes);
        });
    }

    #[test]
    fn ports_beyond_the_limit_are_reported() {
        let port = |index| ListenPort { name: format!("eno{index}"), index, is_awaited: true };
        let ports: Vec<ListenPort> = (0..513).map(port).collect();
        let mut answer = Vec::new();
        assert_eq!(within_limit(&ports[..512], &mut answer), &ports[..512]);
        assert!(answer.is_empty());
        assert_eq!(within_limit(&ports, &mut answer), &ports[..512]);
        let reported: Vec<Record> = lldp::records(&answer).collect();
        assert_eq!(reported, [Record::Failed("eno512", Errno::EMFILE as i32)]);
    }

    #[test]
    fn missing_port_fails_alone() {
        let none = ListenPort { name: "rci-none0".into(), index: 0x7fff_fff0, is_awaited: true };
        let question = LldpFrames { ports: vec![none], wait: Duration::from_secs(5) };
        let start = Instant::now();
        match question.ask_live() {
            Ok(bytes) => {
                let found: Vec<Record> = lldp::records(&bytes).collect();
                assert_eq!(found, [Record::Failed("rci-none0", Errno::ENODEV as i32)]);
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
        }
        assert!(start.elapsed() < Duration::from_secs(2));
    }
}
