//! The findings of a report in the forms that other programs read, and the modes of `check` beyond a single reading.

pub mod load;
pub mod ocptv;
pub mod prometheus;
pub mod sample;

#[cfg(test)]
pub(crate) mod tests {
    use probes::faults::Fault;
    use probes::findings::{Finding, Severity};
    use probes::parts::{PartId, PartKind};
    use serde_json::json;

    use crate::report::Report;

    /// A report of a machine without facts, with these findings.
    pub(crate) fn report_with(findings: Vec<Finding>) -> Report {
        let mut report: Report = serde_json::from_value(json!({
            "schema_version": "1.0",
            "agent": {"name": "run-coreos-installer", "version": "1.2.3", "capabilities": []},
            "node_id": "n1",
            "collected_at": "2026-11-20T10:00:00Z",
            "duration_ms": 1,
            "identity": [],
            "findings": [],
            "problems": [],
            "timings": {"collectors_ms": {}},
        }))
        .unwrap();
        report.findings = findings;
        report
    }

    /// A fault of one DIMM, concluded from the finding with this code about it.
    pub(super) fn fault(code: &str, part: &str) -> Fault {
        let suspect = json!({
            "part": part, "label": "A1", "fru": {"serial": "S1"}, "certainty_percent": 80,
        });
        let mut fault: Fault = serde_json::from_value(json!({
            "class": "test",
            "severity": "critical",
            "suspects": [suspect],
            "evidence": [{"source": "EDAC", "finding": code, "observed": "seen"}],
            "advice": "replace it",
        }))
        .unwrap();
        fault.evidence[0].locator = Some(PartId::called(PartKind::Dimm, part));
        fault
    }

    /// A finding; critical if its code says uncorrectable, otherwise a warning.
    pub(super) fn finding(code: &str, component: &str, locator: Option<&str>) -> Finding {
        let is_critical = code.contains("uncorrectable");
        let kind = if component == "memory" { PartKind::Dimm } else { PartKind::Other };
        Finding {
            code: serde_json::from_value(code.into()).unwrap(),
            severity: if is_critical { Severity::Critical } else { Severity::Warning },
            component: component.to_owned(),
            locator: locator.map(|text| PartId::called(kind, text)),
            evidence: "seen".to_owned(),
            advice: "replace it".to_owned(),
            raw: None,
            driver_label: None,
        }
    }
}
