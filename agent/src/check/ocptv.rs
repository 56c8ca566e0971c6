//! Findings as the output of a diagnostic: OCP Test & Validation, version 2.0, JSON lines
//! (`opencomputeproject/ocp-diag-core`, `json_spec/output`).
//!
//! One run with one step for each kind of part. A warning or a critical finding is a diagnosis `FAIL` that names the
//! part; an info finding is a log line. A step whose section was not read ends with `SKIP`; one
//! that was partly read, without findings, has the diagnosis `UNKNOWN`. A fault, with its suspects, follows the
//! diagnoses that led to it, as an extension named [`FAULT`].

use std::time::SystemTime;

use formats::time::rfc3339_ms;
use probes::block::{Disk, DiskBay};
use probes::faults::Fault;
use probes::findings::{Finding, Severity, collectors};
use probes::memory::Dimm;
use probes::network::Interface;
use probes::parts::{self, PartId, PartKind};
use serde_json::{Value, json};

use crate::export::known;
use crate::report::Report;

/// The steps in order: the components that findings name.
const STEPS: [&str; 10] =
    ["identity", "firmware", "power", "bmc", "os", "cpu", "memory", "disk", "nic", "pci"];

/// The name of the extension that contains a fault, with the keys of the report.
pub const FAULT: &str = "run-coreos-installer.fault";

/// A part that diagnoses can name, and its `hardwareInfo`.
type Hardware = (PartId, Value);

/// Returns the findings of `report` as the output of a run with this `command_line`.
pub fn lines(report: &Report, command_line: &str, time: SystemTime) -> String {
    let parts = hardware(report);
    let mut lines = Lines { text: String::new(), n: 0, time: rfc3339_ms(time) };
    lines.push("schemaVersion", json!({"major": 2, "minor": 0}));
    lines.run("testRunStart", start(report, &parts, command_line));
    for problem in &report.problems {
        let message = format!(
            "{}: {}: found {}, expected {}",
            problem.collector, problem.path, problem.found, problem.expected
        );
        lines.run("log", json!({"severity": "WARNING", "message": message}));
    }
    let mut has_passed = false;
    let mut is_partial = !report.kinds_without_data().is_empty();
    let mut known: Vec<&str> = STEPS.to_vec();
    for finding in &report.findings {
        if !known.contains(&finding.component.as_str()) {
            known.push(&finding.component);
        }
    }
    for (number, component) in known.into_iter().enumerate() {
        match step(&mut lines, number, component, report, &parts) {
            Step::Passed => has_passed = true,
            Step::Partial => is_partial = true,
            Step::Failed | Step::Skipped => {}
        }
    }
    let is_bad = report.findings.iter().any(|finding| finding.severity >= Severity::Warning);
    let result = match (is_bad, has_passed && !is_partial) {
        (true, _) => "FAIL",
        (false, true) => "PASS",
        // What was not read may be broken: a run that did not see it has not shown that the machine is sound.
        (false, false) => "NOT_APPLICABLE",
    };
    lines.run("testRunEnd", json!({"status": "COMPLETE", "result": result}));
    lines.text
}

/// The end of a step.
enum Step {
    /// A finding of it is at least a warning.
    Failed,
    /// It was read, and nothing is wrong.
    Passed,
    /// No findings, but some of it was unreadable.
    Partial,
    /// None of it was read.
    Skipped,
}

