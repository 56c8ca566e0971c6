//! `HardwareDetails` of Metal3 (`metal3.io/v1alpha1`, `hardwaredata_types.go` of the baremetal-operator), with the
//! meanings that the operator itself gives to Ironic's inventory (`pkg/provisioner/ironic/hardwaredetails`).

use probes::block::Disk;
use probes::collect::Inventory;
use serde_json::{Value, json};

use super::object::known;
use super::ports::{Port, boot_port, ports, switch, without_prefix};
use super::select::{architecture, disks, extended_wwn, installed_mib, max_mhz, n_cpus};

/// The details, as the annotation `inspect.metal3.io/hardwaredetails` holds them.
pub fn details(inventory: &Inventory) -> Value {
    let product = inventory.product.clone().unwrap_or_default();
    let bios = inventory.bios.clone().unwrap_or_default();
    known(json!({
        "systemVendor": {
            "manufacturer": product.vendor, "productName": product.name, "serialNumber": product.serial,
        },
        "firmware": {"bios": {"date": bios.date, "vendor": bios.vendor, "version": bios.version}},
        "ramMebibytes": installed_mib(inventory),
        "nics": nics(inventory),
        "storage": disks(inventory).map(storage).collect::<Value>(),
        "cpu": cpu(inventory),
        "hostname": inventory.os.as_ref().and_then(|os| os.hostname.as_ref()),
    }))
}

/// A `HardwareData` resource. Its name must be that of the `BareMetalHost`; `name` is made fit for Kubernetes.
pub fn resource(inventory: &Inventory, name: &str) -> Value {
    known(json!({
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "HardwareData",
        "metadata": {"name": kubernetes_name(name)},
        "spec": {"hardware": details(inventory)},
    }))
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
        let addresses = [port.ipv4.first(), port.ipv6.first()].into_iter().flatten();
        let mut addresses: Vec<Option<&str>> =
            addresses.map(|address| Some(without_prefix(address))).collect();
        if addresses.is_empty() {
            addresses.push(None);
        }
        addresses.into_iter().map(move |address| nic(port, address, is_booted))
    });
    entries.collect()
}

fn nic(port: &Port<'_>, address: Option<&str>, is_booted: Option<bool>) -> Value {
    let facts = port.facts;
    let ids = facts.vendor_id.as_ref().zip(facts.device_id.as_ref());
    let speed_mbit_s = facts.max_speed_mbit_s.or(facts.speed_mbit_s);
    let switch = switch(facts);
    let vlans = switch.iter().flat_map(|switch| &switch.vlans).filter(|vlan| vlan.id <= 4094);
    let vlans = vlans.map(|vlan| json!({"id": vlan.id, "name": vlan.name}));
    json!({
        "name": facts.name,
        "model": ids.map(|(vendor, product)| format!("0x{vendor} 0x{product}")),
        "mac": port.mac,
        "ip": address,
        "speedGbps": speed_mbit_s.map(|mbit_s| mbit_s / 1000).filter(|gbit_s| *gbit_s > 0),
        "vlans": vlans.collect::<Value>(),
        "vlanId": switch.and_then(|switch| switch.port_vlan_id).filter(|id| *id <= 4094),
        "pxe": is_booted,
        "lldp": switch.map(|switch| json!({
            "switchID": switch.chassis_id, "portID": switch.port_id, "switchSystemName": switch.system_name,
        })),
        "pciAddress": facts.pci_address,
    })
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
    json!({
        "name": disk.by_path.as_ref().unwrap_or(&disk.device),
        "alternateNames": [disk.device, disk.by_path],
        "rotational": disk.rotational,
        "type": kind,
        "sizeBytes": disk.size_bytes,
        "vendor": disk.vendor,
        "model": disk.model,
        "serialNumber": disk.serial,
        "wwn": disk.wwn,
        "wwnVendorExtension": extension,
        "wwnWithExtension": with_extension,
        "hctl": disk.hctl,
    })
}

fn cpu(inventory: &Inventory) -> Value {
    let mut cpu = inventory.cpu.clone().unwrap_or_default();
    cpu.flags.sort_unstable();
    json!({
        "arch": architecture(inventory),
        "model": cpu.model_name,
        "clockMegahertz": max_mhz(&cpu),
        "flags": cpu.flags,
        "count": n_cpus(&cpu),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_of_storage_is_absent_unless_it_is_known() {
        let of = |name: &str, rotational| {
            let made =
                known(storage(&Disk { name: name.to_owned(), rotational, ..Disk::default() }));
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
