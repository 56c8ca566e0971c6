//! Block devices that are mounted, are swap, or carry the running live system: `/proc/self/mountinfo`
//! (`Documentation/filesystems/proc.rst` §3.5), `/proc/swaps` and the kernel arguments.

use formats::command_line::{Argument, arguments};
use std::collections::{BTreeMap, BTreeSet};

use formats::mountinfo::{self, Mount, MountTable};
use formats::swaps::{self, SwapArea};

use crate::machine::{CUT, Machine, quote};
use crate::udev::unescape_hex;

/// Mount points at which live systems mount their own medium: CoreOS (`iso`), dracut (`initramfs/…`), Anaconda
/// (`install/…`), Debian and Ubuntu.
const LIVE_MOUNTS: &str = "/run/media/iso /run/initramfs/live /run/initramfs/isoscan /run/initramfs/isodevice \
     /run/install/repo /run/install/isodir /run/live/medium /lib/live/mount/medium /cdrom /isodevice";

const SWAPS: &str = "proc/swaps";

/// Maximum number of sources that are named although they are not a known device.
const MAX_UNRESOLVED: usize = 8;

/// Devices below `/dev` that are on no disk, by the start of their numbered names.
const NO_DISK_NODES: [&str; 7] = ["loop", "ram", "zram", "mtd", "mtdblock", "ubi", "ubiblock"];

/// File systems without a device; their source may be any text.
const NO_DISK_FILESYSTEMS: [&str; 10] =
    ["tmpfs", "ramfs", "devtmpfs", "devpts", "overlay", "nfs", "nfs4", "cifs", "9p", "virtiofs"];

/// Uses of the devices, by kernel name, e.g. `sda1` or `dm-0`.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// True if the source has a mount table at all.
    pub is_known: bool,
    /// True if that table is empty, is cut, or has a line that is not a mount, so that there may be more mounts.
    pub is_incomplete: bool,
    /// Mount points of each device.
    pub mounted_at: BTreeMap<String, Vec<String>>,
    /// Devices that are swap; `None` without the list of them.
    pub swaps: Option<BTreeSet<String>>,
    /// True if that list could not be read, or not to its end.
    pub is_swap_incomplete: bool,
    /// Descriptions of the mounts and swap from a path below `/dev` that is not a known device: any disk may be in use
    /// by them.
    pub unresolved: Vec<String>,
    /// Labels of the live system's medium, as the kernel arguments name them. Only the report needs them.
    pub live_labels: Vec<String>,
}

impl Usage {
    /// Mount points of the device, in the order of the mounts.
    pub(super) fn mounts_of(&self, name: &str) -> Vec<String> {
        self.mounted_at.get(name).cloned().unwrap_or_default()
    }

