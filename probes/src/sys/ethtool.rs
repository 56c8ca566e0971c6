//! Requests to the driver of a network interface by `ioctl(SIOCETHTOOL)` (`uapi/linux/ethtool.h`).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

const SIOCETHTOOL: libc::Ioctl = 0x8946;
/// Length of `struct ethtool_eeprom` before its data, and the most data that is requested.
const EEPROM_HEADER_BYTES: usize = 16;
const EEPROM_BYTES: u32 = 128;
/// Room for the largest of these answers.
const BUFFER_BYTES: usize = 256;
/// `IFNAMSIZ`, with the closing NUL.
const NAME_BYTES: usize = 16;

/// Reads `length` bytes of the memory of the module in a port, at most 128.
pub(super) fn module_eeprom(interface: &str, start: u32, length: u32) -> io::Result<Vec<u8>> {
    const ETHTOOL_GMODULEINFO: u32 = 0x42;
    const ETHTOOL_GMODULEEEPROM: u32 = 0x43;
    let about = ethtool(interface, &[ETHTOOL_GMODULEINFO])?;
    let size = formats::netlink::u32_at(&about, 8).unwrap_or(0);
    if length > EEPROM_BYTES || start.checked_add(length).is_none_or(|end| end > size) {
        return Err(Errno::ENODATA.into());
    }
    let answer = ethtool(interface, &[ETHTOOL_GMODULEEEPROM, 0, start, length])?;
    let data = answer.into_iter().skip(EEPROM_HEADER_BYTES);
    Ok(data.take(usize::try_from(length).unwrap_or_default()).collect())
}

/// Asks with the words of `request` at the front of a buffer; the answer is the whole buffer.
pub(super) fn ethtool(interface: &str, request: &[u32]) -> io::Result<Vec<u8>> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
        .or_else(|_| socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, None))?;
    let mut buffer = [0_u8; BUFFER_BYTES];
    for (to, word) in buffer.chunks_exact_mut(4).zip(request) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    ioctl(&socket, interface, &mut buffer)?;
    Ok(buffer.to_vec())
}

#[expect(unsafe_code, reason = "ethtool's ioctl has no safe wrapper")]
fn ioctl(socket: &OwnedFd, interface: &str, buffer: &mut [u8; BUFFER_BYTES]) -> io::Result<()> {
    if interface.len() >= NAME_BYTES {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut name = [0; NAME_BYTES];
    for (to, from) in name.iter_mut().zip(interface.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    let mut request = libc::ifreq {
        ifr_name: name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: buffer.as_mut_ptr().cast() },
    };
    // SAFETY: `request` is a whole `struct ifreq` with a NUL-terminated name, alive during the
    // call. Its data pointer leads to `buffer`, 256 bytes that are borrowed mutably here. The kernel
    // writes as much as the command in its first four bytes says and nothing beyond it
    // (`net/ethtool/ioctl.c`): the 196 bytes of `struct ethtool_drvinfo`, the 44 of
    // `struct ethtool_modinfo`, the 24 of `struct ethtool_rxfh` with sizes of 0, or the 16 of
    // `struct ethtool_eeprom` and its `len`, which the only caller of that command keeps to 128.
    let code = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    Ok(Errno::result(code).map(drop)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_interface_is_an_error() {
        for name in ["rci-none0", "", "a-name-that-is-too-long-for-the-kernel"] {
            assert!(ethtool(name, &[3]).is_err() && module_eeprom(name, 0, 128).is_err(), "{name}");
        }
    }
}
