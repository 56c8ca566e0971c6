//! Vendor, model name and flags of a CPU: each architecture has its own keys in `/proc/cpuinfo`.

use formats::data;

use super::cpuinfo::CpuInfo;

const ARM_MIDR: &str = include_str!("../../data/arm-midr.txt");

/// The vendor of `cpu` as the kernel spells it (`GenuineIntel`, `IBM/S390`), or the implementer of an
/// Arm CPU.
pub(super) fn vendor(info: &CpuInfo, cpu: u32) -> Option<String> {
    let kernel = ["vendor_id", "vendor"].iter().find_map(|key| info.value(cpu, key));
    let loongson = || info.value(cpu, "CPU Family")?.split_once('-').map(|(vendor, _)| vendor);
    let risc_v = || Some(info.value(cpu, "uarch")?.split_once(',')?.0);
    let arm = || arm_name(info.hex(cpu, "CPU implementer")?, None);
    kernel.or_else(arm).or_else(loongson).or_else(risc_v).map(str::to_owned)
}

/// The model name of `cpu` as the kernel spells it; for an Arm CPU without one, the part's name.
pub(super) fn model_name(info: &CpuInfo, cpu: u32) -> Option<String> {
    // In this order: x86, old Arm, LoongArch, POWER, RISC-V. An Itanium without a model name follows.
    let keys = ["model name", "Processor", "Model Name", "cpu", "uarch"];
    let kernel = keys.iter().find_map(|key| info.value(cpu, key)).map(str::to_owned);
    let itanium = || info.value(cpu, "arch").and(info.value(cpu, "family")).map(str::to_owned);
    let s390 = || info.value(cpu, "machine").or_else(|| s390_machine(info, cpu));
    kernel
        .or_else(|| part_name(info, cpu))
        .or_else(|| s390().map(str::to_owned))
        .or_else(|| itanium().filter(|family| family.parse::<u32>().is_err()))
}

/// The name of the part of an Arm CPU, e.g. `Neoverse-N1`; `None` on other architectures and for
/// parts that are not in the table.
pub(super) fn part_name(info: &CpuInfo, cpu: u32) -> Option<String> {
    let part = info.hex(cpu, "CPU part")?;
    arm_name(info.hex(cpu, "CPU implementer")?, Some(part)).map(str::to_owned)
}

/// `MIDR_EL1` of an Arm CPU, assembled from the fields that the kernel prints; the architecture field
/// is always 0xf.
pub(super) fn midr(info: &CpuInfo, cpu: u32) -> Option<u32> {
    let (implementer, variant) = (info.hex(cpu, "CPU implementer")?, info.hex(cpu, "CPU variant")?);
    let part = info.hex(cpu, "CPU part")?;
    let revision: u32 = info.value(cpu, "CPU revision")?.parse().ok()?;
    let fits = implementer <= 0xff && variant <= 0xf && part <= 0xfff && revision <= 0xf;
    fits.then_some(implementer << 24 | variant << 20 | 0xf << 16 | part << 4 | revision)
}

/// Flags of `cpu` in the kernel's order.
pub(super) fn flags(info: &CpuInfo, cpu: u32) -> Vec<String> {
    let keys = ["flags", "Features", "features", "isa", "cpucaps"];
    let Some(text) = keys.iter().find_map(|key| info.value(cpu, key)) else { return Vec::new() };
    // Itanium separates flags, which can contain blanks, by commas, SPARC by commas without blanks, and
    // RISC-V separates extensions by underscores.
    let separator = if text.contains(',') { ',' } else { ' ' };
    let separator = if text.starts_with("rv") { '_' } else { separator };
    let parts = text.split(separator).map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The architecture, derived from the form of the text.
pub(super) fn architecture(info: &CpuInfo, cpu: u32) -> Option<&'static str> {
    let value = |key| info.value(cpu, key);
    if let (Some(flags), Some(_)) = (value("flags"), value("vendor_id")) {
        let is_64_bit = flags.split(' ').any(|flag| flag == "lm");
        return Some(if is_64_bit { "x86_64" } else { "i686" });
    }
    if value("CPU implementer").is_some() {
        let name = value("model name").or_else(|| value("Processor")).unwrap_or_default();
        return match value("CPU architecture")? {
            _ if name.contains("v7l") => Some("armv7l"),
            _ if name.contains("v6l") => Some("armv6l"),
            "8" | "AArch64" => Some("aarch64"),
            "7" => Some("armv7l"),
            _ => None,
        };
    }
    let isa = value("isa").or_else(|| value("ISA")).unwrap_or_default();
    match value("arch") {
        Some("IA-64") => Some("ia64"),
        _ if isa.starts_with("rv64") => Some("riscv64"),
        _ if isa.starts_with("rv32") => Some("riscv32"),
        _ if isa.contains("loongarch64") => Some("loongarch64"),
        _ if value("vendor_id") == Some("IBM/S390") => Some("s390x"),
        _ if value("type").is_some_and(|kind| kind.starts_with("sun4")) => Some("sparc64"),
        _ => None,
    }
}