    /// True if the device is swap in use.
    pub(super) fn is_swap(&self, name: &str) -> Option<bool> {
        let is_listed = self.swaps.as_ref()?.contains(name);
        (is_listed || !self.is_swap_incomplete).then_some(is_listed)
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

/// Loop devices whose backing file is a device, each with the name of that device (`loop/backing_file`). A loop device on
/// a file is a use too, but so is the mount that the file is in.
pub(super) fn loops(machine: &Machine, resolve: &Resolve<'_>) -> Vec<(String, String)> {
    let names = machine.list("sys/block").into_iter();
    let backed = names.filter(|name| name.starts_with("loop")).filter_map(|name| {
        let path = machine.text(&format!("sys/block/{name}/loop/backing_file"))?;
        Some((name, resolve(None, &path)?))
    });
    backed.collect()
}

/// True if the running system lives on the device mounted here.
pub(super) fn is_live_mount(path: &str) -> bool {
    LIVE_MOUNTS.split(' ').any(|known| known == path)
}

/// Finds the kernel name of the device with a number or with a path below `/dev`.
pub(super) type Resolve<'a> = dyn Fn(Option<&str>, &str) -> Option<String> + 'a;

/// Reads mounts and swaps.
pub(super) fn usage(machine: &Machine, resolve: &Resolve<'_>) -> Usage {
    let mut usage = Usage::default();
    if let Some((mounts, is_complete)) = mounts(machine) {
        (usage.is_known, usage.is_incomplete) = (true, !is_complete);
        for mount in mounts {
            let source = mount.source.as_deref().unwrap_or_default();
            // Its source is the path of a disk, and its kind needs one.
            let has_disk = !NO_DISK_FILESYSTEMS.contains(&mount.filesystem.as_str());
            let may_be_on_disk = has_disk && is_disk_path(source);
            if let Some(name) = resolve(mount.device_number.as_deref(), source) {
                let places: &mut Vec<String> = usage.mounted_at.entry(name).or_default();
                if !places.contains(&mount.mount_point) {
                    places.push(mount.mount_point);
                }
            } else if may_be_on_disk && !is_pulled(&mount) {
                usage.unresolved.push(format!("{source} is mounted at {}", mount.mount_point));
            }
        }
    }
    share_btrfs(machine, &mut usage);
    let swaps = swap_areas(machine);
    usage.is_swap_incomplete = match &swaps {
        Some((_, is_whole)) => !is_whole,
        None => machine.is_refused(SWAPS),
    };
    if let Some((areas, _)) = swaps {
        let mut devices = BTreeSet::new();
        for SwapArea { path, is_partition } in areas {
            let name = resolve(None, &path);
            if name.is_none() && is_partition != Some(false) && is_disk_path(&path) {
                usage.unresolved.push(format!("{path} is a swap area"));
            }
            devices.extend(name);
        }
        usage.swaps = Some(devices);
    }
    usage.unresolved.truncate(MAX_UNRESOLVED);
    usage
}

/// True if a mount is that of a live medium whose device is gone: a stick that was pulled out. While it is mounted, the
/// kernel gives its number to no other disk.
fn is_pulled(mount: &Mount) -> bool {
    let major = mount.device_number.as_deref().and_then(|number| number.split(':').next());
    is_live_mount(&mount.mount_point) && major.is_some_and(|major| major != "0")
}

/// True if a path may be that of a disk: below `/dev`, and not a device in memory, on a mounted file or on a flash
/// chip.
fn is_disk_path(path: &str) -> bool {
    let Some(name) = existing(path).strip_prefix("/dev/") else { return false };
    let is_numbered = |prefix: &str| {
        let number = name.strip_prefix(prefix).unwrap_or_default();
        number.starts_with(|c: char| c.is_ascii_digit()) && !number.contains('/')
    };
    name != "fuse" && !NO_DISK_NODES.iter().any(|prefix| is_numbered(prefix))
}

/// The path of a device node that was deleted after it was opened: the kernel appends a word (`d_path`).
pub(super) fn existing(path: &str) -> &str {
    path.strip_suffix(" (deleted)").unwrap_or(path)
}

/// The mounts, and whether these are all. `None` without a table.
fn mounts(machine: &Machine) -> Option<(Vec<Mount>, bool)> {
    type Parse = fn(&str) -> MountTable;
    let tables: [(&str, Parse); 4] = [
        ("proc/self/mountinfo", mountinfo::parse),
        ("proc/1/mountinfo", mountinfo::parse),
        ("proc/self/mounts", mountinfo::parse_mounts),
        ("proc/mounts", mountinfo::parse_mounts),
    ];
    tables.into_iter().find_map(|(path, parse)| {
        let (text, is_whole) = whole_lines(machine, path)?;
        let MountTable { mounts, bad_line } = parse(&text);
        if let Some(line) = &bad_line {
            machine.problem(path, quote(line), "a mount on each line");
        }
        Some((mounts, is_whole && bad_line.is_none()))
    })
}

/// The swap areas in use, and whether these are all. `None` without a list.
fn swap_areas(machine: &Machine) -> Option<(Vec<SwapArea>, bool)> {
    let (text, is_whole) = whole_lines(machine, SWAPS)?;
    // The kernel writes the heading first, even without any area. Without it, a line is missing.
    let has_heading = text.starts_with("Filename");
    if !has_heading && !text.is_empty() {
        let first = text.lines().next().unwrap_or_default();
        machine.problem(SWAPS, quote(first), "the heading \"Filename\" on the first line");
    }
    let areas = if has_heading { swaps::parse(&text) } else { Vec::new() };
    Some((areas, is_whole && has_heading))
}

/// The lines of the file that have their end, and whether all have. A last line without one is a
/// problem: a part of a path would name another place. So is an empty file: the kernel always writes
/// the root's mount or the heading of the list.
fn whole_lines(machine: &Machine, path: &str) -> Option<(String, bool)> {
    let (mut text, is_whole) = machine.text_with_end(path)?;
    if text.is_empty() {
        machine.problem(path, "an empty file", "at least one line");
        return Some((text, false));
    }
    if !is_whole {
        let start = text.rfind('\n').map_or(0, |at| at + 1);
        machine.problem(path, quote(text.get(start..).unwrap_or_default()), CUT);
        text.truncate(start);
    }
    Some((text, is_whole))
}

/// Labels that the kernel arguments name as the live medium's: `coreos.liveiso=LABEL`,
/// `root=live:CDLABEL=LABEL`, `inst.stage2=hd:LABEL=LABEL`.
pub(super) fn live_labels(machine: &Machine) -> Vec<String> {
    let Some(command_line) = machine.text("proc/cmdline") else { return Vec::new() };
    let label = |argument: Argument| {
        let value = argument.value?;
        match argument.name {
            "coreos.liveiso" => Some(value.to_owned()),
            "root" | "inst.stage2" | "inst.repo" if value.contains(':') => {
                let (_, label) = value.split_once("LABEL=")?;
                Some(unescape_hex(label.split(':').next()?))
            }
            _ => None,
        }
    };
    arguments(&command_line).filter_map(label).filter(|label| !label.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    /// Mounts and swaps by these files, where each path is that of a device of its name.
    fn usage_of(machine: &Machine) -> Usage {
        usage(machine, &|_, path| path.strip_prefix("/dev/").map(str::to_owned))
    }

    #[test]
    fn lists_that_are_cut_or_have_a_bad_line_keep_the_others_and_say_that_there_may_be_more() {
        let start = "1 0 8:1 / /mnt/a\\040b rw shared:1 master:2 - ext4 /dev/sda1 rw\n";
        for (end, problem) in [
            ("nonsense\n", "\"nonsense\""),
            ("2 0 8:2 / /b rw - xfs /dev/sda2 rw", "\"2 0 8:2 / /b"),
        ] {
            let machine = tree(&[
                ("proc/self/mountinfo", &format!("{start}{end}")),
                ("proc/swaps", "Filename Type\n/dev/sda1 partition\n/dev/sda2 part"),
            ]);
            let usage = usage_of(&machine);
            assert_eq!(usage.mounts_of("sda1"), ["/mnt/a b"]);
            assert!(usage.mounts_of("sda2").is_empty() && usage.is_incomplete && usage.is_known);
            assert_eq!((usage.is_swap("sda1"), usage.is_swap("sda2")), (Some(true), None));
            let problems = machine.problems();
            assert_eq!(problems.len(), 2, "{problems:?}");
            assert!(problems[0].found.starts_with(problem), "{problems:?}");
        }
        let whole = tree(&[("proc/self/mountinfo", start), ("proc/swaps", "Filename Type\n")]);
        let usage = usage_of(&whole);
        assert!(!usage.is_incomplete && usage.is_swap("sda1") == Some(false));
    }

    #[test]
    fn labels_of_the_live_medium_are_those_of_the_kernel_arguments() {
        let arguments = "coreos.liveiso=fedora-coreos-42 root=live:CDLABEL=A\\x20B ro\n";
        let machine = tree(&[("proc/cmdline", arguments)]);
        assert_eq!(live_labels(&machine), ["fedora-coreos-42", "A B"]);
    }

    #[test]
    fn broken_escapes_are_kept_as_they_are() {
        assert_eq!(unescape_hex("a\\xé\\x2"), "a\\xé\\x2");
    }
}
