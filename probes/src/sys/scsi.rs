//! The health and locks that a SCSI or ATA disk reports, by `ioctl(SG_IO)` (`scsi/sg.h`; SPC-5,
//! LOG SENSE and SECURITY PROTOCOL IN; SAT-4 §12.2 ATA PASS-THROUGH (16), ACS-4 §7).
//!
//! Only the commands named here can be sent: they carry no data, or data from the disk to the host,
//! and none changes anything on it. The device is opened read-only. Needs root.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use nix::errno::Errno;
use nix::libc::{self, c_int, c_uchar, c_uint, c_ushort, c_void};

use super::Question;
use super::disk::DiskHandle;

const SG_IO: libc::Ioctl = 0x2285;
const SG_DXFER_NONE: c_int = -1;
const SG_DXFER_FROM_DEV: c_int = -3;
/// On a timeout the kernel resets the link, so the limit is longer than any caller waits.
const TIMEOUT_MS: c_uint = 60_000;
/// Room for the sense data.
const SENSE_BYTES: usize = 64;
/// Length of the answers that have data.
const DATA_BYTES: usize = 512;

const LOG_SENSE: u8 = 0x4d;
const ATA_PASS_THROUGH_16: u8 = 0x85;
const SECURITY_PROTOCOL_IN: u8 = 0xa2;
const TRUSTED_RECEIVE: u8 = 0x5c;
/// SERVICE ACTION IN (16), and its service action GET LBA STATUS.
const GET_LBA_STATUS: [u8; 2] = [0x9e, 0x12];

/// A command that only reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScsiCommand {
    /// Log page of a SCSI disk: 512 bytes or fewer.
    LogPage(u8),
    /// CHECK POWER MODE of an ATA disk: does not wake it. The answer is sense data with registers.
    AtaPowerMode,
    /// SMART RETURN STATUS of an ATA disk. The answer is sense data with registers.
    AtaSmartStatus,
    /// SMART READ DATA of an ATA disk: 512 bytes.
    AtaSmartData,
    /// READ LOG EXT of an ATA disk: one log page, 512 bytes.
    AtaLog {
        /// Address of the log.
        log: u8,
        /// Number of the page.
        page: u8,
    },
    /// The security protocols that a SCSI disk supports (SECURITY PROTOCOL IN, protocol 00h): 512 bytes
    /// or fewer.
    SecurityProtocols,
    /// Level 0 Discovery of TCG from a SCSI disk (protocol 01h, `ComID` 0001h): 512 bytes or fewer.
    TcgLevel0,
    /// As [`SecurityProtocols`](Self::SecurityProtocols) from an ATA disk (TRUSTED RECEIVE). The
    /// kernel sends it only with `libata.allow_tpm=1` and refuses it otherwise.
    AtaSecurityProtocols,
    /// As [`TcgLevel0`](Self::TcgLevel0) from an ATA disk (TRUSTED RECEIVE), with the same limit.
    AtaTcgLevel0,
}

/// The security protocol of TCG, and the `ComID` of its Level 0 Discovery.
const TCG: u8 = 0x01;
const LEVEL_0: u8 = 0x01;

/// Asks a disk.
#[derive(Debug, Clone)]
pub struct ScsiQuestion<'a> {
    /// The disk.
    pub disk: &'a DiskHandle,
    /// The question.
    pub command: ScsiCommand,
}

