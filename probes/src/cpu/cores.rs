//! Cores and packages: `/sys/devices/system/cpu/cpuN/topology/*`
//! (`Documentation/admin-guide/cputopology.rst`), else `/proc/cpuinfo`.
//!
//! The files of a core are read for its first logical CPU only, those of a package, die or cluster
//! once for each (`groups.rs`): about two reads a core. Cores and packages are counted as distinct
//! sets; nothing is multiplied or divided.
//!
//! The sets of sibling threads win over the ids. On AMD family 15h before Linux 4.11 the two threads
//! of a compute unit have one set and two core ids, and the ids start again on each node of a package
//! (`arch/x86/kernel/cpu/amd.c`, `amd_get_topology`). The ids decide only where sets are missing or
//! contradict each other, which is a problem; then CPUs of two nodes are never one core.

use std::collections::BTreeMap;

use super::cpuinfo::CpuInfo;
use super::groups::{BOOK, CLUSTER, CORE, DIE, DRAWER, Group, PACKAGE, Sets};
use crate::cpuset::CpuSet;
use crate::machine::{Machine, quote};

/// A core as the kernel groups the online logical CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CoreSeen {
    pub(super) ids: Ids,
    /// Its online logical CPUs; never empty.
    pub(super) cpus: CpuSet,
    /// The online CPUs of its package if they were read.
    package_cpus: Option<CpuSet>,
    /// The dense number of its package, by which cores are grouped; `None` if unknown.
    pub(super) package: Option<usize>,
}

/// The ids of a core; opaque and signed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ids {
    pub(super) drawer: Option<i64>,
    pub(super) book: Option<i64>,
    pub(super) package: Option<i64>,
    pub(super) die: Option<i64>,
    pub(super) cluster: Option<i64>,
    pub(super) core: Option<i64>,
}

/// The cores of the online CPUs.
#[derive(Debug, Default)]
pub(super) struct Cores {
    /// Sorted by first logical CPU. CPUs whose core is unknown are left out.
    pub(super) cores: Vec<CoreSeen>,
    /// True if the core of every online CPU is known.
    pub(super) is_complete: bool,
}

impl Cores {
    /// Reads the cores of the CPUs in `online`.
    pub(super) fn read(machine: &Machine, info: &CpuInfo, online: &CpuSet) -> Cores {
        let reader = Reader { machine, info, online };
        let Siblings { sets, disputed } = reader.siblings();
        let mut grouped = CpuSet::default();
        for core in &sets {
            grouped.insert_all(core);
        }
        let loose = online.difference(&grouped);
        let n_sets = sets.len();
        let units: Vec<CpuSet> =
            sets.into_iter().chain(loose.iter().map(|cpu| [cpu].into_iter().collect())).collect();
        let mut seen = reader.places(&units);
        let loose = seen.split_off(n_sets);
        let singles = reader.by_ids(loose, &disputed);
        seen.extend(singles);
        seen.sort_by_key(|core| core.cpus.first());
        reader.number_packages(&mut seen);
        let n_grouped: usize = seen.iter().map(|core| core.cpus.len()).sum();
        Cores { cores: seen, is_complete: n_grouped == online.len() }
    }
}

struct Reader<'a> {
    machine: &'a Machine,
    info: &'a CpuInfo<'a>,
    online: &'a CpuSet,
}

/// The cores according to the sets of sibling threads.
#[derive(Debug, Default)]
struct Siblings {
    /// The online CPUs of each core whose set no other CPU contradicts.
    sets: Vec<CpuSet>,
    /// The sets of the other CPUs, by CPU.
    disputed: BTreeMap<u32, CpuSet>,
}

