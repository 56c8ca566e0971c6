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
use serde_json::{Map, Value, json};

use crate::export::object::known;
use crate::export::ports::{Port, boot_port, ports, switch, tlvs, without_prefix};
use crate::export::select::{architecture, disks, extended_wwn, installed_mib, max_mhz, n_cpus};

/// Transports that `lsblk` knows, from which `ironic-python-agent` copies the name.
const TRANSPORTS: [&str; 9] = ["ata", "fc", "iscsi", "mmc", "nvme", "sas", "sata", "usb", "virtio"];

/// The whole document. `root_disk` is the disk that an install without hints would use, if that is clear; `error` says
/// why facts are missing that an inspection must have, and makes Ironic fail the inspection with this text.
pub fn document(inventory: &Inventory, root_disk: Option<&Disk>, error: Option<&str>) -> Value {
    let ports = ports(inventory);
    // Without a MAC Ironic refuses the whole document.
    let ports: Vec<Port<'_>> = ports.into_iter().filter(|port| port.mac.is_some()).collect();
    let pci = inventory.pci.iter().flat_map(|pci| &pci.devices);
    let usb = inventory.devices.iter().flat_map(|devices| &devices.usb);
    let usb = usb.filter(|device| !device.is_root_hub);
    let booted = boot_mac(&ports).map(|mac| format!("01-{}", mac.replace(':', "-")));
    let mut document = known(json!({
        "inventory": hardware(inventory, &ports),
        "root_disk": root_disk.map(disk),
        "boot_interface": booted,
        "error": error,
        "pci_devices": pci.map(pci_device).collect::<Value>(),
        "usb_devices": usb.map(usb_device).collect::<Value>(),
        "numa_topology": numa_topology(inventory, &ports),
        "dmi": dmi::tables(inventory),
    }));
    // A part of a frame may be empty.
    let lldp = lldp(&ports);
    if !lldp.is_empty() {
        document["lldp_raw"] = lldp.into();
    }
    document["inventory"]["cpu"]["architecture"] = architecture(inventory).into();
    document["inventory"]["memory"]["physical_mb"] = installed_mib(inventory).into();
    document
}

