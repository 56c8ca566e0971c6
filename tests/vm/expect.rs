//! What a report must say of a machine: derived from the same description that made QEMU's arguments.

use serde_json::{Value, json};

use crate::machine::{Disk, DiskKind, Machine, Node, Slot};

/// A place in the report and what must be there.
#[derive(Debug)]
pub(crate) struct Expectation {
    /// As `block.disks[serial=TARGET-0].size_bytes`.
    path: String,
    want: Want,
}

/// How a value is judged.
#[derive(Debug)]
enum Want {
    /// Equal.
    Is(Value),
    /// A text that contains this one, upper and lower case alike.
    Contains(String),
    /// A whole number within these bounds.
    Within(u64, u64),
    /// Absent, null or empty.
    Nothing,
}

/// Every expectation that does not hold, in words; empty for a report that tells the machine as it is.
pub(crate) fn differences(machine: &Machine, report: &Value) -> Vec<String> {
    let mut all = Vec::new();
    cpu(machine, &mut all);
    memory(machine, &mut all);
    nodes(machine, &mut all);
    machine.disks.iter().for_each(|disk| one_disk(disk, &mut all));
    ports(machine, &mut all);
    product(machine, &mut all);
    bmc(machine, &mut all);
    all.iter().filter_map(|expectation| expectation.difference(report)).collect()
}

/// The controller's sensors with their readings.
fn bmc(machine: &Machine, all: &mut Vec<Expectation>) {
    if machine.has_bmc {
        let inlet = "bmc.sensors[name=Inlet Temp]";
        expect(all, format!("{inlet}.unit"), Want::Is(json!("°C")));
        expect(all, format!("{inlet}.upper_critical_milli"), Want::Is(json!(47_000)));
        expect(all, "bmc.sensors[name=PS2].kind", Want::Is(json!("power supply")));
        expect(all, "bmc.event_log_info.n_entries", Want::Is(json!(0)));
    }
}

/// Adds an expectation.
fn expect(all: &mut Vec<Expectation>, path: impl Into<String>, want: Want) {
    all.push(Expectation { path: path.into(), want });
}

/// Sockets, cores and threads; vendor and model name of the CPU.
fn cpu(machine: &Machine, all: &mut Vec<Expectation>) {
    let n_cpus = machine.n_sockets * machine.n_cores * machine.n_threads;
    expect(all, "cpu.architecture", Want::Is(json!("x86_64")));
    expect(all, "cpu.n_logical_cpus_online", Want::Is(json!(n_cpus)));
    expect(all, "cpu.n_packages", Want::Is(json!(machine.n_sockets)));
    expect(all, "cpu.n_cores", Want::Is(json!(machine.n_sockets * machine.n_cores)));
    expect(all, "cpu.threads_per_core", Want::Is(json!(machine.n_threads)));
    if let Some((_, name)) = machine.cpu.split_once("model-id=") {
        expect(all, "cpu.model_name", Want::Is(json!(name)));
        expect(all, "cpu.vendor", Want::Is(json!("GenuineIntel")));
    }
}

/// Slots with their DIMMs, and the sum.
fn memory(machine: &Machine, all: &mut Vec<Expectation>) {
    let usable = machine.memory_mib() << 20;
    expect(all, "memory.usable_bytes", Want::Within(usable / 10 * 7, usable));
    if machine.slots.is_empty() {
        return;
    }
    let dimms: Vec<_> = machine.slots.iter().filter_map(|slot| slot.dimm.as_ref()).collect();
    let installed: u64 = dimms.iter().map(|dimm| u64::from(dimm.size_mib) << 20).sum();
    expect(all, "memory.installed_bytes", Want::Is(json!(installed)));
    expect(all, "memory.n_slots", Want::Is(json!(machine.slots.len())));
    expect(all, "memory.n_slots_populated", Want::Is(json!(dimms.len())));
    machine.slots.iter().for_each(|slot| one_slot(slot, all));
}

