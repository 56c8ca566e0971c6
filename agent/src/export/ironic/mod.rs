//! The inspection data of Ironic: what `ironic-python-agent` 13 posts to `/v1/continue_inspection`
//! (`ironic_python_agent/{hardware,inspector,numa_inspector}.py`).
//!
//! All but `inventory` is Ironic's `plugin_data`, which its inspection hooks read. Two keys are null instead of absent
//! if their value is unknown: the hooks `architecture` and `memory` fail an inspection without them, and accept null.

mod dmi;

use probes::block::Disk;
use probes::collect::Inventory;
use probes::cpuset::CpuSet;
use probes::pci::PciDevice;
use probes::usb::UsbDevice;
use serde_json::{Map, Value};

use crate::export::object::{list, object};
use crate::export::ports::{Port, boot_port, ports, switch, tlvs, without_prefix};
use crate::export::select::{architecture, boot_mode, disks, extended_wwn, max_mhz, n_cpus};

const MIB: u64 = 1 << 20;
/// Transports that `lsblk` knows, from which `ironic-python-agent` copies the name.
const TRANSPORTS: [&str; 9] = ["ata", "fc", "iscsi", "mmc", "nvme", "sas", "sata", "usb", "virtio"];

/// The whole document. `root_disk` is the disk that an install without hints would use, if that is clear; `error` says
/// why facts are missing that an inspection must have, and makes Ironic fail the inspection with this text.
#[must_use]
pub fn document(inventory: &Inventory, root_disk: Option<&Disk>, error: Option<&str>) -> Value {
    let ports = ports(inventory);
    // Without a MAC Ironic refuses the whole document.
    let ports: Vec<Port<'_>> = ports.into_iter().filter(|port| port.mac.is_some()).collect();
    let pci = inventory.pci.iter().flat_map(|pci| &pci.devices);
    let usb = inventory.devices.iter().flat_map(|devices| &devices.usb);
    object([
        ("inventory", hardware(inventory, &ports)),
        ("root_disk", root_disk.map(disk).into()),
        (
            "boot_interface",
            boot_mac(&ports).map(|mac| format!("01-{}", mac.replace(':', "-"))).into(),
        ),
        ("error", error.into()),
        ("pci_devices", list(pci.map(pci_device))),
        ("usb_devices", list(usb.filter(|device| !device.is_root_hub).map(usb_device))),
        ("numa_topology", numa_topology(inventory, &ports)),
        ("dmi", dmi::tables(inventory)),
        ("lldp_raw", lldp(&ports)),
    ])
}

