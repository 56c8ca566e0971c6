//! File systems labelled `boot` on other disks. An installed CoreOS finds its boot file system by that label, and its
//! first boot ends in the emergency shell if several have it (`rdcore verify-unique-fs-label`).

use probes::block::{Disk, Filesystem};

use super::saved::Saved;
use super::{Code, Failure, describe, list, others};

/// The label of the boot file system.
const BOOT: &str = "boot";

/// Refuses if another disk, or a partition that is kept, has a file system labelled `boot`.
///
/// # Errors
/// `BOOT_LABEL` with every place.
pub(super) fn check(target: &Disk, disks: &[Disk], saved: &Saved) -> Result<(), Failure> {
    // What is also built on the target is taken down, or refused if that is impossible.
    let is_of_target = |place: &String| target.content_above.iter().any(|a| a.name == *place);
    let mut found: Vec<String> = others(disks, target)
        .flat_map(|disk| places(disk).into_iter().map(move |place| (disk, place)))
        .filter(|(_, place)| !is_of_target(place))
        .map(|(disk, place)| format!("{place} of {}", describe(disk)))
        .collect();
    let kept = target.partitions.iter().filter(|part| saved.keeps(part));
    let kept = kept.filter(|part| part.filesystem.as_ref().is_some_and(is_boot));
    found.extend(kept.map(|part| format!("{}, which is to be kept", part.name)));
    if found.is_empty() {
        return Ok(());
    }
    let what = format!(
        "the installed system would not start: a file system labelled \"boot\" is also on {}",
        list(found, "; ")
    );
    Err(Failure::new(Code::BootLabel, what)
        .advise("wipe or relabel the other file system (e2label), or remove that disk"))
}

fn is_boot(filesystem: &Filesystem) -> bool {
    // The label of a member is the name of its array; the file system in it has a label of its own.
    let is_member = filesystem.kind.ends_with("_member");
    !is_member && filesystem.label.as_deref() == Some(BOOT)
}

/// Lists the places on a disk that have such a file system.
fn places(disk: &Disk) -> Vec<String> {
    let volumes = disk.volumes().filter(|volume| is_boot(volume.filesystem));
    let volumes = volumes.map(|volume| match volume.name {
        name if name == disk.name => "the whole".to_owned(),
        name => name,
    });
    // A path of a LUN shows the same as the LUN.
    let above = disk.content_above.iter().filter(|_| disk.unit().is_none());
    let above = above.filter(|above| is_boot(&above.filesystem)).map(|above| above.name.clone());
    volumes.chain(above).collect()
}
