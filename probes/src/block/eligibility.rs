//! Reasons against an install on a disk, judged by the disk alone; each is a sentence. Reasons that depend on an
//! instruction (too small, not the named disk) are judged later. If something is unclear, that is a reason too.
//!
//! Trees captured by other programs may lack the mount table and the bytes of disks. Only there their absence is not a
//! reason; on the running machine and in our own captures it is.

use std::collections::BTreeMap;

use crate::machine::{Machine, quote};

use super::content::Content;
use super::content_reader::is_fault;
use super::disk::{Disk, Volume};
use super::graph::{DeviceGraph, Use};
use super::kernel_name::{emmc_parent, is_floppy, is_optical};
use super::mounts::{Usage, is_live_mount};
use super::obstacle::{Obstacle, ObstacleKind};
use formats::signature::{Filesystem, foreign};
use formats::tcg::DiskTcg;

/// Label prefixes of CoreOS live media.
const LIVE_LABELS: [&str; 4] = ["fedora-coreos-", "rhcos-", "scos-", "coreos-"];

/// Judges all disks.
pub(super) fn judge(
    machine: &Machine,
    disks: &mut [Disk],
    contents: &BTreeMap<String, Content>,
    graph: &DeviceGraph,
) {
    let is_complete = machine.is_live() || machine.is_dir("kernel");
    let names: Vec<String> = disks.iter().map(|disk| disk.name.clone()).collect();
    for disk in disks.iter_mut() {
        disk.part_of = emmc_parent(&disk.name).filter(|parent| names.contains(parent));
        let is_area = |name: &&String| emmc_parent(name).as_ref() == Some(&disk.name);
        disk.areas = names.iter().filter(is_area).cloned().collect();
        let uses = graph.uses(&disk.name);
        disk.is_live_medium = is_live_medium(disk, &uses, &graph.usage);
        let content = contents.get(&disk.name);
        let failure = content.and_then(|content| content.failure.as_ref());
        disk.unreadable_because =
            failure.filter(|failure| is_fault(failure)).map(|failure| failure.why.clone());
        let failure = failure.map(|failure| failure.why.as_str());
        let failure = failure.or_else(|| {
            let is_read = content.is_some_and(|content| content.is_read);
            (is_complete && !is_read && disk.multipath.is_none()).then_some("nothing was read")
        });
        let mut obstacles = obstacles_of_kind(disk);
        obstacles.extend(obstacles_of_state(disk, failure));
        obstacles.extend(obstacles_of_usage(&graph.usage, is_complete));
        obstacles.extend(obstacles_of_use(disk.is_live_medium, &uses));
        obstacles.extend(obstacles_of_content(disk, &graph.usage));
        obstacles.extend(content.map(obstacles_of_reading).unwrap_or_default());
        disk.sample_failure = content.and_then(|content| content.sample_failure.clone());
        disk.is_content_denied = content.is_some_and(|content| content.is_denied);
        disk.eligible = obstacles.is_empty();
        disk.not_eligible_because = obstacles.iter().map(|found| found.text.clone()).collect();
        disk.obstacles = obstacles;
    }
}

/// Obstacles from unknown mounts and swap areas of the whole machine.
fn obstacles_of_usage(usage: &Usage, is_complete: bool) -> Vec<Obstacle> {
    let mut found = Vec::new();
    if usage.is_incomplete || is_complete && !usage.is_known {
        found.push(ObstacleKind::Unknown.because("the mounted file systems are unknown"));
    }
    if usage.is_swap_incomplete {
        found.push(ObstacleKind::Unknown.because("the swap areas in use are unknown"));
    }
    let unresolved = usage.unresolved.iter();
    let unresolved = unresolved.map(|source| format!("{source}, and its disk is unknown"));
    found.extend(unresolved.map(|text| ObstacleKind::Unknown.because(text)));
    found
}

