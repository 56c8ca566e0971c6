//! Whether a disk is still the one that was chosen: what the kernel says of its device number now.
//!
//! Sources: `/sys/dev/block/<major>:<minor>` (`size`, `ro`, `serial`, `wwid`, `nguid`, `eui`, `diskseq`,
//! `device/{serial,wwid,vpd_pg80}`, `dm/uuid`), kernel `Documentation/ABI/stable/sysfs-block`,
//! `sysfs-block-device`, `testing/sysfs-block-dm`.

use std::path::{Path, PathBuf};

use super::{Candidate, Failure};
use crate::api::Code;
use crate::bounded;

/// A WWN in the forms in which it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WwnForms {
    /// All digits, lower case, without a prefix.
    pub full: String,
    /// The first 16 digits of a WWN of 32 (NAA type 6).
    pub base: Option<String>,
    /// The last 16 digits of a WWN of 32.
    pub extension: Option<String>,
}

impl WwnForms {
    /// The WWN with and without its extension.
    #[must_use]
    pub fn all(self) -> Vec<String> {
        std::iter::once(self.full).chain(self.base).collect()
    }
}

/// A WWN without `0x`, `naa.`, `eui.`, `wwn-` and the like; `None` if it is not hexadecimal.
#[must_use]
pub fn wwn_forms(text: &str) -> Option<WwnForms> {
    let mut digits = text.trim().to_ascii_lowercase();
    for prefix in ["wwn-", "naa.", "eui.", "uuid.", "0x"] {
        if let Some(rest) = digits.strip_prefix(prefix) {
            digits = rest.into();
        }
    }
    let full: String = digits.chars().filter(|c| !matches!(c, '-' | ':' | ' ')).collect();
    if full.is_empty() || !full.chars().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    let halves = (full.len() == 32).then(|| (full[..16].to_owned(), full[16..].to_owned()));
    let (base, extension) = halves.unzip();
    Some(WwnForms { full, base, extension })
}

/// Whether two spellings mean the same WWN.
#[must_use]
pub fn same_wwn(one: &str, other: &str) -> bool {
    match (wwn_forms(one), wwn_forms(other)) {
        (Some(one), Some(other)) => {
            one.full == other.full
                || one.base.as_ref() == Some(&other.full)
                || other.base.as_ref() == Some(&one.full)
        }
        _ => one.trim().eq_ignore_ascii_case(other.trim()),
    }
}

/// What the kernel says of a device number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    /// Kernel name, e.g. `sda`.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// Whether it cannot be written.
    pub is_read_only: bool,
    /// Serial number, as far as sysfs has it.
    pub serial: Option<String>,
    /// WWN or other identifiers, as far as sysfs has them.
    pub wwns: Vec<String>,
    /// Number that the kernel gives each disk that appears, since Linux 5.15.
    pub diskseq: Option<u64>,
}

/// Reads what the kernel says of a disk; `None` if there is no disk of that number.
#[must_use]
pub fn fingerprint(sys: &Path, device_number: &str) -> Option<Fingerprint> {
    let is_number = !device_number.is_empty()
        && device_number.bytes().all(|b| b.is_ascii_digit() || b == b':')
        && device_number.len() < 32;
    if !is_number {
        return None;
    }
    let link: PathBuf = sys.join("dev/block").join(device_number);
    let dir = std::fs::canonicalize(link).ok()?;
    let name = dir.file_name()?.to_str()?.to_owned();
    let text = |file: &str| bounded::read_text(&dir.join(file));
    let serial = text("serial").or_else(|| text("device/serial")).or_else(|| {
        // SCSI vital product data page 80h: a header of 4 bytes, then the serial number.
        let page = bounded::read_file(&dir.join("device/vpd_pg80"), 4096).ok()?;
        let text = probes::machine::escape_non_utf8(page.get(4..)?);
        let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
        (!text.is_empty()).then(|| text.to_owned())
    });
    let wwns = ["wwid", "device/wwid", "nguid", "eui"].iter().filter_map(|file| text(file));
    let wwns = wwns.chain(text("dm/uuid").and_then(|uuid| multipath_wwn(&uuid)));
    Some(Fingerprint {
        name,
        size_bytes: text("size")
            .and_then(|sectors| sectors.parse::<u64>().ok())
            .and_then(|sectors| sectors.checked_mul(512)),
        is_read_only: text("ro").as_deref() == Some("1"),
        serial: serial.filter(|text| !is_blank_id(text)),
        wwns: wwns.filter(|text| !is_blank_id(text)).collect(),
        diskseq: text("diskseq").and_then(|text| text.parse().ok()),
    })
}

