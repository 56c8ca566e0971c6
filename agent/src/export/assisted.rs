//! The host inventory of assisted-service (`swagger.yaml`, definition `inventory`), with the meanings that
//! `assisted-installer-agent` gives to its keys (`src/inventory`).

use probes::block::Disk;
use probes::collect::Inventory;
use probes::firmware::BootMode;
use probes::gpu::{Card, CardKind};
use probes::network::Route;
use serde_json::{Value, json};

use super::object::known;
use super::ports::{Port, boot_port, ports, software, without_prefix};
use super::select::{architecture, max_mhz, n_cpus};

/// The inventory.
pub fn inventory(inventory: &Inventory) -> Value {
    let ports = ports(inventory);
    let booted = boot_port(&ports).and_then(|port| port.mac.as_deref());
    let software = software(inventory);
    let interfaces = ports.iter().map(|port| interface(port, "physical"));
    let interfaces = interfaces.chain(software.iter().map(|(port, kind)| interface(port, kind)));
    // All disks and drives but those that the kernel hides: the service judges each by itself.
    let disks = inventory.block.iter().flat_map(|block| &block.disks);
    let disks = disks.filter(|disk| disk.hidden != Some(true));
    let bmc = inventory.bmc.clone().unwrap_or_default();
    let cards = inventory.gpu.iter().flat_map(|gpu| &gpu.cards);
    let cards = cards.filter(|card| matches!(card.kind, CardKind::Gpu | CardKind::Accelerator));
    let routes = inventory.local_addresses.iter().flat_map(|local| &local.routes);
    let tpm = inventory.devices.as_ref().and_then(|devices| devices.tpm.as_ref());
    let tpm = tpm.and_then(|tpm| tpm.version.as_deref());
    known(json!({
        "hostname": inventory.os.as_ref().and_then(|os| os.hostname.as_ref()),
        "bmc_address": bmc.ipv4,
        "bmc_v6address": bmc.ipv6,
        "interfaces": interfaces.collect::<Value>(),
        "disks": disks.map(disk).collect::<Value>(),
        "boot": boot(inventory, booted),
        "system_vendor": system_vendor(inventory),
        "memory": memory_of(inventory),
        "cpu": cpu(inventory),
        "gpus": cards.map(gpu).collect::<Value>(),
        "routes": routes.map(route).collect::<Value>(),
        "tpm_version": tpm.filter(|version| matches!(*version, "1.2" | "2.0")),
    }))
}

fn interface(port: &Port<'_>, kind: &str) -> Value {
    let facts = port.facts;
    let global = port.ipv6.iter().filter(|address| !address.starts_with("fe80:"));
    json!({
        "name": facts.name,
        "mac_address": port.mac,
        "ipv4_addresses": port.ipv4,
        "ipv6_addresses": global.collect::<Vec<_>>(),
        "has_carrier": facts.has_carrier,
        "vendor": facts.vendor_id.as_ref().map(|id| format!("0x{id}")),
        "product": facts.device_id.as_ref().map(|id| format!("0x{id}")),
        "mtu": facts.mtu,
        "client_id": port.client_id,
        "speed_mbps": facts.speed_mbit_s,
        "type": kind,
    })
}

fn disk(disk: &Disk) -> Value {
    let is_stable = |path: &&String| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name.starts_with("wwn-") || name.starts_with("nvme-eui")
    };
    let by_id = disk.by_id.iter().find(is_stable);
    json!({
        "id": by_id.or(disk.by_path.as_ref()).unwrap_or(&disk.device),
        "drive_type": drive_type(disk),
        "has_uuid": disk.wwid.as_ref().map(|_| true),
        "vendor": disk.vendor,
        "name": disk.name,
        "path": disk.device,
        "hctl": disk.hctl,
        "by_path": disk.by_path,
        "by_id": by_id,
        "model": disk.model,
        "wwn": disk.wwn,
        "serial": disk.serial,
        "size_bytes": disk.size_bytes,
        "removable": disk.is_removable,
        "is_installation_media": disk.is_live_medium,
        "installation_eligibility": {
            "eligible": disk.eligible, "not_eligible_reasons": disk.not_eligible_because,
        },
        "holders": disk.holders.join(","),
    })
}

fn drive_type(disk: &Disk) -> Option<&'static str> {
    let begins = |prefix: &str| disk.name.starts_with(prefix);
    match (disk.transport.as_deref(), disk.rotational) {
        _ if begins("sr") => Some("ODD"),
        _ if begins("fd") => Some("FDD"),
        // Which of the three kinds of DASD it is, is not known.
        _ if begins("dasd") => None,
        _ if begins("dm-") => Some("Multipath"),
        (Some("iscsi"), _) => Some("iSCSI"),
        (Some("fc"), _) => Some("FC"),
        (_, Some(true)) => Some("HDD"),
        (_, Some(false)) => Some("SSD"),
        (_, None) => None,
    }
}

