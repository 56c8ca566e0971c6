//! `capture --anonymize`: replaces what names one machine, its disks, its network and its owner.
//!
//! First everything secret is collected: the values of the report whose keys say what they are, and
//! what has the form of a MAC, a UUID, a WWN or an address anywhere in the capture. Each secret gets
//! one replacement of the same shape, drawn with a random key that is then forgotten. Then every form
//! in which the secret can occur (upper and lower case, with and without separators, as bytes in
//! either order, as text of 16 bits) is replaced everywhere, in contents as in names.
//!
//! What may look like anything, as a password or four bytes of an address, is replaced at the places
//! where it is: on the command line, in EFI variables, LLDP frames, SMBIOS, FRU memories, lists of routes,
//! mount tables, and the first and last sectors of disks.

mod by_form;
mod collect;
mod disks;
mod efi;
mod fields;
mod forms;
mod ipv4;
mod lvm;
mod pseudonym;
mod replace;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;

use anyhow::Context as _;
use probes::machine::{Failure, Recorded};
use serde_json::Value;

use collect::Secrets;
use pseudonym::Pseudonyms;
use replace::{Place, Table};

/// Where the kernel's random numbers come from.
const RANDOM: &str = "/dev/urandom";

/// A copy of `recorded` without what identifies the machine that `report` describes.
///
/// # Errors
/// If there are no random numbers.
pub(super) fn anonymize(recorded: &Recorded, report: &Value) -> anyhow::Result<Recorded> {
    let mut key = [0; 32];
    File::open(RANDOM)
        .and_then(|mut file| file.read_exact(&mut key))
        .with_context(|| format!("reading {RANDOM}"))?;
    Ok(with_key(key, recorded, report))
}

fn with_key(key: [u8; 32], recorded: &Recorded, report: &Value) -> Recorded {
    let secrets = Secrets::of(recorded, report);
    let mut names = Pseudonyms::new(key, &secrets);
    let table = Table::new(&secrets, &mut names);
    let path = |path: &str| table.in_path(path);
    let text = |text: &str| table.in_text(text);
    let mut files: BTreeMap<String, Vec<u8>> = recorded
        .files
        .iter()
        .map(|(name, content)| (path(name), file(name, content, &secrets, &table, &mut names)))
        .collect();
    disks::reseal(&recorded.files, &mut files, path);
    let failure = |failure: &Failure| match failure {
        Failure::Text(found) => Failure::Text(text(found)),
        Failure::Code(code) => Failure::Code(*code),
    };
    Recorded {
        files,
        directories: recorded
            .directories
            .iter()
            .map(|(name, names)| (path(name), names.iter().map(|name| path(name)).collect()))
            .collect(),
        links: recorded.links.iter().map(|(name, to)| (path(name), path(to))).collect(),
        failures: recorded
            .failures
            .iter()
            .map(|((operation, name), found)| ((*operation, path(name)), failure(found)))
            .collect(),
        first_paths: BTreeMap::new(),
    }
}

/// The content of one file without secrets.
fn file(
    path: &str,
    original: &[u8],
    secrets: &Secrets,
    table: &Table,
    names: &mut Pseudonyms,
) -> Vec<u8> {
    let mut content = original.to_vec();
    if path.ends_with("/environ") {
        // Passwords are given in the environment; whether this is a container is all that is read.
        let variables = content.split(|byte| *byte == 0);
        let kept: Vec<&[u8]> = variables.filter(|v| v.starts_with(b"container=")).collect();
        return kept.join(&0);
    }
    fields::rewrite(path, &mut content, secrets, names);
    let changed = efi::rewrite(path, &content, secrets, table, names);
    let content = changed.unwrap_or(content);
    let mut content = match std::str::from_utf8(&content) {
        Ok(text) if path == "proc/cmdline" => line(text, secrets, table, names).into_bytes(),
        _ => table.apply(Place::of(path, &content), &content),
    };
    fields::reseal(path, original, &mut content);
    content
}

/// Arguments of a kernel, or a URL, without secrets.
fn line(line: &str, secrets: &Secrets, table: &Table, names: &mut Pseudonyms) -> String {
    table.in_text(&fields::rewrite_line(line, secrets, names))
}

#[cfg(test)]
mod tests;
