//! `/proc/cpuinfo` of every architecture (`arch/*/kernel/…`, `show_cpuinfo`).
//!
//! The procfs-core parser is not used: it requires a block with the key `processor` per CPU. Old 32-bit
//! Arm kernels print the common keys after all CPUs or in the block of the last one, and s390 prints
//! `processor 0: version = …` and a second list that starts with `cpu number`.

use std::collections::BTreeMap;

use crate::cpuset::{CpuSet, LIMIT};
use crate::machine::{CUT, Machine, quote};

pub(super) const PATH: &str = "proc/cpuinfo";

/// Most keys of a CPU; kernels write up to 40.
const LIMIT_KEYS: usize = 256;

/// Keys and values in the order of the text; the first of equal keys counts.
#[derive(Debug, Default)]
struct Block<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Block<'a> {
    fn add(&mut self, key: &'a str, value: &'a str) {
        if self.0.len() < LIMIT_KEYS {
            self.0.push((key, value));
        }
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }
}

/// The parsed text: a block of keys per logical CPU, and the keys that apply to all CPUs.
#[derive(Debug, Default)]
pub(super) struct CpuInfo<'a> {
    cpus: BTreeMap<u32, Block<'a>>,
    common: Block<'a>,
    /// The CPU in whose block the text ends.
    last: Option<u32>,
    is_cut: bool,
    /// Every key of a block once, with its value in the first block that has it.
    first: Block<'a>,
}

impl<'a> CpuInfo<'a> {
    /// Parses the text and skips lines that are not `key : value`.
    pub(super) fn parse(text: &'a str) -> CpuInfo<'a> {
        let mut info = CpuInfo::default();
        let mut current = None;
        for line in text.split('\n') {
            let Some((key, value)) = key_and_value(line) else {
                if line.trim_ascii().is_empty() {
                    current = None;
                }
                continue;
            };
            if key == "processor" || (key == "cpu number" && current.is_none()) {
                current = value.parse().ok().filter(|cpu| *cpu <= LIMIT);
                if let Some(cpu) = current {
                    info.cpus.entry(cpu).or_default();
                }
            } else if let Some(cpu) = s390_processor(key) {
                info.cpus.entry(cpu).or_default().add("s390 processor", value);
            } else {
                let block = current.and_then(|cpu| info.cpus.get_mut(&cpu));
                block.unwrap_or(&mut info.common).add(key, value);
            }
        }
        info.first = first_of_each(info.cpus.values());
        info.last = current;
        info
    }

    /// Parses the text of `/proc/cpuinfo`. If the text ends within a block, that is a problem, and the
    /// machine may have more CPUs; the blocks before the end are kept.
    pub(super) fn parse_file(machine: &Machine, text: &'a str, is_whole: bool) -> CpuInfo<'a> {
        let mut info = CpuInfo::parse(text);
        let n_keys = |cpu: Option<&u32>| Some(info.cpus.get(cpu?)?.0.len());
        // Some captures only lack the newline of the last line. Their last block is as long as the others.
        let is_short = n_keys(info.last.as_ref()) < n_keys(info.cpus.keys().next());
        if let (Some(cpu), true, false) = (info.last, is_short, is_whole) {
            info.is_cut = true;
            info.cpus.remove(&cpu);
            let last = text.lines().last().unwrap_or_default();
            machine.problem(PATH, quote(last), CUT);
        }
        info
    }

    /// True if the machine may have more CPUs than the text lists.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The CPUs that the text lists.
    pub(super) fn cpus(&self) -> CpuSet {
        self.cpus.keys().copied().collect()
    }

    /// The value of `key` in the block of `cpu` itself.
    pub(super) fn in_block(&self, cpu: u32, key: &str) -> Option<&'a str> {
        self.cpus.get(&cpu)?.get(key).filter(|value| !value.is_empty())
    }

    /// The value of `key` for `cpu`: from its own block, else from the keys that apply to all CPUs. Some
    /// kernels only list the CPUs and print the rest once, in the block of another CPU.
    pub(super) fn value(&self, cpu: u32, key: &str) -> Option<&'a str> {
        let common = || self.common.get(key);
        let is_only_named = || self.cpus.get(&cpu).is_some_and(|block| block.0.is_empty());
        let first = || self.first.get(key).filter(|_| is_only_named());
        self.in_block(cpu, key).or_else(common).or_else(first).filter(|value| !value.is_empty())
    }

    /// A whole number in the block of `cpu`.
    pub(super) fn number(&self, cpu: u32, key: &str) -> Option<i64> {
        self.in_block(cpu, key)?.parse().ok()
    }

    /// A hexadecimal number such as `0x41`.
    pub(super) fn hex(&self, cpu: u32, key: &str) -> Option<u32> {
        let text = self.value(cpu, key)?;
        u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    }
}

