//! The graph of a small tree, read in both ways: as the report reads it, and around one disk.

use super::*;
use crate::block::listing;
use crate::testing::{files_in, tree, tree_from};

const DEVICES: &str = "sys/devices/virtual/block";
const MOUNTS: (&str, &str) = ("proc/self/mountinfo", "1 0 0:1 / / rw - tmpfs none rw\n");

/// `sda` with two partitions, the second one in an array with `sdb`; on the array are a partition and two
/// volumes, one on the other.
fn files<'a>(more: &[(&'a str, &'a str)]) -> Vec<(String, &'a str)> {
    let tree = files_in(&[
        ("sys/dev/block", &[("8:0", "-> ../../devices/x/block/sda")]),
        ("sys/dev/block", &[("8:16", "-> ../../devices/x/block/sdb")]),
        ("sys/block", &[("sda", "-> ../devices/x/block/sda")]),
        ("sys/block", &[("sdb", "-> ../devices/x/block/sdb")]),
        ("sys/block", &[("md0", "-> ../devices/virtual/block/md0")]),
        ("sys/block", &[("dm-0", "-> ../devices/virtual/block/dm-0")]),
        ("sys/block", &[("dm-1", "-> ../devices/virtual/block/dm-1")]),
        ("sys/class/block", &[("sdb", "-> ../../devices/x/block/sdb")]),
        ("sys/class/block", &[("sda1", "-> ../../devices/x/block/sda/sda1")]),
        ("sys/devices/x/block/sda", &[("size", "4096"), ("dev", "8:0")]),
        ("sys/devices/x/block/sda/sda1", &[("partition", "1"), ("dev", "8:1")]),
        ("sys/devices/x/block/sda/sda2", &[("partition", "2"), ("dev", "8:2")]),
        ("sys/devices/x/block/sda/sda2/holders", &[("md0", "-> ../../../../../virtual/block/md0")]),
        ("sys/devices/x/block/sdb", &[("size", "4096"), ("dev", "8:16")]),
        ("sys/devices/x/block/sdb/holders", &[("md0", "-> ../../../../virtual/block/md0")]),
        ("sys/devices/virtual/block/md0", &[("dev", "9:0"), ("md/level", "raid1")]),
        ("sys/devices/virtual/block/md0/slaves", &[("sda2/x", ""), ("sdb/x", "")]),
        ("sys/devices/virtual/block/md0/holders", &[("dm-0", "-> ../../dm-0")]),
        ("sys/devices/virtual/block/md0/md0p1", &[("partition", "1")]),
        ("sys/devices/virtual/block", &[("md0/md0p1/dev", "259:0"), ("dm-0/dev", "253:0")]),
        ("sys/devices/virtual/block/dm-0", &[("dm/name", "vg-a"), ("slaves/md0/x", "")]),
        ("sys/devices/virtual/block/dm-0/holders", &[("dm-1", "-> ../../dm-1")]),
        ("sys/devices/virtual/block/dm-1", &[("dev", "253:1")]),
        ("sys/devices/virtual/block/dm-1", &[("dm/uuid", "CRYPT-1"), ("slaves/dm-0/x", "")]),
    ]);
    let more = more.iter().map(|(path, text)| ((*path).to_owned(), *text));
    tree.into_iter().chain(more).collect()
}

/// The graph as the report reads it, and the one around `sda`.
fn both(more: &[(&str, &str)]) -> [DeviceGraph; 2] {
    let machine = tree_from(&files(more));
    let listed = listed(&machine, &listing::list(&machine));
    let (fresh, disk) = around(&tree_from(&files(more)), "8:0").unwrap();
    assert_eq!(disk, "sda");
    [listed, fresh]
}

fn uses(graph: &DeviceGraph) -> Vec<String> {
    let text = |used: Use<'_>| match used {
        Use::Mounted(name, places) => format!("{name} at {}", places.join(" ")),
        Use::Swap(name) => format!("{name} swap"),
        Use::Held(name, holders) => format!("{name} < {}", holders.join(" ")),
    };
    graph.uses("sda").into_iter().map(text).collect()
}

