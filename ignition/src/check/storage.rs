//! Rules of files, directories and links.
//!
//! Sources: Ignition `config/v3_*/types/{node,path,file,directory,mode,storage,config}.go`.

use std::collections::{HashMap, HashSet};

use super::at::{At, refuse_duplicates};
use super::findings::Findings;
use super::source;
use crate::read_only;
use crate::text::shown;

/// Longest path that the kernel accepts, in bytes, without the final NUL (`PATH_MAX`, `uapi/linux/limits.h`).
const MAX_PATH_BYTES: usize = 4095;
const KINDS: [&str; 3] = ["directories", "files", "links"];

pub(super) fn rules(storage: &At<'_>, findings: &mut Findings) {
    for kind in KINDS {
        for at in storage.items(kind) {
            node(&at, findings);
        }
    }
    refuse_duplicates(nodes(storage), findings, |at| at.str("path"));
    storage.items("directories").for_each(|at| mode(&at, findings));
    storage.items("files").for_each(|at| file(&at, findings));
    links(storage, findings);
    refuse_below(storage, findings);
}

fn nodes<'a>(storage: &At<'a>) -> impl Iterator<Item = At<'a>> + use<'a> {
    let storage = storage.clone();
    KINDS.into_iter().flat_map(move |kind| storage.items(kind))
}

fn node(at: &At<'_>, findings: &mut Findings) {
    if let Some(at) = at.get("path") {
        path_of_root(&at, findings);
    }
    for owner in ["user", "group"] {
        let Some(at) = at.get(owner) else { continue };
        if at.int("id").is_some() && at.filled("name").is_some() {
            findings.problem(&at.path, "an id and a name", "only one of them");
        }
    }
}

/// Checks that a path is absolute and has no empty, `.` or `..` part and no trailing slash.
pub(super) fn path(at: &At<'_>, findings: &mut Findings) {
    let path = at.text().unwrap_or_default();
    if let Some(expected) = path_form(path) {
        findings.bad_text(at, expected);
    }
}

/// Checks the path of something that Ignition creates in the root file system.
pub(super) fn path_of_root(at: &At<'_>, findings: &mut Findings) {
    path(at, findings);
    if let Some(warning) = at.text().and_then(read_only::warning) {
        findings.warning(&at.path, warning);
    }
}

fn path_form(path: &str) -> Option<&'static str> {
    if !path.starts_with('/') {
        return Some("an absolute path");
    }
    if path.len() > MAX_PATH_BYTES || path.contains('\0') {
        return Some("a path of at most 4095 bytes without NUL");
    }
    let is_clean = path == "/" || path[1..].split('/').all(|part| !["", ".", ".."].contains(&part));
    (!is_clean).then_some("a path without empty, . and .. parts and without a trailing slash")
}

fn mode(at: &At<'_>, findings: &mut Findings) {
    let Some(mode) = at.int("mode") else { return };
    let path = format!("{}.mode", at.path);
    if !(0..=0o7777).contains(&mode) {
        findings.problem(&path, mode.to_string(), "0 to 4095 (octal 7777), in decimal");
    } else if mode > 0o777 && findings.minor < 6 {
        findings.warning(&path, "setuid, setgid and sticky bits are ignored before spec 3.6.0");
    }
}

fn file(at: &At<'_>, findings: &mut Findings) {
    mode(at, findings);
    let contents = at.get("contents");
    if let Some(at) = &contents {
        source::resource(at, findings);
    }
    at.items("append").for_each(|at| source::resource(&at, findings));
    let source = contents.as_ref().and_then(|at| at.str("source"));
    if at.bool("overwrite") == Some(true) && source.is_none() {
        let path = format!("{}.overwrite", at.path);
        findings.problem(&path, "true without contents.source", "a source, which may be \"\"");
    }
}

fn links(storage: &At<'_>, findings: &mut Findings) {
    let directories: HashSet<&str> = paths(storage, "directories").collect();
    for at in storage.items("links") {
        let Some(target) = at.filled("target") else {
            findings.problem(&format!("{}.target", at.path), "missing", "the target of the link");
            continue;
        };
        if at.bool("hard") == Some(true) && directories.contains(target) {
            let found = format!("a hard link to the directory {}", shown(target));
            findings.problem(&at.path, found, "a symbolic link, or a hard link to a file");
        }
    }
}

fn paths<'a>(storage: &At<'a>, kind: &str) -> impl Iterator<Item = &'a str> {
    storage.items(kind).filter_map(|at| at.str("path"))
}

/// Refuses a node below a link, which could leave the installed system's tree, or below a file.
fn refuse_below(storage: &At<'_>, findings: &mut Findings) {
    let links = paths(storage, "links").map(|path| (path, "a link"));
    let files = paths(storage, "files").map(|path| (path, "a file"));
    let no_parents: HashMap<&str, &str> = files.chain(links).collect();
    for at in nodes(storage) {
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
pub(super) fn refuse_unit_files(root: &At<'_>, findings: &mut Findings) {
    let (Some(storage), Some(systemd)) = (root.get("storage"), root.get("systemd")) else { return };
    let mut unit_files = HashSet::new();
    for unit in systemd.items("units") {
        let name = unit.str("name").unwrap_or_default();
        if unit.filled("contents").is_some() {
            unit_files.insert(format!("/etc/systemd/system/{name}"));
        }
        for dropin in unit.items("dropins").filter(|at| at.filled("contents").is_some()) {
            let dropin = dropin.str("name").unwrap_or_default();
            unit_files.insert(format!("/etc/systemd/system/{name}.d/{dropin}"));
        }
    }
    for at in nodes(&storage) {
        let path = at.str("path").unwrap_or_default();
        if unit_files.contains(path) {
            let expected = "a path that no unit of this config has";
            findings.problem(&format!("{}.path", at.path), shown(path), expected);
        }
    }
}
