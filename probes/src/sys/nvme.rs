//! Pages of an NVMe controller about itself, by `ioctl(NVME_IOCTL_ADMIN_CMD)` on its character
//! device (`uapi/linux/nvme_ioctl.h`; NVM Express Base Specification 2.0, Get Log Page, Identify and Security
//! Receive).
//!
//! Only the commands named here can be sent. Bits 1:0 of an opcode give the direction of data; in
//! all of these they are 10b, from the controller to the host. Needs root.

use std::fs::{File, FileType};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt as _;

use formats::text::is_number;
use nix::errno::Errno;
use nix::libc;

use super::{Question, open_device};

/// A page of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NvmePage {
    /// Log page 02h, SMART / Health Information, of the whole controller: 512 bytes.
    Health,
    /// Identify Controller (CNS 01h): 4096 bytes.
    Identify,
    /// The security protocols that it supports (Security Receive, protocol 00h): 512 bytes.
    SecurityProtocols,
    /// Level 0 Discovery of TCG (Security Receive, protocol 01h, `ComID` 0001h): 2048 bytes.
    TcgLevel0,
}

/// Asks a controller for a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvmeQuestion {
    /// Kernel name of the controller, e.g. `nvme0`.
    pub controller: String,
    /// The page.
    pub page: NvmePage,
}

/// `struct nvme_admin_cmd`; all other fields stay zero.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
struct AdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    address: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

const IDENTIFY: u8 = 0x06;
const SECURITY_RECEIVE: u8 = 0x82;

impl NvmePage {
    /// Its name in a capture, and the command.
    fn command(self) -> (&'static str, AdminCommand) {
        let (name, opcode, nsid, data_len, cdw10) = match self {
            // Number of dwords minus one in the upper half, the page in the lower.
            NvmePage::Health => ("health", 0x02, u32::MAX, 512, (512 / 4 - 1) << 16 | 0x02),
            NvmePage::Identify => ("identify", IDENTIFY, 0, 4096, 0x01),
            // The protocol in the upper byte, its specific value in the two below (`nvme_sec_submit`,
            // `drivers/nvme/host/core.c`); the number of bytes follows.
            NvmePage::SecurityProtocols => ("security-protocols", SECURITY_RECEIVE, 0, 512, 0),
            NvmePage::TcgLevel0 => {
                ("tcg-level-0", SECURITY_RECEIVE, 0, 2048, 0x01 << 24 | 0x0001 << 8)
            }
        };
        let cdw11 = if opcode == SECURITY_RECEIVE { data_len } else { 0 };
        (name, AdminCommand { opcode, nsid, data_len, cdw10, cdw11, ..AdminCommand::default() })
    }
}

impl Question for NvmeQuestion {
    fn name(&self) -> String {
        format!("nvme/{}/{}", self.controller, self.page.command().0)
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        if !self.controller.strip_prefix("nvme").is_some_and(is_number) {
            return Err(Errno::EINVAL.into());
        }
        let path = format!("/dev/{}", self.controller);
        let file = open_device(&path, FileType::is_char_device, Errno::ENOTTY)?;
        let (_, mut command) = self.page.command();
        let mut data = vec![0; usize::try_from(command.data_len).map_err(io::Error::other)?];
        send(&file, &mut command, &mut data)?;
        Ok(data)
    }
}

/// Asks an open namespace for Identify Namespace (CNS 00h): 4096 bytes.
pub(super) fn identify_namespace(disk: &File, nsid: u32) -> io::Result<Vec<u8>> {
    let mut data = vec![0; 4096];
    let mut command = AdminCommand { opcode: IDENTIFY, nsid, ..AdminCommand::default() };
    send(disk, &mut command, &mut data)?;
    Ok(data)
}

/// Sends `command`; the answer is written to `data`, with the length in the command.
#[expect(unsafe_code, reason = "the NVMe driver's ioctl has no safe wrapper")]
fn send(file: &impl AsRawFd, command: &mut AdminCommand, data: &mut [u8]) -> io::Result<()> {
    command.data_len = u32::try_from(data.len()).map_err(io::Error::other)?;
    command.address = data.as_mut_ptr() as u64;
    let code = nix::request_code_readwrite!(b'N', 0x41, size_of::<AdminCommand>());
    // SAFETY: `command` is a whole `struct nvme_admin_cmd`, alive and writable during the call. Its
    // `address` leads to `data`, alive and writable too; the driver maps exactly `data_len` bytes of
    // it (`nvme_map_user_request`, `drivers/nvme/host/ioctl.c`); there is no metadata. The call
    // returns when the command has ended, so nothing is written later.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), code, &raw mut *command) };
    match Errno::result(status)? {
        0 => Ok(()),
        // Invalid opcode, invalid field and invalid log page: the controller does not have it.
        status if matches!(status & 0x7ff, 0x001 | 0x002 | 0x109) => Err(Errno::EOPNOTSUPP.into()),
        _ => Err(Errno::EIO.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_only_carries_data_from_the_controller_to_the_host() {
        // The only security commands are a list and a discovery that need no session: protocol 01h, ComID 0001h.
        // Sessions use ComIDs from 07FEh on, which the disk assigns.
        for (page, opcode, cdw10, cdw11) in [
            (NvmePage::Health, 0x02, 0x007f_0002, 0),
            (NvmePage::Identify, 0x06, 0x01, 0),
            (NvmePage::SecurityProtocols, 0x82, 0, 512),
            (NvmePage::TcgLevel0, 0x82, 0x0100_0100, 2048),
        ] {
            let (_, command) = page.command();
            assert_eq!((command.opcode, command.cdw10, command.cdw11), (opcode, cdw10, cdw11));
            assert_eq!(command.opcode & 0b11, 0b10, "{command:?}");
            assert_eq!((command.metadata, command.metadata_len), (0, 0));
        }
    }

    #[test]
    fn structure_and_the_request_are_those_of_the_kernel() {
        assert_eq!(size_of::<AdminCommand>(), 72);
        let code = nix::request_code_readwrite!(b'N', 0x41, size_of::<AdminCommand>());
        assert_eq!(code & 0xffff_ffff, 0xc048_4e41);
    }

    #[test]
    fn only_controllers_are_opened() {
        for controller in ["", "nvme", "null", "../dev/null", "nvme0n1"] {
            let controller = controller.to_owned();
            assert!(NvmeQuestion { controller, page: NvmePage::Health }.ask_live().is_err());
        }
    }
}
