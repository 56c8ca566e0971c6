//! The bay that a disk is in: the slots of SES enclosures
//! (`/sys/class/enclosure/<enclosure>/<slot>/device`, `drivers/misc/enclosure.c`), else the bay that
//! a SAS expander names. NPEM, by which `PCIe` ports drive the lights of NVMe bays, has no enclosure: its
//! lights are LEDs of the port (`drivers/pci/npem.c`) and name no slot, so they are not read.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

use super::sysfs_path::hctl;
use super::target;

/// Entries of an enclosure's directory that are not slots.
const NO_SLOTS: [&str; 6] = ["components", "device", "id", "power", "subsystem", "uevent"];
/// Most slots that are read.
const MAX_SLOTS: usize = 1024;

/// The bay of a disk. `/sys/class/enclosure/<enclosure>/<label>/locate` turns on its light.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiskBay {
    /// The enclosure's SCSI address, e.g. `0:0:8:0`.
    pub enclosure: Option<String>,
    /// The enclosure's name of the slot, e.g. `Slot 03`.
    pub label: Option<String>,
    /// Number of the slot; some enclosures count from 0.
    pub slot: Option<u32>,
    /// Status that the enclosure reports for the slot: `OK`, `critical`, `not installed`, … (SES-3 table 71).
    pub status: Option<String>,
    /// True if its locate light is on.
    pub is_locate_on: Option<bool>,
    /// True if its fault light is on.
    pub is_fault_on: Option<bool>,
}

impl DiskBay {
    /// Name of the bay: the enclosure's name for the slot, or else its number.
    pub fn name(&self) -> Option<String> {
        self.label.clone().or_else(|| self.slot.map(|slot| slot.to_string()))
    }
}

/// The bays by the HCTL of the disk in each.
pub(super) type Bays = BTreeMap<String, DiskBay>;

/// All occupied slots, by the SCSI address of the device in them.
pub(super) fn bays(machine: &Machine) -> Bays {
    let mut bays = BTreeMap::new();
    for enclosure in machine.list("sys/class/enclosure") {
        let path = machine.device_path(&format!("sys/class/enclosure/{enclosure}"));
        let children = machine.list(&path);
        let slots = children.iter().filter(|name| !NO_SLOTS.contains(&name.as_str()));
        for label in slots.take(MAX_SLOTS) {
            let device = machine.device_path(&format!("{path}/{label}/device"));
            let is_device = device.ends_with(|c: char| c.is_ascii_digit());
            if let Some(address) = hctl(&device).filter(|_| is_device) {
                let bay = DiskBay {
                    slot: machine.number(&format!("{path}/{label}/slot")),
                    label: Some(label.clone()),
                    enclosure: Some(enclosure.clone()),
                    ..DiskBay::default()
                };
                bays.insert(address.to_owned(), bay);
            }
        }
    }
    bays
}

/// The bay of the disk at `path`.
pub(super) fn bay_of(machine: &Machine, path: &str, bays: &Bays) -> Option<DiskBay> {
    let known = hctl(path).and_then(|address| bays.get(address));
    known.cloned().or_else(|| {
        let slot = target::sas_bay(machine, path)?;
        Some(DiskBay { slot: Some(slot), ..DiskBay::default() })
    })
}

/// Asks the enclosure for status and lights of the bay. Each of these attributes is a command to the
/// enclosure, so call this on a thread with a deadline.
pub(super) fn ask(machine: &Machine, bay: &DiskBay) -> Option<DiskBay> {
    let (enclosure, label) = (bay.enclosure.as_ref()?, bay.label.as_ref()?);
    let at = |attribute: &str| format!("sys/class/enclosure/{enclosure}/{label}/{attribute}");
    // 0 is off; several numbers mean on (`ses_get_fault`, `drivers/scsi/ses.c`).
    let light = |attribute: &str| machine.number::<u8>(&at(attribute)).map(|number| number != 0);
    let status = machine.text(&at("status"));
    Some(DiskBay {
        status: status.filter(|status| !["unknown", "unsupported"].contains(&status.as_str())),
        is_locate_on: light("locate"),
        is_fault_on: light("fault"),
        ..bay.clone()
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::disk_at;

    #[test]
    fn disk_is_found_in_the_slot_of_its_enclosure() {
        let host = "pci0000:00/0000:03:00.0/host0";
        let ses = format!("devices/{host}/target0:0:8/0:0:8:0/enclosure/0:0:8:0");
        let at = |file: &str| format!("sys/{ses}/{file}");
        let files = [
            ("sys/class/enclosure/0:0:8:0".to_owned(), format!("-> ../../{ses}")),
            (at("components"), "2\n".into()),
            (at("Slot 01/slot"), "1\n".into()),
            (at("Slot 03/slot"), "3\n".into()),
            (at("Slot 03/status"), "critical\n".into()),
            (at("Slot 03/locate"), "1\n".into()),
            (at("Slot 03/fault"), "2\n".into()),
            (at("Slot 03/device"), "-> ../../../../../target0:0:3/0:0:3:0".into()),
        ];
        let machine = disk_at(&format!("{host}/target0:0:3/0:0:3:0/block/sda"), &files);
        let bay = super::super::block(&machine).disks.remove(0).bay.unwrap();
        assert_eq!((bay.slot, bay.label.as_deref()), (Some(3), Some("Slot 03")));
        assert_eq!(bay.status.as_deref(), Some("critical"));
        assert_eq!((bay.is_locate_on, bay.is_fault_on), (Some(true), Some(true)));
        assert_eq!(machine.problems(), []);
    }
}
