//! Logical CPUs, cores and packages: `/sys/devices/system/cpu` and `/proc/cpuinfo`
//! (`Documentation/admin-guide/cputopology.rst`, `Documentation/ABI/testing/sysfs-devices-system-cpu`).
//!
//! An id is opaque: 36 and 8442 are package ids of real machines, and -1 means unknown. Any CPU may be
//! offline, including CPU 0; cores may differ in kind and number of threads. SMBIOS type 4 and the
//! device tree provide the model name if the kernel has none.

mod cores;
mod cpuinfo;
mod groups;
mod kinds;
mod names;
mod packages;
mod sets;
mod sockets;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cpuset::CpuSet;
use crate::machine::Machine;
use crate::smbios;
use cores::Cores;
pub(crate) use cores::cpus_of_node;
use cpuinfo::CpuInfo;
pub(crate) use kinds::Kinds;
pub(crate) use sets::CpuSets;
pub use sockets::Socket;
use sockets::sockets;

const CPU: &str = "sys/devices/system/cpu";

/// The processors.
#[serde_with::apply(Vec => #[serde(skip_serializing_if = "Vec::is_empty")])]
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Cpu {
    /// Architecture as `uname -m` prints it, e.g. `x86_64`.
    pub architecture: Option<String>,
    /// Number of logical CPUs that are online.
    pub n_logical_cpus_online: Option<usize>,
    /// Number of logical CPUs that are present, online or not.
    pub n_logical_cpus_present: Option<usize>,
    /// Number of logical CPUs that the kernel could ever have.
    pub n_logical_cpus_possible: Option<usize>,
    /// The logical CPUs that are online, as a list such as `0-3,8`.
    pub online: Option<String>,
    /// The logical CPUs that are not online: the kernel's list, else those that are possible but not
    /// online; empty if there are none.
    pub offline: Option<String>,
    /// The logical CPUs that are present, online or not.
    pub present: Option<String>,
    /// The logical CPUs that the kernel could ever have.
    pub possible: Option<String>,
    /// IBM Z: the logical CPUs in standby (`cpuN/configure` is 0), which the kernel counts as present
    /// but which are not assigned to the partition; `None` if there are none.
    pub standby: Option<String>,
    /// Offline logical CPUs that stopped halfway down or up (`cpuN/hotplug/state` is not 0), e.g. after a
    /// failed hot-plug; `None` if there are none.
    pub stuck: Option<String>,
    /// The logical CPUs that are isolated from the scheduler (`isolcpus=`); `None` if there are none.
    pub isolated: Option<String>,
    /// Number of packages (sockets with a processor) that have an online CPU.
    pub n_packages: Option<usize>,
    /// Number of cores that have an online CPU.
    pub n_cores: Option<usize>,
    /// Number of threads of a core; `None` if cores differ, or if offline CPUs may be further threads.
    pub threads_per_core: Option<usize>,
    /// Vendor of the first package as the kernel spells it, e.g. `GenuineIntel`.
    pub vendor: Option<String>,
    /// Model of the first package as the kernel spells it; on Arm the part's name.
    pub model_name: Option<String>,
    /// Family of the first online CPU (x86: CPUID leaf 1, as `/proc/cpuinfo` prints it).
    pub family: Option<u32>,
    /// Model number within the family.
    pub model: Option<u32>,
    /// Stepping of the model.
    pub stepping: Option<u32>,
    /// Arm: `MIDR_EL1` of the first online CPU with implementer, variant, part and revision, e.g.
    /// `0x413fd0c1` (Arm ARM, D19.2).
    pub midr: Option<String>,
    /// Revision as POWER and Itanium kernels write it, e.g. `2.1 (pvr 004b 0201)`.
    pub revision: Option<String>,
    /// Lowest frequency of the first online CPU, in MHz (`cpufreq/cpuinfo_min_freq`).
    pub min_mhz: Option<u64>,
    /// Flags of the first online CPU, in the kernel's order.
    pub flags: Vec<String>,
    /// Revision of the microcode, e.g. `0x5003604`.
    pub microcode: Option<String>,
    /// The kernel's status of each hardware vulnerability, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub vulnerabilities: BTreeMap<String, String>,
    /// True if more than one thread per core is running.
    pub is_smt_active: Option<bool>,
    /// SMT control of the kernel: `on`, `off`, `forceoff`, `notsupported`, `notimplemented`.
    pub smt_control: Option<String>,
    /// True if an x86 CPU reports that it runs under a hypervisor; `None` on other architectures.
    pub has_hypervisor_flag: Option<bool>,
    /// Packages by id.
    pub packages: Vec<Package>,
    /// Sockets as SMBIOS type 4 lists them, populated or not, in table order.
    pub sockets: Vec<Socket>,
}

