//! EFI variables (UEFI 2.10 §3.1.3, §10.3): boot entries hold descriptions with 16 bits a character
//! and device paths, in which addresses are bytes that elsewhere could mean anything.
//!
//! These fields have a loop of their own, apart from `fields`, for two reasons. A replacement may be longer
//! or shorter than the original, and the lengths in the variable and in each node of its path follow it
//! (`formats::efi::splice`); the other formats are rewritten in place. And a text here is replaced as a
//! whole line is, with kernel arguments parsed again, so that the kind of a field does not suffice:
//! `formats::efi::Content` says which.

use formats::efi::{Content, Part, parts, splice};
use formats::guid::Guid;
use formats::hex::hex;
use formats::{Encoding, utf16};

use super::collect::Secrets;
use super::fields::turned;
use super::pseudonym::Pseudonyms;
use super::replace::Table;
use super::{fields, line};

const VARIABLES: &str = "sys/firmware/efi/efivars/";

/// The variable at `path` without secrets; `None` for any other file.
pub(super) fn rewrite(
    path: &str,
    content: &[u8],
    secrets: &Secrets,
    table: &Table,
    names: &mut Pseudonyms,
) -> Option<Vec<u8>> {
    let name = path.strip_prefix(VARIABLES)?;
    let edit = |part: Part| {
        let put = replacement(&part, part.field.bytes(content), secrets, table, names)?;
        Some((part.field.span, put))
    };
    let edits: Vec<_> = parts(name, content).into_iter().filter_map(edit).collect();
    splice(name, content, &edits)
}

/// What replaces the `bytes` of a part. Numbers stay here: they are replaced in all their forms later.
fn replacement(
    part: &Part,
    bytes: &[u8],
    secrets: &Secrets,
    table: &Table,
    names: &mut Pseudonyms,
) -> Option<Vec<u8>> {
    let text = || decoded(part, bytes);
    match part.content {
        Content::Text | Content::Target => Some(encoded(part, &table.in_text(&text()?))),
        Content::NetworkName => Some(encoded(part, &names.text(&text()?))),
        Content::Arguments => Some(encoded(part, &line(&text()?, secrets, table, names))),
        Content::Address => {
            let put = fields::to_bytes(names.address(fields::ip(bytes)?));
            (put.len() == bytes.len()).then_some(put)
        }
        Content::DiskNumber => fields::disk_number(bytes, secrets, names),
        Content::Number | Content::Guid => None,
    }
}

/// Collects what the variable at `path` holds.
pub(super) fn collect(path: &str, content: &[u8], secrets: &mut Secrets) {
    let name = path.strip_prefix(VARIABLES);
    for part in name.map(|name| parts(name, content)).unwrap_or_default() {
        collect_part(&part, part.field.bytes(content), secrets);
    }
}

fn collect_part(part: &Part, bytes: &[u8], secrets: &mut Secrets) {
    let text = decoded(part, bytes).unwrap_or_default();
    match part.content {
        Content::Text => {
            secrets.in_text(&text);
            secrets.in_addresses(&text);
            in_description(&text, secrets);
        }
        Content::Arguments => {
            secrets.in_text(&text);
            secrets.in_addresses(&text);
            fields::collect_line(&text, secrets);
        }
        Content::Target => secrets.named("target", &text),
        Content::NetworkName => secrets.text(&text),
        Content::Address => secrets.addresses.extend(fields::ip(bytes)),
        Content::DiskNumber => secrets.digits(&turned(bytes)),
        Content::Guid => {
            let guid = formats::bytes::array(bytes, 0).map(Guid);
            if let Some(guid) = guid {
                secrets.uuid(&guid.to_string());
            }
        }
        Content::Number if part.field.encoding == Encoding::LittleEndian => {
            number(&turned(bytes), &hex(bytes), secrets);
        }
        Content::Number => number(&hex(bytes), &turned(bytes), secrets),
    }
}

/// A number whose bytes drivers turn or not: it is one number.
fn number(digits: &str, turned: &str, secrets: &mut Secrets) {
    if !secrets.digits.contains(turned) {
        secrets.digits(digits);
    }
}

fn decoded(part: &Part, bytes: &[u8]) -> Option<String> {
    match part.field.encoding {
        Encoding::Text => String::from_utf8(bytes.to_vec()).ok(),
        Encoding::Utf16 => utf16::decode(bytes),
        _ => None,
    }
}

fn encoded(part: &Part, text: &str) -> Vec<u8> {
    match part.field.encoding {
        Encoding::Utf16 => utf16::encode(text),
        _ => text.as_bytes().to_vec(),
    }
}

/// `UEFI PXEv4 (MAC:0C42A1DEADBE)`, as firmware names a boot entry.
fn in_description(text: &str, secrets: &mut Secrets) {
    for (at, word) in text.match_indices("MAC") {
        let rest = text.get(at + word.len()..).unwrap_or_default();
        let rest = rest.trim_start_matches([':', '(', ' ', '=']);
        let is_part = |c: &char| c.is_ascii_hexdigit() || ":-".contains(*c);
        let digits: String =
            rest.chars().take_while(is_part).filter(char::is_ascii_hexdigit).collect();
        if digits.len() == 12 {
            secrets.digits(&digits);
        }
    }
}
