//! Logical CPUs that are online, offline, present and possible: `/sys/devices/system/cpu/*`
//! (`Documentation/admin-guide/cputopology.rst`).

use super::cpuinfo::CpuInfo;
use crate::cpuset::{CpuSet, LIMIT};
use crate::machine::Machine;

const CPU: &str = "sys/devices/system/cpu";

/// The sets of logical CPUs; a set without a source is `None`.
#[derive(Debug, Default)]
pub(crate) struct CpuSets {
    pub(crate) online: Option<CpuSet>,
    pub(crate) offline: Option<CpuSet>,
    pub(crate) present: Option<CpuSet>,
    pub(crate) possible: Option<CpuSet>,
}

impl CpuSets {
    /// Reads the sets. `cpuinfo` is used only if sysfs lists no CPUs.
    pub(super) fn read(machine: &Machine, cpuinfo: &CpuInfo) -> CpuSets {
        let mut sets = CpuSets::from_sysfs(machine);
        if sets.online.is_none() && !cpuinfo.is_cut() {
            sets.online = Some(cpuinfo.cpus()).filter(|cpus| !cpus.is_empty());
        }
        sets
    }

    /// The CPUs that are present but not online; `None` if unknown. The kernel's `offline` cannot replace it, because
    /// it also lists numbers that no CPU has.
    pub(super) fn present_offline(&self) -> Option<CpuSet> {
        Some(self.present.as_ref()?.difference(self.online.as_ref()?))
    }

    /// The CPUs in standby on IBM Z, which could be assigned to the machine but are not
    /// (`cpuN/configure`, `arch/s390/kernel/smp.c`). Only offline CPUs are checked.
    pub(super) fn standby(&self, machine: &Machine, cpuinfo: &CpuInfo) -> CpuSet {
        if cpuinfo.value(0, "vendor_id") != Some("IBM/S390") {
            return CpuSet::default();
        }
        let is_standby =
            |cpu: &u32| machine.flag(&format!("{CPU}/cpu{cpu}/configure")) == Some(false);
        self.present_offline().unwrap_or_default().iter().filter(is_standby).collect()
    }

    /// The CPUs of `offline` that stopped halfway down or up: the kernel counts the steps
    /// (`cpuN/hotplug/state`, `enum cpuhp_state`), and a CPU that is down has 0. A CPU in the state of the
    /// online ones came up after the lists were read.
    pub(super) fn stuck(&self, machine: &Machine, offline: &CpuSet) -> CpuSet {
        let state = |cpu: u32| machine.number::<i64>(&format!("{CPU}/cpu{cpu}/hotplug/state"));
        let states = offline.iter().filter_map(|cpu| Some((cpu, state(cpu).filter(|s| *s != 0)?)));
        let states: Vec<(u32, i64)> = states.collect();
        if states.is_empty() {
            return CpuSet::default();
        }
        let up = self.online.as_ref().and_then(CpuSet::first).and_then(state);
        states.into_iter().filter(|(_, state)| Some(*state) != up).map(|(cpu, _)| cpu).collect()
    }

    /// Reads the sets from sysfs alone.
    ///
    /// Kernels before 2.6.25 have no `online`. For them the directories `cpuN` are used, except those
    /// whose `cpuN/online` is 0.
    pub(crate) fn from_sysfs(machine: &Machine) -> CpuSets {
        let possible = set(machine, "possible");
        let mut present = set(machine, "present");
        let mut offline = set(machine, "offline");
        let mut online = set(machine, "online").filter(|cpus| !cpus.is_empty());
        // Directories come last, because a captured tree contains only those that were read.
        if let (None, Some(present), Some(offline)) = (&online, &present, &offline) {
            online = Some(present.difference(offline)).filter(|cpus| !cpus.is_empty());
        }
        if online.is_none() || present.is_none() {
            let named = directories(machine);
            if online.is_none() && !named.is_empty() {
                let (on, off) = split(machine, &named, offline.as_ref());
                (online, offline) = (Some(on), offline.or((!off.is_empty()).then_some(off)));
            }
            // An online CPU without a directory shows that the directories are incomplete.
            let is_whole =
                |named: &CpuSet| online.as_ref().is_some_and(|on| on.difference(named).is_empty());
            present = present.or_else(|| Some(named).filter(is_whole));
        }
        if let (None, Some(possible), Some(online)) = (&offline, &possible, &online) {
            offline = Some(possible.difference(online));
        }
        let nothing = CpuSet::default();
        let on = online.as_ref().unwrap_or(&nothing);
        let twice = offline.as_ref().map(|offline| on.intersection(offline));
        let not_present = present.as_ref().map(|present| on.difference(present));
        let wrong = [
            ("offline", twice, "no CPU that is online as well"),
            ("present", not_present, "every CPU that is online"),
        ];
        for (name, cpus, expected) in wrong {
            if let Some(cpus) = cpus.filter(|cpus| !cpus.is_empty()) {
                let found = format!("CPUs {cpus} against online");
                machine.problem(&format!("{CPU}/{name}"), found, expected);
            }
        }
        CpuSets { online, offline, present, possible }
    }
}

/// Reads a list. An empty list is a fact; a missing file is not.
fn set(machine: &Machine, name: &str) -> Option<CpuSet> {
    // Some kernels write "(null)" or a blank for the empty set.
    let parse = |text: &str| CpuSet::parse(if text == "(null)" { "" } else { text });
    machine.parse_or_empty(&format!("{CPU}/{name}"), parse)
}

fn directories(machine: &Machine) -> CpuSet {
    let names = machine.names(CPU);
    let number = |name: &String| name.strip_prefix("cpu")?.parse().ok();
    names.iter().filter_map(number).filter(|cpu| *cpu <= LIMIT).collect()
}

/// Splits the CPUs that have a directory into those that are online and those that are not.
fn split(machine: &Machine, named: &CpuSet, offline: Option<&CpuSet>) -> (CpuSet, CpuSet) {
    let is_off = |cpu: &u32| match offline {
        Some(offline) if offline.contains(*cpu) => true,
        _ => machine.flag(&format!("{CPU}/cpu{cpu}/online")) == Some(false),
    };
    let off: CpuSet = named.iter().filter(is_off).collect();
    (named.difference(&off), off)
}
