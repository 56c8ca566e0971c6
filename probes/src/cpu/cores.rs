//! Cores and packages: `/sys/devices/system/cpu/cpuN/topology/*`
//! (`Documentation/admin-guide/cputopology.rst`), else `/proc/cpuinfo`.
//!
//! The files of a core are read for its first logical CPU only, so an SMT machine costs about three
//! reads per logical CPU. Cores and packages are counted as distinct sets; nothing is multiplied or
//! divided. Where the sets contradict each other, the ids decide, and a problem says so.

use std::collections::BTreeMap;

use super::cpuinfo::CpuInfo;
use crate::cpuset::CpuSet;
use crate::machine::{Machine, quote};

/// A core as the kernel groups the online logical CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CoreSeen {
    pub(super) ids: Ids,
    /// Its online logical CPUs; never empty.
    pub(super) cpus: CpuSet,
    /// The dense number of its package, by which cores are grouped; `None` if not known.
    pub(super) package: Option<usize>,
}

/// The ids of a core; opaque and signed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ids {
    pub(super) package: Option<i64>,
    pub(super) die: Option<i64>,
    pub(super) cluster: Option<i64>,
    pub(super) core: Option<i64>,
}

/// The cores of the online CPUs.
#[derive(Debug, Default)]
pub(super) struct Cores {
    /// By first logical CPU; without CPUs whose core is not known.
    pub(super) cores: Vec<CoreSeen>,
    /// Whether every online CPU's core is known.
    pub(super) is_complete: bool,
}

impl Cores {
    /// Reads the cores of the CPUs in `online`.
    pub(super) fn read(machine: &Machine, info: &CpuInfo, online: &CpuSet) -> Cores {
        let mut reader = Reader { machine, info, online, optional: BTreeMap::new() };
        let mut cores =
            reader.by_sets().unwrap_or_else(|| reader.by_ids(&CpuSet::default(), online));
        let grouped: CpuSet = cores.iter().flat_map(|core| core.cpus.iter()).collect();
        let loose = online.difference(&grouped);
        let singles = reader.by_ids(&grouped, &loose);
        cores.extend(singles);
        cores.sort_by_key(|core| core.cpus.first());
        reader.number_packages(&mut cores);
        let n_grouped: usize = cores.iter().map(|core| core.cpus.len()).sum();
        Cores { cores, is_complete: n_grouped == online.len() }
    }
}

struct Reader<'a> {
    machine: &'a Machine,
    info: &'a CpuInfo<'a>,
    online: &'a CpuSet,
    /// Attributes that not every kernel has, with how often in a row they were missed.
    optional: BTreeMap<&'static str, u8>,
}

