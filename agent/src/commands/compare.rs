//! `diff`, `expect` and `cohort`: machines compared with each other, or with an earlier report.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use compare::cohort::{LEAST, Member, Model, models};
use compare::difference::{Scope, differences};
use compare::draft::{draft, without_data};
use compare::failing::{Failing, failing};
use compare::kinds::kinds;
use compare::machine::Machine;
use probes::collect::Options;
use probes::machine::Source;
use serde_json::{Value, json};

use crate::cli::{CohortOptions, DiffFormat, DiffOptions, ExpectOptions};
use crate::exit_status::ExitStatus;
use crate::report::{SCHEMA_VERSION, report};
use crate::{bounded, output};

/// The maximum report size; a machine with a thousand PCI devices has about 2 MB.
const LIMIT_BYTES: u64 = 64 << 20;

/// Prints the differences between two machines.
///
/// # Errors
/// If one of them cannot be read.
pub(super) fn diff(options: &DiffOptions) -> anyhow::Result<ExitStatus> {
    if options.a == Path::new("-") && options.b.as_deref() == Some(Path::new("-")) {
        bail!("A and B are both -, expected one report on standard input");
    }
    let a = Machine::of(&load(&options.a)?);
    let b = Machine::of(&match &options.b {
        Some(path) => load(path)?,
        None => this_machine()?,
    });
    if !kinds().any(|kind| a.knows(kind) && b.knows(kind)) {
        bail!("the two reports have no section in common, so nothing can be compared");
    }
    let scope = Scope { with_volatile: options.counters, without_serials: options.ignore_serials };
    let found = differences(&a, &b, scope);
    output::print(&match options.format {
        DiffFormat::Json => output::json(&found.json())?,
        DiffFormat::Text if found.is_empty() => String::new(),
        DiffFormat::Text => {
            let b_name = options.b.as_ref().map(|b| b.display().to_string());
            let b_name = b_name.unwrap_or_else(|| "this machine".to_owned());
            let a_name = options.a.display();
            [
                compare::line(&format!("a: {} ({a_name})", a.title())),
                compare::line(&format!("b: {} ({b_name})", b.title())),
                "\n".to_owned(),
                found.text(),
            ]
            .concat()
        }
    })?;
    if !found.not_compared.is_empty() {
        let names: Vec<&str> = found.not_compared.iter().map(|kind| kind.name()).collect();
        tracing::warn!(
            "only one of the two reports has data of these parts, so they were not compared: {}",
            names.join(", ")
        );
    }
    Ok(if found.is_empty() { ExitStatus::Done } else { ExitStatus::Findings })
}

/// Prints the requirements for a machine like this one.
///
/// # Errors
/// If the machine cannot be read.
pub(super) fn expect(options: &ExpectOptions) -> anyhow::Result<ExitStatus> {
    let report = match (&options.report, &options.root) {
        (Some(path), _) => load(path)?,
        (None, Some(root)) => replayed(super::captured(root, "--root ")?)
            .with_context(|| format!("--root {}", root.display()))?,
        (None, None) => this_machine()?,
    };
    let machine = Machine::of(&report);
    output::print(&draft(&machine))?;
    let without_data = without_data(&machine);
    if !without_data.is_empty() {
        tracing::warn!(
            "the report has no data of these parts, so nothing is expected of them: {}",
            without_data.join(", ")
        );
    }
    Ok(ExitStatus::Done)
}

/// Prints the machines that depart from most machines of their model.
///
/// # Errors
/// If a report cannot be read, or there are too few of every model.
pub(super) fn cohort(options: &CohortOptions) -> anyhow::Result<ExitStatus> {
    let member = |path: &PathBuf| Ok(Member::of(path.display().to_string(), &load(path)?));
    let members: Vec<Member> = options.reports.iter().map(member).collect::<anyhow::Result<_>>()?;
    let members = without_repeated(members);
    let (models, failing) = (models(&members), failing(&members));
    output::print(&match options.format {
        DiffFormat::Json => output::json(&json!({
            "models": models.iter().map(Model::json).collect::<Vec<_>>(),
            "failing_parts": failing.iter().map(Failing::json).collect::<Vec<_>>(),
        }))?,
        DiffFormat::Text => {
            let mut text: String = models.iter().map(Model::text).collect();
            if !failing.is_empty() {
                text.push_str("parts with findings, by part number\n");
            }
            text.extend(failing.iter().map(Failing::text));
            text
        }
    })?;
    if !models.iter().any(Model::has_norm) {
        bail!("no model has {LEAST} reports, so there is no norm to compare with");
    }
    let has_departed = models.iter().any(|model| !model.departures.is_empty());
    Ok(if has_departed { ExitStatus::Findings } else { ExitStatus::Done })
}

