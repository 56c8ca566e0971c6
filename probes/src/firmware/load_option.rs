//! Boot entries: `EFI_LOAD_OPTION` (UEFI Specification 2.10, 3.1.3).

use formats::device_path;
use formats::efi::{HIDDEN, LoadOption, ucs2};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One boot entry of the firmware.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BootEntry {
    /// Its number, four hexadecimal digits, as `boot_order` names it.
    pub id: String,
    /// The line in the firmware's menu.
    pub description: Option<String>,
    /// Whether the firmware tries it.
    pub is_active: Option<bool>,
    /// Whether the firmware's menu leaves it out.
    pub is_hidden: Option<bool>,
    /// What it boots, in the text form of the UEFI specification, e.g.
    /// `HD(1,GPT,…,0x800,0x32000)/\EFI\fedora\shimx64.efi`.
    pub device_path: Option<String>,
}

/// Reads the entry `id`; of a damaged one only what comes before the damage.
pub(super) fn parse(id: &str, value: &[u8]) -> BootEntry {
    let option = LoadOption::parse(value);
    BootEntry {
        id: id.to_owned(),
        description: option.description.map(ucs2).filter(|text| !text.is_empty()),
        is_active: option.attributes.map(|_| option.is_active()),
        is_hidden: option.attributes.map(|attributes| attributes & HIDDEN != 0),
        device_path: option.path.and_then(device_path::text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `value` as the bytes of UCS-2 text with its NUL.
    fn wide(value: &str) -> Vec<u8> {
        value.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
    }

    fn option(description: &str, path: &[u8]) -> Vec<u8> {
        let length = u16::try_from(path.len()).unwrap().to_le_bytes();
        [&[1, 0, 0, 0], length.as_slice(), &wide(description), path, b"optional data"].concat()
    }

    #[test]
    fn an_entry_has_its_description_and_path() {
        let file = wide("\\EFI\\fedora\\shimx64.efi");
        let length = u8::try_from(file.len() + 4).unwrap();
        let path = [&[4, 4, length, 0], file.as_slice(), &[0x7f, 0xff, 4, 0]].concat();
        let entry = parse("0001", &option("Fedora ü", &path));
        assert_eq!(entry.description.as_deref(), Some("Fedora ü"));
        assert_eq!((entry.is_active, entry.is_hidden), (Some(true), Some(false)));
        assert_eq!(entry.device_path.as_deref(), Some("\\EFI\\fedora\\shimx64.efi"));
    }

    #[test]
    fn an_entry_that_is_cut_anywhere_does_not_panic() {
        let whole = option("Fedora", &[4, 4, 6, 0, b'a', 0, 0x7f, 0xff, 4, 0]);
        for length in 0..whole.len() {
            let entry = parse("0001", &whole[..length]);
            assert_eq!(entry.id, "0001");
            assert!(entry.description.is_none_or(|text| text == "Fedora"));
        }
    }
}
