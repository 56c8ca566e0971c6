//! EFI boot entries: `EFI_LOAD_OPTION` (UEFI Specification 2.10, §3.1.3), and how efivarfs stores
//! variables (`Documentation/filesystems/efivarfs.rst`).

use crate::bytes::array;
use crate::device_path::{self, Node};
use crate::gpt::Partition;
use crate::{Edit, Field, Kind, hex, utf16};

/// The vendor GUID of the variables that the specification defines, `EFI_GLOBAL_VARIABLE`.
pub const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// efivarfs puts the attributes of a variable before its value.
const ATTRIBUTES_BYTES: usize = 4;
/// `LOAD_OPTION_ACTIVE`.
pub const ACTIVE: u32 = 0x1;
/// `LOAD_OPTION_HIDDEN`.
pub const HIDDEN: u32 = 0x8;

/// Attributes of a load option and the length of its device path.
const HEADER_BYTES: usize = 6;
/// Fewer characters than this may be text by chance.
const MIN_TEXT: usize = 4;
/// The variable of a boot entry, before its number.
const BOOT: &str = "Boot";
/// Variables that are load options, each followed by four hexadecimal digits.
const LOAD_OPTIONS: [&str; 4] = [BOOT, "Driver", "SysPrep", "PlatformRecovery"];

/// A load option.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadOption<'a> {
    /// [`ACTIVE`], [`HIDDEN`] and others; `None` if the value ends before.
    pub attributes: Option<u32>,
    /// The line in the firmware's menu, 16 bits a character; `None` if its end is missing.
    pub description: Option<&'a [u8]>,
    /// The device path; `None` if the value ends before it does.
    pub path: Option<&'a [u8]>,
    /// Data for the booted program, e.g. kernel arguments.
    pub optional: &'a [u8],
}

impl<'a> LoadOption<'a> {
    /// Parses a variable's value. A truncated value has only what comes before its end.
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

    /// True if the firmware tries it.
    pub fn is_active(&self) -> bool {
        self.attributes.is_some_and(|attributes| attributes & ACTIVE != 0)
    }

    /// The line in the firmware's menu, `UEFI PXE`; `None` if its end is missing.
    pub fn name(&self) -> Option<String> {
        self.description.map(utf16::line)
    }

    /// True if the firmware would load a program from the network.
    pub fn leads_to_network(&self) -> bool {
        let mut nodes = device_path::nodes(self.path.unwrap_or_default());
        nodes.any(|node| device_path::NETWORK.contains(&node.kind()))
    }

