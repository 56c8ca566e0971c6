//! EFI boot entries: `EFI_LOAD_OPTION` (UEFI Specification 2.10, §3.1.3), and how efivarfs stores
//! variables (`Documentation/filesystems/efivarfs.rst`).

use std::ops::Range;

use crate::bytes::array;
use crate::{Encoding, Field, Kind, device_path};

/// The vendor GUID of the variables that the specification defines, `EFI_GLOBAL_VARIABLE`.
pub const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// efivarfs puts the attributes of a variable before its value.
pub const ATTRIBUTES_BYTES: usize = 4;
/// `LOAD_OPTION_ACTIVE`.
pub const ACTIVE: u32 = 0x1;
/// `LOAD_OPTION_HIDDEN`.
pub const HIDDEN: u32 = 0x8;

/// Attributes of a load option and the length of its device path.
const HEADER_BYTES: usize = 6;
/// The longest description that is read, in characters: it is a line of a menu.
const MAX_DESCRIPTION: usize = 512;
/// Fewer characters than this may be text by chance.
const MIN_TEXT: usize = 4;
/// Variables that are load options, each followed by four hexadecimal digits.
const LOAD_OPTIONS: [&str; 4] = ["Boot", "Driver", "SysPrep", "PlatformRecovery"];

/// What a part of a variable means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// A description or the name of a file.
    Text,
    /// A URL, or arguments of a kernel.
    Arguments,
    /// The name of an iSCSI target, `iqn.…`.
    Target,
    /// The name of a wireless network.
    NetworkName,
    /// An IP address.
    Address,
    /// A MAC, WWN or EUI-64.
    Number,
    /// The GUID of a partition.
    Guid,
    /// The number in a disk's boot record.
    DiskNumber,
}

/// A part of a variable that reveals something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Where it lies and how it is written.
    pub field: Field,
    /// What it means.
    pub content: Content,
}

impl Part {
    /// Text of one byte a character from `at` up to the NULs at the end of `data`.
    pub(crate) fn text(data: &[u8], at: usize, content: Content, kind: Kind) -> Option<Part> {
        let bytes = data.get(at..)?;
        let n_bytes = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        std::str::from_utf8(&bytes[..n_bytes]).ok()?;
        Some(Part { field: Field::text(at..at + n_bytes, kind), content })
    }

    /// Text of 16 bits a character at `span` without the NULs at its end; `None` if it is none.
    pub(crate) fn utf16(
        span: Range<usize>,
        data: &[u8],
        content: Content,
        kind: Kind,
    ) -> Option<Part> {
        let text = parse_utf16(data.get(span.clone())?)?;
        let n_units = text.trim_end_matches('\0').encode_utf16().count();
        let span = span.start..span.start + 2 * n_units;
        Some(Part { field: Field { span, kind, encoding: Encoding::Utf16 }, content })
    }

    pub(crate) fn moved(self, offset: usize) -> Part {
        Part { field: self.field.moved(offset), ..self }
    }
}

/// A load option.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadOption<'a> {
    /// [`ACTIVE`], [`HIDDEN`] and others; `None` if the value ends before.
    pub attributes: Option<u32>,
    /// The line in the firmware's menu, 16 bits a character; `None` if its end is missing.
    pub description: Option<&'a [u8]>,
    /// The device path; `None` if the value ends before it does.
    pub path: Option<&'a [u8]>,
    /// Data for what is booted, e.g. kernel arguments.
    pub optional: &'a [u8],
}

impl<'a> LoadOption<'a> {
    /// Parses a variable's value. A truncated value has only what comes before its end.
    #[must_use]
    pub fn parse(value: &'a [u8]) -> LoadOption<'a> {
        let attributes = array(value, 0).map(u32::from_le_bytes);
        let mut option = LoadOption { attributes, ..LoadOption::default() };
        let Some((header, rest)) = value.split_at_checked(HEADER_BYTES) else { return option };
        let n_path = array(header, 4).map_or(0, |length| usize::from(u16::from_le_bytes(length)));
        let Some(n_units) = rest.chunks_exact(2).position(|unit| unit == [0, 0]) else {
            return option;
        };
        let (description, rest) = rest.split_at(2 * n_units);
        option.description = Some(description);
        if let Some((path, optional)) = rest.get(2..).and_then(|rest| rest.split_at_checked(n_path))
        {
            (option.path, option.optional) = (Some(path), optional);
        }
        option
    }

    /// Whether the firmware tries it.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.attributes.is_some_and(|attributes| attributes & ACTIVE != 0)
    }

    /// The bytes of a variable's value; `None` if the path is too long.
    #[must_use]
    pub fn encode(attributes: u32, description: &str, path: &[u8]) -> Option<Vec<u8>> {
        let length = u16::try_from(path.len()).ok()?;
        let description = utf16(description);
        Some([&attributes.to_le_bytes()[..], &length.to_le_bytes(), &description, path].concat())
    }

