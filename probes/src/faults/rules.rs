//! Findings that are signs of a fault, the cause that each suggests, and its certainty.
//!
//! The certainties are estimates: a part that reports its own failure is nearly certain, a symptom that a
//! cable, a slot or firmware can cause as well is not, and a log entry may be older than the last repair.

use super::parts::Parts;
use crate::findings::Finding;

/// Signs join into one fault only within a group: a hot disk is not a broken one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    /// A part is broken or is failing.
    Broken,
    /// Heat or too little cooling.
    Heat,
    /// A cable, a module or the other end of a link.
    Link,
    /// Parts that do not fit each other, or that are not where they should be.
    Setup,
}

/// Suspects of a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// The part that the finding's locator names.
    Named,
    /// The DIMMs that the check suspects, or else all of them.
    Dimms,
    /// All processors.
    Processors,
    /// The named card, and the slot or riser that it is in.
    CardAndSlot,
    /// The module or cable of the named port, and its card.
    PortAndModule,
    /// This part of the machine.
    Only(&'static str),
    /// No part is known.
    Nothing,
}

/// The cause that one code suggests.
#[derive(Debug)]
pub(super) struct Rule {
    code: &'static str,
    pub(super) class: &'static str,
    pub(super) source: &'static str,
    pub(super) group: Group,
    pub(super) certainty: u8,
    who: Who,
}

use Group::{Broken, Heat, Link, Setup};
use Who::{CardAndSlot, Dimms, Named, Nothing, Only, PortAndModule, Processors};

/// A row of [`RULES`]: code, class, source, group, certainty in percent, suspects.
const fn row(
    code: &'static str,
    class: &'static str,
    source: &'static str,
    group: Group,
    certainty: u8,
    who: Who,
) -> Rule {
    Rule { code, class, source, group, certainty, who }
}

const EVENT_LOG: &str = "system event log";
const KERNEL_LOG: &str = "kernel log";
const LOAD: &str = "test under load";
const RAID: &str = "RAID controller";

static RULES: &[Rule] = &[
    row("memory.ecc.uncorrectable", "memory.dimm.uncorrectable", "EDAC", Broken, 90, Dimms),
    row("memory.ecc.correctable", "memory.dimm.correctable", "EDAC", Broken, 60, Dimms),
    row("memory.event_log", "memory.dimm.errors", EVENT_LOG, Broken, 50, Dimms),
    row("memory.firmware_error", "memory.dimm.errors", "SMBIOS", Broken, 70, Dimms),
    row("memory.nvdimm.failed", "memory.nvdimm.failed", "NFIT", Broken, 90, Named),
    row("memory.wrong_content", "memory.dimm.wrong_content", LOAD, Broken, 70, Dimms),
    row("memory.dimm.mismatch", "memory.setup.mismatch", "SMBIOS", Setup, 60, Dimms),
    row("memory.lost", "memory.dimm.missing", "SMBIOS and kernel", Broken, 60, Dimms),
    row("memory.unbalanced", "memory.setup.unbalanced", "kernel", Setup, 30, Nothing),
    row("disk.health.failing", "disk.failing", "disk health", Broken, 95, Named),
    row("disk.health.bad_sectors", "disk.media", "disk health", Broken, 85, Named),
    row("disk.health.worn", "disk.worn", "disk health", Broken, 90, Named),
    row("disk.health.hot", "disk.hot", "disk health", Heat, 40, Named),
    row("disk.late_commands", "disk.timeouts", "disk health", Broken, 50, Named),
    row("disk.path_lost", "disk.path", "kernel", Link, 30, Named),
    row("disk.zero_size", "disk.no_capacity", "kernel", Broken, 70, Named),
    row("disk.unreadable", "disk.media", "kernel", Broken, 70, Named),
    row("disk.array_degraded", "disk.array_degraded", "kernel", Broken, 50, Named),
    row("disk.raid_drive_failed", "disk.failed", RAID, Broken, 95, Named),
    row("disk.raid_drive_failing", "disk.failing", RAID, Broken, 90, Named),
    row("disk.raid_drive_errors", "disk.media", RAID, Broken, 80, Named),
    row("disk.raid_volume_degraded", "disk.array_degraded", RAID, Broken, 50, Nothing),
    row("disk.raid_volume_offline", "disk.array_offline", RAID, Broken, 50, Nothing),
    row("disk.raid_memory_errors", "disk.controller.memory", RAID, Broken, 80, Named),
    row("disk.link_errors", "disk.link.errors", "kernel", Link, 30, Named),
    row("nic.link_errors", "nic.link.errors", "kernel", Link, 70, PortAndModule),
    row("nic.speed", "nic.link.slow", "kernel", Link, 60, PortAndModule),
    row("nic.module_alarm", "nic.module.alarm", "module", Link, 80, PortAndModule),
    row("nic.half_duplex", "nic.link.half_duplex", "kernel", Link, 60, PortAndModule),
    row("pci.link.width", "pci.link.width", "PCI Express link", Broken, 80, CardAndSlot),
    row("pci.aer.correctable", "pci.link.errors", "PCI Express AER", Broken, 60, CardAndSlot),
    row("pci.no_response", "pci.device.lost", "PCI Express link", Broken, 80, CardAndSlot),
    row("pci.aer.fatal", "pci.device.fatal", "PCI Express AER", Broken, 70, Named),
    row("pci.aer.nonfatal", "pci.device.errors", "PCI Express AER", Broken, 60, Named),
    row("cpu.self_test", "cpu.failed", "SMBIOS", Broken, 95, Named),
    row("cpu.wrong_result", "cpu.wrong_result", LOAD, Broken, 90, Named),
    row("cpu.offline", "cpu.offline", "kernel", Broken, 50, Processors),
    row("cpu.machine_check", "cpu.machine_check", "kernel", Broken, 50, Processors),
    row("power.supply", "power.supply", "firmware or BMC", Broken, 85, Named),
    row("disk.kernel_errors", "disk.errors", KERNEL_LOG, Broken, 60, Named),
    row("memory.kernel_errors", "memory.dimm.errors", KERNEL_LOG, Broken, 60, Dimms),
    row("cpu.kernel_errors", "cpu.machine_check", KERNEL_LOG, Broken, 60, Named),
    row("cpu.thermal", "cpu.thermal", KERNEL_LOG, Heat, 40, Named),
    row("cpu.throttled", "cpu.thermal", "kernel", Heat, 60, Named),
    row("pci.kernel_errors", "pci.device.errors", KERNEL_LOG, Broken, 60, Named),
    row("nic.kernel_errors", "nic.errors", KERNEL_LOG, Broken, 50, Named),
    row("os.lockup", "system.lockup", KERNEL_LOG, Broken, 30, Nothing),
    row("bmc.sensor", "sensor.threshold", "BMC sensor", Broken, 60, Named),
    row("bmc.event_log", "sensor.event", EVENT_LOG, Broken, 30, Named),
    row("bmc.silent", "bmc.silent", "SMBIOS", Broken, 60, Only("BMC")),
    row("firmware.boot_status", "system.boot_failure", "SMBIOS", Broken, 30, Nothing),
    row("firmware.boot_error", "system.boot_error", "BERT", Broken, 50, Named),
    row("os.earlier_crash", "system.crash", "pstore", Broken, 30, Nothing),
    row("firmware.watchdog_reset", "system.watchdog_reset", "watchdog", Broken, 30, Nothing),
    row("firmware.clock", "system.clock", "clock", Setup, 60, Only("battery of the clock")),
];

