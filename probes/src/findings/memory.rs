//! Memory: error counts, DIMMs that differ, memory that the kernel does not see.

use std::collections::BTreeMap;

use super::{Finding, Severity};
use crate::collect::Inventory;
use crate::memory::{Dimm, Memory, Nvdimm};

/// ECC counts of DIMMs and of the controllers' rows (`Documentation/ABI/testing/sysfs-devices-edac`).
pub(super) fn ecc(inventory: &Inventory) -> Vec<Finding> {
    let Some(memory) = &inventory.memory else { return Vec::new() };
    let rows = memory.ecc.iter().map(|row| {
        let locator = row.label.clone().unwrap_or_else(|| row.name.clone());
        // A row of the controller itself stands for errors at no known DIMM.
        let is_dimm = row.label.is_some() || row.name.contains('/');
        (locator, is_dimm, row.correctable, row.uncorrectable)
    });
    rows.filter_map(|(locator, is_dimm, correctable, uncorrectable)| {
        let (code, severity, n, what) = match (uncorrectable, correctable) {
            (Some(n @ 1..), _) => {
                ("memory.ecc.uncorrectable", Severity::Critical, n, "uncorrectable")
            }
            (_, Some(n @ 1..)) => ("memory.ecc.correctable", Severity::Warning, n, "correctable"),
            _ => return None,
        };
        Some(Finding {
            code: code.to_owned(),
            severity,
            component: "memory".to_owned(),
            evidence: if is_dimm {
                format!("{n} {what} memory errors since boot")
            } else {
                format!(
                    "{n} {what} memory errors since boot, the controller does not name the DIMM"
                )
            },
            advice: if is_dimm {
                format!("replace the DIMM {locator}, then see whether the count stays at 0")
            } else {
                "look in the kernel's log and the BMC's event log for the DIMM; else test the \
                 controller's DIMMs one by one"
                    .to_owned()
            },
            locator: Some(locator),
        })
    })
    .collect()
}

/// Errors that the firmware recorded for a module (SMBIOS types 18 and 33).
pub(super) fn firmware_error(inventory: &Inventory) -> Vec<Finding> {
    let dimms = inventory.memory.iter().flat_map(|memory| &memory.dimms);
    let finding = |dimm: &Dimm| {
        let error = dimm.firmware_error.as_ref()?;
        Some(Finding {
            code: "memory.firmware_error".to_owned(),
            severity: Severity::Warning,
            component: "memory".to_owned(),
            locator: dimm.locator.clone(),
            evidence: format!("the firmware recorded: {error}"),
            advice: "look in the firmware's log; replace the DIMM if the error comes again"
                .to_owned(),
        })
    };
    dimms.filter_map(finding).collect()
}

/// NVDIMMs that say that they lost data or cannot keep it (`nfit/flags`, the state flags of the ACPI
/// specification, section 5.2.25.3).
pub(super) fn nvdimm(inventory: &Inventory) -> Vec<Finding> {
    let memory = inventory.memory.as_ref().and_then(|memory| memory.persistent.as_ref());
    let finding = |module: &Nvdimm| {
        let is_bad = |flag: &&String| {
            let bad = ["save_fail", "restore_fail", "flush_fail", "not_armed", "map_fail"];
            bad.contains(&flag.as_str())
        };
        let flags: Vec<&str> = module.flags.iter().filter(is_bad).map(String::as_str).collect();
        let serial = module.serial.as_ref().map(|serial| format!(", serial {serial}"));
        (!flags.is_empty()).then(|| Finding {
            code: "memory.nvdimm.failed".to_owned(),
            severity: Severity::Critical,
            component: "memory".to_owned(),
            locator: Some(format!("{}{}", module.name, serial.unwrap_or_default())),
            evidence: format!("the module says {}", flags.join(", ")),
            advice: "do not trust what it holds; check its battery, else replace it".to_owned(),
        })
    };
    memory.iter().flat_map(|memory| &memory.modules).filter_map(finding).collect()
}

/// Populated DIMMs that differ from the others of their kind in size or in the speed at which they
/// run. Persistent memory and HBM beside plain DIMMs are meant to differ from them.
pub(super) fn mismatch(inventory: &Inventory) -> Vec<Finding> {
    let dimms = inventory.memory.iter().flat_map(|memory| &memory.dimms);
    let mut groups: BTreeMap<_, Vec<&Dimm>> = BTreeMap::new();
    for dimm in dimms.filter(|dimm| dimm.size_bytes.is_some()) {
        groups.entry((&dimm.kind, &dimm.technology)).or_default().push(dimm);
    }
    groups.into_values().flat_map(odd_ones).collect()
}

