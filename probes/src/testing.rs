//! Small trees for tests: files and links given as text, which a `Machine` reads like any capture.

use std::sync::Arc;

#[path = "../../formats/src/testing.rs"]
pub(crate) mod bytes;

use crate::machine::{Archive, Machine, Node, Source};

/// A machine with the given files by path. A single line gets a newline, as the kernel writes it; content
/// that starts with `-> ` is a symbolic link.
pub(crate) fn tree(files: &[(&str, &str)]) -> Machine {
    tree_from(files)
}

/// As [`tree`], for paths and texts that a test composes.
pub(crate) fn tree_from<P: AsRef<str>, C: AsRef<str>>(files: &[(P, C)]) -> Machine {
    tree_from_bytes(&ended(files))
}

/// The source of a [`tree`].
pub(crate) fn source(files: &[(&str, &str)]) -> Arc<Source> {
    Arc::new(Source::unpacked(archive(&ended(files))))
}

/// As [`tree`], for binary files.
pub(crate) fn tree_of_bytes(files: &[(&str, &[u8])]) -> Machine {
    tree_from_bytes(files)
}

/// As [`tree_of_bytes`], for paths and contents that a test composes.
pub(crate) fn tree_from_bytes<P: AsRef<str>, C: AsRef<[u8]>>(files: &[(P, C)]) -> Machine {
    Machine::new(Arc::new(Source::unpacked(archive(files))), "test")
}

/// The machine's problems: path and what was found.
pub(crate) fn problems(machine: &Machine) -> Vec<String> {
    machine.problems().into_iter().map(|p| format!("{}: {}", p.path, p.found)).collect()
}

/// Asserts that `value` has these facts in the report, by key or path (`disks/0/name`); null means that it lacks one.
#[track_caller]
pub(crate) fn has(value: &impl serde::Serialize, facts: &serde_json::Value) {
    let value = serde_json::to_value(value).unwrap();
    for (key, fact) in facts.as_object().unwrap() {
        let found = value.pointer(&format!("/{key}")).unwrap_or(&serde_json::Value::Null);
        assert_eq!(found, fact, "{key} of {value:#}");
    }
}

fn ended<P: AsRef<str>, C: AsRef<str>>(files: &[(P, C)]) -> Vec<(&str, String)> {
    let ended = |content: &str| match content {
        _ if content.starts_with("-> ") || content.contains('\n') => content.to_owned(),
        _ => format!("{content}\n"),
    };
    files.iter().map(|(path, content)| (path.as_ref(), ended(content.as_ref()))).collect()
}

fn archive<P: AsRef<str>, C: AsRef<[u8]>>(files: &[(P, C)]) -> Archive {
    let mut archive = Archive::default();
    for (path, content) in files {
        let node = match content.as_ref().strip_prefix(b"-> ") {
            Some(target) => Node::Link(String::from_utf8_lossy(target).into_owned()),
            None => Node::File(content.as_ref().into()),
        };
        archive.set(path.as_ref(), Some(node));
    }
    archive
}
