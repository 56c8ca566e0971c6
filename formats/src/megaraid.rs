//! Answers of a MegaRAID controller's firmware (`drivers/scsi/megaraid/megaraid_sas.h`; FreeBSD `mfireg.h`, illumos
//! `mfi_ld.h`, QEMU `mfi.h` for volumes): little-endian structures by their offsets, and the fields in them that name a
//! part.

pub mod arrays;

use std::ops::Range;

use crate::bytes::{array, le16, le32, le64};
use crate::raid::{RaidController, RaidDrive, RaidVolume};
use crate::{Encoding, Field, Kind, data, vpd, wwn};

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
/// Length of a SAS address.
const ADDRESS_BYTES: usize = 8;
/// Number of bytes of page 83h that a structure keeps.
const PAGE_83_BYTES: usize = 64;

/// Places in `struct MR_PD_LIST`: its header, and in each entry the SAS addresses.
const LIST_HEADER_BYTES: usize = 8;
const LIST_ENTRY_BYTES: usize = 24;
const LIST_ADDRESSES_AT: usize = 8;
/// Places in `struct MR_PD_INFO`: INQUIRY data, page 83h and its extension, SAS addresses.
const DRIVE_INQUIRY: Range<usize> = 4..100;
const DRIVE_PAGE_83: usize = 100;
const DRIVE_PAGE_83_EXT: usize = 294;
const DRIVE_ADDRESSES: Range<usize> = 200..232;
/// Page 83h in `struct mfi_ld_info`.
const VOLUME_PAGE_83: usize = 304;
/// Ports to devices and to the host in `struct megasas_ctrl_info`.
const CONTROLLER_PORTS: [Range<usize>; 2] = [40..104, 112..176];
/// The serial number of drives in standard INQUIRY data, which are maker-specific from here.
const INQUIRY_SERIAL: Range<usize> = 36..56;

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

/// The facts of a controller in `info`.
pub fn controller(info: &[u8]) -> RaidController {
    let number = |at: usize| array(info, at).map(u16::from_le_bytes);
    let memory_mib = number(1488).filter(|mib| *mib > 0);
    // A controller without a cache has no cache errors.
    let errors = |at: usize| memory_mib.and_then(|_| number(at));
    RaidController {
        model: text_at(info, 1344, 80),
        serial: text_at(info, 1424, 32),
        firmware: text_at(info, 1600, 96),
        memory_mib,
        memory_correctable_errors: errors(1492),
        memory_uncorrectable_errors: errors(1494),
        ..RaidController::default()
    }
}

/// The disks in the list of devices, with their numbers and places; `None` if the list ends before the entries that it
/// announces.
pub fn drives(answer: &[u8]) -> Option<Vec<RaidDrive>> {
    let n_entries = array(answer, 4).map(u32::from_le_bytes)?;
    let n_entries = usize::try_from(n_entries).ok().filter(|n| *n <= LIMIT_DRIVES)?;
    let entries = answer.get(LIST_HEADER_BYTES..)?.get(..n_entries * LIST_ENTRY_BYTES)?;
    let disks = entries.chunks_exact(LIST_ENTRY_BYTES).filter(|entry| entry[6] == 0);
    let drive = |entry: &[u8]| RaidDrive {
        device_id: Some(le16(entry, 0)),
        enclosure: device(le16(entry, 2)),
        slot: slot(entry[5]),
        ..RaidDrive::default()
    };
    Some(disks.map(drive).collect())
}

/// The number of a device, unless it means that there is none.
fn device(id: u16) -> Option<u16> {
    (id != 0xffff).then_some(id)
}

/// The number of a slot, unless it means that there is none.
fn slot(number: u8) -> Option<u8> {
    (number != 0xff).then_some(number)
}

