//! Paths of devices in sysfs: each part of a resolved one is a device above it.

use formats::text::is_number;

use crate::machine::Machine;
use crate::pci_address::is_pci_address;

/// The Host:Channel:Target:LUN of the SCSI disk at `path`, e.g. `0:0:0:0`.
pub(super) fn hctl(path: &str) -> Option<&str> {
    path.rsplit('/').find(|part| part.split(':').count() == 4 && part.split(':').all(is_number))
}

/// The path up to the nearest PCI device.
pub(super) fn pci_path(path: &str) -> Option<&str> {
    let ends = path.match_indices('/').map(|(at, _)| at);
    let mut above: Vec<&str> = ends.map(|end| &path[..end]).collect();
    above.retain(|path| path.rsplit('/').next().is_some_and(is_pci_address));
    above.last().copied()
}

/// The part nearest to the device that is `prefix` and a number, e.g. `end_device-0:0`.
pub(super) fn numbered_part<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    path.rsplit('/').find(|part| is_numbered(part, prefix))
}

/// True if `part` is `prefix` followed by a digit.
pub(super) fn is_numbered(part: &str, prefix: &str) -> bool {
    part.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Path of the device with a number, e.g. `8:0`; `None` if there is none.
pub(super) fn by_number(machine: &Machine, number: &str) -> Option<String> {
    let is_number = !number.is_empty()
        && number.bytes().all(|b| b.is_ascii_digit() || b == b':')
        && number.len() < 32;
    let link = format!("sys/dev/block/{number}");
    let is_there = is_number && machine.link(&link).is_some();
    is_there.then(|| machine.device_path(&link))
}

/// A number as the kernel writes it with a prefix, e.g. `0x1f`.
pub(super) fn prefixed_hex(text: &str) -> Result<u64, &'static str> {
    let number = text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.ok_or("a hexadecimal number with 0x")
}
