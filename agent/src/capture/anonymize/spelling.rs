//! Every spelling of a value: in files, in names, and in binary answers. Replacement and the search for remaining
//! values share this one list.

use std::net::IpAddr;

use formats::guid;
use formats::hex::{bytes_lossy, grouped, hex};
use formats::lvm::Volume;
use formats::text::is_number;
use formats::{lvm, utf16};

use super::secret::Secret;

/// Digit groups and their separators: MACs and WWNs as drivers, udev and people write them, the kernel's form of an
/// NVMe `eui`; `InfiniBand` GUIDs, Cisco MACs, FAT volume numbers; md UUIDs.
const GROUPS: [(usize, &str); 9] =
    [(2, ""), (2, ":"), (2, "-"), (2, "_"), (2, " "), (4, ":"), (4, "."), (4, "-"), (8, ":")];
/// A shorter text as hexadecimal digits, or with swapped pairs, could occur by chance.
const MIN_UNUSUAL_TEXT: usize = 6;
/// A shorter text is searched for as a word.
pub(in crate::capture) const MIN_UNBOUNDED_TEXT: usize = 8;
/// A shorter serial number within other SMBIOS letters could occur by chance.
const MIN_GLUED: usize = 5;
/// Fewer reversed digits could be any number.
const MIN_TURNED_DIGITS: usize = 12;
/// A disk's or volume's number, whose four bytes are searched for only on disks.
const DISK_NUMBER_DIGITS: usize = 8;
/// A number in binary with fewer bytes other than 0 and ff occurs by chance.
pub(in crate::capture) const MIN_DISTINCTIVE_BYTES: usize = 3;

/// The neighbours that a value may have for it to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::capture) enum Edge {
    /// Anything.
    Any,
    /// No letter and no digit.
    Word,
    /// As a word, in a file that holds identities: for values that could mean anything.
    Field,
    /// Nothing that could continue the address or number.
    Address,
}

/// The places in which a value is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::capture) enum Scope {
    /// In names and in all files.
    Everywhere,
    /// In names and in text files, which may become longer.
    Text,
    /// In the kernel's answers to questions.
    Kernel,
    /// In the management controller's answers.
    Bmc,
    /// In data read from disks, and in text.
    Disks,
    /// In contents, and in names derived from identities: for host names.
    Contents,
    /// In the SMBIOS table, where vendors attach a serial number to other letters.
    Smbios,
    /// Nowhere: it would occur by chance.
    Nowhere,
}

/// One spelling of a value.
#[derive(Debug, Clone)]
pub(in crate::capture) struct Spelling {
    pub(in crate::capture) bytes: Vec<u8>,
    pub(in crate::capture) edge: Edge,
    pub(in crate::capture) scope: Scope,
    /// True for text, whose case a search ignores.
    pub(in crate::capture) is_text: bool,
}

fn spelling(text: impl Into<Vec<u8>>, edge: Edge, scope: Scope) -> Spelling {
    Spelling { bytes: text.into(), edge, scope, is_text: true }
}

/// Returns the spellings of a secret. Its replacement has equally many, in the same order.
pub(super) fn of(secret: &Secret) -> Vec<Spelling> {
    match secret {
        Secret::Text(value) => serial(value),
        Secret::Host { name, is_text } => host(name, *is_text),
        Secret::LvmId(id) => text(&lvm::grouped(id), Edge::Any, Scope::Everywhere),
        Secret::Volume(names) => volume(names),
        Secret::Iscsi(value) | Secret::Numeric(value) => text(value, Edge::Any, Scope::Everywhere),
        Secret::Digits(digits) | Secret::Uuid(digits) => number(digits),
        Secret::Address(ip) => address(*ip),
        Secret::Decimal(digits) => {
            let number = u64::from_str_radix(digits, 16).unwrap_or_default();
            vec![spelling(number.to_string(), Edge::Word, Scope::Text)]
        }
        Secret::Spelled(text, _) => vec![spelling(text.as_str(), Edge::Address, Scope::Text)],
    }
}

