//! The forms in which a value occurs in files, names and binary answers.

use std::net::IpAddr;

use formats::guid::{self, parse_any};
use formats::hex::{bytes_lossy, grouped, hex};
use formats::utf16;

use super::fields::to_bytes;
use super::replace::{Edge, Pair, Scope};

/// Separators between two digits of a MAC or WWN, as drivers, udev and people write them; the kernel
/// writes an NVMe's `eui` with blanks.
const SEPARATORS: [&str; 5] = ["", ":", "-", "_", " "];
/// A shorter text as hexadecimal digits could be any number.
const MIN_HEX_TEXT: usize = 6;
/// Fewer non-zero bytes occur by chance in binary data.
const MIN_DISTINCTIVE_BYTES: usize = 3;

/// A text: as it is, in the other case, with blanks as udev writes them, as hexadecimal digits (in an
/// NVMe's wwid), with 16 bits a character, and with bytes swapped in pairs (ATA).
pub(super) fn text(from: &str, to: &str, edge: Edge) -> Vec<Pair> {
    let forms: [fn(&str) -> Vec<u8>; 5] = [
        |text| text.into(),
        |text| text.to_lowercase().into(),
        |text| text.to_uppercase().into(),
        |text| text.replace(' ', "_").into(),
        in_turned_pairs,
    ];
    let mut pairs: Vec<Pair> =
        forms.iter().map(|form| Pair::new(form(from), form(to), edge)).collect();
    // A word is no word any more once it is written as digits.
    let digits = |text: &str| hex(text.as_bytes()).into_bytes();
    if edge != Edge::Field || from.len() >= MIN_HEX_TEXT {
        pairs.push(Pair::new(digits(from), digits(to), Edge::Any));
    }
    if edge != Edge::Field {
        pairs.push(Pair::new(utf16::encode(from), utf16::encode(to), Edge::Any));
    }
    pairs
}

/// As ATA writes text: the two bytes of each word turned round, filled with a blank to whole words.
fn in_turned_pairs(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(bytes.len().next_multiple_of(2), b' ');
    bytes.chunks(2).flat_map(|pair| pair.iter().rev().copied()).collect()
}

/// The digits of `to` in the letters' case and with the signs of `like`.
pub(super) fn in_style_of(like: &str, to: &str) -> String {
    let mut digits = to.chars();
    let styled = like.chars().map(|c| match c {
        _ if !c.is_ascii_hexdigit() => c,
        _ if c.is_ascii_uppercase() => digits.next().unwrap_or(c).to_ascii_uppercase(),
        // A digit may become a letter, in the case of the letters that are there.
        _ if like.bytes().any(|b| b.is_ascii_uppercase())
            && !like.bytes().any(|b| b.is_ascii_lowercase()) =>
        {
            digits.next().unwrap_or(c).to_ascii_uppercase()
        }
        _ => digits.next().unwrap_or(c),
    });
    styled.collect()
}

/// Hexadecimal digits: with every separator, in both cases, and as bytes in both orders.
pub(super) fn digits(from: &str, to: &str) -> Vec<Pair> {
    let mut forms: Vec<(String, String)> = Vec::new();
    for separator in SEPARATORS {
        forms.push((grouped(from, 2, separator), grouped(to, 2, separator)));
    }
    // InfiniBand's GUIDs, Cisco's MACs, the volume number of FAT.
    forms.push((grouped(from, 4, ":"), grouped(to, 4, ":")));
    forms.push((grouped(from, 4, "."), grouped(to, 4, ".")));
    forms.push((grouped(from, 4, "-"), grouped(to, 4, "-")));
    let mut pairs = in_both_cases(forms);
    // Four bytes are a disk's or volume's number, and are looked for on disks alone.
    let scope = if from.len() == 8 { Scope::Disks } else { Scope::Everywhere };
    let (from, to): (Vec<u8>, Vec<u8>) = (bytes_lossy(from).collect(), bytes_lossy(to).collect());
    let reversed = |bytes: &[u8]| bytes.iter().rev().copied().collect();
    pairs.extend(binary(reversed(&from), reversed(&to), scope));
    pairs.extend(binary(from, to, scope));
    pairs
}

