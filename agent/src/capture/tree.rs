//! The content of a capture as a tar: each file at its path in the kernel, each link as it was read.

use std::collections::{BTreeMap, BTreeSet};

use probes::machine::{Failure, Failures, Operation, Recorded, format_failures};

/// Folder for the answers to questions; its presence shows a replay that such answers were kept.
const KERNEL: &str = "kernel";
/// Path in a capture of the failed reads, with their errors; see `probes::machine::Source`.
const ERRORS: &str = "kernel/errors";

/// Packs the capture as a tar, with `more` files in addition. Links are resolved first to
/// their targets, so every file lies where the kernel has it.
///
/// # Errors
/// If a tar cannot hold a name.
pub(super) fn pack(recorded: &Recorded, more: &[(&str, &[u8])]) -> std::io::Result<Vec<u8>> {
    let mut tree = Tree::default();
    for (path, target) in &recorded.links {
        tree.links.insert(place(path, &recorded.links), target.clone());
    }
    for (path, names) in &recorded.directories {
        tree.add_directory(path, names, &recorded.links);
    }
    for (path, content) in &recorded.files {
        tree.files.insert(place_through(path, &recorded.links), content.clone());
    }
    for (path, content) in more {
        tree.files.insert((*path).to_owned(), content.to_vec());
    }
    tree.directories.insert(KERNEL.to_owned());
    let failures = tree.failures_to_keep(recorded);
    if !failures.is_empty() {
        tree.files.insert(ERRORS.to_owned(), format_failures(&failures).into_bytes());
    }
    tree.into_tar()
}

/// The contents of the archive, by path.
#[derive(Debug, Default)]
struct Tree {
    files: BTreeMap<String, Vec<u8>>,
    links: BTreeMap<String, String>,
    directories: BTreeSet<String>,
}

impl Tree {
    /// Keeps a directory's names as they were listed: an entry that was not read becomes an empty
    /// directory, so a replay sees only its name.
    fn add_directory(&mut self, path: &str, names: &[String], links: &BTreeMap<String, String>) {
        let place = place_through(path, links);
        for name in names {
            self.directories.insert(format!("{place}/{name}").trim_start_matches('/').to_owned());
        }
        self.directories.insert(place);
    }

    /// Returns the failed reads that a replay needs: none where it finds nothing either. A listed name
    /// that was gone later, or leads nowhere, would otherwise be an empty directory.
    fn failures_to_keep(&self, recorded: &Recorded) -> Failures {
        let is_known = |path: &str| {
            [place(path, &recorded.links), place_through(path, &recorded.links)]
                .iter()
                .any(|place| self.directories.contains(place) || self.links.contains_key(place))
        };
        let failures = recorded.failures.iter().filter(|((operation, path), failure)| {
            **failure != Failure::ABSENT || (*operation != Operation::Link && is_known(path))
        });
        failures.map(|(key, failure)| (key.clone(), failure.clone())).collect()
    }

    fn into_tar(mut self) -> std::io::Result<Vec<u8>> {
        for taken in self.files.keys().chain(self.links.keys()) {
            self.directories.remove(taken);
        }
        // The root itself needs no entry, and tar allows none without a name. A replay's own list
        // of failures is no part of the machine.
        self.directories.remove("");
        self.directories.remove(ERRORS);
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

/// Returns the path of data read through `path`: links on the way and at its end are followed.
fn place_through(path: &str, links: &BTreeMap<String, String>) -> String {
    place(&format!("{path}/."), links)
}

/// Returns the path of `path` itself: links on the way are followed, one at its end is not.
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

#[cfg(test)]
mod tests {
    use super::*;
    use probes::machine::{Archive, Machine, Source};
    use std::sync::Arc;

    fn map<T: Clone>(pairs: &[(&str, T)]) -> BTreeMap<String, T> {
        pairs.iter().map(|(path, value)| ((*path).to_owned(), value.clone())).collect()
    }

    /// Returns the machine that a replay of `recorded` shows.
    fn replay(recorded: &Recorded) -> Machine {
        let tar = pack(recorded, &[("report.json", b"{}")]).unwrap();
        let archive = Archive::unpack(tar.as_slice()).unwrap();
        Machine::new(Arc::new(Source::unpacked(archive)), "test")
    }

    #[test]
    fn what_was_denied_is_denied_in_the_replay_and_what_was_absent_stays_absent() {
        let failure = |operation, path: &str, failure| ((operation, path.to_owned()), failure);
        let recorded = Recorded {
            directories: map(&[("sys/class/net", vec!["gone".to_owned(), "eno1".to_owned()])]),
            failures: [
                failure(Operation::Read, "sys/secret", Failure::Code(13)),
                failure(Operation::List, "sys/folder", Failure::Code(13)),
                failure(Operation::Link, "sys/link", Failure::Code(13)),
                failure(Operation::Read, "sys/class/net/gone", Failure::ABSENT),
                failure(Operation::Read, "sys/none", Failure::ABSENT),
                failure(Operation::Read, "kernel/ipmi/device_id", Failure::Text("slow".to_owned())),
            ]
            .into(),
            ..Recorded::default()
        };
        let machine = replay(&recorded);
        assert_eq!(machine.list("sys/class/net"), ["eno1", "gone"]);
        assert!(machine.text("sys/class/net/gone").is_none());
        assert!(machine.text("sys/none").is_none() && machine.list("sys/none").is_empty());
        assert_eq!(machine.problems(), [], "absent is no problem");
        assert!(machine.text("sys/secret").is_none() && machine.link("sys/link").is_none());
        assert!(machine.list("sys/folder").is_empty());
        assert!(machine.bytes("kernel/ipmi/device_id").is_none());
        let found: Vec<String> = machine.problems().into_iter().map(|p| p.found).collect();
        assert_eq!(found, ["permission denied", "permission denied", "permission denied", "slow"]);
    }

    #[test]
    fn a_file_that_was_also_asked_for_as_a_directory_keeps_its_content() {
        let not_a_directory = ((Operation::List, "sys/a".to_owned()), Failure::Code(20));
        let recorded = Recorded {
            files: map(&[("sys/a", b"1".to_vec())]),
            failures: [not_a_directory].into(),
            ..Recorded::default()
        };
        let machine = replay(&recorded);
        assert!(machine.list("sys/a").is_empty());
        assert_eq!(machine.text("sys/a").as_deref(), Some("1"));
        assert!(machine.is_dir("kernel"), "a replay knows that answers of the kernel were kept");
    }
}
