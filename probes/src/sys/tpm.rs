//! The one command that is sent to a TPM 2.0: `TPM2_GetCapability` for its fixed properties (TPM 2.0
//! Library part 3, section 30.2), through the kernel's resource manager, which separates users.
//! It changes nothing. Needs root or the group of the device.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::Fixed;
use crate::guard::{self, Failure};

/// A slow chip takes about 50 ms; a driver that waits for a missing one takes minutes.
const TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_BYTES: usize = 4096;
const STACK_BYTES: usize = 64 << 10;

/// Tag, size, code of the command, `TPM_CAP_TPM_PROPERTIES`, `TPM_PT_MANUFACTURER`, 8 properties.
const COMMAND: [u8; 22] = [0x80, 1, 0, 0, 0, 22, 0, 0, 1, 0x7a, 0, 0, 0, 6, 0, 0, 1, 5, 0, 0, 0, 8];

/// Asks the first TPM for its maker and its firmware's version.
pub const TPM_PROPERTIES: Fixed =
    Fixed { name: "tpm/properties", ask: || within(TIMEOUT, exchange) };

/// Runs `work` on a separate thread and waits no longer than `limit`: closing a TPM waits for the current command
/// (`tpm_common_release`, `drivers/char/tpm/tpm-dev-common.c`).
fn within(
    limit: Duration,
    work: impl FnOnce() -> io::Result<Vec<u8>> + Send + 'static,
) -> io::Result<Vec<u8>> {
    guard::within(limit, "tpm", STACK_BYTES, work).unwrap_or_else(|failure| match failure {
        Failure::NoThread(error) => Err(error),
        Failure::Panicked(panic) => Err(io::Error::other(panic)),
        // A number, so that a capture keeps it.
        Failure::Late => Err(Errno::ETIMEDOUT.into()),
    })
}

fn exchange() -> io::Result<Vec<u8>> {
    // Non-blocking: the kernel then talks to the chip on its own (since Linux 5.0).
    let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
    let mut options = OpenOptions::new();
    let mut device = options.read(true).write(true).custom_flags(flags).open("/dev/tpmrm0")?;
    if device.write(&COMMAND)? != COMMAND.len() {
        return Err(Errno::EIO.into());
    }
    let timeout = PollTimeout::try_from(TIMEOUT).unwrap_or(PollTimeout::ZERO);
    let mut fds = [PollFd::new(device.as_fd(), PollFlags::POLLIN)];
    if poll(&mut fds, timeout)? == 0 {
        return Err(Errno::ETIMEDOUT.into());
    }
    let mut answer = vec![0; ANSWER_BYTES];
    let n_bytes = device.read(&mut answer)?;
    answer.truncate(n_bytes);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_that_cannot_be_closed_costs_no_more_than_the_limit() {
        struct SlowToClose;
        impl Drop for SlowToClose {
            fn drop(&mut self) {
                std::thread::sleep(Duration::from_secs(20));
            }
        }
        let began = std::time::Instant::now();
        let device = SlowToClose;
        let answer = within(Duration::from_millis(20), move || {
            drop(device);
            Ok(Vec::new())
        });
        assert_eq!(answer.unwrap_err().raw_os_error(), Some(libc::ETIMEDOUT));
        assert!(began.elapsed() < Duration::from_secs(10));
        assert_eq!(within(TIMEOUT, || Ok(vec![7])).unwrap(), [7]);
    }
}
