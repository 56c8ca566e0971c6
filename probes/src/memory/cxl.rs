//! CXL memory devices: `/sys/bus/cxl/devices/memN` (`Documentation/ABI/testing/sysfs-bus-cxl`), since
//! Linux 5.12.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ancestors;
use crate::machine::Machine;

const DIR: &str = "sys/bus/cxl/devices";

/// A CXL memory device (type 3), whether or not its memory is in use.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CxlMemory {
    /// Kernel name, e.g. `mem0`.
    pub name: String,
    /// Address of its PCI function.
    pub pci_address: Option<String>,
    /// Volatile memory in bytes (`ram/size`).
    pub volatile_bytes: Option<u64>,
    /// Persistent memory in bytes (`pmem/size`).
    pub persistent_bytes: Option<u64>,
    /// Serial number, as the kernel writes it, e.g. `0x1234`.
    pub serial: Option<String>,
    /// Version of its firmware.
    pub firmware: Option<String>,
    /// `disabled` (no password), `locked`, `unlocked`, `frozen`, or `sanitize` while it is being wiped
    /// (`security/state`, since Linux 6.5).
    pub security: Option<String>,
    /// NUMA node of the processor it is attached to; `None` if the kernel reports -1.
    pub numa_node: Option<u32>,
}

/// Reads the devices, by name.
pub(super) fn memories(machine: &Machine) -> Vec<CxlMemory> {
    let is_memory =
        |name: &str| name.strip_prefix("mem").is_some_and(|number| number.parse::<u32>().is_ok());
    let names = super::devices(machine, DIR, is_memory).into_iter();
    names.map(|name| memory(machine, name)).collect()
}

fn memory(machine: &Machine, name: String) -> CxlMemory {
    let path = format!("{DIR}/{name}");
    let size = |file: &str| machine.parse(&format!("{path}/{file}"), super::parse_size);
    CxlMemory {
        pci_address: ancestors::pci_address(&machine.device_path(&path)),
        volatile_bytes: size("ram/size"),
        persistent_bytes: size("pmem/size"),
        serial: machine.text(&format!("{path}/serial")),
        firmware: machine.text(&format!("{path}/firmware_version")),
        security: machine.text(&format!("{path}/security/state")),
        numa_node: super::node(machine, &format!("{path}/numa_node")),
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::has;
    use crate::testing::tree_in;
    use serde_json::json;

    #[test]
    fn cxl_device_has_its_sizes_and_a_node_of_minus_one_is_absent() {
        let mem = "sys/devices/pci0000:6b/0000:6b:00.0/0000:6c:00.0/mem0";
        let machine = tree_in(&[
            (
                "sys/bus/cxl/devices",
                &[("mem0", "-> ../../../devices/pci0000:6b/0000:6b:00.0/0000:6c:00.0/mem0")],
            ),
            ("sys/bus/cxl/devices/root0", &[("devtype", "cxl_port")]),
            (mem, &[("ram/size", "0x10000000"), ("pmem/size", "many")]),
            (mem, &[("serial", "0x3"), ("security/state", "locked"), ("numa_node", "-1")]),
        ]);
        let devices = memories(&machine);
        assert_eq!(devices.len(), 1);
        has(&devices[0], &json!({"pci_address": "0000:6c:00.0", "security": "locked"}));
        has(&devices[0], &json!({"volatile_bytes": 256 << 20, "numa_node": null}));
        assert_eq!((devices[0].persistent_bytes, machine.problems().len()), (None, 1));
    }
}