/// A text in each case: as it is, with blanks as udev writes them, with bytes swapped in pairs (ATA), as
/// hexadecimal digits (in an NVMe's wwid), and with 16 bits a character in both orders.
pub(in crate::capture) fn text(value: &str, edge: Edge, scope: Scope) -> Vec<Spelling> {
    let is_long = value.len() >= MIN_UNUSUAL_TEXT;
    let is_word = edge != Edge::Field;
    // A word is no word any more once its letters are others.
    let turned_edge = if is_word && is_long { Edge::Any } else { edge };
    let certain = |is_certain: bool| if is_certain { scope } else { Scope::Nowhere };
    let cased = [value.to_owned(), value.to_lowercase(), value.to_uppercase()];
    let spellings = cased.iter().flat_map(|text| {
        let high_first: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        [
            spelling(text.as_str(), edge, scope),
            spelling(text.replace(' ', "_"), edge, scope),
            spelling(in_turned_pairs(text), turned_edge, scope),
            spelling(hex(text.as_bytes()), Edge::Any, certain(is_word || is_long)),
            spelling(utf16::encode(text), Edge::Any, certain(is_word)),
            spelling(high_first, Edge::Any, certain(is_word)),
        ]
    });
    spellings.collect()
}

/// A serial number, asset tag or password.
fn serial(value: &str) -> Vec<Spelling> {
    let edge = if is_weak_text(value) { Edge::Field } else { text_edge(value) };
    let mut spellings = text(value, edge, scope_of_text(edge));
    let is_glued = edge != Edge::Any && value.len() >= MIN_GLUED;
    let glued = if is_glued { Scope::Smbios } else { Scope::Nowhere };
    spellings.push(spelling(value, Edge::Any, glued));
    spellings
}

/// A host name, and the same in front of a remote path, where it cannot be an ordinary word.
fn host(name: &str, is_text: bool) -> Vec<Spelling> {
    let edge = if is_weak_host(name) { Edge::Field } else { text_edge(name) };
    let scope = if is_text { scope_of_text(edge) } else { Scope::Contents };
    let is_name_of_kernel = !is_text && is_kernel_name(name);
    let mut spellings = text(name, edge, if is_name_of_kernel { Scope::Nowhere } else { scope });
    let is_weak = edge == Edge::Field || (is_text && is_weak_text(name));
    let is_remote = is_weak && !is_name_of_kernel;
    let remote = if is_remote { Scope::Text } else { Scope::Nowhere };
    spellings.push(spelling(format!("{name}:/"), Edge::Any, remote));
    spellings
}

pub(in crate::capture) fn text_edge(text: &str) -> Edge {
    if text.len() < MIN_UNBOUNDED_TEXT { Edge::Word } else { Edge::Any }
}

fn scope_of_text(edge: Edge) -> Scope {
    if edge == Edge::Word { Scope::Contents } else { Scope::Everywhere }
}

/// Formats text like ATA: the two bytes of each word swapped, padded with a blank to whole words.
fn in_turned_pairs(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(bytes.len().next_multiple_of(2), b' ');
    bytes.chunks(2).flat_map(|pair| pair.iter().rev().copied()).collect()
}

/// Returns a number in every byte order: as digits in both cases with every separator, as 16-bit text,
/// and in binary. A UUID has the orders of RFC 9562, of Microsoft (SMBIOS, GPT) and of words (md 0.90).
pub(in crate::capture) fn number(digits: &str) -> Vec<Spelling> {
    let bytes: Vec<u8> = bytes_lossy(digits).collect();
    let turned: Vec<u8> = bytes.iter().rev().copied().collect();
    let mut orders = match <[u8; 16]>::try_from(bytes.as_slice()) {
        Ok(uuid) => guid::orders(uuid).map(Vec::from).to_vec(),
        Err(_) => vec![bytes],
    };
    orders.push(turned);
    let is_disk_number = digits.len() == DISK_NUMBER_DIGITS;
    let mut spellings = Vec::new();
    for (at, bytes) in orders.into_iter().enumerate() {
        let is_written = at == 0 || digits.len() >= MIN_TURNED_DIGITS;
        let scope = if is_written { Scope::Everywhere } else { Scope::Nowhere };
        let digits = hex(&bytes);
        let groups = GROUPS.map(|(size, separator)| grouped(&digits, size, separator));
        for text in groups.into_iter().chain([guid::uuid(&bytes)]) {
            let upper = text.to_uppercase();
            spellings.extend([text, upper].map(|text| spelling(text, Edge::Any, scope)));
        }
        for text in [digits.to_uppercase(), digits] {
            let scope = if is_disk_number { Scope::Nowhere } else { scope };
            spellings.push(spelling(utf16::encode(&text), Edge::Any, scope));
        }
        let scope = if is_disk_number { Scope::Disks } else { Scope::Everywhere };
        spellings.push(binary(bytes, scope));
    }
    spellings
}

