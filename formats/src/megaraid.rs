//! Answers of a MegaRAID controller's firmware (`drivers/scsi/megaraid/megaraid_sas.h`; FreeBSD `mfireg.h`, illumos
//! `mfi_ld.h`, QEMU `mfi.h` for volumes): little-endian structures by their offsets, and the fields in them that name a
//! part.

pub mod arrays;
mod bytes;

use std::ops::Range;

use crate::{Encoding, Field, Kind, vpd};
use bytes::{text_at, u16_at, u32_at, u64_at};

/// Length of the structure that describes a drive.
pub const DRIVE_BYTES: usize = 512;
/// Length of the structure that describes a volume.
pub const VOLUME_BYTES: usize = 384;

/// Drives and enclosures in a list.
const LIMIT_DRIVES: usize = 256;
/// Volumes in a list.
const LIMIT_VOLUMES: usize = 64;
/// Spans of a volume.
const LIMIT_SPANS: u8 = 8;
/// Numbers that mean no device and no slot.
const NO_DEVICE: u16 = 0xffff;
const NO_SLOT: u8 = 0xff;
/// Length of a SAS address.
const ADDRESS_BYTES: usize = 8;
/// Number of bytes of page 83h that a structure keeps.
const PAGE_83_BYTES: usize = 64;

/// `struct megasas_ctrl_info`.
mod controller_info {
    use std::ops::Range;

    pub(super) const DEVICE_PORTS: Range<usize> = 40..104;
    pub(super) const HOST_PORTS: Range<usize> = 112..176;
    pub(super) const MODEL: usize = 1344;
    pub(super) const SERIAL: usize = 1424;
    pub(super) const MEMORY_MIB: usize = 1488;
    pub(super) const CORRECTABLE_ERRORS: usize = 1492;
    pub(super) const UNCORRECTABLE_ERRORS: usize = 1494;
    pub(super) const PACKAGE: usize = 1600;
}

/// An entry of `struct MR_PD_LIST`, which follows a header.
mod drive_entry {
    pub(super) const HEADER_BYTES: usize = 8;
    pub(super) const N_BYTES: usize = 24;
    pub(super) const ENCLOSURE: usize = 2;
    pub(super) const SLOT: usize = 5;
    pub(super) const SCSI_KIND: usize = 6;
    pub(super) const ADDRESSES: usize = 8;
}

/// `struct MR_PD_INFO`.
mod drive_info {
    use std::ops::Range;

    pub(super) const INQUIRY: Range<usize> = 4..100;
    pub(super) const PAGE_83: usize = 100;
    pub(super) const SCSI_KIND: usize = 165;
    pub(super) const MEDIA_ERRORS: usize = 168;
    pub(super) const OTHER_ERRORS: usize = 172;
    pub(super) const PREDICTIVE_FAILURES: usize = 176;
    pub(super) const STATE: usize = 184;
    pub(super) const KIND: usize = 188;
    pub(super) const N_PATHS: usize = 192;
    pub(super) const SAS_ADDRESSES: Range<usize> = 200..232;
    pub(super) const RAW_SIZE: usize = 232;
    pub(super) const ENCLOSURE: usize = 256;
    pub(super) const SLOT: usize = 259;
    pub(super) const PROGRESS: usize = 260;
    pub(super) const PAGE_83_EXT: usize = 294;
    pub(super) const TEMPERATURE: usize = 402;
    pub(super) const BLOCK_BYTES: usize = 404;
}

/// `struct mfi_ld_info`.
mod volume_info {
    pub(super) const TARGET: usize = 0;
    pub(super) const NAME: usize = 4;
    pub(super) const PRIMARY_LEVEL: usize = 32;
    pub(super) const SECONDARY_LEVEL: usize = 34;
    pub(super) const SPAN_DEPTH: usize = 37;
    pub(super) const STATE: usize = 38;
    pub(super) const SPANS: usize = 64;
    pub(super) const SPAN_BYTES: usize = 24;
    pub(super) const ARRAY_IN_SPAN: usize = 16;
    pub(super) const PAGE_83: usize = 304;
}