fn hardware(inventory: &Inventory, ports: &[Port<'_>]) -> Value {
    let bmc = inventory.bmc.clone().unwrap_or_default();
    json!({
        "interfaces": ports.iter().map(interface).collect::<Value>(),
        "cpu": cpu(inventory),
        "memory": {"total": inventory.memory.as_ref().and_then(|memory| memory.usable_bytes)},
        "disks": disks(inventory).map(disk).collect::<Value>(),
        "bmc_address": bmc.ipv4,
        "bmc_v6address": bmc.ipv6,
        "bmc_mac": bmc.mac,
        "system_vendor": system_vendor(inventory),
        "boot": boot(inventory, ports),
        "hostname": inventory.os.as_ref().and_then(|os| os.hostname.as_ref()),
    })
}

fn interface(port: &Port<'_>) -> Value {
    let facts = port.facts;
    let address = |of: &[&str]| of.first().map(|address| without_prefix(address).to_owned());
    json!({
        "name": facts.name,
        "mac_address": port.mac,
        "ipv4_address": address(&port.ipv4),
        "ipv6_address": address(&port.ipv6),
        "has_carrier": facts.has_carrier,
        "vendor": facts.vendor_id.as_ref().map(|id| format!("0x{id}")),
        "product": facts.device_id.as_ref().map(|id| format!("0x{id}")),
        "client_id": port.client_id,
        "speed_mbps": facts.max_speed_mbit_s.or(facts.speed_mbit_s),
        "pci_address": facts.pci_address,
        "driver": facts.driver,
    })
}

/// The frequency is a text, as `lscpu` prints it: Metal3 cannot decode an inventory in which it is a number.
fn cpu(inventory: &Inventory) -> Value {
    let cpu = inventory.cpu.clone().unwrap_or_default();
    json!({
        "model_name": cpu.model_name,
        "frequency": max_mhz(&cpu).map(|mhz| mhz.to_string()),
        "count": n_cpus(&cpu),
        "flags": cpu.flags,
        "socket_count": cpu.n_packages,
    })
}

fn disk(disk: &Disk) -> Value {
    let (with_extension, extension) = extended_wwn(disk);
    let is_known = |name: &&str| TRANSPORTS.contains(name);
    json!({
        "name": disk.device,
        "model": disk.model,
        "size": disk.size_bytes,
        "rotational": disk.rotational,
        "wwn": disk.wwn,
        "serial": disk.serial,
        "vendor": disk.vendor,
        "wwn_with_extension": with_extension,
        "wwn_vendor_extension": extension,
        "hctl": disk.hctl,
        "by_path": disk.by_path,
        "logical_sectors": disk.logical_block_bytes,
        "physical_sectors": disk.physical_block_bytes,
        "tran": disk.transport.as_deref().filter(is_known),
    })
}

fn system_vendor(inventory: &Inventory) -> Value {
    let product = inventory.product.clone().unwrap_or_default();
    let bios = inventory.bios.clone().unwrap_or_default();
    json!({
        "product_name": product.name,
        "serial_number": product.serial,
        "manufacturer": product.vendor,
        "firmware": {"vendor": bios.vendor, "version": bios.version, "build_date": bios.date},
    })
}

fn boot(inventory: &Inventory, ports: &[Port<'_>]) -> Value {
    let mode = inventory.firmware.as_ref().and_then(|firmware| firmware.boot_mode);
    json!({"current_boot_mode": mode, "pxe_interface": boot_mac(ports)})
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
    json!({
        "vendor_id": vendor,
        "product_id": product,
        "class": class.map(|(class, prog_if)| format!("{class}{prog_if}")),
        "revision": device.revision,
        "bus": device.address,
        "numa_node_id": device.numa_node.map(|node| node.to_string()),
    })
}

fn usb_device(device: &UsbDevice) -> Value {
    let handle = device.bus.zip(device.device_number);
    json!({
        "product": device.product,
        "vendor": device.manufacturer,
        "handle": handle.map(|(bus, number)| format!("USB:{bus}:{number}")),
    })
}

fn numa_topology(inventory: &Inventory, ports: &[Port<'_>]) -> Value {
    let nodes = || inventory.topology.iter().flat_map(|topology| topology.nodes.iter().flatten());
    let ram = nodes().filter_map(|node| {
        Some(json!({"numa_node": node.id, "size_kb": node.memory_bytes? / 1024}))
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
        Some(json!({"cpu": core.id?, "numa_node": node, "thread_siblings": siblings}))
    });
    let nics = ports.iter().filter_map(|port| {
        Some(json!({"name": port.facts.name, "numa_node": port.facts.numa_node?}))
    });
    let (ram, cpus): (Value, Value) = (ram.collect(), cores.collect());
    json!({"ram": ram, "cpus": cpus, "nics": nics.collect::<Value>()})
}

/// The parts of the switch's LLDPDU by port, as type and hexadecimal content.
fn lldp(ports: &[Port<'_>]) -> Map<String, Value> {
    let of_port =
        |port: &Port<'_>| Some((port.facts.name.clone(), json!(tlvs(switch(port.facts)?))));
    ports.iter().filter_map(of_port).collect()
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
            let made = known(disk(&Disk { wwn: Some(wwn.to_owned()), ..Disk::default() }));
            (made.get("wwn_with_extension").cloned(), made.get("wwn_vendor_extension").cloned())
        };
        let long = "0x600508b1001c4d41aabbccddeeff0011";
        assert_eq!(of(long), (Some(long.into()), Some("0xaabbccddeeff0011".into())));
        let short = "0x5000c500a1b2c3d4";
        assert_eq!(of(short), (Some(short.into()), None));
        assert_eq!(of("eui.0025385b11b2c3d4"), (None, None));
    }
}