/// Those of `populated`, modules of one kind, that differ from most of them.
fn odd_ones(populated: Vec<&Dimm>) -> Vec<Finding> {
    let shape = |dimm: &Dimm| (dimm.size_bytes, dimm.configured_speed_mt_s);
    let mut n_of: BTreeMap<_, usize> = BTreeMap::new();
    for dimm in &populated {
        *n_of.entry(shape(dimm)).or_default() += 1;
    }
    let Some((usual, n_usual)) = n_of.iter().max_by_key(|(_, n)| **n).map(|(s, n)| (*s, *n)) else {
        return Vec::new();
    };
    if n_usual * 2 <= populated.len() {
        return Vec::new();
    }
    populated
        .into_iter()
        .filter(|dimm| is_other(shape(dimm), usual))
        .map(|dimm| Finding {
            code: "memory.dimm.mismatch".to_owned(),
            severity: Severity::Warning,
            component: "memory".to_owned(),
            locator: dimm.locator.clone(),
            evidence: format!(
                "{}, while {n_usual} other DIMMs have {}",
                say(shape(dimm)),
                say(usual)
            ),
            advice: "use DIMMs of one size and speed, as the board's manual asks".to_owned(),
        })
        .collect()
}

/// A speed that the firmware does not tell differs from none.
fn is_other(one: (Option<u64>, Option<u32>), usual: (Option<u64>, Option<u32>)) -> bool {
    one.0 != usual.0 || one.1.zip(usual.1).is_some_and(|(speed, usual)| speed != usual)
}

fn say((size_bytes, speed_mt_s): (Option<u64>, Option<u32>)) -> String {
    let size = size_bytes.map(|bytes| format!("{} MiB", bytes >> 20));
    let speed = speed_mt_s.map(|speed| format!("{speed} MT/s"));
    size.into_iter().chain(speed).collect::<Vec<_>>().join(" at ")
}

/// Installed memory of which a whole DIMM or more does not reach the kernel. Nothing is said where
/// modules are there that need not be memory of the kernel at all.
pub(super) fn lost(inventory: &Inventory) -> Vec<Finding> {
    let Some(memory) = &inventory.memory else { return Vec::new() };
    if memory.dimms.iter().any(|dimm| dimm.is_populated != Some(false) && !is_plain(dimm)) {
        return Vec::new();
    }
    let Some((installed, present, smallest)) = totals(memory) else { return Vec::new() };
    let lost = installed.saturating_sub(present);
    if lost < smallest {
        return Vec::new();
    }
    vec![Finding {
        code: "memory.lost".to_owned(),
        severity: Severity::Warning,
        component: "memory".to_owned(),
        locator: None,
        evidence: format!(
            "DIMMs of {} MiB are installed and the kernel has {} MiB",
            installed >> 20,
            present >> 20
        ),
        advice: "look in the firmware's log for a DIMM that failed its test, and at mirroring or \
                 sparing settings"
            .to_owned(),
    }]
}

/// Whether a module is plain memory: persistent memory may be a disk or have plain memory for its
/// cache, and HBM may be the cache of the rest.
fn is_plain(dimm: &Dimm) -> bool {
    let technology = dimm.technology.as_deref().unwrap_or_default();
    let kind = dimm.kind.as_deref().unwrap_or_default();
    !technology.starts_with("NVDIMM")
        && !technology.starts_with("Intel Optane")
        && kind != "Logical non-volatile device"
        && !kind.starts_with("HBM")
}

