//! `capture --anonymize`: replaces everything that identifies a machine, its disks, its network and its owner.
//!
//! First it collects all secrets ([`collect`]): report values by their keys, the fields of each format, and
//! anything in the capture with the form of a MAC, a UUID, a WWN or an address. Each
//! secret gets one replacement of the same shape, drawn with a random key that is then forgotten ([`pseudonym`]). Then
//! every spelling of the secret ([`spelling`]) is replaced everywhere, in contents as in names ([`replace`]).
//!
//! A secret without its own form, such as a password or the four bytes of an address, is a field in a format
//! ([`sources`]) and is replaced in place.

mod collect;
mod disks;
mod ipv4;
mod pseudonym;
pub(super) mod replace;
mod secret;
mod sources;
pub(super) mod spelling;

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::Context as _;
use formats::{Edit, Encoding, Field, Kind, command_line, lvm, splice};
use probes::dmi::is_placeholder;
use probes::machine::{Failure, Recorded};
use serde_json::Value;

use crate::random::{DEVICE, random_bytes};
use pseudonym::Pseudonyms;
use replace::{Place, Table};
use secret::Secrets;
use sources::{ip, latin, turned};

/// Returns a copy of `recorded` without the identifiers of the machine that `report` describes.
///
/// # Errors
/// If there are no random numbers, or too many identifiers.
pub(super) fn anonymize(recorded: &Recorded, report: &Value) -> anyhow::Result<Recorded> {
    let key = random_bytes().with_context(|| format!("reading {DEVICE}"))?;
    with_key(key, recorded, report)
}

fn with_key(key: [u8; 32], recorded: &Recorded, report: &Value) -> anyhow::Result<Recorded> {
    let secrets = collect::secrets(recorded, report);
    let mut names = Pseudonyms::new(key, &secrets);
    let table = Table::new(&secrets, &mut names)?;
    let mut anonymizer = Anonymizer { secrets: &secrets, names, table: &table };
    let path = |path: &String| table.in_path(path);
    let files = recorded.files.iter();
    let mut files: BTreeMap<String, Vec<u8>> =
        files.map(|(name, content)| (path(name), anonymizer.file(name, content))).collect();
    disks::reseal(&recorded.files, &mut files, |path| table.in_path(path));
    let failure = |failure: &Failure| match failure {
        Failure::Text(found) => Failure::Text(table.in_text(found)),
        Failure::Code(code) => Failure::Code(*code),
    };
    let directories = recorded.directories.iter();
    let failures = recorded.failures.iter();
    Ok(Recorded {
        files,
        directories: directories
            .map(|(name, names)| (path(name), names.iter().map(path).collect()))
            .collect(),
        links: recorded.links.iter().map(|(name, to)| (path(name), path(to))).collect(),
        failures: failures
            .map(|((operation, name), found)| ((*operation, path(name)), failure(found)))
            .collect(),
        first_paths: BTreeMap::new(),
    })
}

/// Replaces the secrets of one machine.
struct Anonymizer<'a> {
    secrets: &'a Secrets,
    names: Pseudonyms,
    table: &'a Table,
}

impl Anonymizer<'_> {
    /// Replaces the secrets in the content of one file.
    fn file(&mut self, path: &str, original: &[u8]) -> Vec<u8> {
        if path.ends_with("/environ") {
            // Passwords are given in the environment; whether this is a container is all that is read.
            let variables = original.split(|byte| *byte == 0);
            let kept: Vec<&[u8]> = variables.filter(|v| v.starts_with(b"container=")).collect();
            return kept.join(&0);
        }
        let edit = |field: Field| {
            let put = self.replacement(&field, field.bytes(original))?;
            Some((field.span, put))
        };
        let edits = sources::fields(path, original).into_iter().filter_map(edit).collect();
        let content = sources::edited(path, original, edits);
        let mut content = self.table.apply(Place::of(path, &content), &content);
        sources::reseal(path, original, &mut content);
        content
    }

    /// Returns the replacement of a field that is secret only because of its position. `None` if the table
    /// replaces it, because it replaces the value everywhere.
    fn replacement(&mut self, field: &Field, bytes: &[u8]) -> Option<Vec<u8>> {
        let text = field.encoding.decode(bytes);
        let is_known = match (field.kind, field.encoding) {
            (Kind::Address, Encoding::Bytes) => {
                return Some(to_bytes(self.names.address(ip(bytes)?)));
            }
            (Kind::Serial, Encoding::LittleEndian) => return self.disk_number(bytes),
            (Kind::Arguments, _) => {
                return Some(field.encoding.encode(&self.table.in_text(&self.line(&text?))));
            }
            (Kind::Description | Kind::Identifier, _) => {
                return Some(field.encoding.encode(&self.table.in_text(&text?)));
            }
            (Kind::Serial, Encoding::Text) if lvm::is_id(&latin(bytes)) => {
                return Some(self.lvm_id(&latin(bytes)).into_bytes());
            }
            (Kind::FreeText, _) => {
                !text.as_ref().is_some_and(|text| is_placeholder(text.trim_matches([' ', '\0'])))
            }
            // Here it may be a word, which is not replaced elsewhere.
            (Kind::HostName, Encoding::Text) => self.secrets.has_host(&latin(bytes)),
            (Kind::Serial, Encoding::Text) => self.secrets.has_text(&latin(bytes)),
            (Kind::Secret, _) => true,
            _ => false,
        };
        match text.filter(|_| is_known) {
            Some(text) => Some(field.encoding.encode(&self.text(&text))),
            None => is_known.then(|| self.names.bytes(bytes)),
        }
    }

    /// Replaces the secrets in kernel arguments or a URL by position, since they may be any word.
    fn line(&mut self, line: &str) -> String {
        let fields = command_line::fields(line)
            .into_iter()
            .filter(|field| matches!(field.kind, Kind::Secret | Kind::HostName | Kind::FreeText));
        let edit = |field: Field| {
            let put = self.text(line.get(field.span.clone()).unwrap_or_default());
            (field.span, put.into_bytes())
        };
        let edits: Vec<Edit> = fields.map(edit).collect();
        String::from_utf8(splice(line.as_bytes(), 0, &edits)).unwrap_or_default()
    }

    /// Replaces the words between blanks. A MAC or UUID is replaced as a whole, wherever
    /// it occurs.
    fn text(&mut self, text: &str) -> String {
        let plain = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        match text.split_once(plain) {
            Some((before, after)) if !self.secrets.is_number(plain) => {
                [before, &self.names.text(plain), after].concat()
            }
            _ => text.to_owned(),
        }
    }

    /// Replaces a disk's number, whose four bytes may be anything elsewhere.
    fn disk_number(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let digits = turned(bytes);
        let put = self.secrets.has_digits(&digits).then(|| self.names.digits(&digits))?;
        let number = u32::from_str_radix(&put, 16).ok()?;
        Some(number.to_le_bytes().to_vec())
    }

    /// Replaces an LVM identifier, grouped or not: both forms get the same replacement.
    fn lvm_id(&mut self, id: &str) -> String {
        let put = self.names.text(&id.replace('-', ""));
        if id.contains('-') { lvm::grouped(&put) } else { put }
    }
}

/// Formats an address as it goes over the wire.
fn to_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests;
