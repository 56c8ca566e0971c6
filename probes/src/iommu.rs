//! The IOMMU: `/sys/class/iommu` (`Documentation/ABI/testing/sysfs-class-iommu`) and
//! `/sys/kernel/iommu_groups` (`Documentation/ABI/testing/sysfs-kernel-iommu_groups`).

use formats::iort;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

const CLASS: &str = "sys/class/iommu";
const GROUPS: &str = "sys/kernel/iommu_groups";
const TABLES: &str = "sys/firmware/acpi/tables";

/// The restriction of device memory accesses.
#[serde_with::skip_serializing_none]
#[serde_with::apply(Vec => #[serde(skip_serializing_if = "Vec::is_empty")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Iommu {
    /// True if the kernel uses one; `None` if unknown.
    pub is_enabled: Option<bool>,
    /// Its units by kernel name, e.g. `dmar0`, `ivhd0`, `smmu3.0x0000000023400000`.
    pub units: Vec<String>,
    /// Number of device groups that it isolates.
    pub n_groups: Option<usize>,
    /// Memory access of the devices of the first group: `DMA`, `DMA-FQ` (translated) or `identity`
    /// (passed through). Groups normally share the default.
    pub default_domain: Option<String>,
    /// The firmware's table that describes it, e.g. `DMAR`, `IVRS`, `IORT`, `RIMT`: the hardware has one
    /// and the firmware enabled it, whatever the kernel does. An `IORT` without an SMMU describes none.
    pub acpi_table: Option<String>,
    /// Kernel arguments that configure it, e.g. `intel_iommu=on`.
    pub arguments: Vec<String>,
}

/// Reads the IOMMU's state; `None` without a sign of one.
pub fn iommu(machine: &Machine, command_line: &str) -> Option<Iommu> {
    let has_class = machine.names("sys/class").iter().any(|name| name == "iommu");
    let units = if has_class { machine.list(CLASS) } else { Vec::new() };
    let groups = machine.list(GROUPS);
    let tables = machine.names(TABLES);
    let iort = || machine.bytes(&format!("{TABLES}/IORT")).unwrap_or_default();
    let acpi_table = ["DMAR", "IVRS", "IORT", "RIMT"].into_iter().find(|name| {
        tables.iter().any(|table| table == name) && (*name != "IORT" || iort::has_smmu(&iort()))
    });
    let first = groups.first().map(|group| format!("{GROUPS}/{group}/type"));
    let iommu = Iommu {
        is_enabled: (has_class || !groups.is_empty())
            .then_some(!units.is_empty() || !groups.is_empty()),
        units,
        n_groups: Some(groups.len()).filter(|n| *n > 0),
        default_domain: first.and_then(|path| machine.text(&path)),
        acpi_table: acpi_table.map(str::to_owned),
        arguments: arguments(command_line),
    };
    (iommu != Iommu::default()).then_some(iommu)
}

fn arguments(command_line: &str) -> Vec<String> {
    const NAMES: &[&str] =
        &["iommu", "intel_iommu", "amd_iommu", "iommu.passthrough", "iommu.strict", "arm-smmu"];
    let known = formats::command_line::arguments(command_line)
        .filter(|argument| argument.value.is_some() && NAMES.contains(&argument.name));
    known.map(|argument| argument.written.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tree, tree_in, tree_of_bytes};

    #[test]
    fn iommu_in_use_has_units_and_groups() {
        let machine = tree_in(&[
            ("sys/class/iommu", &[("dmar1/uevent", ""), ("dmar0/uevent", "")]),
            ("sys/kernel/iommu_groups", &[("0/type", "DMA-FQ"), ("10/type", "DMA-FQ")]),
            ("sys/firmware/acpi/tables", &[("DMAR", "x")]),
        ]);
        let found = iommu(&machine, "ro intel_iommu=on quiet iommu=pt").unwrap();
        assert_eq!((found.is_enabled, found.n_groups), (Some(true), Some(2)));
        assert_eq!(found.units, ["dmar0", "dmar1"]);
        assert_eq!(found.default_domain.as_deref(), Some("DMA-FQ"));
        assert_eq!(found.arguments, ["intel_iommu=on", "iommu=pt"]);
    }

    #[test]
    fn iort_without_an_smmu_is_no_iommu() {
        // The header, the number of nodes and the place of the first, and a node of 8 bytes.
        let node = |kind: u8| [1, 0, 0, 0, 44, 0, 0, 0, kind, 8, 0, 0, 0, 0, 0, 0];
        let with = |kind| {
            let table = [&[0; 36][..], &node(kind)].concat();
            let machine = tree_of_bytes(&[("sys/firmware/acpi/tables/IORT", &table)]);
            iommu(&machine, "").and_then(|iommu| iommu.acpi_table)
        };
        assert_eq!((with(2), with(4).as_deref()), (None, Some("IORT")));
    }

    #[test]
    fn iommu_that_the_kernel_does_not_use_is_off_and_not_absent() {
        let machine =
            tree(&[("sys/class/iommu/x", "-> y"), ("sys/firmware/acpi/tables/IVRS", "x")]);
        assert_eq!(iommu(&machine, "").unwrap().units, ["x"]);
        let off = tree(&[("sys/firmware/acpi/tables/IVRS", "x"), ("sys/class/net/lo/mtu", "1\n")]);
        let off = iommu(&off, "amd_iommu=off").unwrap();
        assert_eq!((off.acpi_table.as_deref(), off.is_enabled), (Some("IVRS"), None));
        assert_eq!(iommu(&tree(&[("sys/class/net/lo/mtu", "1\n")]), "quiet"), None);
    }
}