/// Standard INQUIRY data (SPC-5 §6.7.2); maker-specific from byte 36, where drives have their serial number.
mod inquiry_data {
    pub(super) const VENDOR: usize = 8;
    pub(super) const MODEL: usize = 16;
    pub(super) const REVISION: usize = 32;
    pub(super) const SERIAL: usize = 36;
    pub(super) const SERIAL_BYTES: usize = 20;
}

/// A controller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Controller {
    /// Product name.
    pub model: Option<String>,
    /// Serial number of the board.
    pub serial: Option<String>,
    /// Version of the firmware package.
    pub firmware: Option<String>,
    /// Size of the cache; `None` without one.
    pub memory_mib: Option<u16>,
    /// Corrected errors of the cache.
    pub memory_correctable_errors: Option<u16>,
    /// Uncorrected errors of the cache.
    pub memory_uncorrectable_errors: Option<u16>,
}

/// Content of standard INQUIRY data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inquiry {
    /// Vendor identification.
    pub vendor: Option<String>,
    /// Product identification.
    pub model: Option<String>,
    /// Product revision level.
    pub revision: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
}

/// A drive as the list has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedDrive {
    /// The firmware's number of it.
    pub device_id: u16,
    /// Number of its enclosure.
    pub enclosure: Option<u16>,
    /// Slot in the enclosure.
    pub slot: Option<u8>,
}

/// A drive or another SCSI device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drive<'a> {
    /// The firmware's number of it.
    pub device_id: Option<u16>,
    /// SCSI peripheral device type; 0 is a disk.
    pub scsi_kind: u8,
    /// INQUIRY data.
    pub inquiry: Inquiry,
    /// Page 83h.
    pub page_83: &'a [u8],
    /// Number of its enclosure.
    pub enclosure: Option<u16>,
    /// Slot in the enclosure.
    pub slot: Option<u8>,
    /// `enum MR_PD_STATE`.
    pub state: Option<u16>,
    /// `enum MR_PD_TYPE`.
    pub interface: Option<u16>,
    /// True if it has the configuration of a different controller.
    pub is_foreign: Option<bool>,
    /// Progress of a rebuild.
    pub rebuild_percent: Option<u8>,
    /// Number of blocks.
    pub n_blocks: Option<u64>,
    /// Size of a block; older firmware does not report it.
    pub block_bytes: Option<u16>,
    /// Address of the first port.
    pub sas_address: Option<u64>,
    /// Temperature.
    pub temperature_celsius: Option<u8>,
    /// Count of media errors.
    pub media_errors: Option<u32>,
    /// Count of other errors.
    pub other_errors: Option<u32>,
    /// Count of predicted failures.
    pub predictive_failures: Option<u32>,
}

/// A volume as the list has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedVolume {
    /// Its target.
    pub id: u8,
    /// Its state.
    pub state: u8,
    /// Its size in blocks of its drives.
    pub n_blocks: u64,
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume<'a> {
    /// Its target.
    pub target: u8,
    /// The name that an administrator gave it.
    pub name: Option<String>,
    /// Its state.
    pub state: u8,
    /// Primary RAID level of DDF.
    pub primary_level: u8,
    /// Secondary RAID level of DDF.
    pub secondary_level: u8,
    /// Number of spans.
    pub n_spans: u8,
    /// The array of each span; `None` if the structure ends before.
    pub arrays: Option<Vec<u16>>,
    /// Page 83h.
    pub page_83: &'a [u8],
}

/// The controller that `info` describes.
#[must_use]
pub fn controller(info: &[u8]) -> Controller {
    use controller_info as at;
    let memory_mib = u16_at(info, at::MEMORY_MIB).filter(|mib| *mib > 0);
    // A controller without a cache has no cache errors.
    let errors = |at| memory_mib.and_then(|_| u16_at(info, at));
    Controller {
        model: text_at(info, at::MODEL, 80),
        serial: text_at(info, at::SERIAL, 32),
        firmware: text_at(info, at::PACKAGE, 96),
        memory_mib,
        memory_correctable_errors: errors(at::CORRECTABLE_ERRORS),
        memory_uncorrectable_errors: errors(at::UNCORRECTABLE_ERRORS),
    }
}

