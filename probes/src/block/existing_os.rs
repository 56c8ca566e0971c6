//! Systems that seem to be installed on a disk, by the types and labels of its partitions and file systems alone;
//! nothing is mounted. A hint for people: an install would destroy them.

use std::collections::BTreeSet;

use super::disk::Disk;
use super::partition::Partition;
use formats::data;

/// Types of partitions that one system alone uses.
const TYPES: &str = include_str!("../../data/existing-os.txt");

/// Types of partitions of a DOS table that Windows uses for itself: its recovery, and one for any NTFS.
const WINDOWS_RECOVERY: &str = "0x27";
const DOS_NTFS: &str = "0x7";

const COREOS: &str = "Fedora or RHEL CoreOS";

/// Labels of partitions that must all be present.
const LABELS: [(&[&str], &str); 6] = [
    (&["boot", "root", "EFI-SYSTEM"], COREOS),
    (&["boot", "root", "PowerPC-PReP-boot"], COREOS),
    // One half of a mirrored boot disk, as Butane's `boot_device.mirror` makes it.
    (&["boot-1", "root-1"], COREOS),
    (&["boot-2", "root-2"], COREOS),
    (&["USR-A", "USR-B", "OEM"], "Flatcar Container Linux"),
    (&["STATE", "EPHEMERAL", "META"], "Talos Linux"),
];

/// File systems that Linux runs from.
const LINUX: [&str; 6] = ["ext4", "ext3", "xfs", "btrfs", "LVM2_member", "crypto_LUKS"];

/// The systems that seem to be there, most certain first, each once.
pub(super) fn existing_os(disk: &Disk) -> Vec<String> {
    let mut found: Vec<&str> = Vec::new();
    let has_label =
        |label: &&str| disk.partitions.iter().any(|p| p.label.as_deref() == Some(*label));
    for (labels, system) in LABELS {
        let is_other = system == COREOS && disk.partitions.iter().any(is_no_coreos);
        if labels.iter().all(has_label) && !is_other {
            found.push(system);
        }
    }
    let types = disk.partitions.iter().filter_map(|partition| partition.type_uuid.as_deref());
    found.extend(types.filter_map(|kind| data::lookup(TYPES, kind)));
    if disk.partitions.iter().any(is_windows) {
        found.push("Windows");
    }
    let has_linux = disk.partitions.iter().filter_map(kind_of).any(|kind| LINUX.contains(&kind));
    if found.is_empty() && has_linux {
        found.push("Linux");
    }
    let mut seen = BTreeSet::new();
    found.into_iter().filter(|system| seen.insert(*system)).map(str::to_owned).collect()
}

/// True if a partition has a `CoreOS` label, and a file system without it: the initramfs of `CoreOS` mounts by the
/// labels of file systems (`ignition-dracut`, `coreos-rootflags`). Array members and LUKS do not have one, and a
/// partition whose write was interrupted may not have a file system.
fn is_no_coreos(partition: &Partition) -> bool {
    let label = partition.label.as_deref();
    let Some(filesystem) = &partition.filesystem else { return false };
    let is_wrapped = ["crypto_LUKS", "linux_raid_member"].contains(&filesystem.kind.as_str());
    matches!(label, Some("boot" | "root")) && !is_wrapped && filesystem.label.as_deref() != label
}

/// True if Windows seems to own the partition of a DOS table, which does not have a separate type for it.
fn is_windows(partition: &Partition) -> bool {
    match partition.type_uuid.as_deref() {
        Some(WINDOWS_RECOVERY) => true,
        Some(DOS_NTFS) => matches!(kind_of(partition), Some("ntfs" | "BitLocker")),
        _ => false,
    }
}

fn kind_of(partition: &Partition) -> Option<&str> {
    partition.filesystem.as_ref().map(|filesystem| filesystem.kind.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Filesystem;

    fn disk(partitions: &[(&str, &str, &str)]) -> Disk {
        let partition = |(label, kind, filesystem): &(&str, &str, &str)| Partition {
            label: Some((*label).to_owned()),
            type_uuid: Some((*kind).to_owned()),
            filesystem: (!filesystem.is_empty()).then(|| Filesystem {
                kind: (*filesystem).to_owned(),
                label: Some((*label).to_owned()),
                ..Filesystem::default()
            }),
            ..Partition::default()
        };
        Disk { partitions: partitions.iter().map(partition).collect(), ..Disk::default() }
    }

    #[test]
    fn systems_are_recognised_by_their_partitions() {
        let coreos = [("EFI-SYSTEM", "", "vfat"), ("boot", "", "ext4"), ("root", "", "xfs")];
        assert_eq!(existing_os(&disk(&coreos)), ["Fedora or RHEL CoreOS"]);
        assert_eq!(existing_os(&disk(&coreos[..2])), ["Linux"]);
        let mut other = disk(&coreos);
        other.partitions[2].filesystem.as_mut().unwrap().label = Some("mydata".to_owned());
        assert_eq!(existing_os(&other), ["Linux"]);
        other.partitions[2].filesystem = None;
        assert_eq!(existing_os(&other), ["Fedora or RHEL CoreOS"]);
        let encrypted = [coreos[0], coreos[1], ("root", "", "")];
        let mut encrypted = disk(&encrypted);
        let kind = "crypto_LUKS".to_owned();
        encrypted.partitions[2].filesystem = Some(Filesystem { kind, ..Filesystem::default() });
        assert_eq!(existing_os(&encrypted), ["Fedora or RHEL CoreOS"]);
        let windows = ("", "e3c9e316-0b5c-4db8-817d-f92df00215ae", "");
        assert_eq!(existing_os(&disk(&[windows, windows])), ["Windows"]);
        assert_eq!(existing_os(&disk(&[("", "0x7", "ntfs")])), ["Windows"]);
        assert_eq!(existing_os(&disk(&[("", "0x27", "")])), ["Windows"]);
        assert!(existing_os(&disk(&[("", "0x7", "exfat")])).is_empty());
        let mirror = [("boot-1", "", "linux_raid_member"), ("root-1", "", "linux_raid_member")];
        assert_eq!(existing_os(&disk(&mirror)), ["Fedora or RHEL CoreOS"]);
        assert!(existing_os(&disk(&[("EFI", "", "vfat")])).is_empty());
        assert!(existing_os(&Disk::default()).is_empty());
    }
}
