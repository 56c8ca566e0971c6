//! Values for people: sizes, speeds and times by the unit that the key names; keys as headings.

use compare::quantity::Unit;
use serde_json::Value;

/// Longest text that a page shows; the rest is in the JSON.
const LIMIT: usize = 240;

/// Key endings that name a unit. The longest come first.
const UNITS: [(&str, Unit); 5] = [
    ("_gt_s_x10", Unit::GigaTransfers),
    ("_mbit_s", Unit::Mbit),
    ("_mt_s", Unit::Transfers),
    ("_mhz", Unit::Mhz),
    ("_watts", Unit::Watts),
];

/// The others, whose numbers are shown as they are.
const PLAIN_UNITS: [(&str, &str); 5] =
    [("_celsius", "°C"), ("_percent", "%"), ("_khz", "kHz"), ("_ms", "ms"), ("_s", "s")];

/// Words that are abbreviations, separated by blanks.
const ACRONYMS: &str = "aer arp bios bmc cpu dimm dns efi esp eui64 fc gpu hctl id iommu ip lldp mac mtu nguid nic \
                        nqn numa os pci sku smbios tpm usb uuid wwn";

/// Words with capitals inside.
const SPELLINGS: [(&str, &str); 6] = [
    ("cpus", "CPUs"),
    ("dimms", "DIMMs"),
    ("vfs", "VFs"),
    ("nvme", "NVMe"),
    ("ipv4", "IPv4"),
    ("ipv6", "IPv6"),
];

/// Returns a list's items; none for any other value.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Shows a value in one line: a text as it is, nothing for null, JSON for everything else.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => cut(text),
        other => cut(&other.to_string()),
    }
}

/// Returns a text with a word before it; `None` if the value is not a text or is empty.
pub(super) fn named(prefix: &str, value: &Value) -> Option<String> {
    let text = value.as_str().filter(|text| !text.is_empty())?;
    Some(format!("{prefix}{}", cut(text)))
}

/// Joins the known parts of a line.
pub(super) fn joined(parts: impl IntoIterator<Item = Option<String>>, separator: &str) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(separator)
}

/// A scalar for a person: `n` bytes as GiB, a claim as yes or no. `None` for null, lists and objects.
pub(super) fn scalar(key: &str, value: &Value, is_decimal: bool) -> Option<String> {
    match value {
        Value::Null | Value::Array(_) | Value::Object(_) => None,
        Value::Bool(claim) => Some(if *claim { "yes" } else { "no" }.to_owned()),
        Value::String(text) => Some(cut(text)),
        Value::Number(number) => Some(match number.as_u64() {
            Some(n) => with_unit(key, n, is_decimal),
            None => number.to_string(),
        }),
    }
}

fn with_unit(key: &str, n: u64, is_decimal: bool) -> String {
    if key.ends_with("_bytes") {
        return bytes(n, is_decimal && !key.ends_with("block_bytes"));
    }
    let unit = UNITS.iter().find(|(ending, _)| key.ends_with(ending));
    let plain = PLAIN_UNITS.iter().find(|(ending, _)| key.ends_with(ending));
    match (unit, plain) {
        (Some((_, unit)), _) => unit.text(&n.into()),
        (None, Some((_, unit))) => format!("{n} {unit}"),
        (None, None) => n.to_string(),
    }
}

/// A size: memory in GiB, disks in GB.
pub(super) fn bytes(n: u64, is_decimal: bool) -> String {
    let unit = if is_decimal { Unit::DiskBytes } else { Unit::Bytes };
    unit.text(&n.into())
}

/// A text cut to a readable length, in which characters that would hide or reorder others are replaced.
pub(super) fn cut(text: &str) -> String {
    let is_shown = |c| c == '\n' || c == '\t' || formats::text::is_visible(c);
    let text: String = text.chars().map(|c| if is_shown(c) { c } else { '\u{fffd}' }).collect();
    let n_characters = text.chars().count();
    if n_characters <= LIMIT {
        return text;
    }
    let head: String = text.chars().take(LIMIT - 40).collect();
    format!("{head}… ({n_characters} characters)")
}

