//! What the report of a machine must contain, derived from the same description as QEMU's arguments.

use serde_json::{Value, json};

use crate::disk::{Disk, DiskKind, Namespace};
use crate::ipmi;
use crate::machine::{Bmc, Machine, Node, Port, Slot};

/// A path in the report and the value expected there.
#[derive(Debug)]
pub(crate) struct Expectation {
    /// As `block.disks[serial=TARGET-0].size_bytes`.
    path: String,
    want: Want,
}

/// How a value is compared.
#[derive(Debug)]
enum Want {
    /// Equal.
    Is(Value),
    /// A text that contains this one, ignoring case.
    Contains(String),
    /// Equal to the one value at this path.
    Same(String),
    /// A whole number within these bounds.
    Within(u64, u64),
    /// Absent, null or empty.
    Nothing,
    /// The number of elements in the list, or of those that the last step of the path selects.
    Times(usize),
}

/// Every expectation that the report violates, in words; empty for a correct report.
pub(crate) fn differences(machine: &Machine, report: &Value) -> Vec<String> {
    let mut all = Vec::new();
    cpu(machine, &mut all);
    memory(machine, &mut all);
    nodes(machine, &mut all);
    // A disk with several paths counts once.
    expect(&mut all, "block.n_disks", Want::Is(json!(machine.disks.len())));
    machine.disks.iter().for_each(|disk| one_disk(disk, &mut all));
    machine.ports.iter().for_each(|port| one_port(port, &mut all));
    product(machine, &mut all);
    devices(machine, &mut all);
    all.iter().filter_map(|expectation| expectation.difference(report)).collect()
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
        let is_back_listed = machine.distances.iter().any(|(f, t, _)| (f, t) == (to, from));
        if !is_back_listed {
            let back = format!("topology.nodes[id={to}].distances.{from}");
            expect(all, back, Want::Is(json!(distance)));
        }
    }
}

/// A disk: found by its serial, and by its size where several share one, or by how it is attached.
fn one_disk(disk: &Disk, all: &mut Vec<Expectation>) {
    let size = format!("size_bytes={}", disk.size_bytes);
    let at = match (&disk.kind, disk.serial()) {
        (DiskKind::SdCard, _) => format!("block.disks[transport=mmc,{size}]"),
        (DiskKind::Nvdimm, _) => format!("block.disks[transport=nvdimm,{size}]"),
        (_, serial) => format!("block.disks[serial={},{size}]", serial.unwrap_or_default()),
    };
    let n_times = if let DiskKind::Scsi { n_paths, .. } = disk.kind { n_paths } else { 1 };
    expect(all, at.clone(), Want::Times(n_times));
    expect(all, format!("{at}.logical_block_bytes"), Want::Is(json!(disk.sector_bytes)));
    if !matches!(disk.kind, DiskKind::Nvdimm) {
        expect(all, format!("{at}.physical_block_bytes"), Want::Is(json!(disk.sector_bytes)));
    }
    expect(all, format!("{at}.is_read_only"), Want::Is(json!(false)));
    let is_removable = matches!(disk.kind, DiskKind::Usb { .. });
    expect(all, format!("{at}.is_removable"), Want::Is(json!(is_removable)));
    let mut is = |key: &str, want: Value| expect(all, format!("{at}.{key}"), Want::Is(want));
    match &disk.kind {
        DiskKind::Virtio { .. } => is("transport", json!("virtio")),
        DiskKind::Nvme(namespace) => one_namespace(namespace, &at, all),
        DiskKind::Scsi { wwn, vendor, product, rotation, .. } => {
            is("wwn", json!(format!("{wwn:#018x}")));
            is("vendor", json!(vendor));
            is("model", json!(product));
            is("rotational", json!(*rotation > 1));
        }
        DiskKind::Raid { wwn, product, is_passed_through, .. } => {
            is("wwn", json!(format!("{wwn:#018x}")));
            is("model", json!(product));
            is("controller_driver", json!("megaraid_sas"));
            is("is_raid_volume", json!(!is_passed_through));
            behind_controller(disk, all);
        }
        DiskKind::Sata { wwn, model, .. } => {
            is("wwn", json!(format!("{wwn:#018x}")));
            is("model", json!(model));
            is("transport", json!("sata"));
            is("rotational", json!(false));
            is("health.is_passed", json!(true));
        }
        DiskKind::Usb { serial } => {
            is("transport", json!("usb"));
            let stick = format!("devices.usb[serial={serial}]");
            expect(all, format!("{stick}.speed_kbit_s"), Want::Is(json!(5_000_000)));
            expect(all, format!("{stick}.drivers.0"), Want::Is(json!("usb-storage")));
        }
        DiskKind::SdCard | DiskKind::Nvdimm => is("rotational", json!(false)),
    }
}

