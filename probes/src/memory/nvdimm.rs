//! NVDIMMs, and the regions and namespaces on them: `/sys/bus/nd/devices`
//! (`Documentation/ABI/testing/sysfs-bus-nvdimm` and `sysfs-bus-nfit`, `Documentation/driver-api/nvdimm`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

const DIR: &str = "sys/bus/nd/devices";

/// Persistent memory; absent on machines without it.
#[serde_with::apply(Vec => #[serde(skip_serializing_if = "Vec::is_empty")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PersistentMemory {
    /// The modules, by name.
    pub modules: Vec<Nvdimm>,
    /// Ranges of addresses, each over one or more modules, by name.
    pub regions: Vec<PersistentRegion>,
    /// Used parts of the regions, by name.
    pub namespaces: Vec<PersistentNamespace>,
}

/// A module of persistent memory.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Nvdimm {
    /// Kernel name, e.g. `nmem0`.
    pub name: String,
    /// Handle of its SMBIOS type 17 structure (`nfit/phys_id`), which identifies the DIMM.
    pub smbios_handle: Option<u32>,
    /// Serial number in the firmware's table, e.g. `0xb6001234` (`nfit/serial`).
    pub serial: Option<String>,
    /// Its state as the firmware found it (`nfit/flags`): `save_fail`, `restore_fail`, `flush_fail`,
    /// `not_armed` and `map_fail` are faults; `smart_event` means that there were health events, and
    /// `smart_notify` only that the firmware reports such events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// `disabled` (no password), `locked`, `unlocked`, `frozen` or `overwrite` (`security`).
    pub security: Option<String>,
}

/// A range of addresses over one or more modules.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PersistentRegion {
    /// Kernel name, e.g. `region0`.
    pub name: String,
    /// Its size (`size`).
    pub size_bytes: Option<u64>,
    /// Number of modules that it is interleaved over; `None` if the kernel knows none of them.
    pub n_modules: Option<u32>,
    /// True if the kernel refuses writes, e.g. after a module failed to save (`read_only`).
    pub is_read_only: Option<bool>,
    /// The parts that keep their data on a loss of power: `cpu_cache`, `memory_controller`
    /// (`persistence_domain`).
    pub persistence_domain: Option<String>,
    /// The NUMA node of the CPUs next to it; `None` if the kernel reports -1.
    pub numa_node: Option<u32>,
}

/// A used part of a region.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PersistentNamespace {
    /// Kernel name, e.g. `namespace0.0`: the first of `region0`.
    pub name: String,
    /// `raw`, `sector`, `memory` (what `ndctl` calls fsdax) or `dax` (devdax).
    pub mode: Option<String>,
    /// Its size (`size`).
    pub size_bytes: Option<u64>,
    /// The name that the administrator gave it (`alt_name`).
    pub label: Option<String>,
}

/// Reads modules, regions and namespaces; `None` if there are none.
pub(super) fn persistent(machine: &Machine) -> Option<PersistentMemory> {
    let mut memory = PersistentMemory::default();
    for name in super::devices(machine, DIR, |_| true) {
        let number = |prefix: &str| {
            let rest = name.strip_prefix(prefix);
            rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        if number("nmem") {
            memory.modules.push(module(machine, name));
        } else if number("region") {
            memory.regions.push(region(machine, name));
        } else if number("namespace") {
            // Each region has a namespace of size 0, from which the kernel makes the next one.
            let namespace = namespace(machine, name);
            memory.namespaces.extend(Some(namespace).filter(|n| n.size_bytes != Some(0)));
        }
    }
    (memory != PersistentMemory::default()).then_some(memory)
}

fn module(machine: &Machine, name: String) -> Nvdimm {
    let at = |file: &str| format!("{DIR}/{name}/{file}");
    let flags = machine.text(&at("nfit/flags")).unwrap_or_default();
    let handle = machine.parse(&at("nfit/phys_id"), super::parse_size);
    Nvdimm {
        smbios_handle: handle.and_then(|handle| u32::try_from(handle).ok()),
        serial: machine.text(&at("nfit/serial")),
        flags: flags.split_whitespace().map(str::to_owned).collect(),
        security: machine.text(&at("security")),
        name,
    }
}

fn region(machine: &Machine, name: String) -> PersistentRegion {
    let at = |file: &str| format!("{DIR}/{name}/{file}");
    let domain = machine.text(&at("persistence_domain"));
    PersistentRegion {
        size_bytes: machine.number(&at("size")),
        n_modules: machine.number(&at("mappings")).filter(|n| *n > 0),
        is_read_only: machine.flag(&at("read_only")),
        persistence_domain: domain.filter(|domain| domain != "unknown"),
        numa_node: super::node(machine, &at("numa_node")),
        name,
    }
}

fn namespace(machine: &Machine, name: String) -> PersistentNamespace {
    let at = |file: &str| format!("{DIR}/{name}/{file}");
    PersistentNamespace {
        mode: machine.text(&at("mode")),
        size_bytes: machine.number(&at("size")),
        label: machine.text(&at("alt_name")),
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tree, tree_in};

    #[test]
    fn modules_regions_and_namespaces_have_their_faults_and_size_0_is_left_out() {
        let machine = tree_in(&[
            ("sys/bus/nd/devices/nmem0/nfit", &[("flags", "not_armed smart_event ")]),
            ("sys/bus/nd/devices/nmem0/nfit", &[("serial", "0xb6001234"), ("phys_id", "0x1c")]),
            ("sys/bus/nd/devices", &[("nmem0/security", "locked"), ("nmem1/nfit/flags", "")]),
            ("sys/bus/nd/devices/region0", &[("size", "270582939648"), ("mappings", "2")]),
            ("sys/bus/nd/devices/region0", &[("read_only", "1"), ("numa_node", "-1")]),
            ("sys/bus/nd/devices/region0", &[("persistence_domain", "memory_controller")]),
            ("sys/bus/nd/devices/namespace0.0", &[("size", "266352984064"), ("mode", "memory")]),
            ("sys/bus/nd/devices", &[("namespace0.0/alt_name", ""), ("namespace0.1/size", "0")]),
            ("sys/bus/nd/devices", &[("btt0.0/size", "0"), ("ndbus0/provider", "ACPI.NFIT")]),
        ]);
        let memory = persistent(&machine).unwrap();
        let module = &memory.modules[0];
        assert_eq!(module.flags, ["not_armed", "smart_event"]);
        assert_eq!((module.smbios_handle, module.security.as_deref()), (Some(28), Some("locked")));
        assert!(memory.modules[1].flags.is_empty() && memory.modules.len() == 2);
        let region = &memory.regions[0];
        assert_eq!((region.n_modules, region.is_read_only), (Some(2), Some(true)));
        assert_eq!(region.numa_node, None, "-1 means no node");
        let names: Vec<_> = memory.namespaces.iter().map(|n| n.name.as_str()).collect();
        assert_eq!(names, ["namespace0.0"]);
        assert_eq!(memory.namespaces[0].label, None);
        assert!(machine.problems().is_empty());
        assert_eq!(persistent(&tree(&[("proc/version", "x")])), None);
    }
}
