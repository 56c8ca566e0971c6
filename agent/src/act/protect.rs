//! Disks that are never written, whatever an order says: by serial number, WWN, path, or any name of something on them.

use formats::lvm;
use formats::text::is_number;
use formats::wwn;
use probes::block::{Disk, Filesystem};
use probes::udev::unescape_hex;

use super::choose::{is_twin, names};
use super::{Code, Failure, Say, Term, describe, list, say};

/// Refuses a protected disk. The entries of a LUN's paths protect the LUN on every path, and those of members their
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
    let is_path = |other: &&Disk| other.unit() == Some(&disk.name) || is_twin(disk, other);
    let paths = || all.iter().filter(is_path);
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

/// Keys of entries in the form of a hint or of `/etc/fstab`; an entry here is only the value.
const KEYS: &str = "serial serialnumber wwn wwn_with_extension name by_path model label device uuid partlabel partuuid id";
/// Kinds of links and mappings whose names contain an identifier or name of what is on the disk.
const LINKS: [&str; 5] = ["md-uuid-", "md-name-", "lvm-pv-uuid-", "dm-name-", "luks-"];

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
    let key = entry.split_once(['=', ':']).map(|(key, _)| key.trim());
    let is_hint =
        key.is_some_and(|key| KEYS.split(' ').any(|known| known.eq_ignore_ascii_case(key)));
    let has_odd_step = entry.contains("//") || entry.contains("/./");
    let is_bad_path = entry.starts_with("/dev/") && (entry.ends_with('/') || has_odd_step);
    let reasons = [
        (entry.is_empty(), "which is empty"),
        (is_kernel_name(entry), kernel_name),
        (entry.contains(['*', '?']), "a pattern"),
        (is_hint, "a key with a value: write only the value"),
        (is_bad_path, "no path of a device file"),
    ];
    reasons.into_iter().find_map(|(is_wrong, why)| is_wrong.then_some(why))
}

/// True if a text is a name of a disk or partition, or a SCSI address, that the kernel assigns anew at each boot.
pub fn is_kernel_name(text: &str) -> bool {
    let after = |start: &&str| text.strip_prefix(*start);
    let is_lettered = ["sd", "hd", "vd", "xvd", "dasd"].iter().filter_map(after).any(|rest| {
        let letters = rest.trim_end_matches(|c: char| c.is_ascii_digit());
        (1..=3).contains(&letters.len()) && letters.bytes().all(|b| b.is_ascii_lowercase())
    });
    let numbers = |rest: &str| rest.split(['c', 'n', 'p', ':']).all(is_number);
    let is_numbered = ["nvme", "mmcblk"].iter().filter_map(after).any(numbers);
    is_lettered || is_numbered || text.matches(':').count() == 3 && text.len() < 24 && numbers(text)
}

/// True if an entry means the disk, by what it says or by the device file that it leads to.
fn is_meant(disk: &Disk, entry: &str, resolve: &dyn Fn(&str) -> Option<String>) -> bool {
    let entry = entry.trim();
    // The end of a path is enough.
    let starts: &[&str] = if entry.starts_with("/dev/") {
        &[""]
    } else {
        &["", "/dev/", "/dev/disk/by-id/", "/dev/disk/by-path/"]
    };
    starts.iter().map(|start| format!("{start}{entry}")).any(|entry| {
        let target =
            || Some(&entry).filter(|entry| entry.starts_with("/dev/")).and_then(|e| resolve(e));
        is_named(disk, &entry) || target().is_some_and(|target| has_node(disk, &target))
    })
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
    let group = group(entry);
    let is_of_group = |found: &Filesystem| {
        let pool = found.label.as_ref().filter(|_| found.kind == "zfs_member");
        let found = found.membership.as_ref().and_then(|membership| membership.group.as_ref());
        group.is_some() && (found == group.as_ref() || pool == group.as_ref())
    };
    !entry.is_empty()
        && (has_node(disk, entry)
            || is_text(entry)
            || is_array(entry)
            || bare(entry).is_some_and(|name| is_named(disk, &name))
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
        let of_whole = found.membership.iter().flat_map(|found| [&found.group, &found.whole]);
        [&found.label, &found.uuid].into_iter().chain(of_whole).flatten()
    });
    let own = names(disk).chain(serials).chain(parts).chain(unlisted);
    own.chain(in_contents).chain(&disk.names_above).collect()
}

/// True if two texts are one UUID. That of an array has colons in the output of mdadm.
fn is_same_id(one: &str, other: &str) -> bool {
    let digits = |text: &str| text.replace(['-', ':'], "").to_ascii_lowercase();
    digits(one).len() == 32 && digits(one) == digits(other)
}

