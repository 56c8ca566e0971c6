//! The report for people, in the shape of the VIM document's example: a rule and a heading for each
//! section, a line for each part, indented below its parent.

mod block;
mod cpu;
mod devices;
mod faults;
mod left_out;
mod management;
mod memory;
mod network;
mod page;
mod pci;
mod platform;
mod raid;
mod topology;
mod unit;

use probes::cpuset::CpuSet;
use probes::faults::Fault;
use probes::findings::{Finding, Severity};
use probes::firmware::Firmware;
use probes::live::Live;

use crate::machine_name::machine_name;
use crate::report::Report;
pub use left_out::left_out;
use page::{Page, Tone, counted, with};
pub(crate) use unit::disk as disk_size;

/// Wraps `paragraph` into lines of at most `width` characters, indented by `indent`; a longer word gets its own line.
pub(crate) fn wrapped(paragraph: &str, indent: usize, width: usize) -> String {
    formats::text::wrapped(paragraph, &" ".repeat(indent), width)
}

/// The whole report as text.
pub fn text(report: &Report, is_colored: bool) -> String {
    let mut page = Page::new(is_colored);
    let inventory = &report.inventory;
    page.each(&inventory.cpu, cpu::cpu);
    page.each(&inventory.memory, memory::memory);
    page.each(&inventory.block, block::block);
    page.each(&inventory.topology, |page, topology| {
        topology::topology(page, topology, |cpus| n_cores(report, cpus));
    });
    page.each(&inventory.network, network::network);
    page.each(&inventory.local_addresses, network::local_addresses);
    page.each(&inventory.pci, pci::pci);
    page.each(&inventory.gpu, |page, gpu| pci::gpu(page, gpu, inventory.pci.as_ref()));
    page.each(&inventory.devices, devices::devices);
    platform::platform(&mut page, inventory);
    identity(&mut page, report);
    page.each(&report.live, moment);
    faults::faults(&mut page, &report.faults);
    write_findings(&mut page, report);
    page.into_text()
}

/// Prints the machine's name, then only faults, findings and problems. `only` are the requested sections; all if
/// empty.
pub fn findings(report: &Report, only: &[String], is_colored: bool) -> String {
    let mut page = Page::new(is_colored);
    let name = machine_name(report.machine.as_ref(), &report.node_id).replace('\n', ", ");
    page.line(0, &format!("machine: {name}"));
    faults::faults(&mut page, &report.faults);
    write_findings(&mut page, report);
    // `inspect` shows the empty sections; here no finding would look like a sound part.
    let missing = report.kinds_without_data();
    if !missing.is_empty() {
        page.section("not found");
        page.toned(Tone::Quiet, 1, &format!("nothing was found about {}", missing.join(", ")));
    }
    if let Some(note) = left_out(only) {
        page.toned(Tone::Quiet, 1, &note);
    }
    page.into_text()
}

/// Counts the cores with a logical CPU in `cpus`; `None` if no core is known.
fn n_cores(report: &Report, cpus: &CpuSet) -> Option<usize> {
    let packages = report.inventory.cpu.iter().flat_map(|cpu| &cpu.packages);
    let cores = packages.flat_map(|package| &package.cores);
    let sets = cores.filter_map(|core| CpuSet::parse(&core.logical_cpus).ok());
    let sets: Vec<CpuSet> = sets.collect();
    let has_one = |set: &&CpuSet| !set.intersection(cpus).is_empty();
    (!sets.is_empty()).then(|| sets.iter().filter(has_one).count())
}

fn identity(page: &mut Page, report: &Report) {
    if report.identity.is_empty() {
        return;
    }
    page.section(&format!("identity node={}", report.node_id));
    for identifier in &report.identity {
        let line = format!("{} {}", identifier.kind, identifier.value);
        match &identifier.suspicious {
            Some(why) => page.toned(Tone::Warning, 1, &format!("{line} suspicious: {why}")),
            None => page.line(1, &line),
        }
    }
}

fn moment(page: &mut Page, live: &Live) {
    let load = live.load.map(|load| {
        format!("{:.2},{:.2},{:.2}", load.one_minute, load.five_minutes, load.fifteen_minutes)
    });
    let facts = [
        with(" uptime=", live.uptime_s.map(|seconds| format!("{seconds}s"))),
        with(" load=", load),
        with(" available-memory=", live.available_memory_bytes.map(unit::memory)),
        with(" agent-peak-memory=", live.agent_peak_memory_bytes.map(unit::memory)),
        with(" agent-cpu-time=", live.agent_cpu_time_ms.map(|ms| format!("{ms}ms"))),
    ];
    page.facts("live", &facts.concat(), |_| {});
}