/// Writes one step.
fn step(lines: &mut Lines, n: usize, component: &str, report: &Report, parts: &[Hardware]) -> Step {
    let id = n.to_string();
    lines.step(&id, "testStepStart", json!({"name": component}));
    let findings: Vec<&Finding> =
        report.findings.iter().filter(|finding| finding.component == component).collect();
    let (bad, info): (Vec<&Finding>, Vec<&Finding>) =
        findings.iter().copied().partition(|finding| finding.severity >= Severity::Warning);
    for finding in info {
        let locator = finding.locator.as_ref().map(|part| format!(" {part}")).unwrap_or_default();
        let message =
            format!("{}{locator}: {}; {}", finding.code, finding.evidence, finding.advice);
        lines.step(&id, "log", json!({"severity": "INFO", "message": message}));
    }
    for finding in &bad {
        lines.step(&id, "diagnosis", diagnosis(finding, parts));
    }
    // The first evidence decided the class.
    let is_concluded = |fault: &&Fault| {
        fault.evidence.first().is_some_and(|first| bad.iter().any(|finding| first.is_of(finding)))
    };
    for fault in report.faults.iter().filter(is_concluded) {
        if let Some(content) = content(fault) {
            lines.step(&id, "extension", json!({"name": FAULT, "content": content}));
        }
    }
    let is_read = !findings.is_empty() || has_facts(report, component);
    let is_partial = || {
        let collectors = collectors(component);
        report.problems.iter().any(|problem| collectors.contains(&problem.collector.as_str()))
    };
    let step = match (is_read, bad.is_empty()) {
        (false, _) => Step::Skipped,
        (true, false) => Step::Failed,
        (true, true) if is_partial() => Step::Partial,
        (true, true) => Step::Passed,
    };
    match step {
        Step::Partial => lines.step(&id, "diagnosis",
            json!({"verdict": format!("{component}.read_in_part"), "type": "UNKNOWN",
                   "message": "nothing was found, but some data was unreadable; faults there may be missed"})),
        Step::Passed => lines.step(&id, "diagnosis",
            json!({"verdict": format!("{component}.no_finding"), "type": "PASS"})),
        Step::Failed | Step::Skipped => {}
    }
    lines.step(&id, "testStepEnd", json!({"status": if is_read { "COMPLETE" } else { "SKIP" }}));
    step
}

/// A fault in the form of the report; every fault has one.
fn content(fault: &Fault) -> Option<Value> {
    // By way of the text: a second serialiser of the type would make the program larger.
    serde_json::from_str(&serde_json::to_string_pretty(fault).ok()?).ok()
}

/// Returns true if any of its data was read. A section may be there with nothing known in it.
fn has_facts(report: &Report, component: &str) -> bool {
    let inventory = &report.inventory;
    match component {
        "identity" => !report.identity.is_empty(),
        "firmware" => inventory.bios.is_some() || has_data(inventory.firmware.as_ref()),
        "power" => inventory.smbios.is_some() || inventory.bmc.is_some(),
        "bmc" => inventory.bmc.is_some(),
        "os" => has_data(inventory.os.as_ref()),
        "cpu" => inventory.cpu.as_ref().is_some_and(|cpu| cpu.n_logical_cpus_online.is_some()),
        "memory" => inventory.memory.as_ref().is_some_and(|memory| memory.usable_bytes.is_some()),
        "disk" => inventory.block.as_ref().is_some_and(|block| block.n_disks.is_some()),
        "nic" => inventory.network.as_ref().is_some_and(|network| !network.interfaces.is_empty()),
        "pci" => inventory.pci.as_ref().is_some_and(|pci| pci.n_devices.is_some()),
        _ => false,
    }
}

fn has_data<T: Default + PartialEq>(section: Option<&T>) -> bool {
    section.is_some_and(|section| *section != T::default())
}

fn diagnosis(finding: &Finding, parts: &[Hardware]) -> Value {
    let severity = finding.severity.as_str();
    let message = format!("{severity}: {}; {}", finding.evidence, finding.advice);
    let mut diagnosis =
        json!({"verdict": finding.code.as_str(), "type": "FAIL", "message": message});
    if let Some(number) = named(parts, finding) {
        diagnosis["hardwareInfoId"] = part_id(number).into();
    }
    diagnosis
}

/// The part that the finding names.
fn named(parts: &[Hardware], finding: &Finding) -> Option<usize> {
    let part = finding.locator.as_ref()?;
    parts.iter().position(|(id, _)| id.is(part))
}

/// Describes a part by its identity, type and location, and by further keys.
fn described(id: PartId, kind: &str, location: Option<&str>, keys: Value) -> Hardware {
    let mut info = json!({"partType": kind, "name": id.to_string(), "location": location});
    if let (Value::Object(info), Value::Object(keys)) = (&mut info, keys) {
        info.extend(keys);
    }
    (id, known(info))
}

fn part_id(number: usize) -> String {
    format!("part-{number}")
}

