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
use formats::wwn;
use probes::dmi::{is_known_duplicate, is_placeholder};
use probes::machine::{Failure, Recorded};
use serde_json::Value;

use super::anonymize::spelling::{self, Edge, MIN_DISTINCTIVE_BYTES, Scope, Spelling};
use super::each_text;

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
        let mut found = BTreeMap::new();
        // UUIDs with a public meaning.
        let mut public = BTreeSet::new();
        each_text("", report, &mut |key, text| {
            if is_identifier(key) {
                found.entry(text.trim().to_owned()).or_insert_with(|| key.to_owned());
            } else if key == "type_uuid" {
                public.insert(text.to_lowercase());
            }
        });
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
        found.retain(|value, _| names_something(value));
        Identifiers(found)
    }

    /// Returns the identifiers left in an anonymised tree and the report from it.
    ///
    /// # Errors
    /// If there are more spellings than one search can have.
    pub(super) fn left_in(&self, recorded: &Recorded, report: &str) -> anyhow::Result<Vec<Leak>> {
        let search = Search::new(self)?;
        let mut leaks = BTreeSet::new();
        let files = recorded.files.iter().map(|(path, content)| (path, vec![content.as_slice()]));
        let folders = recorded.directories.iter();
        let folders = folders.map(|(path, all)| (path, all.iter().map(String::as_bytes).collect()));
        let links = recorded.links.iter().map(|(path, target)| (path, vec![target.as_bytes()]));
        let failures = recorded.failures.iter().map(|((_, path), failure)| match failure {
            Failure::Text(text) => (path, vec![text.as_bytes()]),
            Failure::Code(_) => (path, Vec::new()),
        });
        for (path, contents) in files.chain(folders).chain(links).chain(failures) {
            let all = contents.into_iter().chain([path.as_bytes()]);
            all.for_each(|content| search.add_to(&mut leaks, path, content));
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
    found: AhoCorasick,
    /// Each spelling with its identifier's key.
    spellings: Vec<(Spelling, &'a str)>,
}

impl<'a> Search<'a> {
    fn new(identifiers: &'a Identifiers) -> anyhow::Result<Search<'a>> {
        let mut known = HashSet::new();
        let all = identifiers.0.iter().flat_map(|(value, key)| {
            spellings(value).into_iter().map(|spelling| (spelling, key.as_str()))
        });
        let identity =
            |spelling: &Spelling| (spelling.bytes.clone(), spelling.edge, spelling.is_text);
        let all: Vec<_> = all.filter(|(spelling, _)| known.insert(identity(spelling))).collect();
        let found = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .build(all.iter().map(|(spelling, _)| &spelling.bytes))
            .context("building the search for identifiers")?;
        Ok(Search { found, spellings: all })
    }

    /// Returns where a spelling occurs in `content`, and the identifier's key. Only text is found in any case.
    fn find(&self, content: &[u8]) -> impl Iterator<Item = (Range<usize>, &Spelling, &'a str)> {
        self.found.find_overlapping_iter(content).filter_map(move |found| {
            let (spelling, key) = self.spellings.get(found.pattern().as_usize())?;
            let is_equal = spelling.is_text || content.get(found.range()) == Some(&spelling.bytes);
            is_equal.then_some((found.range(), spelling, *key))
        })
    }

    /// Adds the identifiers that remain in `content`, which is the content or name of the file at `path`.
    fn add_to(&self, leaks: &mut BTreeSet<Leak>, path: &str, content: &[u8]) {
        let is_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        for (span, spelling, key) in self.find(content) {
            let before = span.start.checked_sub(1).and_then(|at| content.get(at));
            if spelling.edge == Edge::Any || !is_word(before) && !is_word(content.get(span.end)) {
                leaks.insert(Leak { key: key.to_owned(), path: self.without_identifiers(path) });
            }
        }
    }

    /// Returns a path for a message, without any spelling of an identifier.
    fn without_identifiers(&self, path: &str) -> String {
        let mut is_secret = vec![false; path.len()];
        self.find(path.as_bytes()).for_each(|(span, ..)| is_secret[span].fill(true));
        let mut shown = String::new();
        for (at, c) in path.char_indices() {
            match is_secret[at] {
                false => shown.push(c),
                true if shown.ends_with('…') => {}
                true => shown.push('…'),
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests;
