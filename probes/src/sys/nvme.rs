//! Pages of an NVMe controller about itself, by `ioctl(NVME_IOCTL_ADMIN_CMD)` on its character
//! device (`uapi/linux/nvme_ioctl.h`; NVM Express Base Specification 2.0, Get Log Page, Identify and Security
//! Receive).
//!
//! Only the commands named here can be sent. Bits 1:0 of an opcode give the direction of data; in
//! all of these they are 10b, from the controller to the host. Needs root.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;

use super::Question;

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

impl NvmePage {
    fn command(self) -> AdminCommand {
        let plain = AdminCommand::default();
        // The protocol in the upper byte, its specific value in the two below (`nvme_sec_submit`,
        // `drivers/nvme/host/core.c`); then the number of bytes.
        let security = |protocol: u32, specific: u32, n_bytes: u32| AdminCommand {
            opcode: 0x82,
            data_len: n_bytes,
            cdw10: protocol << 24 | specific << 8,
            cdw11: n_bytes,
            ..plain
        };
        match self {
            // Number of dwords minus one in the upper half, the page in the lower.
            NvmePage::Health => AdminCommand {
                opcode: 0x02,
                nsid: u32::MAX,
                data_len: 512,
                cdw10: (512 / 4 - 1) << 16 | 0x02,
                ..plain
            },
            NvmePage::Identify => {
                AdminCommand { opcode: 0x06, data_len: 4096, cdw10: 0x01, ..plain }
            }
            NvmePage::SecurityProtocols => security(0x00, 0x0000, 512),
            NvmePage::TcgLevel0 => security(0x01, 0x0001, 2048),
        }
    }
}

impl Question for NvmeQuestion {
    fn name(&self) -> String {
        let page = match self.page {
            NvmePage::Health => "health",
            NvmePage::Identify => "identify",
            NvmePage::SecurityProtocols => "security-protocols",
            NvmePage::TcgLevel0 => "tcg-level-0",
        };
        format!("nvme/{}/{page}", self.controller)
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        let number = self.controller.strip_prefix("nvme").unwrap_or_default();
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Errno::EINVAL.into());
        }
        let flags = OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
        let path = format!("/dev/{}", self.controller);
        let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
        if !file.metadata()?.file_type().is_char_device() {
            return Err(Errno::ENOTTY.into());
        }
        let mut command = self.page.command();
        let mut data = vec![0; usize::try_from(command.data_len).map_err(io::Error::other)?];
        send(&file, &mut command, &mut data)?;
        Ok(data)
    }
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
    match status {
        0 => Ok(()),
        ..0 => Err(io::Error::last_os_error()),
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
        let pages = [
            NvmePage::Health,
            NvmePage::Identify,
            NvmePage::SecurityProtocols,
            NvmePage::TcgLevel0,
        ];
        for page in pages {
            let command = page.command();
            assert!(matches!(command.opcode, 0x02 | 0x06 | 0x82), "{command:?}");
            assert_eq!(command.opcode & 0b11, 0b10, "{command:?}");
            assert_eq!((command.metadata, command.metadata_len), (0, 0));
        }
        assert_eq!(NvmePage::Health.command().cdw10, 0x007f_0002);
    }

    #[test]
    fn only_security_commands_are_a_list_and_a_discovery_that_need_no_session() {
        let of = |page: NvmePage| (page.command().opcode, page.command().cdw10);
        assert_eq!(of(NvmePage::SecurityProtocols), (0x82, 0x0000_0000));
        // Protocol 01h, ComID 0001h; sessions use ComIDs from 07FEh on, which the disk assigns.
        assert_eq!(of(NvmePage::TcgLevel0), (0x82, 0x0100_0100));
        let command = NvmePage::TcgLevel0.command();
        assert_eq!(command.cdw11, command.data_len);
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
