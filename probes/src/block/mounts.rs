//! Which block devices are mounted, are swap, or carry the running live system:
//! `/proc/self/mountinfo` (`Documentation/filesystems/proc.rst` §3.5), `/proc/swaps` and the kernel
//! arguments.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::Machine;
use crate::udev::unescape_hex;

use super::listing::{BlockDevice, Listing};

/// Where live systems mount their own medium: CoreOS (`iso`), dracut (`initramfs/…`), Anaconda
/// (`install/…`), Debian and Ubuntu.
const LIVE_MOUNTS: [&str; 10] = [
    "/run/media/iso",
    "/run/initramfs/live",
    "/run/initramfs/isoscan",
    "/run/initramfs/isodevice",
    "/run/install/repo",
    "/run/install/isodir",
    "/run/live/medium",
    "/lib/live/mount/medium",
    "/cdrom",
    "/isodevice",
];

/// How the devices are used, by kernel name, e.g. `sda1` or `dm-0`.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// Whether the source has a mount table at all.
    pub is_known: bool,
    /// Where each is mounted.
    pub mounted_at: BTreeMap<String, Vec<String>>,
    /// Devices that are swap; `None` where the source does not tell.
    pub swaps: Option<BTreeSet<String>>,
    /// Whether the list of them is there and cannot be read.
    pub is_swap_refused: bool,
    /// Labels of the live system's medium, as the kernel arguments name them.
    pub live_labels: Vec<String>,
    /// Names that device-mapper gives, by kernel name, e.g. `mpatha` by `dm-0`.
    pub mapper_names: BTreeMap<String, String>,
}

impl Usage {
    /// Where the device is mounted, in the order of the mounts.
    pub(super) fn mounts_of(&self, name: &str) -> Vec<String> {
        self.mounted_at.get(name).cloned().unwrap_or_default()
    }

    /// Whether the device is swap in use.
    pub(super) fn is_swap(&self, name: &str) -> Option<bool> {
        Some(self.swaps.as_ref()?.contains(name))
    }
}

/// A btrfs on several devices is mounted by the name of one of them; all are in use
/// (`/sys/fs/btrfs/<uuid>/devices`, `fs/btrfs/sysfs.c`).
fn share_btrfs(machine: &Machine, usage: &mut Usage) {
    const DIR: &str = "sys/fs/btrfs";
    for filesystem in machine.names(DIR) {
        let members = machine.names(&format!("{DIR}/{filesystem}/devices"));
        let mut places: Vec<String> = Vec::new();
        for place in members.iter().flat_map(|member| usage.mounts_of(member)) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        if !places.is_empty() {
            usage.mounted_at.extend(members.into_iter().map(|member| (member, places.clone())));
        }
    }
}

/// Whether the running system lives on what is mounted here.
pub(super) fn is_live_mount(path: &str) -> bool {
    LIVE_MOUNTS.contains(&path)
}

/// Reads mounts and swaps.
pub(super) fn usage(machine: &Machine, listing: &Listing) -> Usage {
    let names = Names::new(machine, listing);
    let mut usage = Usage {
        live_labels: machine
            .text("proc/cmdline")
            .map(|text| live_labels(&text))
            .unwrap_or_default(),
        ..Usage::default()
    };
    let mounts = mounts(machine);
    usage.is_known = mounts.is_some();
    for mount in mounts.unwrap_or_default() {
        if let Some(name) = names.resolve(mount.device_number.as_deref(), &mount.source) {
            let places: &mut Vec<String> = usage.mounted_at.entry(name).or_default();
            if !places.contains(&mount.place) {
                places.push(mount.place);
            }
        }
    }
    share_btrfs(machine, &mut usage);
    let swaps = machine.text("proc/swaps");
    usage.is_swap_refused = swaps.is_none() && machine.is_refused("proc/swaps");
    usage.swaps = swaps.map(|text| {
        let sources = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        sources.filter_map(|source| names.resolve(None, &unescape(source))).collect()
    });
    usage.mapper_names = names.mapped;
    usage
}

/// One line of a mount table.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    device_number: Option<String>,
    place: String,
    source: String,
}

fn mounts(machine: &Machine) -> Option<Vec<Mount>> {
    for path in ["proc/self/mountinfo", "proc/1/mountinfo"] {
        if let Some(text) = machine.text(path) {
            return Some(text.lines().filter_map(parse_mountinfo).collect());
        }
    }
    let text = machine.text("proc/self/mounts").or_else(|| machine.text("proc/mounts"));
    Some(text?.lines().filter_map(parse_mounts).collect())
}

fn parse_mountinfo(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ');
    let device_number = left.nth(2)?.to_owned();
    let place = unescape(left.nth(1)?);
    let source = unescape(right.split(' ').nth(1)?);
    Some(Mount { device_number: Some(device_number), place, source })
}

fn parse_mounts(line: &str) -> Option<Mount> {
    let mut fields = line.split(' ');
    let (source, place) = (unescape(fields.next()?), unescape(fields.next()?));
    Some(Mount { device_number: None, place, source })
}

