//! Totals and huge pages from `/proc/meminfo`, `/proc/zoneinfo`, `/sys/firmware/memmap` and
//! `/sys/kernel/mm/hugepages`.
//!
//! procfs-core's `Meminfo` is not used: see the table in ARCHITECTURE.md.

use std::collections::BTreeMap;

use crate::machine::{Machine, quote};

use super::HugePages;
use super::page::page_bytes;

/// Bytes in `MemTotal` of a text such as `/proc/meminfo` or a node's `meminfo`.
pub(crate) fn mem_total_bytes(meminfo: &str) -> Option<u64> {
    meminfo_bytes(meminfo, "MemTotal")
}

/// The value of `key` in bytes. The kernel's `kB` is 1024 bytes.
fn meminfo_bytes(text: &str, key: &str) -> Option<u64> {
    let mut words = value(text, key)?.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    (words.next() == Some("kB")).then(|| number.checked_mul(1024)).flatten()
}

/// The text after `key:`; in a node's file `Node N` precedes the key.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.split_whitespace().last() == Some(key)).then_some(value)
    })
}

/// `System RAM` of the firmware's map. `None` if there is no map, or one entry cannot be read.
pub(super) fn firmware_map_bytes(machine: &Machine) -> Option<u64> {
    let dir = "sys/firmware/memmap";
    let mut total: Option<u64> = None;
    for entry in machine.list(dir) {
        let path = |name: &str| format!("{dir}/{entry}/{name}");
        if entry.parse::<u32>().is_err() || machine.text(&path("type"))? != "System RAM" {
            continue;
        }
        let address = |name: &str| machine.parse(&path(name), parse_address);
        let (start, end) = (address("start")?, address("end")?);
        let size = end.checked_sub(start).and_then(|size| size.checked_add(1));
        if size.is_none() {
            machine.problem(&path("end"), quote(&format!("{end:#x}")), "an address after start");
        }
        total = Some(total.unwrap_or_default().checked_add(size?)?);
    }
    total
}

fn parse_address(text: &str) -> Result<u64, &'static str> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| "an address in hexadecimal such as 0x100000")
}

/// Present pages of all zones in bytes, by node. `None` without the whole of `/proc/zoneinfo`, or if
/// the size of a page is not known.
pub(super) fn kernel_present_bytes_by_node(machine: &Machine) -> Option<BTreeMap<u32, u64>> {
    let text = machine.whole_text("proc/zoneinfo")?;
    let pages = present_pages_by_node(&text)?;
    let page_bytes = page_bytes(machine)?;
    let bytes = |(node, pages): (u32, u64)| Some((node, pages.checked_mul(page_bytes)?));
    pages.into_iter().map(bytes).collect()
}

/// Sums over the zones of each node; a node without present pages is left out.
fn present_pages_by_node(text: &str) -> Option<BTreeMap<u32, u64>> {
    let mut by_node: BTreeMap<u32, u64> = BTreeMap::new();
    let mut node = 0;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("Node ") {
            node = rest.split(',').next()?.parse().ok()?;
        // A large machine has tens of thousands of lines with counters; only one name matters.
        } else if let Some(pages) = line.trim_start().strip_prefix("present")
            && let Ok(pages) = pages.trim().parse::<u64>()
        {
            let sum = by_node.entry(node).or_default();
            *sum = sum.checked_add(pages)?;
        }
    }
    by_node.retain(|_, pages| *pages > 0);
    (!by_node.is_empty()).then_some(by_node)
}

/// Huge pages of each size; from `/proc/meminfo` where sysfs has none.
pub(super) fn hugepages(machine: &Machine, meminfo: &str) -> Vec<HugePages> {
    let mut pages = hugepages_in(machine, "sys/kernel/mm/hugepages");
    if let (true, Some(size_bytes)) = (pages.is_empty(), meminfo_bytes(meminfo, "Hugepagesize")) {
        let count = |key| value(meminfo, key)?.trim().parse().ok();
        let (n_total, n_free) = (count("HugePages_Total"), count("HugePages_Free"));
        pages.push(HugePages { size_bytes, n_total, n_free });
    }
    pages
}

