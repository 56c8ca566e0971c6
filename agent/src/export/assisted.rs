//! The host inventory of assisted-service (`swagger.yaml`, definition `inventory`), with the meanings that
//! `assisted-installer-agent` gives to its keys (`src/inventory`).

use probes::block::Disk;
use probes::collect::Inventory;
use probes::firmware::BootMode;
use probes::gpu::{Card, CardKind};
use probes::network::{Interface, Route};
use serde_json::Value;

use super::object::{list, object};
use super::ports::{Port, boot_port, ports, software, without_prefix};
use super::select::{architecture, boot_mode, max_mhz, n_cpus};

/// `AF_INET` and `AF_INET6`, which the agent writes although the definition speaks of 4 and 6.
const FAMILIES: [(&str, u32); 2] = [("ipv4", 2), ("ipv6", 10)];

/// The inventory.
#[must_use]
pub fn inventory(inventory: &Inventory) -> Value {
    let ports = ports(inventory);
    let booted = boot_port(&ports).and_then(|port| port.mac.clone());
    let software = software(inventory);
    let interfaces = ports.iter().map(|port| interface(port, "physical"));
    let interfaces = interfaces.chain(software.iter().map(|(port, kind)| interface(port, kind)));
    let bmc = inventory.bmc.as_ref();
    let cards = inventory.gpu.iter().flat_map(|gpu| &gpu.cards);
    let cards = cards.filter(|card| matches!(card.kind, CardKind::Gpu | CardKind::Accelerator));
    let routes = inventory.local_addresses.iter().flat_map(|local| &local.routes);
    let tpm = inventory.devices.as_ref().and_then(|devices| devices.tpm.as_ref());
    let tpm = tpm.and_then(|tpm| tpm.version.as_deref());
    object([
        ("hostname", inventory.os.as_ref().and_then(|os| os.hostname.clone()).into()),
        ("bmc_address", bmc.and_then(|bmc| bmc.ipv4.clone()).into()),
        ("bmc_v6address", bmc.and_then(|bmc| bmc.ipv6.clone()).into()),
        ("interfaces", list(interfaces)),
        ("disks", list(all_disks(inventory).map(disk))),
        ("boot", boot(inventory, booted)),
        ("system_vendor", system_vendor(inventory)),
        ("memory", memory(inventory)),
        ("cpu", cpu(inventory)),
        ("gpus", list(cards.map(gpu))),
        ("routes", list(routes.map(route))),
        ("tpm_version", tpm.filter(|version| matches!(*version, "1.2" | "2.0")).into()),
    ])
}

/// All disks and drives but those that the kernel hides: the service judges each by itself.
fn all_disks(inventory: &Inventory) -> impl Iterator<Item = &Disk> {
    let all = inventory.block.iter().flat_map(|block| &block.disks);
    all.filter(|disk| disk.hidden != Some(true))
}

fn interface(port: &Port<'_>, kind: &str) -> Value {
    let facts: &Interface = port.facts;
    let global = port.ipv6.iter().filter(|address| !address.starts_with("fe80:"));
    object([
        ("name", facts.name.as_str().into()),
        ("mac_address", port.mac.as_deref().into()),
        ("ipv4_addresses", port.ipv4.clone().into()),
        ("ipv6_addresses", list(global.map(|address| (*address).into()))),
        ("has_carrier", facts.has_carrier.into()),
        ("vendor", facts.vendor_id.as_ref().map(|id| format!("0x{id}")).into()),
        ("product", facts.device_id.as_ref().map(|id| format!("0x{id}")).into()),
        ("mtu", facts.mtu.into()),
        ("client_id", port.client_id.as_deref().into()),
        ("speed_mbps", facts.speed_mbit_s.into()),
        ("type", kind.into()),
    ])
}