/// A package: what is plugged into a socket.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Package {
    /// The kernel's opaque id; may be large, and the same for several packages. `None` if the kernel
    /// reports -1 (unknown).
    pub id: Option<i64>,
    /// Vendor of its first CPU.
    pub vendor: Option<String>,
    /// Model of its first CPU.
    pub model_name: Option<String>,
    /// Its cores that have an online CPU, by id.
    pub cores: Vec<Core>,
}

/// A core.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Core {
    /// The kernel's id, unique at most within die and package; old kernels number the cores of each node
    /// of an AMD package from 0. `None` if the kernel reports -1 (unknown).
    pub id: Option<i64>,
    /// The die within the package; `None` if the kernel does not know it.
    pub die_id: Option<i64>,
    /// The book of packages on IBM Z; `None` on other machines.
    pub book_id: Option<i64>,
    /// The drawer of books on IBM Z; `None` on other machines.
    pub drawer_id: Option<i64>,
    /// The cluster of cores that share a cache; `None` if the kernel does not know it.
    pub cluster_id: Option<i64>,
    /// `performance`, `efficiency` or `low_power` on a machine with several kinds of cores.
    pub kind: Option<String>,
    /// Name of the Arm part, e.g. `Cortex-A710`.
    pub part_name: Option<String>,
    /// Its online logical CPUs.
    pub logical_cpus: String,
    /// Highest frequency in MHz.
    pub max_mhz: Option<u64>,
    /// Guaranteed frequency in MHz (`intel_pstate` only).
    pub base_mhz: Option<u64>,
}

/// Reads the processors.
pub fn cpu(machine: &Machine) -> Cpu {
    let cpuinfo = machine.text_with_end(cpuinfo::PATH);
    if cpuinfo.as_ref().is_some_and(|(text, _)| text.is_empty()) {
        machine.problem(cpuinfo::PATH, "an empty file", "a block for each CPU");
    }
    let (text, is_whole) = cpuinfo.unwrap_or_default();
    let info = CpuInfo::parse_file(machine, &text, is_whole);
    let sets = CpuSets::read(machine, &info);
    let online = sets.online.clone().unwrap_or_default();
    let cores = Cores::read(machine, &info, &online);
    let standby = sets.standby(machine, &info);
    let offline = sets.present_offline().unwrap_or_default().difference(&standby);
    let stuck = sets.stuck(machine, &offline);
    let mut cpu = Cpu {
        stuck: Some(stuck.to_string()).filter(|_| !stuck.is_empty()),
        standby: Some(standby.to_string()).filter(|_| !standby.is_empty()),
        n_logical_cpus_online: sets.online.as_ref().map(CpuSet::len),
        n_logical_cpus_present: sets.present.as_ref().map(CpuSet::len),
        n_logical_cpus_possible: sets.possible.as_ref().map(CpuSet::len),
        online: sets.online.as_ref().map(CpuSet::to_string),
        offline: sets.offline.as_ref().map(CpuSet::to_string),
        present: sets.present.as_ref().map(CpuSet::to_string),
        possible: sets.possible.as_ref().map(CpuSet::to_string),
        isolated: machine.parse(&format!("{CPU}/isolated"), CpuSet::parse).map(|s| s.to_string()),
        vulnerabilities: vulnerabilities(machine),
        is_smt_active: machine.flag(&format!("{CPU}/smt/active")),
        smt_control: machine.text(&format!("{CPU}/smt/control")),
        packages: packages::packages(machine, &info, &cores),
        sockets: smbios::read(machine).map(|table| sockets(&table)).unwrap_or_default(),
        ..Cpu::default()
    };
    name(&mut cpu, machine, &info, online.first().or(info.cpus().first()));
    count(&mut cpu, &cores, offline.len());
    cpu
}

/// Fills the counts of cores and packages if the place of every online CPU is known.
fn count(cpu: &mut Cpu, cores: &Cores, n_offline: usize) {
    let packages: Option<std::collections::BTreeSet<usize>> =
        cores.cores.iter().map(|core| core.package).collect();
    let n_packages = packages.map(|packages| packages.len()).filter(|n| *n > 0);
    if cores.is_complete {
        cpu.n_packages = n_packages;
        cpu.n_cores = Some(cores.cores.len()).filter(|n| *n > 0);
        // Each offline CPU can hide one thread of a core.
        let threads = || cores.cores.iter().map(|core| core.cpus.len());
        let kinds = || cpu.packages.iter().flat_map(|p| &p.cores).any(|core| core.kind.is_some());
        let n_missing = |most: usize| threads().map(|n| most - n).sum::<usize>();
        let are_alike = |most: &usize| match n_missing(*most) {
            0 => true,
            n_missing => n_missing <= n_offline && !kinds(),
        };
        let n_threads = threads().max().filter(are_alike);
        // `notimplemented` means that the kernel cannot switch SMT, not that there is none.
        let is_without_smt = cpu.smt_control.as_deref() == Some("notsupported");
        // Only as many offline CPUs as there are cores can hide a sibling of every core.
        let may_hide_siblings = n_offline >= cores.cores.len().max(1) && !is_without_smt;
        cpu.threads_per_core = n_threads.filter(|n| *n > 1 || !may_hide_siblings);
    }
}

