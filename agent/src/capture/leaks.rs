//! The last check of an anonymised capture: every identifier of the original report is searched for in
//! every name and content, in every spelling. One that is left is an error, and no file is written.
//!
//! The check does not ask how a value was replaced, so that a format that the anonymiser does not know
//! cannot leak silently. What could be a word or a size is not searched for ([`is_searched_text`],
//! [`is_searched_number`]): it occurs by chance.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use formats::guid;
use formats::hex::{bytes_lossy, grouped, hex};
use formats::{utf16, wwn};
use probes::dmi::{is_known_duplicate, is_placeholder};
use probes::machine::{Failure, Recorded};
use serde_json::Value;

/// Fewer characters of a serial number occur by chance.
const MIN_TEXT: usize = 6;
/// Fewer characters are searched for as a whole word only.
const MIN_UNBOUNDED_TEXT: usize = 8;
/// Fewer hexadecimal digits occur by chance: a MAC has 12.
const MIN_DIGITS: usize = 12;
/// A number with fewer digits other than 0 and f occurs by chance.
const MIN_DISTINCTIVE_DIGITS: usize = 3;
/// A number in binary with fewer bytes other than 0 and ff occurs by chance.
const MIN_DISTINCTIVE_BYTES: usize = 3;
/// A number of up to this many decimal digits may be a size or a time.
const MAX_PLAIN_DECIMALS: usize = 9;
/// All spellings have at least this many bytes.
const KEY_BYTES: usize = 4;

/// An identifier that is left in a capture.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Leak {
    /// The key of the report whose value it is, e.g. `serial`.
    pub(super) key: String,
    /// The file or name that contains it, without the identifier.
    pub(super) path: String,
}

/// The identifiers of a report, by value, each with the key that it was first found under.
#[derive(Debug, Default)]
pub(super) struct Identifiers(BTreeMap<String, String>);

impl Identifiers {
    /// Everything in `report` that names one part, port or file system and could not be there by chance.
    /// `recorded` is the original: a serial number that is the name of a place in the tree, as that of a
    /// USB root hub is its controller's PCI address, names nothing.
    pub(super) fn of(report: &Value, recorded: &Recorded) -> Identifiers {
        let mut found = Identifiers::default();
        found.add("", report);
        let mut public = BTreeSet::new();
        public_uuids(report, &mut public);
        let paths =
            recorded.files.keys().chain(recorded.links.values()).chain(recorded.links.keys());
        let places: BTreeSet<&str> = paths.flat_map(|path| path.split('/')).collect();
        let names_something = |value: &str| {
            !places.contains(value)
                && !public.contains(&value.to_lowercase())
                && !is_placeholder(value)
                && !is_known_duplicate(value)
                && !patterns(value).is_empty()
        };
        found.0.retain(|value, _| names_something(value));
        found
    }

    fn add(&mut self, key: &str, value: &Value) {
        match value {
            Value::String(text) if is_identifier(key) => {
                self.0.entry(text.trim().to_owned()).or_insert_with(|| key.to_owned());
            }
            Value::Array(list) => list.iter().for_each(|value| self.add(key, value)),
            Value::Object(keys) => {
                // In the list of identifiers the kind says what the value is.
                if let (Some(kind), Some(value)) =
                    (keys.get("kind").and_then(Value::as_str), keys.get("value"))
                {
                    self.add(kind, value);
                }
                keys.iter().for_each(|(key, value)| self.add(key, value));
            }
            _ => {}
        }
    }

    /// The identifiers that are left in an anonymised tree and the report that was made of it.
    pub(super) fn left_in(&self, recorded: &Recorded, report: &str) -> Vec<Leak> {
        let search = Search::new(self);
        let mut leaks = BTreeSet::new();
        for (path, content) in &recorded.files {
            search.add_to(&mut leaks, path, path.as_bytes());
            search.add_to(&mut leaks, path, content);
        }
        for (path, names) in &recorded.directories {
            search.add_to(&mut leaks, path, path.as_bytes());
            for name in names {
                search.add_to(&mut leaks, path, name.as_bytes());
            }
        }
        for (path, target) in &recorded.links {
            search.add_to(&mut leaks, path, path.as_bytes());
            search.add_to(&mut leaks, path, target.as_bytes());
        }
        for ((_, path), failure) in &recorded.failures {
            search.add_to(&mut leaks, path, path.as_bytes());
            if let Failure::Text(text) = failure {
                search.add_to(&mut leaks, path, text.as_bytes());
            }
        }
        search.add_to(&mut leaks, super::REPORT, report.as_bytes());
        leaks.into_iter().collect()
    }
}

