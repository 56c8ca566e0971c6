//! Disks that are never written, whatever an order says: by serial number, WWN, path, or any name of something on them.

use formats::lvm;
use formats::text::is_number;
use formats::wwn;
use probes::block::{Disk, Filesystem};
use probes::udev::unescape_hex;

use super::choose::names;
use super::{Code, Failure, Say, Term, describe, list, say};

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
        std::iter::once(disk).chain(paths()).any(|disk| is_meant(disk, entry, resolve))
    };
    for (owner, entries) in lists {
        if let Some(entry) = entries.iter().find(is_protected) {
            let what = format!(" protects {}: protect contains {entry:?}", describe(disk));
            return Err(Failure::new(Code::Protected, say![owner, what])
                .advise("choose another disk, or remove the entry from protect"));
        }
    }
    Ok(())
}

/// The entries that name none of the disks.
pub fn missing<'l>(
    all: &[Disk],
    lists: [&'l [String]; 2],
    resolve: &dyn Fn(&str) -> Option<String>,
) -> Vec<&'l String> {
    let is_missing = |entry: &&String| !all.iter().any(|disk| is_meant(disk, entry, resolve));
    lists.into_iter().flatten().filter(is_missing).collect()
}

/// Says of an entry that it names no disk.
pub(super) fn no_disk(entry: &str) -> String {
    format!("protect contains {entry:?}, which names no disk of this machine")
}

