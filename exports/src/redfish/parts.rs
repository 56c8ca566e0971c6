//! Processors, memory and network ports (schemas `Processor`, `Memory`, `EthernetInterface`).

use std::net::Ipv4Addr;

use probes::collect::Inventory;
use probes::cpu::Package;
use probes::cpuset::CpuSet;
use probes::memory::Dimm;
use serde_json::Value;

use super::{Tree, id_of};
use crate::object::{list, object};
use crate::ports::{Port, ports};
use crate::select::{architecture, n_cpus};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Processor architecture and instruction set by machine type.
const ARCHITECTURES: [(&str, &str, &str); 4] = [
    ("x86_64", "x86", "x86-64"),
    ("aarch64", "ARM", "ARM-A64"),
    ("ppc64le", "Power", "PowerISA"),
    ("ppc64", "Power", "PowerISA"),
];

/// SMBIOS names of error correction, and Redfish's.
const CORRECTIONS: [(&str, &str); 3] =
    [("None", "NoECC"), ("Single-bit ECC", "SingleBitECC"), ("Multi-bit ECC", "MultiBitECC")];

/// `MemoryDeviceType`, as SMBIOS names these kinds.
const MEMORY_KINDS: [&str; 9] =
    ["DDR", "DDR2", "DDR3", "DDR4", "DDR5", "HBM", "HBM2", "HBM3", "SDRAM"];

pub(super) fn processor_summary(inventory: &Inventory) -> Value {
    let cpu = inventory.cpu.as_ref();
    object([
        ("Count", cpu.and_then(|cpu| cpu.n_packages).into()),
        ("CoreCount", cpu.and_then(|cpu| cpu.n_cores).into()),
        ("LogicalProcessorCount", cpu.and_then(n_cpus).into()),
        ("Model", cpu.and_then(|cpu| cpu.model_name.clone()).into()),
    ])
}

/// A processor for each package; a machine whose packages are unknown has one, with what is known of it.
pub(super) fn processors(tree: &mut Tree, inventory: &Inventory) {
    let packages = inventory.cpu.iter().flat_map(|cpu| &cpu.packages);
    let known = |package: &Package| {
        let max_mhz = package.cores.iter().filter_map(|core| core.max_mhz).max();
        let threads = package.cores.iter().map(|core| CpuSet::parse(&core.logical_cpus).ok());
        let n_threads = threads.map(|set| set.map(|set| set.len())).sum::<Option<usize>>();
        object([
            ("Manufacturer", package.vendor.as_deref().into()),
            ("Model", package.model_name.as_deref().into()),
            ("MaxSpeedMHz", max_mhz.into()),
            ("TotalCores", package.cores.len().into()),
            ("TotalThreads", n_threads.into()),
        ])
    };
    let mut found: Vec<Value> = packages.map(known).collect();
    if found.is_empty() {
        found.push(object([("TotalThreads", inventory.cpu.as_ref().and_then(n_cpus).into())]));
    }
    let machine = architecture(inventory);
    let machine = ARCHITECTURES.iter().find(|(name, ..)| Some(*name) == machine.as_deref());
    let parts = found.into_iter().enumerate().map(|(index, known)| {
        let id = format!("CPU{index}");
        let mut fields = object([
            ("Id", id.as_str().into()),
            ("Name", format!("Processor {index}").into()),
            ("ProcessorType", "CPU".into()),
            ("ProcessorArchitecture", machine.map(|(_, architecture, _)| *architecture).into()),
            ("InstructionSet", machine.map(|(.., set)| *set).into()),
        ]);
        if let (Value::Object(fields), Value::Object(known)) = (&mut fields, known) {
            fields.extend(known);
        }
        (id, fields)
    });
    tree.put_all("Processors", "Processor", "v1_20_0", parts.collect());
}

/// A whole number of GiB is one; of another size the fraction counts.
pub(super) fn memory_summary(inventory: &Inventory) -> Value {
    let memory = inventory.memory.as_ref();
    let bytes = memory.and_then(|memory| memory.installed_bytes).filter(|bytes| *bytes > 0);
    let gib: Option<Value> = bytes.and_then(|bytes| {
        if bytes.is_multiple_of(GIB) {
            return Some((bytes / GIB).into());
        }
        // Exact: a DIMM is a multiple of 1 MiB. 2^32 of these are 4 PiB; a size that is larger is no plausible one.
        let mib = u32::try_from(bytes / MIB).ok()?;
        Some((f64::from(mib) / 1024.0).into())
    });
    object([("TotalSystemMemoryGiB", gib.into())])
}

