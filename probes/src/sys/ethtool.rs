//! The driver and firmware of a network interface: `ioctl(SIOCETHTOOL)` with `ETHTOOL_GDRVINFO`
//! (`uapi/linux/ethtool.h`). Netlink has no message for it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use super::Question;

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 3;
/// Length of `struct ethtool_drvinfo`.
const DRVINFO_BYTES: usize = 196;
/// `IFNAMSIZ`, with the closing NUL.
const NAME_BYTES: usize = 16;

/// Asks which driver serves an interface; the answer is a `struct ethtool_drvinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverInfo {
    /// The interface's name.
    pub interface: String,
}

impl Question for DriverInfo {
    fn name(&self) -> String {
        format!("ethtool/{}/driver", self.interface)
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        let mut answer = vec![0_u8; DRVINFO_BYTES];
        answer[..4].copy_from_slice(&ETHTOOL_GDRVINFO.to_ne_bytes());
        let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
            .or_else(|_| {
                socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)
            })?;
        ethtool(&socket, &self.interface, &mut answer)?;
        Ok(answer)
    }
}

#[expect(unsafe_code, reason = "ethtool's ioctl has no safe wrapper")]
fn ethtool(socket: &OwnedFd, interface: &str, buffer: &mut [u8]) -> io::Result<()> {
    if interface.len() >= NAME_BYTES || buffer.len() < DRVINFO_BYTES {
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
    // call. Its data pointer leads to `buffer`, which is borrowed mutably here and holds a
    // `struct ethtool_drvinfo` (196 bytes, checked above); with ETHTOOL_GDRVINFO in its first four
    // bytes the kernel writes exactly that structure and nothing behind it (`net/ethtool/ioctl.c`).
    let code = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_an_error_and_no_panic() {
        for name in ["rci-none0", "", "a-name-that-is-too-long-for-the-kernel"] {
            assert!(DriverInfo { interface: name.to_owned() }.ask_live().is_err(), "{name}");
        }
    }
}