impl Reader<'_> {
    /// The cores by the sets of sibling threads; CPUs without such a set are left out. `None` if
    /// the sets contradict each other.
    fn by_sets(&mut self) -> Option<Vec<CoreSeen>> {
        let mut cores: Vec<CoreSeen> = Vec::new();
        let mut covered = CpuSet::default();
        for cpu in self.online.iter() {
            if covered.contains(cpu) {
                continue;
            }
            let Some((path, siblings)) = self.siblings(cpu) else { continue };
            let cpus = siblings.intersection(self.online);
            let twice = cpus.intersection(&covered);
            if !cpus.contains(cpu) || !twice.is_empty() || self.cpuinfo_differs(&cpus) {
                let expected =
                    "sets of sibling threads that agree with each other and the core ids";
                self.machine.problem(&path, quote(&siblings.to_string()), expected);
                return None;
            }
            cpus.iter().for_each(|cpu| covered.insert(cpu));
            cores.push(CoreSeen { ids: self.ids(&cpus), cpus, package: None });
        }
        Some(cores)
    }

    /// The cores of the CPUs in `wanted` by their ids; CPUs in `grouped` have their core already.
    fn by_ids(&mut self, grouped: &CpuSet, wanted: &CpuSet) -> Vec<CoreSeen> {
        let mut cores: BTreeMap<(Ids, Option<u32>), CpuSet> = BTreeMap::new();
        for cpu in wanted.iter().filter(|cpu| !grouped.contains(*cpu)) {
            let ids = self.ids(&[cpu].into_iter().collect());
            if ids.core.is_none() || ids.package.is_none() {
                continue;
            }
            // Core ids can repeat within a package of two dies that no file names; without SMT
            // each logical CPU is a core of its own.
            let alone = self.is_without_smt(cpu).then_some(cpu);
            cores.entry((Ids { cluster: None, ..ids }, alone)).or_default().insert(cpu);
        }
        let cores = cores.into_iter();
        cores.map(|((ids, _), cpus)| CoreSeen { ids, cpus, package: None }).collect()
    }

    /// The threads of the core of `cpu`, and the path that says it.
    fn siblings(&self, cpu: u32) -> Option<(String, CpuSet)> {
        self.set(cpu, ["core_cpus_list", "thread_siblings_list"], "thread_siblings")
    }

    fn set(&self, cpu: u32, lists: [&str; 2], mask: &str) -> Option<(String, CpuSet)> {
        for list in lists {
            let path = topology(cpu, list);
            if let Some(set) = self.machine.parse(&path, CpuSet::parse) {
                return Some((path, set));
            }
        }
        let path = topology(cpu, mask);
        self.machine.parse(&path, CpuSet::parse_mask).map(|set| (path, set))
    }

    /// Whether `/proc/cpuinfo` puts the CPUs of one set in different cores.
    fn cpuinfo_differs(&self, cpus: &CpuSet) -> bool {
        let place = |cpu| Some((self.info.number(cpu, "physical id")?, self.core_id(cpu)?));
        let mut places = cpus.iter().filter_map(place);
        let first = places.next();
        places.any(|place| Some(place) != first)
    }

    /// Whether `/proc/cpuinfo` says that no two online CPUs of the package share a core.
    fn is_without_smt(&self, cpu: u32) -> bool {
        let siblings = self.info.number(cpu, "siblings");
        siblings.is_some() && siblings == self.info.number(cpu, "cpu cores")
    }

    fn core_id(&self, cpu: u32) -> Option<i64> {
        self.info.number(cpu, "core id").or_else(|| self.info.number(cpu, "core"))
    }

    /// The ids of the core that the CPUs in `cpus` belong to: from the first of them that has them.
    fn ids(&mut self, cpus: &CpuSet) -> Ids {
        let file = |name: &str| {
            cpus.iter().find_map(|cpu| self.machine.number::<i64>(&topology(cpu, name)))
        };
        let (package, core) = (file("physical_package_id"), file("core_id"));
        let info = |keys: [&str; 2]| {
            let mut keys = keys.iter();
            keys.find_map(|key| cpus.iter().find_map(|cpu| self.info.number(cpu, key)))
        };
        Ids {
            package: package.or_else(|| info(["physical id", "package"])),
            core: core.or_else(|| info(["core id", "core"])),
            die: self.optional(cpus, "die_id"),
            cluster: self.optional(cpus, "cluster_id"),
        }
    }

    /// An id that not every kernel has; -1 is «not known» (`drivers/base/topology.c`), and so is
    /// 65535 on x86 (`BAD_APICID`).
    fn optional(&mut self, cpus: &CpuSet, name: &'static str) -> Option<i64> {
        let misses = self.optional.entry(name).or_default();
        if *misses > 3 {
            return None;
        }
        let id = cpus.first().and_then(|cpu| self.machine.number::<i64>(&topology(cpu, name)));
        *misses = if id.is_some() { 0 } else { *misses + 1 };
        id.filter(|id| (0..0xffff).contains(id))
    }

    /// Numbers the packages: by their id; where the kernel says -1 or nothing, by the set of the
    /// package's CPUs, else all that say -1 are one.
    fn number_packages(&self, cores: &mut [CoreSeen]) {
        #[derive(PartialEq, Eq, PartialOrd, Ord)]
        enum Key {
            Id(i64),
            Set(CpuSet),
            One,
        }
        let mut numbers: BTreeMap<Key, usize> = BTreeMap::new();
        for index in 0..cores.len() {
            let core = &cores[index];
            let key = match core.ids.package {
                Some(id) if id >= 0 => Some(Key::Id(id)),
                id => match self.package_cpus(&core.cpus) {
                    Some(set) if id.is_none() => match id_within(cores, &set) {
                        Some(id) => Some(Key::Id(id)),
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

    fn package_cpus(&self, core: &CpuSet) -> Option<CpuSet> {
        let read =
            |cpu| self.set(cpu, ["package_cpus_list", "core_siblings_list"], "core_siblings");
        let (_, set) = core.iter().find_map(read)?;
        Some(set.intersection(self.online)).filter(|set| core.iter().all(|cpu| set.contains(cpu)))
    }
}

/// The package id of a core that lies in `set`.
fn id_within(cores: &[CoreSeen], set: &CpuSet) -> Option<i64> {
    let inside = cores.iter().filter(|core| core.cpus.iter().all(|cpu| set.contains(cpu)));
    inside.filter_map(|core| core.ids.package).find(|id| *id >= 0)
}

fn topology(cpu: u32, name: &str) -> String {
    format!("sys/devices/system/cpu/cpu{cpu}/topology/{name}")
}
