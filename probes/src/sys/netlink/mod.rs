//! Dumps over netlink: links, addresses and routes (`rtnetlink(7)`), and ethtool's facts about all ports
//! (`Documentation/networking/ethtool-netlink.rst`, Linux 5.6).
//!
//! The answer to a dump is its messages as the kernel sent them, without the closing `NLMSG_DONE`. Only a
//! dump that ended early keeps it, since it contains the reason.

pub mod ethtool;

pub use ethtool::{EthtoolDump, FEATURE_NAMES, ModuleEeprom};

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use formats::netlink as wire;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto,
    setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike as _};

use super::Question;

/// Largest answer that is kept; a dump of 1000 links has about 1.5 MiB.
const LIMIT_BYTES: usize = 16 << 20;
/// The kernel fills at most 32 KiB a datagram unless the reader offers more (`netlink_dump`).
const DATAGRAM_BYTES: usize = 64 << 10;
/// Time limit for one datagram; the kernel answers at once.
const RECEIVE_SECONDS: i64 = 3;
/// Time limit for all datagrams of one request.
const REQUEST_LIMIT: Duration = Duration::from_secs(6);
/// Number of tries for a dump during which the list changed.
const TRIES: usize = 3;

/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// `NLM_F_ACK`: a closing message that says how it went.
const ACK: u16 = 4;
/// `NLM_F_DUMP`, that is `NLM_F_ROOT | NLM_F_MATCH`.
const DUMP: u16 = 0x300;

/// Lists of the kernel's routing side (`uapi/linux/rtnetlink.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteDump {
    /// `RTM_GETLINK`: every interface.
    Link,
    /// `RTM_GETADDR`: every address of every interface.
    Address,
    /// `RTM_GETROUTE`: every route of every table.
    Route,
}

impl Question for RouteDump {
    fn name(&self) -> String {
        format!("rtnetlink/{self:?}").to_lowercase()
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        let (kind, header_bytes) = match self {
            RouteDump::Link => (18, 16),
            RouteDump::Address => (22, 8),
            RouteDump::Route => (26, 12),
        };
        let gathered = dump(SockProtocol::NetlinkRoute, kind, &vec![0; header_bytes])?;
        // Half a list of links or addresses would look like a complete one.
        done(gathered.errno)?;
        Ok(gathered.answer)
    }
}

/// Asks which agent runs DCBX on a port: `RTM_GETDCB` with `DCB_CMD_GDCBX` (`uapi/linux/dcbnl.h`).
pub(super) fn dcbx(interface: &str) -> io::Result<Vec<u8>> {
    const RTM_GETDCB: u16 = 78;
    const DCB_CMD_GDCBX: u8 = 22;
    const DCB_ATTR_IFNAME: u16 = 1;
    // `struct dcbmsg`: family and command, padded to 4 bytes.
    let payload = [vec![0, DCB_CMD_GDCBX, 0, 0], text_attribute(DCB_ATTR_IFNAME, interface)];
    request(SockProtocol::NetlinkRoute, RTM_GETDCB, &payload.concat())
}

/// Sends the dump request of type `kind` and gathers the answer.
fn dump(protocol: SockProtocol, kind: u16, payload: &[u8]) -> io::Result<Gathered> {
    let mut gathered = exchange(protocol, kind, REQUEST | DUMP, payload)?;
    for _ in 1..TRIES {
        if gathered.is_interrupted {
            gathered = exchange(protocol, kind, REQUEST | DUMP, payload)?;
        }
    }
    Ok(gathered)
}

/// Sends a request that is not a dump and gathers the answer.
fn request(protocol: SockProtocol, kind: u16, payload: &[u8]) -> io::Result<Vec<u8>> {
    Ok(exchange(protocol, kind, REQUEST | ACK, payload)?.answer)
}

/// Sends a request on its own socket and gathers the answer up to its end.
fn exchange(protocol: SockProtocol, kind: u16, flags: u16, payload: &[u8]) -> io::Result<Gathered> {
    let end = Instant::now() + REQUEST_LIMIT;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(RECEIVE_SECONDS))?;
    let kernel = NetlinkAddr::new(0, 0);
    bind(socket.as_raw_fd(), &kernel)?;
    let mut request = Vec::new();
    push(&mut request, wire::Message { kind, flags, payload })?;
    sendto(socket.as_raw_fd(), &request, &kernel, MsgFlags::empty())?;
    let (mut gathered, mut buffer) = (Gathered::default(), vec![0; DATAGRAM_BYTES]);
    while !gathered.take(receive(&socket, end, &mut buffer)?)? {}
    Ok(gathered)
}