/// A slot, filled or empty.
fn one_slot(slot: &Slot, all: &mut Vec<Expectation>) {
    let at = format!("memory.dimms[locator={}]", slot.locator);
    expect(all, format!("{at}.bank_locator"), Want::Is(json!(slot.bank)));
    let Some(dimm) = &slot.dimm else {
        expect(all, format!("{at}.size_bytes"), Want::Nothing);
        expect(all, format!("{at}.serial"), Want::Nothing);
        return;
    };
    expect(all, format!("{at}.size_bytes"), Want::Is(json!(u64::from(dimm.size_mib) << 20)));
    expect(all, format!("{at}.speed_mt_s"), Want::Is(json!(dimm.speed_mt_s)));
    expect(all, format!("{at}.configured_speed_mt_s"), Want::Is(json!(dimm.speed_mt_s)));
    expect(all, format!("{at}.manufacturer"), Want::Is(json!(dimm.manufacturer)));
    expect(all, format!("{at}.serial"), Want::Is(json!(dimm.serial)));
    expect(all, format!("{at}.part_number"), Want::Is(json!(dimm.part_number)));
    expect(all, format!("{at}.rank"), Want::Is(json!(2)));
    expect(all, format!("{at}.kind"), Want::Is(json!("DDR4")));
}

/// NUMA nodes with their CPUs, memory and distances.
fn nodes(machine: &Machine, all: &mut Vec<Expectation>) {
    if machine.nodes.len() < 2 {
        return;
    }
    expect(all, "topology.kind", Want::Is(json!("numa")));
    for (id, node) in machine.nodes.iter().enumerate() {
        let at = format!("topology.nodes[id={id}]");
        let Node { memory_mib, cpus } = node;
        expect(
            all,
            format!("{at}.cpus"),
            if cpus.is_empty() { Want::Nothing } else { Want::Is(json!(cpus)) },
        );
        // The kernel keeps a part of node 0 for itself.
        expect(
            all,
            format!("{at}.memory_bytes"),
            Want::Within((memory_mib << 20) / 2, memory_mib << 20),
        );
        expect(all, format!("{at}.distances.{id}"), Want::Is(json!(10)));
    }
    for (from, to, distance) in &machine.distances {
        expect(all, format!("topology.nodes[id={from}].distances.{to}"), Want::Is(json!(distance)));
        expect(all, format!("topology.nodes[id={to}].distances.{from}"), Want::Is(json!(distance)));
    }
}

/// A disk, found by its serial, and by its namespace where several share one.
fn one_disk(disk: &Disk, all: &mut Vec<Expectation>) {
    let at = match disk.kind {
        DiskKind::Nvme { namespace, .. } => format!("block.disks[name=nvme0n{namespace}]"),
        _ => format!("block.disks[serial={}]", disk.serial()),
    };
    expect(all, format!("{at}.serial"), Want::Is(json!(disk.serial())));
    expect(all, format!("{at}.size_bytes"), Want::Is(json!(disk.size_bytes)));
    expect(all, format!("{at}.logical_block_bytes"), Want::Is(json!(disk.sector_bytes)));
    expect(all, format!("{at}.physical_block_bytes"), Want::Is(json!(disk.sector_bytes)));
    expect(all, format!("{at}.is_read_only"), Want::Is(json!(false)));
    expect(all, format!("{at}.is_removable"), Want::Is(json!(false)));
    match &disk.kind {
        DiskKind::Virtio { .. } => {
            expect(all, format!("{at}.transport"), Want::Is(json!("virtio")));
        }
        DiskKind::Nvme { .. } => {
            expect(all, format!("{at}.transport"), Want::Is(json!("nvme")));
            expect(all, format!("{at}.rotational"), Want::Is(json!(false)));
        }
        DiskKind::Scsi { wwn, vendor, product, rotation, .. } => {
            expect(all, format!("{at}.wwn"), Want::Contains(format!("{wwn:016x}")));
            expect(all, format!("{at}.vendor"), Want::Is(json!(vendor)));
            expect(all, format!("{at}.model"), Want::Is(json!(product)));
            expect(all, format!("{at}.rotational"), Want::Is(json!(*rotation > 1)));
        }
        DiskKind::Sata { wwn, model, .. } => {
            expect(all, format!("{at}.wwn"), Want::Contains(format!("{wwn:016x}")));
            expect(all, format!("{at}.model"), Want::Is(json!(model)));
            expect(all, format!("{at}.transport"), Want::Is(json!("sata")));
            expect(all, format!("{at}.rotational"), Want::Is(json!(false)));
        }
    }
}

