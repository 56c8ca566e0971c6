//! Rules of disks, partitions, RAID arrays, LUKS volumes and file systems.
//!
//! Sources: Ignition `config/v3_*/types/{disk,partition,raid,luks,clevis,tang,cex,filesystem}.go`.

use std::collections::HashSet;

use serde::de::IgnoredAny;

use super::at::At;
use super::findings::Findings;
use crate::text::shown;

/// Longest partition label that sgdisk, and so Ignition, accepts (GPT: 36 UTF-16 units).
const MAX_LABEL_BYTES: usize = 36;
/// `LUKS2_LABEL_L` without the final NUL (cryptsetup `lib/luks2/luks2.h`).
const MAX_LUKS_LABEL_BYTES: usize = 47;
/// RAID levels without spares.
const STRIPED: [&str; 4] = ["linear", "raid0", "0", "stripe"];
const REDUNDANT: [&str; 11] =
    ["raid1", "1", "mirror", "raid4", "4", "raid5", "5", "raid6", "6", "raid10", "10"];
/// Formats of file systems, and their longest labels in bytes.
const FORMATS: [(&str, usize); 6] = [
    ("ext4", 16),
    ("btrfs", 256),
    ("xfs", 12),
    ("swap", 15),
    ("vfat", 11),
    // From spec 3.3.0.
    ("none", usize::MAX),
];

pub(super) fn rules(root: &At<'_>, findings: &mut Findings) {
    root.each("storage.disks.*").iter().for_each(|at| disk(at, findings));
    root.each("storage.raid.*").iter().for_each(|at| raid(at, findings));
    root.each("storage.luks.*").iter().for_each(|at| luks(at, findings));
    root.each("storage.filesystems.*").iter().for_each(|at| filesystem(at, findings));
}

/// The form of a partition's label.
pub(super) fn partition_label(label: &str) -> Option<&'static str> {
    let is_good = label.len() <= MAX_LABEL_BYTES && !label.contains(':');
    (!is_good).then_some("at most 36 bytes without a colon")
}

/// The form of a GUID, or none.
pub(super) fn guid(text: &str) -> Option<&'static str> {
    let is_good = text.is_empty() || formats::guid::parse(text).is_some();
    (!is_good).then_some("the form 01234567-89AB-CDEF-EDCB-A98765432101")
}

/// The form of a RAID array's level.
pub(super) fn raid_level(level: &str) -> Option<&'static str> {
    let is_good = level.is_empty() || STRIPED.contains(&level) || REDUNDANT.contains(&level);
    (!is_good).then_some("a RAID level such as raid1")
}

/// The form of an encrypted volume's name.
pub(super) fn luks_name(name: &str) -> Option<&'static str> {
    name.contains('/').then_some("a name without a slash")
}

/// The form of an encrypted volume's label.
pub(super) fn luks_label(label: &str) -> Option<&'static str> {
    (label.len() > MAX_LUKS_LABEL_BYTES).then_some("at most 47 bytes")
}

/// The form of a tang server's advertisement.
pub(super) fn advertisement(text: &str) -> Option<&'static str> {
    let is_json = text.is_empty() || serde_json::from_str::<IgnoredAny>(text).is_ok();
    (!is_json).then_some("JSON")
}

fn disk(disk: &At<'_>, findings: &mut Findings) {
    let partitions: Vec<At<'_>> = disk.items("partitions").collect();
    let mut labels = HashSet::new();
    for at in &partitions {
        let has_layout = at.str("label").is_some()
            || at.filled("typeGuid").is_some()
            || at.filled("guid").is_some()
            || at.int("startMiB").is_some()
            || at.int("sizeMiB").is_some();
        if is_unwanted(at) && has_layout {
            findings.problem(&at.path, "both removal and a layout", "only one of them");
        }
        if is_unnumbered(at) && at.str("label").is_none() {
            let expected = "a number from 1, or a label";
            findings.problem(&at.path, "without a number and a label", expected);
        }
        // Partitions with numbers have these as their keys.
        if let Some(label) = at.str("label").filter(|label| !labels.insert(*label)) {
            findings.problem(&at.path, format!("{} a second time", shown(label)), "only one");
        }
    }
    refuse_overlap(&partitions, findings);
    if partitions.iter().any(is_unnumbered) && partitions.iter().any(is_unwanted) {
        let found = "partitions to remove and partitions without a number";
        findings.problem(&format!("{}.partitions", disk.path), found, "a number for each");
    }
}

/// 0 means the next free number.
fn is_unnumbered(partition: &At<'_>) -> bool {
    partition.int("number").unwrap_or(0) == 0
}

