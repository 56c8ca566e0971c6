//! Rules of systemd units and their drop-ins.
//!
//! Sources: Ignition `config/v3_*/types/unit.go`, `config/shared/parse/unit.go`; the grammar is
//! that of go-systemd's `unit` package, which is stricter than systemd's own.

use super::at::At;
use super::findings::Findings;

/// Longest line that go-systemd accepts, in bytes (`SYSTEMD_LINE_MAX`, `unit/deserialize.go`).
const MAX_LINE_BYTES: usize = 2048;
/// Suffixes of unit names. systemd removed `snapshot`, but Ignition still accepts it.
const SUFFIXES: &str =
    "service socket device mount automount swap target path timer snapshot slice scope";

pub(super) fn rules(root: &At<'_>, findings: &mut Findings) {
    for at in root.each("systemd.units.*.name") {
        let name = at.text();
        let is_kind = |suffix: &str| SUFFIXES.split(' ').any(|known| known == suffix);
        if !suffix(name).is_some_and(is_kind) || name.contains('/') {
            findings.bad_text(&at, "a unit's name such as a.service");
        }
    }
    for at in root.each("systemd.units.*.dropins.*.name") {
        if suffix(at.text()) != Some("conf") {
            findings.bad_text(&at, "a name with .conf");
        }
    }
    for texts in ["systemd.units.*.contents", "systemd.units.*.dropins.*.contents"] {
        for at in root.each(texts) {
            if let Err((n, why)) = unit_syntax(at.text()) {
                findings.problem(&at.path, format!("line {n}: {why}"), "a unit file");
            }
        }
    }
}

fn suffix(name: &str) -> Option<&str> {
    name.rsplit_once('.').map(|(_, suffix)| suffix).filter(|suffix| !suffix.contains('/'))
}

/// Checks a unit file line by line; the error is the line number and the fault there.
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