#[test]
fn both_graphs_have_the_same_devices_parts_and_holders() {
    for graph in both(&[MOUNTS]) {
        assert_eq!(graph.parts("sda"), ["sda", "sda1", "sda2"]);
        assert_eq!(graph.reach("sda"), ["sda", "sda1", "sda2", "md0", "md0p1", "dm-0", "dm-1"]);
        assert_eq!(graph.above("sda"), BTreeSet::from(["dm-0", "dm-1", "md0", "md0p1"]));
        assert_eq!(graph.directly_above("sda").collect::<Vec<_>>(), ["md0"]);
        assert_eq!(graph.holders_of("sda2"), ["md0"]);
        assert_eq!(uses(&graph), ["sda2 < md0", "md0 < dm-0", "dm-0 < dm-1"]);
        assert!(graph.above("dm-1").is_empty() && graph.above("no such device").is_empty());
        let md0 = graph.node("md0").unwrap();
        assert!(md0.is_array && !md0.is_partition && graph.node("md0p1").unwrap().is_partition);
        assert_eq!(md0.slaves, ["sda2", "sdb"]);
        let (lower, upper) = (graph.node("dm-0").unwrap(), graph.node("dm-1").unwrap());
        assert_eq!(lower.mapper_name.as_deref(), Some("vg-a"));
        assert_eq!(
            (upper.uuid.as_deref(), upper.number.as_deref()),
            (Some("CRYPT-1"), Some("253:1"))
        );
    }
}

#[test]
fn mount_or_swap_on_any_device_above_a_disk_is_a_use_in_both_graphs() {
    // What is mounted or swap, and the use that it is.
    for (mount, swap, expected) in [
        ("2 1 8:0 / /a rw - xfs /dev/sda rw", "", "sda at /a"),
        ("2 1 8:1 / /a rw - xfs /dev/root rw", "", "sda1 at /a"),
        ("2 1 259:0 / /a rw - xfs /dev/md0p1 rw", "", "md0p1 at /a"),
        ("2 1 253:1 / /a rw - xfs /dev/mapper/x rw", "", "dm-1 at /a"),
        // File systems on several devices have numbers of their own.
        ("2 1 0:40 / /a rw - btrfs /dev/sda1 rw", "", "sda1 at /a"),
        ("2 1 0:40 / /a rw - btrfs /dev/block/8:1 rw", "", "sda1 at /a"),
        ("2 1 0:40 / /a rw - btrfs /dev/mapper/vg-a rw", "", "dm-0 at /a"),
        ("2 1 8:1 / /a rw - xfs x rw\n3 1 8:1 / /b rw - xfs x rw", "", "sda1 at /a /b"),
        ("", "/dev/sda1", "sda1 swap"),
        ("", "/dev/sda1\\040(deleted)", "sda1 swap"),
        ("", "/dev/block/259:0", "md0p1 swap"),
        ("", "/dev/mapper/vg-a", "dm-0 swap"),
    ] {
        let mounts = format!("1 0 0:1 / / rw - tmpfs none rw\n{mount}\n").replace("\n\n", "\n");
        let swaps = format!("Filename Type\n{swap} partition 1 0 -2\n");
        let swaps = if swap.is_empty() { "Filename Type\n" } else { &swaps };
        for graph in both(&[("proc/self/mountinfo", &mounts), ("proc/swaps", swaps)]) {
            let found = uses(&graph);
            assert_eq!(found.len(), 4, "{found:?}");
            assert!(found.iter().any(|found| found == expected), "{expected}: {found:?}");
        }
    }
}

#[test]
fn btrfs_that_is_mounted_by_another_disk_uses_all_its_members() {
    let more = [
        ("proc/self/mountinfo", "1 0 0:40 / /data rw - btrfs /dev/sdb rw\n"),
        ("sys/fs/btrfs/7b1f/devices/sda1/size", "8"),
        ("sys/fs/btrfs/7b1f/devices/sdb/size", "8"),
    ];
    for graph in both(&more) {
        assert!(uses(&graph).contains(&"sda1 at /data".to_owned()), "{:?}", uses(&graph));
    }
}

#[test]
fn loop_device_on_a_disk_or_partition_is_a_use_with_everything_above_it() {
    let at = |path: &str| format!("{DEVICES}/loop0/{path}");
    let paths = ["loop/backing_file", "dev", "size", "holders/dm-5"].map(at);
    for (file, number, expected) in [
        ("/dev/sda1", "7:0", &["sda1 < loop0", "loop0 at /a"][..]),
        ("/dev/mapper/vg-a", "7:0", &["dm-0 < dm-1 loop0", "loop0 at /a"]),
        ("/dev/sda1", "253:5", &["sda1 < loop0", "loop0 < dm-5"]),
        ("/srv/a.img", "7:0", &[]),
    ] {
        let mounts = format!("{}2 1 {number} / /a rw - ext4 /dev/loop0 rw\n", MOUNTS.1);
        let more = [
            ("sys/block/loop0", "-> ../devices/virtual/block/loop0"),
            ("sys/class/block/dm-0/dm/name", "vg-a"),
            ("sys/class/block/loop0", "-> ../../devices/virtual/block/loop0"),
            ("sys/dev/block/7:0", "-> ../../devices/virtual/block/loop0"),
            ("sys/dev/block/253:5", "-> ../../devices/virtual/block/dm-5"),
            (&paths[0], file),
            (&paths[1], "7:0"),
            (&paths[2], "8"),
            (&paths[3], "-> ../../dm-5"),
            ("proc/self/mountinfo", &mounts),
        ];
        for graph in both(&more) {
            let found = uses(&graph);
            for text in expected {
                assert!(found.iter().any(|found| found == text), "{file}: {found:?}");
            }
            assert_eq!(found.concat().contains("loop0"), !expected.is_empty(), "{file}");
        }
    }
}