/// The rule of a finding; `None` if it is not a sign of a fault.
pub(super) fn rule(finding: &Finding) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.code == finding.code.as_str())
}

/// The codes of the findings from which a fault of `class` is concluded; none if the class does not exist.
pub fn codes_of(class: &str) -> impl Iterator<Item = &'static str> {
    RULES.iter().filter(move |rule| rule.class == class).map(|rule| rule.code)
}

impl Rule {
    /// The parts that `finding` makes suspect.
    pub(super) fn suspects(&self, finding: &Finding, parts: &mut Parts) -> Vec<(usize, u8)> {
        match self.who {
            Named => shared(parts.named(finding), self.certainty),
            Dimms => shared(parts.dimms(finding), self.certainty),
            Processors => shared(parts.processors(), self.certainty),
            Only(name) => shared(vec![parts.other(name, None)], self.certainty),
            Nothing => Vec::new(),
            CardAndSlot => {
                let slot = parts.slot_of(finding);
                weighed(parts.named(finding), slot, self.certainty)
            }
            PortAndModule => {
                let module = parts.module_of(finding);
                let card = parts.named(finding);
                match module {
                    Some(module) => weighed(vec![module], card.first().copied(), self.certainty),
                    // Most likely the cable or the switch port, and neither is known here.
                    None => shared(card, self.certainty / 2),
                }
            }
        }
    }
}

/// Equal shares for parts that nothing distinguishes.
fn shared(parts: Vec<usize>, certainty: u8) -> Vec<(usize, u8)> {
    let n = u8::try_from(parts.len()).unwrap_or(u8::MAX).max(1);
    parts.into_iter().map(|part| (part, (certainty / n).max(1))).collect()
}

/// Two thirds for the most likely parts, one third for the other part.
fn weighed(likely: Vec<usize>, other: Option<usize>, certainty: u8) -> Vec<(usize, u8)> {
    let Some(other) = other.filter(|part| !likely.contains(part)) else {
        return shared(likely, certainty);
    };
    let third = certainty / 3;
    let mut all = shared(likely, certainty - third);
    all.push((other, third));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::rows;

    #[test]
    fn every_rule_names_a_known_code_once() {
        for (at, rule) in RULES.iter().enumerate() {
            assert!(rows().any(|row| row.code() == rule.code), "{}", rule.code);
            assert!(RULES[..at].iter().all(|other| other.code != rule.code), "{}", rule.code);
            assert!((1..100).contains(&rule.certainty), "{}", rule.code);
        }
    }

    #[test]
    fn every_warning_is_a_sign_of_a_fault_or_says_nothing_about_a_part() {
        use crate::findings::Severity;
        let no_fault = [
            "disk.duplicate_identity",
            "disk.locked",
            "disk.none_eligible",
            "disk.raid_drive_foreign",
            "bmc.event_log.full",
            "nic.duplicate_mac",
            "os.clock_skew",
            "nic.firmware_lldp",
        ];
        // An expectation says what the owner wants, not what is broken.
        let of_hardware = rows().filter(|row| !row.code().starts_with("expectation."));
        for row in of_hardware.filter(|row| row.severities().any(|s| s >= Severity::Warning)) {
            let is_sign = RULES.iter().any(|rule| rule.code == row.code());
            assert_ne!(is_sign, no_fault.contains(&row.code()), "{}", row.code());
        }
    }
}