/// Obstacles from the kind of device.
fn obstacles_of_kind(disk: &Disk) -> Vec<Obstacle> {
    let name = disk.name.as_str();
    let is = |is_so: bool, text: &str| is_so.then(|| text.to_owned());
    let instead = |what: &str, unit: &String| format!("{what} {unit}; use that instead");
    let is_memory = disk.transport.as_deref() == Some("nvdimm");
    let odd_blocks = disk.logical_block_bytes.filter(|_| disk.coreos_image.is_none());
    let structural = [
        is(is_optical(name), "an optical drive"),
        is(is_floppy(name), "a floppy drive"),
        is(emmc_parent(name).is_some(), "a boot or other special area of an eMMC"),
        is(disk.is_bmc_medium(), "virtual media of a management controller"),
        is(is_memory, "persistent memory, which firmware cannot boot from"),
        disk.multipath.as_ref().map(|map| instead("a path of the multipath device", map)),
        disk.raid_member_of.as_ref().map(|unit| instead("a member of the RAID volume", unit)),
        is(disk.hidden == Some(true), "hidden by the kernel"),
        odd_blocks.map(|n| format!("blocks of {n} bytes, which no CoreOS image supports")),
        is(disk.zoned.as_deref() == Some("host-managed"), "a host-managed zoned disk"),
    ];
    let structural = structural.into_iter().flatten();
    let structural = structural.map(|text| ObstacleKind::Structural.because(text));
    // One of the two may well be the one that is meant.
    let shared = disk.shared_identities().filter(|_| disk.multipath.is_none()).map(|issue| {
        format!("{issue}: a second path to the same LUN without multipath, or a duplicate")
    });
    structural.chain(shared.map(|text| ObstacleKind::SharedIdentity.because(text))).collect()
}

/// Obstacles from the state that the kernel or the disk itself reports.
fn obstacles_of_state(disk: &Disk, failure: Option<&str>) -> Vec<Obstacle> {
    use ObstacleKind::{Removable, State, Structural, Unknown};
    let is = |is_so: bool, kind: ObstacleKind, text: &str| is_so.then(|| kind.because(text));
    let lock = disk.tcg.as_ref().and_then(DiskTcg::obstacle);
    let is_removable = disk.is_removable == Some(true);
    // The flag is the same for `blockdev --setro` and for a switch on the drive (`bdev_read_only`), so the disk may
    // well be the one that is meant.
    let of_read_only = if disk.is_write_protected { Structural } else { State };
    // A drive without a medium contains nothing that could be meant. A fixed disk without a
    // capacity may still be starting.
    let of_no_size = if is_removable { Structural } else { State };
    let state = disk.state.as_deref().filter(|state| !["running", "live"].contains(state));
    let found = [
        is(disk.is_locked_by_password(), State, "locked by an ATA password"),
        lock.map(|text| State.because(text)),
        is(is_removable, Removable, "removable"),
        is(disk.is_read_only == Some(true), of_read_only, "read-only"),
        is(disk.size_bytes == Some(0), of_no_size, "size zero: no medium, or not ready"),
        is(disk.size_bytes.is_none(), Unknown, "size unknown"),
        state.map(|state| State.because(format!("its state is {}", quote(state)))),
        failure.map(|why| Unknown.because(format!("its first bytes cannot be read: {why}"))),
    ];
    found.into_iter().flatten().collect()
}

