//! Small trees for tests: files and links given as text, read through the same door as any capture.

use std::sync::Arc;

#[path = "../../formats/src/testing.rs"]
pub(crate) mod bytes;

use crate::machine::{Archive, Machine, Node, Source};

/// A machine of the given files by path; a single line has its end, as the kernel writes it. A content that
/// starts with `-> ` is a symbolic link.
pub(crate) fn tree(files: &[(&str, &str)]) -> Machine {
    let ended = |content: &str| match content {
        _ if content.starts_with("-> ") || content.contains('\n') => content.to_owned(),
        _ => format!("{content}\n"),
    };
    let files: Vec<(&str, String)> = files.iter().map(|(p, c)| (*p, ended(c))).collect();
    let bytes: Vec<(&str, &[u8])> = files.iter().map(|(p, c)| (*p, c.as_bytes())).collect();
    tree_of_bytes(&bytes)
}

/// As [`tree`], for files that are no text.
pub(crate) fn tree_of_bytes(files: &[(&str, &[u8])]) -> Machine {
    let mut archive = Archive::default();
    for (path, content) in files {
        let node = match content.strip_prefix(b"-> ") {
            Some(target) => Node::Link(String::from_utf8_lossy(target).into_owned()),
            None => Node::File((*content).into()),
        };
        archive.set(path, Some(node));
    }
    Machine::new(Arc::new(Source::unpacked(archive)), "test")
}