/// The only drive of a RAID controller, and its volume, as the controller's firmware reports them.
fn behind_controller(disk: &Disk, all: &mut Vec<Expectation>) {
    let DiskKind::Raid { serial, wwn, vendor, product, controller, is_passed_through } = disk.kind
    else {
        return;
    };
    let at = format!("block.raid_controllers[serial={controller}]");
    expect(all, at.clone(), Want::Times(1));
    let drive = format!("{at}.drives[serial={serial}]");
    let mut is = |key: &str, want: Value| expect(all, format!("{drive}.{key}"), Want::Is(want));
    // QEMU loses the INQUIRY data of a drive and reports the drive as offline.
    is("state", json!("offline"));
    is("slot", json!(0));
    is("interface", json!("sas"));
    is("size_bytes", json!(disk.size_bytes));
    is("vendor", json!(vendor));
    is("model", json!(product));
    is("wwn", json!(format!("{wwn:#018x}")));
    is("rotation_rpm", json!(10_500));
    is("media_errors", json!(0));
    is("is_foreign", json!(false));
    let volumes = format!("{at}.volumes");
    if is_passed_through {
        expect(all, format!("{drive}.disk"), Want::Contains("sd".to_owned()));
        return expect(all, volumes, Want::Times(0));
    }
    expect(all, volumes.clone(), Want::Times(1));
    let mut is = |key: &str, want: Value| expect(all, format!("{volumes}.0.{key}"), Want::Is(want));
    is("state", json!("optimal"));
    is("raid_level", json!("RAID 0"));
    is("size_bytes", json!(disk.size_bytes));
    is("drives", json!([0]));
    is("n_missing_drives", json!(0));
    expect(all, format!("{volumes}.0.disk"), Want::Contains("sd".to_owned()));
}

/// A namespace, its identities, and the controllers through which it is reached.
fn one_namespace(namespace: &Namespace, at: &str, all: &mut Vec<Expectation>) {
    let Namespace { serial, n_controllers, .. } = namespace;
    expect(all, format!("{at}.transport"), Want::Is(json!("nvme")));
    expect(all, format!("{at}.rotational"), Want::Is(json!(false)));
    expect(all, format!("{at}.health.is_passed"), Want::Is(json!(true)));
    expect(all, format!("{at}.paths"), Want::Times(*n_controllers));
    let controllers = format!("block.nvme_controllers[serial={serial}]");
    expect(all, controllers.clone(), Want::Times(*n_controllers));
    expect(
        all,
        format!("{controllers}.subsystem_nqn"),
        Want::Contains(namespace.controller.to_owned()),
    );
    expect(all, format!("{controllers}.state"), Want::Is(json!("live")));
}

/// A network port, found by its permanent address, and its virtual functions.
fn one_port(port: &Port, all: &mut Vec<Expectation>) {
    let at = format!("network.interfaces[permanent_mac={}]", port.mac);
    expect(all, format!("{at}.driver"), Want::Is(json!(port.driver())));
    expect(all, format!("{at}.kind"), Want::Is(json!("physical")));
    expect(all, format!("{at}.current_mac"), Want::Is(json!(port.mac)));
    expect(all, format!("{at}.has_carrier"), Want::Is(json!(true)));
    if port.model == "igb" {
        expect(all, format!("{at}.n_vfs"), Want::Is(json!(port.n_vfs)));
        // QEMU's igb has eight functions in all.
        expect(all, format!("{at}.max_vfs"), Want::Is(json!(7)));
    }
    if port.n_vfs > 0 {
        let n_vfs = usize::try_from(port.n_vfs).unwrap_or(usize::MAX);
        expect(all, format!("{at}.vfs"), Want::Times(n_vfs));
        expect(all, format!("{at}.vfs.0.interfaces"), Want::Times(1));
        expect(all, "network.interfaces[driver=igbvf]", Want::Times(n_vfs));
        let address = Want::Same(format!("{at}.pci_address"));
        expect(all, "network.interfaces[driver=igbvf].vf_of", address);
    }
}

