//! The part of a report that pages about many nodes show. Stored with it, because parsing all reports takes seconds.

use serde_json::{Value, json};

/// Maximum number of findings to show for a node.
pub(crate) const MAX_FINDINGS: usize = 200;

/// More than a page shows of any text.
const MAX_CHARS: usize = 300;
/// More than a machine with thousands of virtual functions has.
const MAX_PORTS: usize = 4096;

/// Returns the data for the node list and the boot scripts: a hundredth of a report's size, and bounded, since a node
/// may lie.
pub(crate) fn overview(report: &Value) -> Value {
    let ports = report["network"]["interfaces"].as_array().into_iter().flatten();
    let ports = ports.take(MAX_PORTS).map(|port| part(port, &["permanent_mac", "current_mac"]));
    let findings = report["findings"].as_array().into_iter().flatten().take(MAX_FINDINGS);
    let findings =
        findings.map(|finding| part(finding, &["severity", "component", "locator", "evidence"]));
    json!({
        "node_id": scalar(&report["node_id"]),
        "product": part(&report["product"], &["vendor", "name", "serial"]),
        "os": part(&report["os"], &["hostname"]),
        "cpu": part(&report["cpu"], &["n_logical_cpus_online"]),
        "memory": part(&report["memory"], &["installed_bytes", "usable_bytes"]),
        "block": part(&report["block"], &["n_disks", "physical_bytes"]),
        "network": {"interfaces": ports.collect::<Vec<_>>()},
        "findings": findings.collect::<Vec<_>>(),
    })
}

/// Returns the named members of an object.
fn part(object: &Value, names: &[&str]) -> Value {
    let members =
        names.iter().filter_map(|name| Some(((*name).to_owned(), scalar(object.get(name)?))));
    Value::Object(members.collect())
}

/// Returns a value that is neither a list nor an object, with its text cut.
fn scalar(value: &Value) -> Value {
    match value {
        Value::Array(_) | Value::Object(_) => Value::Null,
        Value::String(text) => Value::String(text.chars().take(MAX_CHARS).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overview_of_a_hostile_report_is_bounded() {
        let (text, list) = ("é".repeat(1 << 16), json!(vec![0; 1 << 16]));
        let finding =
            json!({"severity": "critical", "evidence": text, "raw": text, "locator": list});
        let report = json!({
            "node_id": text,
            "product": {"vendor": text, "name": list, "more": text},
            "network": {"interfaces": vec![json!({"permanent_mac": text, "name": text}); 5000]},
            "findings": vec![finding; 300],
        });
        let found = overview(&report);
        assert_eq!(found["findings"].as_array().map(Vec::len), Some(MAX_FINDINGS));
        assert_eq!(found["findings"][0]["severity"], "critical");
        assert_eq!(found["network"]["interfaces"].as_array().map(Vec::len), Some(MAX_PORTS));
        assert_eq!(found["product"]["vendor"], "é".repeat(MAX_CHARS));
        assert!(found.to_string().len() < 3 << 20, "{}", found.to_string().len());
    }
}