/// Every key once, from the first block that has it. Blocks mostly have the same keys in the same
/// order, so a key is looked for where the block before had it.
fn first_of_each<'a: 'b, 'b>(blocks: impl Iterator<Item = &'b Block<'a>>) -> Block<'a> {
    let mut first = Block::default();
    for block in blocks {
        for (place, (key, value)) in block.0.iter().enumerate() {
            let is_known = first.0.get(place).is_some_and(|(known, _)| known == key);
            if !is_known && first.get(key).is_none() {
                first.add(key, value);
            }
        }
    }
    first
}

/// A large machine has tens of thousands of lines. The colon is near the start of each, where `memchr`
/// does not pay off.
fn key_and_value(line: &str) -> Option<(&str, &str)> {
    let colon = line.bytes().position(|byte| byte == b':')?;
    Some((line.get(..colon)?.trim_ascii(), line.get(colon + 1..)?.trim_ascii()))
}

/// The CPU of an s390 line `processor 3: version = 00, …`.
fn s390_processor(key: &str) -> Option<u32> {
    key.strip_prefix("processor ")?.trim().parse().ok().filter(|cpu| *cpu <= LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cpu_has_its_own_block_and_the_trailer_applies_to_all() {
        let info = CpuInfo::parse(
            "processor\t: 0\ncpu\t: POWER8\n\nprocessor\t: 1\ncpu\t: POWER8\n\nplatform : pSeries\n",
        );
        assert_eq!(info.cpus().to_string(), "0-1");
        assert_eq!(info.in_block(1, "cpu"), Some("POWER8"));
        assert_eq!(info.value(0, "platform"), Some("pSeries"));
        assert_eq!(info.in_block(0, "platform"), None);
    }

    #[test]
    fn cpu_with_a_block_or_without_an_entry_does_not_inherit_values_of_another() {
        let info = CpuInfo::parse(
            "processor : 0\n\nprocessor : 1\nCPU part : 0xd46\n\nprocessor : 2\nrevision : 1\n",
        );
        assert_eq!(info.hex(0, "CPU part"), Some(0xd46));
        assert_eq!((info.hex(2, "CPU part"), info.hex(3, "CPU part")), (None, None));
        assert_eq!((info.in_block(0, "CPU part"), info.value(0, "flags")), (None, None));
    }

    #[test]
    fn old_arm_kernels_list_the_cpus_first_and_print_the_rest_once() {
        let info = CpuInfo::parse(
            "Processor : AArch64 rev 0\nprocessor : 0\nprocessor : 1\nCPU part : 0xd07\n\nHardware : X",
        );
        assert_eq!(info.cpus().len(), 2);
        assert_eq!(info.hex(0, "CPU part"), Some(0xd07));
        assert_eq!(info.value(1, "Processor"), Some("AArch64 rev 0"));
    }

    #[test]
    fn s390_names_a_cpu_twice_and_ia64_has_a_cpu_number_inside_a_block() {
        let info = CpuInfo::parse(
            "vendor_id : IBM/S390\nprocessor 0: version = 00, machine = 2964\n\ncpu number : 0\ncore id : 3\n",
        );
        assert_eq!((info.cpus().len(), info.number(0, "core id")), (1, Some(3)));
        let info = CpuInfo::parse("processor : 5\ncpu number : 0\narch : IA-64\n");
        assert_eq!(info.cpus().to_string(), "5");
    }

    #[test]
    fn text_that_ends_within_a_block_may_lack_cpus() {
        let is_cut = |text: &str, is_whole: bool| {
            let machine = crate::testing::tree(&[]);
            let info = CpuInfo::parse_file(&machine, text, is_whole);
            assert_eq!(machine.problems().len(), usize::from(info.is_cut()));
            (info.is_cut(), info.cpus().to_string())
        };
        let found = is_cut("processor : 0\nmodel : 6\n\nprocessor : 1\nmod", false);
        assert_eq!(found, (true, "0".to_owned()));
        let found = is_cut("processor : 0\nmodel : 6\n\nprocessor : 1\nmodel : 6", false);
        assert_eq!(found, (false, "0-1".to_owned()));
        assert!(!is_cut("processor : 0\nmodel : 6", true).0);
        assert!(!is_cut("processor : 0\n\nHardware : BCM2835", false).0, "that is the trailer");
    }

    #[test]
    fn nonsense_gives_no_cpus_and_no_panic() {
        for text in
            ["", ":::", "processor : -1\nx : y", "processor : 99999999999", "processor x: y"]
        {
            assert!(CpuInfo::parse(text).cpus().is_empty(), "{text}");
        }
    }
}
