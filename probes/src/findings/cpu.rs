//! CPUs: present and not running.

use super::{Finding, Severity};
use crate::collect::Inventory;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Cpu;

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
