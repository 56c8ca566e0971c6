//! CPUs: present and not running.

use super::{Finding, Severity};
use crate::collect::Inventory;
use crate::cpu::Socket;

/// CPUs that are plugged in and not online.
pub(super) fn offline(inventory: &Inventory) -> Vec<Finding> {
    let Some(cpu) = &inventory.cpu else { return Vec::new() };
    let (Some(online), Some(present)) = (cpu.n_logical_cpus_online, cpu.n_logical_cpus_present)
    else {
        return Vec::new();
    };
    if online >= present {
        return Vec::new();
    }
    vec![Finding {
        code: "cpu.offline".to_owned(),
        severity: Severity::Warning,
        component: "cpu".to_owned(),
        locator: cpu.offline.clone().filter(|offline| !offline.is_empty()),
        evidence: format!("{online} of {present} logical CPUs are online"),
        advice: "look for nosmt, maxcpus or isolation on the kernel command line, then in the \
                 firmware's log"
            .to_owned(),
    }]
}

/// Processors that the firmware took out of service after their self-test (SMBIOS type 4).
pub(super) fn failed(inventory: &Inventory) -> Vec<Finding> {
    let sockets = inventory.cpu.iter().flat_map(|cpu| &cpu.sockets);
    let failed =
        sockets.filter(|socket| socket.status.as_deref() == Some("disabled by a self-test error"));
    let finding = |socket: &Socket| Finding {
        code: "cpu.self_test".to_owned(),
        severity: Severity::Critical,
        component: "cpu".to_owned(),
        locator: socket.locator.clone(),
        evidence: "the firmware disabled the processor after its self-test".to_owned(),
        advice: "reseat the processor and look at its pins; if it stays, replace it".to_owned(),
    };
    failed.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Cpu;

    #[test]
    fn a_processor_that_failed_its_self_test_is_critical_and_one_that_the_user_disabled_is_none() {
        let with = |status: &str| {
            let socket = Socket { status: Some(status.to_owned()), ..Socket::default() };
            let cpu = Cpu { sockets: vec![socket], ..Cpu::default() };
            failed(&Inventory { cpu: Some(cpu), ..Inventory::default() })
        };
        assert_eq!(with("disabled by a self-test error")[0].severity, Severity::Critical);
        assert!(with("disabled by the user").is_empty());
    }

    #[test]
    fn offline_cpus_are_found_and_pluggable_ones_are_not() {
        let with = |online, present| Inventory {
            cpu: Some(Cpu {
                n_logical_cpus_online: Some(online),
                n_logical_cpus_present: Some(present),
                n_logical_cpus_possible: Some(128),
                ..Cpu::default()
            }),
            ..Inventory::default()
        };
        assert_eq!(offline(&with(4, 8)).len(), 1);
        assert!(offline(&with(8, 8)).is_empty());
    }
}
