//! Disks that are paths to the same LUN: those below a multipath device, and those that share an identity.

use std::collections::BTreeMap;

use crate::machine::{Machine, quote};

use super::disk::{Disk, DiskPath, SHARED_IDENTITY, shared_by_all};
use super::identifier::squash;
use super::listing::Listing;

/// Marks the paths of multipath devices, completes the LUN with the facts of its paths, and marks
/// identities that several disks share.
pub(super) fn mark(machine: &Machine, disks: &mut [Disk], listing: &Listing) {
    for head in &listing.heads {
        let mut paths = Vec::new();
        for disk in disks.iter_mut().filter(|disk| head.slaves.contains(&disk.name)) {
            disk.multipath = Some(head.name.clone());
            paths.push(disk.clone());
        }
        if let Some(disk) = disks.iter_mut().find(|disk| disk.name == head.name) {
            join(machine, disk, &paths, listing);
        }
    }
    let mut sharing: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, disk) in disks.iter().enumerate() {
        // The multipath device represents its paths. A disk of the same identity that is not one of them
        // is another path to the same bytes.
        if let Some(id) = unit_id(disk).filter(|_| disk.multipath.is_none()) {
            sharing.entry(id).or_default().push(index);
        }
    }
    for (id, indices) in sharing.into_iter().filter(|(_, indices)| indices.len() > 1) {
        let names: Vec<String> = indices.iter().map(|index| disks[*index].name.clone()).collect();
        let first = &disks[indices[0]];
        let id = first.wwn.as_ref().or(first.serial.as_ref()).unwrap_or(&id);
        machine.problem(
            &format!("sys/block/{}", names[0]),
            format!("the identity {} on {}", quote(id), names.join(", ")),
            "a unique identity, or a multipath device over the paths of one LUN",
        );
        for index in indices {
            let disk = &mut disks[index];
            let others = names.iter().filter(|name| **name != disk.name).map(String::as_str);
            let others: Vec<&str> = others.collect();
            if !is_joined(disk) {
                disk.identity_issues.push(format!("{SHARED_IDENTITY} {}", others.join(", ")));
            }
        }
    }
}

/// True if the disk is a multipath device of device-mapper.
fn is_joined(disk: &Disk) -> bool {
    disk.name.starts_with("dm-")
}

/// Completes the LUN with the facts of its paths: identity from the first path that has one, the place
/// only if all paths share it.
fn join(machine: &Machine, lun: &mut Disk, paths: &[Disk], listing: &Listing) {
    let first =
        |value: fn(&Disk) -> &Option<String>| paths.iter().find_map(|path| value(path).clone());
    lun.transport = first(|path| &path.transport);
    lun.vendor = first(|path| &path.vendor);
    lun.model = first(|path| &path.model);
    lun.serial = first(|path| &path.serial);
    lun.firmware = first(|path| &path.firmware);
    lun.wwn = first(|path| &path.wwn).or(lun.wwn.take());
    lun.wwid = first(|path| &path.wwid);
    lun.integrity_format = lun.integrity_format.take().or_else(|| first(|p| &p.integrity_format));
    lun.protection_type = paths.iter().find_map(|path| path.protection_type);
    lun.rotation_rpm = paths.iter().find_map(|path| path.rotation_rpm);
    lun.form_factor = first(|path| &path.form_factor);
    lun.bay = paths.iter().find_map(|path| path.bay.clone());
    lun.is_removable = paths.iter().find_map(|path| path.is_removable);
    lun.paths = paths.iter().map(|path| path_of(machine, path, listing)).collect();
    lun.pci_address = shared_by_all(&lun.paths, |path| path.pci_address.clone());
    lun.numa_node = shared_by_all(&lun.paths, |path| path.numa_node);
}

