//! Finds the data on the chosen disk and checks that the policy allows overwriting it.

use std::collections::BTreeSet;
use std::ops::Range;

use formats::text::is_number;
use probes::block::{Disk, Filesystem, Obstacle, ObstacleKind, Partition};

use super::array_metadata::outside;
use super::choose::Description;
use super::saved::Saved;
use super::{Code, ExistingData, ExistingDataPolicy, Failure, Say, Term, describe, list, say};

/// Name of an earlier installation in `existing_os`.
pub(super) const COREOS: &str = "Fedora or RHEL CoreOS";
const MEMBER: &str = "linux_raid_member";
/// A boot loader, or nothing: no known content.
const RAW: &[&str] = &[""];
const HASH: &[&str] = &["", "DM_verity_hash"];
/// `proof::earlier` judges it.
const ANY: &[&str] = &[];
/// Partition labels of its images (coreos-assembler; those with `hash` and `se` are of IBM Secure Execution) with their
/// content, and the prefixes before the disk number in the labels that Butane's `boot_device.mirror` makes, with theirs.
const LABELS: [(&str, &[&str], &str, &[&str]); 10] = [
    ("BIOS-BOOT", RAW, "bios-", RAW),
    ("EFI-SYSTEM", ANY, "esp-", &["vfat", MEMBER]),
    ("PowerPC-PReP-boot", RAW, "prep-", RAW),
    ("reserved", RAW, "reserved-", RAW),
    ("boot", ANY, "boot-", &[MEMBER]),
    ("root", ANY, "root-", &[MEMBER]),
    ("luks_root", &["crypto_LUKS"], "root-", &[MEMBER]),
    ("boothash", HASH, "boothash-", HASH),
    ("roothash", HASH, "roothash-", HASH),
    ("se", &["ext4"], "se-", &["ext4"]),
];
/// More than any of its partitions without known content has: 4 MiB for `PReP`, 256 MiB for `roothash`.
const RAW_BYTES: u64 = 512 << 20;
/// A smaller `root` is as the image contains it. The first start grows it; until then it is followed by what was on the disk
/// before.
const GROWN_BYTES: u64 = 8 << 30;
/// Length at the start, at the end and after each partition that tables may use: their backups lie at the end of the image
/// and of every smaller disk that the disk was once.
const TABLE_BYTES: u64 = 2 << 20;
/// Maximum number of things that a result lists.
const MAX_LISTED: usize = 64;

/// The policy: the order's; otherwise a disk that it identifies may contain anything.
pub(super) fn policy(
    given: Option<ExistingDataPolicy>,
    description: Description,
) -> ExistingDataPolicy {
    given.unwrap_or(match description {
        Description::Identity => ExistingDataPolicy::Wipe,
        Description::Attributes | Description::Absent => ExistingDataPolicy::Coreos,
    })
}

/// Everything that was found on a disk, for the result. Empty if the disk is blank.
pub fn found(disk: &Disk) -> Vec<ExistingData> {
    let entry = |name: &str, what: String| ExistingData { name: name.to_owned(), what };
    let systems = disk.existing_os.iter().map(|system| entry(&disk.name, system.clone()));
    let mut found: Vec<ExistingData> = systems.collect();
    if let Some(filesystem) = &disk.filesystem {
        found.push(entry(&disk.name, content(filesystem)));
    }
    if disk.has_unknown_content {
        found.push(entry(&disk.name, "data without a known signature".to_owned()));
    }
    found.extend(disk.partitions.iter().map(|part| entry(&part.name, partition(part))));
    found.extend(disk.unlisted.iter().map(|part| {
        let what = part.filesystem.as_ref().map_or("unknown content".to_owned(), content);
        let label = labelled(part.label.as_ref());
        let name = format!("{} partition {}", disk.name, part.number);
        entry(&name, format!("{what}{label}, in a table that the kernel does not use"))
    }));
    if let Some(kind) = disk.partition_table.as_ref().filter(|_| found.is_empty()) {
        // Its partitions may have been deleted by mistake.
        found.push(entry(&disk.name, format!("{kind} partition table without partitions")));
    }
    let active = disk.obstacles.iter().filter(|obstacle| obstacle.kind == ObstacleKind::Active);
    found.extend(active.map(|obstacle| entry(&disk.name, obstacle.text.clone())));
    found.truncate(MAX_LISTED);
    found
}

fn content(filesystem: &Filesystem) -> String {
    let label = filesystem.label.as_ref().map(|label| format!(" {label:?}"));
    format!("{}{}", filesystem.kind, label.unwrap_or_default())
}

