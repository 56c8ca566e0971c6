//! The content of a volume as udev reports it, and compared with the bytes that were read.

use formats::signature::Filesystem;
use formats::signature::foreign::is_foreign;

use crate::machine::Machine;
use crate::udev::{UdevEntry, unescape_hex};

/// Result of udev's `blkid`.
pub(super) fn of_udev(udev: &UdevEntry) -> Option<Filesystem> {
    let decoded = |encoded: &str, plain: &str| {
        let encoded = udev.property(encoded).map(unescape_hex);
        encoded.or_else(|| udev.property(plain).map(str::to_owned))
    };
    Some(Filesystem {
        kind: udev.property("ID_FS_TYPE")?.to_owned(),
        label: decoded("ID_FS_LABEL_ENC", "ID_FS_LABEL"),
        uuid: decoded("ID_FS_UUID_ENC", "ID_FS_UUID"),
        ..Filesystem::default()
    })
}

/// The content read from the volume at `path`, otherwise as udev found it there. A difference is a problem: one of them
/// is outdated, or the volume has two signatures.
pub(super) fn compared(
    machine: &Machine,
    path: &str,
    found: Option<Filesystem>,
    udev: &UdevEntry,
) -> Option<Filesystem> {
    let of_udev = of_udev(udev);
    match (found, of_udev) {
        (Some(found), Some(of_udev)) if found.kind != of_udev.kind => {
            let both = format!("{} on the disk, {} according to udev", found.kind, of_udev.kind);
            machine.problem(path, both, "the same content from both");
            // A member counts, since others may need it: many have a file system at their front.
            Some(if is_foreign(&of_udev) && !is_foreign(&found) { of_udev } else { found })
        }
        (found, of_udev) => found.or(of_udev),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_known_only_to_udev_wins_over_the_file_system_at_its_front() {
        let machine = crate::testing::tree(&[
            ("run/udev/data/b8:1", "E:ID_FS_TYPE=drbd\n"),
            ("run/udev/data/b8:2", "E:ID_FS_TYPE=mpath_member\n"),
            ("run/udev/data/b8:3", "E:ID_FS_TYPE=ext4\n"),
        ]);
        let udev = |id: &str| crate::udev::entry(&machine, id).unwrap();
        let own = |kind: &str| Some(Filesystem { kind: kind.to_owned(), ..Filesystem::default() });
        let both = |ours: &str, theirs: &str| {
            compared(&machine, "sys/block/sda", own(ours), &udev(theirs)).unwrap().kind
        };
        assert_eq!(both("ext4", "b8:1"), "drbd");
        assert_eq!(both("xfs", "b8:2"), "mpath_member");
        assert_eq!(both("linux_raid_member", "b8:3"), "linux_raid_member");
        assert_eq!(both("xfs", "b8:3"), "xfs");
        assert!(is_foreign(&own("oracleasm").unwrap()) && is_foreign(&own("stratis").unwrap()));
    }
}
