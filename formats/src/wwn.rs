//! World-wide names of disks, which each tool spells differently: `0x5000…`, `naa.5000…`, `wwn-0x5000…`,
//! `eui.0025…` (T10 SPC-5 §7.7.6.6, NVM Express Base Specification 2.0 §4.5.1).

use crate::hex::bytes_lossy;

/// Prefixes in the order in which they are removed, with the separator after each.
const PREFIXES: [&str; 5] = ["wwn", "naa", "eui", "uuid", "0x"];
/// Characters that separate a prefix from the digits, or digits from each other.
const SEPARATORS: [char; 4] = ['.', ':', '-', '_'];
/// Prefix of the device mapper's UUID of a multipath device (`multipath-tools`, `libmultipath/defaults.h`).
const MULTIPATH: &str = "mpath-";

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
    pub fn all(self) -> Vec<String> {
        std::iter::once(self.full).chain(self.base).collect()
    }
}

/// The text after the prefixes of a WWN, which are in lower case.
pub fn bare(text: &str) -> &str {
    PREFIXES.iter().fold(text, |text, prefix| {
        text.strip_prefix(prefix).map_or(text, |rest| rest.trim_start_matches(SEPARATORS))
    })
}

/// Lower-case text without the prefixes of a WWN.
fn without_prefixes(text: &str) -> String {
    bare(&text.trim().to_ascii_lowercase()).to_owned()
}

/// A WWN without prefix and separators; `None` if it is not hexadecimal.
pub fn forms(text: &str) -> Option<WwnForms> {
    let digits = without_prefixes(text);
    let full: String = digits.chars().filter(|c| !matches!(c, '-' | ':' | ' ')).collect();
    if full.is_empty() || !full.chars().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    let halves = (full.len() == 32).then(|| (full[..16].to_owned(), full[16..].to_owned()));
    let (base, extension) = halves.unzip();
    Some(WwnForms { full, base, extension })
}

/// The digits of every NAA name in a text, after `0x` or `naa.`; other numbers have other lengths or first digits.
pub fn naa_in_text(text: &str) -> impl Iterator<Item = &str> {
    let marks = text.match_indices("0x").chain(text.match_indices("naa."));
    marks.filter_map(|(at, _)| {
        let rest = bare(text.get(at..)?);
        let end = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
        // T10 SPC-5 §7.7.6.6: names of NAA 1, 2 and 5 have 16 digits, those of NAA 6 have 32.
        let first = rest.bytes().next();
        matches!((end, first), (16, Some(b'1' | b'2' | b'5' | b'c')) | (32, Some(b'6')))
            .then(|| &rest[..end])
    })
}

