//! Findings about the machine: each check is a function, listed in [`CHECKS`]; the meaning of its findings is in the
//! table of [`rows`], `data/findings.txt`.

mod balance;
mod bmc;
mod cpu;
mod disk;
mod disk_health;
mod earlier_boot;
mod kernel;
mod memory;
mod nic;
mod pci;
mod platform;
mod raid;
mod table;

pub use disk_health::of_unreadable;
pub(crate) use nic::physical as physical_ports;
pub(crate) use pci::card;
use table::raise;
pub use table::{FindingCode, Row, nearest_code, row, rows};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::collect::Inventory;
use crate::parts::PartId;

/// The severity of a finding.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    #[default]
    Info,
    /// Needs attention, but does not stop an install.
    Warning,
    /// Stops an install unless the VIM allows it.
    Critical,
}

impl Severity {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }

    /// The severity with this word.
    fn of(word: &str) -> Option<Severity> {
        serde_json::from_value(word.into()).ok()
    }
}

/// Something wrong or unusual, and the part that a technician would check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable code, e.g. `memory.ecc.uncorrectable`; `explain` and docs/findings.md describe each.
    pub code: FindingCode,
    /// The severity.
    pub severity: Severity,
    /// The kind of part: `cpu`, `memory`, `disk`, `nic`, `pci`, `firmware`, `identity`, `power`, `bmc`,
    /// `os`.
    pub component: String,
    /// The part: slot, locator, serial, bay, kernel name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub locator: Option<PartId>,
    /// The observation, with figures.
    pub evidence: String,
    /// The next step for people.
    pub advice: String,
    /// The record of the source, for the evidence of a fault: the first message of the kernel log. Not reported.
    #[serde(skip)]
    pub raw: Option<String>,
    /// The name that the memory controller's driver has for the part, which is printed nowhere. Not reported.
    #[serde(skip)]
    pub driver_label: Option<String>,
}

impl Finding {
    /// The part as text, empty if the finding is about the machine.
    pub fn part(&self) -> String {
        self.locator.as_ref().map(PartId::to_string).unwrap_or_default()
    }
}

/// The hypervisor of a guest; `None` on bare metal, or if nothing shows one.
fn hypervisor(inventory: &Inventory) -> Option<&str> {
    let virtualization = inventory.os.as_ref().and_then(|os| os.virtualization.as_deref());
    virtualization.filter(|name| *name != "none")
}

/// A code, and what is observed of a part that has it.
type Observation<T> = (&'static str, fn(&T) -> Option<String>);

/// A finding about each part that `observed` describes.
fn of_each<T: Copy>(
    parts: impl IntoIterator<Item = T>,
    code: &'static str,
    id: impl Fn(T) -> PartId,
    observed: impl Fn(T) -> Option<String>,
) -> Vec<Finding> {
    let finding = |part| Some(raise(code, Some(id(part)), observed(part)?));
    parts.into_iter().filter_map(finding).collect()
}

/// The collectors that read the facts of findings about a component. `os` reads the kernel log, and `bmc` the event log
/// that names modules.
pub fn collectors(component: &str) -> &'static [&'static str] {
    match component {
        "identity" => &["dmi", "smbios", "network", "bmc"],
        "firmware" => &["dmi", "smbios", "firmware", "devices", "os"],
        "power" => &["smbios", "bmc", "bmc_telemetry"],
        "bmc" => &["bmc", "bmc_telemetry"],
        "os" => &["os"],
        "cpu" => &["cpu", "smbios", "os"],
        "memory" => &["memory", "smbios", "os", "bmc", "bmc_telemetry", "cpu", "topology"],
        "disk" => &["block", "raid", "os"],
        "nic" => &["network", "module", "os"],
        "pci" => &["pci", "os"],
        _ => &[],
    }
}

/// A check of the whole inventory.
pub type Check = fn(&Inventory) -> Vec<Finding>;

/// All checks, in report order.
pub const CHECKS: &[Check] = &[
    platform::suspicious,
    platform::placeholders,
    platform::container,
    platform::power_supplies,
    platform::last_start,
    earlier_boot::boot_errors,
    earlier_boot::crashes,
    platform::machine_check,
    platform::clock,
    bmc::sensors,
    bmc::events,
    bmc::full_log,
    bmc::silent,
    cpu::offline,
    cpu::failed,
    memory::ecc,
    memory::firmware_error,
    memory::nvdimm,
    memory::mismatch,
    memory::lost,
    balance::uneven,
    disk::none_eligible,
    disk::zero_size,
    disk_health::unreadable,
    disk::duplicate_identity,
    disk_health::health,
    disk_health::locked,
    disk_health::path_lost,
    disk_health::degraded_array,
    raid::failed_drive,
    raid::drives_of_controllers,
    raid::volume,
    raid::memory,
    nic::no_carrier,
    nic::duplicate_mac,
    nic::links,
    nic::firmware_lldp,
    pci::link,
    pci::aer,
    pci::no_response,
    kernel::messages,
];

/// Runs every check. Findings are sorted by severity, worst first, then in the order of the checks.
pub fn findings(inventory: &Inventory) -> Vec<Finding> {
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(inventory)).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_sorted_by_severity() {
        let inventory = serde_json::json!({
            "os": {"container": "podman"},
            "memory": {"ecc": [
                {"name": "mc0/dimm0", "correctable": 1},
                {"name": "mc0/dimm1", "correctable": 1, "uncorrectable": 2},
            ]},
        });
        let found = findings(&serde_json::from_value(inventory).unwrap());
        let codes: Vec<&str> = found.iter().map(|finding| finding.code.as_str()).collect();
        let expected = ["memory.ecc.uncorrectable", "memory.ecc.correctable", "os.container"];
        assert_eq!(codes, expected);
    }
}