impl ScsiCommand {
    /// The command's name in a capture, and its command descriptor block.
    fn row(self) -> (String, Vec<u8>) {
        // Protocol 3 carries no data, 4 is PIO data-in. Flags: 20h asks for the registers; 0Eh is
        // from the disk, in blocks, as many as the sector count says.
        let ata = |protocol: u8, flags: u8, feature: u8, command: u8| {
            let mut block = vec![ATA_PASS_THROUGH_16, protocol << 1, flags, 0, feature, 0];
            block.resize(16, 0);
            (block[6], block[14]) = (u8::from(protocol == 4), command);
            block
        };
        let with = |mut block: Vec<u8>, middle_lba: u8, high_lba: u8| {
            (block[10], block[12]) = (middle_lba, high_lba);
            block
        };
        let smart = |block: Vec<u8>| with(block, 0x4f, 0xc2);
        let security = |protocol: u8, specific: u8| {
            let [high, low] = u16::to_be_bytes(512);
            vec![SECURITY_PROTOCOL_IN, protocol, 0, specific, 0, 0, 0, 0, high, low, 0, 0]
        };
        let (name, block) = match self {
            ScsiCommand::LogPage(page) => {
                // 40h: cumulative values.
                let [high, low] = u16::to_be_bytes(512);
                let block = vec![LOG_SENSE, 0, 0x40 | (page & 0x3f), 0, 0, 0, 0, high, low, 0];
                return (format!("log-{page:02x}"), block);
            }
            ScsiCommand::AtaLog { log, page } => {
                // The log in the low, the page in the middle LBA register, 48 bits.
                let mut block = ata(4, 0x0e, 0, 0x2f);
                block[1] |= 1;
                (block[8], block[10]) = (log, page);
                return (format!("ata-log-{log:02x}-{page:02x}"), block);
            }
            ScsiCommand::AtaPowerMode => ("ata-power-mode", ata(3, 0x20, 0, 0xe5)),
            ScsiCommand::AtaSmartStatus => ("ata-smart-status", smart(ata(3, 0x20, 0xda, 0xb0))),
            ScsiCommand::AtaSmartData => ("ata-smart-data", smart(ata(4, 0x0e, 0xd0, 0xb0))),
            ScsiCommand::SecurityProtocols => ("security-protocols", security(0, 0)),
            ScsiCommand::TcgLevel0 => ("tcg-level-0", security(TCG, LEVEL_0)),
            ScsiCommand::AtaSecurityProtocols => {
                ("ata-security-protocols", ata(4, 0x0e, 0, TRUSTED_RECEIVE))
            }
            // The `ComID` in the middle and high LBA registers.
            ScsiCommand::AtaTcgLevel0 => {
                ("ata-tcg-level-0", with(ata(4, 0x0e, TCG, TRUSTED_RECEIVE), LEVEL_0, 0))
            }
        };
        (name.to_owned(), block)
    }
}

impl Question for ScsiQuestion<'_> {
    fn name(&self) -> String {
        format!("scsi/{}/{}", self.disk.name(), self.command.row().0)
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        let by_sense =
            matches!(self.command, ScsiCommand::AtaPowerMode | ScsiCommand::AtaSmartStatus);
        let mut data = if by_sense { Vec::new() } else { vec![0; DATA_BYTES] };
        let done = send(self.disk.file()?, &mut self.command.row().1, &mut data)?;
        done.answer(data, by_sense)
    }
}

/// Asks an open disk which blocks from `first_block` on it has allocated (GET LBA STATUS, SBC-4 §5.6): 512 bytes or fewer.
pub(super) fn lba_status(disk: &File, first_block: u64) -> io::Result<Vec<u8>> {
    let mut data = vec![0; DATA_BYTES];
    let done = send(disk, &mut lba_status_command(first_block), &mut data)?;
    done.answer(data, false)
}

fn lba_status_command(first_block: u64) -> Vec<u8> {
    let mut block = GET_LBA_STATUS.to_vec();
    block.extend(first_block.to_be_bytes());
    block.extend([0, 0, 2, 0, 0, 0]);
    block
}

/// Result of a command: its status, and its sense data.
struct Done {
    status: Status,
    sense: Vec<u8>,
}

impl Done {
    /// The answer: the data that the disk sent, or its sense data where they are the answer.
    fn answer(self, mut data: Vec<u8>, by_sense: bool) -> io::Result<Vec<u8>> {
        const TIME_OUT: u16 = 3;
        const CHECK_CONDITION: u8 = 2;
        match (self.status.host, self.status.device) {
            (TIME_OUT, _) => Err(Errno::ETIMEDOUT.into()),
            (0, 0) if by_sense => Err(Errno::ENODATA.into()),
            (0, 0) => {
                let n_missing = usize::try_from(self.status.residue).unwrap_or_default();
                data.truncate(data.len().saturating_sub(n_missing));
                Ok(data)
            }
            (0, CHECK_CONDITION) if by_sense && has_registers(&self.sense) => Ok(self.sense),
            (0, CHECK_CONDITION) => Err(error_of(&self.sense)),
            _ => Err(Errno::EIO.into()),
        }
    }
}

