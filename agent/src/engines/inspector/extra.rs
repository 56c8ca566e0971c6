//! `data`: facts as `hardware-detect` of the package `hardware` 0.20 lists them, each with category, part, name and
//! value. The inspector's hook `extra_hardware` makes `extra` of them, from which rules take values such as
//! `data://extra.system.product.serial` (`hardware/{detect,ipmi}.py`; the sizes are those of `lshw`).
//!
//! What it reads with tools of its own (RAID controllers, SMART, temperatures, benchmarks) is absent.

use probes::collect::Inventory;
use probes::cpuset::CpuSet;
use serde_json::Value;

const GB: u64 = 1_000_000_000;
const MHZ: u64 = 1_000_000;

/// The facts, each `[category, part, name, value]`.
#[derive(Default)]
struct Items(Vec<Value>);

impl Items {
    /// Adds the known facts of a part.
    fn add<const N: usize>(&mut self, category: &str, part: &str, facts: [(&str, Value); N]) {
        let known = facts.into_iter().filter(|(_, value)| !value.is_null());
        self.0.extend(known.map(|(name, value)| {
            Value::from(vec![category.into(), part.into(), name.into(), value])
        }));
    }
}

/// The ports in a document for Ironic.
pub(super) fn interfaces(document: &Value) -> impl Iterator<Item = &Value> {
    document["inventory"]["interfaces"].as_array().into_iter().flatten()
}

/// The facts of a machine whose document for Ironic is `document`.
pub(super) fn items(inventory: &Inventory, document: &Value) -> Value {
    let mut items = Items::default();
    disks(&mut items, inventory, document);
    system(&mut items, inventory);
    memory(&mut items, inventory);
    network(&mut items, inventory, document);
    cpu(&mut items, inventory);
    numa(&mut items, inventory);
    bmc(&mut items, inventory);
    Value::Array(items.0)
}

fn disks(items: &mut Items, inventory: &Inventory, document: &Value) {
    let listed = document["inventory"]["disks"].as_array().into_iter().flatten();
    let listed: Vec<&str> = listed.filter_map(|disk| disk["name"].as_str()).collect();
    let Some(block) = &inventory.block else { return };
    items.add("disk", "logical", [("count", listed.len().into())]);
    for disk in block.disks.iter().filter(|disk| listed.contains(&disk.device.as_str())) {
        let facts = [
            ("size", disk.size_bytes.map(|bytes| bytes / GB).into()),
            ("vendor", disk.vendor.clone().into()),
            ("model", disk.model.clone().into()),
            ("rev", disk.firmware.clone().into()),
            ("physical_block_size", disk.physical_block_bytes.into()),
            ("rotational", disk.rotational.map(u8::from).into()),
        ];
        items.add("disk", &disk.name, facts);
        for path in &disk.by_id {
            let id = path.rsplit('/').next().unwrap_or_default();
            let name = match id.split('-').next() {
                Some("wwn") => "wwn-id",
                Some("scsi") => "scsi-id",
                _ => "id",
            };
            items.add("disk", &disk.name, [(name, id.into())]);
        }
    }
}

fn system(items: &mut Items, inventory: &Inventory) {
    let product = inventory.product.clone().unwrap_or_default();
    let facts = [
        ("serial", product.serial.into()),
        ("name", product.name.into()),
        ("vendor", product.vendor.into()),
        ("version", product.version.into()),
        ("uuid", product.uuid.into()),
    ];
    items.add("system", "product", facts);
    let board = inventory.baseboard.clone().unwrap_or_default();
    let facts = [
        ("name", board.product.into()),
        ("vendor", board.vendor.into()),
        ("version", board.version.into()),
        ("serial", board.serial.into()),
    ];
    items.add("system", "motherboard", facts);
    let bios = inventory.bios.clone().unwrap_or_default();
    let facts = [
        ("version", bios.version.into()),
        ("date", bios.date.into()),
        ("vendor", bios.vendor.into()),
    ];
    items.add("firmware", "bios", facts);
    let os = inventory.os.clone().unwrap_or_default();
    let facts = [("vendor", os.distribution_id.into()), ("version", os.distribution.into())];
    items.add("system", "os", facts);
    let facts = [("version", os.kernel.into()), ("arch", os.architecture.into())];
    items.add("system", "kernel", facts);
}