/// The device that `info` describes, with its SCSI device type, 0 for a disk, and the code of its state; `None` if the
/// structure is cut.
pub fn drive(info: &[u8]) -> Option<(RaidDrive, u8, u16)> {
    let info = info.get(..DRIVE_BYTES)?;
    let (state, kind) = (le16(info, 184), le16(info, 188));
    // Drives of other arrays may have blocks of 520 or 528 bytes; older firmware does not report the size.
    let block_bytes = Some(le16(info, 404)).filter(|bytes| *bytes > 0);
    let n_blocks = Some(le64(info, 232)).filter(|n_blocks| *n_blocks > 0);
    let address = Some(le64(info, DRIVE_ADDRESSES.start));
    let address = address.filter(|address| info[192] > 0 && *address != 0);
    let drive = RaidDrive {
        device_id: Some(le16(info, 0)),
        enclosure: device(le16(info, 256)),
        slot: slot(info[259]),
        state: data::named("megaraid_drive", state),
        rebuild_percent: rebuild_percent(info),
        interface: data::named("megaraid_interface", kind >> 12),
        size_bytes: n_blocks.and_then(|n| n.checked_mul(u64::from(block_bytes.unwrap_or(512)))),
        logical_block_bytes: block_bytes,
        wwn: naa(&info[page_83(DRIVE_PAGE_83)]),
        sas_address: address.map(|address| format!("{address:#018x}")),
        temperature_celsius: Some(info[402]).filter(|celsius| (1..=150).contains(celsius)),
        media_errors: Some(le32(info, 168)),
        other_errors: Some(le32(info, 172)),
        predictive_failures: Some(le32(info, 176)),
        is_foreign: Some(kind & 0x10 != 0),
        ..inquiry(&info[DRIVE_INQUIRY])
    };
    Some((drive, info[165], state))
}

/// Vendor, model, revision and serial number in standard INQUIRY data (SPC-5 §6.7.2).
pub fn inquiry(data: &[u8]) -> RaidDrive {
    // 7Fh: there is no such unit, so there are no data.
    if data.first().is_none_or(|kind| kind & 0x1f != 0) {
        return RaidDrive::default();
    }
    RaidDrive {
        vendor: text_at(data, 8, 8),
        model: text_at(data, 16, 16),
        firmware: text_at(data, 32, 4),
        serial: text_at(data, INQUIRY_SERIAL.start, INQUIRY_SERIAL.len()),
        ..RaidDrive::default()
    }
}

/// Bit 0 of the operations in progress is the rebuild; all ones mean 100 %.
fn rebuild_percent(info: &[u8]) -> Option<u8> {
    let is_active = le32(info, 260) & 1 != 0;
    let progress = u32::from(le16(info, 264));
    is_active.then(|| u8::try_from(progress * 100 / 0xffff).ok()).flatten()
}

/// The NAA name in VPD page 83h, unless it is blank.
pub fn naa(page: &[u8]) -> Option<String> {
    vpd::naa(page).filter(|name| !wwn::is_blank(name))
}

/// Number of volumes that the list of volumes announces.
pub fn n_volumes(answer: &[u8]) -> Option<usize> {
    usize::try_from(array(answer, 0).map(u32::from_le_bytes)?).ok()
}

/// The volumes in the answer to `MR_DCMD_LD_GET_LIST`, at most 64.
pub fn volumes(answer: &[u8]) -> Option<Vec<ListedVolume>> {
    let entry = |at: usize| {
        let entry = answer.get(8 + at * 16..)?.first_chunk::<16>()?;
        Some(ListedVolume { id: entry[0], state: entry[4], n_blocks: le64(entry, 8) })
    };
    (0..n_volumes(answer)?.min(LIMIT_VOLUMES)).map(entry).collect()
}

