//! Values for people: sizes, speeds and times by the unit that the key names; keys as headings.

use serde_json::Value;

/// Longest text that a page shows; the rest is in the JSON.
const LIMIT: usize = 240;

/// Key endings that name a unit, the divisor, and the unit. The longest come first.
const UNITS: [(&str, u64, &str); 9] = [
    ("_gt_s_x10", 10, "GT/s"),
    ("_mt_s", 1, "MT/s"),
    ("_celsius", 1, "°C"),
    ("_percent", 1, "%"),
    ("_mhz", 1, "MHz"),
    ("_khz", 1, "kHz"),
    ("_watts", 1, "W"),
    ("_ms", 1, "ms"),
    ("_s", 1, "s"),
];

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

/// `1 disk`, `2 disks`.
pub(super) fn counted(n: u64, name: &str) -> String {
    format!("{n} {name}{}", if n == 1 { "" } else { "s" })
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
    if key.ends_with("_mbit_s") {
        return if n >= 1000 && n.is_multiple_of(100) {
            format!("{} Gbit/s", tenths(n / 100))
        } else {
            format!("{n} Mbit/s")
        };
    }
    for (ending, divisor, unit) in UNITS {
        if key.ends_with(ending) {
            let n = if divisor == 10 { tenths(n) } else { n.to_string() };
            return format!("{n} {unit}");
        }
    }
    n.to_string()
}

/// A size: memory in GiB, disks in GB.
pub(super) fn bytes(n: u64, is_decimal: bool) -> String {
    let (step, units) = if is_decimal {
        (1000, ["B", "kB", "MB", "GB", "TB", "PB"])
    } else {
        (1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
    };
    let (mut unit, mut size) = (0, 1u64);
    while unit + 1 < units.len() && n / size >= step {
        size *= step;
        unit += 1;
    }
    let text = if unit == 0 { n.to_string() } else { tenths(tenths_of(n, size)) };
    format!("{text} {}", units[unit])
}

/// Returns `n` in tenths of `size`, rounded.
fn tenths_of(n: u64, size: u64) -> u64 {
    u64::try_from((u128::from(n) * 10 + u128::from(size) / 2) / u128::from(size))
        .unwrap_or(u64::MAX)
}

/// Formats a number in tenths, without a needless `.0`.
fn tenths(n: u64) -> String {
    if n.is_multiple_of(10) || n >= 10_000 {
        (n / 10).to_string()
    } else {
        format!("{}.{}", n / 10, n % 10)
    }
}

/// A text cut to a readable length, in which characters that would hide or reorder others are replaced.
pub(super) fn cut(text: &str) -> String {
    let text: String = text.chars().map(|c| if is_shown(c) { c } else { '\u{fffd}' }).collect();
    shortened(&text)
}

fn is_shown(c: char) -> bool {
    c == '\n' || c == '\t' || formats::text::is_visible(c)
}

fn shortened(text: &str) -> String {
    let n_characters = text.chars().count();
    if n_characters <= LIMIT {
        return text.to_owned();
    }
    let head: String = text.chars().take(LIMIT - 40).collect();
    format!("{head}… ({n_characters} characters)")
}

/// A key as a heading: `configured_speed_mt_s` becomes `Configured speed`.
pub(super) fn heading(key: &str) -> String {
    let mut endings = ["_bytes", "_mbit_s"].into_iter().chain(UNITS.map(|(ending, ..)| ending));
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
            ("size_bytes", 1536, "1.5 KiB"),
            ("size_bytes", 49152, "48 KiB"),
            ("size_bytes", 0, "0 B"),
            ("speed_mbit_s", 25_000, "25 Gbit/s"),
            ("speed_mbit_s", 2500, "2.5 Gbit/s"),
            ("speed_mbit_s", 100, "100 Mbit/s"),
            ("current_gt_s_x10", 80, "8 GT/s"),
            ("current_gt_s_x10", 25, "2.5 GT/s"),
            ("speed_mt_s", 3200, "3200 MT/s"),
            ("n_cores", 40, "40"),
        ] {
            assert_eq!(scalar(key, &json!(n), false).as_deref(), Some(text), "{key}");
        }
        assert_eq!(scalar("size_bytes", &json!(960_197_124_096u64), true).unwrap(), "960.2 GB");
        assert_eq!(scalar("logical_block_bytes", &json!(4096), true).unwrap(), "4 KiB");
        assert_eq!(scalar("size_bytes", &json!(u64::MAX), false).unwrap(), "16384 PiB");
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
