//! The table of findings, `data/findings.txt`: every code with its severity, meaning, source, advice, and how a false alarm
//! is ruled out.
//!
//! A [`Finding`] is made from a [`Row`] alone, so no code is missing from the table. `docs/findings.md`, the list of codes
//! in the JSON Schema and the command `explain` come from it. `fixtures/findings/` holds a machine that raises each row,
//! and a similar one on which it stays silent.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{Finding, Severity};
use crate::parts::PartId;

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| records().filter_map(Row::parse).collect());

/// The descriptions in the file, without its comment.
fn records() -> impl Iterator<Item = &'static str> {
    include_str!("../../data/findings.txt").split("\n\n").skip(1)
}

/// Description of one code.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The code, e.g. `memory.ecc.uncorrectable`.
    pub code: &'static str,
    severity: Severity,
    /// The severity in the circumstances that the meaning describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    other_severity: Option<Severity>,
    /// The kind of part: see [`Finding::component`].
    pub component: &'static str,
    /// Meaning of the finding, in a few sentences.
    pub meaning: &'static str,
    source: &'static str,
    advice: &'static str,
    false_alarms: &'static str,
}

impl Row {
    fn parse(record: &'static str) -> Option<Row> {
        let mut lines = record.lines();
        let (code, severities) = lines.next()?.split_once(": ")?;
        let (severity, other) = severities.split_once(" or ").unwrap_or((severities, ""));
        let (code, component) =
            code.split_once(" of ").or_else(|| Some((code, code.split_once('.')?.0)))?;
        let mut text = |key: &str| lines.next()?.strip_prefix(key);
        Some(Row {
            code,
            severity: Severity::of(severity)?,
            other_severity: Severity::of(other),
            component,
            meaning: text("meaning: ")?,
            source: text("source: ")?,
            advice: text("advice: ")?,
            false_alarms: text("false alarms: ")?,
        })
    }

    /// The usual severity, then the other one that some circumstances call for.
    pub fn severities(&self) -> impl Iterator<Item = Severity> {
        [self.severity].into_iter().chain(self.other_severity)
    }

    /// The explanation as headed paragraphs, in the order in which a reader needs them.
    pub fn paragraphs(&self) -> [(&'static str, &'static str); 4] {
        [
            ("What it means", self.meaning),
            ("What to do", self.advice),
            ("False alarms", self.false_alarms),
            ("Source", self.source),
        ]
    }

    /// A finding of this row, of its usual severity and with its advice.
    pub fn finding(&self, locator: Option<PartId>, evidence: impl Into<String>) -> Finding {
        Finding {
            code: FindingCode(Cow::Borrowed(self.code)),
            severity: self.severity,
            component: self.component.to_owned(),
            locator,
            evidence: evidence.into(),
            advice: self.advice.to_owned(),
            raw: None,
            driver_label: None,
        }
    }
}

/// All rows, by component and code as `docs/findings.md` lists them.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter()
}

/// A finding of the row of `code`. A test compares the codes of all checks with the table.
pub(super) fn raise(
    code: &'static str,
    locator: Option<PartId>,
    evidence: impl Into<String>,
) -> Finding {
    let unknown = Row { code, ..Row::default() };
    row(code).unwrap_or(&unknown).finding(locator, evidence)
}

/// The row of `code`; `None` for a code that this version does not know.
pub fn row(code: &str) -> Option<&'static Row> {
    rows().find(|row| row.code == code)
}

/// The known code that differs from `code` in the fewest letters.
pub fn nearest_code(code: &str) -> &'static str {
    let code = code.trim().to_ascii_lowercase();
    // A part of a code, such as `ecc`, is nearer than any code of the same length.
    let distance = |row: &&Row| (!row.code.contains(&code), strsim::levenshtein(row.code, &code));
    rows().min_by_key(distance).map_or("", |row| row.code)
}

/// The code of a finding: from the table, or from the report of another version of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FindingCode(Cow<'static, str>);

