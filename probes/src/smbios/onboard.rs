//! Devices soldered to the board, and what the maker wrote for himself: SMBIOS types 10, 11, 32 and
//! 41 (DSP0134 3.7, sections 7.11, 7.12, 7.33 and 7.42).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Smbios, Structure, pci_address};

/// A table has some dozens of them.
const LIMIT_STRINGS: usize = 256;

/// A device on the board.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OnboardDevice {
    /// The label printed next to it, e.g. `Integrated NIC 1`.
    pub designation: Option<String>,
    /// What it is, e.g. `ethernet`, `sata`, `video`; `None` where other or unknown.
    pub kind: Option<String>,
    /// Whether the firmware has it switched on.
    pub is_enabled: Option<bool>,
    /// Distinguishes devices of one kind, from 1; type 41 only.
    pub instance: Option<u8>,
    /// PCI address; of type 41 only, `None` where the device is on another bus.
    pub pci_address: Option<String>,
}

/// The devices of type 41 in table order; of tables that have none, those of the older type 10.
pub(super) fn onboard_devices(table: &Smbios) -> Vec<OnboardDevice> {
    let devices: Vec<OnboardDevice> = table.of_kind(41).map(extended).collect();
    if devices.is_empty() { table.of_kind(10).flat_map(old).collect() } else { devices }
}

fn extended(entry: &Structure) -> OnboardDevice {
    let code = entry.byte(0x05);
    OnboardDevice {
        designation: entry.string(0x04),
        kind: code.and_then(kind).map(str::to_owned),
        is_enabled: code.map(|code| code & 0x80 != 0),
        instance: entry.byte(0x06),
        pci_address: pci_address(entry, 0x07),
    }
}

/// Pairs of a kind and a string, up to the end of the structure.
fn old(entry: &Structure) -> impl Iterator<Item = OnboardDevice> {
    (0x04..0xff).step_by(2).map_while(|offset| {
        let code = entry.byte(offset)?;
        entry.byte(offset + 1)?;
        Some(OnboardDevice {
            designation: entry.string(offset + 1),
            // The first ten numbers mean the same in both types.
            kind: kind(code).filter(|_| code & 0x7f <= 10).map(str::to_owned),
            is_enabled: Some(code & 0x80 != 0),
            ..OnboardDevice::default()
        })
    })
}

fn kind(code: u8) -> Option<&'static str> {
    let name = match code & 0x7f {
        3 => "video",
        4 => "scsi",
        5 => "ethernet",
        6 => "token ring",
        7 => "sound",
        8 => "pata",
        9 => "sata",
        10 => "sas",
        11 => "wireless lan",
        12 => "bluetooth",
        13 => "wwan",
        14 => "emmc",
        15 => "nvme",
        16 => "ufs",
        _ => return None,
    };
    Some(name)
}

/// Vendor-defined strings of type 11, in table order, placeholders too.
pub(super) fn oem_strings(table: &Smbios) -> Vec<String> {
    table.of_kind(11).flat_map(Structure::strings).take(LIMIT_STRINGS).collect()
}

/// How the last start went (type 32). `None` where the firmware has no word for it.
pub(super) fn boot_status(table: &Smbios) -> Option<String> {
    let name = match table.of_kind(32).next()?.byte(0x0a)? {
        0 => "no errors detected",
        1 => "no bootable media",
        2 => "operating system failed to load",
        3 => "hardware failure detected by firmware",
        4 => "hardware failure detected by operating system",
        5 => "boot requested by user",
        6 => "security violation",
        7 => "image requested before",
        8 => "watchdog expired",
        _ => return None,
    };
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smbios::tests::{smbios, structure};

    #[test]
    fn a_device_on_the_board_has_its_printed_name_and_address() {
        let table = smbios(&[structure(41, &[1, 0x85, 1, 0, 0, 4, 1], &[b"Integrated NIC 2"])]);
        let device = onboard_devices(&table).remove(0);
        assert_eq!(device.designation.as_deref(), Some("Integrated NIC 2"));
        assert_eq!((device.kind.as_deref(), device.is_enabled), (Some("ethernet"), Some(true)));
        assert_eq!(device.pci_address.as_deref(), Some("0000:04:00.1"));
    }

    #[test]
    fn old_tables_list_pairs_and_new_ones_are_preferred() {
        let old = structure(10, &[0x83, 1, 5, 2, 9], &[b"VGA", b"LAN"]);
        let devices = onboard_devices(&smbios(std::slice::from_ref(&old)));
        let names: Vec<_> = devices.iter().filter_map(|d| d.designation.as_deref()).collect();
        assert_eq!(names, ["VGA", "LAN"], "the half pair at the end is none");
        assert_eq!((devices[0].is_enabled, devices[1].is_enabled), (Some(true), Some(false)));
        let new = structure(41, &[1, 0x83, 1], &[b"Video"]);
        assert_eq!(onboard_devices(&smbios(&[old, new])).len(), 1);
    }

    #[test]
    fn oem_strings_are_escaped_and_the_boot_status_is_named() {
        let table = smbios(&[
            structure(11, &[2], &[b"Dell System", b"5[\xff]"]),
            structure(32, &[0, 0, 0, 0, 0, 0, 3], &[]),
        ]);
        assert_eq!(oem_strings(&table), ["Dell System", "5[\\xff]"]);
        assert_eq!(boot_status(&table).as_deref(), Some("hardware failure detected by firmware"));
        assert_eq!(boot_status(&smbios(&[structure(32, &[0; 3], &[])])), None);
    }
}
