//! Error counts: `/sys/devices/system/edac/mc` (`Documentation/admin-guide/ras.rst`).

use super::{Dimm, EccCount, Memory};
use crate::machine::Machine;

const MC: &str = "sys/devices/system/edac/mc";

/// The counts for every DIMM or rank, and for errors that the controller does not assign to any; the counts for the
/// whole controller if its driver does not list DIMMs.
pub(super) fn counts(machine: &Machine) -> Vec<EccCount> {
    let mut counts = Vec::new();
    for controller in numbered(machine, MC, &["mc"]) {
        let dir = format!("{MC}/{controller}");
        let before = counts.len();
        let name = machine.text(&format!("{dir}/mc_name"));
        let mut mode = None;
        for dimm in numbered(machine, &dir, &["dimm", "rank"]) {
            let path = |name: &str| format!("{dir}/{dimm}/{name}");
            let size_mib: Option<u64> = machine.number(&path("size"));
            // All modules of a controller have the same mode, so that of the first is read.
            mode = mode.or_else(|| machine.text(&path("dimm_edac_mode")));
            counts.push(EccCount {
                location: machine.text(&path("dimm_location")).map(|text| text.trim().to_owned()),
                controller: name.clone(),
                mode: mode.clone(),
                label: machine.text(&path("dimm_label")).map(|label| label.trim().to_owned()),
                size_bytes: size_mib.and_then(|size| size.checked_mul(1 << 20)),
                correctable: machine.count(&path("dimm_ce_count")),
                uncorrectable: machine.count(&path("dimm_ue_count")),
                name: format!("{controller}/{dimm}"),
            });
        }
        let count = |name: &str| machine.count::<u64>(&format!("{dir}/{name}"));
        // Errors without a location are in no DIMM's count. `ue_noinfo_count` is not all of these: kernels differ in
        // where they count errors of a location that is known in part (`edac_inc_ue_error`, `drivers/edac/edac_mc.c`).
        let of_dimms = counts.get(before..).unwrap_or_default();
        let has_dimms = !of_dimms.is_empty();
        let without = |total: Option<u64>, of_dimm: fn(&EccCount) -> Option<u64>| {
            let located = of_dimms.iter().filter_map(of_dimm).fold(0, u64::saturating_add);
            total.map(|total| total.saturating_sub(located))
        };
        let correctable = without(count("ce_count"), |dimm| dimm.correctable)
            .or_else(|| count("ce_noinfo_count"));
        let uncorrectable = without(count("ue_count"), |dimm| dimm.uncorrectable)
            .or_else(|| count("ue_noinfo_count"));
        let is_above_zero = [correctable, uncorrectable].into_iter().flatten().any(|n| n > 0);
        if !has_dimms || is_above_zero {
            counts.push(EccCount {
                name: controller,
                controller: name,
                correctable,
                uncorrectable,
                ..Default::default()
            });
        }
    }
    counts
}

/// Names in `dir` that consist of one of `prefixes` and a number.
fn numbered(machine: &Machine, dir: &str, prefixes: &[&str]) -> Vec<String> {
    let is_numbered = |name: &String| {
        let mut rests = prefixes.iter().filter_map(|prefix| name.strip_prefix(prefix));
        rests.any(|rest| rest.parse::<u32>().is_ok())
    };
    machine.list(dir).into_iter().filter(is_numbered).collect()
}

/// Adds each row's counts to the DIMM in the slot that its label names.
pub(super) fn assign(memory: &mut Memory) {
    for count in &memory.ecc {
        let Some(index) = slot_of(count, &memory.dimms) else { continue };
        let Some(dimm) = memory.dimms.get_mut(index) else { continue };
        dimm.ecc_correctable = add(dimm.ecc_correctable, count.correctable);
        dimm.ecc_uncorrectable = add(dimm.ecc_uncorrectable, count.uncorrectable);
    }
}

/// The index of the slot that the label of `count` names, if that is certain. Labels that a driver composes from its
/// own numbers match nothing, and so does the name of a slot whose module is smaller than the memory that the driver
/// counts.
pub(crate) fn slot_of(count: &EccCount, dimms: &[Dimm]) -> Option<usize> {
    let index = slot_named(count.label.as_ref()?, dimms)?;
    let module = dimms.get(index)?.size_bytes;
    let fits = count.size_bytes.zip(module).is_none_or(|(counted, module)| counted <= module);
    fits.then_some(index)
}

/// The index of the only slot with this name, unless it is empty: its locator, or its bank and locator, as `ghes_edac` and
/// the firmware's reports in the kernel log write it (`drivers/firmware/efi/cper.c`).
pub(crate) fn slot_named(label: &str, dimms: &[Dimm]) -> Option<usize> {
    let is_named = |dimm: &Dimm| match (&dimm.locator, &dimm.bank_locator) {
        (Some(locator), _) if label == locator => true,
        (Some(locator), Some(bank)) => label == format!("{bank} {locator}"),
        _ => false,
    };
    let mut named = dimms.iter().enumerate().filter(|(_, dimm)| is_named(dimm));
    let (Some((index, dimm)), None) = (named.next(), named.next()) else { return None };
    (dimm.is_populated != Some(false)).then_some(index)
}