    /// True if it starts one of the `loaders` on this partition: its device path is that partition, a file or none, and
    /// the end (the short form of §3.1.2 without a controller).
    pub fn leads_to(&self, esp: &Partition, loaders: &[String]) -> bool {
        let mut nodes = device_path::nodes(self.path.unwrap_or_default());
        if nodes.next().is_none_or(|node| node.bytes != device_path::partition_node(esp)) {
            return false;
        }
        let names = |file: &Node<'_>, loader: &String| {
            let expected = device_path::file_node(loader);
            expected.is_some_and(|expected| expected.eq_ignore_ascii_case(file.bytes))
        };
        match nodes.next() {
            Some(node) if node.is_end() => loaders.iter().any(|loader| is_fallback(loader)),
            Some(file) if file.kind() == device_path::FILE => {
                let is_last = nodes.next().is_some_and(|node| node.is_end());
                is_last && loaders.iter().any(|loader| names(&file, loader))
            }
            _ => false,
        }
    }

    /// The value of an active entry that starts `loader` on this partition; `None` if the loader's path is too long.
    pub fn encode_loader(description: &str, esp: &Partition, loader: &str) -> Option<Vec<u8>> {
        let file = device_path::file_node(loader)?;
        let path = [device_path::partition_node(esp), file, device_path::END.to_vec()].concat();
        LoadOption::encode(ACTIVE, description, &path)
    }

    /// The bytes of a variable's value; `None` if the path is too long.
    pub fn encode(attributes: u32, description: &str, path: &[u8]) -> Option<Vec<u8>> {
        let length = u16::try_from(path.len()).ok()?;
        let description = utf16::with_nul(description);
        Some([&attributes.to_le_bytes()[..], &length.to_le_bytes(), &description, path].concat())
    }

    /// Offsets of description, path and optional data in the value.
    fn places(&self) -> Option<(usize, usize, usize)> {
        let path_at = HEADER_BYTES + self.description?.len() + 2;
        Some((HEADER_BYTES, path_at, path_at + self.path?.len()))
    }

    /// Lists the places in the value that reveal something.
    fn fields(&self) -> Vec<Field> {
        let Some((description_at, path_at, optional_at)) = self.places() else { return Vec::new() };
        let whole = |data: &[u8], kind| utf16::field(0..data.len(), data, kind);
        let text = whole(self.description.unwrap_or_default(), Kind::Description);
        let path = device_path::fields(self.path.unwrap_or_default()).into_iter();
        let arguments = whole(self.optional, Kind::Arguments);
        let arguments = arguments.filter(|_| is_printable(self.optional));
        let text = text.into_iter().map(|field| field.moved(description_at));
        let path = path.map(|field| field.moved(path_at));
        text.chain(path).chain(arguments.map(|field| field.moved(optional_at))).collect()
    }
}

/// True for the loader that firmware starts if an entry does not name one (§3.5.1.1).
fn is_fallback(loader: &str) -> bool {
    loader.to_ascii_lowercase().starts_with("/efi/boot/boot")
}

/// Lists the places that reveal something in `content`, a file of efivarfs with the variable `name`.
pub fn fields(name: &str, content: &[u8]) -> Vec<Field> {
    let Some(value) = value(content) else { return Vec::new() };
    let fields = if is_load_option(name) {
        LoadOption::parse(value).fields()
    } else {
        let text = utf16::field(0..value.len(), value, Kind::Description);
        text.filter(|_| is_printable(value)).into_iter().collect()
    };
    fields.into_iter().map(|field| field.moved(ATTRIBUTES_BYTES)).collect()
}

/// The variable with replacements for spans of [`fields`], in their order, and the lengths that these
/// make; `None` if it would be longer than a variable can be.
pub fn splice(name: &str, content: &[u8], edits: &[Edit]) -> Option<Vec<u8>> {
    if !is_load_option(name) {
        return Some(crate::splice(content, 0, edits));
    }
    let (attributes, value) = content.split_at_checked(ATTRIBUTES_BYTES)?;
    let option = LoadOption::parse(value);
    let (description_at, path_at, optional_at) = option.places()?;
    let part = |bytes, at| crate::splice(bytes, ATTRIBUTES_BYTES + at, edits);
    let description = part(option.description?, description_at);
    let path = device_path::splice(option.path?, ATTRIBUTES_BYTES + path_at, edits);
    let optional = part(option.optional, optional_at);
    let length = u16::try_from(path.len()).ok()?.to_le_bytes();
    let parts = [attributes, &value[..4], &length, &description, &[0, 0], &path, &optional];
    Some(parts.concat())
}

/// True if a variable of this name, e.g. `Boot0001-<GUID>`, is a load option.
fn is_load_option(name: &str) -> bool {
    let name = name.split('-').next().unwrap_or_default();
    LOAD_OPTIONS.iter().any(|kind| numbered(kind, name).is_some())
}

/// The name of a file of efivarfs for a variable that the specification defines, e.g. `BootOrder-8be4…`.
pub fn file_name(variable: &str) -> String {
    format!("{variable}-{GLOBAL}")
}

/// The variable that the specification defines and a file of efivarfs contains; `None` for a vendor's.
pub fn variable_of(file_name: &str) -> Option<&str> {
    file_name.strip_suffix(GLOBAL)?.strip_suffix('-')
}

