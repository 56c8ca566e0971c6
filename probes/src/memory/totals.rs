//! Totals and huge pages from `/proc/meminfo`, `/proc/zoneinfo`, `/sys/firmware/memmap` and
//! `/sys/kernel/mm/hugepages`.
//!
//! procfs-core's `Meminfo` is not used: it fails as a whole when one of the keys it takes for
//! granted is missing, which old, small and cut-down kernels leave out; four lines are all we need.

use std::collections::BTreeMap;

use crate::machine::{Machine, quote};

use super::HugePages;

/// The value of `key` in bytes. The kernel's `kB` is 1024 bytes.
pub(super) fn meminfo_bytes(text: &str, key: &str) -> Option<u64> {
    let mut words = value(text, key)?.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    (words.next() == Some("kB")).then(|| number.checked_mul(1024)).flatten()
}

/// What stands behind `key:`; in a node's file the key follows on `Node N`.
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
            machine.problem(&path("end"), quote(&format!("{end:#x}")), "an address behind start");
        }
        total = Some(total.unwrap_or_default().checked_add(size?)?);
    }
    total
}

fn parse_address(text: &str) -> Result<u64, &'static str> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| "an address in hexadecimal such as 0x100000")
}

/// Present pages of all zones in bytes, by node. `None` without `/proc/zoneinfo` as a whole, or where
/// the size of a page does not follow from it.
pub(super) fn kernel_present_bytes_by_node(
    machine: &Machine,
    meminfo: &str,
) -> Option<BTreeMap<u32, u64>> {
    let text = machine.whole_text("proc/zoneinfo")?;
    let zones = Zones::parse(&text)?;
    let page_bytes = zones.page_bytes(meminfo_bytes(meminfo, "MemTotal")?)?;
    let bytes = |(node, pages): (u32, u64)| Some((node, pages.checked_mul(page_bytes)?));
    zones.present_pages.into_iter().map(bytes).collect()
}

/// Sums over all zones.
#[derive(Debug, Default, PartialEq, Eq)]
struct Zones {
    /// By node.
    present_pages: BTreeMap<u32, u64>,
    /// Pages that the kernel hands out, which make up `MemTotal`; `None` before Linux 3.9.
    managed_pages: Option<u64>,
}

impl Zones {
    fn parse(text: &str) -> Option<Zones> {
        let mut zones = Zones::default();
        let mut node = 0;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("Node ") {
                node = rest.split(',').next()?.parse().ok()?;
                continue;
            }
            // A large machine has lines of counters by the ten thousand; two names matter.
            let line = line.trim_start();
            let Some((key, pages)) = ["present", "managed"]
                .iter()
                .find_map(|key| Some((*key, line.strip_prefix(key)?.trim().parse::<u64>().ok()?)))
            else {
                continue;
            };
            if key == "present" {
                let sum = zones.present_pages.entry(node).or_default();
                *sum = sum.checked_add(pages)?;
            } else {
                let sum = zones.managed_pages.unwrap_or_default().checked_add(pages)?;
                zones.managed_pages = Some(sum);
            }
        }
        zones.present_pages.retain(|_, pages| *pages > 0);
        (!zones.present_pages.is_empty()).then_some(zones)
    }

    /// The size of a page: the power of two by which the zones make up `MemTotal`. A file does not
    /// say it, and a captured tree must not depend on the machine that reads it.
    fn page_bytes(&self, mem_total_bytes: u64) -> Option<u64> {
        let present = || self.present_pages.values().fold(0, |sum: u64, n| sum.saturating_add(*n));
        let pages = self.managed_pages.unwrap_or_else(present);
        // Between 3/4 and 3/2 of the page; pages come in sizes that differ by 4 or more mostly.
        let fits = |bytes: &u64| {
            let sum = u128::from(pages) * u128::from(*bytes);
            let total = u128::from(mem_total_bytes);
            sum * 4 >= total * 3 && sum * 2 <= total * 3
        };
        [4096, 8192, 16_384, 65_536].into_iter().find(fits)
    }
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

/// Huge pages by size, of the machine or of a node, as the directory `dir` says them.
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
    fn a_kilobyte_of_the_kernel_has_1024_bytes() {
        assert_eq!(meminfo_bytes("MemFree: 1 kB\nMemTotal:  16 kB\n", "MemTotal"), Some(16_384));
        assert_eq!(meminfo_bytes("Node 0 MemTotal:  16 kB\n", "MemTotal"), Some(16_384));
    }

    #[test]
    fn a_value_that_is_no_number_is_not_known() {
        for text in ["", "MemTotal:", "MemTotal: x kB", "MemTotal: -5 kB", "MemTotal: 5 MB"] {
            assert_eq!(meminfo_bytes(text, "MemTotal"), None, "{text}");
        }
        let huge = format!("MemTotal: {} kB", u64::MAX);
        assert_eq!(meminfo_bytes(&huge, "MemTotal"), None);
    }

    #[test]
    fn the_page_size_follows_from_the_zones_and_the_total() {
        let text = "Node 0, zone DMA\n  present  4000\n  managed 3900\nNode 0, zone Normal\n present 1000\n managed 900\n protection: (0, 1)";
        let zones = Zones::parse(text).unwrap();
        let present_pages = BTreeMap::from([(0, 5000)]);
        assert_eq!(zones, Zones { present_pages, managed_pages: Some(4800) });
        assert_eq!(zones.page_bytes(4800 * 4096), Some(4096));
        assert_eq!(zones.page_bytes(4800 * 65_536), Some(65_536));
        assert_eq!(zones.page_bytes(4800 * 1024), None);
        assert_eq!(Zones::parse("present x"), None);
    }

    #[test]
    fn present_pages_are_counted_for_each_node_and_the_spanned_ones_are_not() {
        let machine = crate::testing::tree(&[(
            "proc/zoneinfo",
            "Node 0, zone Normal\n  pages free 1\n        spanned  9000\n        present  1000\n        managed  900\n\
             Node 2, zone Movable\n        spanned  70\n        present  50\n        managed  50\n\
             Node 3, zone DMA\n        present  0\n        managed  0\n",
        )]);
        let by_node = kernel_present_bytes_by_node(&machine, "MemTotal: 3800 kB");
        assert_eq!(by_node, Some(BTreeMap::from([(0, 1000 * 4096), (2, 50 * 4096)])));
        let cut = crate::testing::tree(&[(
            "proc/zoneinfo",
            "Node 0, zone Normal\n        present  1000\n        managed  900\n  pages fr",
        )]);
        let by_node = kernel_present_bytes_by_node(&cut, "MemTotal: 3800 kB");
        assert_eq!((by_node, cut.problems().len()), (None, 1), "there may be more zones");
    }

    #[test]
    fn addresses_are_hexadecimal() {
        assert_eq!(parse_address("0xffff"), Ok(0xffff));
        assert!(parse_address("0x1ffffffffffffffff").is_err());
        assert!(parse_address("-1").is_err());
    }
}
