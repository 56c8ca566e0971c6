//! What pages of many nodes show of a report. Kept in memory, because parsing all reports for each page takes seconds.

use serde_json::{Value, json};

/// Most findings that are shown of a node.
pub(crate) const MAX_FINDINGS: usize = 200;

/// What the list of nodes and the boot scripts need of a report: a hundredth of its size.
pub(crate) fn overview(report: &Value) -> Value {
    let ports = report["network"]["interfaces"].as_array().into_iter().flatten();
    let ports = ports.map(|port| part(port, &["permanent_mac", "current_mac"]));
    let findings = report["findings"].as_array().into_iter().flatten().take(MAX_FINDINGS);
    json!({
        "node_id": report["node_id"],
        "product": part(&report["product"], &["vendor", "name", "serial"]),
        "os": part(&report["os"], &["hostname"]),
        "cpu": part(&report["cpu"], &["n_logical_cpus_online"]),
        "memory": part(&report["memory"], &["installed_bytes", "usable_bytes"]),
        "block": part(&report["block"], &["n_disks", "physical_bytes"]),
        "network": {"interfaces": ports.collect::<Vec<_>>()},
        "findings": findings.collect::<Vec<_>>(),
    })
}

/// The named members of an object.
fn part(object: &Value, names: &[&str]) -> Value {
    let members =
        names.iter().filter_map(|name| Some(((*name).to_owned(), object.get(name)?.clone())));
    Value::Object(members.collect())
}