/// The value in a file of efivarfs, without the attributes; `None` if even these are truncated.
pub fn value(content: &[u8]) -> Option<&[u8]> {
    content.get(ATTRIBUTES_BYTES..)
}

/// The number that is a variable's whole value, e.g. that of `BootCurrent` or `Timeout`.
pub fn number(value: &[u8]) -> Option<u16> {
    Some(u16::from_le_bytes(value.try_into().ok()?))
}

/// The numbers of the boot entries in the value of `BootOrder`; a last byte alone is ignored.
pub fn boot_order(value: &[u8]) -> Vec<u16> {
    value.chunks_exact(2).filter_map(number).collect()
}

/// The value of a `BootOrder` of these boot entries.
pub fn encode_boot_order(order: &[u16]) -> Vec<u8> {
    order.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Four hexadecimal digits for the number of a boot entry, e.g. `200A`.
pub fn boot_id(number: u16) -> String {
    format!("{number:04X}")
}

/// The variable of a boot entry, e.g. `Boot200A`.
pub fn boot_name(number: u16) -> String {
    format!("{BOOT}{}", boot_id(number))
}

/// The number of the boot entry that a variable such as `Boot200A` contains. Some firmware writes the
/// digits in lower case.
pub fn boot_number(variable: &str) -> Option<u16> {
    numbered(BOOT, variable)
}

/// The number in a variable's name: `kind` and four hexadecimal digits.
fn numbered(kind: &str, variable: &str) -> Option<u16> {
    let digits = variable.strip_prefix(kind)?;
    Some(u16::from_be_bytes(hex::bytes(digits)?.try_into().ok()?))
}

/// True if this is text with 16 bits a character, and not other data that can be read as such.
fn is_printable(bytes: &[u8]) -> bool {
    let text = utf16::decode(bytes).unwrap_or_default();
    let plain = text.trim_end_matches('\0');
    let is_text = |c: char| c.is_ascii_graphic() || c.is_ascii_whitespace();
    plain.len() >= MIN_TEXT && plain.chars().all(is_text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guid::Guid;

    const NAME: &str = "Boot0001-8be4df61-93ca-11d2-aa0d-00e098032b8c";

    /// A boot entry as QEMU's firmware writes it for a network card, and kernel arguments.
    fn entry() -> Vec<u8> {
        let mac = [&[3, 11, 37, 0, 2, 0, 0, 0, 0, 5][..], &[0; 26], &[1]].concat();
        let path = [&mac[..], &[0x7f, 0xff, 4, 0]].concat();
        let head = [1, 0, 0, 0, 41, 0, b'P', 0, b'X', 0, b'E', 0, 0, 0];
        [&[7, 0, 0, 0][..], &head, &path, &utf16::with_nul("root=/dev/sda")].concat()
    }

    #[test]
    fn a_load_option_is_parsed_and_written_alike() {
        let entry = entry();
        let option = LoadOption::parse(&entry[4..]);
        assert_eq!(option.attributes, Some(ACTIVE));
        assert_eq!(option.name().as_deref(), Some("PXE"));
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
        let fields = fields(NAME, &entry);
        let kinds: Vec<Kind> = fields.iter().map(|field| field.kind).collect();
        assert_eq!(kinds, [Kind::Description, Kind::Mac, Kind::Arguments]);
        assert_eq!(fields[1].bytes(&entry), [2, 0, 0, 0, 0, 5]);
        assert_eq!(splice(NAME, &entry, &[]).as_deref(), Some(&entry[..]));
        let edits = [
            (fields[0].span.clone(), b"N\0e\0t\0 \x001\0".to_vec()),
            (fields[1].span.clone(), vec![2, 0, 0, 0, 0, 9]),
            (fields[2].span.clone(), b"q\0".to_vec()),
        ];
        let changed = splice(NAME, &entry, &edits).unwrap();
        let option = LoadOption::parse(&changed[4..]);
        assert_eq!(option.name().as_deref(), Some("Net 1"));
        let path = option.path.and_then(device_path::text);
        assert_eq!(path.as_deref(), Some("MAC(020000000009,0x1)"));
        assert_eq!(option.optional, b"q\0\0\0");
    }

    #[test]
    fn boot_entries_are_numbered_with_four_digits_of_either_case() {
        assert_eq!((boot_id(0x200a).as_str(), boot_name(0x200a).as_str()), ("200A", "Boot200A"));
        assert_eq!(
            (boot_number("Boot200A"), boot_number("Boot200a")),
            (Some(0x200a), Some(0x200a))
        );
        for other in
            ["Boot", "BootOrder", "Boot1", "Boot00001", "Boot+001", "boot0001", "Driver0001", NAME]
        {
            assert_eq!(boot_number(other), None, "{other}");
        }
        assert!(
            is_load_option(NAME) && is_load_option("SysPrep0001-x") && !is_load_option("BootX")
        );
    }

    #[test]
    fn boot_order_is_read_as_it_was_written() {
        let value = encode_boot_order(&[1, 0x200a]);
        assert_eq!(value, [1, 0, 0x0a, 0x20]);
        assert_eq!(boot_order(&value), [1, 0x200a]);
        assert_eq!(boot_order(&value[..3]), [1]);
        assert_eq!((boot_order(&[]), boot_order(&[1])), (Vec::new(), Vec::new()));
    }

    #[test]
    fn value_of_a_variable_begins_after_its_attributes() {
        assert_eq!(value(&[7, 0, 0, 0, 1, 0]), Some(&[1, 0][..]));
        assert_eq!((value(&[7, 0, 0, 0]), value(&[7, 0, 0])), (Some(&[][..]), None));
        assert_eq!(number(&[0x0a, 0x20]), Some(0x200a));
        assert_eq!((number(&[1]), number(&[1, 0, 0]), number(&[])), (None, None, None));
    }

    #[test]
    fn only_a_variable_of_the_specification_has_a_short_name() {
        assert_eq!((variable_of(NAME), file_name("Boot0001").as_str()), (Some("Boot0001"), NAME));
        let vendor = "LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
        assert_eq!((variable_of(vendor), variable_of("BootOrder")), (None, None));
    }

    #[test]
    fn other_variables_are_one_text_or_nothing() {
        let name = "LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
        let text = [&[6, 0, 0, 0][..], &utf16::with_nul("systemd-boot 255")].concat();
        assert_eq!(fields(name, &text)[0].span, 4..36);
        assert_eq!(fields(name, &[6, 0, 0, 0, 1]), []);
        assert_eq!(fields(NAME, &text[..3]), []);
        let changed = splice(name, &text, &[(4..36, vec![b'x', 0])]).unwrap();
        assert_eq!(changed, [6, 0, 0, 0, b'x', 0, 0, 0]);
    }

    fn esp() -> Partition {
        let (guid, first_block, n_blocks) = (Guid([0xab; 16]), 4096, 260_096);
        Partition { number: 2, guid, first_block, n_blocks, ..Partition::default() }
    }

    fn loaders() -> Vec<String> {
        ["/EFI/BOOT/BOOTX64.EFI", "/EFI/fedora/grubx64.efi"].map(str::to_owned).to_vec()
    }

    fn load_option(esp: &Partition, loader: &str) -> Vec<u8> {
        LoadOption::encode_loader("CoreOS", esp, loader).unwrap()
    }

    fn leads_to(option: &[u8], esp: &Partition, loaders: &[String]) -> bool {
        LoadOption::parse(option).leads_to(esp, loaders)
    }

    /// The bytes that `efibootmgr --create --disk … --part 2 --label CoreOS --loader '\EFI\a.efi'` writes,
    /// so that the writer and the check of this file cannot be wrong alike.
    #[test]
    fn an_entry_has_the_bytes_that_the_specification_asks_for() {
        let mut expected = vec![1, 0, 0, 0, 72, 0];
        expected.extend(b"C\0o\0r\0e\0O\0S\0\0\0");
        expected.extend([4, 1, 42, 0, 2, 0, 0, 0]);
        expected.extend([0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0xf8, 3, 0, 0, 0, 0, 0]);
        expected.extend([0xab; 16]);
        expected.extend([2, 2, 4, 4, 26, 0]);
        expected.extend(b"\\\0E\0F\0I\0\\\0a\0.\0e\0f\0i\0\0\0");
        expected.extend([0x7f, 0xff, 4, 0]);
        assert_eq!(load_option(&esp(), "/EFI/a.efi"), expected);
        assert!(leads_to(&expected, &esp(), &["/EFI/a.efi".to_owned()]));
    }

    #[test]
    fn the_entry_of_another_disk_with_the_same_guid_is_not_taken() {
        let here = |option: &[u8]| leads_to(option, &esp(), &loaders());
        let loader = "/EFI/BOOT/BOOTX64.EFI";
        assert!(here(&load_option(&esp(), &loader.to_lowercase())));
        for other in [
            Partition { guid: Guid([0xcd; 16]), ..esp() },
            Partition { number: 1, ..esp() },
            Partition { first_block: 2048, ..esp() },
            Partition { n_blocks: 1, ..esp() },
        ] {
            assert!(!here(&load_option(&other, loader)), "{other:?}");
        }
        let good = load_option(&esp(), loader);
        let at = good.windows(4).position(|window| window == [4, 1, 42, 0]).unwrap();
        // A signature of 16 bytes that is none of a GUID partition table: an MBR's, or of no kind.
        for (format, kind) in [(1, 1), (2, 1), (1, 2), (2, 0)] {
            let mut option = good.clone();
            option[at + 40..at + 42].copy_from_slice(&[format, kind]);
            assert!(!here(&option), "{format} {kind}");
        }
        // With a controller in front it may be the same partition of a clone.
        let pci = [1, 1, 6, 0, 0, 4];
        let mut long = [&good[..at], &pci, &good[at..]].concat();
        let n_bytes = u16::from_le_bytes([good[4], good[5]]) + 6;
        long[4..6].copy_from_slice(&n_bytes.to_le_bytes());
        assert!(!here(&long));
    }

    #[test]
    fn an_entry_for_a_loader_that_the_disk_does_not_hold_does_not_count() {
        let gone = load_option(&esp(), "/EFI/redhat/shimx64.efi");
        assert!(!leads_to(&gone, &esp(), &loaders()));
        // Without a file the firmware takes the fallback, where there is one.
        let path = [device_path::partition_node(&esp()), device_path::END.to_vec()].concat();
        let bare = LoadOption::encode(ACTIVE, "x", &path).unwrap();
        assert!(leads_to(&bare, &esp(), &loaders()));
        assert!(!leads_to(&bare, &esp(), &["/EFI/fedora/shimx64.efi".to_owned()]));
    }

    #[test]
    fn malformed_variables_are_no_entries() {
        let good = load_option(&esp(), "/EFI/BOOT/BOOTX64.EFI");
        let leads_to = |option: &[u8], esp: &Partition| leads_to(option, esp, &loaders());
        assert!(leads_to(&good, &esp()));
        for length in 0..good.len() - 4 {
            // What is cut off before its end has no whole device path.
            assert!(!leads_to(&good[..length], &esp()), "{length}");
        }
        for at in 0..good.len() {
            let mut damaged = good.clone();
            damaged[at] ^= 0xff;
            leads_to(&damaged, &esp());
        }
        assert!(!leads_to(&[], &esp()));
    }
}
