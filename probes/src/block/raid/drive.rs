//! A drive as the firmware describes it: `struct MR_PD_INFO`, 512 bytes, and an entry of
//! `struct MR_PD_LIST` (`drivers/scsi/megaraid/megaraid_sas.h`). Sizes are in blocks of the drive.

use crate::machine::Machine;

use super::bytes::{text_at, u16_at, u32_at, u64_at};
use super::{RaidDrive, naa};

/// Length of the structure.
pub(super) const N_BYTES: usize = 512;

const INQUIRY: usize = 4;
const PAGE_83: usize = 100;
const SCSI_KIND: usize = 165;
const MEDIA_ERRORS: usize = 168;
const OTHER_ERRORS: usize = 172;
const PREDICTIVE_FAILURES: usize = 176;
const STATE: usize = 184;
const KIND: usize = 188;
const N_PATHS: usize = 192;
const SAS_ADDRESS: usize = 200;
const RAW_SIZE: usize = 232;
const ENCLOSURE: usize = 256;
const SLOT: usize = 259;
const PROGRESS: usize = 260;
const TEMPERATURE: usize = 402;
const BLOCK_BYTES: usize = 404;

/// Numbers that mean no device and no slot.
const NO_DEVICE: u16 = 0xffff;
const NO_SLOT: u8 = 0xff;

/// The entry of a drive in the list, 24 bytes.
pub(super) fn of_list(entry: &[u8]) -> RaidDrive {
    RaidDrive {
        device_id: u16_at(entry, 0),
        enclosure: u16_at(entry, 2).filter(|id| *id != NO_DEVICE),
        slot: entry.get(5).copied().filter(|slot| *slot != NO_SLOT),
        ..RaidDrive::default()
    }
}

/// The drive that `info` describes; `None` for enclosures and other devices, or for a different drive.
pub(super) fn parse(
    machine: &Machine,
    path: &str,
    device_id: u16,
    info: &[u8],
) -> Option<RaidDrive> {
    if u16_at(info, 0) != Some(device_id) {
        let found = format!("drive {:?}", u16_at(info, 0));
        machine.problem(path, found, format!("the requested drive {device_id}"));
        return None;
    }
    if *info.get(SCSI_KIND)? != 0 {
        return None;
    }
    let kind = u16_at(info, KIND);
    // Drives of other arrays may have blocks of 520 or 528 bytes.
    let logical_block_bytes = u16_at(info, BLOCK_BYTES).filter(|bytes| *bytes > 0);
    let block_bytes = u64::from(logical_block_bytes.unwrap_or(512));
    Some(RaidDrive {
        device_id: Some(device_id),
        enclosure: u16_at(info, ENCLOSURE).filter(|id| *id != NO_DEVICE),
        slot: info.get(SLOT).copied().filter(|slot| *slot != NO_SLOT),
        state: u16_at(info, STATE).and_then(|code| state(machine, path, code)),
        rebuild_percent: rebuild_percent(info),
        interface: kind.and_then(|kind| interface(kind >> 12)).map(str::to_owned),
        size_bytes: u64_at(info, RAW_SIZE)
            .filter(|n_blocks| *n_blocks > 0)
            .and_then(|n_blocks| n_blocks.checked_mul(block_bytes)),
        logical_block_bytes,
        wwn: info.get(PAGE_83..PAGE_83 + 64).and_then(naa),
        sas_address: sas_address(info),
        temperature_celsius: info.get(TEMPERATURE).copied().filter(|c| (1..=150).contains(c)),
        media_errors: u32_at(info, MEDIA_ERRORS),
        other_errors: u32_at(info, OTHER_ERRORS),
        predictive_failures: u32_at(info, PREDICTIVE_FAILURES),
        is_foreign: kind.map(|kind| kind & 0x10 != 0),
        ..of_inquiry(info.get(INQUIRY..INQUIRY + 96).unwrap_or_default())
    })
}

/// Vendor, model, revision and serial number in standard INQUIRY data.
pub(super) fn of_inquiry(data: &[u8]) -> RaidDrive {
    // 7Fh: there is no such unit, so there are no data.
    if data.first().is_none_or(|kind| kind & 0x1f != 0) {
        return RaidDrive::default();
    }
    RaidDrive {
        vendor: text_at(data, 8, 8),
        model: text_at(data, 16, 16),
        firmware: text_at(data, 32, 4),
        serial: text_at(data, 36, 20),
        ..RaidDrive::default()
    }
}

/// `enum MR_PD_STATE`.
fn state(machine: &Machine, path: &str, code: u16) -> Option<String> {
    let name = match code {
        0x00 => "unconfigured good",
        0x01 => "unconfigured bad",
        0x02 => "hot spare",
        0x10 => "offline",
        0x11 => "failed",
        0x14 => "rebuilding",
        0x18 => "online",
        0x20 => "copyback",
        0x40 => "jbod",
        _ => {
            machine.problem(path, format!("drive state {code:#04x}"), "a known state");
            return None;
        }
    };
    Some(name.to_owned())
}

/// `enum MR_PD_TYPE`.
fn interface(code: u16) -> Option<&'static str> {
    match code {
        1 => Some("scsi"),
        2 => Some("sas"),
        3 => Some("sata"),
        4 => Some("fc"),
        5 => Some("nvme"),
        _ => None,
    }
}

fn sas_address(info: &[u8]) -> Option<String> {
    let has_path = *info.get(N_PATHS)? > 0;
    let address = u64_at(info, SAS_ADDRESS).filter(|address| has_path && *address != 0)?;
    Some(format!("{address:#018x}"))
}

/// Bit 0 of the operations in progress is the rebuild; all ones mean 100 %.
fn rebuild_percent(info: &[u8]) -> Option<u8> {
    let is_active = u32_at(info, PROGRESS)? & 1 != 0;
    let progress = u32::from(u16_at(info, PROGRESS + 4)?);
    is_active.then(|| u8::try_from(progress * 100 / 0xffff).ok()).flatten()
}