fn memory(items: &mut Items, inventory: &Inventory) {
    let Some(memory) = &inventory.memory else { return };
    items.add("memory", "total", [("size", memory.installed_bytes.into())]);
    items.add("memory", "banks", [("count", memory.n_slots.into())]);
    for (n, dimm) in memory.dimms.iter().enumerate() {
        let description = dimm.form_factor.iter().chain(&dimm.kind).cloned().collect::<Vec<_>>();
        let description = (!description.is_empty()).then(|| description.join(" "));
        let facts = [
            ("size", dimm.size_bytes.into()),
            ("clock", dimm.speed_mt_s.map(|speed| u64::from(speed) * MHZ).into()),
            ("description", description.into()),
            ("vendor", dimm.manufacturer.clone().into()),
            ("product", dimm.part_number.clone().into()),
            ("serial", dimm.serial.clone().into()),
            ("slot", dimm.locator.clone().into()),
        ];
        items.add("memory", &format!("bank:{n}"), facts);
    }
}

fn network(items: &mut Items, inventory: &Inventory, document: &Value) {
    let facts = || inventory.network.iter().flat_map(|network| &network.interfaces);
    for port in interfaces(document) {
        let Some(facts) = facts().find(|facts| port["name"] == facts.name.as_str()) else {
            continue;
        };
        let known = |key: &str| port.get(key).cloned().unwrap_or_default();
        let word = |is: Option<bool>, yes: &str, no: &str| {
            Value::from(is.map(|is| if is { yes } else { no }))
        };
        let address = facts.pci_address.as_ref().map(|address| format!("pci@{address}"));
        let facts = [
            ("businfo", address.into()),
            ("firmware", facts.firmware.clone().into()),
            ("size", facts.speed_mbit_s.map(|speed| u64::from(speed) * MHZ).into()),
            ("ipv4", known("ipv4_address")),
            ("link", word(facts.has_carrier, "yes", "no")),
            ("driver", facts.driver.clone().into()),
            ("duplex", facts.duplex.clone().into()),
            ("autonegotiation", word(facts.is_autonegotiating, "on", "off")),
            ("serial", known("mac_address")),
        ];
        items.add("network", port["name"].as_str().unwrap_or_default(), facts);
    }
}

fn cpu(items: &mut Items, inventory: &Inventory) {
    let Some(cpu) = &inventory.cpu else { return };
    items.add("cpu", "physical", [("number", cpu.n_packages.into())]);
    for (n, package) in cpu.packages.iter().enumerate() {
        let n_cores = package.cores.len();
        let max_mhz = package.cores.iter().filter_map(|core| core.max_mhz).max();
        let facts = [
            ("vendor", package.vendor.clone().or_else(|| cpu.vendor.clone()).into()),
            ("product", package.model_name.clone().or_else(|| cpu.model_name.clone()).into()),
            ("cores", n_cores.into()),
            ("threads", cpu.threads_per_core.map(|threads| threads * n_cores).into()),
            ("family", cpu.family.into()),
            ("model", cpu.model.into()),
            ("stepping", cpu.stepping.into()),
            ("max_Mhz", max_mhz.into()),
            ("flags", (!cpu.flags.is_empty()).then(|| cpu.flags.join(" ")).into()),
        ];
        items.add("cpu", &format!("physical_{n}"), facts);
    }
    items.add("cpu", "logical", [("number", cpu.n_logical_cpus_online.into())]);
}

fn numa(items: &mut Items, inventory: &Inventory) {
    let topology = inventory.topology.as_ref();
    let Some(nodes) = topology.and_then(|topology| topology.nodes.as_ref()) else { return };
    items.add("numa", "nodes", [("count", nodes.len().into())]);
    for node in nodes {
        let cpus = node.cpus.as_deref().and_then(|cpus| CpuSet::parse(cpus).ok());
        let n_cpus = cpus.map(|cpus| cpus.len());
        items.add("numa", &format!("node_{}", node.id), [("cpu_count", n_cpus.into())]);
    }
}

fn bmc(items: &mut Items, inventory: &Inventory) {
    let channels = inventory.bmc.iter().flat_map(|bmc| &bmc.lan_channels);
    let Some(channel) = channels.into_iter().find(|channel| channel.ipv4.is_some()) else { return };
    items.add("system", "ipmi", [("channel", channel.number.into())]);
    let facts = [
        ("ip-address", channel.ipv4.clone().into()),
        ("mac-address", channel.mac.clone().into()),
        ("default-gateway-ip", channel.ipv4_gateway.clone().into()),
    ];
    items.add("ipmi", "lan", facts);
}