pub(super) fn memory(tree: &mut Tree, inventory: &Inventory) {
    let memory = inventory.memory.as_ref();
    let correction = memory.and_then(|memory| memory.error_correction.as_deref());
    let correction = CORRECTIONS.iter().find(|(name, _)| Some(*name) == correction);
    let dimms = memory.iter().flat_map(|memory| &memory.dimms).enumerate();
    let fitted = dimms.filter(|(_, dimm)| dimm.is_populated != Some(false));
    let parts = fitted.map(|(index, dimm)| {
        let id = format!("DIMM{index}");
        let fields = dimm_fields(&id, dimm, correction.map(|(_, name)| *name));
        (id, fields)
    });
    tree.put_all("Memory", "Memory", "v1_19_0", parts.collect());
}

fn dimm_fields(id: &str, dimm: &Dimm, correction: Option<&str>) -> Value {
    let kind = dimm.kind.as_deref().filter(|kind| MEMORY_KINDS.contains(kind));
    let capacity_mib = dimm.size_bytes.map(|bytes| bytes / MIB).filter(|mib| *mib > 0);
    object([
        ("Id", id.into()),
        ("Name", dimm.locator.as_deref().unwrap_or(id).into()),
        ("DeviceLocator", dimm.locator.as_deref().into()),
        ("MemoryDeviceType", kind.into()),
        ("CapacityMiB", capacity_mib.into()),
        ("OperatingSpeedMhz", dimm.configured_speed_mt_s.into()),
        ("AllowedSpeedsMHz", list(dimm.speed_mt_s.iter().map(|speed| (*speed).into()))),
        ("Manufacturer", dimm.manufacturer.as_deref().into()),
        ("SerialNumber", dimm.serial.as_deref().into()),
        ("PartNumber", dimm.part_number.as_deref().into()),
        ("FirmwareRevision", dimm.firmware.as_deref().into()),
        ("RankCount", dimm.rank.into()),
        ("DataWidthBits", dimm.data_width_bits.into()),
        ("BusWidthBits", dimm.total_width_bits.into()),
        ("ErrorCorrection", correction.into()),
    ])
}

pub(super) fn ethernet_interfaces(tree: &mut Tree, inventory: &Inventory) {
    let ports = ports(inventory);
    let named = ports.iter().map(|port| (id_of(&port.facts.name), interface(port)));
    tree.put_all("EthernetInterfaces", "EthernetInterface", "v1_12_0", named.collect());
}

fn interface(port: &Port<'_>) -> Value {
    let facts = port.facts;
    let state = match (facts.is_up, facts.has_carrier) {
        (_, Some(true)) => Some("LinkUp"),
        (Some(true), Some(false)) => Some("NoLink"),
        (Some(false), _) => Some("LinkDown"),
        _ => None,
    };
    let current = facts.current_mac.as_ref().filter(|mac| mac.len() == 17);
    let permanent = facts.permanent_mac.as_ref().filter(|mac| mac.len() == 17);
    object([
        ("Id", id_of(&facts.name).into()),
        ("Name", facts.name.as_str().into()),
        ("MACAddress", current.map(|mac| mac.to_ascii_lowercase()).or(port.mac.clone()).into()),
        ("PermanentMACAddress", permanent.map(|mac| mac.to_ascii_lowercase()).into()),
        ("SpeedMbps", facts.speed_mbit_s.into()),
        ("FullDuplex", facts.duplex.as_deref().map(|duplex| duplex == "full").into()),
        ("AutoNeg", facts.is_autonegotiating.into()),
        ("MTUSize", facts.mtu.into()),
        ("InterfaceEnabled", facts.is_up.into()),
        ("LinkStatus", state.into()),
        ("IPv4Addresses", list(port.ipv4.iter().map(|address| ipv4(address)))),
        ("IPv6Addresses", list(port.ipv6.iter().map(|address| ipv6(address)))),
    ])
}

fn ipv4(address: &str) -> Value {
    let Some((address, length)) = address.split_once('/') else { return Value::Null };
    let bits = length.parse().ok().filter(|length: &u32| *length <= 32);
    let mask = bits.map(|bits| u32::MAX.checked_shl(32 - bits).unwrap_or(0));
    object([
        ("Address", address.into()),
        ("SubnetMask", mask.map(|mask| Ipv4Addr::from(mask).to_string()).into()),
    ])
}

fn ipv6(address: &str) -> Value {
    let Some((address, length)) = address.split_once('/') else { return Value::Null };
    object([("Address", address.into()), ("PrefixLength", length.parse::<u8>().ok().into())])
}