/// Obstacles from how the running system uses it.
fn obstacles_of_use(is_live_medium: bool, uses: &[Use<'_>]) -> Vec<Obstacle> {
    let mut found = Vec::new();
    if is_live_medium {
        found.push(ObstacleKind::Structural.because("the medium of the running live system"));
    }
    for used in uses {
        match used {
            Use::Mounted(name, places) => found.extend(places.iter().map(|place| {
                ObstacleKind::Mounted.because(format!("in use: {name} is mounted at {place}"))
            })),
            Use::Swap(name) => {
                found.push(ObstacleKind::Active.because(format!("in use: {name} is a swap area")));
            }
            Use::Held(name, holders) => found.extend(holders.iter().map(|holder| {
                ObstacleKind::Active.because(format!("in use: {name} is held by {holder}"))
            })),
        }
    }
    found
}

/// Obstacles from its content.
fn obstacles_of_content(disk: &Disk, usage: &Usage) -> Vec<Obstacle> {
    let mut found = Vec::new();
    for (name, filesystem) in contents(disk) {
        let foreign = foreign::of_volume(&name, filesystem);
        found.extend(foreign.map(|text| ObstacleKind::Content.because(text)));
        let is_live = |label: &str| {
            LIVE_LABELS.iter().any(|start| label.starts_with(start))
                || usage.live_labels.iter().any(|known| known == label)
        };
        if filesystem.kind == "iso9660" && filesystem.label.as_deref().is_some_and(is_live) {
            let label = filesystem.label.as_deref().unwrap_or_default();
            // The running system may have been started from it, although no argument names it.
            let text = format!("{name} contains the live image {}", quote(label));
            found.push(ObstacleKind::LiveImage.because(text));
        }
    }
    let is_named =
        |name: &str| found.iter().any(|known| known.text.starts_with(&format!("{name} ")));
    let by_type = disk.partitions.iter().filter(|partition| !is_named(&partition.name));
    let by_type = by_type
        .filter_map(|p| foreign::of_type(&p.name, p.type_uuid.as_deref().unwrap_or_default()));
    let by_type: Vec<Obstacle> = by_type.map(|text| ObstacleKind::Content.because(text)).collect();
    found.extend(by_type);
    found
}

/// Obstacles from parts that could not be read, and from partitions that the kernel does not know.
fn obstacles_of_reading(content: &Content) -> Vec<Obstacle> {
    let is_backup = content.table.as_ref().is_some_and(|table| table.is_backup);
    let why = if is_backup { "only the backup table has" } else { "the kernel does not have" };
    let lost = content.lost_partitions.iter().filter_map(|(number, filesystem)| {
        let name = format!("partition {number}, which {why},");
        foreign::of_volume(&name, filesystem).map(|text| ObstacleKind::Content.because(text))
    });
    lost.chain(content.unread.iter().cloned()).collect()
}

/// The content of the disk and of the partitions that the kernel has.
fn contents(disk: &Disk) -> impl Iterator<Item = (String, &Filesystem)> {
    let is_listed = |volume: &Volume<'_>| volume.partition.is_some() || volume.name == disk.name;
    disk.volumes().filter(is_listed).map(|volume| (volume.name, volume.filesystem))
}

fn is_live_medium(disk: &Disk, uses: &[Use<'_>], usage: &Usage) -> bool {
    let is_live =
        |found: &Use| matches!(found, Use::Mounted(_, at) if at.iter().any(|at| is_live_mount(at)));
    let is_named = |(_, filesystem): (String, &Filesystem)| {
        filesystem.label.as_ref().is_some_and(|label| usage.live_labels.contains(label))
    };
    // A disk with the same label as the medium that is mounted is a copy of it.
    let mut mounts = usage.mounted_at.values().flatten();
    let is_known = mounts.any(|place| is_live_mount(place));
    uses.iter().any(is_live) || !is_known && contents(disk).any(is_named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tree, tree_in};

    const SIZE: (&str, &str) = ("sys/block/sda/size", "2048\n");
    const EMPTY: (&str, &str) = ("sys/block/sda/size", "0");
    const REMOVABLE: (&str, &str) = ("sys/block/sda/removable", "1\n");
    const DEV: (&str, &str) = ("sys/block/sda/dev", "8:0\n");
    const MOUNTS: (&str, &str) = ("proc/self/mountinfo", "1 0 8:0 / /data rw - xfs /dev/sda rw\n");

    fn reasons(files: &[(&str, &str)]) -> Vec<String> {
        let disk = &super::super::block(&tree(files)).disks[0];
        assert_eq!(disk.eligible, disk.not_eligible_because.is_empty());
        disk.not_eligible_because.clone()
    }

    #[test]
    fn each_flaw_is_a_reason_of_the_kind_that_decides_whether_it_can_be_overruled() {
        use ObstacleKind as Kind;
        let virtio = |features| {
            let size = ("sys/block/vda/size", "2048\n");
            [size, ("sys/block/vda/ro", "1"), ("sys/block/vda/device/features", features)]
        };
        let udev = |text| [SIZE, DEV, ("run/udev/data/b8:0", text)];
        let none: &[(Kind, &str)] = &[];
        for (files, expected) in [
            (&[SIZE][..], none),
            (&[SIZE, ("sys/block/sda/ro", "1")], &[(Kind::State, "read-only")]),
            // The device itself says so, or perhaps it is only by software.
            (&virtio("0000010000\n"), &[(Kind::Structural, "read-only")]),
            (&virtio("1111101111\n"), &[(Kind::State, "read-only")]),
            (&[SIZE, REMOVABLE], &[(Kind::Removable, "removable")]),
            (&[EMPTY], &[(Kind::State, "size zero")]),
            (
                &[EMPTY, REMOVABLE],
                &[(Kind::Removable, "removable"), (Kind::Structural, "size zero")],
            ),
            (&[("sys/block/sda/ro", "0")], &[(Kind::Unknown, "size unknown")]),
            (
                &[SIZE, ("sys/block/sda/queue/logical_block_size", "2048")],
                &[(Kind::Structural, "blocks of 2048 bytes, which no CoreOS image supports")],
            ),
            (
                &[SIZE, ("sys/block/sda/device/state", "offline")],
                &[(Kind::State, "its state is \"offline\"")],
            ),
            (&[("sys/block/sr0/size", "2048")], &[(Kind::Structural, "an optical drive")]),
            (
                &[("sys/block/mmcblk0boot0/size", "8")],
                &[(Kind::Structural, "a boot or other special area of an eMMC")],
            ),
            (&[SIZE, DEV, MOUNTS], &[(Kind::Mounted, "in use: sda is mounted at /data")]),
            (
                &[SIZE, ("sys/block/dm-0/slaves/sda/x", "")],
                &[(Kind::Active, "in use: sda is held by dm-0")],
            ),
            (
                &udev("E:ID_FS_TYPE=zfs_member\nE:ID_FS_LABEL=tank\n"),
                &[(Kind::Content, "sda is a member of an array or pool: zfs_member \"tank\"")],
            ),
            (
                &udev("E:ID_FS_TYPE=iso9660\nE:ID_FS_LABEL=rhcos-419\n"),
                &[(Kind::LiveImage, "sda contains the live image \"rhcos-419\"")],
            ),
            (&[SIZE, ("proc/swaps", "")], &[(Kind::Unknown, "the swap areas in use are unknown")]),
            (
                &[SIZE, ("proc/self/mountinfo", "1 0 0:40 / /data rw - btrfs /dev/disk/x rw\n")],
                &[(Kind::Unknown, "/dev/disk/x is mounted at /data, and its disk is unknown")],
            ),
        ] {
            let disk = super::super::block(&tree(files)).disks.remove(0);
            assert_eq!(disk.eligible, expected.is_empty(), "{files:?}");
            assert_eq!(disk.obstacles.len(), expected.len(), "{:?}", disk.obstacles);
            for (found, (kind, text)) in disk.obstacles.iter().zip(expected) {
                assert_eq!(found.kind, *kind, "{files:?}");
                assert!(found.text.starts_with(text), "{found:?}");
            }
        }
    }

    #[test]
    fn mount_on_a_device_above_a_disk_makes_it_ineligible() {
        let found = reasons(&[
            ("sys/block/sda/size", "2048\n"),
            ("sys/block/sda/sda1/partition", "1\n"),
            ("sys/block/md0/slaves/sda1/x", ""),
            ("sys/block/md0/md/level", "raid1"),
            ("sys/block/dm-0/slaves/md0/x", ""),
            ("sys/block/dm-0/dev", "253:0"),
            ("proc/self/mountinfo", "1 0 253:0 / /data rw - xfs /dev/mapper/x rw\n"),
        ]);
        assert_eq!(
            found,
            [
                "in use: sda1 is held by md0",
                "in use: md0 is held by dm-0",
                "in use: dm-0 is mounted at /data"
            ]
        );
    }

    #[test]
    fn unreadable_empty_or_headless_lists_make_disks_ineligible_and_absent_ones_do_not() {
        let mounts = &["the mounted file systems are unknown"][..];
        let swaps = &["the swap areas in use are unknown"][..];
        for (path, content, expected, is_swap) in [
            ("proc/other", "", &[][..], None),
            ("proc/swaps", "Filename Type\n", &[], Some(false)),
            // A directory cannot be read as a file.
            ("proc/swaps/x", "", swaps, None),
            ("proc/swaps", "", swaps, None),
            ("proc/swaps", "/dev/sda2 partition 1 0 -2\n", swaps, None),
            ("proc/self/mountinfo", "", mounts, None),
            ("proc/self/mountinfo", "\n", mounts, None),
        ] {
            let files = [("sys/block/sda/size", &b"2048\n"[..]), (path, content.as_bytes())];
            let machine = crate::testing::tree_of_bytes(&files);
            let disk = super::super::block(&machine).disks.remove(0);
            assert_eq!(disk.not_eligible_because, expected, "{path} {content:?}");
            assert_eq!(disk.is_swap, is_swap, "{path} {content:?}");
            assert_eq!(machine.problems().len(), expected.len(), "{path} {content:?}");
        }
    }

    #[test]
    fn live_medium_is_known_by_its_mount_and_by_its_label() {
        let disk = [("sys/block/sda/size", "2048\n"), ("sys/block/sda/dev", "8:0\n")];
        let mount = ("proc/self/mountinfo", "1 0 8:0 / /run/media/iso ro - iso9660 /dev/sda ro\n");
        assert!(reasons(&[disk[0], disk[1], mount])[0].contains("live system"));
        let label = ("run/udev/data/b8:0", "E:ID_FS_TYPE=iso9660\nE:ID_FS_LABEL=my-image\n");
        assert!(reasons(&[disk[0], disk[1], label]).is_empty());
        let argument = ("proc/cmdline", "coreos.liveiso=my-image\n");
        assert!(reasons(&[disk[0], disk[1], label, argument])[0].contains("live system"));
        let other =
            ("run/udev/data/b8:0", "E:ID_FS_TYPE=iso9660\nE:ID_FS_LABEL=fedora-coreos-42\n");
        assert!(reasons(&[disk[0], disk[1], other])[0].contains("live image"));
    }

    #[test]
    fn copy_of_the_live_medium_is_not_the_medium() {
        let iso = "E:ID_FS_TYPE=iso9660\nE:ID_FS_LABEL=my-image\n";
        let files = [
            SIZE,
            DEV,
            ("sys/block/sdb/size", "2048\n"),
            ("sys/block/sdb/dev", "8:16\n"),
            ("run/udev/data/b8:0", iso),
            ("run/udev/data/b8:16", iso),
            ("proc/cmdline", "coreos.liveiso=my-image\n"),
            ("proc/self/mountinfo", "1 0 8:16 / /run/media/iso ro - iso9660 /dev/sdb ro\n"),
        ];
        let kinds = |files: &[(&str, &str)]| -> Vec<ObstacleKind> {
            let disks = super::super::block(&tree(files)).disks;
            disks.iter().map(|disk| disk.obstacles[0].kind).collect()
        };
        assert_eq!(kinds(&files), [ObstacleKind::LiveImage, ObstacleKind::Structural]);
        assert_eq!(kinds(&files[..7]), [ObstacleKind::Structural; 2], "which one is unknown");
    }

    #[test]
    fn pulled_live_medium_is_no_obstacle_for_other_disks() {
        let mount = |place: &str, number: &str| {
            let line = format!("1 0 {number} / {place} ro - iso9660 /dev/sdb1 ro\n");
            reasons(&[SIZE, DEV, ("proc/self/mountinfo", &line)])
        };
        assert_eq!(mount("/run/media/iso", "8:17"), [] as [&str; 0]);
        assert_eq!(mount("/data", "8:17").len(), 1, "another file system");
        assert_eq!(mount("/run/media/iso", "0:40").len(), 1, "its device is unknown");
        assert!(mount("/run/media/iso", "8:0")[0].contains("live system"));
    }

    #[test]
    fn areas_of_an_emmc_belong_to_it_and_do_not_count() {
        let block = super::super::block(&tree_in(&[
            ("sys/block/mmcblk0", &[("size", "2048")]),
            ("sys/block", &[("mmcblk0boot0/size", "8"), ("mmcblk0rpmb/size", "8")]),
        ]));
        assert_eq!((block.n_disks, block.physical_bytes), (Some(1), Some(2048 * 512)));
        assert_eq!(block.disks[0].areas, ["mmcblk0boot0", "mmcblk0rpmb"]);
        assert!(block.disks[0].eligible);
        assert_eq!(block.disks[1].part_of.as_deref(), Some("mmcblk0"));
        assert_eq!(emmc_parent("mmcblk10"), None);
        assert_eq!(emmc_parent("mmcblk0p1"), None);
    }

    #[test]
    fn in_our_own_capture_what_was_not_read_is_a_reason() {
        let size = ("sys/block/sda/size", "2048\n");
        let found = reasons(&[size, ("kernel/rtnetlink/link", "")]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("cannot be read") && found[1].contains("mounted"));
    }
}
