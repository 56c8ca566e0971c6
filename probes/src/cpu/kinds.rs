//! Kinds of cores on a machine that has several: `/sys/devices/cpu_{core,atom,lowpower}/cpus` on x86
//! (the performance counters of each kind), `cpuN/cpu_capacity` on Arm
//! (`Documentation/scheduler/sched-capacity.rst`).

use super::CPU;
use crate::cpuset::CpuSet;
use crate::machine::Machine;

/// Which CPUs are of which kind.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    named: Vec<(&'static str, CpuSet)>,
    /// CPUs of the same capacity, where capacities differ.
    capacities: Vec<(u64, CpuSet)>,
}

impl Kinds {
    /// Reads the kinds of the cores whose first CPUs are `firsts`.
    pub(crate) fn read(machine: &Machine, firsts: &[u32]) -> Kinds {
        let files = [
            ("performance", "cpu_core"),
            ("efficiency", "cpu_atom"),
            ("low_power", "cpu_lowpower"),
        ];
        let read = |(kind, name): (&'static str, &str)| {
            let cpus = machine.parse(&format!("sys/devices/{name}/cpus"), CpuSet::parse)?;
            Some((kind, cpus)).filter(|(_, cpus)| !cpus.is_empty())
        };
        let named: Vec<_> = files.into_iter().filter_map(read).collect();
        if named.len() > 1 {
            return Kinds { named, capacities: Vec::new() };
        }
        let capacities = capacities(machine, firsts);
        let (low, high) = (capacities.first(), capacities.last());
        let named = match (low, high) {
            (Some((_, low)), Some((_, high))) => {
                vec![("performance", high.clone()), ("efficiency", low.clone())]
            }
            _ => Vec::new(),
        };
        Kinds { named, capacities }
    }

    /// The kind of `cpu`: on Arm the most capable cores are `performance`, the least capable
    /// `efficiency`; what lies between has no kind.
    pub(crate) fn of(&self, cpu: u32) -> Option<&'static str> {
        self.named.iter().find(|(_, cpus)| cpus.contains(cpu)).map(|(kind, _)| *kind)
    }

    /// A number that CPUs of the same kind or capacity share.
    pub(crate) fn class(&self, cpu: u32) -> usize {
        let kind = self.named.iter().position(|(_, cpus)| cpus.contains(cpu));
        let capacity = self.capacities.iter().position(|(_, cpus)| cpus.contains(cpu));
        capacity.or(kind).map_or(0, |class| class + 1)
    }
}

/// The CPUs of each capacity, lowest first; empty where all are the same. Nearly all machines have
/// one kind of core, and there the first and the last core say it.
fn capacities(machine: &Machine, firsts: &[u32]) -> Vec<(u64, CpuSet)> {
    let capacity = |cpu: u32| machine.number::<u64>(&format!("{CPU}/cpu{cpu}/cpu_capacity"));
    let (Some(first), Some(last)) = (firsts.first(), firsts.last()) else { return Vec::new() };
    let Some(at_first) = capacity(*first) else { return Vec::new() };
    let middle = firsts.get(firsts.len() / 2).unwrap_or(last);
    if [last, middle].iter().all(|cpu| capacity(**cpu) == Some(at_first)) {
        return Vec::new();
    }
    let mut of_capacity = std::collections::BTreeMap::<u64, CpuSet>::new();
    for cpu in firsts {
        if let Some(capacity) = capacity(*cpu) {
            of_capacity.entry(capacity).or_default().insert(*cpu);
        }
    }
    of_capacity.into_iter().collect()
}
