//! Replaces many values at once; at each position the longest match wins.

use std::cmp::Reverse;
use std::collections::HashSet;

use aho_corasick::AhoCorasick;
use anyhow::Context as _;
use formats::{Edit, splice};

use super::pseudonym::Pseudonyms;
use super::secret::Secrets;
use super::sources;
use super::spelling::{self, Edge, Scope, Spelling};

/// Shorter values occur everywhere by chance.
const MIN_BYTES: usize = 4;

/// The kind of a file, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub(in crate::capture) struct Place {
    kind: Kind,
    /// True if it contains identities rather than words and sizes.
    is_identity: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    /// A file of udev's database, or a lease: words and numbers of every kind.
    Udev,
    Binary,
    Kernel,
    Bmc,
    Disk,
    Smbios,
    /// A path component that the kernel named.
    Name,
}

impl Place {
    /// A message, or a path component that udev derived from identities.
    pub(in crate::capture) const MESSAGE: Place = Place { kind: Kind::Text, is_identity: false };
    const NAME: Place = Place { kind: Kind::Name, is_identity: false };

    pub(super) fn of(path: &str, content: &[u8]) -> Place {
        const IDENTITIES: &str = "serial uuid wwid wwn asset_tag hostname machine-id guid nqn DMI vpd_pg unique_id \
             hosts resolv.conf";
        let name = path.rsplit('/').next().unwrap_or_default();
        let kind = match path.strip_prefix("kernel/") {
            Some(question) if question.starts_with("disk/") => Kind::Disk,
            Some(question) if question.starts_with("ipmi/") && question.contains("/lan/") => {
                Kind::Bmc
            }
            // Lines of the kernel log, and of that of a crash.
            Some("kmsg" | "pstore") => Kind::Text,
            Some(_) => Kind::Kernel,
            None if path == "sys/firmware/dmi/tables/DMI" => Kind::Smbios,
            None if content.contains(&0) || std::str::from_utf8(content).is_err() => Kind::Binary,
            None if path.starts_with("run/udev/") || sources::is_lease(path) => Kind::Udev,
            None => Kind::Text,
        };
        let is_kernel = matches!(kind, Kind::Kernel | Kind::Bmc | Kind::Disk);
        let is_identity = is_kernel
            || kind == Kind::Udev
            || IDENTITIES.split(' ').any(|word| name.contains(word));
        Place { kind, is_identity }
    }

    fn is_in(self, scope: Scope) -> bool {
        match scope {
            Scope::Everywhere => true,
            Scope::Text => matches!(self.kind, Kind::Text | Kind::Udev | Kind::Name),
            Scope::Contents => self.kind != Kind::Name,
            Scope::Smbios => self.kind == Kind::Smbios,
            Scope::Kernel => matches!(self.kind, Kind::Kernel | Kind::Bmc | Kind::Disk),
            Scope::Bmc => self.kind == Kind::Bmc,
            Scope::Disks => self.kind == Kind::Disk,
            Scope::Nowhere => false,
        }
    }
}

/// All spellings of all secrets, each with its replacement.
#[derive(Debug)]
pub(super) struct Table {
    pairs: Vec<(Spelling, Vec<u8>)>,
    search: AhoCorasick,
}

impl Table {
    /// # Errors
    /// If there are more spellings than one search can have.
    pub(super) fn new(secrets: &Secrets, names: &mut Pseudonyms) -> anyhow::Result<Table> {
        let mut known = HashSet::new();
        let mut pairs = Vec::new();
        for secret in &secrets.all {
            let put = spelling::of(&names.of(secret, secrets)).into_iter();
            for (from, put) in spelling::of(secret).into_iter().zip(put) {
                let is_searched = from.scope != Scope::Nowhere && from.bytes.len() >= MIN_BYTES;
                if is_searched && known.insert((from.bytes.clone(), from.edge, from.scope)) {
                    pairs.push((from, put.bytes));
                }
            }
        }
        let search = AhoCorasick::new(pairs.iter().map(|(from, _)| &from.bytes));
        Ok(Table { search: search.context("building the search for identifiers")?, pairs })
    }

    /// Replaces the secrets in a message or line.
    pub(super) fn in_text(&self, text: &str) -> String {
        self.in_part(Place::MESSAGE, text)
    }

    /// Replaces the secrets in a path. A host name, or a serial number that could be a word, is
    /// replaced only in the parts that udev derives from identities: the kernel uses `node0` too.
    pub(super) fn in_path(&self, path: &str) -> String {
        let place = |part| if is_made_name(part) { Place::MESSAGE } else { Place::NAME };
        let parts = path.split('/').map(|part| self.in_part(place(part), part));
        parts.collect::<Vec<String>>().join("/")
    }

    fn in_part(&self, place: Place, text: &str) -> String {
        let put = self.apply(place, text.as_bytes());
        String::from_utf8(put).unwrap_or_else(|_| text.to_owned())
    }

    /// Replaces the secrets in a content.
    pub(super) fn apply(&self, place: Place, content: &[u8]) -> Vec<u8> {
        let found = self.search.find_overlapping_iter(content).filter_map(|found| {
            let index = found.pattern().as_usize();
            let (from, put) = self.pairs.get(index)?;
            let is_found = is_at(from, place, content, found.start());
            is_found.then_some((found.start(), Reverse(from.bytes.len()), index, put))
        });
        let mut found: Vec<_> = found.collect();
        found.sort_unstable();
        let edits = found.into_iter().map(|(at, Reverse(n), _, put)| (at..at + n, put.clone()));
        splice(content, 0, &edits.collect::<Vec<Edit>>())
    }
}

/// Returns true if a value may occur at the position where its spelling was found.
pub(in crate::capture) fn is_at(from: &Spelling, place: Place, content: &[u8], at: usize) -> bool {
    if !place.is_in(from.scope) {
        return false;
    }
    let end = at + from.bytes.len();
    let before = at.checked_sub(1).and_then(|at| content.get(at)).copied();
    let (next, second) = (content.get(end).copied(), content.get(end + 1).copied());
    let is_word = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    match from.edge {
        Edge::Any => true,
        Edge::Word => !is_word(before) && !is_word(next),
        Edge::Field => {
            let is_number = from.bytes.iter().all(u8::is_ascii_digit);
            let named = || {
                let line = content.get(..at).unwrap_or_default();
                [&b"_"[..], b"SERIAL=", b"SHORT="].iter().any(|name| line.ends_with(name))
            };
            place.is_identity
                && !is_word(before)
                && !is_word(next)
                && (place.kind != Kind::Udev || !is_number || named())
        }
        Edge::Address => {
            let has_colons = from.bytes.contains(&b':');
            let goes_on = |byte: Option<u8>| is_word(byte) || byte == Some(b':');
            let is_dotted = next == Some(b'.') && second.is_some_and(|b| b.is_ascii_digit());
            let is_port = next == Some(b':') && !has_colons;
            !goes_on(before.filter(|byte| *byte != b':' || has_colons))
                && before != Some(b'.')
                && (!goes_on(next) || is_port)
                && !is_dotted
        }
    }
}

/// Returns true if udev derived this path component from a disk's or port's identity.
fn is_made_name(part: &str) -> bool {
    const STARTS: &str = "ata- scsi- nvme- usb- wwn- md- mmc- virtio- ip- pci- dm-name- dm-uuid- lvm- ieee1394- mpath";
    STARTS.split(' ').any(|start| part.starts_with(start))
}
