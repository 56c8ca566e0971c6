//! CPUs that are installed but do not run.

use super::{Finding, Severity, raise};
use crate::collect::Inventory;
use crate::cpu::{Cpu, Socket};
use crate::cpuset::CpuSet;
use crate::parts::{PartId, PartKind};

/// Installed CPUs that are not online.
pub(super) fn offline(inventory: &Inventory) -> Vec<Finding> {
    let Some(cpu) = &inventory.cpu else { return Vec::new() };
    let (Some(online), Some(present)) = (cpu.n_logical_cpus_online, cpu.n_logical_cpus_present)
    else {
        return Vec::new();
    };
    let standby = set(cpu.standby.as_ref()).unwrap_or_default();
    let present = present.saturating_sub(standby.len());
    if online >= present {
        return Vec::new();
    }
    let evidence = format!("{online} of {present} logical CPUs are online");
    let finding = raise("cpu.offline", missing(cpu, &standby), evidence);
    // The live image itself asks for `mitigations=auto,nosmt`: the machine is not at fault.
    let is_smt_off = matches!(cpu.smt_control.as_deref(), Some("off" | "forceoff"))
        && cpu.n_cores == Some(online)
        && most_threads(cpu).is_none_or(|most| present <= most.saturating_mul(online));
    if !is_smt_off {
        return vec![finding];
    }
    vec![Finding {
        severity: Severity::Info,
        evidence: format!("{}: SMT is off, each core runs one thread", finding.evidence),
        advice:
            "Nothing to repair: nosmt or mitigations=auto,nosmt on the kernel command line does \
                 this. The installed system has its own command line."
                .to_owned(),
        ..finding
    }]
}

fn set(text: Option<&String>) -> Option<CpuSet> {
    CpuSet::parse(text?).ok()
}

/// The CPUs that are present but not online. The kernel's own `offline` list also contains CPUs that
/// are not plugged in.
fn missing(cpu: &Cpu, standby: &CpuSet) -> Option<PartId> {
    let present = set(cpu.present.as_ref())?;
    let missing = present.difference(&set(cpu.online.as_ref())?).difference(standby);
    let part = PartId::new(PartKind::LogicalCpu, missing.to_string());
    (!missing.is_empty()).then_some(part)
}

/// The most threads of a core, according to the firmware. The kernel shows no core without an online
/// thread, so its own count would miss a core that is offline as a whole.
fn most_threads(cpu: &Cpu) -> Option<usize> {
    let of = |socket: &Socket| Some(socket.n_threads?.div_ceil(socket.n_cores?.max(1)));
    cpu.sockets.iter().filter_map(of).max().map(usize::from)
}

/// Processors that the firmware disabled after their self-test.
pub(super) fn failed(inventory: &Inventory) -> Vec<Finding> {
    let sockets = inventory.cpu.iter().flat_map(|cpu| &cpu.sockets);
    let failed =
        sockets.filter(|socket| socket.status.as_deref() == Some("disabled by a self-test error"));
    let evidence = "the firmware disabled the processor after its self-test";
    let part = |socket: &Socket| Some(PartId::called(PartKind::Socket, socket.locator.as_ref()?));
    failed.map(|socket| raise("cpu.self_test", part(socket), evidence)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_are_off_are_a_warning_unless_each_core_runs_one_thread_or_they_are_in_standby() {
        let (note, warning) = (Some(Severity::Info), Some(Severity::Warning));
        let cases = [
            // online, present, SMT, running cores, threads of the socket's 8 cores, CPUs in standby
            (4, 8, "off", 4, None, None, note),
            (4, 8, "forceoff", 4, None, None, note),
            (4, 8, "on", 4, None, None, warning),
            (4, 8, "off", 2, None, None, warning),
            (8, 16, "off", 8, Some(16), None, note),
            (7, 16, "off", 7, Some(16), None, warning),
            // A core may have three threads.
            (7, 16, "off", 7, None, None, note),
            (4, 8, "notsupported", 4, None, Some("4-7"), None),
            (3, 8, "notsupported", 3, None, Some("4-7"), warning),
        ];
        for (online, present, smt, n_cores, n_threads, standby, expected) in cases {
            let socket = Socket { n_cores: Some(8), n_threads, ..Socket::default() };
            let cpu = Cpu {
                n_logical_cpus_online: Some(online),
                n_logical_cpus_present: Some(present),
                n_cores: Some(n_cores),
                smt_control: Some(smt.to_owned()),
                standby: standby.map(str::to_owned),
                sockets: vec![socket],
                ..Cpu::default()
            };
            let found = offline(&Inventory { cpu: Some(cpu), ..Inventory::default() });
            let severity = found.first().map(|finding| finding.severity);
            assert_eq!(severity, expected, "{online} of {present}, {smt}: {found:?}");
            let n = if standby.is_some() { 4 } else { present };
            let start = format!("{online} of {n} logical CPUs are online");
            assert!(found.iter().all(|finding| finding.evidence.starts_with(&start)), "{found:?}");
        }
    }
}