/// The WWN of a LUN behind multipath: `mpath-`, then what `scsi_id(8)` says, a 3 before a WWN.
fn multipath_wwn(uuid: &str) -> Option<String> {
    let wwn = uuid.strip_prefix("mpath-")?.strip_prefix('3')?;
    (matches!(wwn.len(), 16 | 32) && wwn_forms(wwn).is_some()).then(|| wwn.to_owned())
}

/// Compares a disk of the report with what the kernel says now.
///
/// # Errors
/// `DISK_CHANGED` with every difference; also if there is no such disk any more.
pub fn compare(disk: &Candidate, now: Option<&Fingerprint>) -> Result<(), Failure> {
    let changed = |what: String| {
        Failure::new(Code::DiskChanged, what)
            .advise("the disk was swapped, lost or renamed while the job ran; start again")
    };
    let Some(now) = now else {
        return Err(changed(format!("{} is not there any more", disk.describe())));
    };
    let mut differences = Vec::new();
    if now.name != disk.name {
        differences.push(format!("its kernel name is {}", now.name));
    }
    if now.size_bytes != Some(disk.size_bytes) {
        let size = now.size_bytes.map_or_else(|| "not known".into(), |size| size.to_string());
        differences.push(format!("its size is {size}"));
    }
    if now.is_read_only && !disk.is_read_only {
        differences.push("it is read-only".into());
    }
    if let (Some(then), Some(now)) = (&disk.serial, &now.serial)
        && !same_text(then, now)
    {
        differences.push(format!("its serial is {now:?}"));
    }
    if let (Some(then), Some(now)) = (disk.diskseq, now.diskseq)
        && then != now
    {
        differences.push(format!("it appeared as disk {now} of this boot, not as {then}"));
    }
    if let Some(wwn) = other_wwn(disk, &now.wwns) {
        differences.push(format!("its WWN is {wwn:?}"));
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(changed(format!("{} has changed: {}", disk.describe(), differences.join("; "))))
}

/// An identifier that the disk has now and that none of the identifiers of the report is.
///
/// Only what can be compared counts: hexadecimal with hexadecimal, `nvme.…` with `nvme.…`.
fn other_wwn<'a>(disk: &Candidate, now: &'a [String]) -> Option<&'a String> {
    let then: Vec<&String> = [&disk.wwn, &disk.eui64, &disk.nguid].into_iter().flatten().collect();
    let kind = |text: &str| match wwn_forms(text) {
        Some(_) => Some("hex".to_owned()),
        None => text.split_once('.').map(|(kind, _)| kind.to_ascii_lowercase()),
    };
    let mut comparable =
        now.iter().filter(|now| then.iter().any(|then| kind(then) == kind(now))).peekable();
    let first = comparable.peek().copied()?;
    let is_same = comparable.any(|now| then.iter().any(|then| same_wwn(then, now)));
    (!is_same).then_some(first)
}

/// Whether an identifier is only zeros or only `f`: then it says nothing.
fn is_blank_id(text: &str) -> bool {
    let digits = wwn_forms(text).map_or_else(|| text.to_owned(), |forms| forms.full);
    digits.chars().all(|c| c == '0') || (digits.len() >= 8 && digits.chars().all(|c| c == 'f'))
}