impl Reader<'_> {
    /// The cores by the sets of sibling threads; CPUs without such a set are left out.
    fn siblings(&self) -> Siblings {
        let mut cores: Vec<CpuSet> = Vec::new();
        let mut covered = CpuSet::default();
        let mut sets = Sets::new(self.machine, &CORE);
        for cpu in self.online.iter() {
            if covered.contains(cpu) {
                continue;
            }
            let Some((path, siblings)) = sets.read(cpu) else { continue };
            let cpus = siblings.intersection(self.online);
            let is_apart = cpus.intersection(&covered).is_empty();
            // The ids may differ by design, or because the file is damaged. The other CPUs of the
            // set decide which it is.
            let is_confirmed = !self.cpuinfo_differs(&cpus) || self.all_agree(&cpus, &mut sets);
            if !cpus.contains(cpu) || !is_apart || !is_confirmed {
                let expected = "sets of sibling threads that agree with each other";
                self.machine.problem(&path, quote(&siblings.to_string()), expected);
                return self.undisputed();
            }
            covered.insert_all(&cpus);
            cores.push(cpus);
        }
        Siblings { sets: cores, disputed: BTreeMap::new() }
    }

    /// True if every CPU of `cpus` that has a set of sibling threads has this one.
    fn all_agree(&self, cpus: &CpuSet, sets: &mut Sets) -> bool {
        let mut others = cpus.iter().filter_map(|cpu| sets.read(cpu));
        others.all(|(_, set)| set.intersection(self.online) == *cpus)
    }

    /// As [`Self::siblings`] where the sets contradict each other: reads the set of every CPU.
    fn undisputed(&self) -> Siblings {
        let mut files = Sets::new(self.machine, &CORE);
        let read = |cpu| Some((cpu, files.read(cpu)?.1.intersection(self.online)));
        let by_cpu: BTreeMap<u32, CpuSet> =
            self.online.iter().filter_map(read).filter(|(cpu, set)| set.contains(*cpu)).collect();
        let mut claims: BTreeMap<u32, &CpuSet> = BTreeMap::new();
        let mut contested = CpuSet::default();
        for set in by_cpu.values() {
            for cpu in set.iter() {
                let first = *claims.entry(cpu).or_insert(set);
                if first != set {
                    contested.insert_all(first);
                    contested.insert_all(set);
                }
            }
        }
        let (disputed, agreed): (BTreeMap<_, _>, BTreeMap<_, _>) =
            by_cpu.into_iter().partition(|(_, set)| !set.intersection(&contested).is_empty());
        let mut sets: Vec<CpuSet> = agreed.into_values().collect();
        sets.sort();
        sets.dedup();
        Siblings { sets, disputed }
    }

    /// The place of each of `units`, which is a core or a CPU without one.
    fn places(&self, units: &[CpuSet]) -> Vec<CoreSeen> {
        let read = |files| Sets::new(self.machine, files).groups(units, self.online);
        let is_s390 = self.info.value(0, "vendor_id") == Some("IBM/S390");
        let s390 = |files| if is_s390 { read(files) } else { Vec::new() };
        let (packages, dies, clusters) = (read(&PACKAGE), read(&DIE), read(&CLUSTER));
        let (books, drawers) = (s390(&BOOK), s390(&DRAWER));
        let place = |(at, cpus): (usize, &CpuSet)| {
            let id = |groups: &[Group]| groups.get(at).and_then(|group| group.id);
            let ids = Ids {
                drawer: id(&drawers),
                book: id(&books),
                package: id(&packages).or_else(|| self.info_id(cpus, ["physical id", "package"])),
                die: id(&dies),
                cluster: id(&clusters),
                core: self.core(cpus),
            };
            let package_cpus = packages.get(at).and_then(|group| group.cpus.clone());
            CoreSeen { ids, cpus: cpus.clone(), package_cpus, package: None }
        };
        units.iter().enumerate().map(place).collect()
    }

    /// The cores of CPUs without an undisputed set of sibling threads, by their ids.
    fn by_ids(&self, loose: Vec<CoreSeen>, disputed: &BTreeMap<u32, CpuSet>) -> Vec<CoreSeen> {
        type Key = (Ids, Vec<u32>, Option<u32>);
        let mut cores: BTreeMap<Key, Vec<CoreSeen>> = BTreeMap::new();
        if loose.is_empty() {
            return Vec::new();
        }
        let listed = Some(self.info.cpus()).filter(|cpus| !cpus.is_empty());
        let nodes = cpus_by_node(self.machine);
        for seen in loose {
            // If a truncated text leaves a CPU out, nothing shows whether its package has SMT.
            let is_left_out =
                listed.as_ref().is_some_and(|cpus| !seen.cpus.difference(cpus).is_empty());
            if seen.ids.core.is_none() || seen.ids.package.is_none() || is_left_out {
                continue;
            }
            let Some(cpu) = seen.cpus.first() else { continue };
            // Core ids can repeat within a package of two dies that no file names; without SMT
            // each logical CPU is a core of its own.
            let alone = Some(cpu).filter(|cpu| self.is_without_smt(*cpu));
            let ids = Ids { cluster: None, ..seen.ids };
            // They also repeat on each node of an AMD package with two nodes. A CPU can be in several
            // nodes (`numa=fake=N`), so that all of its nodes are compared.
            let is_around = |(_, cpus): &(u32, CpuSet)| cpus.contains(cpu);
            let around = nodes.iter().filter(|node| is_around(node)).map(|(id, _)| *id).collect();
            let same_ids = cores.entry((ids, around, alone)).or_default();
            let fits = |core: &&mut CoreSeen| {
                core.cpus.iter().all(|other| !are_apart(disputed, cpu, other))
            };
            match same_ids.iter_mut().find(fits) {
                Some(core) => core.cpus.insert(cpu),
                None => same_ids.push(CoreSeen { ids, ..seen }),
            }
        }
        cores.into_values().flatten().collect()
    }

    /// True if `/proc/cpuinfo` puts the CPUs of one set in different cores.
    fn cpuinfo_differs(&self, cpus: &CpuSet) -> bool {
        let place = |cpu| Some((self.info.number(cpu, "physical id")?, self.core_id(cpu)?));
        let mut places = cpus.iter().filter_map(place);
        let first = places.next();
        places.any(|place| Some(place) != first)
    }

    /// True if no two online CPUs of the package share a core according to `/proc/cpuinfo`.
    fn is_without_smt(&self, cpu: u32) -> bool {
        let siblings = self.info.number(cpu, "siblings");
        siblings.is_some() && siblings == self.info.number(cpu, "cpu cores")
    }

    fn core_id(&self, cpu: u32) -> Option<i64> {
        self.info.number(cpu, "core id").or_else(|| self.info.number(cpu, "core"))
    }

    /// The id of the core, from the first of its CPUs that reports one; -1 means unknown.
    fn core(&self, cpus: &CpuSet) -> Option<i64> {
        let mut files = cpus.iter().map(|cpu| self.machine.number(&topology(cpu, "core_id")));
        let file = files.find_map(|id: Option<i64>| id.filter(|id| *id >= 0));
        file.or_else(|| self.info_id(cpus, ["core id", "core"])).filter(|id| *id >= 0)
    }

    /// An id in `/proc/cpuinfo`, under the first of `keys` that one of the CPUs has.
    fn info_id(&self, cpus: &CpuSet, keys: [&str; 2]) -> Option<i64> {
        let mut keys = keys.iter();
        keys.find_map(|key| cpus.iter().find_map(|cpu| self.info.number(cpu, key)))
    }

    /// Numbers the packages by their id, on IBM Z within book and drawer. Where the kernel reports -1 or
    /// nothing, the set of the package's CPUs replaces the id; without a set all CPUs with -1 are one
    /// package.
    fn number_packages(&self, cores: &mut [CoreSeen]) {
        #[derive(PartialEq, Eq, PartialOrd, Ord)]
        enum Key {
            /// Drawer and book, within which IBM Z numbers its sockets, and the id.
            Id(Option<i64>, Option<i64>, i64),
            Set(CpuSet),
            One,
        }
        let mut numbers: BTreeMap<Key, usize> = BTreeMap::new();
        let mut sets = Sets::new(self.machine, &PACKAGE);
        for index in 0..cores.len() {
            let core = &cores[index];
            let key = match core.ids.package {
                Some(id) if id >= 0 => Some(Key::Id(core.ids.drawer, core.ids.book, id)),
                id => match self.package_cpus(core, &mut sets) {
                    Some(set) if id.is_none() => match id_within(cores, &set) {
                        Some(id) => Some(Key::Id(core.ids.drawer, core.ids.book, id)),
                        None => Some(Key::Set(set)),
                    },
                    Some(set) => Some(Key::Set(set)),
                    None => id.map(|_| Key::One),
                },
            };
            let n = numbers.len();
            cores[index].package = key.map(|key| *numbers.entry(key).or_insert(n));
        }
    }

    fn package_cpus(&self, core: &CoreSeen, sets: &mut Sets) -> Option<CpuSet> {
        if core.package_cpus.is_some() {
            return core.package_cpus.clone();
        }
        let (_, set) = core.cpus.iter().find_map(|cpu| sets.read(cpu))?;
        Some(set.intersection(self.online)).filter(|set| set.contains_all(&core.cpus))
    }
}

