//! Questions to the firmware of a MegaRAID or PERC controller, by `ioctl(MEGASAS_IOC_FIRMWARE)` of the
//! driver `megaraid_sas` (`drivers/scsi/megaraid/megaraid_sas.h`: `struct megasas_iocpacket`,
//! `struct megasas_dcmd_frame`, `struct megasas_pthru_frame`). Needs root.
//!
//! Only the commands named here can be sent: they carry data from the controller to the host, and none
//! changes anything on it. The driver registers a character device but creates no node for it; the
//! vendor's tools create `/dev/megaraid_sas_ioctl_node`. If that is missing, a node with a different name
//! is created, opened and removed at once. It is the only thing that discovery ever creates.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::sync::OnceLock;

use formats::major_numbers::of_character_devices;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::stat::{Mode, SFlag, major, makedev, mknod};

use super::{Question, get_or_try};

/// The node that the vendor's tools create.
const KNOWN_NODE: &str = "/dev/megaraid_sas_ioctl_node";
/// Name of the character device in `/proc/devices`.
const DEVICE: &str = "megaraid_sas_ioctl";
/// `MAX_IOCTL_SGE`.
const N_PIECES: usize = 16;
/// `sizeof(frame.raw)` of the packet: two frames.
const FRAME_BYTES: usize = 128;
/// Offset of the buffer list in the frame of a direct command and a SCSI command.
const DIRECT_LIST: u32 = 0x28;
const SCSI_LIST: u32 = 0x30;

/// The driver's character device, opened at the first question and kept open for the next ones.
#[derive(Debug, Default)]
pub struct MegaraidNode(OnceLock<File>);

impl MegaraidNode {
    fn file(&self) -> io::Result<&File> {
        get_or_try(&self.0, open)
    }
}

/// Data that INQUIRY requests from a drive (SPC-5 §6.7 and §7.7, SBC-4 §6.6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum DrivePage {
    /// The standard data, not a page of vital product data.
    Standard = 0,
    /// Unit serial number.
    UnitSerial = 0x80,
    /// Device identification.
    Identification = 0x83,
    /// Block device characteristics.
    Characteristics = 0xb1,
}

/// A command that only reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MegaraidCommand {
    /// `MR_DCMD_CTRL_GET_INFO`: the controller.
    Controller,
    /// `MR_DCMD_PD_GET_LIST`: the addresses of all drives.
    Drives,
    /// `MR_DCMD_PD_GET_INFO`: the drive with this device id.
    Drive(u16),
    /// INQUIRY, sent to the drive with this device id.
    DrivePage(u8, DrivePage),
    /// `MR_DCMD_LD_GET_LIST`: the volumes.
    Volumes,
    /// `MR_DCMD_LD_GET_INFO`: the volume with this target id.
    Volume(u8),
    /// `MR_DCMD_CFG_READ`: arrays and their members. The firmware truncates its answer to the
    /// buffer of 4 KiB: a handful of arrays.
    Configuration,
    /// The same with 128 KiB: more arrays, volumes and spares than a controller has.
    LargeConfiguration,
}

/// Asks a controller.
#[derive(Debug, Clone)]
pub struct MegaraidQuestion<'a> {
    /// The driver's device.
    pub node: &'a MegaraidNode,
    /// Number of the controller's SCSI host.
    pub host: u16,
    /// The question.
    pub command: MegaraidCommand,
}

impl MegaraidCommand {
    /// Its name in a capture; the length of the answer, since some firmware refuses any other; the number of a direct
    /// command, and the id of what it is about.
    fn row(self) -> (String, usize, u32, u16) {
        match self {
            MegaraidCommand::Controller => ("controller".to_owned(), 2048, 0x0101_0000, 0),
            // Header and 256 drives of 24 bytes.
            MegaraidCommand::Drives => ("drives".to_owned(), 8 + 256 * 24, 0x0201_0000, 0),
            MegaraidCommand::Drive(id) => (format!("drive-{id}"), 512, 0x0202_0000, id),
            MegaraidCommand::DrivePage(id, page) => {
                (format!("drive-{id}-page-{:02x}", page as u8), 252, 0, u16::from(id))
            }
            // Header and 64 volumes of 16 bytes.
            MegaraidCommand::Volumes => ("volumes".to_owned(), 8 + 64 * 16, 0x0301_0000, 0),
            MegaraidCommand::Volume(id) => (format!("volume-{id}"), 384, 0x0302_0000, id.into()),
            MegaraidCommand::Configuration => ("configuration".to_owned(), 4 << 10, 0x0401_0000, 0),
            MegaraidCommand::LargeConfiguration => {
                ("configuration-large".to_owned(), 128 << 10, 0x0401_0000, 0)
            }
        }
    }