    /// Where description, path and optional data begin in the value.
    fn places(&self) -> Option<(usize, usize, usize)> {
        let path_at = HEADER_BYTES + self.description?.len() + 2;
        Some((HEADER_BYTES, path_at, path_at + self.path?.len()))
    }

    /// What the load option reveals, as places in the value.
    fn parts(&self) -> Vec<Part> {
        let Some((description_at, path_at, optional_at)) = self.places() else { return Vec::new() };
        let whole = |data: &[u8], content, kind| Part::utf16(0..data.len(), data, content, kind);
        let description = self.description.unwrap_or_default();
        let text = whole(description, Content::Text, Kind::FreeText);
        let text = text.map(|part| part.moved(description_at));
        let path = device_path::parts(self.path.unwrap_or_default()).into_iter();
        let arguments = whole(self.optional, Content::Arguments, Kind::Secret);
        let arguments = arguments.filter(|_| is_printable(self.optional));
        text.into_iter()
            .chain(path.map(|part| part.moved(path_at)))
            .chain(arguments.map(|part| part.moved(optional_at)))
            .collect()
    }

    /// The value with replacements for spans of [`LoadOption::parts`] and the lengths that these make.
    fn splice(&self, value: &[u8], edits: &[(Range<usize>, Vec<u8>)]) -> Option<Vec<u8>> {
        let (description_at, path_at, optional_at) = self.places()?;
        let description = spliced(self.description?, description_at, edits);
        let in_path = |(span, put): &(Range<usize>, Vec<u8>)| {
            let start = span.start.checked_sub(path_at)?;
            Some((start..span.end.checked_sub(path_at)?, put.clone()))
        };
        let in_path: Vec<_> = edits.iter().filter_map(in_path).collect();
        let path = device_path::splice(self.path?, &in_path);
        let optional = spliced(self.optional, optional_at, edits);
        let length = u16::try_from(path.len()).ok()?.to_le_bytes();
        Some([&value[..4], &length, &description, &[0, 0], &path, &optional].concat())
    }
}

/// What the variable `name` reveals: its parts as places in `content`, a file of efivarfs.
#[must_use]
pub fn parts(name: &str, content: &[u8]) -> Vec<Part> {
    let Some(value) = content.get(ATTRIBUTES_BYTES..) else { return Vec::new() };
    let parts = if is_load_option(name) {
        LoadOption::parse(value).parts()
    } else {
        let text = Part::utf16(0..value.len(), value, Content::Text, Kind::FreeText);
        text.filter(|_| is_printable(value)).into_iter().collect()
    };
    parts.into_iter().map(|part| part.moved(ATTRIBUTES_BYTES)).collect()
}

/// The variable with replacements for spans of [`parts`], in their order, and the lengths that these
/// make; `None` if it would be longer than a variable can be.
#[must_use]
pub fn splice(name: &str, content: &[u8], edits: &[(Range<usize>, Vec<u8>)]) -> Option<Vec<u8>> {
    if !is_load_option(name) {
        return Some(spliced(content, 0, edits));
    }
    let (attributes, value) = content.split_at_checked(ATTRIBUTES_BYTES)?;
    let in_value = |(span, put): &(Range<usize>, Vec<u8>)| {
        let start = span.start.checked_sub(ATTRIBUTES_BYTES)?;
        Some((start..span.end.checked_sub(ATTRIBUTES_BYTES)?, put.clone()))
    };
    let edits: Vec<_> = edits.iter().filter_map(in_value).collect();
    let value = LoadOption::parse(value).splice(value, &edits)?;
    Some([attributes, &value].concat())
}

/// `bytes`, which begin at `offset` of what the edits' spans count in, with the edits that lie in them.
pub(crate) fn spliced(bytes: &[u8], offset: usize, edits: &[(Range<usize>, Vec<u8>)]) -> Vec<u8> {
    let (mut out, mut end) = (Vec::with_capacity(bytes.len()), 0);
    for (span, put) in edits {
        let start = span.start.checked_sub(offset);
        let span = start.zip(span.end.checked_sub(offset)).map(|(start, stop)| start..stop);
        let Some(span) = span.filter(|span| span.end <= bytes.len()) else { continue };
        let Some(before) = bytes.get(end..span.start) else { continue };
        out.extend_from_slice(before);
        out.extend_from_slice(put);
        end = span.end;
    }
    out.extend_from_slice(bytes.get(end..).unwrap_or_default());
    out
}

/// Whether a variable of this name, e.g. `Boot0001-<GUID>`, is a load option.
fn is_load_option(name: &str) -> bool {
    LOAD_OPTIONS.iter().any(|kind| {
        let number = name.strip_prefix(kind).and_then(|rest| rest.split('-').next());
        number.is_some_and(|n| n.len() == 4 && n.bytes().all(|byte| byte.is_ascii_hexdigit()))
    })
}

