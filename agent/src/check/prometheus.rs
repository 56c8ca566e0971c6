//! Findings as metrics: Prometheus text format 0.0.4, for the textfile collector of `node_exporter`.
//!
//! The names and labels are stable. A finding's evidence is not a label: it changes, and each change would begin a new
//! series. `explain CODE` has the advice.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use probes::faults::Fault;
use probes::findings::Severity;

use crate::report::Report;

/// The prefix of every metric name.
const PREFIX: &str = "run_coreos_installer_";

/// Returns the findings in `report`, which was finished at `time`.
pub fn metrics(report: &Report, time: SystemTime) -> String {
    let mut text = Text::default();
    let agent = [("version", report.agent.version.as_str()), ("node_id", &report.node_id)];
    text.family("agent_info", "Version of the agent and the name of the node; always 1.");
    text.sample("agent_info", &agent, 1);
    text.family("findings", "Number of findings by severity.");
    for severity in [Severity::Critical, Severity::Warning, Severity::Info] {
        let count = report.findings.iter().filter(|finding| finding.severity == severity).count();
        text.sample("findings", &[("severity", severity.as_str())], count);
    }
    text.family("finding", "Number of findings with this code and part. See explain CODE.");
    // Two samples with the same labels would make node_exporter reject the file.
    let mut by_part: BTreeMap<_, usize> = BTreeMap::new();
    for finding in &report.findings {
        let (code, severity) = (finding.code.as_str(), finding.severity.as_str());
        let labels = (code, severity, finding.component.as_str(), finding.part());
        *by_part.entry(labels).or_default() += 1;
    }
    for ((code, severity, component, part), count) in by_part {
        let labels = [
            ("code", code),
            ("severity", severity),
            ("component", component),
            ("locator", part.as_str()),
        ];
        text.sample("finding", &labels, count);
    }
    text.family(
        "fault_certainty_percent",
        "How certain it is that this part is the cause of the fault. A fault may have several suspects.",
    );
    for (labels, certainty) in suspects(&report.faults) {
        text.sample("fault_certainty_percent", &labels, certainty);
    }
    text.family("problems", "Number of facts that could not be read; faults there may be missed.");
    text.sample("problems", &[], report.problems.len());
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    text.family(
        "check_timestamp_seconds",
        "When the check was finished; its age is time() minus this.",
    );
    text.sample("check_timestamp_seconds", &[], seconds);
    text.0
}

/// Returns the suspects of all faults. If one is named twice for the same class, the more certain one counts.
fn suspects(faults: &[Fault]) -> Vec<([(&str, &str); 5], u8)> {
    let mut suspects: Vec<([(&str, &str); 5], u8)> = Vec::new();
    for fault in faults {
        for suspect in &fault.suspects {
            let serial = suspect.fru.as_ref().and_then(|fru| fru.serial.as_deref());
            let labels = [
                ("class", fault.class.as_str()),
                ("severity", fault.severity.as_str()),
                ("part", suspect.part.as_str()),
                ("label", suspect.label.as_deref().unwrap_or_default()),
                ("serial", serial.unwrap_or_default()),
            ];
            match suspects.iter_mut().find(|(other, _)| *other == labels) {
                Some((_, certainty)) => *certainty = suspect.certainty_percent.max(*certainty),
                None => suspects.push((labels, suspect.certainty_percent)),
            }
        }
    }
    suspects
}

/// Metrics in the text format.
#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, help: &str) {
        let _ = write!(self.0, "# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} gauge\n");
    }

    /// A label without a value is left out: to Prometheus both are the same.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let known = labels.iter().filter(|(_, value)| !value.is_empty());
        let labels: Vec<String> =
            known.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{PREFIX}{name}{labels} {value}");
    }
}

/// Escapes a label's value as the format requires.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::check::tests::{fault, finding, report_with};

    #[test]
    fn each_suspect_of_a_fault_is_one_series() {
        let mut report = report_with(Vec::new());
        report.faults = vec![fault("memory.lost", "DIMM A1"), fault("memory.lost", "DIMM A1")];
        report.faults[0].suspects[0].certainty_percent = 30;
        let text = metrics(&report, UNIX_EPOCH);
        let sample = "run_coreos_installer_fault_certainty_percent{class=\"test\",severity=\"critical\",\
                      part=\"DIMM A1\",label=\"A1\",serial=\"S1\"} 80\n";
        assert_eq!(text.matches("percent{").count(), 1, "{text}");
        assert!(text.contains(sample), "{text}");
    }

    #[test]
    fn each_part_is_one_series_and_the_age_can_be_computed() {
        let report = report_with(vec![
            finding("memory.ecc.uncorrectable", "memory", Some("DIMM \"A\\1\"\n")),
            finding("disk.zero_size", "disk", Some("sda")),
            finding("disk.zero_size", "disk", Some("sda")),
            finding("memory.lost", "memory", None),
        ]);
        let text = metrics(&report, UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            "run_coreos_installer_agent_info{version=\"1.2.3\",node_id=\"n1\"} 1",
            "run_coreos_installer_findings{severity=\"critical\"} 1",
            "run_coreos_installer_findings{severity=\"warning\"} 3",
            "run_coreos_installer_findings{severity=\"info\"} 0",
            "run_coreos_installer_finding{code=\"disk.zero_size\",severity=\"warning\",component=\"disk\",locator=\"sda\"} 2",
            "run_coreos_installer_finding{code=\"memory.ecc.uncorrectable\",severity=\"critical\",component=\"memory\",locator=\"DIMM \\\"A\\\\1\\\"\\n\"} 1",
            "run_coreos_installer_finding{code=\"memory.lost\",severity=\"warning\",component=\"memory\"} 1",
            "run_coreos_installer_problems 0",
            "run_coreos_installer_check_timestamp_seconds 1700000000",
        ];
        assert_eq!(samples, expected);
    }
}