/// The volume that `info`, a `struct mfi_ld_info`, describes, with the code of its state and the numbers of its arrays;
/// `None` if the structure is cut.
pub fn volume(info: &[u8]) -> Option<(RaidVolume, u8, Vec<u16>)> {
    let info = info.get(..VOLUME_BYTES)?;
    let n_spans = info[37].clamp(1, LIMIT_SPANS);
    let volume = RaidVolume {
        id: info[0],
        name: text_at(info, 4, 16),
        state: volume_state(info[38]),
        raid_level: level(info[32], info[34], n_spans),
        wwn: naa(&info[page_83(VOLUME_PAGE_83)]),
        ..RaidVolume::default()
    };
    let array_of = |span: u8| le16(info, 64 + usize::from(span) * 24 + 16);
    Some((volume, info[38], (0..n_spans).map(array_of).collect()))
}

/// The name of a volume's state.
pub fn volume_state(code: u8) -> Option<String> {
    data::named("megaraid_volume", code)
}

/// The primary RAID level of DDF. For a volume with several spans the firmware only reports that it has them, or gives
/// it a secondary level too.
fn level(primary: u8, secondary: u8, n_spans: u8) -> Option<String> {
    let name = data::name("ddf_level", primary)?;
    let is_spanned = name.starts_with("RAID") && (n_spans > 1 || secondary != 0);
    Some(format!("{name}{}", if is_spanned { "0" } else { "" }))
}

/// Printable text of at most `n` bytes at `at`, up to the first NUL and without surrounding blanks; `None`
/// if there are other bytes.
fn text_at(bytes: &[u8], at: usize, n: usize) -> Option<String> {
    let field = bytes.get(at..at.checked_add(n)?)?;
    let field = field.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = std::str::from_utf8(field).ok().filter(|text| text.is_ascii())?.trim();
    let is_printable = text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    (is_printable && !text.is_empty()).then(|| text.to_owned())
}

fn page_83(at: usize) -> Range<usize> {
    at..at + PAGE_83_BYTES
}

/// Lists the places that name a drive, enclosure or volume in the answer to `question`: `controller`, `drives`,
/// `drive-<id>`, `drive-<id>-page-<code>`, `volume-<id>`.
pub fn fields(question: &str, answer: &[u8]) -> Vec<Field> {
    let part =
        |span: Range<usize>| answer.get(span.start..span.end.min(answer.len())).unwrap_or_default();
    let serial = |data: usize| {
        let serial = part(data + INQUIRY_SERIAL.start..data + INQUIRY_SERIAL.end);
        let field = || Field::within(answer, serial, Kind::Serial, Encoding::Text);
        (!serial.is_empty()).then(field)
    };
    let page = |at: usize| {
        let fields = vpd::designator_fields(part(page_83(at))).into_iter();
        fields.map(move |field| field.moved(at))
    };
    let addresses = |span| {
        let found = part(span).chunks_exact(ADDRESS_BYTES);
        found.map(move |one| Field::within(answer, one, Kind::Serial, Encoding::LittleEndian))
    };
    match question {
        "controller" => CONTROLLER_PORTS.into_iter().flat_map(addresses).collect(),
        "drives" => {
            let entries = (LIST_HEADER_BYTES..answer.len()).step_by(LIST_ENTRY_BYTES);
            let spans = entries.map(|at| at + LIST_ADDRESSES_AT..at + LIST_ENTRY_BYTES);
            spans.flat_map(addresses).collect()
        }
        _ if question.ends_with("-page-00") => serial(0).into_iter().collect(),
        _ if question.ends_with("-page-80") => vpd::serial_fields(answer),
        _ if question.ends_with("-page-83") => vpd::designator_fields(answer),
        _ if question.starts_with("drive-") => {
            let pages = page(DRIVE_PAGE_83).chain(page(DRIVE_PAGE_83_EXT));
            let serial = serial(DRIVE_INQUIRY.start).into_iter();
            serial.chain(pages).chain(addresses(DRIVE_ADDRESSES)).collect()
        }
        _ if question.starts_with("volume-") => page(VOLUME_PAGE_83).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