/// Other devices than disks and ports.
fn devices(machine: &Machine, all: &mut Vec<Expectation>) {
    if let Some(Bmc { guid, manufacturer_id, product_id, firmware }) = &machine.bmc {
        let firmware = format!("{}.{:02}", firmware.0, firmware.1);
        // QEMU sends the bytes as they are written, IPMI 2.0 §20.8 the first three fields in reverse order.
        expect(all, "bmc.guid", Want::Is(json!(swapped(guid))));
        expect(all, "bmc.device_id", Want::Is(json!(32)));
        expect(all, "bmc.manufacturer_id", Want::Is(json!(manufacturer_id)));
        expect(all, "bmc.product_id", Want::Is(json!(product_id)));
        expect(all, "bmc.firmware", Want::Is(json!(firmware)));
        expect(all, "bmc.ipmi_version", Want::Is(json!("2.0")));
        let inlet = "bmc.sensors[name=Inlet Temp]";
        expect(all, format!("{inlet}.unit"), Want::Is(json!("°C")));
        expect(all, format!("{inlet}.upper_critical_milli"), Want::Is(json!(47_000)));
        expect(all, "bmc.sensors[name=PS2].kind", Want::Is(json!("power supply")));
        expect(all, "bmc.event_log_info.n_entries", Want::Is(json!(0)));
        let board = "bmc.frus[id=0].board";
        expect(all, format!("{board}.serial"), Want::Is(json!(ipmi::SERIALS[0])));
        expect(all, format!("{board}.mfg_date"), Want::Is(json!("2023-05-04")));
        let supply = "bmc.frus[name=PSU1_FRU]";
        expect(all, format!("{supply}.entity"), Want::Is(json!("power supply 1")));
        expect(all, format!("{supply}.product.part_number"), Want::Is(json!("0PJMDN")));
        expect(all, format!("{supply}.product.serial"), Want::Is(json!(ipmi::SERIALS[1])));
    }
    if machine.has_tpm {
        expect(all, "devices.tpm.version", Want::Is(json!("2.0")));
    }
    let n_watchdogs = usize::from(machine.has_watchdog);
    expect(all, "devices.watchdogs[identity=i6300ESB timer]", Want::Times(n_watchdogs));
    // Class 05, memory; subclass 02, CXL.
    let n_cxl = usize::from(machine.cxl_memory_mib.is_some());
    expect(all, "pci.devices[class=0502]", Want::Times(n_cxl));
}

/// The machine as SMBIOS describes it.
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
}

/// A UUID with the bytes of each of its first three fields in reverse order.
fn swapped(uuid: &str) -> String {
    let turn = |field: &str| -> String {
        (0..field.len()).step_by(2).rev().map(|at| &field[at..at + 2]).collect()
    };
    let fields = uuid.split('-').enumerate();
    let fields: Vec<_> =
        fields.map(|(at, field)| if at < 3 { turn(field) } else { field.to_owned() }).collect();
    fields.join("-")
}

impl Expectation {
    /// What the report contains instead, or `None` if the expectation holds.
    fn difference(&self, report: &Value) -> Option<String> {
        let all = find(report, &self.path);
        let found = all.first().copied().filter(|found| !found.is_null());
        let holds = match (&self.want, found) {
            (Want::Times(n_times), Some(Value::Array(list))) => list.len() == *n_times,
            (Want::Times(n_times), _) => all.len() == *n_times,
            // Each selected element must have the value.
            (Want::Is(want), Some(_)) => all.iter().all(|found| *found == want),
            (Want::Same(path), Some(_)) => all.iter().all(|found| find(report, path) == [*found]),
            (Want::Contains(want), Some(found)) => {
                found.to_string().to_lowercase().contains(&want.to_lowercase())
            }
            (Want::Within(low, high), Some(found)) => {
                found.as_u64().is_some_and(|n| (*low..=*high).contains(&n))
            }
            (Want::Nothing, None) => true,
            (Want::Nothing, Some(found)) => found == "",
            (_, None) => false,
        };
        let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
        let found = || if texts.is_empty() { "nothing".to_owned() } else { texts.join(" and ") };
        (!holds).then(|| format!("{}: expected {:?}, found {}", self.path, self.want, found()))
    }
}

/// The values at a path of keys with dots between them. `[key=value,key=value]` selects the elements of a list with these
/// values, a number selects one element.
fn find<'a>(report: &'a Value, path: &str) -> Vec<&'a Value> {
    if path.is_empty() {
        return vec![report];
    }
    let (head, rest) = split(path);
    let (key, pick) = head
        .split_once('[')
        .map_or((head, None), |(key, pick)| (key, Some(pick.trim_end_matches(']'))));
    let value = match key.parse::<usize>() {
        Ok(at) if report.is_array() => report.get(at),
        _ => report.get(key),
    };
    let Some(value) = value else { return Vec::new() };
    let Some(pick) = pick else { return find(value, rest) };
    let wanted: Vec<(&str, &str)> =
        pick.split(',').filter_map(|pair| pair.split_once('=')).collect();
    let has = |element: &Value, key: &str, wanted: &str| {
        element.get(key).is_some_and(|value| plain(value) == wanted)
    };
    let elements = value.as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let picked =
        elements.filter(|element| wanted.iter().all(|(key, value)| has(element, key, value)));
    picked.flat_map(|element| find(element, rest)).collect()
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
