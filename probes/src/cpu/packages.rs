//! Packages with their cores, and what each core is.

use super::cores::{CoreSeen, Cores};
use super::cpuinfo::CpuInfo;
use super::{CPU, Core, Package, names};
use crate::cpuset::CpuSet;
use crate::machine::Machine;

/// The packages by id, each with its cores by id.
pub(super) fn packages(machine: &Machine, info: &CpuInfo, cores: &Cores) -> Vec<Package> {
    let kinds = Kinds::read(machine, &cores.cores);
    let mut frequencies = Frequencies { machine, max_misses: 0, base_misses: 0 };
    let n_packages = cores.cores.iter().filter_map(|core| core.package).max().map_or(0, |n| n + 1);
    let mut packages: Vec<(CpuSet, Package)> = vec![Default::default(); n_packages];
    for seen in &cores.cores {
        let Some((cpus, package)) = seen.package.and_then(|number| packages.get_mut(number)) else {
            continue;
        };
        seen.cpus.iter().for_each(|cpu| cpus.insert(cpu));
        package.id = package.id.or(seen.ids.package);
        package.cores.push(core(info, &kinds, &mut frequencies, seen));
    }
    for (cpus, package) in &mut packages {
        let first = cpus.first().unwrap_or_default();
        package.vendor = names::vendor(info, first);
        package.model_name = names::model_name(info, first);
        // Stable: cores of one id stay in the order of their first CPU.
        package.cores.sort_by_key(|core| (core.die_id, core.id));
    }
    packages.sort_by_key(|(cpus, package)| (package.id, cpus.first()));
    packages.into_iter().map(|(_, package)| package).collect()
}

fn core(info: &CpuInfo, kinds: &Kinds, frequencies: &mut Frequencies, seen: &CoreSeen) -> Core {
    let first = seen.cpus.first().unwrap_or_default();
    Core {
        id: seen.ids.core,
        die_id: seen.ids.die,
        cluster_id: seen.ids.cluster,
        kind: kinds.of(first),
        part_name: names::part_name(info, first),
        logical_cpus: seen.cpus.to_string(),
        max_mhz: frequencies.max_mhz(first),
        base_mhz: frequencies.base_mhz(first),
    }
}

/// Which CPUs are of which kind, on a machine that has several.
struct Kinds(Vec<(&'static str, CpuSet)>);

impl Kinds {
    /// Reads the kinds: on x86 from the performance counters of each kind
    /// (`/sys/devices/cpu_{core,atom,lowpower}/cpus`), on Arm from `cpuN/cpu_capacity`.
    fn read(machine: &Machine, cores: &[CoreSeen]) -> Kinds {
        let names = [
            ("performance", "cpu_core"),
            ("efficiency", "cpu_atom"),
            ("low_power", "cpu_lowpower"),
        ];
        let read = |(kind, name): (&'static str, &str)| {
            let cpus = machine.parse(&format!("sys/devices/{name}/cpus"), CpuSet::parse)?;
            Some((kind, cpus)).filter(|(_, cpus)| !cpus.is_empty())
        };
        let kinds: Vec<_> = names.into_iter().filter_map(read).collect();
        if kinds.len() > 1 {
            return Kinds(kinds);
        }
        Kinds(by_capacity(machine, cores))
    }

    fn of(&self, cpu: u32) -> Option<String> {
        let kind = self.0.iter().find(|(_, cpus)| cpus.contains(cpu));
        kind.map(|(kind, _)| (*kind).to_owned())
    }
}

/// The most capable cores are `performance`, the least capable `efficiency`; what lies between has
/// no kind. Capacity is relative to the strongest core (`Documentation/scheduler/sched-capacity.rst`).
fn by_capacity(machine: &Machine, cores: &[CoreSeen]) -> Vec<(&'static str, CpuSet)> {
    let capacity = |cpu| machine.number::<u64>(&format!("{CPU}/cpu{cpu}/cpu_capacity"));
    let Some(first) = cores.first().and_then(|core| core.cpus.first()) else { return Vec::new() };
    if capacity(first).is_none() {
        return Vec::new();
    }
    let firsts = cores.iter().filter_map(|core| core.cpus.first());
    let of_core: Vec<(u32, u64)> = firsts.filter_map(|cpu| Some((cpu, capacity(cpu)?))).collect();
    let low = of_core.iter().map(|(_, capacity)| *capacity).min();
    let high = of_core.iter().map(|(_, capacity)| *capacity).max();
    if low == high {
        return Vec::new();
    }
    let with = |wanted| {
        let cores = of_core.iter().filter(move |(_, capacity)| Some(*capacity) == wanted);
        cores.map(|(cpu, _)| *cpu).collect()
    };
    vec![("performance", with(high)), ("efficiency", with(low))]
}

/// Reads frequencies, and stops asking when the first cores have none.
struct Frequencies<'a> {
    machine: &'a Machine,
    max_misses: u8,
    base_misses: u8,
}

impl Frequencies<'_> {
    fn max_mhz(&mut self, cpu: u32) -> Option<u64> {
        mhz(self.machine, cpu, "cpuinfo_max_freq", &mut self.max_misses)
    }

    fn base_mhz(&mut self, cpu: u32) -> Option<u64> {
        mhz(self.machine, cpu, "base_frequency", &mut self.base_misses)
    }
}

/// The kernel writes kHz (`Documentation/admin-guide/pm/cpufreq.rst`).
fn mhz(machine: &Machine, cpu: u32, name: &str, misses: &mut u8) -> Option<u64> {
    if *misses > 3 {
        return None;
    }
    let khz: Option<u64> = machine.number(&format!("{CPU}/cpu{cpu}/cpufreq/{name}"));
    *misses = if khz.is_some() { 0 } else { *misses + 1 };
    khz.map(|khz| khz / 1000).filter(|mhz| *mhz > 0)
}