/// The parts that the report lists, and those that only a finding names.
fn hardware(report: &Report) -> Vec<Hardware> {
    let mut all = modules(report);
    all.extend(disks(report));
    all.extend(ports(report));
    for finding in report.findings.iter().filter(|finding| finding.severity >= Severity::Warning) {
        if let (Some(part), None) = (&finding.locator, named(&all, finding)) {
            let text = part.to_string();
            all.push(described(part.clone(), &finding.component, Some(&text), Value::Null));
        }
    }
    for (number, (_, info)) in all.iter_mut().enumerate() {
        info["hardwareInfoId"] = part_id(number).into();
    }
    all
}

fn modules(report: &Report) -> Vec<Hardware> {
    let dimms = report.inventory.memory.as_ref().map_or(&[][..], |memory| &memory.dimms);
    let part = |(dimm, slot): (&Dimm, Option<PartId>)| {
        let keys = json!({
            "manufacturer": dimm.manufacturer, "serialNumber": dimm.serial,
            "manufacturerPartNumber": dimm.part_number,
        });
        Some(described(slot?, "DIMM", dimm.bank_locator.as_deref(), keys))
    };
    let slots = dimms.iter().zip(parts::dimms(dimms));
    slots.filter(|(dimm, _)| dimm.is_populated != Some(false)).filter_map(part).collect()
}

fn disks(report: &Report) -> Vec<Hardware> {
    let disks = report.inventory.block.iter().flat_map(|block| &block.disks);
    let part = |disk: &Disk| {
        let slot = |bay: &DiskBay| bay.label.clone().or(bay.slot.map(|slot| slot.to_string()));
        let bay = disk.bay.as_ref().and_then(slot);
        let keys = json!({
            "manufacturer": disk.vendor, "serialNumber": disk.serial,
            "manufacturerPartNumber": disk.model, "version": disk.firmware,
        });
        let location = bay.as_deref().or(disk.by_path.as_deref());
        described(PartId::new(PartKind::Disk, &disk.name), "disk", location, keys)
    };
    disks.map(part).collect()
}

fn ports(report: &Report) -> Vec<Hardware> {
    let ports = report.inventory.network.iter().flat_map(|network| &network.interfaces);
    let part = |port: &Interface| {
        let keys = json!({"serialNumber": port.permanent_mac, "version": port.firmware});
        let id = PartId::new(PartKind::Interface, &port.name);
        described(id, "network port", port.pci_address.as_deref(), keys)
    };
    ports.filter(|port| port.pci_address.is_some()).map(part).collect()
}

fn start(report: &Report, parts: &[Hardware], command_line: &str) -> Value {
    let inventory = &report.inventory;
    let software = |id: &str, name: Option<&str>, version: Option<&str>, kind: &str| {
        let name = name.unwrap_or(id);
        known(json!({
            "softwareInfoId": id, "name": name, "version": version, "softwareType": kind,
        }))
    };
    let bios = inventory.bios.as_ref();
    let os = inventory.os.as_ref();
    let firmware = bios.map(|bios| {
        software("firmware", bios.vendor.as_deref(), bios.version.as_deref(), "FIRMWARE")
    });
    let kernel = os.and_then(|os| os.kernel.as_deref());
    let kernel = kernel.map(|release| software("kernel", None, Some(release), "SYSTEM"));
    let product = inventory.product.as_ref();
    let model = product.map(|product| {
        let words = [product.vendor.as_deref(), product.name.as_deref()];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    });
    let software: Vec<Value> = firmware.into_iter().chain(kernel).collect();
    let hardware: Vec<&Value> = parts.iter().map(|(_, info)| info).collect();
    let mut dut =
        json!({"dutInfoId": report.node_id, "softwareInfos": software, "hardwareInfos": hardware});
    if let Some(model) = model.filter(|model| !model.is_empty()) {
        dut["platformInfos"] = json!([{"info": model}]);
    }
    if let Some(hostname) = os.and_then(|os| os.hostname.as_deref()) {
        dut["name"] = hostname.into();
    }
    json!({
        "name": report.agent.name,
        "version": report.agent.version,
        "commandLine": command_line,
        "parameters": {},
        "dutInfo": dut,
    })
}

