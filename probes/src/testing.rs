//! Small trees for tests: files and links given as text, which a `Machine` reads like any capture.

use std::sync::Arc;

#[path = "../../formats/src/testing.rs"]
pub(crate) mod bytes;

use crate::machine::{Archive, Machine, Node, Source};
pub(crate) use bytes::has;

/// A machine with the given files by path. A single line gets a newline, as the kernel writes it; content
/// that starts with `-> ` is a symbolic link.
pub(crate) fn tree(files: &[(&str, &str)]) -> Machine {
    tree_from(files)
}

/// As [`tree`], for paths and texts that a test composes.
pub(crate) fn tree_from<P: AsRef<str>, C: AsRef<str>>(files: &[(P, C)]) -> Machine {
    tree_from_bytes(&ended(files))
}

/// As [`tree`], by directory and by name within it.
pub(crate) fn tree_in(directories: &[(&str, &[(&str, &str)])]) -> Machine {
    tree_from(&files_in(directories))
}

/// The files of a [`tree_in`], by path.
pub(crate) fn files_in<'a>(directories: &[(&str, &[(&str, &'a str)])]) -> Vec<(String, &'a str)> {
    let below = directories.iter().flat_map(|(directory, files)| {
        files.iter().map(move |(name, text)| (format!("{directory}/{name}"), *text))
    });
    below.collect()
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

/// Disks of each transport, as paths in `sys/devices`.
pub(crate) const SAS: &str =
    "pci0000:3a/0000:3b:00.0/host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0/block/sda";
pub(crate) const SATA: &str = "pci0000:00/0000:00:1f.2/ata5/host4/target4:0:0/4:0:0:0/block/sda";
pub(crate) const USB: &str =
    "pci0000:00/0000:00:14.0/usb1/1-7/1-7:1.0/host6/target6:0:0/6:0:0:0/block/sda";

/// A machine with a disk at `path` in `sys/devices`. A file is the disk's, unless its path begins at the root.
pub(crate) fn disk_at<P: AsRef<str>, C: AsRef<[u8]>>(path: &str, files: &[(P, C)]) -> Machine {
    let (_, name) = path.rsplit_once('/').unwrap();
    let link = format!("-> ../devices/{path}");
    let size = format!("sys/devices/{path}/size");
    let mut all: Vec<(String, &[u8])> =
        vec![(format!("sys/block/{name}"), link.as_bytes()), (size, b"8\n")];
    for (file, content) in files.iter().map(|(file, content)| (file.as_ref(), content)) {
        let is_elsewhere = ["kernel/", "sys/"].iter().any(|top| file.starts_with(top));
        let top = if is_elsewhere { String::new() } else { format!("sys/devices/{path}/") };
        all.push((format!("{top}{file}"), content.as_ref()));
    }
    tree_from_bytes(&all)
}

/// The machine's problems: path and what was found.
pub(crate) fn problems(machine: &Machine) -> Vec<String> {
    machine.problems().into_iter().map(|p| format!("{}: {}", p.path, p.found)).collect()
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