/// Fills in the first CPU's report about itself.
fn name(cpu: &mut Cpu, machine: &Machine, info: &CpuInfo, first: Option<u32>) {
    let first = first.unwrap_or_default();
    cpu.architecture = kernels_architecture(machine)
        .or_else(|| names::architecture(info, first).map(str::to_owned));
    cpu.flags = names::flags(info, first);
    let number = |key| info.value(first, key).and_then(|text| text.parse().ok());
    let is_x86 = info.value(first, "vendor_id").is_some() && info.value(first, "flags").is_some();
    if is_x86 {
        (cpu.family, cpu.model) = (number("cpu family"), number("model"));
        cpu.stepping = number("stepping");
        cpu.has_hypervisor_flag = Some(cpu.flags.iter().any(|flag| flag == "hypervisor"));
    }
    cpu.midr = names::midr(info, first).map(|midr| format!("{midr:#010x}"));
    cpu.revision = info.value(first, "revision").filter(|_| cpu.midr.is_none()).map(str::to_owned);
    cpu.min_mhz = packages::min_mhz(machine, first);
    let microcode = || machine.text(&format!("{CPU}/cpu{first}/microcode/version"));
    cpu.microcode = info.value(first, "microcode").map(str::to_owned).or_else(microcode);
    let socket = cpu.sockets.iter().find(|socket| socket.is_populated == Some(true));
    let real =
        |text: Option<&String>| text.filter(|text| !crate::dmi::is_placeholder(text)).cloned();
    cpu.vendor = names::vendor(info, first).or_else(|| real(socket?.manufacturer.as_ref()));
    cpu.model_name =
        names::model_name(info, first).or_else(|| real(socket?.version.as_ref())).or_else(|| {
            let tree = format!("sys/firmware/devicetree/base/cpus/cpu@{first}/compatible");
            machine.text(&tree).and_then(|text| text.split('\0').next().map(str::to_owned))
        });
}

/// The architecture as `uname -m` prints it, for another collector, which has no parsed `/proc/cpuinfo`.
pub(crate) fn architecture(machine: &Machine) -> Option<String> {
    let form = || {
        let (text, _) = machine.text_with_end(cpuinfo::PATH)?;
        let info = CpuInfo::parse(&text);
        names::architecture(&info, info.cpus().first()?).map(str::to_owned)
    };
    kernels_architecture(machine).or_else(form)
}

/// The architecture: from the kernel itself (`/proc/sys/kernel/arch`, Linux 6.1; `uname(2)` live),
/// else from the end of the kernel's release. If this is `None`, the form of `/proc/cpuinfo` shows it.
fn kernels_architecture(machine: &Machine) -> Option<String> {
    let live = || {
        let name = machine.is_live().then(nix::sys::utsname::uname)?.ok()?;
        Some(name.machine().to_str()?.to_owned())
    };
    let release = || architecture_of_release(&kernel_release(machine)?).map(str::to_owned);
    machine.text("proc/sys/kernel/arch").or_else(live).or_else(release)
}

/// Release of the kernel.
pub(crate) fn kernel_release(machine: &Machine) -> Option<String> {
    machine.text("proc/sys/kernel/osrelease").or_else(|| {
        // `Linux version 6.1.0 (builder) …`
        let version = machine.text("proc/version")?;
        version.strip_prefix("Linux version ")?.split_whitespace().next().map(str::to_owned)
    })
}

/// The architecture at the end of a release such as `5.14.0-427.el9.x86_64` or `6.1.0-18-amd64`; a variant of the kernel
/// can follow it, as in `6.12.0-55.el10.aarch64+64k`.
fn architecture_of_release(release: &str) -> Option<&str> {
    const NAMES: &str = "x86_64 aarch64 ppc64le ppc64 s390x riscv64 loongarch64 ia64 i686";
    let (_, last) = release.rsplit_once('.')?;
    last.rsplit(['-', '+']).find_map(|word| match word {
        "amd64" => Some("x86_64"),
        "arm64" => Some("aarch64"),
        "powerpc64le" => Some("ppc64le"),
        "armv7hl" => Some("armv7l"),
        "686" => Some("i686"),
        word => NAMES.split(' ').find(|known| *known == word),
    })
}

fn vulnerabilities(machine: &Machine) -> BTreeMap<String, String> {
    let dir = format!("{CPU}/vulnerabilities");
    let read = |name: String| Some((name.clone(), machine.text(&format!("{dir}/{name}"))?));
    machine.list(&dir).into_iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests;
