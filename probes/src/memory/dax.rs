//! DAX devices: memory that the kernel handles as a device before it becomes ordinary memory, or
//! instead of that: `/sys/bus/dax/devices/daxX.Y` (`Documentation/ABI/testing/sysfs-bus-dax`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

const DIR: &str = "sys/bus/dax/devices";

/// A DAX device. A device of size 0, from which others are made, is left out.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DaxDevice {
    /// Kernel name, e.g. `dax0.0`.
    pub name: String,
    /// Origin of the memory: `pmem` (NVDIMMs), `cxl`, or `hmem`: reserved by the firmware for
    /// a special purpose, as HBM and CXL memory often are.
    pub origin: Option<String>,
    /// `kmem`: its memory is ordinary memory of the node `target_node`; `device_dax`: programs map it as
    /// `/dev/daxX.Y`; `None` if no driver is bound.
    pub driver: Option<String>,
    /// Its size (`size`).
    pub size_bytes: Option<u64>,
    /// Page size of its mappings (`align`).
    pub align_bytes: Option<u64>,
    /// Its start in the machine's address space (`resource`, since Linux 5.3; needs root).
    pub address: Option<u64>,
    /// The NUMA node that its memory is or would be in (`target_node`); `None` if the kernel reports -1.
    pub target_node: Option<u32>,
    /// The NUMA node of the CPUs next to it (`numa_node`); `None` if the kernel reports -1.
    pub numa_node: Option<u32>,
}

/// Reads the devices, by name.
pub(super) fn devices(machine: &Machine) -> Vec<DaxDevice> {
    let names = super::devices(machine, DIR, |name| name.starts_with("dax"));
    let devices = names.into_iter().map(|name| device(machine, name));
    devices.filter(|device| device.size_bytes != Some(0)).collect()
}

fn device(machine: &Machine, name: String) -> DaxDevice {
    let path = machine.device_path(&format!("{DIR}/{name}"));
    let at = |file: &str| format!("{path}/{file}");
    let node = |file: &str| super::node(machine, &at(file));
    DaxDevice {
        origin: origin(&path).map(str::to_owned),
        driver: machine.link_name(&at("driver")),
        size_bytes: machine.number(&at("size")),
        align_bytes: machine.number(&at("align")).filter(|bytes| *bytes > 0),
        address: machine.parse(&at("resource"), super::parse_size),
        target_node: node("target_node"),
        numa_node: node("numa_node"),
        name,
    }
}

/// The parent of the device at `path`: the NVDIMM bus, the CXL root (its ACPI device, or a port of the
/// CXL bus), or the platform device of the firmware's soft-reserved memory.
pub(crate) fn origin(path: &str) -> Option<&'static str> {
    let is_below = |prefix: &str| path.split('/').any(|name| name.starts_with(prefix));
    match () {
        () if is_below("ndbus") => Some("pmem"),
        () if is_below("ACPI0017") || is_below("cxl") => Some("cxl"),
        () if is_below("hmem.") => Some("hmem"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn too_many_devices_are_a_problem_and_only_the_first_are_read() {
        let paths: Vec<String> = (0..5000).map(|n| format!("{DIR}/dax{n}.0/size")).collect();
        let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "1")).collect();
        let machine = tree(&files);
        assert_eq!((devices(&machine).len(), machine.problems().len()), (4096, 1));
    }

    #[test]
    fn dax_device_has_a_size_an_origin_and_a_driver() {
        let hmem = "sys/devices/platform/hmem_platform.0/hmem.0/dax0.0";
        let cxl = "sys/devices/platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax1.0";
        let file = |dir: &str, name: &str| format!("{dir}/{name}");
        let machine = tree(&[
            ("sys/bus/dax/devices/dax0.0", &format!("-> /{hmem}")),
            (&file(hmem, "size"), "68719476736\n"),
            (&file(hmem, "align"), "2097152\n"),
            (&file(hmem, "resource"), "0x2080000000\n"),
            (&file(hmem, "target_node"), "2\n"),
            (&file(hmem, "numa_node"), "-1\n"),
            (&file(hmem, "driver"), "-> ../../../../../bus/dax/drivers/kmem"),
            ("sys/bus/dax/devices/dax1.0", &format!("-> /{cxl}")),
            (&file(cxl, "size"), "0\n"),
            ("sys/bus/dax/devices/dax1.1", &format!("-> /{}", cxl.replace("dax1.0", "dax1.1"))),
            (&file(&cxl.replace("dax1.0", "dax1.1"), "target_node"), "3\n"),
        ]);
        let devices = devices(&machine);
        let kinds: Vec<_> =
            devices.iter().map(|d| (d.name.as_str(), d.origin.as_deref())).collect();
        assert_eq!(
            kinds,
            [("dax0.0", Some("hmem")), ("dax1.1", Some("cxl"))],
            "size 0 is left out"
        );
        let first = &devices[0];
        assert_eq!((first.size_bytes, first.align_bytes), (Some(64 << 30), Some(2 << 20)));
        assert_eq!((first.driver.as_deref(), first.address), (Some("kmem"), Some(0x20_8000_0000)));
        assert_eq!((first.target_node, first.numa_node), (Some(2), None), "-1 means no node");
        assert_eq!((&devices[1].driver, devices[1].size_bytes), (&None, None));
        assert!(machine.problems().is_empty());
    }
}