fn path_of(machine: &Machine, path: &Disk, listing: &Listing) -> DiskPath {
    let listed = listing.disks.iter().find(|device| device.name == path.name);
    DiskPath {
        name: path.name.clone(),
        hctl: path.hctl.clone(),
        target: path.target.clone(),
        state: path.state.clone(),
        ana_state: listed
            .and_then(|device| device.text(machine, "device/access_state"))
            .filter(|state| state != "unknown"),
        pci_address: path.pci_address.clone(),
        numa_node: path.numa_node,
        ..DiskPath::default()
    }
}

/// Identity of the unit of storage on every path: the world-wide name, otherwise vendor, model, serial number and size
/// together. `None` if the disk has neither.
fn unit_id(disk: &Disk) -> Option<String> {
    if !disk.is_storage() {
        return None;
    }
    if let Some(id) = disk.wwn.as_ref().or(disk.nguid.as_ref()).or(disk.eui64.as_ref()) {
        return Some(id.clone());
    }
    // The namespaces of one NVMe drive share its serial number; without identifiers of their own they
    // cannot be distinguished.
    let serial = disk.serial.as_ref().filter(|_| disk.transport.as_deref() != Some("nvme"))?;
    let text = |text: &Option<String>| squash(text.as_deref().unwrap_or_default());
    let (vendor, model) = (text(&disk.vendor), text(&disk.model));
    let size = disk.size_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
    Some(format!("{vendor} {model} {} {size}", squash(serial)))
}

