//! `capture`: writes what was read to a `tar.zst` that `--root` replays.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context as _;
use probes::machine::{Answer, Recorded};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// Where a capture keeps which reads failed, and how; see `probes::machine::Source`.
const ERRORS: &str = "kernel/errors";

/// Writes `recorded` to `output`.
///
/// # Errors
/// If the file cannot be written.
pub fn write(recorded: &Recorded, output: &Path) -> anyhow::Result<()> {
    let tar = pack(recorded).context("packing the capture")?;
    let packed = compress_to_vec(tar.as_slice(), CompressionLevel::Fastest);
    std::fs::write(output, packed).with_context(|| format!("writing {}", output.display()))
}

/// The capture as a tar: links first resolved to where they lead, so that every file lies where
/// the kernel has it and each link stands as it was read.
fn pack(recorded: &Recorded) -> std::io::Result<Vec<u8>> {
    let mut tree = Tree::default();
    for (path, target) in &recorded.links {
        let place = place(path, &recorded.links);
        tree.links.insert(place, target.clone());
    }
    let mut errors = Vec::new();
    for (path, answer) in &recorded.answers {
        match answer {
            Answer::File(content) => tree.add_file(path, content, &recorded.links),
            Answer::Directory(names) => tree.add_directory(path, names, &recorded.links),
            Answer::Error(code) => errors.push(format!("{code} {path}\n")),
            Answer::Link(_) => {}
        }
    }
    if !errors.is_empty() {
        tree.files.insert(ERRORS.to_owned(), errors.concat().into_bytes());
    }
    tree.into_tar()
}

/// What the archive will hold, by path.
#[derive(Debug, Default)]
struct Tree {
    files: BTreeMap<String, Vec<u8>>,
    links: BTreeMap<String, String>,
    directories: BTreeSet<String>,
}

impl Tree {
    fn add_file(&mut self, path: &str, content: &[u8], links: &BTreeMap<String, String>) {
        self.files.insert(place_through(path, links), content.to_vec());
    }

    /// A directory's names are kept as they were listed: what was not read becomes an empty
    /// directory, which tells a replay its name and nothing else.
    fn add_directory(&mut self, path: &str, names: &[String], links: &BTreeMap<String, String>) {
        let place = place_through(path, links);
        for name in names {
            self.directories.insert(format!("{place}/{name}").trim_start_matches('/').to_owned());
        }
        self.directories.insert(place);
    }

    fn into_tar(mut self) -> std::io::Result<Vec<u8>> {
        for taken in self.files.keys().chain(self.links.keys()) {
            self.directories.remove(taken);
        }
        // The root itself needs no entry, and tar allows none without a name.
        self.directories.remove("");
        self.links.remove("");
        self.files.remove("");
        let mut tar = tar::Builder::new(Vec::new());
        for directory in &self.directories {
            let mut header = header(tar::EntryType::Directory, 0, 0o755);
            tar.append_data(&mut header, directory, std::io::empty())?;
        }
        for (path, target) in &self.links {
            let mut header = header(tar::EntryType::Symlink, 0, 0o777);
            tar.append_link(&mut header, path, target)?;
        }
        for (path, content) in &self.files {
            let mut header = header(tar::EntryType::Regular, content.len() as u64, 0o644);
            tar.append_data(&mut header, path, content.as_slice())?;
        }
        tar.into_inner()
    }
}

/// Where what was read through `path` lies: links on the way and at its end are followed.
fn place_through(path: &str, links: &BTreeMap<String, String>) -> String {
    place(&format!("{path}/."), links)
}

/// Where `path` itself lies: links on the way are followed, one at its end is not.
fn place(path: &str, links: &BTreeMap<String, String>) -> String {
    let mut todo: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
    let mut done: Vec<String> = Vec::new();
    for _ in 0..1000 {
        let Some(part) = todo.pop() else { break };
        match part.as_str() {
            "" | "." => continue,
            ".." => {
                done.pop();
                continue;
            }
            _ => done.push(part),
        }
        if todo.is_empty() {
            break;
        }
        if let Some(target) = links.get(&done.join("/")) {
            done.pop();
            if target.starts_with('/') {
                done.clear();
            }
            todo.extend(target.split('/').rev().map(str::to_owned));
        }
    }
    done.join("/")
}

fn header(kind: tar::EntryType, size: u64, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_mtime(0);
    header
}