/// True if the sense data carry the registers of an ATA disk: descriptor 09h (SAT-4 §12.2.2.6), or the fixed form with
/// ATA PASS THROUGH INFORMATION AVAILABLE.
fn has_registers(sense: &[u8]) -> bool {
    match sense.first().map(|code| code & 0x7f) {
        Some(0x72) => sense.get(8) == Some(&0x09),
        Some(0x70) => sense.get(12..14) == Some(&[0x00, 0x1d]),
        _ => false,
    }
}

/// A disk that does not know a command reports ILLEGAL REQUEST (5); an ATA disk reports a bare ABORTED
/// COMMAND (Bh), which with an additional sense code means a failure, such as of the cable
/// (`ata_to_sense_error`, `drivers/ata/libata-scsi.c`).
fn error_of(sense: &[u8]) -> io::Error {
    let (key, additional) = match sense.first().map(|code| code & 0x7f) {
        Some(0x72 | 0x73) => (sense.get(1), sense.get(2)),
        _ => (sense.get(2), sense.get(12)),
    };
    match (key.map(|key| key & 0x0f), additional) {
        (Some(0x05), _) | (Some(0x0b), None | Some(0)) => Errno::EOPNOTSUPP.into(),
        _ => Errno::EIO.into(),
    }
}

/// `struct sg_io_hdr`.
#[repr(C)]
struct Header {
    interface_id: c_int,
    direction: c_int,
    command_len: c_uchar,
    max_sense_len: c_uchar,
    n_pieces: c_ushort,
    data_len: c_uint,
    data: *mut c_void,
    command: *mut c_uchar,
    sense: *mut c_uchar,
    timeout_ms: c_uint,
    flags: c_uint,
    pack_id: c_int,
    user: *mut c_void,
    status: Status,
}

/// The part of `struct sg_io_hdr` that the kernel fills in.
#[repr(C)]
#[derive(Default)]
struct Status {
    device: c_uchar,
    masked: c_uchar,
    message: c_uchar,
    sense_len: c_uchar,
    host: c_ushort,
    driver: c_ushort,
    residue: c_int,
    duration_ms: c_uint,
    info: c_uint,
}