fn hardware(inventory: &Inventory, ports: &[Port<'_>]) -> Value {
    let bmc = inventory.bmc.as_ref();
    object([
        ("interfaces", list(ports.iter().map(interface))),
        ("cpu", cpu(inventory)),
        ("memory", memory(inventory)),
        ("disks", list(disks(inventory).map(disk))),
        ("bmc_address", bmc.and_then(|bmc| bmc.ipv4.clone()).into()),
        ("bmc_v6address", bmc.and_then(|bmc| bmc.ipv6.clone()).into()),
        ("bmc_mac", bmc.and_then(|bmc| bmc.mac.clone()).into()),
        ("system_vendor", system_vendor(inventory)),
        ("boot", boot(inventory, ports)),
        ("hostname", inventory.os.as_ref().and_then(|os| os.hostname.clone()).into()),
    ])
}

fn interface(port: &Port<'_>) -> Value {
    let facts = port.facts;
    let address = |of: &[&str]| of.first().map(|address| without_prefix(address).to_owned());
    object([
        ("name", facts.name.as_str().into()),
        ("mac_address", port.mac.as_deref().into()),
        ("ipv4_address", address(&port.ipv4).into()),
        ("ipv6_address", address(&port.ipv6).into()),
        ("has_carrier", facts.has_carrier.into()),
        ("vendor", facts.vendor_id.as_ref().map(|id| format!("0x{id}")).into()),
        ("product", facts.device_id.as_ref().map(|id| format!("0x{id}")).into()),
        ("client_id", port.client_id.as_deref().into()),
        ("speed_mbps", facts.max_speed_mbit_s.or(facts.speed_mbit_s).into()),
        ("pci_address", facts.pci_address.as_deref().into()),
        ("driver", facts.driver.as_deref().into()),
    ])
}

/// The frequency is a text, as `lscpu` prints it: Metal3 cannot decode an inventory in which it is a number.
fn cpu(inventory: &Inventory) -> Value {
    let cpu = inventory.cpu.as_ref();
    let of_cpu = object([
        ("model_name", cpu.and_then(|cpu| cpu.model_name.clone()).into()),
        ("frequency", cpu.and_then(max_mhz).map(|mhz| mhz.to_string()).into()),
        ("count", cpu.and_then(n_cpus).into()),
        ("flags", cpu.map(|cpu| cpu.flags.clone()).into()),
        ("socket_count", cpu.and_then(|cpu| cpu.n_packages).into()),
    ]);
    with_key(of_cpu, "architecture", architecture(inventory).into())
}

fn memory(inventory: &Inventory) -> Value {
    let memory = inventory.memory.as_ref();
    let physical_mb = memory.and_then(|memory| memory.installed_bytes).map(|bytes| bytes / MIB);
    let usable = object([("total", memory.and_then(|memory| memory.usable_bytes).into())]);
    with_key(usable, "physical_mb", physical_mb.filter(|mib| *mib > 0).into())
}

/// Adds a key that is null if its value is unknown.
fn with_key(mut object: Value, key: &str, value: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.insert(key.to_owned(), value);
    }
    object
}

fn disk(disk: &Disk) -> Value {
    let (with_extension, extension) = extended_wwn(disk);
    let is_known = |name: &&str| TRANSPORTS.contains(name);
    object([
        ("name", disk.device.as_str().into()),
        ("model", disk.model.as_deref().into()),
        ("size", disk.size_bytes.into()),
        ("rotational", disk.rotational.into()),
        ("wwn", disk.wwn.as_deref().into()),
        ("serial", disk.serial.as_deref().into()),
        ("vendor", disk.vendor.as_deref().into()),
        ("wwn_with_extension", with_extension.into()),
        ("wwn_vendor_extension", extension.into()),
        ("hctl", disk.hctl.as_deref().into()),
        ("by_path", disk.by_path.as_deref().into()),
        ("logical_sectors", disk.logical_block_bytes.into()),
        ("physical_sectors", disk.physical_block_bytes.into()),
        ("tran", disk.transport.as_deref().filter(is_known).into()),
    ])
}

fn system_vendor(inventory: &Inventory) -> Value {
    let (product, bios) = (inventory.product.as_ref(), inventory.bios.as_ref());
    let firmware = object([
        ("vendor", bios.and_then(|bios| bios.vendor.clone()).into()),
        ("version", bios.and_then(|bios| bios.version.clone()).into()),
        ("build_date", bios.and_then(|bios| bios.date.clone()).into()),
    ]);
    object([
        ("product_name", product.and_then(|product| product.name.clone()).into()),
        ("serial_number", product.and_then(|product| product.serial.clone()).into()),
        ("manufacturer", product.and_then(|product| product.vendor.clone()).into()),
        ("firmware", firmware),
    ])
}

