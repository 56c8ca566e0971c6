//! Helpers of tests: answers made of records, and a socket that sends frames (`packet(7)`).

use std::os::fd::{AsRawFd, OwnedFd};

use formats::lldp::{Record, push};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, send, socket};

/// An answer of the given records.
pub(crate) fn answer(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        push(&mut bytes, *record);
    }
    bytes
}

/// A socket that sends on the port `index`.
pub(crate) fn speaker(index: u32) -> OwnedFd {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None).unwrap();
    super::bind(&socket, index).unwrap();
    socket
}

/// Sends a whole Ethernet frame.
pub(crate) fn speak(socket: &OwnedFd, frame: &[u8]) {
    let sent = send(socket.as_raw_fd(), frame, MsgFlags::empty());
    assert_eq!(sent, Ok(frame.len()));
}
