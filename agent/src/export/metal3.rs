//! `HardwareDetails` of Metal3 (`metal3.io/v1alpha1`, `hardwaredata_types.go` of the baremetal-operator), with the
//! meanings that the operator itself gives to Ironic's inventory (`pkg/provisioner/ironic/hardwaredetails`).

use probes::block::Disk;
use probes::collect::Inventory;
use probes::network::LldpNeighbour;
use serde_json::Value;

use super::object::{list, object};
use super::ports::{Port, boot_port, ports, switch, without_prefix};
use super::select::{architecture, disks, extended_wwn, max_mhz, n_cpus};

const MIB: u64 = 1 << 20;

/// The details, as the annotation `inspect.metal3.io/hardwaredetails` holds them.
#[must_use]
pub fn details(inventory: &Inventory) -> Value {
    let (product, bios) = (inventory.product.as_ref(), inventory.bios.as_ref());
    let installed = inventory.memory.as_ref().and_then(|memory| memory.installed_bytes);
    let bios = object([
        ("date", bios.and_then(|bios| bios.date.clone()).into()),
        ("vendor", bios.and_then(|bios| bios.vendor.clone()).into()),
        ("version", bios.and_then(|bios| bios.version.clone()).into()),
    ]);
    object([
        (
            "systemVendor",
            object([
                ("manufacturer", product.and_then(|product| product.vendor.clone()).into()),
                ("productName", product.and_then(|product| product.name.clone()).into()),
                ("serialNumber", product.and_then(|product| product.serial.clone()).into()),
            ]),
        ),
        ("firmware", object([("bios", bios)])),
        ("ramMebibytes", installed.map(|bytes| bytes / MIB).filter(|mib| *mib > 0).into()),
        ("nics", nics(inventory)),
        ("storage", list(disks(inventory).map(storage))),
        ("cpu", cpu(inventory)),
        ("hostname", inventory.os.as_ref().and_then(|os| os.hostname.clone()).into()),
    ])
}

/// A `HardwareData` resource. Its name must be that of the `BareMetalHost`; `name` is made fit for Kubernetes.
#[must_use]
pub fn resource(inventory: &Inventory, name: &str) -> Value {
    object([
        ("apiVersion", "metal3.io/v1alpha1".into()),
        ("kind", "HardwareData".into()),
        ("metadata", object([("name", kubernetes_name(name).into())])),
        ("spec", object([("hardware", details(inventory))])),
    ])
}

/// The text as the name of a resource: lower-case letters, digits, dots and dashes (RFC 1123).
fn kubernetes_name(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let plain = lower.replace(|c| !is_plain(c), "-");
    plain.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

/// An entry for the first address of each family, IPv4 first, and one without an address for a port that has none.
fn nics(inventory: &Inventory) -> Value {
    let ports = ports(inventory);
    let booted = boot_port(&ports).map(|port| port.facts.name.as_str());
    let entries = ports.iter().filter(|port| port.mac.is_some()).flat_map(|port| {
        let is_booted = booted.map(|name| name == port.facts.name);
        let mut addresses: Vec<Option<&str>> = Vec::new();
        addresses.extend(port.ipv4.first().map(|address| Some(without_prefix(address))));
        addresses.extend(port.ipv6.first().map(|address| Some(without_prefix(address))));
        if addresses.is_empty() {
            addresses.push(None);
        }
        addresses.into_iter().map(move |address| nic(port, address, is_booted))
    });
    list(entries)
}

fn nic(port: &Port<'_>, address: Option<&str>, is_booted: Option<bool>) -> Value {
    let facts = port.facts;
    let ids = facts.vendor_id.as_ref().zip(facts.device_id.as_ref());
    let speed_mbit_s = facts.max_speed_mbit_s.or(facts.speed_mbit_s);
    let switch = switch(facts);
    let vlans = switch.iter().flat_map(|switch| &switch.vlans).filter(|vlan| vlan.id <= 4094);
    let vlans =
        vlans.map(|vlan| object([("id", vlan.id.into()), ("name", vlan.name.as_deref().into())]));
    object([
        ("name", facts.name.as_str().into()),
        ("model", ids.map(|(vendor, product)| format!("0x{vendor} 0x{product}")).into()),
        ("mac", port.mac.as_deref().into()),
        ("ip", address.into()),
        ("speedGbps", speed_mbit_s.map(|mbit_s| mbit_s / 1000).filter(|gbit_s| *gbit_s > 0).into()),
        ("vlans", list(vlans)),
        ("vlanId", switch.and_then(|switch| switch.port_vlan_id).filter(|id| *id <= 4094).into()),
        ("pxe", is_booted.into()),
        ("lldp", switch.map(lldp).into()),
        ("pciAddress", facts.pci_address.as_deref().into()),
    ])
}

fn lldp(switch: &LldpNeighbour) -> Value {
    object([
        ("switchID", switch.chassis_id.as_str().into()),
        ("portID", switch.port_id.as_str().into()),
        ("switchSystemName", switch.system_name.as_deref().into()),
    ])
}

/// The name is the path by place, which stays the same across boots, if the disk has one.
fn storage(disk: &Disk) -> Value {
    let (with_extension, extension) = extended_wwn(disk);
    let kind = match disk.rotational {
        Some(true) => Some("HDD"),
        _ if disk.name.starts_with("nvme") => Some("NVME"),
        Some(false) => Some("SSD"),
        None => None,
    };
    let names = [Some(&disk.device), disk.by_path.as_ref()].into_iter().flatten();
    object([
        ("name", disk.by_path.as_ref().unwrap_or(&disk.device).as_str().into()),
        ("alternateNames", list(names.map(|name| name.as_str().into()))),
        ("rotational", disk.rotational.into()),
        ("type", kind.into()),
        ("sizeBytes", disk.size_bytes.into()),
        ("vendor", disk.vendor.as_deref().into()),
        ("model", disk.model.as_deref().into()),
        ("serialNumber", disk.serial.as_deref().into()),
        ("wwn", disk.wwn.as_deref().into()),
        ("wwnVendorExtension", extension.into()),
        ("wwnWithExtension", with_extension.into()),
        ("hctl", disk.hctl.as_deref().into()),
    ])
}

fn cpu(inventory: &Inventory) -> Value {
    let cpu = inventory.cpu.as_ref();
    let flags = cpu.map(|cpu| {
        let mut flags = cpu.flags.clone();
        flags.sort_unstable();
        flags
    });
    object([
        ("arch", architecture(inventory).into()),
        ("model", cpu.and_then(|cpu| cpu.model_name.clone()).into()),
        ("clockMegahertz", cpu.and_then(max_mhz).into()),
        ("flags", flags.into()),
        ("count", cpu.and_then(n_cpus).into()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_of_storage_is_absent_unless_it_is_known() {
        let of = |name: &str, rotational| {
            let made = storage(&Disk { name: name.to_owned(), rotational, ..Disk::default() });
            made.get("type").and_then(|kind| kind.as_str().map(str::to_owned))
        };
        assert_eq!(of("sda", Some(true)).as_deref(), Some("HDD"));
        assert_eq!(of("sda", Some(false)).as_deref(), Some("SSD"));
        assert_eq!(of("sda", None), None);
        assert_eq!(of("nvme0n1", None).as_deref(), Some("NVME"));
    }

    #[test]
    fn names_of_nodes_become_names_of_resources() {
        for (text, expected) in [
            ("uuid-4C4C4544-0058", "uuid-4c4c4544-0058"),
            ("serial-7XJ_4:KZ3.", "serial-7xj-4-kz3"),
        ] {
            assert_eq!(kubernetes_name(text), expected);
        }
    }
}
