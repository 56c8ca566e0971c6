//! The text in which LVM2 stores a volume group on its disks (LVM2 `lib/format_text/export.c`): sections
//! `<name> {` and lines `<key> = <value>`. Old copies of it stay behind where a disk was used anew.

use super::is_id;
use crate::{Field, Kind};

/// Names of sections that LVM chooses itself, e.g. `pv0` and `segment1`.
const SECTIONS: [&str; 6] = [
    "physical_volumes",
    "logical_volumes",
    "historical_logical_volumes",
    "pv",
    "segment",
    "metadata",
];
/// Keys whose values are words of LVM.
const PLAIN_KEYS: [&str; 7] =
    ["contents", "format", "status", "flags", "type", "allocation_policy", "device"];

/// Lists the places that reveal something in metadata anywhere in `bytes`, whole or in part.
pub fn fields(bytes: &[u8]) -> Vec<Field> {
    let mut found = Vec::new();
    let mut at = 0;
    for line in bytes.split(|byte| matches!(byte, b'\n' | b'\0')) {
        if line.is_ascii() {
            let start = found.len();
            in_line(std::str::from_utf8(line).unwrap_or_default(), &mut found);
            found[start..].iter_mut().for_each(|field| *field = field.clone().moved(at));
        }
        at += line.len() + 1;
    }
    // Without an identifier this is some other text.
    let has_id = found.iter().any(|field| field.kind == Kind::Serial);
    if has_id { found } else { Vec::new() }
}

fn in_line(line: &str, found: &mut Vec<Field>) {
    let text = line.trim();
    let offset = line.len() - line.trim_start().len();
    if let Some(name) = text.strip_suffix(" {") {
        if !SECTIONS.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit())) {
            found.push(Field::text(offset..offset + name.len(), Kind::FreeText));
        }
    } else if let Some((key, _)) = text.split_once(" = ") {
        let field = |(start, value): (usize, &str)| {
            Some(Field::text(start..start + value.len(), kind(key, value)?))
        };
        found.extend(quoted(line).filter_map(field));
        // `creation_host = "node7"  # Linux node7 6.1.0 …`
        if let Some(at) = line.find("# Linux ").map(|at| at + "# Linux ".len()) {
            let host = line[at..].split(' ').next().unwrap_or_default();
            found.push(Field::text(at..at + host.len(), Kind::HostName));
        }
    }
}

/// The strings between quotes, and where each begins.
fn quoted(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    let parts = line.split('"').map(move |part| {
        let start = at;
        at += part.len() + 1;
        (start, part)
    });
    parts.skip(1).step_by(2)
}

/// Kind of information that the value of a key reveals. A volume is also named where another one uses it.
fn kind(key: &str, value: &str) -> Option<Kind> {
    let is_physical = value.strip_prefix("pv").is_some_and(|n| n.parse::<u16>().is_ok());
    match key {
        _ if is_id(value) => Some(Kind::Serial),
        "creation_host" => Some(Kind::HostName),
        _ if PLAIN_KEYS.contains(&key) || is_physical || value.is_empty() => None,
        _ => Some(Kind::FreeText),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"\0\0vg_acme {\n\
        id = \"abcdef-ghij-klmn-opqr-stuv-wxyz-ABCDEF\"\n\
        status = [\"RESIZEABLE\", \"READ\"]\n\
        physical_volumes {\n\npv0 {\ndevice = \"/dev/sda2\"\n}\n}\n\
        payroll {\nsegment1 {\nstripes = [\n\"pv0\", 0\n]\nthin_pool = \"pool\"\n}\n}\n\
        creation_host = \"node7\"\t# Linux node7 6.1.0 #1 SMP\n\0\xff";

    #[test]
    fn names_and_identifiers_are_fields_and_the_words_of_lvm_are_plain() {
        let found: Vec<(Kind, &[u8])> =
            fields(TEXT).iter().map(|field| (field.kind, field.bytes(TEXT))).collect();
        let expected = [
            (Kind::FreeText, "vg_acme"),
            (Kind::Serial, "abcdef-ghij-klmn-opqr-stuv-wxyz-ABCDEF"),
            (Kind::FreeText, "payroll"),
            (Kind::FreeText, "pool"),
            (Kind::HostName, "node7"),
            (Kind::HostName, "node7"),
        ];
        assert_eq!(found, expected.map(|(kind, text)| (kind, text.as_bytes())));
    }

    #[test]
    fn other_text_has_no_fields() {
        assert_eq!(fields(b"menuentry {\nid = \"short\"\n}\n"), []);
        assert_eq!(fields(&[0; 4096]), []);
    }
}
