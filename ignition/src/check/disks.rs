//! Rules of disks, partitions, RAID arrays, LUKS volumes and file systems.
//!
//! Sources: Ignition `config/v3_*/types/{disk,partition,raid,luks,clevis,tang,filesystem}.go`.

use std::collections::HashSet;

use super::at::{At, refuse_duplicates};
use super::findings::Findings;
use super::{source, storage};
use crate::text::shown;

/// Longest partition label that sgdisk, and so Ignition, accepts (GPT: 36 UTF-16 units).
const MAX_LABEL_BYTES: usize = 36;
/// `LUKS2_LABEL_L` without the final NUL (cryptsetup `lib/luks2/luks2.h`).
const MAX_LUKS_LABEL_BYTES: usize = 47;

pub(super) fn rules(storage: &At<'_>, findings: &mut Findings) {
    storage.items("disks").for_each(|at| disk(&at, findings));
    refuse_duplicates(storage.items("disks"), findings, |at| at.str("device"));
    storage.items("raid").for_each(|at| raid(&at, findings));
    refuse_duplicates(storage.items("raid"), findings, |at| at.str("name"));
    storage.items("luks").for_each(|at| luks(&at, findings));
    refuse_duplicates(storage.items("luks"), findings, |at| at.str("name"));
    storage.items("filesystems").for_each(|at| filesystem(&at, findings));
    refuse_duplicates(storage.items("filesystems"), findings, |at| at.str("device"));
}

fn device(at: &At<'_>, findings: &mut Findings) {
    match at.get("device") {
        Some(at) => storage::path(&at, findings),
        None => findings.problem(&format!("{}.device", at.path), "missing", "the path of a device"),
    }
}

fn disk(disk: &At<'_>, findings: &mut Findings) {
    device(disk, findings);
    disk.items("partitions").for_each(|at| partition(&at, findings));
    refuse_duplicates(disk.items("partitions"), findings, |at| at.str("label"));
    refuse_same_numbers(disk, findings);
    refuse_overlap(disk, findings);
    let has_unnumbered = disk.items("partitions").any(|at| at.int("number").unwrap_or(0) == 0);
    let has_unwanted = disk.items("partitions").any(|at| at.bool("shouldExist") == Some(false));
    if has_unnumbered && has_unwanted {
        let found = "partitions to remove and partitions without a number";
        findings.problem(&format!("{}.partitions", disk.path), found, "a number for each");
    }
}

fn partition(at: &At<'_>, findings: &mut Findings) {
    let has_layout = at.get("label").is_some()
        || at.filled("typeGuid").is_some()
        || at.filled("guid").is_some()
        || at.int("startMiB").is_some()
        || at.int("sizeMiB").is_some();
    if at.bool("shouldExist") == Some(false) && has_layout {
        findings.problem(&at.path, "both removal and a layout", "only one of them");
    }
    if at.int("number").unwrap_or(0) == 0 && at.get("label").is_none() {
        findings.problem(&at.path, "without a number and a label", "a number from 1, or a label");
    }
    if let Some(at) = at.get("label") {
        let label = at.text().unwrap_or_default();
        if label.len() > MAX_LABEL_BYTES || label.contains(':') {
            findings.bad_text(&at, "at most 36 bytes without a colon");
        }
    }
    for key in ["guid", "typeGuid"] {
        if let Some(at) = at.get(key).filter(|at| !is_guid(at.text().unwrap_or_default())) {
            findings.bad_text(&at, "the form 01234567-89AB-CDEF-EDCB-A98765432101");
        }
    }
}

fn is_guid(text: &str) -> bool {
    let group =
        |group: &str, n: usize| group.len() == n && group.bytes().all(|b| b.is_ascii_hexdigit());
    let groups: Vec<&str> = text.split('-').collect();
    text.is_empty()
        || groups.len() == 5 && groups.iter().zip([8, 4, 4, 4, 12]).all(|(g, n)| group(g, n))
}

fn refuse_same_numbers(disk: &At<'_>, findings: &mut Findings) {
    let mut seen = HashSet::new();
    for at in disk.items("partitions") {
        // 0 means the next free number, so several partitions may have it.
        let number = at.int("number").unwrap_or(0);
        if number != 0 && !seen.insert(number) {
            let found = format!("{number} a second time");
            findings.problem(&format!("{}.number", at.path), found, "each number once");
        }
    }
}

