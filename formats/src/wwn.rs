//! World-wide names of disks, which each tool spells differently: `0x5000…`, `naa.5000…`, `wwn-0x5000…`,
//! `eui.0025…` (T10 SPC-5 §7.7.6.6, NVM Express Base Specification 2.0 §4.5.1).

/// Spellings of a prefix, in the order in which they are removed.
const PREFIXES: [&str; 5] = ["wwn-", "naa.", "eui.", "uuid.", "0x"];

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

/// Lower-case text without the prefixes of a WWN.
fn without_prefixes(text: &str) -> String {
    let mut digits = text.trim().to_ascii_lowercase();
    for prefix in PREFIXES {
        if let Some(rest) = digits.strip_prefix(prefix) {
            digits = rest.into();
        }
    }
    digits
}

/// A WWN without prefix and separators; `None` if it is not hexadecimal.
#[must_use]
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

/// Whether two spellings mean the same WWN. A WWN of 32 digits and its first 16 are the same.
#[must_use]
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

/// Whether an identifier consists of zeros or of `f` only, in any spelling, and so identifies nothing.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    let digits = without_prefixes(text);
    let only = |digit: char| digits.chars().all(|c| c == digit || "- :".contains(c));
    only('0') || (digits.len() >= 8 && only('f'))
}

/// The WWN in the device mapper's UUID of a multipath device: `mpath-`, and then what `scsi_id(8)`
/// prints, which is a 3 before a WWN.
#[must_use]
pub fn of_multipath(uuid: &str) -> Option<String> {
    let wwn = uuid.strip_prefix("mpath-")?.strip_prefix('3')?;
    (matches!(wwn.len(), 16 | 32) && forms(wwn).is_some()).then(|| wwn.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

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