fn partition(part: &Partition) -> String {
    let what = part.filesystem.as_ref().map_or("no known file system".to_owned(), content);
    format!("{what}{}", labelled(part.label.as_ref()))
}

fn labelled(label: Option<&String>) -> String {
    label.map(|label| format!(", partition label {label:?}")).unwrap_or_default()
}

/// True if nothing on the disk has a known owner: it is blank, or contains an empty table, the signature of a DOS table, or
/// bytes without any known signature.
pub(super) fn is_unowned(disk: &Disk) -> bool {
    let is_content =
        |found: &Obstacle| matches!(found.kind, ObstacleKind::Content | ObstacleKind::Active);
    disk.filesystem.is_none()
        && disk.partitions.is_empty()
        && disk.unlisted.is_empty()
        && disk.existing_os.is_empty()
        && !disk.obstacles.iter().any(is_content)
}

/// The areas of a disk with an earlier `CoreOS` that neither its partitions nor its tables cover; none if the place of a
/// partition is unknown.
pub(super) fn gaps(disk: &Disk) -> Vec<Range<u64>> {
    let of = || {
        let size_bytes = disk.size_bytes.filter(|_| is_coreos(disk))?;
        let mut covered = vec![0..TABLE_BYTES, size_bytes.saturating_sub(TABLE_BYTES)..size_bytes];
        for part in &disk.partitions {
            let (start, n_bytes) = (part.start_bytes?, part.size_bytes?);
            let is_root = part.label.as_deref().is_some_and(|label| label.ends_with("root"));
            if is_root && n_bytes < GROWN_BYTES {
                return None;
            }
            covered.push(start..start.saturating_add(n_bytes).saturating_add(TABLE_BYTES));
        }
        Some(outside(0..size_bytes, &covered))
    };
    of().unwrap_or_default()
}

/// True if the labels on a disk are those of an earlier `CoreOS`.
pub(super) fn is_coreos(disk: &Disk) -> bool {
    disk.existing_os.iter().any(|system| system == COREOS)
}

/// The failure if the policy requires a blank disk, and it is only known where no data are.
pub(super) fn not_known_as_blank(disk: &Disk, found: &str) -> Failure {
    let what = say![
        format!("{} may contain data: {found}; not all of it was read, and ", describe(disk)),
        Term::ExistingData,
        " is refuse"
    ];
    Failure::new(Code::ExistingData, what).advise(say![
        "to install on a disk without data in these places, set ",
        Term::ExistingData,
        " to coreos"
    ])
}

/// Checks that the policy, `given` by the order or the default, allows overwriting the data on the disk. Returns the reason.
///
/// If the order does not describe the disk at all, only an earlier `CoreOS` is overwritten, and with an explicit `wipe` what
/// has no known owner.
///
/// # Errors
/// `EXISTING_DATA` with what was found.
pub(super) fn check(
    disk: &Disk,
    given: Option<ExistingDataPolicy>,
    description: Description,
    saved: &Saved,
    is_unfinished: bool,
) -> Result<Say, Failure> {
    let found = found(disk);
    if found.is_empty() {
        return Ok("it is blank".into());
    }
    if is_unfinished && given != Some(ExistingDataPolicy::Refuse) && are_remains(disk, saved) {
        return Ok("it contains what an interrupted install of this node left".into());
    }
    let is_described = description != Description::Absent;
    let (is_coreos, is_unowned) = (is_coreos(disk), is_unowned(disk));
    let kept = || beyond_coreos(disk, saved);
    let (found, rule): (String, Say) = match policy(given, description) {
        ExistingDataPolicy::Wipe if is_described || is_unowned => {
            return Ok(say![Term::ExistingData, " is wipe: whatever it contains is overwritten"]);
        }
        ExistingDataPolicy::Wipe | ExistingDataPolicy::Coreos if is_coreos && kept().is_empty() => {
            return Ok("it contains an earlier CoreOS".into());
        }
        ExistingDataPolicy::Refuse => (named(&found), say![Term::ExistingData, " is refuse"]),
        _ if is_coreos => {
            let rule = "only an earlier CoreOS may be overwritten, and this is more";
            (kept().join("; "), rule.into())
        }
        _ => {
            let rule = "only a blank disk or an earlier CoreOS may be overwritten";
            (named(&found), rule.into())
        }
    };
    let identify = "identify the disk by serial, WWN, /dev/disk/by-id or /dev/disk/by-path";
    let how = match (is_described, given) {
        (false, _) if is_unowned => say![identify, ", or ", Term::SetWipe],
        (false, None | Some(ExistingDataPolicy::Wipe)) => identify.into(),
        (false, Some(_)) => say![identify, ", and ", Term::SetWipe],
        (true, None) => say![identify, ", or ", Term::SetWipe],
        (true, Some(_)) => Term::SetWipe.into(),
    };
    let what = say![format!("{} contains data ({found}), and ", describe(disk)), rule];
    let keep = "; to keep partitions, list them in ";
    let advice = say!["to overwrite it, ", how, keep, Term::SavePartlabel];
    Err(Failure::new(Code::ExistingData, what).advise(advice))
}

