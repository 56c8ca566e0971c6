//! PCI devices: one `PCIeDevice` for each device number, with its functions.

use std::collections::BTreeMap;

use probes::collect::Inventory;
use probes::pci::PciDevice;
use serde_json::Value;

use super::{SYSTEM, Tree, id_of, reference};
use crate::object::object;

/// The devices by address without the function.
fn grouped(inventory: &Inventory) -> BTreeMap<&str, Vec<&PciDevice>> {
    let mut found: BTreeMap<&str, Vec<&PciDevice>> = BTreeMap::new();
    for function in inventory.pci.iter().flat_map(|pci| &pci.devices) {
        let device = function.address.rsplit_once('.').map_or("", |(device, _)| device);
        found.entry(device).or_default().push(function);
    }
    found.remove("");
    found
}

fn path(device: &str) -> String {
    format!("{SYSTEM}/PCIeDevices/{}", id_of(device))
}

/// The paths of the devices' documents, to which the system links.
pub(super) fn paths(inventory: &Inventory) -> Vec<String> {
    grouped(inventory).keys().map(|device| path(device)).collect()
}

pub(super) fn devices(tree: &mut Tree, inventory: &Inventory) {
    for (device, functions) in grouped(inventory) {
        let path = path(device);
        let folder = format!("{path}/PCIeFunctions");
        let mut members = Vec::new();
        for function in &functions {
            let number = function.address.rsplit('.').next().unwrap_or_default();
            let path = format!("{folder}/{number}");
            tree.put(&path, "PCIeFunction.v1_5_0.PCIeFunction", self::function(number, function));
            members.push(path);
        }
        tree.collect(&folder, "PCIeFunction", &members);
        let Some(first) = functions.first() else { continue };
        let kind = if functions.len() > 1 { "MultiFunction" } else { "SingleFunction" };
        let link = first.link.as_ref();
        let interface = object([
            ("LanesInUse", link.and_then(|link| link.current_width).into()),
            ("MaxLanes", link.and_then(|link| link.max_width).into()),
            ("PCIeType", link.and_then(|link| generation(link.current_gt_s_x10)).into()),
            ("MaxPCIeType", link.and_then(|link| generation(link.max_gt_s_x10)).into()),
        ]);
        let vpd = first.vpd.as_ref();
        let fields = object([
            ("Id", id_of(device).into()),
            ("Name", first.device_name.as_deref().unwrap_or(device).into()),
            ("Manufacturer", first.vendor_name.as_deref().into()),
            ("Model", first.device_name.as_deref().into()),
            ("SerialNumber", vpd.and_then(|vpd| vpd.serial.clone()).into()),
            ("PartNumber", vpd.and_then(|vpd| vpd.part_number.clone()).into()),
            ("DeviceType", kind.into()),
            ("PCIeInterface", interface),
            ("PCIeFunctions", reference(&folder)),
        ]);
        tree.put(&path, "PCIeDevice.v1_13_0.PCIeDevice", fields);
    }
}

fn function(number: &str, function: &PciDevice) -> Value {
    let hex = |digits: &Option<String>| digits.as_ref().map(|digits| format!("0x{digits}"));
    let class = function.class.as_ref().zip(function.prog_if.as_ref());
    object([
        ("Id", number.into()),
        ("Name", function.address.as_str().into()),
        ("FunctionId", number.parse::<u8>().ok().into()),
        ("VendorId", hex(&function.vendor_id).into()),
        ("DeviceId", hex(&function.device_id).into()),
        ("SubsystemVendorId", hex(&function.subsystem_vendor_id).into()),
        ("SubsystemId", hex(&function.subsystem_device_id).into()),
        ("ClassCode", class.map(|(class, prog_if)| format!("0x{class}{prog_if}")).into()),
        ("RevisionId", hex(&function.revision).into()),
    ])
}

/// The generation of PCI Express, by tenths of a GT/s.
fn generation(gt_s_x10: Option<u32>) -> Option<&'static str> {
    match gt_s_x10? {
        25 => Some("Gen1"),
        50 => Some("Gen2"),
        80 => Some("Gen3"),
        160 => Some("Gen4"),
        320 => Some("Gen5"),
        640 => Some("Gen6"),
        _ => None,
    }
}
