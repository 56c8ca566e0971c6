//! The last check of an anonymised capture: it searches every name and content for every identifier
//! from the original report, in every spelling. A remaining one is an error, and no file is written.
//!
//! The check does not depend on the replacement method, so a format that the anonymiser does not know
//! cannot leak silently. It skips values that could be a word or a size ([`is_searched_text`],
//! [`is_searched_number`]), because those occur by chance.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use aho_corasick::AhoCorasick;
use anyhow::Context as _;
use formats::hex::bytes_lossy;
use formats::{Edit, splice, wwn};
use probes::dmi::{is_known_duplicate, is_placeholder};
use probes::machine::{Failure, Recorded};
use serde_json::Value;

use super::anonymize::spelling::{self, Edge, MIN_DISTINCTIVE_BYTES, Scope, Spelling};

/// A serial number with fewer characters occurs by chance.
const MIN_TEXT: usize = 6;
/// Fewer hexadecimal digits occur by chance: a MAC has 12.
const MIN_DIGITS: usize = 12;
/// A number with fewer digits other than 0 and f occurs by chance.
const MIN_DISTINCTIVE_DIGITS: usize = 3;
/// A number of up to this many decimal digits may be a size or a time.
const MAX_PLAIN_DECIMALS: usize = 9;

/// An identifier left in a capture.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Leak {
    /// The report key of the value, e.g. `serial`.
    pub(super) key: String,
    /// The file or name that contains it, without the identifier.
    pub(super) path: String,
}

/// A report's identifiers, by value, each with the key under which it was found first.
#[derive(Debug, Default)]
pub(super) struct Identifiers(BTreeMap<String, String>);

impl Identifiers {
    /// Collects everything in `report` that identifies one part, port or file system and cannot occur by chance.
    /// `recorded` is the original: a serial number that is also a path component there (a USB root hub has
    /// its controller's PCI address) identifies nothing.
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
                && !spellings(value).is_empty()
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

    /// Returns the identifiers left in an anonymised tree and the report from it.
    ///
    /// # Errors
    /// If there are more spellings than one search can have.
    pub(super) fn left_in(&self, recorded: &Recorded, report: &str) -> anyhow::Result<Vec<Leak>> {
        let search = Search::new(self)?;
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
        Ok(leaks.into_iter().collect())
    }
}

/// Returns true if the values of this report key identify one part, port or file system.
fn is_identifier(key: &str) -> bool {
    const KEYS: &str = "serial other_serials asset_tag mac bmc_mac uuid uuid_swapped uuid_raw_hex smbios_uuid guid \
         node_guid system_image_guid system_guid_raw_hex wwn wwid eui64 nguid sas_address unique_id duid port_name \
         node_name fabric_name machine_id";
    KEYS.split(' ').any(|known| known == key)
        || ["_mac", "_serial", "_asset_tag"].iter().any(|end| key.ends_with(end))
}

/// Collects UUIDs with a public meaning, in lower case.
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

/// Returns every spelling of an identifier; none if it is too short or could be a word or a size.
fn spellings(value: &str) -> Vec<Spelling> {
    let mut found = Vec::new();
    let digits = digits(value);
    let is_number = digits.as_deref().is_some_and(is_searched_number);
    if let Some(digits) = digits.as_deref().filter(|_| is_number) {
        found.extend(spelling::number(digits));
    }
    // A serial number may be digits alone: then it is written as a text is, too.
    if digits.is_none() || (is_number && digits == Some(value.to_lowercase())) {
        let serial = wwn::serial_of_wwid(value);
        let texts = [value].into_iter().chain(serial.as_deref());
        for text in texts.filter(|text| is_searched_text(text)) {
            found.extend(spelling::text(text, spelling::text_edge(text), Scope::Everywhere));
        }
    }
    found.retain(|spelling| spelling.scope == Scope::Everywhere);
    found
}