fn boot(inventory: &Inventory, ports: &[Port<'_>]) -> Value {
    let mode = inventory.firmware.as_ref().and_then(|firmware| firmware.boot_mode);
    object([
        ("current_boot_mode", mode.map(boot_mode).into()),
        ("pxe_interface", boot_mac(ports).into()),
    ])
}

fn boot_mac<'p>(ports: &'p [Port<'_>]) -> Option<&'p str> {
    boot_port(ports).and_then(|port| port.mac.as_deref())
}

/// Ironic's hooks need both ids; the class has six digits, and the node is a text.
fn pci_device(device: &PciDevice) -> Value {
    let (Some(vendor), Some(product)) = (&device.vendor_id, &device.device_id) else {
        return Value::Null;
    };
    let class = device.class.as_ref().zip(device.prog_if.as_ref());
    object([
        ("vendor_id", vendor.as_str().into()),
        ("product_id", product.as_str().into()),
        ("class", class.map(|(class, prog_if)| format!("{class}{prog_if}")).into()),
        ("revision", device.revision.as_deref().into()),
        ("bus", device.address.as_str().into()),
        ("numa_node_id", device.numa_node.map(|node| node.to_string()).into()),
    ])
}

fn usb_device(device: &UsbDevice) -> Value {
    let handle = device.bus.zip(device.device_number);
    object([
        ("product", device.product.as_deref().into()),
        ("vendor", device.manufacturer.as_deref().into()),
        ("handle", handle.map(|(bus, number)| format!("USB:{bus}:{number}")).into()),
    ])
}

fn numa_topology(inventory: &Inventory, ports: &[Port<'_>]) -> Value {
    let nodes = || inventory.topology.iter().flat_map(|topology| topology.nodes.iter().flatten());
    let ram = nodes().filter_map(|node| {
        let size_kb = node.memory_bytes? / 1024;
        Some(object([("numa_node", node.id.into()), ("size_kb", size_kb.into())]))
    });
    let set = |text: &str| CpuSet::parse(text).ok();
    let by_node: Vec<(u32, CpuSet)> =
        nodes().filter_map(|node| Some((node.id, set(node.cpus.as_deref()?)?))).collect();
    let packages = inventory.cpu.iter().flat_map(|cpu| &cpu.packages);
    let cores = packages.flat_map(|package| &package.cores).filter_map(|core| {
        let threads = set(&core.logical_cpus)?;
        let first = threads.first()?;
        let (node, _) = by_node.iter().find(|(_, cpus)| cpus.contains(first))?;
        let siblings: Vec<u32> = threads.iter().collect();
        Some(object([
            ("cpu", core.id?.into()),
            ("numa_node", (*node).into()),
            ("thread_siblings", siblings.into()),
        ]))
    });
    let nics = ports.iter().filter_map(|port| {
        let (name, node) = (port.facts.name.as_str(), port.facts.numa_node?);
        Some(object([("name", name.into()), ("numa_node", node.into())]))
    });
    object([("ram", list(ram)), ("cpus", list(cores)), ("nics", list(nics))])
}

/// The parts of the switch's LLDPDU by port, as type and hexadecimal content.
fn lldp(ports: &[Port<'_>]) -> Value {
    let mut raw = Map::new();
    for port in ports {
        if let Some(neighbour) = switch(port.facts) {
            let pair = |(kind, content): (u8, String)| {
                Value::from(vec![kind.into(), Value::from(content)])
            };
            raw.insert(port.facts.name.clone(), tlvs(neighbour).into_iter().map(pair).collect());
        }
    }
    Value::Object(raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_machine_has_only_what_hooks_need() {
        let expected = json!({
            "inventory": {"cpu": {"architecture": null}, "memory": {"physical_mb": null}}
        });
        assert_eq!(document(&Inventory::default(), None, None), expected);
    }

    #[test]
    fn wwn_with_extension_is_given_for_naa_names_only() {
        let of = |wwn: &str| {
            let made = disk(&Disk { wwn: Some(wwn.to_owned()), ..Disk::default() });
            (made.get("wwn_with_extension").cloned(), made.get("wwn_vendor_extension").cloned())
        };
        let long = "0x600508b1001c4d41aabbccddeeff0011";
        assert_eq!(of(long), (Some(long.into()), Some("0xaabbccddeeff0011".into())));
        let short = "0x5000c500a1b2c3d4";
        assert_eq!(of(short), (Some(short.into()), None));
        assert_eq!(of("eui.0025385b11b2c3d4"), (None, None));
    }
}
