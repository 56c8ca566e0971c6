//! The size of the kernel's base page, in which `/proc/zoneinfo` counts memory.

use crate::machine::{Machine, quote};
use crate::sys::page_size::PAGE_SIZE;

/// Architectures with a single base page size, 4 KiB: all releases so far define it as a constant
/// (`select HAVE_PAGE_SIZE_4KB` alone in `arch/{x86,s390}/Kconfig`, Linux 6.9; `PAGE_SHIFT` in
/// `arch/*/include/asm/page*.h` before). Arm, POWER, `LoongArch` and Itanium let the kernel's
/// configuration choose, so nothing but the kernel itself can answer there.
const FIXED: [&str; 7] = ["x86_64", "i386", "i486", "i586", "i686", "s390", "s390x"];

/// The size of a base page: from the kernel, else from the architecture if it has only one size.
/// It is never derived from the memory totals, because several sizes can fit them.
pub(super) fn page_bytes(machine: &Machine) -> Option<u64> {
    let Some(answer) = machine.ask(&PAGE_SIZE) else {
        // Captures of version 0.1 and of other programs do not contain the answer.
        let architecture = crate::cpu::architecture(machine)?;
        return FIXED.contains(&architecture.as_str()).then_some(4096);
    };
    let text = String::from_utf8_lossy(&answer);
    // `CONFIG_PAGE_SIZE_*` (`arch/Kconfig`) range from 4 KiB to 256 KiB.
    let is_page_size = |n: &u64| n.is_power_of_two() && (4096..=262_144).contains(n);
    let bytes = text.trim().parse().ok().filter(is_page_size);
    if bytes.is_none() {
        machine.problem("page_size", quote(&text), "a power of two from 4096 to 262144");
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    const ARCH: &str = "proc/sys/kernel/arch";

    #[test]
    fn kernels_answer_is_the_page_size_on_any_architecture() {
        for (architecture, answer) in
            [("x86_64", 4096), ("aarch64", 65_536), ("ppc64le", 65_536), ("loongarch64", 16_384)]
        {
            let size = answer.to_string();
            let machine = tree(&[(ARCH, architecture), ("kernel/page_size", &size)]);
            assert_eq!((page_bytes(&machine), machine.problems().len()), (Some(answer), 0));
        }
    }

    #[test]
    fn capture_without_the_answer_has_a_page_size_only_where_there_is_just_one() {
        let without = |architecture| page_bytes(&tree(&[(ARCH, architecture)]));
        assert_eq!(["x86_64", "i686", "s390x"].map(without), [Some(4096); 3]);
        assert_eq!(["aarch64", "ppc64le", "loongarch64", "ia64", "mips64"].map(without), [None; 5]);
        let cpuinfo = "processor : 0\nvendor_id : GenuineIntel\nflags : fpu lm\n";
        assert_eq!(page_bytes(&tree(&[("proc/cpuinfo", cpuinfo)])), Some(4096));
        assert_eq!(page_bytes(&tree(&[("proc/meminfo", "MemTotal: 4 kB")])), None);
    }

    #[test]
    fn damaged_answer_is_a_problem_and_no_size() {
        for answer in ["0", "4095", "-4096", "4294967296", "many"] {
            let machine = tree(&[(ARCH, "x86_64"), ("kernel/page_size", answer)]);
            assert_eq!((page_bytes(&machine), machine.problems().len()), (None, 1), "{answer}");
        }
    }
}
