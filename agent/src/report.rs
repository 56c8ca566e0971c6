//! The report: everything that is known of a machine, in the form that is posted and printed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use probes::collect::{Inventory, Options, collect, sections};
use probes::findings::{Finding, findings};
use probes::identity::{Identifier, identity};
use probes::machine::{Problem, Source};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the report's keys. A new key raises the second number, a changed one the first.
pub const SCHEMA_VERSION: &str = "1.0";

/// What is known of a machine: VIM API v1's `Report`, and what `inspect` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The version of these keys, e.g. `1.0`.
    pub schema_version: String,
    /// The program that made the report.
    pub agent: Agent,
    /// The name under which the agent speaks of this node, e.g. `uuid-4c4c4544-…`.
    #[schemars(regex(pattern = "^[A-Za-z0-9._:-]{1,128}$"))]
    pub node_id: String,
    /// When the report was made, by the node's clock: RFC 3339, UTC.
    #[schemars(extend("format" = "date-time"))]
    pub collected_at: String,
    /// How long collecting took, in ms.
    pub duration_ms: u64,
    /// By what the machine can be recognised.
    pub identity: Vec<Identifier>,
    /// The facts, a section each.
    #[serde(flatten)]
    pub inventory: Inventory,
    /// What is wrong with the machine, worst first.
    pub findings: Vec<Finding>,
    /// What was not read, and why.
    pub problems: Vec<Problem>,
    /// How long each collector took.
    pub timings: Timings,
}

/// The program that made a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Agent {
    /// Always `run-coreos-installer`.
    pub name: String,
    /// Its version, e.g. `0.1.0`.
    pub version: String,
    /// The sections that this program can fill.
    pub capabilities: Vec<String>,
}

/// How long collecting took. These figures differ from run to run, and nothing else does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timings {
    /// Wall time of each collector in ms, by its name.
    pub collectors_ms: BTreeMap<String, u64>,
}

/// Reads the machine behind `source` and makes its report.
#[must_use]
pub fn report(source: &Arc<Source>, options: &Options) -> Report {
    let start = Instant::now();
    let collected = collect(source, options);
    let identity = identity(&collected.inventory);
    Report {
        schema_version: SCHEMA_VERSION.to_owned(),
        agent: agent(),
        node_id: node_id(&identity),
        collected_at: crate::api::time::rfc3339(SystemTime::now()),
        duration_ms: milliseconds(start.elapsed()),
        findings: findings(&collected.inventory),
        identity,
        inventory: collected.inventory,
        problems: collected.problems,
        timings: Timings { collectors_ms: collected.durations_ms },
    }
}

fn agent() -> Agent {
    let capabilities = sections().into_iter().map(str::to_owned).collect();
    let name = "run-coreos-installer".to_owned();
    Agent { name, version: env!("CARGO_PKG_VERSION").to_owned(), capabilities }
}

/// The name of the node, made of the first identifier that nothing speaks against.
fn node_id(identity: &[Identifier]) -> String {
    let trusted = |kind: &str| {
        let mut matching = identity.iter().filter(|i| i.kind == kind && i.suspicious.is_none());
        matching.next().map(|identifier| identifier.value.clone())
    };
    let mac = |mac: String| format!("mac-{}", mac.replace([':', '-'], "").to_ascii_lowercase());
    trusted("smbios_uuid")
        .map(|uuid| format!("uuid-{uuid}"))
        .or_else(|| trusted("permanent_mac").map(mac))
        .or_else(|| trusted("product_serial").map(|serial| format!("serial-{serial}")))
        .or_else(|| trusted("baseboard_serial").map(|serial| format!("serial-{serial}")))
        .map_or_else(|| "unidentified".to_owned(), |id| safe_id(&id))
}

/// Keeps what may stand in a path (`NODE_ID_PATTERN`); anything else becomes a dash.
fn safe_id(id: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
    id.chars().take(128).map(|c| if is_safe(c) { c } else { '-' }).collect()
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identifier(kind: &str, value: &str, suspicious: Option<&str>) -> Identifier {
        Identifier {
            kind: kind.to_owned(),
            value: value.to_owned(),
            suspicious: suspicious.map(str::to_owned),
        }
    }

    #[test]
    fn a_suspicious_uuid_does_not_name_the_node() {
        let zero = identifier("smbios_uuid", "00000000-0000-0000-0000-000000000000", Some("zero"));
        let mac = identifier("permanent_mac", "02:00:00:00:00:0A", None);
        assert_eq!(node_id(&[zero.clone(), mac]), "mac-02000000000a");
        assert_eq!(node_id(&[zero]), "unidentified");
        let good = identifier("smbios_uuid", "4c4c4544-0058-4a10-8034-b7c04f4b5a33", None);
        assert_eq!(node_id(&[good]), "uuid-4c4c4544-0058-4a10-8034-b7c04f4b5a33");
    }

    #[test]
    fn a_node_id_is_always_safe_in_a_path() {
        let odd = identifier("product_serial", "../../ä b", None);
        let id = node_id(&[odd]);
        assert!(crate::api::is_node_id(&id), "{id}");
    }
}
