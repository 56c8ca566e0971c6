//! Packages with their cores, and the kind, part and frequency of each core.

use std::collections::BTreeMap;

use super::cores::Cores;
use super::cpuinfo::CpuInfo;
use super::kinds::{self, Kinds};
use super::{CPU, Core, Package, names};
use crate::cpuset::CpuSet;
use crate::machine::Machine;

/// The packages by id, each with its cores by id.
pub(super) fn packages(machine: &Machine, info: &CpuInfo, cores: &Cores) -> Vec<Package> {
    let firsts: Vec<u32> = cores.cores.iter().filter_map(|core| core.cpus.first()).collect();
    let (mut max_misses, mut base_misses) = (0, 0);
    let mut max_mhz = |cpu: &u32| (*cpu, mhz(machine, *cpu, "cpuinfo_max_freq", &mut max_misses));
    let max_mhz: BTreeMap<u32, Option<u64>> = firsts.iter().map(&mut max_mhz).collect();
    let max_mhz = |cpu: u32| max_mhz.get(&cpu).copied().flatten();
    let kinds = Kinds::read(machine, &firsts, || {
        kinds::are_alike(firsts.iter().map(|cpu| (kinds::part(info, *cpu), max_mhz(*cpu))))
    });
    let n_packages = cores.cores.iter().filter_map(|core| core.package).max().map_or(0, |n| n + 1);
    let mut packages: Vec<(CpuSet, Package)> = vec![Default::default(); n_packages];
    for seen in &cores.cores {
        let Some((cpus, package)) = seen.package.and_then(|number| packages.get_mut(number)) else {
            continue;
        };
        cpus.insert_all(&seen.cpus);
        // -1 groups the CPUs whose package is unknown to the kernel, but is no package's id.
        package.id = package.id.or(seen.ids.package.filter(|id| *id >= 0));
        let first = seen.cpus.first().unwrap_or_default();
        let core = Core {
            id: seen.ids.core,
            die_id: seen.ids.die,
            book_id: seen.ids.book,
            drawer_id: seen.ids.drawer,
            cluster_id: seen.ids.cluster,
            kind: kinds.of(first).map(str::to_owned),
            part_name: names::part_name(info, first),
            logical_cpus: seen.cpus.to_string(),
            max_mhz: max_mhz(first),
            base_mhz: mhz(machine, first, "base_frequency", &mut base_misses),
        };
        package.cores.push(core);
    }
    for (cpus, package) in &mut packages {
        let first = cpus.first().unwrap_or_default();
        package.vendor = names::vendor(info, first);
        package.model_name = names::model_name(info, first);
        // The sort is stable, so cores with the same id stay in the order of their first CPU.
        package.cores.sort_by_key(|core| (core.die_id, core.id));
    }
    packages.sort_by_key(|(cpus, package)| (package.id, cpus.first()));
    packages.into_iter().map(|(_, package)| package).collect()
}

/// The lowest frequency of `cpu`.
pub(super) fn min_mhz(machine: &Machine, cpu: u32) -> Option<u64> {
    mhz(machine, cpu, "cpuinfo_min_freq", &mut 0)
}

/// A frequency, which is no longer read once the first cores have none. The kernel writes kHz
/// (`Documentation/admin-guide/pm/cpufreq.rst`).
fn mhz(machine: &Machine, cpu: u32, name: &str, misses: &mut u8) -> Option<u64> {
    if *misses > 3 {
        return None;
    }
    let khz: Option<u64> = machine.number(&format!("{CPU}/cpu{cpu}/cpufreq/{name}"));
    *misses = if khz.is_some() { 0 } else { *misses + 1 };
    khz.map(|khz| khz / 1000).filter(|mhz| *mhz > 0)
}