/// True if nothing on the disk has an owner but the partitions to keep, and none of it is in use.
fn are_remains(disk: &Disk, saved: &Saved) -> bool {
    let kept: Vec<&str> =
        disk.partitions.iter().filter(|part| saved.keeps(part)).map(|part| &*part.name).collect();
    let is_of_kept = |obstacle: &Obstacle| {
        obstacle.text.split_once(' ').is_some_and(|(name, _)| kept.contains(&name))
    };
    let mut rest = disk.clone();
    rest.partitions.retain(|part| !saved.keeps(part));
    rest.obstacles
        .retain(|obstacle| obstacle.kind == ObstacleKind::Active || !is_of_kept(obstacle));
    is_unowned(&rest)
}

/// Lists the content of a disk with an earlier `CoreOS` that does not belong to it: parts of arrays and pools, active
/// parts, other systems, further partitions. Partitions that are kept do not count.
fn beyond_coreos(disk: &Disk, saved: &Saved) -> Vec<String> {
    let mirror: BTreeSet<&str> = disk
        .partitions
        .iter()
        .filter(|part| is_mirrored(part) || saved.keeps(part))
        .map(|part| part.name.as_str())
        .collect();
    let belongs = |text: &str| text.split_once(' ').is_some_and(|(name, _)| mirror.contains(name));
    let obstacles = disk.obstacles.iter().filter(|obstacle| match obstacle.kind {
        ObstacleKind::Active => true,
        ObstacleKind::Content => !belongs(&obstacle.text),
        _ => false,
    });
    let systems = disk.existing_os.iter().filter(|system| *system != COREOS);
    let unlisted = disk
        .unlisted
        .iter()
        .map(|part| format!("partition {} in a table that the kernel does not use", part.number));
    let outside = disk.has_unknown_content.then(|| "data outside of its partitions".to_owned());
    systems
        .cloned()
        .chain(outside)
        .chain(obstacles.map(|obstacle| obstacle.text.clone()))
        .chain(unlisted)
        .chain(further_partitions(disk, saved))
        .collect()
}

/// The partitions that no `CoreOS` image has, such as `var` or `data`: they may contain what a re-install is meant to
/// keep. One without a known file system may contain data all the same.
fn further_partitions(disk: &Disk, saved: &Saved) -> Vec<String> {
    let mut seen = BTreeSet::new();
    // Each occurs once, so a second one, whether it is half of a mirror or not, is of another kind.
    let mut is_of_coreos = |part: &Partition| role(part).is_some_and(|role| seen.insert(role));
    let further = disk.partitions.iter().filter(|part| !is_of_coreos(part) && !saved.keeps(part));
    further.map(|part| format!("{}: {}", part.name, partition(part))).collect()
}

/// What a partition is to a `CoreOS`, if both its label and its content say so: the prefix that it has in a mirror.
fn role(part: &Partition) -> Option<&'static str> {
    let label = part.label.as_deref().unwrap_or_default();
    let kind = part.filesystem.as_ref().map_or("", |filesystem| filesystem.kind.as_str());
    let is_small = part.size_bytes.is_none_or(|n_bytes| n_bytes <= RAW_BYTES);
    let is_one_of = |kinds: &[&str]| {
        kinds.is_empty() || kinds.contains(&kind) && (is_small || !kind.is_empty())
    };
    let of = |(whole, content, half, of_half)| {
        let is_half = label.strip_prefix(half).is_some_and(is_number);
        let is_it = label == whole && is_one_of(content) || is_half && is_one_of(of_half);
        is_it.then_some(half)
    };
    LABELS.into_iter().find_map(of)
}

/// True if a partition is a half of a mirrored `CoreOS`, as Butane's `boot_device.mirror` labels them.
fn is_mirrored(part: &Partition) -> bool {
    part.filesystem.as_ref().is_some_and(|filesystem| filesystem.kind == MEMBER)
        && part.label.as_deref().is_some_and(|label| label.ends_with(char::is_numeric))
        && role(part).is_some()
}

fn named(found: &[ExistingData]) -> String {
    list(found.iter().map(|data| format!("{}: {}", data.name, data.what)), "; ")
}