/// The label, UUID or name that a path or the name of a link contains.
fn bare(entry: &str) -> Option<String> {
    let path = entry.strip_prefix("/dev/").unwrap_or_default();
    let name = match path.split('/').collect::<Vec<_>>()[..] {
        ["disk", _, name] | ["mapper" | "md", name] => name,
        _ => entry,
    };
    let name = LINKS.iter().find_map(|link| name.strip_prefix(link)).unwrap_or(name);
    Some(unescape_hex(name)).filter(|name| name != entry)
}

/// The volume group or pool that an entry such as `/dev/vg/lv`, `vg/lv`, `vg-lv` or `pool/data/set` names; it may not be
/// active.
fn group(entry: &str) -> Option<String> {
    let path = entry.strip_prefix("/dev/");
    match path.unwrap_or(entry).split_once('/') {
        Some((_, volume)) if path.is_some() && volume.contains('/') => None,
        Some((group, _)) => Some(group.to_owned()),
        None => lvm::Volume::parse(entry).map(|volume| volume.group),
    }
}

#[cfg(test)]
mod tests {
    use probes::block::{Membership, ObstacleKind, Partition};

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
            ("serial=S1", "write only the value"),
            ("/dev/sda/", "no path of a device file"),
            ("/dev//sda", "no path of a device file"),
            ("/dev/./disk/by-label/x", "no path of a device file"),
        ] {
            let entry = &texts(&[entry])[..];
            for lists in [[entry, &[]], [&[], entry]] {
                let failure = check(&disk(), &[], lists, &|_| None).unwrap_err();
                assert!(failure.to_string().contains(why), "{entry:?}: {failure}");
            }
        }
    }

    #[test]
    fn every_form_of_a_kernel_name_and_every_key_with_a_value_is_refused() {
        let names = "sdaaa sda1 hda xvda dasda vdb2 mmcblk0 mmcblk0p1 nvme0n1p2 nvme0c1n1 0:0:0:0";
        let keys = "UUID=0f0e LABEL=x label:x PARTLABEL=x PartUUID=1 Serial=S1 SERIAL:S1";
        for entry in names.split(' ').chain(keys.split(' ')) {
            assert!(never_protects(entry).is_some(), "{entry:?}");
        }
        for entry in ["sdaaaa", "SDA", "sd-1", "nvme", "mmc", "node:data", "WD-WX11A:1", "S=1"] {
            assert_eq!(never_protects(entry), None, "{entry:?}");
        }
        assert!(!is_kernel_name("01234567:89012345:01234567:89012345"), "the UUID of an array");
    }

    #[test]
    fn lun_is_protected_by_the_names_of_its_other_path_without_multipath() {
        let path = |name: &str| {
            let obstacles = vec![ObstacleKind::SharedIdentity.because("the same identity as")];
            let serial = Some("LUN".into());
            Disk { serial, wwn: None, obstacles, ..testing::disk(name, 9) }
        };
        let wwn = |disk: Disk| Disk { wwn: Some("0x5000c500a1b2c3d4".into()), ..disk };
        let is_protected = |disks: [Disk; 2]| {
            let entry = ["/dev/disk/by-path/pci-sda".to_owned()];
            check(&disks[1], &disks, [&entry, &[]], &|_| None).is_err()
        };
        assert!(is_protected([path("sda"), path("sdb")]));
        assert!(is_protected([wwn(testing::disk("sda", 9)), wwn(testing::disk("sdb", 9))]));
        let smaller = Disk { size_bytes: Some(8), ..path("sdb") };
        assert!(!is_protected([path("sda"), smaller]), "another LUN of the array");
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
        let (group, whole) = (Some("vg-1".into()), Some("VGUUID-aaaa".into()));
        let group = Membership { group, whole, ..Membership::default() };
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
            partitions: vec![
                part(1, pv),
                part(2, array),
                part(3, filesystem("zfs_member", Some("tank"))),
            ],
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
            "vguuid-AAAA",
            "vg--1-any",
            "tank/data/set",
            "ata-sda",
            "disk/by-id/ata-sda",
            "vg0/home",
            "my\\x20data",
            "/dev/mapper/luks-01234567-89ab-cdef-0123-456789abcdef",
            "/dev/disk/by-id/md-uuid-01234567:89abcdef:01234567:89abcdef",
            "/dev/disk/by-id/dm-name-vg--1-any",
        ] {
            assert_eq!(check(entry).unwrap_err().code, Code::Protected, "{entry}");
        }
        let others =
            "vg /dev/vg/any vg-2 /dev/dm-4 /dev/disk/by-uuid/PART-9 any tank2/data ata-sdb";
        for entry in others.split(' ') {
            assert_eq!(check(entry), Ok(()), "{entry}");
        }
    }
}
