//! Storage: one `Storage` for each controller that has disks, and its `Drive` documents.

use std::collections::BTreeMap;

use formats::wwn;
use probes::block::Disk;
use probes::collect::Inventory;
use probes::pci::PciDevice;
use serde_json::Value;

use super::{SYSTEM, Tree, id_of, reference};
use crate::object::{list, object};
use crate::select::disks;

/// Transports, and Redfish's names of protocols.
const PROTOCOLS: [(&str, &str); 6] = [
    ("sata", "SATA"),
    ("sas", "SAS"),
    ("nvme", "NVMe"),
    ("fc", "FC"),
    ("iscsi", "iSCSI"),
    ("usb", "USB"),
];

pub(super) fn storage(tree: &mut Tree, inventory: &Inventory) {
    // A disk without a PCI controller, or with several, belongs to the system itself.
    let mut by_controller: BTreeMap<&str, Vec<&Disk>> = BTreeMap::new();
    for disk in disks(inventory) {
        let controller = disk.pci_address.as_deref().unwrap_or_default();
        by_controller.entry(controller).or_default().push(disk);
    }
    let mut parts = Vec::new();
    for (address, disks) in by_controller {
        let id = if address.is_empty() { "system".to_owned() } else { id_of(address) };
        let folder = format!("{SYSTEM}/Storage/{id}/Drives");
        let mut drives = Vec::new();
        for disk in disks {
            let path = format!("{folder}/{}", id_of(&disk.name));
            tree.put(&path, "Drive.v1_18_0.Drive", drive(disk));
            drives.push(reference(&path));
        }
        let pci = inventory.pci.iter().flat_map(|pci| &pci.devices);
        let device = pci.into_iter().find(|device| device.address == address);
        let name = device.and_then(name).unwrap_or_else(|| "Storage".to_owned());
        let fields = object([
            ("Id", id.as_str().into()),
            ("Name", name.into()),
            ("Drives@odata.count", drives.len().into()),
            ("Drives", drives.into()),
        ]);
        parts.push((id, fields));
    }
    tree.put_all("Storage", "Storage", "v1_15_0", parts);
}

fn name(device: &PciDevice) -> Option<String> {
    device.device_name.clone().or_else(|| device.class_name.clone())
}

fn drive(disk: &Disk) -> Value {
    let protocol = PROTOCOLS.iter().find(|(name, _)| disk.transport.as_deref() == Some(name));
    let media = disk.rotational.map(|rotates| if rotates { "HDD" } else { "SSD" });
    // SATA disks report the name of their command set as vendor.
    let vendor = disk.vendor.as_deref().filter(|vendor| *vendor != "ATA");
    let label = disk.bay.as_ref().and_then(|bay| bay.label.as_deref());
    let location = object([("PartLocation", object([("ServiceLabel", label.into())]))]);
    object([
        ("Id", id_of(&disk.name).into()),
        ("Name", disk.device.as_str().into()),
        ("Manufacturer", vendor.into()),
        ("Model", disk.model.as_deref().into()),
        ("SerialNumber", disk.serial.as_deref().into()),
        ("Revision", disk.firmware.as_deref().into()),
        ("CapacityBytes", disk.size_bytes.into()),
        ("BlockSizeBytes", disk.logical_block_bytes.into()),
        ("MediaType", media.into()),
        ("Protocol", protocol.map(|(_, name)| *name).into()),
        ("RotationSpeedRPM", disk.rotation_rpm.into()),
        ("Identifiers", list(identifiers(disk).into_iter())),
        ("PhysicalLocation", location),
    ])
}

/// The world-wide names in upper case, as Redfish writes them, with the standard that each follows.
fn identifiers(disk: &Disk) -> Vec<Value> {
    let naa = disk.wwn.as_deref().filter(|wwn| wwn.starts_with("0x"));
    let names = [("NAA", naa), ("EUI", disk.eui64.as_deref()), ("NGUID", disk.nguid.as_deref())];
    let known = names.into_iter().filter_map(|(format, name)| {
        let digits = wwn::forms(name?)?.full.to_ascii_uppercase();
        Some(object([("DurableName", digits.into()), ("DurableNameFormat", format.into())]))
    });
    known.collect()
}
