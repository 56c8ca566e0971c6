//! Facts of a device that one of the devices above it has: PCI address and NUMA node.

use crate::machine::Machine;
use crate::pci_address::is_pci_address;

/// The NUMA node of the device at `device_path` (resolved, below `sys/devices`): the `numa_node` of
/// the first device at or above it that has one. `None` if the kernel reports -1 or nothing
/// (`Documentation/ABI/testing/sysfs-bus-pci`).
pub fn numa_node(machine: &Machine, device_path: &str) -> Option<u32> {
    let mut nodes = above(device_path).map(|path| format!("{path}/numa_node"));
    u32::try_from(nodes.find_map(|path| machine.number::<i64>(&path))?).ok()
}

/// The PCI address nearest above the device at `device_path`, e.g. `0000:3b:00.0`; `None` for a
/// device that is attached to no PCI device.
pub fn pci_address(device_path: &str) -> Option<String> {
    device_path.rsplit('/').find(|part| is_pci_address(part)).map(str::to_owned)
}

/// The path itself and every path above it, up to but excluding `sys/devices`.
pub(crate) fn above(device_path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(device_path), |path| path.rsplit_once('/').map(|(up, _)| up))
        .take_while(|path| path.starts_with("sys/devices/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_pci_address_counts() {
        let path = "sys/devices/pci0000:00/0000:00:1d.0/0000:3b:00.0/nvme/nvme0/nvme0n1";
        assert_eq!(pci_address(path).as_deref(), Some("0000:3b:00.0"));
        assert_eq!(pci_address("sys/devices/virtual/block/dm-0"), None);
    }
}
