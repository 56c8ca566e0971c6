//! Disks that are never written, whatever an order says: by serial number, WWN, path, or a label on them.

use formats::text::is_number;
use formats::wwn;
use probes::block::Disk;

use super::choose::names;
use super::{Code, Failure, Say, Term, describe, say};

/// Refuses a protected disk. The entries of a LUN's paths protect the LUN, and those of members their
/// RAID volume.
///
/// `resolve` follows a path below `/dev`: a disk has more links than its facts list.
///
/// # Errors
/// `PROTECTED` with the entry, also with one that could never protect a disk: who wrote it relies on it.
pub(super) fn check(
    disk: &Disk,
    all: &[Disk],
    lists: [&[String]; 2],
    resolve: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Failure> {
    let [configured, instructed] = lists;
    let lists = [("the configuration".into(), configured), (Say::from(Term::Order), instructed)];
    for (owner, list) in &lists {
        check_entries(list, owner)?;
    }
    let paths = || all.iter().filter(|path| path.unit() == Some(&disk.name));
    let is_protected = |entry: &&String| {
        let target =
            Some(entry.trim()).filter(|entry| entry.starts_with("/dev/")).and_then(resolve);
        std::iter::once(disk).chain(paths()).any(|disk| {
            is_named(disk, entry) || target.as_ref().is_some_and(|target| has_node(disk, target))
        })
    };
    for (owner, list) in lists {
        if let Some(entry) = list.iter().find(is_protected) {
            let what = format!(" protects {}: protect contains {entry:?}", describe(disk));
            return Err(Failure::new(Code::Protected, say![owner, what])
                .advise("choose another disk, or remove the entry from protect"));
        }
    }
    Ok(())
}

/// Prefixes of entries in the form of a hint; an entry here is only its value.
const HINTS: [&str; 8] =
    ["serial=", "wwn=", "wwn_with_extension=", "name=", "by_path=", "model=", "label=", "device="];

fn check_entries(list: &[String], owner: &Say) -> Result<(), Failure> {
    let wrong = list.iter().find_map(|entry| Some((entry, never_protects(entry.trim())?)));
    let Some((entry, why)) = wrong else { return Ok(()) };
    let message = say!["protect of ", owner.clone(), format!(" contains {entry:?}, {why}")];
    let expected = "protect a disk by its serial number, WWN, path below /dev, or a label on it";
    Err(Failure::new(Code::Protected, message).advise(expected))
}

/// Why an entry names no disk, whatever disks there are.
fn never_protects(entry: &str) -> Option<&'static str> {
    let kernel_name =
        "the kernel's name of a disk, which another disk may have after the next boot";
    let is_hint = HINTS.iter().any(|hint| entry.starts_with(hint));
    let is_bad_path = entry.starts_with("/dev/") && (entry.ends_with('/') || entry.contains("//"));
    let reasons = [
        (entry.is_empty(), "which is empty"),
        (is_kernel_name(entry), kernel_name),
        (entry.contains(['*', '?']), "a pattern"),
        (is_hint, "a hint"),
        (is_bad_path, "no path of a device file"),
    ];
    reasons.into_iter().find_map(|(is_wrong, why)| is_wrong.then_some(why))
}

/// True if a text is a disk name that the kernel assigns anew at each boot.
pub fn is_kernel_name(text: &str) -> bool {
    let letters = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_lowercase());
    let is_nvme = text
        .strip_prefix("nvme")
        .is_some_and(|rest| rest.contains('n') && rest.split('n').all(is_number));
    let rest = text.strip_prefix("sd").or_else(|| text.strip_prefix("vd"));
    is_nvme || rest.is_some_and(|rest| rest.len() <= 2 && letters(rest))
}

/// True if a device file belongs to the disk or to one of its partitions.
fn has_node(disk: &Disk, node: &str) -> bool {
    let is_partition = |name: &str| node.strip_prefix("/dev/") == Some(name);
    disk.device == node || disk.partitions.iter().any(|part| is_partition(&part.name))
}