fn boot(inventory: &Inventory, booted: Option<&str>) -> Value {
    let firmware = inventory.firmware.as_ref();
    let mode = firmware.and_then(|firmware| firmware.boot_mode);
    let secure_boot = match (firmware.and_then(|firmware| firmware.secure_boot), mode) {
        (Some(true), _) => Some("Enabled"),
        (Some(false), _) => Some("Disabled"),
        (None, Some(BootMode::Bios)) => Some("NotSupported"),
        (None, _) => None,
    };
    let os = inventory.os.as_ref();
    let is_live = os.is_some_and(|os| os.live_image.is_some());
    json!({
        "current_boot_mode": mode,
        "pxe_interface": booted,
        "command_line": os.and_then(|os| os.command_line.as_ref()),
        "secure_boot_state": secure_boot,
        "device_type": is_live.then_some("ephemeral"),
    })
}

fn system_vendor(inventory: &Inventory) -> Value {
    let product = inventory.product.clone().unwrap_or_default();
    let hypervisor = inventory.os.as_ref().and_then(|os| os.virtualization.as_deref());
    json!({
        "serial_number": product.serial,
        "product_name": product.name,
        "manufacturer": product.vendor,
        "virtual": hypervisor.map(|name| name != "none"),
    })
}

/// `dmidecode` as the method means the sum of the memory devices of SMBIOS, which the report's is too; `meminfo` means `MemTotal`,
/// where SMBIOS lists none: the service refuses a host without memory.
fn memory_of(inventory: &Inventory) -> Value {
    let memory = inventory.memory.as_ref();
    let installed = memory.and_then(|memory| memory.installed_bytes).filter(|bytes| *bytes > 0);
    let usable = memory.and_then(|memory| memory.usable_bytes);
    let found = installed.map(|bytes| (bytes, "dmidecode"));
    let (bytes, method) = found.or(usable.map(|bytes| (bytes, "meminfo"))).unzip();
    json!({"physical_bytes": bytes, "usable_bytes": usable, "physical_bytes_method": method})
}

fn cpu(inventory: &Inventory) -> Value {
    let cpu = inventory.cpu.clone().unwrap_or_default();
    json!({
        "count": n_cpus(&cpu),
        "frequency": max_mhz(&cpu),
        "flags": cpu.flags,
        "model_name": cpu.model_name,
        "architecture": architecture(inventory),
    })
}

fn gpu(card: &Card) -> Value {
    json!({
        "vendor": card.vendor_name, "vendor_id": card.vendor_id, "device_id": card.device_id,
        "name": card.name, "address": card.address,
    })
}

/// The destination is an address without its length: the service compares it with `0.0.0.0` and `::`.
fn route(route: &Route) -> Value {
    // `AF_INET` and `AF_INET6`, which the agent writes although the definition speaks of 4 and 6.
    let families = json!({"ipv4": 2, "ipv6": 10});
    json!({
        "interface": route.interface,
        "gateway": route.gateway,
        "destination": without_prefix(&route.destination),
        "family": families.get(&route.family),
        "metric": i32::try_from(route.metric).ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_without_modules_in_smbios_is_that_of_the_kernel_by_that_method() {
        let of =
            |memory: Value| memory_of(&serde_json::from_value(json!({"memory": memory})).unwrap());
        let both = of(json!({"installed_bytes": 8_u64 << 30, "usable_bytes": 7_u64 << 30}));
        assert_eq!(
            (&both["physical_bytes"], &both["physical_bytes_method"]),
            (&json!(8_u64 << 30), &json!("dmidecode"))
        );
        let usable = of(json!({"installed_bytes": 0, "usable_bytes": 7_u64 << 30}));
        assert_eq!(
            (&usable["physical_bytes"], &usable["physical_bytes_method"]),
            (&json!(7_u64 << 30), &json!("meminfo"))
        );
        assert_eq!(of(json!({}))["physical_bytes_method"], Value::Null);
    }

    #[test]
    fn kind_of_a_drive_is_that_of_its_name_then_transport_then_medium() {
        let of = |name: &str, transport: Option<&str>, rotational| {
            drive_type(&Disk {
                name: name.to_owned(),
                transport: transport.map(str::to_owned),
                rotational,
                ..Disk::default()
            })
        };
        for (found, expected) in [
            (of("sr0", Some("sata"), Some(true)), Some("ODD")),
            (of("dm-0", Some("fc"), Some(true)), Some("Multipath")),
            (of("sda", Some("fc"), Some(true)), Some("FC")),
            (of("sda", Some("iscsi"), None), Some("iSCSI")),
            (of("sda", Some("sas"), Some(true)), Some("HDD")),
            (of("nvme0n1", Some("nvme"), Some(false)), Some("SSD")),
            (of("dasda", Some("ccw"), Some(true)), None),
            (of("sda", None, None), None),
        ] {
            assert_eq!(found, expected);
        }
    }
}
