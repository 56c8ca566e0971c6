//! A drive as the firmware describes it ([`formats::megaraid::Drive`]). Sizes are in blocks of the drive.

use formats::megaraid::{self, Inquiry, ListedDrive};

use crate::machine::Machine;

use super::{RaidDrive, naa};

/// A drive as the list has it.
pub(super) fn of_list(listed: ListedDrive) -> RaidDrive {
    let ListedDrive { device_id, enclosure, slot } = listed;
    RaidDrive { device_id: Some(device_id), enclosure, slot, ..RaidDrive::default() }
}

/// The drive that `info` describes; `None` for enclosures and other devices, or for a different drive.
pub(super) fn parse(
    machine: &Machine,
    path: &str,
    device_id: u16,
    info: &[u8],
) -> Option<RaidDrive> {
    let found = megaraid::drive(info)?;
    if found.device_id != Some(device_id) {
        let found = format!("drive {:?}", found.device_id);
        machine.problem(path, found, format!("the requested drive {device_id}"));
        return None;
    }
    if found.scsi_kind != 0 {
        return None;
    }
    let block_bytes = u64::from(found.block_bytes.unwrap_or(512));
    Some(RaidDrive {
        device_id: Some(device_id),
        enclosure: found.enclosure,
        slot: found.slot,
        state: found.state.and_then(|code| state(machine, path, code)),
        rebuild_percent: found.rebuild_percent,
        interface: found.interface.and_then(interface).map(str::to_owned),
        size_bytes: found.n_blocks.and_then(|n_blocks| n_blocks.checked_mul(block_bytes)),
        logical_block_bytes: found.block_bytes,
        wwn: naa(found.page_83),
        sas_address: found.sas_address.map(|address| format!("{address:#018x}")),
        temperature_celsius: found.temperature_celsius,
        media_errors: found.media_errors,
        other_errors: found.other_errors,
        predictive_failures: found.predictive_failures,
        is_foreign: found.is_foreign,
        ..of_inquiry(found.inquiry)
    })
}

/// Vendor, model, revision and serial number.
pub(super) fn of_inquiry(data: Inquiry) -> RaidDrive {
    let Inquiry { vendor, model, revision: firmware, serial } = data;
    RaidDrive { vendor, model, firmware, serial, ..RaidDrive::default() }
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
