//! Rules of systemd units and their drop-ins.
//!
//! Sources: Ignition `config/v3_*/types/unit.go`, `config/shared/parse/unit.go`; the grammar is
//! that of go-systemd's `unit` package, which is stricter than systemd's own.

use super::at::{At, refuse_duplicates};
use super::findings::Findings;
use crate::text::shown;

/// Longest line that go-systemd accepts, in bytes (`SYSTEMD_LINE_MAX`, `unit/deserialize.go`).
const MAX_LINE_BYTES: usize = 2048;
/// Suffixes of unit names. systemd removed `snapshot`, but Ignition still accepts it.
const SUFFIXES: [&str; 12] = [
    "service",
    "socket",
    "device",
    "mount",
    "automount",
    "swap",
    "target",
    "path",
    "timer",
    "snapshot",
    "slice",
    "scope",
];

pub(super) fn rules(systemd: &At<'_>, findings: &mut Findings) {
    for at in systemd.items("units") {
        unit(&at, findings);
        for at in at.items("dropins") {
            let name = at.str("name").unwrap_or_default();
            if suffix(name) != Some("conf") {
                findings.problem(&format!("{}.name", at.path), shown(name), "a name with .conf");
            }
            contents(&at, findings);
        }
        refuse_duplicates(at.items("dropins"), findings, |at| at.str("name"));
    }
    refuse_duplicates(systemd.items("units"), findings, |at| at.str("name"));
}

fn suffix(name: &str) -> Option<&str> {
    name.rsplit_once('.').map(|(_, suffix)| suffix).filter(|suffix| !suffix.contains('/'))
}

fn unit(at: &At<'_>, findings: &mut Findings) {
    let name = at.str("name").unwrap_or_default();
    if !suffix(name).is_some_and(|suffix| SUFFIXES.contains(&suffix)) || name.contains('/') {
        let expected = "a unit's name such as a.service";
        findings.problem(&format!("{}.name", at.path), shown(name), expected);
    }
    contents(at, findings);
    let text = at.filled("contents").unwrap_or_default();
    let has_install = text.lines().any(|line| line.trim() == "[Install]");
    if at.bool("enabled") == Some(true) && !text.is_empty() && !has_install {
        let message = "enabled, but without an [Install] section, so enabling has no effect";
        findings.warning(&at.path, message);
    }
}

fn contents(at: &At<'_>, findings: &mut Findings) {
    if let Some(at) = at.get("contents")
        && let Err((n, why)) = unit_syntax(at.text().unwrap_or_default())
    {
        findings.problem(&at.path, format!("line {n}: {why}"), "a unit file");
    }
}

/// Checks a unit file line by line; the error is the line number and what is wrong there.
fn unit_syntax(text: &str) -> Result<(), (usize, &'static str)> {
    let mut is_in_section = false;
    let mut is_continued = false;
    for (i, line) in text.split('\n').enumerate() {
        let n = i + 1;
        if line.len() >= MAX_LINE_BYTES {
            return Err((n, "longer than 2047 bytes"));
        }
        let bare = line.trim();
        let is_comment = bare.starts_with(['#', ';']);
        // In go-systemd a trailing backslash continues a comment as well.
        if std::mem::replace(&mut is_continued, line.ends_with('\\')) {
            continue;
        }
        if bare.is_empty() || is_comment {
            continue;
        }
        if let Some(header) = bare.strip_prefix('[') {
            match header.split_once(']') {
                Some((_, "")) => is_in_section = true,
                Some(_) => return Err((n, "text after the name of a section")),
                None => return Err((n, "a section name without ]")),
            }
        } else if is_in_section && !bare.contains('=') {
            return Err((n, "an option without =, or a continuation of nothing"));
        }
    }
    Ok(())
}
