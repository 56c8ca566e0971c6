//! Boot entries: `EFI_LOAD_OPTION` (UEFI Specification 2.10, 3.1.3).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::device_path;

/// `LOAD_OPTION_ACTIVE`.
const ACTIVE: u32 = 0x1;
/// `LOAD_OPTION_HIDDEN`.
const HIDDEN: u32 = 0x8;
/// A description is a line of a menu.
const LIMIT_CHARACTERS: usize = 512;

/// One boot entry of the firmware.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BootEntry {
    /// Its number, four hexadecimal digits, as `boot_order` names it.
    pub id: String,
    /// The line in the firmware's menu.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the firmware tries it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_active: Option<bool>,
    /// Whether the firmware's menu leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_hidden: Option<bool>,
    /// What it boots, in the text form of the UEFI specification, e.g.
    /// `HD(1,GPT,…,0x800,0x32000)/\EFI\fedora\shimx64.efi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_path: Option<String>,
}

/// Reads the entry `id`; of a damaged one only what stands before the damage.
pub(super) fn parse(id: &str, value: &[u8]) -> BootEntry {
    let mut entry = BootEntry { id: id.to_owned(), ..BootEntry::default() };
    let Some((attributes, rest)) = value.split_first_chunk::<4>() else { return entry };
    let attributes = u32::from_le_bytes(*attributes);
    entry.is_active = Some(attributes & ACTIVE != 0);
    entry.is_hidden = Some(attributes & HIDDEN != 0);
    let Some((length, rest)) = rest.split_first_chunk::<2>() else { return entry };
    let length = usize::from(u16::from_le_bytes(*length));
    let Some((description, rest)) = split_text(rest) else { return entry };
    entry.description = Some(description).filter(|text| !text.is_empty());
    if let Some(path) = rest.get(..length) {
        entry.device_path = device_path::text(path);
    }
    entry
}

/// Splits off text in UCS-2 that ends in a NUL; `None` if the NUL is missing.
fn split_text(bytes: &[u8]) -> Option<(String, &[u8])> {
    let n_characters = bytes.chunks_exact(2).position(|pair| pair == [0, 0])?;
    let (text, rest) = bytes.split_at(2 * n_characters);
    Some((ucs2(text), &rest[2..]))
}

/// Text of UCS-2 bytes up to a NUL, without control characters, cut to what a line can hold.
pub(super) fn ucs2(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let characters = char::decode_utf16(units.take_while(|unit| *unit != 0))
        .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER));
    let text: String =
        characters.filter(|character| !character.is_control()).take(LIMIT_CHARACTERS).collect();
    text.trim_end().to_owned()
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
