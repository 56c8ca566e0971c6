//! The two calls to the kernel that make a light blink: Chassis Identify (IPMI 2.0, section 28.5) through `/dev/ipmi0`
//! (`uapi/linux/ipmi.h`), and `ETHTOOL_PHYS_ID` (`uapi/linux/ethtool.h`). Both need root.

use std::ffi::{c_int, c_long, c_short};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use probes::sys::ipmi::answer;

pub(super) const IPMI: &str = "/dev/ipmi0";
const IPMI_LIMIT: Duration = Duration::from_secs(3);
/// Network function and command of Chassis Identify.
const CHASSIS_IDENTIFY: [u8; 2] = [0x00, 0x04];
const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_PHYS_ID: u32 = 0x1c;

/// `struct ipmi_system_interface_addr`.
#[repr(C)]
struct Address {
    kind: c_int,
    channel: c_short,
    lun: u8,
}

/// `struct ipmi_req`, and the `struct ipmi_msg` at its end.
#[repr(C)]
struct Request {
    address: *mut Address,
    address_len: u32,
    id: c_long,
    function: u8,
    command: u8,
    data_len: u16,
    data: *mut u8,
}

/// Makes the management controller blink the chassis light for this many seconds; 0 turns it off. Returns the
/// completion code.
///
/// # Errors
/// The controller cannot be asked, or does not answer.
#[expect(unsafe_code, reason = "the IPMI driver's ioctl has no safe wrapper")]
pub(super) fn identify_chassis(seconds: u8) -> io::Result<u8> {
    let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
    let device = OpenOptions::new().read(true).write(true).custom_flags(flags).open(IPMI)?;
    // The controller itself, on the channel of the system interface.
    let mut address = Address { kind: 0x0c, channel: 0x0f, lun: 0 };
    let mut interval = seconds;
    let [function, command] = CHASSIS_IDENTIFY;
    let mut request = Request {
        address: &raw mut address,
        address_len: u32::try_from(size_of::<Address>()).map_err(io::Error::other)?,
        id: 1,
        function,
        command,
        data_len: 1,
        data: &raw mut interval,
    };
    let code = nix::request_code_read!(b'i', 13, size_of::<Request>());
    // SAFETY: `request` is a whole `struct ipmi_req`; its two pointers lead to `address` and `interval`, both alive during
    // the call and of the lengths given. IPMICTL_SEND_COMMAND copies from them before it returns and writes to none
    // (`ipmi_devintf.c`, `handle_send_req`).
    Errno::result(unsafe { libc::ioctl(device.as_raw_fd(), code, &raw mut request) })?;
    let answer = answer(&device, IPMI_LIMIT)?;
    answer.first().copied().ok_or_else(|| io::Error::other("an empty answer"))
}

/// Makes a network port's light blink, and returns when it has stopped: after this many seconds, or at a signal.
///
/// # Errors
/// As the kernel answers; `EOPNOTSUPP` if the driver cannot.
#[expect(unsafe_code, reason = "ethtool's ioctl has no safe wrapper")]
pub(super) fn blink_port(name: &str, seconds: u32) -> io::Result<()> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    // `struct ethtool_value`.
    let mut value = [ETHTOOL_PHYS_ID, seconds];
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: value.as_mut_ptr().cast() },
    };
    if name.len() >= libc::IFNAMSIZ {
        return Err(Errno::ENODEV.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    // SAFETY: `request` is a whole `struct ifreq` with a NUL-terminated name. Its data pointer leads to `value`, a whole
    // `struct ethtool_value`, which the kernel reads (`ethtool_phys_id`, `net/ethtool/ioctl.c`). Both live longer than
    // the call.
    Errno::result(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_the_layout_that_the_kernel_expects() {
        if cfg!(target_pointer_width = "64") {
            assert_eq!((size_of::<Request>(), size_of::<Address>()), (40, 8));
            let at = [
                std::mem::offset_of!(Request, function),
                std::mem::offset_of!(Request, data_len),
                std::mem::offset_of!(Request, data),
            ];
            assert_eq!(at, [24, 26, 32]);
            assert_eq!(nix::request_code_read!(b'i', 13, size_of::<Request>()), 0x8028_690d);
        }
        assert_eq!(CHASSIS_IDENTIFY, [0, 4]);
    }

    #[test]
    fn port_that_does_not_exist_is_an_error() {
        for name in ["rci-none0", "a-name-that-is-too-long-for-the-kernel"] {
            assert!(blink_port(name, 1).is_err(), "{name}");
        }
    }
}