/// Returns the first report of each machine: one that counted twice would make its own norm.
fn without_repeated(members: Vec<Member>) -> Vec<Member> {
    type Identities = BTreeSet<(&'static str, usize, String)>;
    type Name = (String, Option<String>);
    let mut counted: BTreeMap<Name, Vec<(String, Identities)>> = BTreeMap::new();
    let mut kept = Vec::new();
    for member in members {
        let Machine { node_id, serial, .. } = &member.machine;
        // All captures without an identity share an id.
        if let Some(id) = node_id.as_ref().filter(|id| !id.starts_with("capture-")) {
            let same_name = counted.entry((id.clone(), serial.clone())).or_default();
            let identities: Identities = part_identities(&member.machine).collect();
            let is_same = |(_, other): &&(String, Identities)| !identities.is_disjoint(other);
            if let Some((name, _)) = same_name.iter().find(is_same) {
                let other = &member.name;
                tracing::warn!(
                    "{name} and {other} are reports of one machine; only the first counts"
                );
                continue;
            }
            same_name.push((member.name.clone(), identities));
        }
        kept.push(member);
    }
    kept
}

/// Returns the identities of a machine's parts, with the kind of part and the identity's position in the kind.
///
/// Some makers give one UUID, MAC address or serial number to several machines. So the identities from which a node
/// ID can be derived do not count.
fn part_identities(machine: &Machine) -> impl Iterator<Item = (&'static str, usize, String)> {
    let mac = machine.node_id.as_deref().and_then(|id| id.strip_prefix("mac-"));
    let is_id = move |text: &str| {
        mac.is_some_and(|mac| mac.eq_ignore_ascii_case(&text.replace([':', '-'], "")))
    };
    let parts = machine.parts.iter();
    let parts =
        parts.filter(|part| !["product", "chassis", "baseboard"].contains(&part.kind.name()));
    parts.flat_map(move |part| {
        let known = part.identities.iter().enumerate();
        let known = known.filter_map(|(n, text)| Some((n, text.as_ref()?)));
        let others = known.filter(move |(_, text)| !is_id(text));
        others.map(|(n, text)| (part.kind.name(), n, text.clone()))
    })
}

/// Returns this machine's report.
fn this_machine() -> anyhow::Result<Value> {
    replayed(Source::live())
}

/// Returns the report at `source`; one without hardware would differ from every other, or expect nothing.
fn replayed(source: Source) -> anyhow::Result<Value> {
    // By way of the text: a second serialiser of the report's types would add 0.2 MB to the program.
    let report = report(&Arc::new(source), &Options::default());
    report.require_hardware(&[])?;
    output::tree(&output::json(&report)?)
}

/// Reads a report, or makes one from a capture or a directory.
fn load(path: &Path) -> anyhow::Result<Value> {
    let is_standard_input = path == Path::new("-");
    // A pipe is read once, and a capture is a file.
    let is_pipe = std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
    if !is_standard_input && !is_pipe && !starts_like_json(path) {
        return replayed(super::captured(path, "")?).with_context(|| path.display().to_string());
    }
    let (bytes, name) = if is_standard_input {
        let name = "standard input".to_owned();
        (bounded::read(std::io::stdin().lock(), &name, LIMIT_BYTES)?, name)
    } else {
        (bounded::read_file(path, LIMIT_BYTES)?, path.display().to_string())
    };
    let report: Value = serde_json::from_slice(&bytes).map_err(|error| {
        anyhow::anyhow!(
            "{name} is not JSON: line {}, column {}; expected a report as `inspect --format json` prints it",
            error.line(),
            error.column()
        )
    })?;
    let major = |version: &str| version.split('.').next().map(str::to_owned);
    let Some(version) = report.get("schema_version") else {
        bail!(
            "{name} has no schema_version, expected a report as `inspect --format json` prints it"
        );
    };
    // Another version may say the same by other keys, which would pass for parts that are absent.
    if version.as_str().and_then(major) != major(SCHEMA_VERSION) {
        bail!(
            "{name} has the schema_version {version}, expected {SCHEMA_VERSION} or another of the same major version"
        );
    }
    Ok(report)
}

/// Returns true if the file begins with a JSON object.
fn starts_like_json(path: &Path) -> bool {
    let mut head = Vec::new();
    let is_read = std::fs::File::open(path).and_then(|file| file.take(64).read_to_end(&mut head));
    is_read.is_ok() && head.trim_ascii_start().starts_with(b"{")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the machines, with one report for each MAC address and DIMM serial number.
    fn n_counted(id: &str, serial: Option<&str>, parts: &[(&str, &str)]) -> usize {
        let member = |(mac, dimm): &(&str, &str)| {
            let report = json!({
                "node_id": id,
                "product": {"serial": serial, "uuid": "03000200-0400-0500-0006-000700080009"},
                "chassis": {"serial": "0123456789"},
                "baseboard": {"serial": "0123456789"},
                "memory": {"n_slots": 1, "dimms": [{"locator": "A1", "serial": dimm}]},
                "network": {"interfaces": [
                    {"name": "eno1", "kind": "physical", "permanent_mac": mac},
                ]},
            });
            Member::of((*mac).to_owned(), &report)
        };
        without_repeated(parts.iter().map(member).collect()).len()
    }

    const A: (&str, &str) = ("02:00:00:00:00:0a", "2D8F1A01");
    const B: (&str, &str) = ("02:00:00:00:00:0b", "2D8F1A02");

    #[test]
    fn machines_with_the_same_uuid_mac_or_placeholder_serial_all_count() {
        let uuid = "uuid-03000200-0400-0500-0006-000700080009";
        assert_eq!(n_counted(uuid, None, &[A, B]), 2);
        assert_eq!(n_counted(uuid, Some("0123456789"), &[A, B]), 2);
        assert_eq!(n_counted("serial-0123456789", Some("0123456789"), &[A, B]), 2);
        assert_eq!(n_counted("mac-02000000000a", None, &[A, (A.0, B.1)]), 2);
    }

    #[test]
    fn captures_without_an_identity_all_count() {
        assert_eq!(n_counted("capture-e3b0c442", None, &[A, A]), 2);
    }

    #[test]
    fn machine_counts_once_if_its_reports_share_a_part() {
        assert_eq!(n_counted("uuid-1", Some("S1"), &[A, B, A, B]), 2);
        assert_eq!(n_counted("uuid-1", None, &[A, (B.0, A.1)]), 1);
        assert_eq!(n_counted("mac-02000000000a", None, &[A, A]), 1);
    }
}
