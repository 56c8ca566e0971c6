//! Small trees for tests: files and links given as text, which a `Machine` reads like any capture.

use std::sync::Arc;

#[path = "../../formats/src/testing.rs"]
pub(crate) mod bytes;

use crate::machine::{Archive, Machine, Node, Source};

/// A machine with the given files by path. A single line gets a newline, as the kernel writes it; content
/// that starts with `-> ` is a symbolic link.
pub(crate) fn tree(files: &[(&str, &str)]) -> Machine {
    tree_of_bytes(&as_bytes(&ended(files)))
}

/// The source of a [`tree`].
pub(crate) fn source(files: &[(&str, &str)]) -> Arc<Source> {
    Arc::new(Source::unpacked(archive(&as_bytes(&ended(files)))))
}

/// As [`tree`], for binary files.
pub(crate) fn tree_of_bytes(files: &[(&str, &[u8])]) -> Machine {
    Machine::new(Arc::new(Source::unpacked(archive(files))), "test")
}

/// As [`tree_of_bytes`], for files made at run time.
pub(crate) fn tree_of<P: AsRef<str>, B: AsRef<[u8]>>(files: &[(P, B)]) -> Machine {
    let files: Vec<(&str, &[u8])> = files.iter().map(|(p, b)| (p.as_ref(), b.as_ref())).collect();
    tree_of_bytes(&files)
}

/// The machine's problems: path and what was found.
pub(crate) fn problems(machine: &Machine) -> Vec<String> {
    machine.problems().into_iter().map(|p| format!("{}: {}", p.path, p.found)).collect()
}

/// Asserts that `value` has these facts in the report; null means that it lacks one.
#[track_caller]
pub(crate) fn has(value: &impl serde::Serialize, facts: &serde_json::Value) {
    let value = serde_json::to_value(value).unwrap();
    for (key, fact) in facts.as_object().unwrap() {
        assert_eq!(value.get(key).unwrap_or(&serde_json::Value::Null), fact, "{key} of {value:#}");
    }
}

fn ended<'a>(files: &[(&'a str, &str)]) -> Vec<(&'a str, String)> {
    let ended = |content: &str| match content {
        _ if content.starts_with("-> ") || content.contains('\n') => content.to_owned(),
        _ => format!("{content}\n"),
    };
    files.iter().map(|(path, content)| (*path, ended(content))).collect()
}

fn as_bytes<'a>(files: &'a [(&'a str, String)]) -> Vec<(&'a str, &'a [u8])> {
    files.iter().map(|(path, content)| (*path, content.as_bytes())).collect()
}

fn archive(files: &[(&str, &[u8])]) -> Archive {
    let mut archive = Archive::default();
    for (path, content) in files {
        let node = match content.strip_prefix(b"-> ") {
            Some(target) => Node::Link(String::from_utf8_lossy(target).into_owned()),
            None => Node::File((*content).into()),
        };
        archive.set(path, Some(node));
    }
    archive
}
