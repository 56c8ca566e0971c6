//! File systems labelled `boot` or `root` on other disks. An installed CoreOS finds both by their labels at its first boot,
//! which ends in the emergency shell if several are labelled `boot` (`rdcore verify-unique-fs-label`). Of several labelled
//! `root` it takes any, gives it another UUID and starts from it, so that the other disk is damaged too
//! (`ignition-ostree-mount-firstboot-sysroot`, `ignition-ostree-uuid-root`); later boots find it by its UUID.

use probes::block::{Disk, Filesystem};

use super::saved::Saved;
use super::{Code, DETACH, Failure, describe, list, others};

/// The labels, and what happens if another file system has it.
const LABELS: [(&str, &str); 2] = [
    ("boot", "the installed system would not start"),
    ("root", "the installed system might start from another disk at its first boot"),
];

/// Refuses if another disk, or a partition that is kept, has a file system labelled `boot` or `root`.
///
/// # Errors
/// `BOOT_LABEL` with every place.
pub(super) fn check(target: &Disk, disks: &[Disk], saved: &Saved) -> Result<(), Failure> {
    let found: Vec<String> = LABELS
        .into_iter()
        .filter_map(|(label, why)| {
            let places = places(label, target, disks, saved);
            let places = (!places.is_empty()).then(|| list(places, "; "))?;
            Some(format!("{why}: a file system labelled {label:?} is also on {places}"))
        })
        .collect();
    if found.is_empty() {
        return Ok(());
    }
    let has_label = |disk: &Disk| LABELS.iter().any(|(label, _)| !on_disk(label, disk).is_empty());
    let advice = if others(disks, target).any(|disk| disk.is_on_fabric && has_label(disk)) {
        DETACH
    } else {
        "wipe or relabel the other file system (e2label, xfs_admin -L), or remove that disk"
    };
    Err(Failure::new(Code::BootLabel, found.join("; ")).advise(advice))
}

/// Lists the places of file systems with this label apart from those that the write replaces.
fn places(label: &str, target: &Disk, disks: &[Disk], saved: &Saved) -> Vec<String> {
    // What is also built on the target is taken down, or refused if that is impossible.
    let is_of_target = |place: &String| target.content_above.iter().any(|a| a.name == *place);
    let mut found: Vec<String> = others(disks, target)
        .flat_map(|disk| on_disk(label, disk).into_iter().map(move |place| (disk, place)))
        .filter(|(_, place)| !is_of_target(place))
        .map(|(disk, place)| format!("{place} of {}", describe(disk)))
        .collect();
    let kept = target.partitions.iter().filter(|part| saved.keeps(part));
    let kept = kept.filter(|part| part.filesystem.as_ref().is_some_and(|found| has(found, label)));
    found.extend(kept.map(|part| format!("{}, which is to be kept", part.name)));
    found
}

fn has(filesystem: &Filesystem, label: &str) -> bool {
    // The label of a member is the name of its array; the file system in it has a label of its own.
    let is_member = filesystem.kind.ends_with("_member");
    !is_member && filesystem.label.as_deref() == Some(label)
}

/// Lists the places on a disk that have such a file system.
fn on_disk(label: &str, disk: &Disk) -> Vec<String> {
    let volumes = disk.volumes().filter(|volume| has(volume.filesystem, label));
    let volumes = volumes.map(|volume| match volume.name {
        name if name == disk.name => "the whole".to_owned(),
        name => name,
    });
    // A path of a LUN shows the same as the LUN.
    let above = disk.content_above.iter().filter(|_| disk.unit().is_none());
    let above = above.filter(|above| has(&above.filesystem, label)).map(|above| above.name.clone());
    volumes.chain(above).collect()
}
