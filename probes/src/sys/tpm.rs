//! The one command that is sent to a TPM 2.0: `TPM2_GetCapability` for what its maker fixed (TPM 2.0
//! Library part 3, section 30.2), through the kernel's resource manager, which keeps users apart.
//! It changes nothing. Needs root or the group of the device.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::Question;

/// A slow chip takes some 50 ms; a driver that waits for one that is gone takes minutes.
const TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_BYTES: usize = 4096;

/// Tag, size, code of the command, `TPM_CAP_TPM_PROPERTIES`, `TPM_PT_MANUFACTURER`, 8 properties.
const COMMAND: [u8; 22] = [0x80, 1, 0, 0, 0, 22, 0, 0, 1, 0x7a, 0, 0, 0, 6, 0, 0, 1, 5, 0, 0, 0, 8];

/// Asks the first TPM for its maker and its firmware's version.
#[derive(Debug, Clone, Copy)]
pub struct TpmProperties;

impl Question for TpmProperties {
    fn name(&self) -> String {
        "tpm/properties".to_owned()
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        // Without waiting, the kernel talks to the chip by itself (since Linux 5.0).
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
        let mut options = OpenOptions::new();
        let mut device = options.read(true).write(true).custom_flags(flags).open("/dev/tpmrm0")?;
        if device.write(&COMMAND)? != COMMAND.len() {
            return Err(Errno::EIO.into());
        }
        let timeout = PollTimeout::try_from(TIMEOUT).unwrap_or(PollTimeout::ZERO);
        let mut fds = [PollFd::new(device.as_fd(), PollFlags::POLLIN)];
        // A number, so that a capture keeps it.
        if poll(&mut fds, timeout)? == 0 {
            return Err(Errno::ETIMEDOUT.into());
        }
        let mut answer = vec![0; ANSWER_BYTES];
        let n_bytes = device.read(&mut answer)?;
        answer.truncate(n_bytes);
        Ok(answer)
    }
}
