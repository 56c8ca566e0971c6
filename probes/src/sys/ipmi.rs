//! Questions to the management controller through `/dev/ipmi0`, and through it to other controllers on its bus
//! (`uapi/linux/ipmi.h`, `Documentation/driver-api/ipmi.rst`; IPMI 2.0 chapters 20, 22, 23, 31, 33 to 35).
//!
//! Only the commands named here can be sent; all of them read. Needs root, and the kernel's
//! `ipmi_devintf`, which the live image may have loaded; nothing is loaded here.

mod command;
mod fru;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc::{self, c_int, c_long, c_short, c_uchar, c_uint, c_ushort};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::Question;
pub use command::{IpmiCommand, Target};
pub use fru::{FruArea, FruPart};

/// The kernel waits 5 s for a byte of an answer and asks again (`OBF_RETRY_TIMEOUT` and
/// `MAX_ERROR_RETRIES`, `drivers/char/ipmi/ipmi_kcs_sm.c`): no caller waits for that.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Another controller on the bus answers within milliseconds or never; the kernel would ask four times.
const TIMEOUT_SATELLITE: Duration = Duration::from_millis(1500);
/// Longest message of the system interface (`IPMI_MAX_MSG_LENGTH`).
const MESSAGE_BYTES: usize = 272;
const DEVICE: &str = "/dev/ipmi0";

/// `IPMI_SYSTEM_INTERFACE_ADDR_TYPE` and its channel.
const SYSTEM_INTERFACE: c_int = 0x0c;
const BMC_CHANNEL: c_short = 0x0f;
/// `IPMI_IPMB_ADDR_TYPE`.
const IPMB: c_int = 0x01;

impl Question for IpmiCommand {
    fn name(&self) -> String {
        self.message().0
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        exchange(*self)
    }
}

/// Sends a command and waits for its answer: the completion code and the data.
fn exchange(command: IpmiCommand) -> io::Result<Vec<u8>> {
    let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
    let device = OpenOptions::new().read(true).write(true).custom_flags(flags).open(DEVICE)?;
    send(&device, command)?;
    let timeout = match command.target().0 {
        Target::Bmc => TIMEOUT,
        Target::Satellite { .. } => TIMEOUT_SATELLITE,
    };
    answer(&device, timeout)
}