/// Sends `block`; the answer is written to `data`.
#[expect(unsafe_code, reason = "SG_IO has no safe wrapper")]
fn send(file: &impl AsRawFd, block: &mut [u8], data: &mut [u8]) -> io::Result<Done> {
    let mut sense = [0_u8; SENSE_BYTES];
    let mut header = Header {
        interface_id: c_int::from(b'S'),
        direction: if data.is_empty() { SG_DXFER_NONE } else { SG_DXFER_FROM_DEV },
        command_len: c_uchar::try_from(block.len()).map_err(io::Error::other)?,
        max_sense_len: c_uchar::try_from(sense.len()).map_err(io::Error::other)?,
        n_pieces: 0,
        data_len: c_uint::try_from(data.len()).map_err(io::Error::other)?,
        data: data.as_mut_ptr().cast(),
        command: block.as_mut_ptr(),
        sense: sense.as_mut_ptr(),
        timeout_ms: TIMEOUT_MS,
        flags: 0,
        pack_id: 0,
        user: ptr::null_mut(),
        status: Status::default(),
    };
    // SAFETY: `header` is a whole `struct sg_io_hdr` of version 3. Its three pointers lead to `block`,
    // `data` and `sense`, alive during the call and of the lengths given; the kernel reads the first
    // and writes at most these lengths to the others before it returns (`sg_io`,
    // `drivers/scsi/scsi_ioctl.c`). Without data the direction is none and the pointer is not used.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), SG_IO, &raw mut header) };
    Errno::result(result)?;
    let n_sense = usize::from(header.status.sense_len).min(sense.len());
    Ok(Done { status: header.status, sense: sense[..n_sense].to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATA: [ScsiCommand; 6] = [
        ScsiCommand::AtaPowerMode,
        ScsiCommand::AtaSmartStatus,
        ScsiCommand::AtaSmartData,
        ScsiCommand::AtaLog { log: 0x04, page: 0x07 },
        ScsiCommand::AtaSecurityProtocols,
        ScsiCommand::AtaTcgLevel0,
    ];

    #[test]
    fn every_command_carries_no_data_or_data_from_the_disk() {
        for command in ATA {
            let block = command.row().1;
            assert_eq!((block.len(), block[0]), (16, 0x85));
            let (protocol, is_from_disk) = (block[1] >> 1, block[2] & 0x08 != 0);
            assert!(protocol == 3 || (protocol == 4 && is_from_disk), "{command:?}");
            assert!([0xe5, 0xb0, 0x2f, 0x5c].contains(&block[14]), "{command:?}");
            // The only SMART functions are READ DATA and RETURN STATUS.
            assert!(block[14] != 0xb0 || [0xd0, 0xda].contains(&block[4]), "{command:?}");
        }
        for page in 0..=255 {
            let block = ScsiCommand::LogPage(page).row().1;
            // Neither the bit SP, which saves, nor a page control other than cumulative values.
            assert_eq!((block.len(), block[0], block[1], block[2] >> 6), (10, 0x4d, 0, 1));
        }
    }

    #[test]
    fn question_for_allocated_blocks_is_one_that_reads_512_bytes() {
        let block = lba_status_command(0x0102_0304_0506_0708);
        assert_eq!(block, [0x9e, 0x12, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 2, 0, 0, 0]);
        let n_bytes = u32::from_be_bytes(block[10..14].try_into().unwrap());
        assert_eq!(usize::try_from(n_bytes), Ok(DATA_BYTES));
    }

    #[test]
    fn only_security_commands_are_a_list_and_a_discovery_that_need_no_session() {
        let block = |command: ScsiCommand| command.row().1;
        let scsi = |protocol, com_id| vec![0xa2, protocol, 0, com_id, 0, 0, 0, 0, 2, 0, 0, 0];
        assert_eq!(block(ScsiCommand::SecurityProtocols), scsi(0, 0));
        assert_eq!(block(ScsiCommand::TcgLevel0), scsi(1, 1));
        for (command, protocol) in
            [(ScsiCommand::AtaSecurityProtocols, 0), (ScsiCommand::AtaTcgLevel0, 1)]
        {
            let block = block(command);
            let (com_id, n_blocks) = ((block[12], block[10]), (block[8], block[6]));
            assert_eq!((block[14], block[4]), (0x5c, protocol));
            assert_eq!((com_id, n_blocks), ((0, protocol), (0, 1)));
        }
    }

    #[test]
    fn sense_data_distinguish_unsupported_from_failed_commands() {
        for (sense, errno) in [
            (&[0x70, 0, 5][..], Errno::EOPNOTSUPP),
            (&[0x72, 0x0b], Errno::EOPNOTSUPP),
            (&[0x72, 0x0b, 0x00], Errno::EOPNOTSUPP),
            // A transfer that was damaged on the cable.
            (&[0x72, 0x0b, 0x47], Errno::EIO),
            (&[0x70, 0, 0x0b, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x47], Errno::EIO),
            (&[0x70, 0, 3], Errno::EIO),
            (&[], Errno::EIO),
        ] {
            assert_eq!(error_of(sense).raw_os_error(), Some(errno as i32), "{sense:?}");
        }
        let status = Status { host: 3, ..Status::default() };
        let late = Done { status, sense: Vec::new() };
        assert_eq!(late.answer(Vec::new(), false).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn header_has_the_size_that_the_kernel_expects() {
        if cfg!(target_pointer_width = "64") {
            assert_eq!(size_of::<Header>(), 88);
        }
    }

    #[test]
    fn each_question_has_a_name_of_its_own() {
        let disk = DiskHandle::new("sda");
        let name = |command| ScsiQuestion { disk: &disk, command }.name();
        let others = [
            ScsiCommand::AtaLog { log: 0x07, page: 0x04 },
            ScsiCommand::LogPage(0x2f),
            ScsiCommand::LogPage(0x0d),
            ScsiCommand::SecurityProtocols,
            ScsiCommand::TcgLevel0,
        ];
        let names: std::collections::BTreeSet<String> =
            ATA.into_iter().chain(others).map(name).collect();
        assert_eq!(names.len(), ATA.len() + others.len());
        assert!(names.contains("scsi/sda/log-2f") && names.contains("scsi/sda/ata-smart-data"));
    }
}