#[test]
fn devices_that_only_one_side_links_and_devices_that_hold_each_other_are_found() {
    let circle = (&*format!("{DEVICES}/dm-1/holders/dm-0"), "-> ../../dm-0");
    for graph in both(&[MOUNTS, circle]) {
        assert_eq!(graph.reach("sda").len(), 7);
        assert!(uses(&graph).contains(&"dm-1 < dm-0".to_owned()));
    }
    // An array without links, which only its own list and the holder name.
    let machine = tree(&[
        ("sys/block/sda/size", "8"),
        ("sys/block/sdb/holders/dm-5/x", ""),
        ("sys/block/sdb/size", "8"),
        ("sys/block/md0/md/dev-sda/x", ""),
        MOUNTS,
    ]);
    let graph = listed(&machine, &listing::list(&machine));
    assert_eq!(uses(&graph), ["sda < md0"]);
    assert_eq!(graph.uses("sdb"), [Use::Held("sdb", vec!["dm-5"])]);
}

#[test]
fn mount_by_a_link_of_udev_is_a_use_of_the_disk_that_the_link_leads_to() {
    let mount = "1 0 0:40 / /data rw - btrfs /dev/disk/by-path/pci-part1 rw\n";
    let link = ("dev/disk/by-path/pci-part1", "-> ../../sda1");
    let udev = ("run/udev/data/b8:1", "S:disk/by-path/pci-part1\n");
    for graph in both(&[("proc/self/mountinfo", mount), link, udev]) {
        assert_eq!(uses(&graph)[0], "sda1 at /data");
    }
}

#[test]
fn swap_area_by_a_link_of_udev_to_the_whole_disk_is_a_use() {
    let swaps = ("proc/swaps", "Filename Type\n/dev/disk/by-id/x partition 1 0 -2\n");
    let link = ("dev/disk/by-id/x", "-> ../../sda");
    let class = ("sys/class/block/sda", "-> ../../devices/x/block/sda");
    for graph in both(&[MOUNTS, swaps, link, class, ("run/udev/data/b8:0", "S:disk/by-id/x\n")]) {
        assert_eq!(uses(&graph)[0], "sda swap");
    }
}

#[test]
fn mount_or_swap_of_a_device_that_is_in_no_graph_is_unresolved_if_it_may_be_on_a_disk() {
    // A volume group may have any name, such as `loop1`.
    for (mount, swap, expected) in [
        ("btrfs /dev/disk/by-path/x", "", Some("/dev/disk/by-path/x is mounted at /a")),
        ("xfs /dev/loop1/root", "", Some("/dev/loop1/root is mounted at /a")),
        ("tmpfs none", "/dev/mapper/x partition", Some("/dev/mapper/x is a swap area")),
        ("tmpfs /dev/shm", "/dev/zram0 partition", None),
        ("nfs4 filer:/dev/x", "", None),
        ("squashfs /dev/loop1", "", None),
        ("fuse /dev/fuse", "/dev/swapfile file", None),
    ] {
        let mounts = format!("1 0 0:40 / /a rw - {mount} rw\n");
        let swaps = format!("Filename Type\n{swap}\n");
        let files = files(&[("proc/self/mountinfo", &mounts), ("proc/swaps", &swaps)]);
        let machine = tree_from(&files);
        let graph = listed(&machine, &listing::list(&machine));
        assert_eq!(graph.usage.unresolved.first().map(String::as_str), expected, "{mount} {swap}");
        let fresh = around(&tree_from(&files), "8:0").err();
        assert_eq!(fresh, expected.map(|what| format!("{what}, and its disk is unknown")));
    }
}

#[test]
fn more_devices_than_any_plausible_stack_are_an_error() {
    let holders: Vec<String> =
        (10..270).map(|n| format!("sys/devices/x/block/sda/holders/dm-{n}/x")).collect();
    let mut files = files(&[MOUNTS]);
    files.extend(holders.into_iter().map(|path| (path, "")));
    let why = around(&tree_from(&files), "8:0").unwrap_err();
    assert_eq!(why, "more than 256 devices are built on it");
}