/// The lines with their numbers.
struct Lines {
    text: String,
    n: u64,
    time: String,
}

impl Lines {
    fn push(&mut self, key: &str, value: Value) {
        let mut line = json!({"sequenceNumber": self.n, "timestamp": self.time});
        line[key] = value;
        self.n += 1;
        self.text.push_str(&compare::escaped_json(&line.to_string()));
        self.text.push('\n');
    }

    fn run(&mut self, key: &str, value: Value) {
        self.push("testRunArtifact", Value::from_iter([(key, value)]));
    }

    fn step(&mut self, id: &str, key: &str, value: Value) {
        self.push("testStepArtifact", Value::from_iter([("testStepId", id.into()), (key, value)]));
    }
}

#[cfg(test)]
mod tests {
    use probes::machine::Problem;

    use super::*;
    use crate::check::tests::{fault, finding, report_with};

    fn parsed(report: &Report) -> Vec<Value> {
        let text = lines(report, "run-coreos-installer check", SystemTime::UNIX_EPOCH);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The diagnoses, each as the step's name, type, verdict and part.
    fn diagnoses(lines: &[Value]) -> Vec<String> {
        let mut name = "";
        let diagnoses = lines.iter().filter_map(|line| {
            let step = &line["testStepArtifact"];
            name = step["testStepStart"]["name"].as_str().unwrap_or(name);
            let diagnosis = step.get("diagnosis")?;
            let of = |key: &str| diagnosis[key].as_str().unwrap_or_default();
            let [kind, verdict, part] = ["type", "verdict", "hardwareInfoId"].map(of);
            Some(format!("{name} {kind} {verdict} {part}").trim_end().to_owned())
        });
        diagnoses.collect()
    }

    /// The run's result.
    fn result(lines: &[Value]) -> &Value {
        &lines.last().unwrap()["testRunArtifact"]["testRunEnd"]["result"]
    }

    #[test]
    fn run_has_numbered_lines_between_its_start_and_its_end() {
        let lines = parsed(&report_with(Vec::new()));
        for (number, line) in lines.iter().enumerate() {
            assert_eq!(line["sequenceNumber"], number, "{line}");
            assert_eq!(line["timestamp"], "1970-01-01T00:00:00.000Z");
        }
        assert_eq!(lines[0]["schemaVersion"], json!({"major": 2, "minor": 0}));
        let start = &lines[1]["testRunArtifact"]["testRunStart"];
        assert_eq!(start["dutInfo"]["dutInfoId"], "n1");
        assert_eq!(start["version"], "1.2.3");
        let end = &lines.last().unwrap()["testRunArtifact"]["testRunEnd"];
        assert_eq!(*end, json!({"status": "COMPLETE", "result": "NOT_APPLICABLE"}));
        let skipped =
            lines.iter().filter(|l| l["testStepArtifact"]["testStepEnd"]["status"] == "SKIP");
        assert_eq!(skipped.count(), STEPS.len(), "no section was read");
    }

    #[test]
    fn failed_part_is_named_by_the_hardware_info_of_its_module() {
        let mut report = report_with(vec![
            finding("memory.ecc.uncorrectable", "memory", Some("A1")),
            finding("memory.lost", "memory", None),
            finding("disk.haunted", "disk", Some("sdq (serial 7)")),
            finding("new.kind", "robot", Some("arm")),
        ]);
        let dimms = json!([{"locator": "A10", "serial": "S10"}, {"locator": "A1", "serial": "S1"}]);
        report.inventory.memory = serde_json::from_value(json!({"dimms": dimms})).unwrap();
        let lines = parsed(&report);
        let expected = [
            "memory FAIL memory.ecc.uncorrectable part-1",
            "memory FAIL memory.lost",
            "disk FAIL disk.haunted part-2",
            "robot FAIL new.kind part-3",
        ];
        assert_eq!(diagnoses(&lines), expected);
        let infos = &lines[1]["testRunArtifact"]["testRunStart"]["dutInfo"]["hardwareInfos"];
        assert_eq!(infos[1]["serialNumber"], "S1");
        assert_eq!(infos[1]["hardwareInfoId"], "part-1");
        assert_eq!(infos[2]["name"], "sdq (serial 7)");
        assert_eq!(*result(&lines), "FAIL");
    }

    #[test]
    fn modules_of_one_name_are_distinguished_or_not_named() {
        let mut report = report_with(vec![
            finding("memory.ecc.uncorrectable", "memory", Some("A1 (NODE 1)")),
            finding("memory.lost", "memory", Some("A1")),
        ]);
        let dimm = |bank: &str| json!({"locator": "A1", "bank_locator": bank});
        let memory = json!({"dimms": [dimm("NODE 0"), dimm("NODE 1")]});
        report.inventory.memory = serde_json::from_value(memory).unwrap();
        let expected =
            ["memory FAIL memory.ecc.uncorrectable part-1", "memory FAIL memory.lost part-2"];
        assert_eq!(diagnoses(&parsed(&report)), expected);
    }

    #[test]
    fn fault_follows_the_diagnosis_from_which_it_was_concluded() {
        let mut report = report_with(vec![
            finding("memory.ecc.uncorrectable", "memory", Some("DIMM A1")),
            finding("disk.zero_size", "disk", Some("sda")),
        ]);
        report.faults = vec![fault("memory.ecc.uncorrectable", "DIMM A1")];
        let lines = parsed(&report);
        let at = |key: &str| lines.iter().position(|l| l["testStepArtifact"].get(key).is_some());
        let (diagnosis, extension) = (at("diagnosis").unwrap(), at("extension").unwrap());
        assert_eq!(extension, diagnosis + 1);
        let extension = &lines[extension]["testStepArtifact"]["extension"];
        assert_eq!(extension["name"], FAULT);
        assert_eq!(extension["content"]["suspects"][0]["certainty_percent"], 80);
        let n = lines.iter().filter(|l| l["testStepArtifact"].get("extension").is_some()).count();
        assert_eq!(n, 1);
    }

    #[test]
    fn part_that_could_not_be_read_is_not_said_to_pass() {
        let mut report = report_with(Vec::new());
        let pci = || serde_json::from_value(json!({"n_devices": 1, "devices": [{}]})).unwrap();
        report.inventory.memory = serde_json::from_value(json!({"usable_bytes": 1})).unwrap();
        report.inventory.pci = pci();
        report.problems.push(Problem {
            collector: "memory".to_owned(),
            path: "/proc/meminfo".to_owned(),
            found: "\"x\"".to_owned(),
            expected: "a number".to_owned(),
        });
        let mut unread = Report { problems: report.problems.clone(), ..report_with(Vec::new()) };
        unread.inventory.pci = pci();
        unread.problems[0].collector = "os".to_owned();
        let of_log = ["pci UNKNOWN pci.read_in_part"];
        assert_eq!(diagnoses(&parsed(&unread)), of_log, "the kernel log was not read");
        let lines = parsed(&report);
        let expected = ["memory UNKNOWN memory.read_in_part", "pci PASS pci.no_finding"];
        assert_eq!(diagnoses(&lines), expected);
        assert_eq!(lines[2]["testRunArtifact"]["log"]["severity"], "WARNING");
        assert_eq!(result(&lines), "NOT_APPLICABLE", "the memory may be broken");
        report.problems.clear();
        assert_eq!(result(&parsed(&report)), "PASS");
        report.inventory.block = Some(probes::block::Block::default());
        assert_eq!(result(&parsed(&report)), "NOT_APPLICABLE", "no disk was listed");
    }

    #[test]
    fn finding_that_is_only_worth_knowing_fails_nothing() {
        let mut info = finding("bmc.event_log", "bmc", Some("Fan 1"));
        info.severity = Severity::Info;
        let lines = parsed(&report_with(vec![info]));
        assert_eq!(diagnoses(&lines), ["bmc PASS bmc.no_finding"]);
        let log = lines.iter().find(|line| line["testStepArtifact"].get("log").is_some()).unwrap();
        let message = log["testStepArtifact"]["log"]["message"].as_str().unwrap();
        assert!(message.starts_with("bmc.event_log Fan 1: seen; "), "{message}");
        assert_eq!(*result(&lines), "PASS");
    }
}
