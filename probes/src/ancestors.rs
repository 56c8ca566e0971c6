//! Facts of a device that one of the devices above it has: PCI address and NUMA node.

use crate::machine::Machine;

/// The NUMA node of the device at `device_path` (resolved, below `sys/devices`): the `numa_node` of
/// the first device at or above it that has one. `None` if the kernel reports -1 or nothing
/// (`Documentation/ABI/testing/sysfs-bus-pci`).
#[must_use]
pub fn numa_node(machine: &Machine, device_path: &str) -> Option<u32> {
    above(device_path)
        .find_map(|path| machine.number::<i64>(&format!("{path}/numa_node")))
        .and_then(|node| u32::try_from(node).ok())
}

/// The PCI address nearest above the device at `device_path`, e.g. `0000:3b:00.0`; `None` for a
/// device that is attached to no PCI device.
#[must_use]
pub fn pci_address(device_path: &str) -> Option<String> {
    device_path.rsplit('/').find(|part| is_pci_address(part)).map(str::to_owned)
}

/// Whether `text` is a PCI address `DDDD:BB:DD.F`; the domain may be longer than four digits.
#[must_use]
pub fn is_pci_address(text: &str) -> bool {
    let hex = |part: &str, len: std::ops::RangeInclusive<usize>| {
        len.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let Some((rest, function)) = text.rsplit_once('.') else { return false };
    let mut parts = rest.split(':');
    let (Some(domain), Some(bus), Some(device), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    hex(domain, 4..=8) && hex(bus, 2..=2) && hex(device, 2..=2) && hex(function, 1..=1)
}

/// The path itself and every path above it, up to but excluding `sys/devices`.
fn above(device_path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(device_path), |path| path.rsplit_once('/').map(|(up, _)| up))
        .take_while(|path| path.starts_with("sys/devices/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_pci_address_counts_and_long_domains_are_accepted() {
        let path = "sys/devices/pci0000:00/0000:00:1d.0/0000:3b:00.0/nvme/nvme0/nvme0n1";
        assert_eq!(pci_address(path).as_deref(), Some("0000:3b:00.0"));
        assert!(is_pci_address("10000:01:00.0"));
        assert!(!is_pci_address("pci0000:00"));
        assert!(!is_pci_address("1:0:0:0"));
        assert_eq!(pci_address("sys/devices/virtual/block/dm-0"), None);
    }
}