/// Whether the values of a key of the report name one part, port or file system.
fn is_identifier(key: &str) -> bool {
    const KEYS: [&str; 20] = [
        "serial",
        "other_serials",
        "asset_tag",
        "mac",
        "bmc_mac",
        "uuid",
        "uuid_swapped",
        "uuid_raw_hex",
        "smbios_uuid",
        "guid",
        "node_guid",
        "system_image_guid",
        "system_guid_raw_hex",
        "wwn",
        "wwid",
        "eui64",
        "nguid",
        "sas_address",
        "unique_id",
        "duid",
    ];
    KEYS.contains(&key)
        || ["_mac", "_serial", "_asset_tag"].iter().any(|end| key.ends_with(end))
        || ["port_name", "node_name", "fabric_name", "machine_id"].contains(&key)
}

/// UUIDs that say what something is, in lower case.
fn public_uuids(report: &Value, found: &mut BTreeSet<String>) {
    match report {
        Value::Array(list) => list.iter().for_each(|value| public_uuids(value, found)),
        Value::Object(keys) => {
            let public = keys.get("type_uuid").and_then(Value::as_str).map(str::to_lowercase);
            found.extend(public);
            keys.values().for_each(|value| public_uuids(value, found));
        }
        _ => {}
    }
}

/// One spelling of an identifier.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Pattern {
    bytes: Vec<u8>,
    /// Text, whose case does not matter; it is kept in lower case.
    is_text: bool,
    /// Only where no letter or digit is next to it.
    is_word: bool,
}

/// Every spelling of an identifier; none if it is too short or could be a word or a size.
fn patterns(value: &str) -> BTreeSet<Pattern> {
    let mut found = BTreeSet::new();
    let digits = digits(value);
    let is_number = digits.as_deref().is_some_and(is_searched_number);
    if let Some(digits) = digits.as_deref().filter(|_| is_number) {
        in_digits(digits, &mut found);
    }
    // A serial number may be digits alone: then it is written as a text is, too.
    if digits.is_none() || (is_number && digits == Some(value.to_lowercase())) {
        for text in [value].into_iter().chain(wwn::serial_of_wwid(value).as_deref()) {
            in_text(text, &mut found);
        }
    }
    found
}

/// Whether a text is no word and no size: it has a digit, and not only a few digits.
fn is_searched_text(text: &str) -> bool {
    let n_digits = text.bytes().filter(u8::is_ascii_digit).count();
    let is_size = n_digits == text.len() && n_digits <= MAX_PLAIN_DECIMALS;
    text.len() >= MIN_TEXT && text.is_ascii() && n_digits > 0 && !is_size && !is_placeholder(text)
}

/// Whether hexadecimal digits are long enough, and not mostly zeros or ones: as digits, and as bytes,
/// since binary data is full of those.
fn is_searched_number(digits: &str) -> bool {
    let n_distinctive = digits.bytes().filter(|digit| !b"0f".contains(digit)).count();
    let n_distinctive_bytes = bytes_lossy(digits).filter(|byte| !matches!(byte, 0 | 0xff)).count();
    digits.len() >= MIN_DIGITS
        && n_distinctive >= MIN_DISTINCTIVE_DIGITS
        && n_distinctive_bytes >= MIN_DISTINCTIVE_BYTES
}

/// The lower-case digits of a MAC, UUID, WWN or the like in any of its forms.
fn digits(value: &str) -> Option<String> {
    let lower = value.to_lowercase();
    // In a multipath device's UUID a 3 comes before a WWN.
    let bare = match wwn::multipath_id(&lower) {
        Some(id) => id.strip_prefix('3').unwrap_or(id),
        None => wwn::bare(&lower),
    };
    let digits: String = bare.chars().filter(|c| !":-.".contains(*c)).collect();
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hex && digits.len().is_multiple_of(2) && digits.len() >= MIN_DIGITS).then_some(digits)
}

/// A text as it is, with blanks as udev writes them, as hexadecimal digits (in an NVMe's wwid), with 16
/// bits a character in both orders, and with bytes in swapped pairs (ATA).
fn in_text(text: &str, found: &mut BTreeSet<Pattern>) {
    if !is_searched_text(text) {
        return;
    }
    let text = text.to_lowercase();
    let is_word = text.len() < MIN_UNBOUNDED_TEXT;
    let mut add = |bytes: Vec<u8>, is_word| {
        found.insert(Pattern { bytes, is_text: true, is_word });
    };
    add(text.replace(' ', "_").into(), is_word);
    add(text.clone().into(), is_word);
    add(utf16::encode(&text), false);
    add(text.encode_utf16().flat_map(u16::to_be_bytes).collect(), false);
    let mut padded = text.clone().into_bytes();
    padded.resize(padded.len().next_multiple_of(2), b' ');
    add(padded.chunks(2).flat_map(|pair| pair.iter().rev().copied()).collect(), false);
    // Digits of the characters as they are: both cases of a letter have digits of their own.
    for text in [text.to_uppercase(), text] {
        add(hex(text.as_bytes()).into(), false);
    }
}