/// `text` with 16 bits a character and a NUL at its end.
#[must_use]
pub fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

/// Text up to a NUL, without control characters, cut to what a line can hold.
#[must_use]
pub fn ucs2(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let characters = char::decode_utf16(units.take_while(|unit| *unit != 0))
        .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER));
    let text: String =
        characters.filter(|character| !character.is_control()).take(MAX_DESCRIPTION).collect();
    text.trim_end().to_owned()
}

fn parse_utf16(bytes: &[u8]) -> Option<String> {
    let units: Vec<u16> =
        bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
    String::from_utf16(&units).ok().filter(|_| bytes.len().is_multiple_of(2))
}

/// Whether this is text with 16 bits a character, and not other data that can be read as such.
fn is_printable(bytes: &[u8]) -> bool {
    let text = parse_utf16(bytes).unwrap_or_default();
    let plain = text.trim_end_matches('\0');
    let is_text = |c: char| c.is_ascii_graphic() || c.is_ascii_whitespace();
    plain.len() >= MIN_TEXT && plain.chars().all(is_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "Boot0001-8be4df61-93ca-11d2-aa0d-00e098032b8c";

    /// A boot entry as QEMU's firmware writes it for a network card, and kernel arguments.
    fn entry() -> Vec<u8> {
        let mac = [&[3, 11, 37, 0, 2, 0, 0, 0, 0, 5][..], &[0; 26], &[1]].concat();
        let path = [&mac[..], &[0x7f, 0xff, 4, 0]].concat();
        let head = [1, 0, 0, 0, 41, 0, b'P', 0, b'X', 0, b'E', 0, 0, 0];
        [&[7, 0, 0, 0][..], &head, &path, &utf16("root=/dev/sda")].concat()
    }

    #[test]
    fn a_load_option_is_parsed_and_written_alike() {
        let entry = entry();
        let option = LoadOption::parse(&entry[4..]);
        assert_eq!(option.attributes, Some(ACTIVE));
        assert_eq!(option.description.map(ucs2).as_deref(), Some("PXE"));
        let path = option.path.unwrap();
        assert_eq!(device_path::text(path).as_deref(), Some("MAC(020000000005,0x1)"));
        let mac = device_path::nodes(path).find_map(|node| node.ethernet_mac());
        assert_eq!(mac, Some([2, 0, 0, 0, 0, 5]));
        let written = LoadOption::encode(ACTIVE, "PXE", path).unwrap();
        assert_eq!([&written, option.optional].concat(), entry[4..]);
    }

    #[test]
    fn a_truncated_load_option_has_what_comes_before_its_end() {
        let entry = entry();
        let value = &entry[4..];
        for length in 0..value.len() {
            let option = LoadOption::parse(&value[..length]);
            assert_eq!(option.attributes.is_some(), length >= 4, "{length}");
            assert_eq!(option.description.is_some(), length >= 14, "{length}");
            assert_eq!(option.path.is_some(), length >= 14 + 41, "{length}");
        }
    }

    #[test]
    fn replacements_of_any_length_keep_the_rest_of_the_variable() {
        let entry = entry();
        let parts = parts(NAME, &entry);
        let contents: Vec<Content> = parts.iter().map(|part| part.content).collect();
        assert_eq!(contents, [Content::Text, Content::Number, Content::Arguments]);
        assert_eq!(parts[1].field.bytes(&entry), [2, 0, 0, 0, 0, 5]);
        assert_eq!(splice(NAME, &entry, &[]).as_deref(), Some(&entry[..]));
        let edits = [
            (parts[0].field.span.clone(), b"N\0e\0t\0 \x001\0".to_vec()),
            (parts[1].field.span.clone(), vec![2, 0, 0, 0, 0, 9]),
            (parts[2].field.span.clone(), b"q\0".to_vec()),
        ];
        let changed = splice(NAME, &entry, &edits).unwrap();
        let option = LoadOption::parse(&changed[4..]);
        assert_eq!(option.description.map(ucs2).as_deref(), Some("Net 1"));
        let path = option.path.and_then(device_path::text);
        assert_eq!(path.as_deref(), Some("MAC(020000000009,0x1)"));
        assert_eq!(option.optional, b"q\0\0\0");
    }

    #[test]
    fn other_variables_are_one_text_or_nothing() {
        let name = "LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
        let text = [&[6, 0, 0, 0][..], &utf16("systemd-boot 255")].concat();
        assert_eq!(parts(name, &text)[0].field.span, 4..36);
        assert_eq!(parts(name, &[6, 0, 0, 0, 1]), []);
        assert_eq!(parts(NAME, &text[..3]), []);
        let changed = splice(name, &text, &[(4..36, vec![b'x', 0])]).unwrap();
        assert_eq!(changed, [6, 0, 0, 0, b'x', 0, 0, 0]);
    }
}