    /// The frame, little endian as the firmware requires, and the offset of its list of buffers; the driver
    /// fills in the list.
    fn frame(self) -> ([u8; FRAME_BYTES], u32) {
        const DIRECT: u8 = 5;
        if let MegaraidCommand::DrivePage(id, page) = self {
            return (self.scsi_frame(id, page), SCSI_LIST);
        }
        let (_, _, opcode, id) = self.row();
        let mut frame = self.header(DIRECT);
        frame[0x18..0x1c].copy_from_slice(&opcode.to_le_bytes());
        frame[0x1c..0x1e].copy_from_slice(&id.to_le_bytes());
        (frame, DIRECT_LIST)
    }

    fn scsi_frame(self, id: u8, page: DrivePage) -> [u8; FRAME_BYTES] {
        const DRIVE_SCSI: u8 = 4;
        const INQUIRY: u8 = 0x12;
        /// A working drive answers within milliseconds.
        const TIMEOUT_SECONDS: u8 = 3;
        let mut frame = self.header(DRIVE_SCSI);
        frame[0x04] = id;
        frame[0x06] = 6;
        frame[0x12] = TIMEOUT_SECONDS;
        let length = u8::try_from(self.row().1).unwrap_or(u8::MAX);
        let is_vital = u8::from(page != DrivePage::Standard);
        frame[0x20..0x26].copy_from_slice(&[INQUIRY, is_vital, page as u8, 0, length, 0]);
        frame
    }

    /// The start of every frame: one buffer, data from the controller to the host.
    fn header(self, command: u8) -> [u8; FRAME_BYTES] {
        /// Value of `cmd_status` until the firmware has answered.
        const NO_STATUS: u8 = 0xff;
        const DIRECTION_READ: u8 = 0x10;
        let mut frame = [0; FRAME_BYTES];
        (frame[0x00], frame[STATUS], frame[0x07], frame[0x10]) =
            (command, NO_STATUS, 1, DIRECTION_READ);
        let n_bytes = u32::try_from(self.row().1).unwrap_or(u32::MAX);
        frame[0x14..0x18].copy_from_slice(&n_bytes.to_le_bytes());
        frame
    }
}

/// Offset of `cmd_status` in a frame.
const STATUS: usize = 0x02;

impl Question for MegaraidQuestion<'_> {
    fn name(&self) -> String {
        format!("megaraid/host{}/{}", self.host, self.command.row().0)
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        let mut data = vec![0; self.command.row().1];
        let (frame, list) = self.command.frame();
        match send(self.node.file()?, self.host, frame, list, &mut data)? {
            0 => Ok(data),
            // Invalid command, direct command and parameter; a drive that refuses a SCSI command.
            0x01..=0x03 | 0x2d => Err(Errno::EOPNOTSUPP.into()),
            // Device not found, no hardware, not found.
            0x0c | 0x22 | 0x23 => Err(Errno::ENODEV.into()),
            status => {
                Err(io::Error::other(format!("the controller returned status {status:#04x}")))
            }
        }
    }
}

/// Opens the existing node, or one that is created for this moment.
fn open() -> io::Result<File> {
    let number = of_character_devices(&fs::read_to_string("/proc/devices")?, DEVICE)
        .map(u64::from)
        .ok_or(io::Error::from(Errno::ENODEV))?;
    match open_node(KNOWN_NODE, number) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => {}
        result => return result,
    }
    let path = format!("/dev/.run-coreos-installer-{}", std::process::id());
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    mknod(path.as_str(), SFlag::S_IFCHR, mode, makedev(number, 0))?;
    let result = open_node(&path, number);
    nix::unistd::unlink(path.as_str())?;
    result
}

/// Opens `path` if it is the device with this major number.
fn open_node(path: &str, number: u64) -> io::Result<File> {
    let is_it =
        |file: &fs::Metadata| file.file_type().is_char_device() && major(file.rdev()) == number;
    // Opening another device could have side effects.
    if !is_it(&fs::symlink_metadata(path)?) {
        return Err(Errno::ENODEV.into());
    }
    let flags = OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY | OFlag::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    if !is_it(&file.metadata()?) {
        return Err(Errno::ENODEV.into());
    }
    Ok(file)
}