fn disk(disk: &Disk) -> Value {
    let is_stable = |path: &&String| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name.starts_with("wwn-") || name.starts_with("nvme-eui")
    };
    let by_id = disk.by_id.iter().find(is_stable);
    let id = by_id.or(disk.by_path.as_ref()).unwrap_or(&disk.device);
    let reasons = disk.not_eligible_because.iter().map(|reason| reason.as_str().into());
    object([
        ("id", id.as_str().into()),
        ("drive_type", drive_type(disk).into()),
        ("has_uuid", disk.wwid.as_ref().map(|_| true).into()),
        ("vendor", disk.vendor.as_deref().into()),
        ("name", disk.name.as_str().into()),
        ("path", disk.device.as_str().into()),
        ("hctl", disk.hctl.as_deref().into()),
        ("by_path", disk.by_path.as_deref().into()),
        ("by_id", by_id.map(String::as_str).into()),
        ("model", disk.model.as_deref().into()),
        ("wwn", disk.wwn.as_deref().into()),
        ("serial", disk.serial.as_deref().into()),
        ("size_bytes", disk.size_bytes.into()),
        ("removable", disk.is_removable.into()),
        ("is_installation_media", disk.is_live_medium.into()),
        (
            "installation_eligibility",
            object([("eligible", disk.eligible.into()), ("not_eligible_reasons", list(reasons))]),
        ),
        ("holders", disk.holders.join(",").into()),
    ])
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

fn boot(inventory: &Inventory, booted: Option<String>) -> Value {
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
    object([
        ("current_boot_mode", mode.map(boot_mode).into()),
        ("pxe_interface", booted.into()),
        ("command_line", os.and_then(|os| os.command_line.clone()).into()),
        ("secure_boot_state", secure_boot.into()),
        ("device_type", is_live.then_some("ephemeral").into()),
    ])
}

fn system_vendor(inventory: &Inventory) -> Value {
    let product = inventory.product.as_ref();
    let hypervisor = inventory.os.as_ref().and_then(|os| os.virtualization.as_deref());
    object([
        ("serial_number", product.and_then(|product| product.serial.clone()).into()),
        ("product_name", product.and_then(|product| product.name.clone()).into()),
        ("manufacturer", product.and_then(|product| product.vendor.clone()).into()),
        ("virtual", hypervisor.map(|name| name != "none").into()),
    ])
}

/// `dmidecode` as the method means the sum of the memory devices of SMBIOS, which the report's is too.
fn memory(inventory: &Inventory) -> Value {
    let memory = inventory.memory.as_ref();
    let installed = memory.and_then(|memory| memory.installed_bytes).filter(|bytes| *bytes > 0);
    object([
        ("physical_bytes", installed.into()),
        ("usable_bytes", memory.and_then(|memory| memory.usable_bytes).into()),
        ("physical_bytes_method", installed.map(|_| "dmidecode").into()),
    ])
}

fn cpu(inventory: &Inventory) -> Value {
    let cpu = inventory.cpu.as_ref();
    object([
        ("count", cpu.and_then(n_cpus).into()),
        ("frequency", cpu.and_then(max_mhz).into()),
        ("flags", cpu.map(|cpu| cpu.flags.clone()).into()),
        ("model_name", cpu.and_then(|cpu| cpu.model_name.clone()).into()),
        ("architecture", architecture(inventory).into()),
    ])
}

fn gpu(card: &Card) -> Value {
    object([
        ("vendor", card.vendor_name.as_deref().into()),
        ("vendor_id", card.vendor_id.as_deref().into()),
        ("device_id", card.device_id.as_deref().into()),
        ("name", card.name.as_deref().into()),
        ("address", card.address.as_str().into()),
    ])
}

/// The destination is an address without its length: the service compares it with `0.0.0.0` and `::`.
fn route(route: &Route) -> Value {
    let family = FAMILIES.iter().find(|(name, _)| *name == route.family);
    object([
        ("interface", route.interface.as_str().into()),
        ("gateway", route.gateway.as_deref().into()),
        ("destination", without_prefix(&route.destination).into()),
        ("family", family.map(|(_, number)| *number).into()),
        ("metric", i32::try_from(route.metric).ok().into()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

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