/// Undoes `\040` and the like (`fs/seq_file.c`, `mangle_path`).
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let code = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(code) = code.filter(u8::is_ascii) {
            plain.push(char::from(code));
            rest = &after[3..];
        } else {
            plain.push('\\');
            rest = after;
        }
    }
    plain + rest
}

/// Labels that the kernel arguments name as the live medium's: `coreos.liveiso=LABEL`,
/// `root=live:CDLABEL=LABEL`, `inst.stage2=hd:LABEL=LABEL`.
fn live_labels(command_line: &str) -> Vec<String> {
    let label = |argument: &str| {
        let (name, value) = argument.split_once('=')?;
        match name {
            "coreos.liveiso" => Some(value.to_owned()),
            "root" | "inst.stage2" | "inst.repo" if value.contains(':') => {
                let (_, label) = value.split_once("LABEL=")?;
                Some(unescape_hex(label.split(':').next()?))
            }
            _ => None,
        }
    };
    command_line.split_whitespace().filter_map(label).filter(|label| !label.is_empty()).collect()
}

/// Finds a device by its number, or by any of its paths below `/dev`.
#[derive(Default)]
struct Names {
    by_number: BTreeMap<String, String>,
    by_path: BTreeMap<String, String>,
    mapped: BTreeMap<String, String>,
}

impl Names {
    fn new(machine: &Machine, listing: &Listing) -> Names {
        let mut names = Names::default();
        for device in listing.disks.iter().chain(&listing.virtuals) {
            names.add(machine, device);
        }
        names
    }

    fn add(&mut self, machine: &Machine, device: &BlockDevice) {
        let nodes = device.partitions.iter().map(|node| (&node.name, &node.device_number));
        for (name, number) in nodes.chain([(&device.name, &device.device_number)]) {
            if let Some(number) = number {
                self.by_number.insert(number.clone(), name.clone());
            }
            self.by_path.insert(format!("/dev/{}", name.replace('!', "/")), name.clone());
        }
        for link in &device.udev.links {
            self.by_path.insert(format!("/dev/{link}"), device.name.clone());
        }
        let mapped = device.name.starts_with("dm-").then(|| device.text(machine, "dm/name"));
        if let Some(mapped) = mapped.flatten() {
            self.by_path.insert(format!("/dev/mapper/{mapped}"), device.name.clone());
            self.mapped.insert(device.name.clone(), mapped);
        }
    }

    /// A file system of several devices (btrfs) has a number of its own, so the path counts too.
    fn resolve(&self, number: Option<&str>, path: &str) -> Option<String> {
        let by_number = number.and_then(|number| self.by_number.get(number));
        by_number.or_else(|| self.by_path.get(path)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn mounts_are_found_by_number_by_path_and_by_mapper_name() {
        let machine = tree(&[
            ("sys/block/sda/dev", "8:0\n"),
            ("sys/block/sda/sda1/partition", "1\n"),
            ("sys/block/sda/sda1/dev", "8:1\n"),
            ("sys/block/sda/sda2/partition", "2\n"),
            ("sys/block/dm-0/dm/name", "vg-root\n"),
            (
                "proc/self/mountinfo",
                "1 0 8:1 / /mnt/a\\040b rw shared:1 master:2 - ext4 /dev/root rw\n\
                 2 0 0:40 / /data rw - btrfs /dev/sda2 rw\n\
                 3 0 0:41 /x / rw - xfs /dev/mapper/vg-root rw\nnonsense\n",
            ),
            ("sys/fs/btrfs/7b1f/devices/sda2/size", "8\n"),
            ("sys/fs/btrfs/7b1f/devices/sdb/size", "8\n"),
            ("sys/fs/btrfs/9999/devices/sdc/size", "8\n"),
            ("proc/swaps", "Filename Type\n/dev/sda2 partition\n"),
            ("proc/cmdline", "coreos.liveiso=fedora-coreos-42 root=live:CDLABEL=A\\x20B ro\n"),
        ]);
        let usage = usage(&machine, &super::super::listing::list(&machine));
        assert_eq!(usage.mounts_of("sda1"), ["/mnt/a b"]);
        assert_eq!(usage.mounts_of("sda2"), ["/data"]);
        assert_eq!(usage.mounts_of("sdb"), ["/data"], "of the same btrfs as sda2");
        assert!(usage.mounts_of("sdc").is_empty());
        assert_eq!(usage.mounts_of("dm-0"), ["/"]);
        assert_eq!((usage.is_swap("sda2"), usage.is_swap("sda1")), (Some(true), Some(false)));
        assert_eq!(usage.live_labels, ["fedora-coreos-42", "A B"]);
    }

    #[test]
    fn broken_escapes_are_kept_as_they_are() {
        assert_eq!(unescape("a\\04"), "a\\04");
        assert_eq!(unescape("é\\é\\999"), "é\\é\\999");
        assert_eq!(unescape_hex("a\\xé\\x2"), "a\\xé\\x2");
    }
}