fn totals(memory: &Memory) -> Option<(u64, u64, u64)> {
    let present = memory.kernel_present_bytes.or(memory.usable_bytes)?;
    let smallest = memory.dimms.iter().filter_map(|dimm| dimm.size_bytes).min()?;
    Some((memory.installed_bytes?, present, smallest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{EccCount, PersistentMemory};

    #[test]
    fn an_nvdimm_that_could_not_save_is_critical_and_one_with_a_notice_is_not() {
        let module = |flag: &str| Nvdimm {
            name: "nmem0".to_owned(),
            serial: Some("0x12".to_owned()),
            flags: vec!["smart_notify".to_owned(), flag.to_owned()],
            ..Nvdimm::default()
        };
        let found = |flag: &str| {
            let modules = vec![module(flag)];
            let persistent = Some(PersistentMemory { modules, ..PersistentMemory::default() });
            let memory = Some(Memory { persistent, ..Memory::default() });
            nvdimm(&Inventory { memory, ..Inventory::default() })
        };
        let findings = found("save_fail");
        assert_eq!(findings[0].severity, Severity::Critical);
        assert_eq!(findings[0].locator.as_deref(), Some("nmem0, serial 0x12"));
        assert_eq!(findings[0].evidence, "the module says save_fail");
        assert!(found("smart_event").is_empty());
    }

    fn dimm(locator: &str, gib: u64, speed: u32) -> Dimm {
        Dimm {
            locator: Some(locator.to_owned()),
            size_bytes: Some(gib << 30),
            configured_speed_mt_s: Some(speed),
            ..Dimm::default()
        }
    }

    fn inventory(memory: Memory) -> Inventory {
        Inventory { memory: Some(memory), ..Inventory::default() }
    }

    #[test]
    fn an_uncorrectable_error_is_critical_and_names_the_dimm() {
        let row = EccCount {
            name: "mc0/dimm1".to_owned(),
            label: Some("A1".to_owned()),
            correctable: Some(7),
            uncorrectable: Some(2),
            ..EccCount::default()
        };
        let found = ecc(&inventory(Memory { ecc: vec![row], ..Memory::default() }));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].code, "memory.ecc.uncorrectable");
        assert_eq!(
            (found[0].severity, found[0].locator.as_deref()),
            (Severity::Critical, Some("A1"))
        );
        assert!(found[0].evidence.starts_with("2 uncorrectable"));
    }

    #[test]
    fn an_error_that_the_firmware_recorded_is_found_at_its_dimm() {
        let error = Some("Multi-bit error".to_owned());
        let dimms =
            vec![dimm("A1", 16, 3200), Dimm { firmware_error: error, ..dimm("A2", 16, 3200) }];
        let found = firmware_error(&inventory(Memory { dimms, ..Memory::default() }));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].locator.as_deref(), Some("A2"));
    }

    #[test]
    fn one_odd_dimm_is_found_and_two_halves_are_not() {
        let odd = vec![dimm("A1", 16, 3200), dimm("A2", 16, 3200), dimm("A3", 8, 2933)];
        let found = mismatch(&inventory(Memory { dimms: odd, ..Memory::default() }));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].locator.as_deref(), Some("A3"));
        let halves = vec![dimm("A1", 16, 3200), dimm("A2", 8, 3200)];
        assert!(mismatch(&inventory(Memory { dimms: halves, ..Memory::default() })).is_empty());
    }

    #[test]
    fn a_dimm_whose_speed_is_not_known_is_no_odd_one() {
        let with = |gib| {
            let unknown = Dimm { configured_speed_mt_s: None, ..dimm("A3", gib, 0) };
            let dimms = vec![dimm("A1", 16, 3200), dimm("A2", 16, 3200), unknown];
            mismatch(&inventory(Memory { dimms, ..Memory::default() })).len()
        };
        assert_eq!((with(16), with(8)), (0, 1));
    }

    #[test]
    fn memory_is_lost_only_when_a_whole_dimm_is_missing() {
        let with = |present_gib: u64| Memory {
            installed_bytes: Some(32 << 30),
            kernel_present_bytes: Some(present_gib << 30),
            dimms: vec![dimm("A1", 16, 3200), dimm("A2", 16, 3200)],
            ..Memory::default()
        };
        assert!(lost(&inventory(with(31))).is_empty());
        assert_eq!(lost(&inventory(with(16))).len(), 1);
    }

    #[test]
    fn persistent_memory_and_hbm_beside_plain_dimms_are_neither_lost_nor_odd() {
        let with = |special: Dimm| {
            let mut dimms: Vec<Dimm> = (0..4).map(|_| dimm("A1", 16, 3200)).collect();
            dimms.push(special);
            let memory = Memory {
                installed_bytes: Some(192 << 30),
                kernel_present_bytes: Some(64 << 30),
                dimms,
                ..Memory::default()
            };
            let inventory = inventory(memory);
            (lost(&inventory).len(), mismatch(&inventory).len())
        };
        let of = |kind: &str, technology: Option<&str>| Dimm {
            kind: Some(kind.to_owned()),
            technology: technology.map(str::to_owned),
            ..dimm("B1", 128, 2666)
        };
        assert_eq!(with(of("Logical non-volatile device", None)), (0, 0));
        assert_eq!(with(of("DDR4", Some("Intel Optane persistent memory"))), (0, 0));
        assert_eq!(with(of("DDR4", Some("NVDIMM-N"))), (0, 0));
        assert_eq!(with(of("HBM2", None)), (0, 0));
        assert_eq!(with(dimm("B1", 128, 2666)), (1, 1), "a plain one");
    }

    #[test]
    fn errors_of_which_the_dimm_is_not_known_are_found_and_advise_no_dimm_to_replace() {
        let row =
            EccCount { name: "mc0".to_owned(), uncorrectable: Some(1), ..EccCount::default() };
        let found = ecc(&inventory(Memory { ecc: vec![row], ..Memory::default() })).remove(0);
        assert_eq!(
            (found.code.as_str(), found.locator.as_deref()),
            ("memory.ecc.uncorrectable", Some("mc0"))
        );
        assert!(found.evidence.ends_with("the controller does not name the DIMM"));
        assert!(!found.advice.contains("replace the DIMM mc0"), "{}", found.advice);
    }
}