/// True if both CPUs have a set of sibling threads, and neither set contains the other CPU.
fn are_apart(sets: &BTreeMap<u32, CpuSet>, one: u32, other: u32) -> bool {
    let excludes = |cpu, other| sets.get(&cpu).is_some_and(|set| !set.contains(other));
    excludes(one, other) && excludes(other, one)
}

/// The package id of a core that lies in `set`.
fn id_within(cores: &[CoreSeen], set: &CpuSet) -> Option<i64> {
    let inside = cores.iter().filter(|core| set.contains_all(&core.cpus));
    inside.filter_map(|core| core.ids.package).find(|id| *id >= 0)
}

/// The CPUs of each NUMA node by its id.
fn cpus_by_node(machine: &Machine) -> Vec<(u32, CpuSet)> {
    const NODE: &str = "sys/devices/system/node";
    let cpus = |name: String| {
        let id = name.strip_prefix("node")?.parse().ok()?;
        Some((id, cpus_of_node(machine, &format!("{NODE}/{name}"))?.1))
    };
    machine.list(NODE).into_iter().filter_map(cpus).collect()
}

/// The CPUs of the NUMA node with the directory `dir`, and the file that lists them. A node without CPUs has an empty
/// list; a missing list means unknown.
pub(crate) fn cpus_of_node(machine: &Machine, dir: &str) -> Option<(String, CpuSet)> {
    let (list, mask) = (format!("{dir}/cpulist"), format!("{dir}/cpumap"));
    match machine.parse_or_empty(&list, CpuSet::parse) {
        Some(cpus) => Some((list, cpus)),
        None => machine.parse(&mask, CpuSet::parse_mask).map(|cpus| (mask, cpus)),
    }
}

pub(super) fn topology(cpu: u32, name: &str) -> String {
    format!("sys/devices/system/cpu/cpu{cpu}/topology/{name}")
}
