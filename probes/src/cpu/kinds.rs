//! Kinds of cores on a machine that has several: `/sys/devices/cpu_{core,atom,lowpower}/cpus` on x86
//! (the performance counters of each kind), `cpuN/cpu_capacity` on Arm
//! (`Documentation/scheduler/sched-capacity.rst`).

use super::CPU;
use super::cpuinfo::CpuInfo;
use crate::cpuset::CpuSet;
use crate::machine::Machine;

/// The kind of each CPU.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    named: Vec<(&'static str, CpuSet)>,
    /// CPUs of the same capacity, where capacities differ.
    capacities: Vec<CpuSet>,
}

impl Kinds {
    /// Reads the kinds of the cores whose first CPUs are `firsts`. `look_alike` says whether all that is known
    /// of them without a read is the same: cores that look different may have different capacities.
    pub(super) fn read(machine: &Machine, firsts: &[u32], look_alike: impl Fn() -> bool) -> Kinds {
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
        let capacities = capacities(machine, firsts, look_alike);
        let named = match capacities.as_slice() {
            [low, .., high] => vec![("performance", high.clone()), ("efficiency", low.clone())],
            _ => Vec::new(),
        };
        Kinds { named, capacities }
    }

    /// The kinds of the cores of `cpus`, for a caller that knows nothing else about them.
    pub(crate) fn of_cpus(machine: &Machine, cpus: &[u32]) -> Kinds {
        Kinds::read(machine, cpus, || {
            let text = machine.text(super::cpuinfo::PATH).unwrap_or_default();
            let info = CpuInfo::parse(&text);
            are_alike(cpus.iter().map(|cpu| part(&info, *cpu)))
        })
    }

    /// The kind of `cpu`: on Arm the most capable cores are `performance`, the least capable
    /// `efficiency`, and those in between have no kind.
    pub(crate) fn of(&self, cpu: u32) -> Option<&'static str> {
        self.named.iter().find(|(_, cpus)| cpus.contains(cpu)).map(|(kind, _)| *kind)
    }

    /// A number that CPUs of the same kind or capacity share.
    pub(crate) fn class(&self, cpu: u32) -> usize {
        let kind = self.named.iter().position(|(_, cpus)| cpus.contains(cpu));
        let capacity = self.capacities.iter().position(|cpus| cpus.contains(cpu));
        capacity.or(kind).map_or(0, |class| class + 1)
    }
}

/// Values in `/proc/cpuinfo` that identify a core's design on Arm and RISC-V.
pub(super) fn part<'a>(info: &CpuInfo<'a>, cpu: u32) -> [Option<&'a str>; 4] {
    ["CPU implementer", "CPU part", "uarch", "marchid"].map(|key| info.in_block(cpu, key))
}

/// True if the facts about each core are the same.
pub(super) fn are_alike<L: PartialEq>(mut looks: impl Iterator<Item = L>) -> bool {
    let first = looks.next();
    looks.all(|look| Some(look) == first)
}

/// The CPUs of each capacity, lowest first; empty if all are the same. The kernel derives a capacity
/// from the design of the core and its highest frequency (`drivers/base/arch_topology.c`). Nearly all
/// machines have one kind of core: if all look the same, reading three cores is enough.
fn capacities(machine: &Machine, firsts: &[u32], look_alike: impl Fn() -> bool) -> Vec<CpuSet> {
    let capacity = |cpu: u32| machine.number::<u64>(&format!("{CPU}/cpu{cpu}/cpu_capacity"));
    let (Some(first), Some(last)) = (firsts.first(), firsts.last()) else { return Vec::new() };
    let Some(at_first) = capacity(*first) else { return Vec::new() };
    let middle = firsts.get(firsts.len() / 2).unwrap_or(last);
    if look_alike() && [last, middle].iter().all(|cpu| capacity(**cpu) == Some(at_first)) {
        return Vec::new();
    }
    let mut of_capacity = std::collections::BTreeMap::<u64, CpuSet>::new();
    for cpu in firsts {
        if let Some(capacity) = capacity(*cpu) {
            of_capacity.entry(capacity).or_default().insert(*cpu);
        }
    }
    Some(of_capacity).filter(|sets| sets.len() > 1).unwrap_or_default().into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree_from;

    /// Eight cores of these capacities.
    fn capacities(of: [u32; 8]) -> Vec<(String, String)> {
        let file = |(cpu, capacity): (usize, u32)| {
            (format!("{CPU}/cpu{cpu}/cpu_capacity"), capacity.to_string())
        };
        of.into_iter().enumerate().map(file).collect()
    }

    fn classes(files: &[(String, String)], looks: [u32; 8]) -> Vec<usize> {
        let cpus: Vec<u32> = (0..8).collect();
        let kinds = Kinds::read(&tree_from(files), &cpus, || are_alike(looks.iter()));
        cpus.iter().map(|cpu| kinds.class(*cpu)).collect()
    }

    #[test]
    fn kind_of_core_that_is_neither_first_nor_middle_nor_last_is_found() {
        // Cores 0, 4 and 7, which are read first, have the same capacity.
        let files = capacities([400, 400, 1024, 760, 400, 760, 400, 400]);
        assert_eq!(classes(&files, [1, 1, 3, 2, 1, 2, 1, 1]), [1, 1, 3, 2, 1, 2, 1, 1]);
        let same = capacities([1024; 8]);
        assert_eq!(
            classes(&same, [1, 2, 1, 1, 1, 1, 1, 1]),
            [0; 8],
            "two designs of the same capacity"
        );
        assert_eq!(classes(&files[..0], [1, 2, 1, 1, 1, 1, 1, 1]), [0; 8]);
    }

    #[test]
    fn design_of_each_core_is_known_from_a_single_read() {
        let mut files = capacities([400, 400, 1024, 760, 400, 760, 400, 400]);
        let part = |cpu: usize| ["0xd46", "0xd48", "0xd47"][[0, 0, 1, 2, 0, 2, 0, 0][cpu]];
        let block = |cpu| format!("processor : {cpu}\nCPU part : {}\n\n", part(cpu));
        files.push(("proc/cpuinfo".to_owned(), (0..8).map(block).collect()));
        let cpus: Vec<u32> = (0..8).collect();
        let kinds = Kinds::of_cpus(&tree_from(&files), &cpus);
        assert_eq!(
            (kinds.of(2), kinds.of(3), kinds.of(0)),
            (Some("performance"), None, Some("efficiency"))
        );
    }
}