/// Waits for the answer to the command that was sent through `device`: the completion code and the data.
///
/// # Errors
/// `ETIMEDOUT` if none arrives in time, or as the kernel answers.
pub fn answer(device: &File, timeout: Duration) -> io::Result<Vec<u8>> {
    let end = Instant::now() + timeout;
    loop {
        wait(device, end)?;
        match receive(device) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}

/// `struct ipmi_system_interface_addr`, where the first of `rest` is the logical unit, or
/// `struct ipmi_ipmb_addr`: the address, then the logical unit.
#[repr(C)]
struct Address {
    kind: c_int,
    channel: c_short,
    rest: [c_uchar; 2],
}

impl Address {
    fn of((target, lun): (Target, u8)) -> Address {
        match target {
            Target::Bmc => Address { kind: SYSTEM_INTERFACE, channel: BMC_CHANNEL, rest: [lun, 0] },
            Target::Satellite { channel, address } => {
                Address { kind: IPMB, channel: c_short::from(channel), rest: [address, lun] }
            }
        }
    }
}

/// `struct ipmi_msg`.
#[repr(C)]
struct Message {
    netfn: c_uchar,
    command: c_uchar,
    data_len: c_ushort,
    data: *mut c_uchar,
}

impl Message {
    fn of(netfn: c_uchar, command: c_uchar, data: &mut [u8]) -> io::Result<Message> {
        let data_len = c_ushort::try_from(data.len()).map_err(io::Error::other)?;
        Ok(Message { netfn, command, data_len, data: data.as_mut_ptr() })
    }
}

/// `struct ipmi_req`.
#[repr(C)]
struct Request {
    address: *mut c_uchar,
    address_len: c_uint,
    id: c_long,
    message: Message,
}

/// `struct ipmi_recv`.
#[repr(C)]
struct Reply {
    kind: c_int,
    address: *mut c_uchar,
    address_len: c_uint,
    id: c_long,
    message: Message,
}

#[expect(unsafe_code, reason = "the IPMI driver's ioctl has no safe wrapper")]
fn send(device: &File, command: IpmiCommand) -> io::Result<()> {
    let mut address = Address::of(command.target());
    let (_, netfn, command, mut data) = command.message();
    let mut request = Request {
        address: (&raw mut address).cast(),
        address_len: c_uint::try_from(size_of::<Address>()).map_err(io::Error::other)?,
        id: 1,
        message: Message::of(netfn, command, &mut data)?,
    };
    let code = nix::request_code_read!(b'i', 13, size_of::<Request>());
    // SAFETY: `request` is a whole `struct ipmi_req`; its two pointers lead to `address` and
    // `data`, both alive during the call and of the lengths given. IPMICTL_SEND_COMMAND copies
    // from them before it returns and writes to none (`ipmi_devintf.c`, `handle_send_req`).
    let result = unsafe { libc::ioctl(device.as_raw_fd(), code, &raw mut request) };
    Ok(Errno::result(result).map(drop)?)
}

#[expect(unsafe_code, reason = "the IPMI driver's ioctl has no safe wrapper")]
fn receive(device: &File) -> io::Result<Vec<u8>> {
    let mut data = vec![0_u8; MESSAGE_BYTES];
    // `struct ipmi_addr` is the largest address the driver writes: int, short and 32 bytes.
    let mut address = [0_u64; 5];
    let mut reply = Reply {
        kind: 0,
        address: address.as_mut_ptr().cast(),
        address_len: c_uint::try_from(size_of_val(&address)).map_err(io::Error::other)?,
        id: 0,
        message: Message::of(0, 0, &mut data)?,
    };
    let code = nix::request_code_readwrite!(b'i', 11, size_of::<Reply>());
    // SAFETY: `reply` is a whole `struct ipmi_recv`; its two pointers lead to `address` and
    // `data`, both alive, writable and of the lengths given. IPMICTL_RECEIVE_MSG_TRUNC writes at
    // most these lengths and cuts a longer message (`ipmi_devintf.c`, `handle_recv`).
    let result = unsafe { libc::ioctl(device.as_raw_fd(), code, &raw mut reply) };
    match Errno::result(result) {
        // The message exceeded the buffer and was truncated; no command here has such an answer.
        Ok(_) | Err(Errno::EMSGSIZE) => {}
        Err(error) => return Err(error.into()),
    }
    data.truncate(usize::from(reply.message.data_len));
    Ok(data)
}

fn wait(device: &File, end: Instant) -> io::Result<()> {
    let rest = end.saturating_duration_since(Instant::now());
    let timeout = PollTimeout::try_from(rest).unwrap_or(PollTimeout::ZERO);
    let mut fds = [PollFd::new(device.as_fd(), PollFlags::POLLIN)];
    match poll(&mut fds, timeout) {
        // A number, so that a capture keeps it.
        Ok(0) => Err(Errno::ETIMEDOUT.into()),
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_that_the_kernel_expects() {
        if cfg!(target_pointer_width = "64") {
            assert_eq!(size_of::<Request>(), 40);
            assert_eq!(size_of::<Reply>(), 48);
            assert_eq!(nix::request_code_read!(b'i', 13, size_of::<Request>()), 0x8028_690d);
        }
        assert_eq!(size_of::<Address>(), 8);
    }

    #[test]
    fn satellite_is_addressed_by_channel_and_bus_address() {
        let own = Address::of((Target::Bmc, 1));
        assert_eq!((own.kind, own.channel, own.rest), (0x0c, 0x0f, [1, 0]));
        let other = Address::of((Target::Satellite { channel: 6, address: 0x2c }, 2));
        assert_eq!((other.kind, other.channel, other.rest), (0x01, 6, [0x2c, 2]));
    }
}