fn write_findings(page: &mut Page, report: &Report) {
    let count = |severity| report.findings.iter().filter(|f| f.severity == severity).count();
    page.section(&format!(
        "findings ({} critical, {}, {} info)",
        count(Severity::Critical),
        counted(count(Severity::Warning), "warning"),
        count(Severity::Info)
    ));
    page.each(&report.findings, |page, entry| finding(page, entry, &report.faults));
    if let Some(note) = report.inventory.firmware.as_ref().and_then(firmware_note) {
        page.toned(Tone::Quiet, 1, &note);
    }
    if report.problems.is_empty() {
        return;
    }
    page.section(&format!("not read ({})", report.problems.len()));
    for problem in &report.problems {
        let line = format!(
            "{}: {}: found {}, expected {}",
            problem.collector, problem.path, problem.found, problem.expected
        );
        page.toned(Tone::Quiet, 1, &line);
    }
}

/// Names the errors that the kernel may not count, so their absence means little.
fn firmware_note(firmware: &Firmware) -> Option<String> {
    let kinds = firmware.firmware_first.as_ref()?;
    let names: Vec<String> = kinds.iter().map(|kind| kind.replace('_', " ")).collect();
    let names = names.join(", ").replace("pci express", "PCI Express");
    let note = format!(
        "The firmware handles these errors first, and the kernel may not count them: {names}. Check the BMC's event log."
    );
    (!names.is_empty()).then_some(note)
}

/// Returns the highlight and the word for a severity.
fn severity(severity: Severity) -> (Tone, &'static str) {
    let tone = match severity {
        Severity::Critical => Tone::Critical,
        Severity::Warning => Tone::Warning,
        Severity::Info => Tone::Plain,
    };
    (tone, severity.as_str())
}

/// Prints a finding. If a fault above quotes it, only the code and the place are repeated.
fn finding(page: &mut Page, finding: &Finding, faults: &[Fault]) {
    let (tone, word) = severity(finding.severity);
    let locator = with(" ", finding.locator.as_ref());
    if faults.iter().any(|fault| fault.is_shown_by(finding)) {
        page.toned(tone, 1, &format!("{word} {}{locator}, see faults", finding.code));
        return;
    }
    page.toned(tone, 1, &format!("{word} {}{locator}: {}", finding.code, finding.evidence));
    page.line(3, &finding.advice);
}

#[cfg(test)]
mod tests {
    use super::*;
    use probes::pci::Pci;
    use serde_json::json;

    #[test]
    fn the_section_live_shows_only_what_is_known() {
        let text = |live| page::tests::shown(moment, live);
        assert_eq!(text(json!({})), "");
        let load = json!({"one_minute": 0.5, "five_minutes": 1.0, "fifteen_minutes": 2.25});
        let live = json!({"uptime_s": 61, "load": load, "agent_cpu_time_ms": 7});
        let expected = "#\nlive uptime=61s load=0.50,1.00,2.25 agent-cpu-time=7ms\n";
        assert!(text(live.clone()).ends_with(expected), "{}", text(live));
    }

    #[test]
    fn errors_that_the_kernel_may_not_count_are_noted() {
        let note = |kinds: &[&str]| {
            let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
            firmware_note(&Firmware { firmware_first: Some(kinds), ..Firmware::default() })
        };
        let text = note(&["corrected_machine_check", "pci_express"]).unwrap_or_default();
        assert!(text.contains(": corrected machine check, PCI Express."), "{text}");
        assert_eq!((note(&[]), firmware_note(&Firmware::default())), (None, None));
    }

    #[test]
    fn a_heading_counts_only_what_is_known() {
        let none = json!({});
        let topology = |page: &mut Page, topology: &_| topology::topology(page, topology, |_| None);
        let text = [
            page::tests::shown(cpu::cpu, json!({"packages": [{"id": 0}]})),
            page::tests::shown(memory::memory, none.clone()),
            page::tests::shown(topology, none.clone()),
            page::tests::shown(topology, json!({"nodes": [{"cpus": "0-3"}]})),
            page::tests::shown(pci::pci, none.clone()),
            page::tests::shown(|page, gpu| pci::gpu(page, gpu, Some(&Pci::default())), none),
        ]
        .concat();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            "cpu",
            " physical package #0",
            "memory",
            "topology",
            "topology (1 node)",
            " node #0",
            "PCI",
            "gpu",
        ];
        assert_eq!(lines, expected);
    }
}