/// Whether one text is the other, blanks and case aside, or holds it.
///
/// sysfs, udev and SCSI pages pad and prefix serial numbers differently.
fn same_text(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim().to_lowercase(), other.trim().to_lowercase());
    one == other
        || (one.len() >= 4 && other.contains(&one))
        || (other.len() >= 4 && one.contains(&other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wwn_is_the_same_in_every_spelling() {
        assert!(same_wwn("0x5000c500a1b2c3d4", "naa.5000C500A1B2C3D4"));
        assert!(same_wwn("eui.0025388b710116a1", "0025388b710116a1"));
        assert!(same_wwn("0x600508b1001c4d41aabbccddeeff0011", "0x600508b1001c4d41"));
        assert!(!same_wwn("0x5000c500a1b2c3d4", "0x5000c500a1b2c3d5"));
        assert!(!same_wwn("", "0x5"));
    }

    #[test]
    fn a_lun_behind_multipath_is_known_by_its_wwn_and_other_mappings_tell_none() {
        let wwn = multipath_wwn("mpath-3600508b1001c4d41aabbccddeeff0011").unwrap();
        assert!(same_wwn(&wwn, "0x600508b1001c4d41aabbccddeeff0011"));
        assert_eq!(multipath_wwn("mpath-35000c500a1b2c3d4").as_deref(), Some("5000c500a1b2c3d4"));
        for other in ["mpath-1IET_00010001", "mpath-mine", "part1-mpath-35000c500a1b2c3d4", "LVM-3"]
        {
            assert_eq!(multipath_wwn(other), None, "{other}");
        }
        let (mut lun, mut now) = disk();
        (lun.serial, now.serial) = (None, None);
        now.wwns = vec!["5000c500a1b2c3d5".into()];
        assert!(compare(&lun, Some(&now)).is_err());
    }

    fn disk() -> (Candidate, Fingerprint) {
        let candidate = Candidate {
            name: "sda".into(),
            device: "/dev/sda".into(),
            size_bytes: 4096,
            serial: Some("S1".into()),
            wwn: Some("0x5000c500a1b2c3d4".into()),
            ..Candidate::default()
        };
        let now = Fingerprint {
            name: "sda".into(),
            size_bytes: Some(4096),
            is_read_only: false,
            serial: Some("S1 ".into()),
            wwns: vec!["naa.5000c500a1b2c3d4".into()],
            diskseq: None,
        };
        (candidate, now)
    }

    #[test]
    fn the_same_disk_passes_also_where_sysfs_says_less() {
        let (disk, mut now) = disk();
        assert_eq!(compare(&disk, Some(&now)), Ok(()));
        now.serial = None;
        now.wwns = vec!["t10.ATA     QEMU HARDDISK   QM00005".into()];
        assert_eq!(compare(&disk, Some(&now)), Ok(()));
        let nvme = Candidate { wwn: Some("nvme.1b36-53".into()), ..disk };
        now.wwns = vec!["nvme.1b36-53".into()];
        assert_eq!(compare(&nvme, Some(&now)), Ok(()));
        now.wwns = vec!["nvme.1b36-54".into()];
        assert!(compare(&nvme, Some(&now)).is_err());
        assert!(is_blank_id("0000000000000000") && is_blank_id("naa.0") && !is_blank_id("S0"));
    }

    #[test]
    fn every_kind_of_change_is_seen() {
        let (disk, now) = disk();
        let check = |change: fn(&mut Fingerprint)| {
            let mut now = now.clone();
            change(&mut now);
            compare(&disk, Some(&now)).map_err(|failure| failure.code)
        };
        assert_eq!(check(|now| now.name = "sdb".into()), Err(Code::DiskChanged));
        assert_eq!(check(|now| now.size_bytes = Some(8192)), Err(Code::DiskChanged));
        assert_eq!(check(|now| now.size_bytes = None), Err(Code::DiskChanged));
        assert_eq!(check(|now| now.serial = Some("S2".into())), Err(Code::DiskChanged));
        assert_eq!(check(|now| now.wwns = vec!["naa.5".into()]), Err(Code::DiskChanged));
        assert_eq!(check(|now| now.is_read_only = true), Err(Code::DiskChanged));
        let swapped = Candidate { diskseq: Some(7), serial: None, wwn: None, ..disk.clone() };
        let now = Fingerprint { diskseq: Some(9), serial: None, wwns: Vec::new(), ..now.clone() };
        assert_eq!(compare(&swapped, Some(&now)).unwrap_err().code, Code::DiskChanged);
        assert!(compare(&Candidate { diskseq: Some(9), ..swapped }, Some(&now)).is_ok());
        assert!(compare(&disk, None).is_err());
    }

    #[test]
    fn a_fingerprint_is_read_from_sysfs() {
        let root = std::env::temp_dir().join(format!("rci-fp-{}", std::process::id()));
        let real = root.join("devices/x/block/sda");
        std::fs::create_dir_all(real.join("device")).unwrap();
        std::fs::create_dir_all(root.join("dev/block")).unwrap();
        std::fs::write(real.join("size"), "8\n").unwrap();
        std::fs::write(real.join("ro"), "0\n").unwrap();
        std::fs::write(real.join("device/wwid"), "naa.5000c500a1b2c3d4\n").unwrap();
        std::fs::write(real.join("device/vpd_pg80"), b"\0\x80\0\x08  SER-01").unwrap();
        std::os::unix::fs::symlink(&real, root.join("dev/block/8:0")).unwrap();
        let found = fingerprint(&root, "8:0").unwrap();
        assert!(fingerprint(&root, "8:1").is_none());
        assert!(fingerprint(&root, "../../etc").is_none());
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found.name, "sda");
        assert_eq!(found.size_bytes, Some(4096));
        assert_eq!(found.serial.as_deref(), Some("SER-01"));
        assert_eq!(found.wwns, ["naa.5000c500a1b2c3d4"]);
    }
}
