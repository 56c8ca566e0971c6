//! The text in which LVM2 stores a volume group on its disks (LVM2 `lib/format_text/export.c`): sections
//! `<name> {` and lines `<key> = <value>`. Old copies of it stay behind where a disk was used anew.

use super::is_id;
use crate::{Encoding, Field, Kind};

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
    let lines = bytes.split(|byte| matches!(byte, b'\n' | b'\0')).filter(|line| line.is_ascii());
    let found = lines.filter_map(|line| std::str::from_utf8(line).ok()).flat_map(in_line);
    let field =
        |(part, kind): (&str, Kind)| Field::within(bytes, part.as_bytes(), kind, Encoding::Text);
    let found: Vec<Field> = found.map(field).collect();
    // Without an identifier this is some other text.
    let has_id = found.iter().any(|field| field.kind == Kind::Serial);
    if has_id { found } else { Vec::new() }
}

fn in_line(line: &str) -> Vec<(&str, Kind)> {
    let text = line.trim();
    if let Some(name) = text.strip_suffix(" {") {
        let is_of_lvm = SECTIONS.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit()));
        return if is_of_lvm { Vec::new() } else { vec![(name, Kind::FreeText)] };
    }
    let Some((key, _)) = text.split_once(" = ") else { return Vec::new() };
    let quoted = line.split('"').skip(1).step_by(2);
    let values = quoted.filter_map(|value| Some((value, kind(key, value)?)));
    // `creation_host = "node7"  # Linux node7 6.1.0 …`
    let host = line.split_once("# Linux ").and_then(|(_, rest)| rest.split(' ').next());
    values.chain(host.map(|host| (host, Kind::HostName))).collect()
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
    use crate::field::tests::assert_fields;

    const TEXT: &[u8] = b"\0\0vg_acme {\n\
        id = \"abcdef-ghij-klmn-opqr-stuv-wxyz-ABCDEF\"\n\
        status = [\"RESIZEABLE\", \"READ\"]\n\
        physical_volumes {\n\npv0 {\ndevice = \"/dev/sda2\"\n}\n}\n\
        payroll {\nsegment1 {\nstripes = [\n\"pv0\", 0\n]\nthin_pool = \"pool\"\n}\n}\n\
        creation_host = \"node7\"\t# Linux node7 6.1.0 #1 SMP\n\0\xff";

    #[test]
    fn names_and_identifiers_are_fields_and_the_words_of_lvm_are_plain() {
        let expected = [
            (Kind::FreeText, "vg_acme"),
            (Kind::Serial, "abcdef-ghij-klmn-opqr-stuv-wxyz-ABCDEF"),
            (Kind::FreeText, "payroll"),
            (Kind::FreeText, "pool"),
            (Kind::HostName, "node7"),
            (Kind::HostName, "node7"),
        ];
        assert_fields(&fields(TEXT), TEXT, &expected);
    }

    #[test]
    fn other_text_has_no_fields() {
        assert_eq!(fields(b"menuentry {\nid = \"short\"\n}\n"), []);
        assert_eq!(fields(&[0; 4096]), []);
    }
}