/// The disks in the list of devices; `None` if the list ends before the entries that it announces.
#[must_use]
pub fn drives(answer: &[u8]) -> Option<Vec<ListedDrive>> {
    use drive_entry as at;
    let n_entries = usize::try_from(u32_at(answer, 4)?).ok().filter(|n| *n <= LIMIT_DRIVES)?;
    let entries = answer.get(at::HEADER_BYTES..)?.get(..n_entries * at::N_BYTES)?;
    let disks = entries.chunks_exact(at::N_BYTES).filter(|e| e.get(at::SCSI_KIND) == Some(&0));
    let drive = |entry: &[u8]| {
        Some(ListedDrive {
            device_id: u16_at(entry, 0)?,
            enclosure: u16_at(entry, at::ENCLOSURE).filter(|id| *id != NO_DEVICE),
            slot: entry.get(at::SLOT).copied().filter(|slot| *slot != NO_SLOT),
        })
    };
    Some(disks.filter_map(drive).collect())
}

/// The device that `info` describes; `None` if the structure ends before its SCSI device type.
#[must_use]
pub fn drive(info: &[u8]) -> Option<Drive<'_>> {
    use drive_info as at;
    let kind = u16_at(info, at::KIND);
    let has_path = info.get(at::N_PATHS).is_some_and(|n_paths| *n_paths > 0);
    let address = u64_at(info, at::SAS_ADDRESSES.start);
    Some(Drive {
        device_id: u16_at(info, 0),
        scsi_kind: *info.get(at::SCSI_KIND)?,
        inquiry: inquiry(info.get(at::INQUIRY).unwrap_or_default()),
        page_83: info.get(page_83(at::PAGE_83)).unwrap_or_default(),
        enclosure: u16_at(info, at::ENCLOSURE).filter(|id| *id != NO_DEVICE),
        slot: info.get(at::SLOT).copied().filter(|slot| *slot != NO_SLOT),
        state: u16_at(info, at::STATE),
        interface: kind.map(|kind| kind >> 12),
        is_foreign: kind.map(|kind| kind & 0x10 != 0),
        rebuild_percent: rebuild_percent(info),
        n_blocks: u64_at(info, at::RAW_SIZE).filter(|n_blocks| *n_blocks > 0),
        // Drives of other arrays may have blocks of 520 or 528 bytes.
        block_bytes: u16_at(info, at::BLOCK_BYTES).filter(|bytes| *bytes > 0),
        sas_address: address.filter(|address| has_path && *address != 0),
        temperature_celsius: info.get(at::TEMPERATURE).copied().filter(|c| (1..=150).contains(c)),
        media_errors: u32_at(info, at::MEDIA_ERRORS),
        other_errors: u32_at(info, at::OTHER_ERRORS),
        predictive_failures: u32_at(info, at::PREDICTIVE_FAILURES),
    })
}

/// Vendor, model, revision and serial number in standard INQUIRY data.
#[must_use]
pub fn inquiry(data: &[u8]) -> Inquiry {
    use inquiry_data as at;
    // 7Fh: there is no such unit, so there are no data.
    if data.first().is_none_or(|kind| kind & 0x1f != 0) {
        return Inquiry::default();
    }
    Inquiry {
        vendor: text_at(data, at::VENDOR, 8),
        model: text_at(data, at::MODEL, 16),
        revision: text_at(data, at::REVISION, 4),
        serial: text_at(data, at::SERIAL, at::SERIAL_BYTES),
    }
}

/// Bit 0 of the operations in progress is the rebuild; all ones mean 100 %.
fn rebuild_percent(info: &[u8]) -> Option<u8> {
    let is_active = u32_at(info, drive_info::PROGRESS)? & 1 != 0;
    let progress = u32::from(u16_at(info, drive_info::PROGRESS + 4)?);
    is_active.then(|| u8::try_from(progress * 100 / 0xffff).ok()).flatten()
}

/// Number of volumes that the list of volumes announces.
#[must_use]
pub fn n_volumes(answer: &[u8]) -> Option<usize> {
    usize::try_from(u32_at(answer, 0)?).ok()
}