/// Receives one datagram; one that does not fit is an error and never silently truncated.
fn receive<'a>(socket: &OwnedFd, end: Instant, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    if Instant::now() > end {
        return Err(too_slow());
    }
    loop {
        match recv(socket.as_raw_fd(), buffer, MsgFlags::MSG_TRUNC) {
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return Err(too_slow()),
            Err(error) => return Err(error.into()),
            Ok(length) => return buffer.get(..length).ok_or(Errno::EMSGSIZE.into()),
        }
    }
}

/// The messages of an answer, and how it ended.
#[derive(Debug, Default)]
struct Gathered {
    answer: Vec<u8>,
    /// The list changed while it was dumped.
    is_interrupted: bool,
    /// The error with which a dump ended early; 0 if it is whole.
    errno: i32,
}

impl Gathered {
    /// Adds a datagram; returns whether it was the last one. A refused request is an error. A dump that ends
    /// with an error has listed everything before it (`ethnl_default_dumpit`, `netlink_dump`).
    fn take(&mut self, datagram: &[u8]) -> io::Result<bool> {
        for message in wire::messages(datagram) {
            self.is_interrupted |= message.flags & wire::DUMP_INTERRUPTED != 0;
            let code = message.errno();
            match message.kind {
                wire::ERROR => return done(code).map(|()| true),
                // Some kernels end like this if the very last port does not support the request.
                wire::DONE if code == Errno::EOPNOTSUPP as i32 => {
                    return done(if self.answer.is_empty() { code } else { 0 }).map(|()| true);
                }
                wire::DONE => {
                    self.errno = code;
                    return Ok(true);
                }
                _ => push(&mut self.answer, message)?,
            }
        }
        Ok(false)
    }
}

/// Appends a message unchanged, including header and padding.
fn push(answer: &mut Vec<u8>, message: wire::Message) -> io::Result<()> {
    let length = message.payload.len() + 16;
    if answer.len() + length > LIMIT_BYTES {
        return Err(io::Error::other(format!("more than {LIMIT_BYTES} bytes")));
    }
    answer.extend(u32::try_from(length).map_err(io::Error::other)?.to_ne_bytes());
    answer.extend(message.kind.to_ne_bytes());
    answer.extend(message.flags.to_ne_bytes());
    // Sequence and port belong to this socket; cleared, so that the same machine gives the same bytes.
    answer.extend([0; 8]);
    answer.extend(message.payload);
    answer.resize(answer.len().next_multiple_of(4), 0);
    Ok(())
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
    let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// An attribute with the text `name` and its NUL.
fn text_attribute(kind: u16, name: &str) -> Vec<u8> {
    attribute(kind, &[name.as_bytes(), &[0]].concat())
}

/// The result that an `errno` stands for; 0 is success.
fn done(code: i32) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

fn too_slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the kernel did not answer in time")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes::message;

    #[test]
    fn running_kernel_lists_at_least_the_loopback_link() {
        let answer = match RouteDump::Link.ask_live() {
            Ok(answer) => answer,
            Err(error) => {
                // A sandbox may forbid netlink.
                let forbidden =
                    [Errno::EPERM, Errno::EACCES, Errno::EAFNOSUPPORT, Errno::EPROTONOSUPPORT];
                let code = error.raw_os_error().map(Errno::from_raw);
                assert!(code.is_some_and(|code| forbidden.contains(&code)), "{error}");
                return crate::skipped::skipped("netlink is forbidden");
            }
        };
        let first = wire::messages(&answer).next().unwrap();
        assert_eq!(first.kind, 16, "RTM_NEWLINK");
    }

    #[test]
    fn dump_is_kept_unchanged_and_bounded() {
        let bytes = message(16, b"abc");
        let mut answer = Vec::new();
        for message in wire::messages(&bytes) {
            push(&mut answer, message).unwrap();
        }
        assert_eq!(answer, bytes);
        let large = vec![0; LIMIT_BYTES];
        let large = wire::Message { kind: 16, flags: 0, payload: &large };
        assert!(push(&mut answer, large).unwrap_err().to_string().contains("more than"));
    }

    #[test]
    fn dump_that_ends_early_keeps_earlier_messages_and_the_error() {
        let port = message(20, b"abcd");
        let end = |code: i32| message(wire::DONE, &(-code).to_ne_bytes());
        let mut cut = Gathered::default();
        assert!(!cut.take(&port).unwrap());
        assert!(cut.take(&end(Errno::ENODEV as i32)).unwrap());
        assert_eq!((cut.answer, cut.errno), (port.clone(), Errno::ENODEV as i32));
        let mut whole = Gathered::default();
        let not_supported = end(Errno::EOPNOTSUPP as i32);
        assert!(whole.take(&[port.clone(), not_supported.clone()].concat()).unwrap());
        assert_eq!((whole.answer, whole.errno), (port, 0));
        assert!(Gathered::default().take(&not_supported).is_err());
        let refused = message(wire::ERROR, &(-22_i32).to_ne_bytes());
        assert_eq!(Gathered::default().take(&refused).unwrap_err().raw_os_error(), Some(22));
    }
}