fn is_unwanted(partition: &At<'_>) -> bool {
    partition.value["shouldExist"] == false
}

/// Refuses partitions that overlap; those without an explicit start and size are skipped.
fn refuse_overlap(partitions: &[At<'_>], findings: &mut Findings) {
    let mut placed: Vec<(i64, i64, &At<'_>)> = partitions
        .iter()
        .filter_map(|at| Some((at.int("startMiB")?, at.int("sizeMiB")?, at)))
        .filter(|(start, size, _)| *start > 0 && *size >= 0)
        .map(|(start, size, at)| (start, start.saturating_add(size.max(1)), at))
        .collect();
    placed.sort_by_key(|(start, end, _)| (*start, *end));
    let mut furthest: Option<(i64, &str)> = None;
    for (start, end, at) in placed {
        if let Some((taken, other)) = furthest.filter(|(taken, _)| start < *taken) {
            let found = format!("a start at {start} MiB, while {other} ends at {taken} MiB");
            findings.problem(&at.path, found, "partitions that do not overlap");
        }
        if furthest.is_none_or(|(taken, _)| end > taken) {
            furthest = Some((end, &at.path));
        }
    }
}

fn raid(at: &At<'_>, findings: &mut Findings) {
    let level = at.str("level").unwrap_or_default();
    if STRIPED.contains(&level) && at.int("spares").is_some_and(|n| n != 0) {
        let found = format!("{} with spares", shown(level));
        findings.problem(&format!("{}.level", at.path), found, "no spares at this level");
    }
    if !at.has_items("devices") {
        findings.problem(&format!("{}.devices", at.path), "empty", "at least one device");
    }
}

fn luks(at: &At<'_>, findings: &mut Findings) {
    if let Some(at) = at.get("clevis") {
        clevis(&at, findings);
    }
    let has_key = at.get("keyFile").is_some_and(|file| file.filled("source").is_some());
    let has_clevis = at.get("clevis").is_some_and(|at| is_used(&at) || custom_is_used(&at));
    if at.get("cex").is_some_and(|cex| cex.is_true("enabled")) && (has_key || has_clevis) {
        let path = format!("{}.cex", at.path);
        findings.problem(&path, "cex and clevis or a key", "only one of them");
    }
}

/// True if `clevis` has anything other than a custom config.
fn is_used(clevis: &At<'_>) -> bool {
    let has_threshold = clevis.int("threshold").is_some_and(|n| n != 0);
    clevis.has_items("tang") || clevis.is_true("tpm2") || has_threshold
}

fn custom_is_used(clevis: &At<'_>) -> bool {
    clevis.get("custom").is_some_and(|at| {
        at.filled("pin").is_some() || at.filled("config").is_some() || at.is_true("needsNetwork")
    })
}

fn clevis(at: &At<'_>, findings: &mut Findings) {
    let Some(custom) = at.get("custom").filter(|_| custom_is_used(at)) else { return };
    let pin = custom.filled("pin");
    if pin.is_some() && is_used(at) {
        let found = "a custom config and tpm2, tang or threshold";
        findings.problem(&at.path, found, "only one of them");
    }
    if !matches!(pin, Some("tpm2" | "tang" | "sss")) {
        let found = pin.map_or("missing".to_owned(), shown);
        findings.problem(&format!("{}.pin", custom.path), found, "tpm2, tang or sss");
    }
    if custom.filled("config").is_none() {
        findings.missing(&custom, "config", "the config of the pin");
    }
}

fn filesystem(at: &At<'_>, findings: &mut Findings) {
    let Some(format) = at.filled("format") else {
        let needs_format =
            ["path", "label", "uuid"].into_iter().any(|key| at.filled(key).is_some())
                || at.is_true("wipeFilesystem")
                || at.has_items("options")
                || at.has_items("mountOptions");
        if needs_format {
            findings.missing(at, "format", "a format, which the other keys require");
        }
        return;
    };
    let known = FORMATS.iter().find(|(name, _)| *name == format);
    let Some((_, max_label_bytes)) = known.filter(|_| format != "none" || findings.minor >= 3)
    else {
        let expected = "ext4, btrfs, xfs, swap or vfat (none from spec 3.3.0)";
        findings.problem(&format!("{}.format", at.path), shown(format), expected);
        return;
    };
    if let Some(label) = at.get("label").filter(|label| label.text().len() > *max_label_bytes) {
        findings.bad_text(&label, &format!("at most {max_label_bytes} bytes with {format}"));
    }
}
