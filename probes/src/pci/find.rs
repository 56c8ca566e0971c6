//! Finds the PCI devices: in the bus directory, otherwise in the device tree, otherwise in `/proc/bus/pci`.

use std::collections::BTreeMap;

use crate::machine::Machine;
use crate::pci_address::Address;

const BUS: &str = "sys/bus/pci/devices";
const PROC: &str = "proc/bus/pci";
/// Current machines have at most a few thousand functions.
const LIMIT_DEVICES: usize = 65_536;
/// Bridges nest at most 256 levels deep, since a domain has 256 buses; in practice 20.
const LIMIT_DEPTH: usize = 64;
/// Most directories that are searched for devices: links that lead up create more paths than a tree has.
const LIMIT_DIRECTORIES: usize = 20_000;

/// Place at which one device was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) address: Address,
    /// The directory of its attributes, or its configuration space in `/proc/bus/pci`.
    pub(super) path: String,
    /// Its line in `/proc/bus/pci/devices`, if it was found there.
    pub(super) line: Option<String>,
}

/// All devices by address; `None` if the source does not have information on PCI.
pub(super) fn places(machine: &Machine) -> Option<Vec<Place>> {
    let (mut found, mut n_left) = (BTreeMap::new(), LIMIT_DIRECTORIES);
    for name in machine.names(BUS) {
        // Resolved, so that paths below the device do not follow the link again.
        add(&mut found, &name, machine.device_path(&format!("{BUS}/{name}")));
    }
    if found.is_empty() {
        walk(machine, "sys/devices", 0, &mut n_left, &mut found);
        if n_left == 0 {
            let found = format!("{LIMIT_DIRECTORIES} directories and more");
            machine.problem("sys/devices", found, "fewer; devices in the others are not listed");
        }
    }
    if found.is_empty() {
        from_proc(machine, &mut found);
    }
    (!found.is_empty() || machine.is_dir(BUS)).then(|| found.into_values().collect())
}

fn add(found: &mut BTreeMap<Address, Place>, name: &str, path: String) {
    if let Some(address) = Address::parse(name).filter(|_| found.len() < LIMIT_DEVICES) {
        found.entry(address).or_insert(Place { address, path, line: None });
    }
}

/// Walks down root buses (`pci0000:00`) and devices; a VMD controller has a root bus below itself.
/// At most `n_left` more directories are searched.
fn walk(
    machine: &Machine,
    path: &str,
    depth: usize,
    n_left: &mut usize,
    found: &mut BTreeMap<Address, Place>,
) {
    if depth > LIMIT_DEPTH || *n_left == 0 {
        return;
    }
    *n_left -= 1;
    // A device is below itself only if a link leads up.
    let is_above_itself = |name: &String| path.split('/').any(|part| part == name);
    for name in machine.list(path).into_iter().filter(|name| !is_above_itself(name)) {
        let below = format!("{path}/{name}");
        let is_device = Address::parse(&name).is_some();
        if is_device {
            add(found, &name, below.clone());
        }
        // Root buses of device-tree machines are below `platform/soc/….pcie/`.
        let is_above =
            name == "platform" || (path.starts_with("sys/devices/platform") && depth < 4);
        let is_root_bus = name.strip_prefix("pci").is_some_and(|rest| rest.contains(':'));
        if is_device || is_root_bus || is_above {
            walk(machine, &below, depth + 1, n_left, found);
        }
    }
}

/// `/proc/bus/pci/[DDDD:]BB/DD.F` and the lines of `/proc/bus/pci/devices`
/// (`drivers/pci/proc.c`). The lines contain no domain: it is 0 unless a directory names another.
fn from_proc(machine: &Machine, found: &mut BTreeMap<Address, Place>) {
    for bus in machine.list(PROC).iter().filter(|name| *name != "devices") {
        let full = if bus.contains(':') { bus.clone() } else { format!("0000:{bus}") };
        for function in machine.list(&format!("{PROC}/{bus}")) {
            let path = format!("{PROC}/{bus}/{function}");
            add(found, &format!("{full}:{function}"), path);
        }
    }
    // For each address, the devices that have no line yet; the lowest domain is last.
    let mut without_line = BTreeMap::<_, Vec<Address>>::new();
    for address in found.keys().rev() {
        let place = (address.bus, address.device, address.function);
        without_line.entry(place).or_default().push(*address);
    }
    let text = machine.text(&format!("{PROC}/devices")).unwrap_or_default();
    for line in text.lines() {
        let Some((bus, device, function)) = bus_device_function(line) else { continue };
        let known = without_line.get_mut(&(bus, device, function)).and_then(Vec::pop);
        if let Some(place) = known.and_then(|address| found.get_mut(&address)) {
            place.line = Some(line.to_owned());
        } else if found.len() < LIMIT_DEVICES {
            let address = Address { domain: 0, bus, device, function };
            let path = format!("{PROC}/{bus:02x}/{device:02x}.{function:x}");
            found.entry(address).or_insert(Place { address, path, line: Some(line.to_owned()) });
        }
    }
}