/// A UUID: with its dashes, without, in groups as md writes it, and as bytes in the three orders of
/// RFC 9562, of Microsoft (SMBIOS, GPT) and of words (md 0.90), each of them also as digits.
pub(super) fn uuid(from: &str, to: &str) -> Vec<Pair> {
    let orders = |digits: &str| parse_any(digits).map(guid::orders).into_iter().flatten();
    let forms = |bytes: &[u8]| [guid::uuid(bytes), hex(bytes), grouped(&hex(bytes), 8, ":")];
    let pairs = |(from, to): ([u8; 16], [u8; 16])| {
        let texts = in_both_cases(forms(&from).into_iter().zip(forms(&to)).collect());
        texts.into_iter().chain(binary(from.into(), to.into(), Scope::Everywhere))
    };
    orders(from).zip(orders(to)).flat_map(pairs).collect()
}

/// An address as text, and as bytes where four bytes cannot mean anything other than an address.
pub(super) fn address(from: IpAddr, to: IpAddr) -> Vec<Pair> {
    let text = |ip: IpAddr| ip.to_string().into_bytes();
    let long = |ip: IpAddr| hex(&to_bytes(ip)).into_bytes();
    let mut pairs =
        vec![Pair { scope: Scope::Text, ..Pair::new(text(from), text(to), Edge::Address) }];
    let (bytes_from, bytes_to) = (to_bytes(from), to_bytes(to));
    if from.is_ipv6() {
        pairs.push(Pair::new(long(from), long(to), Edge::Any));
        pairs.extend(binary(bytes_from, bytes_to, Scope::Everywhere));
    } else {
        // As /proc/net/route writes them: the number in the machine's byte order.
        let number = |bytes: &[u8]| -> Vec<u8> {
            let turned: Vec<u8> = bytes.iter().rev().copied().collect();
            hex(&turned).to_uppercase().into()
        };
        pairs.push(Pair {
            scope: Scope::Text,
            ..Pair::new(number(&bytes_from), number(&bytes_to), Edge::Word)
        });
        // LLDP's addresses: length, IANA's number of the family, address (IEEE 802.1AB §8.5.9).
        let framed = |bytes: &[u8]| [&[5, 1], bytes].concat();
        pairs.push(Pair {
            scope: Scope::Kernel,
            ..Pair::new(framed(&bytes_from), framed(&bytes_to), Edge::Any)
        });
        pairs.push(Pair { scope: Scope::Bmc, ..Pair::new(bytes_from, bytes_to, Edge::Any) });
    }
    pairs
}

/// The name of a host before a remote path, where it cannot be an ordinary word.
pub(super) fn remote(from: &str, to: &str) -> Pair {
    let form = |host: &str| format!("{host}:/").into_bytes();
    Pair { scope: Scope::Text, ..Pair::new(form(from), form(to), Edge::Any) }
}

/// Sixteen hexadecimal digits as a decimal number.
pub(super) fn decimal(from: &str, to: &str) -> Option<Pair> {
    let number = |digits: &str| u64::from_str_radix(digits, 16).map(|n| n.to_string().into_bytes());
    let (from, to) = (number(from).ok()?, number(to).ok()?);
    Some(Pair { scope: Scope::Text, ..Pair::new(from, to, Edge::Word) })
}

/// An address as somebody wrote it; one of its own spelling becomes one in the usual spelling.
pub(super) fn spelling(from: &str, to: IpAddr) -> Pair {
    let pair = Pair::new(from.into(), to.to_string().into(), Edge::Address);
    Pair { scope: Scope::Text, ..pair }
}

fn binary(from: Vec<u8>, to: Vec<u8>, scope: Scope) -> Option<Pair> {
    let n_distinctive = from.iter().filter(|byte| **byte != 0 && **byte != 0xff).count();
    let is_distinctive = n_distinctive >= MIN_DISTINCTIVE_BYTES && from.len() >= 4;
    is_distinctive.then(|| Pair { scope, ..Pair::new(from, to, Edge::Any) })
}

fn in_both_cases(forms: Vec<(String, String)>) -> Vec<Pair> {
    let pair = |from: &str, to: &str| Pair::new(from.into(), to.into(), Edge::Any);
    let both = |(from, to): (String, String)| {
        [pair(&from, &to), pair(&from.to_uppercase(), &to.to_uppercase())]
    };
    forms.into_iter().flat_map(both).collect()
}