/// Returns true if a text is neither a word nor a size: it has a digit, and more than a few digits.
fn is_searched_text(text: &str) -> bool {
    let n_digits = text.bytes().filter(u8::is_ascii_digit).count();
    let is_size = n_digits == text.len() && n_digits <= MAX_PLAIN_DECIMALS;
    text.len() >= MIN_TEXT && text.is_ascii() && n_digits > 0 && !is_size && !is_placeholder(text)
}

/// Returns true if hexadecimal digits are long enough, and not mostly zeros or ones: as digits, and as bytes,
/// since binary data is full of those.
fn is_searched_number(digits: &str) -> bool {
    let n_distinctive = digits.bytes().filter(|digit| !b"0f".contains(digit)).count();
    let n_distinctive_bytes = bytes_lossy(digits).filter(|byte| !matches!(byte, 0 | 0xff)).count();
    digits.len() >= MIN_DIGITS
        && n_distinctive >= MIN_DISTINCTIVE_DIGITS
        && n_distinctive_bytes >= MIN_DISTINCTIVE_BYTES
}

/// Returns the lower-case digits of a MAC, UUID, WWN or similar in any form.
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

/// All spellings for all identifiers.
struct Search<'a> {
    /// Text in any case, and bytes.
    halves: [Half<'a>; 2],
}

struct Half<'a> {
    found: AhoCorasick,
    /// Each spelling with its identifier's key.
    spellings: Vec<(Spelling, &'a str)>,
}

impl<'a> Search<'a> {
    fn new(identifiers: &'a Identifiers) -> anyhow::Result<Search<'a>> {
        let half = |is_text: bool| -> anyhow::Result<Half<'a>> {
            let mut known = HashSet::new();
            let mut all = Vec::new();
            for (value, key) in &identifiers.0 {
                let of_half = spellings(value).into_iter().filter(|s| s.is_text == is_text);
                for spelling in of_half {
                    if known.insert((spelling.bytes.clone(), spelling.edge)) {
                        all.push((spelling, key.as_str()));
                    }
                }
            }
            let found = AhoCorasick::builder()
                .ascii_case_insensitive(is_text)
                .build(all.iter().map(|(spelling, _)| &spelling.bytes))
                .context("building the search for identifiers")?;
            Ok(Half { found, spellings: all })
        };
        Ok(Search { halves: [half(true)?, half(false)?] })
    }

    /// Adds the identifiers that remain in `content`, which is the content or name of the file at `path`.
    fn add_to(&self, leaks: &mut BTreeSet<Leak>, path: &str, content: &[u8]) {
        for half in &self.halves {
            for found in half.found.find_overlapping_iter(content) {
                let Some((spelling, key)) = half.spellings.get(found.pattern().as_usize()) else {
                    continue;
                };
                let is_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
                let before = found.start().checked_sub(1).and_then(|at| content.get(at));
                let is_part = is_word(before) || is_word(content.get(found.end()));
                if spelling.edge == Edge::Any || !is_part {
                    let path = self.without_identifiers(path);
                    leaks.insert(Leak { key: (*key).to_owned(), path });
                }
            }
        }
    }

    /// Returns a path for a message, without any spelling of an identifier.
    fn without_identifiers(&self, path: &str) -> String {
        let [text, _] = &self.halves;
        let found = text.found.find_overlapping_iter(path);
        let mut spans: Vec<Range<usize>> = found.map(|found| found.range()).collect();
        spans.sort_by_key(|span| span.start);
        spans.dedup_by(|next, span| {
            let is_overlapping = next.start < span.end;
            if is_overlapping {
                span.end = span.end.max(next.end);
            }
            is_overlapping
        });
        let edits = spans.into_iter().map(|span| (span, "…".into()));
        let path = splice(path.as_bytes(), 0, &edits.collect::<Vec<Edit>>());
        String::from_utf8_lossy(&path).into_owned()
    }
}

#[cfg(test)]
mod tests;
