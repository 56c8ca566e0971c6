//! Devices soldered to the board, and the maker's own texts: SMBIOS types 10, 11, 32 and 41 (DSP0134 3.7, sections
//! 7.11, 7.12, 7.33 and 7.42).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::types::{
    OnBoardDeviceType, SMBiosOemStrings, SMBiosOnBoardDeviceInformation,
    SMBiosOnboardDevicesExtendedInformation, SMBiosString, SMBiosSystemBootInformation,
};
use super::{Smbios, named, pci_address, text};
use formats::data;
use formats::smbios::texts;

/// A table has some dozens of them.
const LIMIT_STRINGS: usize = 256;

/// A device on the board.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OnboardDevice {
    /// The label printed next to it, e.g. `Integrated NIC 1`.
    pub designation: Option<String>,
    /// Its kind, e.g. `ethernet`, `sata`, `video`; `None` where other or unknown.
    pub kind: Option<String>,
    /// True if the firmware has it switched on.
    pub is_enabled: Option<bool>,
    /// Distinguishes devices of one kind, from 1; type 41 only.
    pub instance: Option<u8>,
    /// PCI address; of type 41 only, `None` where the device is on another bus.
    pub pci_address: Option<String>,
}

/// The devices in type 41, in table order; if a table has none, those in the older type 10.
pub(super) fn onboard_devices(table: &Smbios) -> Vec<OnboardDevice> {
    let devices: Vec<OnboardDevice> = table.all().map(|entry| extended(&entry)).collect();
    if !devices.is_empty() {
        return devices;
    }
    let lists = table.all::<SMBiosOnBoardDeviceInformation>();
    let old = |list: SMBiosOnBoardDeviceInformation| {
        let devices = list.onboard_device_iterator();
        devices.map(|entry| device(&entry.description(), entry.device_type())).collect::<Vec<_>>()
    };
    lists.flat_map(old).collect()
}

fn extended(entry: &SMBiosOnboardDevicesExtendedInformation) -> OnboardDevice {
    OnboardDevice {
        instance: entry.device_type_instance(),
        pci_address: pci_address(entry, 0x07),
        ..device(&entry.reference_designation(), entry.device_type())
    }
}

fn device(designation: &SMBiosString, kind: Option<OnBoardDeviceType>) -> OnboardDevice {
    let kind = kind.map(|kind| kind.raw);
    OnboardDevice {
        designation: text(designation),
        kind: kind.and_then(|kind| data::named("onboard", kind & 0x7f)),
        is_enabled: kind.map(|kind| kind & 0x80 != 0),
        ..OnboardDevice::default()
    }
}

/// Vendor-defined strings of type 11, in table order, placeholders too.
pub(super) fn oem_strings(table: &Smbios) -> Vec<String> {
    let lists = table.all::<SMBiosOemStrings>();
    lists.flat_map(|list| texts(&list).collect::<Vec<_>>()).take(LIMIT_STRINGS).collect()
}

/// Result of the last start (type 32). `None` where the firmware does not have a word for it.
pub(super) fn boot_status(table: &Smbios) -> Option<String> {
    named(&table.first::<SMBiosSystemBootInformation>()?, 0x0a, "boot_status")
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