/// Bytes that are searched for only if they are distinctive.
fn binary(bytes: Vec<u8>, scope: Scope) -> Spelling {
    let n_distinctive = bytes.iter().filter(|byte| !matches!(byte, 0 | 0xff)).count();
    let scope = if n_distinctive >= MIN_DISTINCTIVE_BYTES { scope } else { Scope::Nowhere };
    Spelling { bytes, edge: Edge::Any, scope, is_text: false }
}

/// The names of a volume and its group, which may be any word, in LVM's forms: the device mapper's,
/// `<group>/<volume>`, udev's properties and dracut's argument.
fn volume(names: &Volume) -> Vec<Spelling> {
    let (group, name) = (&names.group, &names.name);
    // A group that is known without a volume has only the forms of a group.
    let scope = if name.is_empty() { Scope::Nowhere } else { Scope::Everywhere };
    vec![
        spelling(names.mapping(), Edge::Word, scope),
        spelling(format!("{group}/{name}"), Edge::Word, scope),
        spelling(format!("DM_VG_NAME={group}"), Edge::Word, Scope::Everywhere),
        spelling(format!("DM_LV_NAME={name}"), Edge::Word, scope),
        spelling(format!("rd.lvm.vg={group}"), Edge::Word, Scope::Everywhere),
    ]
}

/// An address as text, and as bytes where four bytes cannot mean anything other than an address.
fn address(ip: IpAddr) -> Vec<Spelling> {
    let text = spelling(ip.to_string(), Edge::Address, Scope::Text);
    match ip {
        IpAddr::V4(ip) => {
            let bytes = ip.octets();
            // As /proc/net/route writes them: the number in the machine's byte order.
            let number = hex(bytes.iter().rev()).to_uppercase();
            // LLDP's addresses: length, IANA's number of the family, address (IEEE 802.1AB §8.5.9).
            let framed = [&[5, 1], &bytes[..]].concat();
            let raw = |bytes: &[u8], scope| Spelling {
                is_text: false,
                ..spelling(bytes, Edge::Any, scope)
            };
            vec![
                text,
                spelling(number, Edge::Word, Scope::Text),
                raw(&framed, Scope::Kernel),
                raw(&bytes, Scope::Bmc),
            ]
        }
        IpAddr::V6(ip) => {
            let digits = spelling(hex(&ip.octets()), Edge::Any, Scope::Everywhere);
            vec![text, digits, binary(ip.octets().to_vec(), Scope::Everywhere)]
        }
    }
}

/// Returns true if a serial number could equally be a word or a size.
fn is_weak_text(text: &str) -> bool {
    let n_digits = text.bytes().filter(u8::is_ascii_digit).count();
    n_digits == 0 || (n_digits == text.len() && n_digits < 10)
}

/// Returns true if a host name could equally be a word.
fn is_weak_host(name: &str) -> bool {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphabetic());
    name.len() < 4 || (is_plain && name.len() < 12)
}

/// Returns true if the kernel uses this name too, so it means nothing outside a host name field: letters
/// that name a kind of device, then numbers.
fn is_kernel_name(name: &str) -> bool {
    const KINDS: &str = "node cpu eth md dm- loop ram sr tty ttyS host target memory card bond br vlan wlan usb hwmon \
         mmcblk rtc tpm ib mlx4_ mlx5_ eno ens port slot state zram nbd mtd index policy session rport zone";
    let after = |start: &str| name.strip_prefix(start);
    let is_disk = ["sd", "hd", "vd", "xvd"].into_iter().filter_map(after).any(|rest| {
        let letters = rest.trim_end_matches(|c: char| c.is_ascii_digit());
        (1..3).contains(&letters.len()) && letters.bytes().all(|b| b.is_ascii_lowercase())
    });
    // Of NVMe: nvme0n1, nvme0c1n1p2.
    let is_nvme = after("nvme").is_some_and(|rest| is_number(&rest.replace(['c', 'n', 'p'], "")));
    is_disk || is_nvme || KINDS.split(' ').filter_map(after).any(is_number)
}