/// The sizes of the units that count as physical storage, each once.
pub(super) fn counted(disks: &[Disk]) -> Vec<Option<u64>> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut sizes: Vec<Option<u64>> = Vec::new();
    // The members of an md volume are the storage.
    let is_physical = |disk: &&Disk| disk.is_storage() && !disk.name.starts_with("md");
    for disk in disks.iter().filter(is_physical) {
        if disk.is_removable == Some(true) && disk.size_bytes == Some(0) {
            continue;
        }
        let joined = is_joined(disk).then(|| disk.name.clone());
        let head = disk.multipath.clone().or(joined);
        let lun = head.as_ref().and_then(|head| disks.iter().find(|disk| disk.name == *head));
        let id = lun.and_then(unit_id).or(head).or_else(|| unit_id(disk));
        let known = id.as_ref().and_then(|id| seen.get(id)).and_then(|at| sizes.get_mut(*at));
        if let Some(size) = known {
            *size = size.or(disk.size_bytes);
            continue;
        }
        if let Some(id) = id {
            seen.insert(id, sizes.len());
        }
        sizes.push(disk.size_bytes);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::super::Block;
    use super::*;
    use crate::testing::{has, tree, tree_from_bytes, tree_in};
    use serde_json::json;

    #[test]
    fn path_left_out_by_multipath_is_not_a_free_disk() {
        let disk = |name: &str, multipath: Option<&str>| Disk {
            name: name.to_owned(),
            wwn: Some("0x600a0b80001111550000ee0000000001".to_owned()),
            size_bytes: Some(4096),
            multipath: multipath.map(str::to_owned),
            ..Disk::default()
        };
        let mut disks = vec![disk("dm-0", None), disk("sda", Some("dm-0")), disk("sdc", None)];
        mark(&tree(&[]), &mut disks, &Listing::default());
        let issues: Vec<usize> = disks.iter().map(|disk| disk.identity_issues.len()).collect();
        assert_eq!(issues, [0, 0, 1]);
        assert_eq!(counted(&disks), [Some(4096)]);
    }

    #[test]
    fn members_of_a_multipath_device_count_once_even_without_identity() {
        let machine = tree_in(&[
            ("sys/block/dm-0", &[("dm/uuid", "mpath-3600"), ("slaves/sda/x", "")]),
            ("sys/block", &[("dm-0/slaves/sdb/x", ""), ("sda/size", "8"), ("sdb/size", "8")]),
        ]);
        has(
            &super::super::block(&machine),
            &json!({
                "n_disks": 1, "physical_bytes": 4096, "disks/0/name": "dm-0", "disks/1/name": "sda",
                "disks/1/multipath": "dm-0", "disks/2/name": "sdb", "disks/3": null,
            }),
        );
    }

    /// A LUN with a partition, reached through two ports, one of them in standby.
    fn lun() -> Block {
        let mut first = vec![0; 4096];
        (first[510], first[511], first[446 + 4]) = (0x55, 0xaa, 0x83);
        (first[446 + 8], first[446 + 12]) = (8, 64);
        let mut xfs = vec![0; 4096];
        xfs[..4].copy_from_slice(b"XFSB");
        let (one, other) = ("devices/pci0000:00/0000:01:00.0", "devices/pci0000:80/0000:81:00.0");
        let mut files: Vec<(String, Vec<u8>)> = vec![
            ("kernel/disk/dm-0/0-4096".into(), first),
            ("kernel/disk/dm-0/4096-4096".into(), xfs),
        ];
        let mut add = |path: &str, text: &str| files.push((path.to_owned(), text.into()));
        for (place, node, n, disk, state) in
            [(one, "0\n", 0, "sda", "active/optimized\n"), (other, "1\n", 1, "sdb", "standby\n")]
        {
            let path =
                format!("{place}/host{n}/rport-{n}:0-1/target{n}:0:1/{n}:0:1:0/block/{disk}");
            add(&format!("sys/block/{disk}"), &format!("-> ../{path}"));
            add(&format!("sys/{place}/numa_node"), node);
            for (file, text) in [
                ("size", "2048\n"),
                ("ro", "0\n"),
                ("device/wwid", "naa.600a0b80001111550000ee0000000001\n"),
                ("device/model", "INF-01-00\n"),
                ("device/state", "running\n"),
                ("device/access_state", state),
                ("holders/dm-0/x", ""),
            ] {
                add(&format!("sys/{path}/{file}"), text);
            }
        }
        for (name, file, text) in [
            ("dm-0", "size", "2048\n"),
            ("dm-0", "dm/uuid", "mpath-3600"),
            ("dm-0", "slaves/sda/x", ""),
            ("dm-0", "slaves/sdb/x", ""),
            ("dm-0", "holders/dm-1/x", ""),
            ("dm-1", "size", "64\n"),
            ("dm-1", "dm/uuid", "part1-mpath-3600"),
            ("dm-1", "slaves/dm-0/x", ""),
        ] {
            add(&format!("sys/block/{name}"), &format!("-> ../devices/virtual/block/{name}"));
            add(&format!("sys/devices/virtual/block/{name}/{file}"), text);
        }
        add("proc/self/mountinfo", "1 0 0:1 / / rw - tmpfs tmpfs rw\n");
        let machine = tree_from_bytes(&files);
        let block = super::super::block(&machine);
        assert_eq!(machine.problems(), []);
        block
    }

    #[test]
    fn multipath_device_is_the_install_target_and_its_paths_are_not() {
        let block = lun();
        has(
            &block,
            &json!({
                "n_disks": 1, "physical_bytes": 2048 * 512, "disks/0/name": "dm-0", "disks/0/eligible": true,
                "disks/1/name": "sda", "disks/2/name": "sdb", "disks/3": null,
            }),
        );
        for path in &block.disks[1..] {
            assert!(!path.eligible && path.not_eligible_because[0].contains("dm-0"), "{path:?}");
        }
    }

    #[test]
    fn lun_has_the_identity_of_its_paths_but_no_place_and_mappings_as_partitions() {
        has(
            &lun().disks[0],
            &json!({
                "wwn": "0x600a0b80001111550000ee0000000001", "model": "INF-01-00", "transport": "fc",
                "pci_address": null, "numa_node": null, "paths/0/ana_state": "active/optimized",
                "paths/1/ana_state": "standby", "paths/1/hctl": "1:0:1:0", "paths/1/numa_node": 1,
                "partitions/0/name": "dm-1", "partitions/0/number": 1, "partitions/0/start_bytes": 4096,
                "partitions/0/filesystem/kind": "xfs",
            }),
        );
    }
}
