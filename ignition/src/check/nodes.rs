//! Rules of files, directories and links.
//!
//! Sources: Ignition `config/v3_*/types/{node,path,file,directory,mode,storage,config}.go`.

use std::collections::{HashMap, HashSet};

use super::at::At;
use super::findings::Findings;
use crate::read_only;
use crate::text::shown;

/// Longest path that the kernel accepts, in bytes, without the final NUL (`PATH_MAX`, `uapi/linux/limits.h`).
const MAX_PATH_BYTES: usize = 4095;
const KINDS: [&str; 3] = ["directories", "files", "links"];

pub(super) fn rules(root: &At<'_>, findings: &mut Findings) {
    for at in nodes(root).chain(root.each("storage.filesystems.*")) {
        if let Some(warning) = at.str("path").and_then(read_only::warning) {
            findings.warning(&format!("{}.path", at.path), warning);
        }
        for at in ["user", "group"].into_iter().filter_map(|owner| at.get(owner)) {
            if at.int("id").is_some() && at.filled("name").is_some() {
                findings.problem(&at.path, "an id and a name", "only one of them");
            }
        }
        if let Some(mode) = at.int("mode").filter(|mode| !(0..=0o7777).contains(mode)) {
            let expected = "0 to 4095 (octal 7777), in decimal";
            findings.problem(&format!("{}.mode", at.path), mode.to_string(), expected);
        }
    }
    for at in root.each("storage.files.*") {
        let has_source =
            at.get("contents").is_some_and(|contents| contents.get("source").is_some());
        if at.is_true("overwrite") && !has_source {
            let path = format!("{}.overwrite", at.path);
            findings.problem(&path, "true without contents.source", "a source, which may be \"\"");
        }
    }
    let directories: HashSet<&str> = paths(root, "directories").collect();
    for at in root.each("storage.links.*").iter().filter(|at| at.is_true("hard")) {
        if let Some(target) = at.str("target").filter(|target| directories.contains(target)) {
            let found = format!("a hard link to the directory {}", shown(target));
            findings.problem(&at.path, found, "a symbolic link, or a hard link to a file");
        }
    }
    refuse_below(root, findings);
    refuse_unit_files(root, findings);
}

fn nodes<'a>(root: &At<'a>) -> impl Iterator<Item = At<'a>> + use<'a> {
    let root = root.clone();
    KINDS.into_iter().flat_map(move |kind| root.each(&format!("storage.{kind}.*")))
}

fn paths<'a>(root: &At<'a>, kind: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    root.each(&format!("storage.{kind}.*.path")).into_iter().map(|at| at.text())
}

/// The form of a path: absolute, without an empty, `.` or `..` part and without a trailing slash.
pub(super) fn path_form(path: &str) -> Option<&'static str> {
    if !path.starts_with('/') {
        return Some("an absolute path");
    }
    if path.len() > MAX_PATH_BYTES || path.contains('\0') {
        return Some("a path of at most 4095 bytes without NUL");
    }
    let is_clean = path == "/" || path[1..].split('/').all(|part| !["", ".", ".."].contains(&part));
    (!is_clean).then_some("a path without empty, . and .. parts and without a trailing slash")
}

/// The form of a path that may be empty.
pub(super) fn optional_path(path: &str) -> Option<&'static str> {
    if path.is_empty() { None } else { path_form(path) }
}

/// Refuses a node below a link, which could leave the installed system's tree, or below a file.
fn refuse_below(root: &At<'_>, findings: &mut Findings) {
    let links = paths(root, "links").map(|path| (path, "a link"));
    let files = paths(root, "files").map(|path| (path, "a file"));
    let no_parents: HashMap<&str, &str> = files.chain(links).collect();
    for at in nodes(root) {
        let Some(path) = at.str("path").filter(|path| path_form(path).is_none()) else { continue };
        let mut parents = path.match_indices('/').skip(1).map(|(end, _)| &path[..end]);
        if let Some(parent) = parents.find(|parent| no_parents.contains_key(parent)) {
            let found = format!("{} below {}", shown(path), shown(parent));
            let expected =
                format!("another path, since that is {} of this config", no_parents[parent]);
            findings.problem(&format!("{}.path", at.path), found, &expected);
        }
    }
}

/// Refuses a file, directory or link with the path of a unit or drop-in of this config.
fn refuse_unit_files(root: &At<'_>, findings: &mut Findings) {
    let mut unit_files = HashSet::new();
    for unit in root.each("systemd.units.*") {
        let path = format!("/etc/systemd/system/{}", unit.str("name").unwrap_or_default());
        for dropin in unit.items("dropins").filter(|at| at.filled("contents").is_some()) {
            unit_files.insert(format!("{path}.d/{}", dropin.str("name").unwrap_or_default()));
        }
        if unit.filled("contents").is_some() {
            unit_files.insert(path);
        }
    }
    for at in nodes(root).filter_map(|at| at.get("path")) {
        if unit_files.contains(at.text()) {
            findings.bad_text(&at, "a path that no unit of this config has");
        }
    }
}