/// True if two spellings have the same digits, all of them: the volumes of an array may share the first 16.
pub fn is_equal(one: &str, other: &str) -> bool {
    let full = |text: &str| forms(text).map(|forms| forms.full);
    match (full(one), full(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one.trim().eq_ignore_ascii_case(other.trim()),
    }
}

/// True if two spellings mean the same WWN. A WWN of 32 digits and its first 16 are the same.
pub fn is_same(one: &str, other: &str) -> bool {
    match (forms(one), forms(other)) {
        (Some(one), Some(other)) => {
            one.full == other.full
                || one.base.as_ref() == Some(&other.full)
                || other.base.as_ref() == Some(&one.full)
        }
        _ => one.trim().eq_ignore_ascii_case(other.trim()),
    }
}

/// True if an identifier consists of zeros or of `f` only, in any spelling, and so identifies nothing.
pub fn is_blank(text: &str) -> bool {
    let digits = without_prefixes(text);
    let only = |digit: char| digits.chars().all(|c| c == digit || "- :".contains(c));
    only('0') || (digits.len() >= 8 && only('f'))
}

/// The WWN in the device mapper's UUID of a multipath device: `mpath-`, and then what `scsi_id(8)`
/// prints, which is a 3 before a WWN.
pub fn of_multipath(uuid: &str) -> Option<String> {
    let wwn = uuid.strip_prefix(MULTIPATH)?.strip_prefix('3')?;
    (matches!(wwn.len(), 16 | 32) && forms(wwn).is_some()).then(|| wwn.to_owned())
}

/// True if the device mapper's UUID belongs to a multipath device; its partitions are separate mappings
/// (`part1-mpath-…`).
pub fn is_multipath(uuid: &str) -> bool {
    uuid.starts_with(MULTIPATH)
}

/// The number of the partition with the device mapper's UUID `part`, if it is one of the multipath device with the UUID
/// `whole`.
pub fn multipath_partition(part: &str, whole: &str) -> Option<u32> {
    let (maker, of) = part.split_once('-')?;
    maker.strip_prefix("part")?.parse().ok().filter(|_| of == whole && is_multipath(whole))
}

/// The output of `scsi_id(8)`, in the device mapper's UUID of a multipath device or a partition of one.
pub fn multipath_id(uuid: &str) -> Option<&str> {
    Some(uuid.split_once(MULTIPATH)?.1)
}

/// The world-wide name in the kernel's `wwid`, in udev's form: `naa.5000…` becomes `0x5000…`; those of
/// NVMe stay as they are. The kernel's `t10.…` is not a world-wide name.
pub fn of_wwid(wwid: &str) -> Option<String> {
    if let Some(naa) = wwid.strip_prefix("naa.") {
        return Some(format!("0x{}", naa.to_ascii_lowercase()));
    }
    ["eui.", "nvme.", "uuid."].iter().any(|kind| wwid.starts_with(kind)).then(|| wwid.to_owned())
}

/// The serial number in the `wwid` of an ATA disk without WWN: `t10.`, 8 characters of vendor, 40 for the model, 20 for
/// the serial number (SAT-4, ATA Information of page 83h).
pub fn ata_serial(wwid: &str) -> Option<String> {
    let serial = wwid.strip_prefix("t10.ATA     ")?.get(40..)?.trim();
    (!serial.is_empty()).then(|| serial.to_owned())
}

/// End of a `wwid` without a WWN, which is all or the end of a serial number: `t10.` of any vendor, where the columns
/// are not known, or NVMe's `nvme.<vendor>-<serial>-…` in hexadecimal (`nvme_get_unique_id`,
/// `drivers/nvme/host/sysfs.c`).
pub fn serial_of_wwid(wwid: &str) -> Option<String> {
    let serial = match wwid.strip_prefix("nvme.") {
        Some(rest) => bytes_lossy(rest.split('-').nth(1)?).map(char::from).collect(),
        None => wwid.strip_prefix("t10.")?.split_whitespace().last()?.to_owned(),
    };
    let serial = serial.trim();
    (!serial.is_empty()).then(|| serial.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naa_names_in_a_text_have_a_prefix_a_length_and_a_first_digit() {
        let text = "wwn-0x5000c500a1b2c3d4, naa.600508b1001c4d41aabbccddeeff0011 0x10 0x7000c500a1b2c3d4 \
                    naa.5000c500a1b2c3d45";
        let found: Vec<&str> = naa_in_text(text).collect();
        assert_eq!(found, ["5000c500a1b2c3d4", "600508b1001c4d41aabbccddeeff0011"]);
    }

    #[test]
    fn a_wwn_is_the_same_in_every_spelling() {
        assert!(is_same("0x5000c500a1b2c3d4", "naa.5000C500A1B2C3D4"));
        assert!(is_same("eui.0025388b710116a1", "0025388b710116a1"));
        assert!(is_same("0x600508b1001c4d41aabbccddeeff0011", "0x600508b1001c4d41"));
        assert!(!is_same("0x5000c500a1b2c3d4", "0x5000c500a1b2c3d5"));
        assert!(!is_same("", "0x5"));
    }

    #[test]
    fn an_identifier_of_zeros_is_blank_and_a_short_one_of_letters_is_not() {
        assert!(
            is_blank("0000000000000000") && is_blank("naa.0") && is_blank("eui.ffffffffffffffff")
        );
        // In capitals, and where nothing but separators is left.
        assert!(is_blank("NAA.0000000000000000") && is_blank("0xFFFFFFFFFFFFFFFF"));
        assert!(is_blank("- -") && is_blank("") && is_blank("ff:ff:ff:ff"));
        assert!(!is_blank("S0") && !is_blank("ff"));
    }

    #[test]
    fn prefixes_are_removed_with_their_separators_and_the_rest_keeps_its_case() {
        for text in
            ["0x5000C5", "naa.5000C5", "wwn-0x5000C5", "eui:5000C5", "uuid_5000C5", "5000C5"]
        {
            assert_eq!(bare(text), "5000C5", "{text}");
        }
        for text in ["NAA.5000", "t10.ATA", "", "é"] {
            assert_eq!(bare(text), text);
        }
    }

    #[test]
    fn a_wwid_has_a_wwn_or_a_serial_number() {
        assert_eq!(of_wwid("naa.5000C500A1").as_deref(), Some("0x5000c500a1"));
        assert_eq!(of_wwid("eui.0025388b").as_deref(), Some("eui.0025388b"));
        assert_eq!(of_wwid("t10.ATA     x"), None);
        let ata = "t10.ATA     KINGSTON SH103S3240G                    50026B72";
        assert_eq!(ata_serial(ata).as_deref(), Some("50026B72"));
        assert_eq!(serial_of_wwid(ata).as_deref(), Some("50026B72"));
        let nvme = "nvme.144d-533634474e45202020-51454d55-00000001";
        assert_eq!(serial_of_wwid(nvme).as_deref(), Some("S64GNE"));
    }

    #[test]
    fn truncated_or_other_wwids_have_no_serial_number() {
        for wwid in ["", "naa.5000c500a1b2c3d4", "nvme.144d", "nvme.144d-zz-1", "t10.", "t10.  "] {
            assert_eq!(serial_of_wwid(wwid), None, "{wwid}");
        }
        for wwid in ["t10.ATA     é", "t10.QEMU    disk", "t10.ATA     short"] {
            assert_eq!(ata_serial(wwid), None, "{wwid}");
        }
    }

    #[test]
    fn partitions_of_a_multipath_device_have_its_identifier_and_are_none_themselves() {
        assert_eq!(multipath_id("mpath-3600"), Some("3600"));
        assert_eq!(multipath_id("part1-mpath-3600"), Some("3600"));
        assert_eq!(multipath_id("LVM-3600"), None);
        assert!(is_multipath("mpath-3600") && !is_multipath("part1-mpath-3600"));
        assert_eq!(multipath_partition("part12-mpath-3600", "mpath-3600"), Some(12));
        for (part, whole) in [
            ("part1-mpath-3601", "mpath-3600"),
            ("part-mpath-3600", "mpath-3600"),
            ("mpath-3600", "mpath-3600"),
            ("part1-LVM-1", "LVM-1"),
        ] {
            assert_eq!(multipath_partition(part, whole), None, "{part}");
        }
    }

    #[test]
    fn only_a_multipath_device_of_a_wwn_has_one_in_its_uuid() {
        let wwn = of_multipath("mpath-3600508b1001c4d41aabbccddeeff0011").unwrap();
        assert!(is_same(&wwn, "0x600508b1001c4d41aabbccddeeff0011"));
        assert_eq!(of_multipath("mpath-35000c500a1b2c3d4").as_deref(), Some("5000c500a1b2c3d4"));
        for other in ["mpath-1IET_00010001", "mpath-mine", "part1-mpath-35000c500a1b2c3d4", "LVM-3"]
        {
            assert_eq!(of_multipath(other), None, "{other}");
        }
    }
}