/// Huge pages by size from the directory `dir` of the machine or of a node.
pub(crate) fn hugepages_in(machine: &Machine, dir: &str) -> Vec<HugePages> {
    let mut pages: Vec<HugePages> = Vec::new();
    for name in machine.list(dir) {
        let size = name.strip_prefix("hugepages-").and_then(|rest| rest.strip_suffix("kB"));
        let Some(size) = size.and_then(|size| size.parse::<u64>().ok()) else { continue };
        let Some(size_bytes) = size.checked_mul(1024) else { continue };
        let count = |file: &str| machine.number(&format!("{dir}/{name}/{file}"));
        let (n_total, n_free) = (count("nr_hugepages"), count("free_hugepages"));
        pages.push(HugePages { size_bytes, n_total, n_free });
    }
    pages.sort_by_key(|pages| pages.size_bytes);
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_kilobyte_has_1024_bytes() {
        assert_eq!(meminfo_bytes("MemFree: 1 kB\nMemTotal:  16 kB\n", "MemTotal"), Some(16_384));
        assert_eq!(meminfo_bytes("Node 0 MemTotal:  16 kB\n", "MemTotal"), Some(16_384));
    }

    #[test]
    fn value_that_is_no_number_is_unknown() {
        for text in ["", "MemTotal:", "MemTotal: x kB", "MemTotal: -5 kB", "MemTotal: 5 MB"] {
            assert_eq!(meminfo_bytes(text, "MemTotal"), None, "{text}");
        }
        let huge = format!("MemTotal: {} kB", u64::MAX);
        assert_eq!(meminfo_bytes(&huge, "MemTotal"), None);
    }

    const NODES: &str = "Node 0, zone Normal\n  pages free 1\n        spanned  9000\n        present  1000\n        managed  900\n\
        Node 0, zone Movable\n        present  500\n        managed  10\n\
        Node 2, zone Movable\n        spanned  70\n        present  50\n        managed  50\n\
        Node 3, zone DMA\n        present  0\n        managed  0\n";

    #[test]
    fn present_pages_are_counted_for_each_node_and_spanned_ones_are_not() {
        let present = |page_bytes: &str| {
            let page_size = ("kernel/page_size", page_bytes);
            let machine = crate::testing::tree(&[("proc/zoneinfo", NODES), page_size]);
            kernel_present_bytes_by_node(&machine)
        };
        assert_eq!(present("4096"), Some(BTreeMap::from([(0, 1500 * 4096), (2, 50 * 4096)])));
        assert_eq!(present("65536"), Some(BTreeMap::from([(0, 1500 << 16), (2, 50 << 16)])));
    }

    #[test]
    fn present_memory_is_24_gib_whatever_the_usable_memory_is() {
        let zones = "Node 0, zone Normal\n        present  6291456\n        managed  6291456\n";
        for total_kib in [9 << 20, 13 << 20, 17 << 20, 24 << 20] {
            let meminfo = format!("MemTotal: {total_kib} kB\n");
            let files = [("proc/zoneinfo", zones), ("proc/meminfo", meminfo.as_str())];
            let x86 = [&files[..], &[("proc/sys/kernel/arch", "x86_64")]].concat();
            let memory = crate::memory::memory(&crate::testing::tree(&x86));
            assert_eq!(memory.kernel_present_bytes, Some(24 << 30));
            let arm = [&files[..], &[("proc/sys/kernel/arch", "aarch64")]].concat();
            let memory = crate::memory::memory(&crate::testing::tree(&arm));
            assert_eq!(memory.kernel_present_bytes, None, "the page size is unknown");
        }
    }

    #[test]
    fn less_present_than_usable_memory_is_a_problem_and_no_fact() {
        let machine = crate::testing::tree_in(&[
            ("proc", &[("zoneinfo", NODES), ("meminfo", "MemTotal: 7000 kB")]),
            ("kernel", &[("page_size", "4096")]),
        ]);
        let memory = crate::memory::memory(&machine);
        assert_eq!((memory.kernel_present_bytes, memory.usable_bytes), (None, Some(7000 << 10)));
        assert!(memory.kernel_present_bytes_by_node.is_empty() && machine.problems().len() == 1);
    }

    #[test]
    fn truncated_list_of_zones_makes_the_present_memory_unknown() {
        let machine = crate::testing::tree(&[
            (
                "proc/zoneinfo",
                "Node 0, zone Normal\n        present  1000\n        managed  900\n  pages fr",
            ),
            ("kernel/page_size", "4096"),
        ]);
        let by_node = kernel_present_bytes_by_node(&machine);
        assert_eq!((by_node, machine.problems().len()), (None, 1), "there may be more zones");
        assert_eq!(present_pages_by_node("present x"), None);
    }

    #[test]
    fn addresses_are_hexadecimal() {
        assert_eq!(parse_address("0xffff"), Ok(0xffff));
        assert!(parse_address("0x1ffffffffffffffff").is_err());
        assert!(parse_address("-1").is_err());
    }
}