/// Network ports, found by the address that QEMU burnt in.
fn ports(machine: &Machine, all: &mut Vec<Expectation>) {
    for port in &machine.ports {
        let at = format!("network.interfaces[permanent_mac={}]", port.mac);
        expect(all, format!("{at}.driver"), Want::Is(json!(port.driver)));
        expect(all, format!("{at}.kind"), Want::Is(json!("physical")));
        expect(all, format!("{at}.current_mac"), Want::Is(json!(port.mac)));
        expect(all, format!("{at}.has_carrier"), Want::Is(json!(true)));
    }
}

/// What SMBIOS says of the machine, and the TPM.
fn product(machine: &Machine, all: &mut Vec<Expectation>) {
    if let Some(p) = &machine.product {
        for (path, want) in [
            ("product.vendor", p.vendor),
            ("product.name", p.name),
            ("product.family", p.family),
            ("product.sku", p.sku),
            ("product.serial", p.serial),
            ("product.uuid", p.uuid),
            ("bios.vendor", p.bios_vendor),
            ("bios.version", p.bios_version),
            ("bios.date", p.bios_date),
            ("baseboard.vendor", p.vendor),
            ("baseboard.product", p.board),
            ("baseboard.serial", p.board_serial),
            ("baseboard.asset_tag", p.asset_tag),
            ("chassis.vendor", p.vendor),
            ("chassis.serial", p.chassis_serial),
            ("chassis.asset_tag", p.asset_tag),
            ("firmware.boot_mode", "bios"),
        ] {
            expect(all, path, Want::Is(json!(want)));
        }
        expect(all, format!("identity[value={}].kind", p.uuid), Want::Is(json!("smbios_uuid")));
    }
    if machine.has_tpm {
        expect(all, "devices.tpm.version", Want::Contains("2".to_owned()));
    }
}

impl Expectation {
    /// What the report says instead, or `None` where it says this.
    fn difference(&self, report: &Value) -> Option<String> {
        let found = find(report, &self.path);
        let holds = match (&self.want, found) {
            (Want::Is(want), Some(found)) => want == found,
            (Want::Contains(want), Some(found)) => {
                found.to_string().to_lowercase().contains(&want.to_lowercase())
            }
            (Want::Within(low, high), Some(found)) => {
                found.as_u64().is_some_and(|n| (*low..=*high).contains(&n))
            }
            (Want::Nothing, None) => true,
            (Want::Nothing, Some(found)) => found.is_null() || found == "",
            (_, None) => false,
        };
        let found = || found.map_or_else(|| "nothing".to_owned(), Value::to_string);
        (!holds).then(|| format!("{}: expected {:?}, found {}", self.path, self.want, found()))
    }
}

/// The value at a path of keys with dots between them; `[key=value]` picks the element of a list.
fn find<'a>(report: &'a Value, path: &str) -> Option<&'a Value> {
    let (head, rest) = split(path);
    let (key, pick) = head
        .split_once('[')
        .map_or((head, None), |(key, pick)| (key, Some(pick.trim_end_matches(']'))));
    let mut value = report.get(key)?;
    if let Some((key, wanted)) = pick.and_then(|pick| pick.split_once('=')) {
        value = value
            .as_array()?
            .iter()
            .find(|element| element.get(key).is_some_and(|value| plain(value) == wanted))?;
    }
    if rest.is_empty() { Some(value) } else { find(value, rest) }
}

/// The first step of a path and the rest; dots within brackets belong to the step.
fn split(path: &str) -> (&str, &str) {
    let mut depth = 0;
    for (at, c) in path.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            '.' if depth == 0 => return (&path[..at], &path[at + 1..]),
            _ => {}
        }
    }
    (path, "")
}

/// A value as text without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
