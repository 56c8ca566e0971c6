//! Packages, dies and clusters: groups of cores that share an id.
//!
//! The kernel reports for each CPU the id of its group and which CPUs are in the group. Both are read
//! for the first core of a group, and the id again for the last CPU of the group as a check: three
//! reads a group instead of one a core. If the sets contradict each other or the ids, the id of every
//! core is read, and a problem is recorded.

use super::cores::topology;
use crate::cpuset::CpuSet;
use crate::machine::{Machine, quote};

/// The files that describe one kind of group.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) id: &'static str,
    /// The sets of its CPUs, newest name first: lists, and as the last a mask.
    sets: &'static [&'static str],
}

pub(super) const PACKAGE: Files = Files {
    id: "physical_package_id",
    sets: &["package_cpus_list", "core_siblings_list", "core_siblings"],
};
pub(super) const DIE: Files = Files { id: "die_id", sets: &["die_cpus_list", "die_cpus"] };
pub(super) const CLUSTER: Files =
    Files { id: "cluster_id", sets: &["cluster_cpus_list", "cluster_cpus"] };
pub(super) const BOOK: Files =
    Files { id: "book_id", sets: &["book_siblings_list", "book_siblings"] };
pub(super) const DRAWER: Files =
    Files { id: "drawer_id", sets: &["drawer_siblings_list", "drawer_siblings"] };
pub(super) const CORE: Files =
    Files { id: "core_id", sets: &["core_cpus_list", "thread_siblings_list", "thread_siblings"] };

/// After this many CPUs in a row without a file, it is not read for the others.
const ENOUGH_MISSES: u8 = 4;

/// Known facts about the group of one core.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Group {
    /// Its id; -1 for a package that the kernel does not know.
    pub(super) id: Option<i64>,
    /// The online CPUs of the group; `None` where they were not read.
    pub(super) cpus: Option<CpuSet>,
}

/// Reads the set of CPUs around a CPU. The name that existed last time is tried first.
pub(super) struct Sets<'a> {
    machine: &'a Machine,
    files: &'a Files,
    last: Option<&'static str>,
}

impl<'a> Sets<'a> {
    pub(super) fn new(machine: &'a Machine, files: &'a Files) -> Sets<'a> {
        Sets { machine, files, last: None }
    }

    /// The groups of `cores`, one for each of them.
    pub(super) fn groups(&mut self, cores: &[CpuSet], online: &CpuSet) -> Vec<Group> {
        self.by_sets(cores, online).unwrap_or_else(|| self.by_ids(cores))
    }

    /// `None` if the sets do not help: there are none, a group is a single core, or they contradict.
    fn by_sets(&mut self, cores: &[CpuSet], online: &CpuSet) -> Option<Vec<Group>> {
        let mut found: Vec<Group> = Vec::new();
        let mut groups = Vec::with_capacity(cores.len());
        let is_optional = self.files.id != PACKAGE.id;
        let mut covered = CpuSet::default();
        for core in cores {
            let first = core.first()?;
            if covered.contains(first) {
                let is_in = |group: &&Group| group.cpus.as_ref().is_some_and(|c| c.contains(first));
                groups.push(found.iter().find(is_in)?.clone());
                continue;
            }
            let id = self.id(first);
            if id.is_none() && is_optional {
                return None;
            }
            let (path, set) = self.read(first)?;
            let cpus = set.intersection(online);
            // Groups of one core save no reads.
            if cpus == *core && cores.len() > 1 {
                return None;
            }
            let is_apart = covered.intersection(&cpus).is_empty();
            if !is_apart || !cpus.contains_all(core) || !self.ends_agree(&cpus, id) {
                let found = quote(&set.to_string());
                let expected =
                    format!("sets that agree with each other and with {}", self.files.id);
                self.machine.problem(&path, found, expected);
                return None;
            }
            covered.insert_all(&cpus);
            let group = Group { id, cpus: Some(cpus) };
            found.push(group.clone());
            groups.push(group);
        }
        // Dies and clusters can be numbered within their package, so that only packages need unique ids.
        (is_optional || is_once(&found)).then_some(groups)
    }

    /// True if the last CPU of the group reports the same id as the first, or none.
    fn ends_agree(&self, cpus: &CpuSet, first: Option<i64>) -> bool {
        let last = cpus.last().filter(|last| Some(*last) != cpus.first());
        last.and_then(|last| self.id(last)).is_none_or(|last| Some(last) == first)
    }

    /// The id of every core, from the first of its CPUs that has one.
    fn by_ids(&self, cores: &[CpuSet]) -> Vec<Group> {
        let is_optional = self.files.id != PACKAGE.id;
        let mut misses = 0_u8;
        let read = |core: &CpuSet| {
            if misses >= ENOUGH_MISSES && is_optional {
                return Group::default();
            }
            let id = core.iter().find_map(|cpu| self.id(cpu));
            misses = if id.is_some() { 0 } else { misses.saturating_add(1) };
            Group { id, cpus: None }
        };
        cores.iter().map(read).collect()
    }

    /// The id that `cpu` reports. Kernels without a kind of group write -1 (`drivers/base/topology.c`), or
    /// 65535 on x86 (`BAD_APICID`), which means unknown. The -1 of a package is kept to group its CPUs.
    fn id(&self, cpu: u32) -> Option<i64> {
        let id = self.machine.number(&topology(cpu, self.files.id))?;
        (self.files.id == PACKAGE.id || (0..0xffff).contains(&id)).then_some(id)
    }

    /// The set around `cpu`, and the path of the file it comes from.
    pub(super) fn read(&mut self, cpu: u32) -> Option<(String, CpuSet)> {
        let last = self.last;
        let others = self.files.sets.iter().copied().filter(|name| Some(*name) != last);
        last.into_iter().chain(others).find_map(|name| {
            let path = topology(cpu, name);
            let is_list = name.ends_with("_list");
            let parse = if is_list { CpuSet::parse } else { CpuSet::parse_mask };
            let set = self.machine.parse(&path, parse)?;
            self.last = Some(name);
            Some((path, set))
        })
    }
}

/// True if no two groups have the same known id.
fn is_once(groups: &[Group]) -> bool {
    let mut ids = std::collections::BTreeSet::new();
    groups.iter().filter_map(|group| group.id.filter(|id| *id >= 0)).all(|id| ids.insert(id))
}