/// The name of an implementer, or of one of its parts.
fn arm_name(implementer: u32, part: Option<u32>) -> Option<&'static str> {
    let code = |cell| u32::from_str_radix(cell, 16).ok();
    data::rows(ARM_MIDR).find_map(|row| {
        let [row_implementer, row_part, name] = data::cells(row)?;
        (code(row_implementer) == Some(implementer) && code(row_part) == part).then_some(name)
    })
}

fn s390_machine<'a>(info: &CpuInfo<'a>, cpu: u32) -> Option<&'a str> {
    let text = info.value(cpu, "s390 processor")?;
    let machine = text.split(',').find_map(|part| part.trim().strip_prefix("machine"))?;
    Some(machine.trim_start_matches([' ', '='])).filter(|machine| !machine.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arm_cpu_without_a_model_name_is_named_by_its_midr() {
        let info = CpuInfo::parse(
            "processor : 0\nCPU implementer : 0x41\nCPU architecture: 8\nCPU part : 0xd0c\n",
        );
        assert_eq!(vendor(&info, 0).as_deref(), Some("ARM"));
        assert_eq!(model_name(&info, 0).as_deref(), Some("Neoverse-N1"));
        assert_eq!(architecture(&info, 0), Some("aarch64"));
    }

    #[test]
    fn part_that_is_not_in_the_table_has_no_name() {
        let info = CpuInfo::parse("processor : 0\nCPU implementer : 0xfe\nCPU part : 0x123\n");
        assert_eq!((vendor(&info, 0), model_name(&info, 0)), (None, None));
    }

    #[test]
    fn every_row_of_the_table_is_unique_and_has_three_cells() {
        let mut seen = std::collections::BTreeSet::new();
        for row in data::rows(ARM_MIDR) {
            let [implementer, part, _] = data::cells(row).expect(row);
            assert!(u32::from_str_radix(implementer, 16).is_ok(), "{row}");
            assert!(seen.insert((implementer, part)), "{row}");
        }
    }

    #[test]
    fn midr_is_assembled_unless_a_field_is_too_large() {
        let text = "processor : 0\nCPU implementer : 0x41\nCPU variant : 0x3\nCPU part : 0xd0c\nCPU revision : 1\n";
        assert_eq!(midr(&CpuInfo::parse(text), 0), Some(0x413f_d0c1));
        let wrong = text.replace("0xd0c", "0x1d0c0");
        assert_eq!(midr(&CpuInfo::parse(&wrong), 0), None);
        assert_eq!(midr(&CpuInfo::parse("processor : 0\nmodel name : x"), 0), None);
    }

    #[test]
    fn sparc_power_and_loongarch_names_come_from_their_own_keys() {
        let sparc = CpuInfo::parse(
            "cpu\t\t: UltraSparc T5 (Niagara5)\ntype\t\t: sun4v\ncpucaps\t\t: flush,stbar,swap\n",
        );
        assert_eq!(model_name(&sparc, 0).as_deref(), Some("UltraSparc T5 (Niagara5)"));
        assert_eq!(architecture(&sparc, 0), Some("sparc64"));
        assert_eq!(flags(&sparc, 0), ["flush", "stbar", "swap"]);
        let power = CpuInfo::parse("processor : 0\ncpu : POWER9, altivec supported\n");
        assert_eq!(model_name(&power, 0).as_deref(), Some("POWER9, altivec supported"));
        let loong = CpuInfo::parse(
            "processor : 0\nCPU Family : Loongson-64bit\nModel Name : Loongson-3A5000\n",
        );
        assert_eq!(vendor(&loong, 0).as_deref(), Some("Loongson"));
        assert_eq!(model_name(&loong, 0).as_deref(), Some("Loongson-3A5000"));
    }

    #[test]
    fn s390_itanium_and_risc_v_names_come_from_their_own_keys() {
        let s390 =
            CpuInfo::parse("vendor_id : IBM/S390\nprocessor 0: version = 00, machine = 2817");
        assert_eq!(model_name(&s390, 0).as_deref(), Some("2817"));
        let ia64 = CpuInfo::parse(
            "processor : 0\nvendor : GenuineIntel\narch : IA-64\nfamily : Itanium 2\nfeatures : branchlong, 16-byte atomic ops",
        );
        assert_eq!(model_name(&ia64, 0).as_deref(), Some("Itanium 2"));
        assert_eq!(flags(&ia64, 0), ["branchlong", "16-byte atomic ops"]);
        let riscv = CpuInfo::parse("processor : 0\nisa : rv64imafdc_zba\nuarch : sifive,u74-mc");
        assert_eq!(model_name(&riscv, 0).as_deref(), Some("sifive,u74-mc"));
        assert_eq!(flags(&riscv, 0), ["rv64imafdc", "zba"]);
    }
}