fn bus_device_function(line: &str) -> Option<(u8, u8, u8)> {
    let digits = line.split_whitespace().next().filter(|digits| digits.len() == 4)?;
    let [bus, devfn] = u16::from_str_radix(digits, 16).ok()?.to_be_bytes();
    Some((bus, devfn >> 3, devfn & 7))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    fn addresses(machine: &Machine) -> Vec<String> {
        places(machine).unwrap_or_default().iter().map(|p| p.address.to_string()).collect()
    }

    #[test]
    fn links_that_lead_up_do_not_make_the_search_endless() {
        let bus = "sys/devices/pci0000:00";
        let names: Vec<String> = (0..24).map(|n| format!("{bus}/0000:00:{n:02x}.0")).collect();
        let mut files: Vec<(&str, &str)> =
            names.iter().map(|name| (name.as_str(), "-> ..")).collect();
        files.push(("sys/devices/pci0000:00/0000:00:1f.0/class", "0x060100"));
        let machine = tree(&files);
        assert_eq!(places(&machine).unwrap().len(), 25);
        assert!(machine.problems().is_empty(), "{:?}", machine.problems());
    }

    #[test]
    fn endless_search_ends_with_a_problem() {
        let bus = "sys/devices/pci0000:00";
        let names: Vec<String> = (0..8).map(|n| format!("{bus}/0000:00:{n:02x}.0")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "-> .")).collect();
        let machine = tree(&files);
        assert_eq!(places(&machine).unwrap().len(), 8);
        assert_eq!(machine.problems().len(), 1, "{:?}", machine.problems());
    }

    #[test]
    fn largest_possible_proc_file_is_read_quickly() {
        let lines: Vec<String> = (0..0x1_0000).map(|n| format!("{n:04x}\t80861234\n")).collect();
        let machine = tree(&[("proc/bus/pci/devices", &lines.concat().repeat(4))]);
        let began = std::time::Instant::now();
        assert_eq!(places(&machine).unwrap_or_default().len(), 0x1_0000);
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    }

    #[test]
    fn without_the_bus_directory_the_device_tree_is_walked() {
        let machine = tree(&[
            ("sys/devices/pci0000:00/0000:00:1c.0/0000:01:00.0/vendor", "0x8086\n"),
            ("sys/devices/pci0000:00/0000:00:0e.0/pci10000:00/10000:00:02.0/vendor", "0x8086\n"),
            ("sys/devices/platform/soc/1f00.pcie/pci0001:00/0001:00:00.0/vendor", "0x14e4\n"),
            ("sys/devices/system/cpu/online", "0\n"),
        ]);
        assert_eq!(
            addresses(&machine),
            ["0000:00:0e.0", "0000:00:1c.0", "0000:01:00.0", "0001:00:00.0", "10000:00:02.0"]
        );
    }

    #[test]
    fn without_sysfs_proc_gives_addresses_and_broken_lines_are_skipped() {
        let devices = "0000\t80861237\t0\n00fb\t80862930\t10\t0\nxyz\n\n";
        let machine =
            tree(&[("proc/bus/pci/devices", devices), ("proc/bus/pci/0001:01/00.0", "x")]);
        assert_eq!(addresses(&machine), ["0000:00:00.0", "0000:00:1f.3", "0001:01:00.0"]);
    }

    #[test]
    fn empty_bus_means_no_devices_and_missing_bus_means_unknown() {
        assert_eq!(places(&tree(&[("sys/bus/pci/devices/readme", "x")])), Some(Vec::new()));
        assert_eq!(places(&tree(&[("sys/bus/usb/x", "x")])), None);
    }
}