/// The volumes in the answer to `MR_DCMD_LD_GET_LIST`, at most 64.
#[must_use]
pub fn volumes(answer: &[u8]) -> Option<Vec<ListedVolume>> {
    let entry = |at: usize| {
        let entry = answer.get(8 + at * 16..)?;
        let (id, state) = (*entry.first()?, *entry.get(4)?);
        Some(ListedVolume { id, state, n_blocks: u64_at(entry, 8)? })
    };
    (0..n_volumes(answer)?.min(LIMIT_VOLUMES)).map(entry).collect()
}

/// The volume that `info` describes.
#[must_use]
pub fn volume(info: &[u8]) -> Option<Volume<'_>> {
    use volume_info as at;
    let n_spans = *info.get(at::SPAN_DEPTH)?.clamp(&1, &LIMIT_SPANS);
    let array_of =
        |span: u8| u16_at(info, at::SPANS + usize::from(span) * at::SPAN_BYTES + at::ARRAY_IN_SPAN);
    Some(Volume {
        target: *info.get(at::TARGET)?,
        name: text_at(info, at::NAME, 16),
        state: *info.get(at::STATE)?,
        primary_level: *info.get(at::PRIMARY_LEVEL)?,
        secondary_level: *info.get(at::SECONDARY_LEVEL)?,
        n_spans,
        arrays: (0..n_spans).map(array_of).collect(),
        page_83: info.get(page_83(at::PAGE_83)).unwrap_or_default(),
    })
}

fn page_83(at: usize) -> Range<usize> {
    at..at + PAGE_83_BYTES
}

/// Lists the places that name a drive, enclosure or volume in the answer to `question`: `controller`, `drives`,
/// `drive-<id>`, `drive-<id>-page-<code>`, `volume-<id>`.
#[must_use]
pub fn fields(question: &str, answer: &[u8]) -> Vec<Field> {
    use inquiry_data::{SERIAL, SERIAL_BYTES};
    let serial = |data: usize| {
        let (start, end) = (data + SERIAL, data + SERIAL + SERIAL_BYTES);
        let span = start..end.min(answer.len());
        (!span.is_empty()).then(|| Field::text(span, Kind::Serial))
    };
    let page = |at: usize| {
        let end = answer.len().min(at + PAGE_83_BYTES);
        let fields = vpd::designator_fields(answer.get(at..end).unwrap_or_default());
        fields.into_iter().map(move |field| field.moved(at))
    };
    match question {
        "controller" => {
            let ports = [controller_info::DEVICE_PORTS, controller_info::HOST_PORTS];
            ports.into_iter().flat_map(|ports| addresses(ports, answer)).collect()
        }
        "drives" => {
            use drive_entry::{ADDRESSES, HEADER_BYTES, N_BYTES};
            let entries = (HEADER_BYTES..answer.len()).step_by(N_BYTES);
            entries.flat_map(|at| addresses(at + ADDRESSES..at + N_BYTES, answer)).collect()
        }
        _ if question.ends_with("-page-00") => serial(0).into_iter().collect(),
        _ if question.ends_with("-page-80") => vpd::serial_fields(answer),
        _ if question.ends_with("-page-83") => vpd::designator_fields(answer),
        _ if question.starts_with("drive-") => {
            let pages = page(drive_info::PAGE_83).chain(page(drive_info::PAGE_83_EXT));
            let serial = serial(drive_info::INQUIRY.start).into_iter();
            serial.chain(pages).chain(addresses(drive_info::SAS_ADDRESSES, answer)).collect()
        }
        _ if question.starts_with("volume-") => page(volume_info::PAGE_83).collect(),
        _ => Vec::new(),
    }
}

/// SAS addresses at `span`, as far as the answer goes.
fn addresses(span: Range<usize>, answer: &[u8]) -> impl Iterator<Item = Field> + use<> {
    let end = span.end.min(answer.len());
    let starts = span.step_by(ADDRESS_BYTES).filter(move |at| at + ADDRESS_BYTES <= end);
    starts.map(|at| Field {
        span: at..at + ADDRESS_BYTES,
        kind: Kind::Serial,
        encoding: Encoding::LittleEndian,
    })
}

#[cfg(test)]
mod tests;