/// Adds up the ranks of a DIMM.
fn add(sum: Option<u64>, more: Option<u64>) -> Option<u64> {
    match (sum, more) {
        (Some(sum), Some(more)) => sum.checked_add(more),
        (sum, more) => sum.or(more),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tree, tree_in};

    #[test]
    fn counts_go_only_to_the_slot_that_the_label_names() {
        let machine = tree_in(&[
            ("sys/devices/system/edac/mc/mc0/dimm0", &[("dimm_label", "A1")]),
            ("sys/devices/system/edac/mc/mc0/dimm0", &[("dimm_ce_count", "12")]),
            ("sys/devices/system/edac/mc/mc0/dimm0", &[("dimm_ue_count", "1"), ("size", "16384")]),
            ("sys/devices/system/edac/mc/mc0/dimm0", &[("dimm_location", "channel 0 slot 1 ")]),
            ("sys/devices/system/edac/mc/mc0/dimm0", &[("dimm_edac_mode", "S4ECD4ED")]),
            ("sys/devices/system/edac/mc/mc0", &[("mc_name", "Skylake Socket#0 IMC#0")]),
            ("sys/devices/system/edac/mc/mc0/rank1", &[("dimm_label", "P0 B1")]),
            ("sys/devices/system/edac/mc/mc0/rank1", &[("dimm_ce_count", "3")]),
            ("sys/devices/system/edac/mc/mc1", &[("ce_count", "7")]),
        ]);
        let dimm = |locator: &str, bank: &str| Dimm {
            locator: Some(locator.to_owned()),
            bank_locator: Some(bank.to_owned()),
            ..Dimm::default()
        };
        let mut memory = Memory {
            ecc: counts(&machine),
            dimms: vec![dimm("A1", "P0"), dimm("B1", "P0"), dimm("C1", "P0")],
            ..Memory::default()
        };
        assign(&mut memory);
        let found: Vec<_> =
            memory.dimms.iter().map(|d| (d.ecc_correctable, d.ecc_uncorrectable)).collect();
        assert_eq!(found, [(Some(12), Some(1)), (Some(3), None), (None, None)]);
        let names: Vec<&str> = memory.ecc.iter().map(|count| count.name.as_str()).collect();
        assert_eq!(names, ["mc0/dimm0", "mc0/rank1", "mc1"]);
        assert_eq!(memory.ecc[0].size_bytes, Some(16 << 30));
        assert_eq!(memory.ecc[0].location.as_deref(), Some("channel 0 slot 1"));
        assert_eq!(memory.ecc[1].controller.as_deref(), Some("Skylake Socket#0 IMC#0"));
        assert_eq!(memory.ecc[1].mode.as_deref(), Some("S4ECD4ED"));
    }

    #[test]
    fn errors_without_a_location_are_a_row_of_the_controller() {
        let with = |total: &str| {
            counts(&tree(&[
                ("sys/devices/system/edac/mc/mc0/dimm0/dimm_ue_count", "7"),
                // Some kernels count an error there whose location is known in part, and others do not.
                ("sys/devices/system/edac/mc/mc0/ue_noinfo_count", "0"),
                ("sys/devices/system/edac/mc/mc0/ce_noinfo_count", "0"),
                ("sys/devices/system/edac/mc/mc0/ue_count", total),
            ]))
        };
        let rows = with("9");
        assert_eq!((rows.len(), rows[1].name.as_str()), (2, "mc0"));
        assert_eq!((rows[1].uncorrectable, rows[1].correctable), (Some(2), Some(0)));
        assert_eq!(with("7").len(), 1);
    }

    #[test]
    fn empty_count_is_a_problem() {
        let path = "sys/devices/system/edac/mc/mc0/ue_count";
        let machine = crate::testing::tree_of_bytes(&[(path, b"")]);
        assert_eq!(counts(&machine)[0].uncorrectable, None);
        assert_eq!(machine.problems().len(), 1);
    }

    #[test]
    fn label_of_an_empty_slot_or_of_a_smaller_module_names_no_slot() {
        let with = |is_populated, size_bytes| {
            let locator = Some("A1".to_owned());
            let dimm =
                Dimm { locator: locator.clone(), is_populated, size_bytes, ..Dimm::default() };
            let count =
                EccCount { label: locator, size_bytes: Some(8 << 30), ..EccCount::default() };
            slot_of(&count, &[dimm])
        };
        assert_eq!(with(Some(true), Some(16 << 30)), Some(0), "a rank of two");
        assert_eq!(with(None, None), Some(0));
        assert_eq!(with(Some(false), None), None);
        assert_eq!(with(Some(true), Some(4 << 30)), None);
    }

    #[test]
    fn two_slots_with_the_same_name_get_no_counts() {
        let dimm = Dimm { locator: Some("DIMM_A".to_owned()), ..Dimm::default() };
        let label = Some("DIMM_A".to_owned());
        let count = EccCount { label, correctable: Some(5), ..EccCount::default() };
        let mut memory =
            Memory { ecc: vec![count], dimms: vec![dimm.clone(), dimm], ..Memory::default() };
        assign(&mut memory);
        assert!(memory.dimms.iter().all(|dimm| dimm.ecc_correctable.is_none()));
    }
}
