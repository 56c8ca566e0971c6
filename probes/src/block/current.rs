//! The kernel's current view of one disk, for an install that is about to write it: whether it is still the disk of the
//! report, and whether it is in use.
//!
//! Sources: `/sys/dev/block/<major>:<minor>` (`size`, `ro`, `serial`, `wwid`, `nguid`, `eui`, `diskseq`,
//! `device/{serial,wwid,vpd_pg80}`, `dm/uuid`, `holders`), kernel `Documentation/ABI/stable/sysfs-block`,
//! `sysfs-block-device`, `testing/sysfs-block-dm`; `/proc/self/mountinfo` and `/proc/swaps`.
//!
//! udev's database is not read here: it may still describe the disk that had this number before.

use formats::text::padded;
use formats::vpd;
use formats::wwn;

use crate::machine::Machine;

use super::graph::{self, Use};
use super::sysfs_path::by_number;

/// Maximum number of a partition's mounts or holders that are named.
const MAX_NAMED: usize = 16;

/// The kernel's current facts about a device number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentDisk {
    /// Kernel name, e.g. `sda`.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// True if it cannot be written.
    pub is_read_only: Option<bool>,
    /// Serial number, as far as sysfs has it.
    pub serial: Option<String>,
    /// WWN or other identifiers, as far as sysfs has them.
    pub wwns: Vec<String>,
    /// Number that the kernel gives each disk that appears, since Linux 5.15.
    pub diskseq: Option<u64>,
}

/// Current uses of a disk and its partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CurrentUse {
    /// Description of each use, e.g. `sda1 is mounted at /boot`.
    pub uses: Vec<String>,
    /// Partitions of a multipath device: separate mappings, which hold it (kpartx(8)).
    pub mapped_partitions: Vec<String>,
}

/// Reads the kernel's current facts about the disk of this number; `None` if it does not exist.
pub fn current(machine: &Machine, device_number: &str) -> Option<CurrentDisk> {
    let path = by_number(machine, device_number)?;
    let text = |attribute: &str| machine.text(&format!("{path}/{attribute}"));
    let trimmed = |name: &&str| padded(text(name)?.as_bytes());
    let serial = ["serial", "device/serial"].iter().find_map(trimmed);
    let serial = serial.or_else(|| {
        let page = machine.bytes(&format!("{path}/device/vpd_pg80"))?;
        vpd::unit_serial(&page)
    });
    let wwns = ["wwid", "device/wwid", "nguid", "eui"].iter().filter_map(trimmed);
    let wwns = wwns.chain(text("dm/uuid").and_then(|uuid| wwn::of_multipath(&uuid)));
    let n_sectors: Option<u64> = machine.number(&format!("{path}/size"));
    Some(CurrentDisk {
        name: path.rsplit('/').next().unwrap_or_default().to_owned(),
        size_bytes: n_sectors.and_then(|sectors| sectors.checked_mul(512)),
        is_read_only: machine.flag(&format!("{path}/ro")),
        serial: serial.filter(|text| !wwn::is_blank(text)),
        wwns: wwns.filter(|text| !wwn::is_blank(text)).collect(),
        diskseq: machine.number(&format!("{path}/diskseq")),
    })
}

