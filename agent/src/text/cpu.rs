//! `cpu (…)`: packages, cores with their logical processors, capabilities.

use probes::cpu::{Core, Cpu, Package};
use probes::cpuset::CpuSet;

use super::page::{Page, Tone, counted, heading, pair, pairs, with};

pub(super) fn cpu(page: &mut Page, cpu: &Cpu) {
    let parts = [
        cpu.n_packages.map(|n| counted(n, "physical package")),
        cpu.n_cores.map(|n| counted(n, "core")),
        cpu.n_logical_cpus_online.map(|n| counted(n, "hardware thread")),
    ];
    page.section(&heading("cpu", parts.into_iter().flatten()));
    let model = [&cpu.vendor, &cpu.model_name].map(|text| text.as_deref().unwrap_or_default());
    let model = model.join(" ");
    if !model.trim().is_empty() {
        page.line(1, model.trim());
    }
    figures(page, cpu);
    page.each(&cpu.packages, package);
    for socket in &cpu.sockets {
        let locator = socket.locator.as_deref().unwrap_or("socket");
        let status = socket.status.as_deref().filter(|status| status.starts_with("disabled"));
        let Some(status) = status else { continue };
        page.toned(Tone::Warning, 1, &format!("{locator}: processor {status}"));
    }
    if let Some(offline) = cpu.offline.as_ref().filter(|offline| !offline.is_empty()) {
        page.toned(Tone::Quiet, 1, &format!("offline logical processors: {offline}"));
    }
    if let Some(stuck) = &cpu.stuck {
        page.toned(Tone::Warning, 1, &format!("stuck between online and offline: {stuck}"));
    }
    if let Some(isolated) = cpu.isolated.as_ref().filter(|isolated| !isolated.is_empty()) {
        page.toned(Tone::Quiet, 1, &format!("isolated logical processors: {isolated}"));
    }
    // `KVM: Vulnerable` affects only hosts of virtual machines (itlb_multihit).
    let is_open = |state: &str| state.trim_start_matches("KVM: ").starts_with("Vulnerable");
    let open = cpu.vulnerabilities.iter().filter(|(_, state)| is_open(state));
    let open: Vec<&str> = open.map(|(name, _)| name.as_str()).collect();
    if !open.is_empty() {
        page.toned(Tone::Warning, 1, &format!("vulnerable to {}", open.join(", ")));
    }
    page.words(2, "capabilities", &cpu.flags);
}

/// Figures that technicians compare between machines: microcode, frequencies, SMT.
fn figures(page: &mut Page, cpu: &Cpu) {
    let cores = || cpu.packages.iter().flat_map(|package| &package.cores);
    // `notsupported` and `notimplemented`: there is nothing to compare.
    let smt = cpu.smt_control.as_deref().filter(|control| !control.starts_with("not"));
    let base = cores().filter_map(|core| core.base_mhz).max().map(|mhz| format!("{mhz}MHz"));
    let max = cores().filter_map(|core| core.max_mhz).max().map(|mhz| format!("{mhz}MHz"));
    let speeds = with(" base=", base) + &with(" max=", max);
    let line = pairs!(cpu; microcode) + &speeds + &pair("smt", smt);
    if !line.is_empty() {
        page.toned(Tone::Quiet, 1, line.trim_start());
    }
}

fn package(page: &mut Page, package: &Package) {
    let n_threads: usize = package.cores.iter().map(|core| logical_cpus(core).len()).sum();
    let id = with(" #", package.id);
    let counts = [(package.cores.len(), "core"), (n_threads, "hardware thread")];
    // 0 would mean that the cores of this package were counted; they are unknown.
    let counts = counts.into_iter().filter(|(n, _)| *n > 0).map(|(n, one)| counted(n, one));
    page.line(1, &heading(&format!("physical package{id}"), counts));
    page.each(&package.cores, core);
}

fn core(page: &mut Page, core: &Core) {
    let logical: Vec<String> = logical_cpus(core).iter().map(|n| n.to_string()).collect();
    let threads = counted(logical.len(), "thread");
    let (id, kind) = (with(" #", core.id), with(", ", core.kind.as_ref()));
    let line =
        format!("processor core{id} ({threads}{kind}), logical processors [{}]", logical.join(" "));
    page.line(2, &line);
}

fn logical_cpus(core: &Core) -> CpuSet {
    CpuSet::parse(&core.logical_cpus).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::page::tests::text_of;

    #[test]
    fn only_vulnerabilities_without_mitigation_call_for_attention() {
        let states = [
            ("itlb_multihit", "KVM: Vulnerable"),
            ("l1tf", "Mitigation: PTE Inversion; VMX: vulnerable, SMT vulnerable"),
            ("mds", "Vulnerable: Clear CPU buffers attempted, no microcode; SMT vulnerable"),
            ("meltdown", "Not affected"),
            ("retbleed", "Vulnerable"),
            ("srbds", "Unknown: Dependent on hypervisor status"),
        ];
        let vulnerabilities = states.map(|(name, state)| (name.to_owned(), state.to_owned()));
        let found = Cpu { vulnerabilities: vulnerabilities.into(), ..Cpu::default() };
        let text = text_of(|page| cpu(page, &found));
        assert!(text.ends_with("\n vulnerable to itlb_multihit, mds, retbleed\n"), "{text}");
    }
}