/// Refuses entries that name no disk.
///
/// # Errors
/// `PROTECTED` with each.
pub(super) fn check_missing(
    all: &[Disk],
    lists: [&[String]; 2],
    resolve: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Failure> {
    let missing = missing(all, lists, resolve);
    if missing.is_empty() {
        return Ok(());
    }
    let what = list(missing.into_iter().map(|entry| no_disk(entry)), "; ");
    Err(Failure::new(Code::Protected, what).advise(
        "correct the entry or insert the disk; with protect_missing: warn this is only a warning",
    ))
}

/// Prefixes of entries in the form of a hint; an entry here is only its value.
const HINTS: [&str; 8] =
    ["serial=", "wwn=", "wwn_with_extension=", "name=", "by_path=", "model=", "label=", "device="];

fn check_entries(list: &[String], owner: &Say) -> Result<(), Failure> {
    let wrong = list.iter().find_map(|entry| Some((entry, never_protects(entry.trim())?)));
    let Some((entry, why)) = wrong else { return Ok(()) };
    let message = say!["protect of ", owner.clone(), format!(" contains {entry:?}, {why}")];
    let expected = "protect a disk by its serial number, WWN, path below /dev, or a name or label of something on it";
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

/// True if an entry means the disk, by what it says or by the device file that it leads to.
fn is_meant(disk: &Disk, entry: &str, resolve: &dyn Fn(&str) -> Option<String>) -> bool {
    let entry = entry.trim();
    let target = || Some(entry).filter(|entry| entry.starts_with("/dev/")).and_then(resolve);
    is_named(disk, entry) || target().is_some_and(|target| has_node(disk, &target))
}

/// True if a device file belongs to the disk, to one of its partitions, or to what is built on them.
fn has_node(disk: &Disk, node: &str) -> bool {
    let is_partition = |name: &str| node.strip_prefix("/dev/") == Some(name);
    disk.device == node
        || disk.partitions.iter().any(|part| is_partition(&part.name))
        || disk.names_above.iter().any(|name| name == node)
}

/// True if an entry names the disk, or something on it. Case does not count, because a disk too many is safe.
fn is_named(disk: &Disk, entry: &str) -> bool {
    let wwns = [&disk.wwn, &disk.wwid, &disk.eui64, &disk.nguid];
    let known = texts(disk);
    let is_text = |wanted: &str| {
        known.iter().any(|text| {
            let text = text.trim();
            text.eq_ignore_ascii_case(wanted) || is_same_id(text, wanted)
        })
    };
    // The label of a member is the name of its array, `host:name`.
    let is_array = |wanted: &str| {
        let labels = contents(disk).filter(|found| found.kind == "linux_raid_member");
        let names = labels.filter_map(|found| found.label.as_deref()?.split_once(':'));
        names.into_iter().any(|(_, name)| name == wanted)
    };
    let is_text = |wanted: &str| is_text(wanted) || is_array(wanted);
    let group = group(entry);
    let is_of_group = |found: &Filesystem| {
        let found = found.membership.as_ref().and_then(|membership| membership.group.as_ref());
        found.is_some() && found == group.as_ref()
    };
    !entry.is_empty()
        && (has_node(disk, entry)
            || is_text(entry)
            || bare(entry).is_some_and(|name| is_text(&name))
            || contents(disk).any(is_of_group)
            || wwns.into_iter().flatten().any(|found| wwn::is_same(found, entry)))
}

/// The content of the disk and of what is built on it.
fn contents(disk: &Disk) -> impl Iterator<Item = &Filesystem> {
    let above = disk.content_above.iter().map(|above| &above.filesystem);
    disk.volumes().map(|volume| volume.filesystem).chain(above)
}

/// Everything that people and programs call the disk, its partitions, and what is on them.
fn texts(disk: &Disk) -> Vec<&String> {
    let serials = disk.serial.iter().chain(&disk.other_serials);
    let parts = disk.partitions.iter().flat_map(|part| [&part.label, &part.uuid]).flatten();
    let unlisted = disk.unlisted.iter().filter_map(|part| part.label.as_ref());
    let in_contents = contents(disk).flat_map(|found| {
        let membership = found.membership.as_ref();
        let group = membership.and_then(|membership| membership.group.as_ref());
        [found.label.as_ref(), found.uuid.as_ref(), group].into_iter().flatten()
    });
    let own = names(disk).chain(serials).chain(parts).chain(unlisted);
    own.chain(in_contents).chain(&disk.names_above).collect()
}

/// True if two texts are one UUID. That of an array has colons in the output of mdadm.
fn is_same_id(one: &str, other: &str) -> bool {
    let digits = |text: &str| text.replace(['-', ':'], "").to_ascii_lowercase();
    digits(one).len() == 32 && digits(one) == digits(other)
}

/// The label, UUID or name that a path contains.
fn bare(entry: &str) -> Option<String> {
    match entry.strip_prefix("/dev/")?.split('/').collect::<Vec<_>>()[..] {
        ["disk", "by-label" | "by-uuid" | "by-partlabel" | "by-partuuid", name] => {
            Some(unescape_hex(name))
        }
        ["mapper" | "md", name] => Some(name.to_owned()),
        _ => None,
    }
}

/// The volume group that an entry such as `/dev/vg/lv`, `vg/lv` or `/dev/mapper/vg-lv` names; it may not be active.
fn group(entry: &str) -> Option<String> {
    if let Some(mapping) = entry.strip_prefix("/dev/mapper/") {
        return lvm::Volume::parse(mapping).map(|volume| volume.group);
    }
    let (group, volume) = entry.strip_prefix("/dev/").unwrap_or(entry).split_once('/')?;
    (!volume.contains('/')).then(|| group.to_owned())
}

#[cfg(test)]
mod tests {
    use probes::block::{Membership, Partition};

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

    #[test]
    fn disk_is_protected_by_every_name_of_what_is_on_it_and_above_it() {
        let mut pv = filesystem("LVM2_member", None);
        let group = Membership { group: Some("vg-1".into()), ..Membership::default() };
        pv.membership = Some(Box::new(group));
        let uuid = "01234567-89ab-cdef-0123-456789abcdef";
        let array = filesystem("linux_raid_member", Some("node7:data"));
        let array = Filesystem { uuid: Some(uuid.into()), ..array };
        let part = |number: u32, found: Filesystem| Partition {
            filesystem: Some(found),
            uuid: Some(format!("PART-{number}")),
            ..partition("sda", number, "my data", "")
        };
        let names = ["/dev/dm-3", "vg0-home", "/dev/mapper/vg0-home", "home of all"];
        let disk = Disk {
            partitions: vec![part(1, pv), part(2, array)],
            names_above: texts(&names),
            ..testing::disk("sda", 9)
        };
        let resolve = |path: &str| (path == "/dev/vg0/home").then(|| "/dev/dm-3".to_owned());
        let check = |entry: &str| check(&disk, &[], [&[], &[entry.to_owned()]], &resolve);
        for entry in [
            "vg-1",
            "/dev/vg-1/any",
            "vg-1/any",
            "/dev/mapper/vg--1-any",
            "part-1",
            "/dev/disk/by-partuuid/PART-2",
            "/dev/disk/by-partlabel/my\\x20data",
            uuid,
            "01234567:89abcdef:01234567:89abcdef",
            "data",
            "node7:data",
            "/dev/md/data",
            "/dev/dm-3",
            "vg0-home",
            "/dev/vg0/home",
            "home of all",
        ] {
            assert_eq!(check(entry).unwrap_err().code, Code::Protected, "{entry}");
        }
        for entry in ["vg", "/dev/vg/any", "vg-2", "/dev/dm-4", "/dev/disk/by-uuid/PART-9", "any"] {
            assert_eq!(check(entry), Ok(()), "{entry}");
        }
    }
}