/// `struct megasas_iocpacket`.
#[repr(C, packed)]
struct Packet {
    host: u16,
    pad: u16,
    list: u32,
    n_pieces: u32,
    sense: u32,
    sense_len: u32,
    frame: [u8; FRAME_BYTES],
    pieces: [libc::iovec; N_PIECES],
}

/// Sends a frame; the answer is written to `data`, the status is returned.
#[expect(unsafe_code, reason = "the driver's ioctl has no safe wrapper")]
fn send(
    file: &impl AsRawFd,
    host: u16,
    frame: [u8; FRAME_BYTES],
    list: u32,
    data: &mut [u8],
) -> io::Result<u8> {
    let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut pieces = [nothing; N_PIECES];
    pieces[0] = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    let mut packet =
        Packet { host, pad: 0, list, n_pieces: 1, sense: 0, sense_len: 0, frame, pieces };
    let code = nix::request_code_readwrite!(b'M', 1, size_of::<Packet>());
    // SAFETY: `packet` is a whole `struct megasas_iocpacket`, alive and writable during the call. Its
    // one piece leads to `data`, alive and writable too, where the driver reads and writes exactly
    // `iov_len` bytes; there is no sense buffer. It writes one byte of the packet, the status, and
    // returns when the command has ended (`megasas_mgmt_fw_ioctl`,
    // `drivers/scsi/megaraid/megaraid_sas_base.c`), so nothing is written later.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), code, &raw mut packet) };
    Errno::result(result)?;
    Ok(packet.frame[STATUS])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [MegaraidCommand; 11] = [
        MegaraidCommand::Controller,
        MegaraidCommand::Drives,
        MegaraidCommand::Drive(0x1234),
        MegaraidCommand::DrivePage(9, DrivePage::Standard),
        MegaraidCommand::DrivePage(9, DrivePage::UnitSerial),
        MegaraidCommand::DrivePage(9, DrivePage::Identification),
        MegaraidCommand::DrivePage(9, DrivePage::Characteristics),
        MegaraidCommand::Volumes,
        MegaraidCommand::Volume(7),
        MegaraidCommand::Configuration,
        MegaraidCommand::LargeConfiguration,
    ];

    #[test]
    fn every_command_is_one_that_reads_and_carries_data_only_to_the_host() {
        for command in ALL {
            let (frame, list) = command.frame();
            // The direction is read, not write (08h) nor both (18h).
            assert_eq!((frame[0x10], frame[0x11]), (0x10, 0), "{command:?}");
            let opcode = u32::from_le_bytes(*frame[0x18..].first_chunk().unwrap());
            match (frame[0], list) {
                (5, 0x28) => assert!(
                    [0x0101_0000, 0x0201_0000, 0x0202_0000, 0x0301_0000, 0x0302_0000, 0x0401_0000]
                        .contains(&opcode),
                    "{command:?}"
                ),
                (4, 0x30) => {
                    assert_eq!((frame[0x20], frame[0x06]), (0x12, 6));
                    assert_eq!(frame[0x21] == 1, frame[0x22] != 0);
                    assert_eq!(usize::from(frame[0x24]), command.row().1);
                }
                other => panic!("{command:?}: {other:?}"),
            }
        }
        let (frame, _) = MegaraidCommand::Drive(0x1234).frame();
        assert_eq!(frame[0x1c..0x1e], [0x34, 0x12]);
    }

    #[test]
    fn each_question_has_a_name_of_its_own() {
        let node = MegaraidNode::default();
        let name = |command| MegaraidQuestion { node: &node, host: 3, command }.name();
        let names: std::collections::BTreeSet<String> = ALL.into_iter().map(name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(names.contains("megaraid/host3/drive-9-page-b1"), "{names:?}");
    }

    #[test]
    fn packet_and_the_request_are_those_of_the_kernel() {
        if cfg!(target_pointer_width = "64") {
            assert_eq!(size_of::<Packet>(), 404);
            let code = nix::request_code_readwrite!(b'M', 1, size_of::<Packet>());
            assert_eq!(code & 0xffff_ffff, 0xc194_4d01);
        }
    }

    #[test]
    fn only_the_drivers_own_device_is_opened() {
        // /dev/null has the major number 1.
        assert!(open_node("/dev/null", 1).is_ok());
        for (path, number) in [("/dev/null", 2), ("/proc/devices", 1), ("/dev/no-such-node", 1)] {
            assert!(open_node(path, number).is_err(), "{path}");
        }
    }
}