/// True if an entry names the disk, or something on it. Case and blanks around it do not count, because a disk too many
/// is safe.
fn is_named(disk: &Disk, entry: &str) -> bool {
    let entry = entry.trim();
    let is_text = |text: &String| text.trim().eq_ignore_ascii_case(entry);
    let wwns = [&disk.wwn, &disk.wwid, &disk.eui64, &disk.nguid];
    let labels = disk.partitions.iter().filter_map(|part| part.label.as_ref());
    let labels = labels.chain(disk.unlisted.iter().filter_map(|part| part.label.as_ref()));
    let labels = labels.chain(disk.volumes().filter_map(|volume| volume.filesystem.label.as_ref()));
    let serials = disk.serial.iter().chain(&disk.other_serials);
    !entry.is_empty()
        && (has_node(disk, entry)
            || names(disk).chain(serials).chain(labels).any(is_text)
            || wwns.into_iter().flatten().any(|found| wwn::is_same(found, entry)))
}

#[cfg(test)]
mod tests {
    use probes::block::Partition;

    use super::*;
    use crate::act::testing::{self, filesystem, partition, texts};

    fn disk() -> Disk {
        let journal = filesystem("ext4", Some("journal"));
        let part = Partition { filesystem: Some(journal), ..partition("sda", 1, "data", "") };
        Disk {
            wwn: Some("0x5000c500a1b2c3d4".into()),
            partitions: vec![part],
            ..testing::disk("sda", 9)
        }
    }

    #[test]
    fn disk_is_protected_by_each_of_its_names_and_by_labels_on_it() {
        let disk = disk();
        let check = |entry: &str| check(&disk, &[], [&[], &[entry.to_owned()]], &|_| None);
        for entry in [
            "SERIAL-sda",
            " serial-SDA ",
            "naa.5000c500a1b2c3d4",
            "/dev/disk/by-path/pci-sda",
            "/dev/disk/by-id/ata-sda",
            "data",
            "journal",
        ] {
            assert_eq!(check(entry).unwrap_err().code, Code::Protected, "{entry}");
        }
        for entry in ["S", "dat", "0x5"] {
            assert_eq!(check(entry), Ok(()), "{entry}");
        }
    }

    #[test]
    fn entry_that_could_never_protect_a_disk_is_refused() {
        for (entry, why) in [
            ("", "which is empty"),
            (" ", "which is empty"),
            ("sdb", "the kernel's name of a disk"),
            ("nvme0n1", "the kernel's name of a disk"),
            ("S*", "a pattern"),
            ("serial=S1", "a hint"),
            ("/dev/sda/", "no path of a device file"),
            ("/dev//sda", "no path of a device file"),
        ] {
            let entry = &texts(&[entry])[..];
            for lists in [[entry, &[]], [&[], entry]] {
                let failure = check(&disk(), &[], lists, &|_| None).unwrap_err();
                assert!(failure.to_string().contains(why), "{entry:?}: {failure}");
            }
        }
    }

    #[test]
    fn disk_is_protected_by_every_link_that_leads_to_it_or_to_a_partition() {
        let disk = disk();
        let resolve = |path: &str| match path {
            "/dev/disk/by-path/pci-1.0" => Some("/dev/sda".to_owned()),
            "/dev/disk/by-partuuid/1" => Some("/dev/sda1".to_owned()),
            "/dev/disk/by-path/pci-2" => Some("/dev/sdb".to_owned()),
            _ => None,
        };
        let check = |entry: &str| check(&disk, &[], [&[entry.to_owned()], &[]], &resolve);
        for entry in [" /dev/disk/by-path/pci-1.0 ", "/dev/disk/by-partuuid/1", "/dev/sda1"] {
            assert_eq!(check(entry).unwrap_err().code, Code::Protected, "{entry}");
        }
        for entry in ["/dev/disk/by-path/pci-2", "/dev/disk/by-path/pci-3", "/dev/sdb1"] {
            assert_eq!(check(entry), Ok(()), "{entry}");
        }
    }

    #[test]
    fn lun_is_protected_by_the_place_of_one_of_its_paths() {
        let lun = Disk { name: "dm-0".into(), device: "/dev/dm-0".into(), ..Disk::default() };
        let path = Disk { multipath: Some("dm-0".into()), ..disk() };
        let entry = ["/dev/disk/by-path/pci-sda".to_owned()];
        let failure = check(&lun, &[lun.clone(), path], [&entry, &[]], &|_| None).unwrap_err();
        assert!(failure.to_string().contains("the configuration protects"), "{}", failure);
    }
}