impl FindingCode {
    /// The code as it is printed.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FindingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The known codes by name. Another code fits too, since a later version may have more.
impl JsonSchema for FindingCode {
    fn schema_name() -> Cow<'static, str> {
        "FindingCode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let known: Vec<&str> = rows().map(|row| row.code).collect();
        json_schema!({
            "description": "Stable code of a finding. Later versions may add codes.",
            "type": "string",
            "anyOf": [
                {"description": "The codes of this version, see docs/findings.md.", "enum": known},
                {"description": "A code of a later version.", "pattern": "^[a-z0-9_]+(\\.[a-z0-9_]+)+$"},
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn every_code_is_unique_well_formed_and_explained() {
        let codes: Vec<&str> = rows().map(|row| row.code).collect();
        assert_eq!(records().find(|record| Row::parse(record).is_none()), None);
        let unique: std::collections::BTreeSet<&str> = codes.iter().copied().collect();
        assert_eq!(unique.len(), codes.len());
        for row in rows() {
            let is_part = |part: &str| {
                !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
            };
            assert!(row.code.contains('.') && row.code.split('.').all(is_part), "{}", row.code);
            assert!(row.other_severity != Some(row.severity), "{}", row.code);
            for (heading, text) in row.paragraphs() {
                assert!(text.len() > 15, "{}: {heading}: {text:?}", row.code);
            }
        }
    }

    #[test]
    fn every_code_of_a_check_is_in_the_table() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/findings");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let checks = files.filter(|path| !path.ends_with("table.rs"));
        let text: String = checks.map(|path| std::fs::read_to_string(path).unwrap()).collect();
        let is_code = |word: &&str| {
            let is_part = |c: char| c.is_ascii_lowercase() || c == '_' || c == '.';
            let component = word.split_once('.').map_or("", |(component, _)| component);
            word.chars().all(is_part) && !super::super::collectors(component).is_empty()
        };
        let codes: Vec<&str> = text.split('"').filter(is_code).collect();
        assert!(codes.len() > 60, "{codes:?}");
        assert!(codes.iter().all(|code| row(code).is_some()), "{codes:?}");
    }

    /// The table as `docs/findings.md`.
    fn document() -> String {
        let severities =
            |row: &Row| row.severities().map(Severity::as_str).collect::<Vec<_>>().join(" or ");
        let mut text = "# Findings\n\nEvery finding that `check`, `inspect` and `report` can make. \
            `run-coreos-installer explain CODE` prints the same text. This file is generated from \
            `probes/data/findings.txt`; do not edit it.\n\n\
            `check` ends with status 0 if nothing is worse than info, with 1 if there is a warning, and with 7 if a \
            finding is critical. An install stops at critical findings unless `block_on`, `block_also` or `block_except` \
            of the instruction, or the agent's options of these names, say otherwise.\n\n\
            Each code has a test: machines that raise it, and similar ones on which it stays silent. The sources are below.\n\n\
            | Code | Severity | Component | Test |\n|---|---|---|---|\n"
            .to_owned();
        for row in rows() {
            let anchor = row.code.replace('.', "");
            let (code, component) = (row.code, row.component);
            let tree = format!("fixtures/findings/{code}.yaml");
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
            assert!(std::path::Path::new(&format!("{path}{tree}")).exists(), "{tree} is missing");
            let severities = severities(row);
            writeln!(
                text,
                "| [`{code}`](#{anchor}) | {severities} | {component} | [{code}.yaml](../{tree}) |"
            )
            .unwrap();
        }
        for row in rows() {
            write!(text, "\n## {}\n\nSeverity: {}\n", row.code, severities(row)).unwrap();
            for (heading, paragraph) in row.paragraphs() {
                // `*` and `_` in paths would be emphasis.
                let paragraph = paragraph.replace('*', "\\*").replace('_', "\\_");
                write!(text, "\n**{heading}:** {paragraph}\n").unwrap();
            }
        }
        text
    }

    #[test]
    fn docs_findings_md_is_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/findings.md");
        let expected = document();
        if std::env::var_os("UPDATE_EXPECTED").is_some() {
            std::fs::write(path, &expected).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == expected, "{path} is not the table; UPDATE_EXPECTED=1 rewrites it");
    }

    #[test]
    fn code_of_a_later_version_is_read_and_written_back() {
        let json = r#"{"code":"disk.haunted","severity":"info","component":"disk","evidence":"e","advice":"a"}"#;
        let finding: Finding = serde_json::from_str(json).unwrap();
        assert_eq!(finding.code.as_str(), "disk.haunted");
        assert_eq!(serde_json::to_string(&finding).unwrap(), json);
    }

    #[test]
    fn misspelt_code_has_a_nearest_one() {
        assert_eq!(nearest_code("memory.ecc.uncorrectible"), "memory.ecc.uncorrectable");
        assert_eq!(nearest_code("Disk.None_Eligble"), "disk.none_eligible");
        assert_eq!(nearest_code("nvdimm"), "memory.nvdimm.failed");
    }
}