/// A key as a heading: `configured_speed_mt_s` becomes `Configured speed`.
pub(super) fn heading(key: &str) -> String {
    let endings = UNITS.map(|(ending, _)| ending).into_iter();
    let mut endings = endings.chain(PLAIN_UNITS.map(|(ending, _)| ending)).chain(["_bytes"]);
    let key = endings.find_map(|ending| key.strip_suffix(ending)).unwrap_or(key);
    let key = key.strip_prefix("is_").or_else(|| key.strip_prefix("n_")).unwrap_or(key);
    let text = cut(&key.split('_').map(word).collect::<Vec<_>>().join(" "));
    let mut characters = text.chars();
    let first = characters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(characters).collect()
}

fn word(word: &str) -> String {
    if ACRONYMS.split(' ').any(|known| known == word) {
        return word.to_uppercase();
    }
    let known = SPELLINGS.iter().find(|(known, _)| *known == word);
    known.map_or(word, |(_, spelling)| spelling).to_owned()
}

/// Returns the time of day in an RFC 3339 text, to the second; the text itself if it is not a time.
pub(super) fn clock(time: &str) -> String {
    match (time.get(11..19), time.len()) {
        (Some(clock), 20..) => clock.to_owned(),
        _ => cut(time),
    }
}

/// Formats date and time from an RFC 3339 text, to the second.
pub(super) fn date(time: &str) -> String {
    match (time.get(..10), time.get(11..19)) {
        (Some(day), Some(clock)) => format!("{day} {clock} UTC"),
        _ => cut(time),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_has_the_unit_of_its_key() {
        for (key, n, text) in [
            ("size_bytes", 17_179_869_184u64, "16 GiB"),
            ("speed_mbit_s", 2500, "2.5 Gbit/s"),
            ("current_gt_s_x10", 25, "2.5 GT/s"),
            ("speed_mt_s", 3200, "3200 MT/s"),
            ("duration_ms", 5, "5 ms"),
            ("n_cores", 40, "40"),
        ] {
            assert_eq!(scalar(key, &json!(n), false).as_deref(), Some(text), "{key}");
        }
        assert_eq!(scalar("size_bytes", &json!(960_197_124_096u64), true).unwrap(), "960 GB");
        assert_eq!(scalar("logical_block_bytes", &json!(4096), true).unwrap(), "4 KiB");
    }

    #[test]
    fn a_key_becomes_a_heading() {
        for (key, text) in [
            ("configured_speed_mt_s", "Configured speed"),
            ("permanent_mac", "Permanent MAC"),
            ("is_removable", "Removable"),
            ("n_logical_cpus_online", "Logical CPUs online"),
            ("", ""),
        ] {
            assert_eq!(heading(key), text);
        }
    }

    #[test]
    fn a_time_that_is_none_is_shown_as_it_came() {
        assert_eq!(clock("2026-11-20T10:00:00Z"), "10:00:00");
        assert_eq!(clock("ääääääääääääääääää"), "ääääääääääääääääää");
        assert_eq!(date("2026-11-20T10:00:00.5Z"), "2026-11-20 10:00:00 UTC");
        assert_eq!(date("soon"), "soon");
    }

    #[test]
    fn text_is_cut_with_its_length_and_cannot_change_the_direction_of_the_text_around_it() {
        assert_eq!(cut("a\u{202e}gpj.exe\u{2066}\u{7}"), "a\u{fffd}gpj.exe\u{fffd}\u{fffd}");
        assert_eq!(cut("שלום, مرحبا\n"), "שלום, مرحبا\n");
        assert!(cut(&"x".repeat(1000)).ends_with("x… (1000 characters)"));
    }
}