/// Reads the current uses of the disk with this number.
///
/// # Errors
/// A message that names the facts that could not be read, so that the disk may be in use.
pub fn current_use(machine: &Machine, device_number: &str) -> Result<CurrentUse, String> {
    let (graph, disk) = graph::around(machine, device_number)?;
    let parts = graph.parts(&disk);
    let mut found = CurrentUse::default();
    for used in graph.uses(&disk) {
        match used {
            Use::Mounted(name, places) if parts.contains(&name) => {
                let at = places.iter().map(|place| format!("{name} is mounted at {place}"));
                found.uses.extend(at.take(MAX_NAMED));
            }
            Use::Swap(name) if parts.contains(&name) => {
                found.uses.push(format!("{name} is swap space"));
            }
            Use::Held(name, mut holders) if parts.contains(&name) => {
                holders.truncate(MAX_NAMED);
                found.uses.push(format!("{name} is held by {}", holders.join(", ")));
            }
            // What is above the disk also holds a part of it.
            Use::Mounted(..) | Use::Swap(_) | Use::Held(..) => {}
        }
    }
    let is_mapping = |name: &&&str| graph.node(name).is_some_and(|node| !node.is_partition);
    let mapped = parts.iter().skip(1).filter(is_mapping);
    found.mapped_partitions = mapped.map(|name| (*name).to_owned()).collect();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tree, tree_from, tree_of_bytes};

    const MOUNTS: (&str, &str) = ("proc/self/mountinfo", "1 0 0:1 / / rw - tmpfs none rw\n");

    #[test]
    fn an_identity_is_read_by_the_device_number_and_never_by_a_path() {
        let machine = tree_of_bytes(&[
            ("sys/dev/block/8:0", b"-> ../../devices/x/block/sda"),
            ("sys/devices/x/block/sda/size", b"8\n"),
            ("sys/devices/x/block/sda/ro", b"0\n"),
            ("sys/devices/x/block/sda/device/wwid", b"naa.5000c500a1b2c3d4\n"),
            ("sys/devices/x/block/sda/device/vpd_pg80", b"\0\x80\0\x08  SER-01"),
        ]);
        let found = current(&machine, "8:0").unwrap();
        assert_eq!((found.name.as_str(), found.size_bytes), ("sda", Some(4096)));
        assert_eq!((found.serial.as_deref(), found.is_read_only), (Some("SER-01"), Some(false)));
        assert_eq!(found.wwns, ["naa.5000c500a1b2c3d4"]);
        for number in ["8:1", "", "../../etc", "sda"] {
            assert_eq!(current(&machine, number), None, "{number}");
        }
    }

    fn uses(files: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let disk = [
            ("sys/dev/block/8:0", "-> ../../devices/x/block/sda"),
            ("sys/devices/x/block/sda/dev", "8:0"),
            ("sys/devices/x/block/sda/sda1/partition", "1"),
            ("sys/devices/x/block/sda/sda1/dev", "8:1"),
        ];
        let files = [&disk[..], files].concat();
        current_use(&tree(&files), "8:0").map(|found| found.uses)
    }

    #[test]
    fn mounts_swap_space_and_holders_are_uses_with_the_place_or_the_holder() {
        let other = ("sys/dev/block/8:17", "-> ../../devices/x/block/sdb/sdb1");
        let mounts = "22 1 8:1 / /mnt/my\\040disk rw - ext4 /dev/sda1 rw\n\
                      23 1 8:17 / /mnt rw - xfs /dev/sdb1 rw\n\
                      24 1 0:40 / /data rw - btrfs /dev/sda rw\n";
        let mounts = [("proc/self/mountinfo", mounts), other];
        let swap = ("proc/swaps", "Filename Type\n/dev/sda1 partition 1 0 -2\n");
        let holder = ("sys/devices/x/block/sda/sda1/holders/dm-0", "-> ../../../dm-0");
        for (files, expected) in [
            (&mounts[..], &["sda is mounted at /data", "sda1 is mounted at /mnt/my disk"][..]),
            (&[MOUNTS, swap], &["sda1 is swap space"]),
            (&[MOUNTS, holder], &["sda1 is held by dm-0"]),
            (&[MOUNTS], &[]),
        ] {
            assert_eq!(uses(files).unwrap(), expected);
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_no_unused_disk() {
        assert!(uses(&[]).is_err());
        for bad in
            ["\n", "22 1 8:1 / /mnt", "odd\n", "22 1 8:17 / /mnt rw - xfs /dev/sdb1 rw\n23 1 8"]
        {
            assert!(uses(&[("proc/self/mountinfo", bad)]).is_err(), "{bad}");
        }
        let cut = "Filename Type Size Used Priority\n/dev/sd";
        for bad in [cut, "\n", "/dev/sda1 partition 1 0 -2\n"] {
            assert!(uses(&[MOUNTS, ("proc/swaps", bad)]).is_err(), "{bad}");
        }
        for (operation, path) in
            [("read", "proc/swaps"), ("list", "sys/devices/x/block/sda/sda1/holders")]
        {
            let refused = format!("13:{operation} {path}\n");
            let found = uses(&[MOUNTS, ("kernel/errors", &refused)]);
            assert!(found.as_ref().is_err_and(|why| why.contains(path)), "{found:?}");
        }
        let machine = tree(&[MOUNTS]);
        assert!(current_use(&machine, "8:0").is_err());
    }

    #[test]
    fn mount_of_another_disk_is_no_use_if_the_kernel_knows_that_disk() {
        let class = ("sys/class/block/sdb1", "-> ../../devices/x/block/sdb/sdb1");
        let link = ("dev/disk/by-path/pci-part1", "-> ../../sdb1");
        let mapped = ("sys/class/block/dm-3/dm/name", "vg-x\n");
        for (source, more) in [
            ("/dev/sdb1", &[class][..]),
            ("/dev/disk/by-path/pci-part1", &[class, link]),
            ("/dev/mapper/vg-x", &[mapped]),
        ] {
            let mount = format!("22 1 0:40 / /data rw - btrfs {source} rw\n");
            let files = [&[("proc/self/mountinfo", &*mount)][..], more].concat();
            assert_eq!(uses(&files), Ok(vec![]), "{source}");
        }
        let unknown = ("proc/self/mountinfo", "22 1 8:99 / /x rw - xfs /dev/sdz1 rw\n");
        assert!(uses(&[unknown]).is_err());
    }

    #[test]
    fn mapped_partitions_of_a_lun_are_its_parts_and_every_other_mapping_holds_it() {
        let whole = "mpath-3600508b1001c4d41aabbccddeeff0011";
        let uuids = [
            whole.to_owned(),
            format!("part1-{whole}"),
            "part1-mpath-3600508b1001c4d41aabbccddeeff0099".to_owned(),
            "LVM-abc".to_owned(),
        ];
        let mut files = vec![
            ("sys/dev/block/253:0".to_owned(), "-> ../../devices/virtual/block/dm-0".to_owned()),
            (MOUNTS.0.to_owned(), MOUNTS.1.to_owned()),
        ];
        for (n, uuid) in uuids.into_iter().enumerate() {
            let at = |n: usize, path: &str| format!("sys/devices/virtual/block/dm-{n}/{path}");
            files.extend([(at(n, "dm/uuid"), uuid), (at(n, "dev"), format!("253:{n}"))]);
            if n > 0 {
                files.push((at(0, &format!("holders/dm-{n}")), format!("-> ../../dm-{n}")));
            }
        }
        let found = current_use(&tree_from(&files), "253:0").unwrap();
        assert_eq!(found.mapped_partitions, ["dm-1"]);
        assert_eq!(found.uses, ["dm-0 is held by dm-2, dm-3"]);
    }
}