/// A number with every separator, as text of 16 bits a character, and as bytes in every order.
fn in_digits(digits: &str, found: &mut BTreeSet<Pattern>) {
    let bytes: Vec<u8> = bytes_lossy(digits).collect();
    let turned: Vec<u8> = bytes.iter().rev().copied().collect();
    let mut orders = vec![turned];
    match <[u8; 16]>::try_from(bytes.as_slice()) {
        Ok(uuid) => orders.extend(guid::orders(uuid).map(Vec::from)),
        Err(_) => orders.push(bytes),
    }
    for bytes in orders {
        let digits = hex(&bytes);
        for (size, separator) in [
            (2, ""),
            (2, ":"),
            (2, "-"),
            (2, "_"),
            (2, " "),
            (4, ":"),
            (4, "."),
            (4, "-"),
            (8, ":"),
        ] {
            let text = grouped(&digits, size, separator);
            found.insert(Pattern { bytes: text.into(), is_text: true, is_word: false });
        }
        found.insert(Pattern { bytes: guid::uuid(&bytes).into(), is_text: true, is_word: false });
        found.insert(Pattern { bytes: utf16::encode(&digits), is_text: true, is_word: false });
        let n_distinctive = bytes.iter().filter(|byte| !matches!(byte, 0 | 0xff)).count();
        if n_distinctive >= MIN_DISTINCTIVE_BYTES {
            found.insert(Pattern { bytes, is_text: false, is_word: false });
        }
    }
}

/// All spellings of all identifiers.
struct Search<'a> {
    patterns: Vec<(Pattern, &'a str)>,
    /// Indices into `patterns` by their first bytes: of text, and of bytes.
    index: [HashMap<[u8; KEY_BYTES], Vec<usize>>; 2],
}

impl<'a> Search<'a> {
    fn new(identifiers: &'a Identifiers) -> Search<'a> {
        let all = identifiers.0.iter().flat_map(|(value, key)| {
            patterns(value).into_iter().map(|pattern| (pattern, key.as_str()))
        });
        let mut search =
            Search { patterns: all.collect(), index: [HashMap::new(), HashMap::new()] };
        for (at, (pattern, _)) in search.patterns.iter().enumerate() {
            let [text, binary] = &mut search.index;
            let index = if pattern.is_text { text } else { binary };
            if let Some(key) = pattern.bytes.first_chunk() {
                index.entry(*key).or_default().push(at);
            }
        }
        search
    }

    /// Adds what `content`, the content or name of what is at `path`, still contains.
    fn add_to(&self, leaks: &mut BTreeSet<Leak>, path: &str, content: &[u8]) {
        let lower = content.to_ascii_lowercase();
        for (content, index) in [(lower.as_slice(), &self.index[0]), (content, &self.index[1])] {
            for (at, key) in content.windows(KEY_BYTES).enumerate() {
                let Some(candidates) = key.first_chunk().and_then(|key| index.get(key)) else {
                    continue;
                };
                let found = candidates.iter().filter_map(|at| self.patterns.get(*at));
                for (_, key) in found.filter(|(pattern, _)| pattern.is_at(content, at)) {
                    let path = self.without_identifiers(path);
                    leaks.insert(Leak { key: (*key).to_owned(), path });
                }
            }
        }
    }

    /// A path for a message, in which each spelling of an identifier is left out.
    fn without_identifiers(&self, path: &str) -> String {
        let mut path = path.to_owned();
        for (pattern, _) in self.patterns.iter().filter(|(pattern, _)| pattern.is_text) {
            let Ok(text) = std::str::from_utf8(&pattern.bytes) else { continue };
            while let Some(at) = path.to_ascii_lowercase().find(text) {
                path.replace_range(at..at + text.len(), "…");
            }
        }
        path
    }
}

impl Pattern {
    fn is_at(&self, content: &[u8], at: usize) -> bool {
        let end = at + self.bytes.len();
        let is_word = |at: usize| content.get(at).is_some_and(u8::is_ascii_alphanumeric);
        let is_bounded = || !at.checked_sub(1).is_some_and(is_word) && !is_word(end);
        content.get(at..end) == Some(self.bytes.as_slice()) && (!self.is_word || is_bounded())
    }
}

#[cfg(test)]
mod tests;