/// Refuses partitions that overlap; those without an explicit start and size are skipped.
fn refuse_overlap(disk: &At<'_>, findings: &mut Findings) {
    let mut placed: Vec<(i64, i64, At<'_>)> = disk
        .items("partitions")
        .filter_map(|at| Some((at.int("startMiB")?, at.int("sizeMiB")?, at)))
        .filter(|(start, size, _)| *start > 0 && *size >= 0)
        .map(|(start, size, at)| (start, start.saturating_add(size.max(1)), at))
        .collect();
    placed.sort_by_key(|(start, end, _)| (*start, *end));
    let mut furthest: Option<(i64, String)> = None;
    for (start, end, at) in placed {
        if let Some((taken, other)) = &furthest
            && start < *taken
        {
            let found = format!("a start at {start} MiB, while {other} ends at {taken} MiB");
            findings.problem(&at.path, found, "partitions that do not overlap");
        }
        if furthest.as_ref().is_none_or(|(taken, _)| end > *taken) {
            furthest = Some((end, at.path));
        }
    }
}

fn raid(at: &At<'_>, findings: &mut Findings) {
    let level_path = format!("{}.level", at.path);
    let level = at.str("level").unwrap_or_default();
    match level {
        "linear" | "raid0" | "0" | "stripe" => {
            if at.int("spares").is_some_and(|n| n != 0) {
                let found = format!("{} with spares", shown(level));
                findings.problem(&level_path, found, "no spares at this level");
            }
        }
        "raid1" | "1" | "mirror" | "raid4" | "4" | "raid5" | "5" | "raid6" | "6" | "raid10"
        | "10" => {}
        "" => findings.problem(&level_path, "missing", "a RAID level such as raid1"),
        _ => findings.problem(&level_path, shown(level), "a RAID level such as raid1"),
    }
    if !at.has_items("devices") {
        findings.problem(&format!("{}.devices", at.path), "empty", "at least one device");
    }
    at.items("devices").for_each(|at| storage::path(&at, findings));
    refuse_duplicates(at.items("devices"), findings, At::text);
}

fn luks(at: &At<'_>, findings: &mut Findings) {
    device(at, findings);
    if let Some(at) = at.get("name").filter(|at| at.text().unwrap_or_default().contains('/')) {
        findings.bad_text(&at, "a name without a slash");
    }
    if let Some(at) = at.get("label")
        && at.text().unwrap_or_default().len() > MAX_LUKS_LABEL_BYTES
    {
        findings.bad_text(&at, "at most 47 bytes");
    }
    if let Some(at) = at.get("keyFile") {
        source::resource(&at, findings);
    }
    if let Some(at) = at.get("clevis") {
        clevis(&at, findings);
    }
}

fn clevis(at: &At<'_>, findings: &mut Findings) {
    at.items("tang").for_each(|at| tang(&at, findings));
    refuse_duplicates(at.items("tang"), findings, |at| at.str("url"));
    let Some(custom) = at.get("custom") else { return };
    let has_others = at.has_items("tang")
        || at.bool("tpm2") == Some(true)
        || at.int("threshold").is_some_and(|n| n != 0);
    let (pin, config) = (custom.filled("pin"), custom.filled("config"));
    if pin.is_some() && has_others {
        findings.problem(
            &at.path,
            "a custom config and tpm2, tang or threshold",
            "only one of them",
        );
    }
    if pin.is_none() && config.is_none() && custom.bool("needsNetwork") != Some(true) {
        return;
    }
    if !matches!(pin, Some("tpm2" | "tang" | "sss")) {
        let found = pin.map_or("missing".to_owned(), shown);
        findings.problem(&format!("{}.pin", custom.path), found, "tpm2, tang or sss");
    }
    if config.is_none() {
        findings.problem(&format!("{}.config", custom.path), "missing", "the config of the pin");
    }
}

fn tang(at: &At<'_>, findings: &mut Findings) {
    let url = at.str("url").unwrap_or_default();
    if !matches!(source::url_form(url).as_deref(), Ok("http" | "https")) {
        findings.problem(&format!("{}.url", at.path), shown(url), "an http or https URL");
    }
    if at.filled("thumbprint").is_none() {
        findings.problem(&format!("{}.thumbprint", at.path), "missing", "the server's thumbprint");
    }
    let is_json = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if let Some(at) = at.get("advertisement")
        && at.text().is_some_and(|text| !text.is_empty() && !is_json(text))
    {
        findings.bad_text(&at, "JSON");
    }
}

fn filesystem(at: &At<'_>, findings: &mut Findings) {
    device(at, findings);
    if let Some(at) = at.get("path").filter(|at| at.text() != Some("")) {
        storage::path_of_root(&at, findings);
    }
    let format_path = format!("{}.format", at.path);
    let Some(format) = at.filled("format") else {
        let needs_format =
            ["path", "label", "uuid"].into_iter().any(|key| at.filled(key).is_some())
                || at.bool("wipeFilesystem") == Some(true)
                || at.has_items("options")
                || at.has_items("mountOptions");
        if needs_format {
            findings.problem(&format_path, "missing", "a format, which the other keys require");
        }
        return;
    };
    let max_label_bytes = match format {
        "ext4" => 16,
        "btrfs" => 256,
        "xfs" => 12,
        "swap" => 15,
        "vfat" => 11,
        "none" if findings.minor >= 3 => usize::MAX,
        _ => {
            let expected = "ext4, btrfs, xfs, swap or vfat (none from spec 3.3.0)";
            findings.problem(&format_path, shown(format), expected);
            return;
        }
    };
    if let Some(at) = at.get("label")
        && at.text().unwrap_or_default().len() > max_label_bytes
    {
        findings.bad_text(&at, &format!("at most {max_label_bytes} bytes with {format}"));
    }
}
