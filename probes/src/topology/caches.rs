//! Caches of the online CPUs.
//!
//! A cache that an earlier CPU's files cover is not read again, and on a core with several threads
//! level, kind, line and ways are taken from the first cache of the same index and size: about four
//! reads for each logical CPU of an SMT machine instead of 24.

use std::collections::BTreeMap;

use super::Cache;
use crate::cpuset::CpuSet;
use crate::machine::{Machine, quote};

/// No CPU has so many; a directory without end must not hold us.
const LIMIT: u32 = 32;

/// The caches by level, kind and first CPU.
pub(super) fn caches(machine: &Machine, online: &CpuSet) -> Vec<Cache> {
    let mut walk = Walk { machine, online, seen: BTreeMap::new(), shapes: BTreeMap::new() };
    for cpu in online.iter() {
        walk.visit(cpu);
    }
    let mut caches: Vec<(Option<u32>, Cache)> = Vec::new();
    for seen in walk.seen.into_values().flatten() {
        let cache = Cache {
            level: seen.shape.level,
            kind: seen.shape.kind.clone(),
            size_bytes: seen.size_bytes,
            shared_cpus: seen.cpus.to_string(),
            line_bytes: seen.shape.line_bytes,
            ways: seen.shape.ways,
        };
        caches.push((seen.cpus.first(), cache));
    }
    caches.sort_by(|(a_first, a), (b_first, b)| {
        (a.level, &a.kind, a_first, a.size_bytes).cmp(&(b.level, &b.kind, b_first, b.size_bytes))
    });
    let mut caches: Vec<Cache> = caches.into_iter().map(|(_, cache)| cache).collect();
    // Two indexes that say the very same are one cache.
    caches.dedup();
    caches
}

struct Walk<'a> {
    machine: &'a Machine,
    online: &'a CpuSet,
    /// The caches by index.
    seen: BTreeMap<u32, Vec<Seen>>,
    /// Shapes of the caches of SMT cores, by index and size.
    shapes: BTreeMap<(u32, u64), Shape>,
}

struct Seen {
    cpus: CpuSet,
    size_bytes: Option<u64>,
    shape: Shape,
}

#[derive(Clone)]
struct Shape {
    level: u32,
    kind: Option<String>,
    line_bytes: Option<u32>,
    ways: Option<u32>,
}

impl Walk<'_> {
    /// Reads the caches of `cpu` that no earlier CPU's files cover. A thread whose first cache is
    /// covered has the indexes of the other threads of its core; of other CPUs the directory is
    /// listed, since indexes may be missing.
    fn visit(&mut self, cpu: u32) {
        let covered = self.cover(cpu, 0);
        let mut is_smt = covered.is_some_and(|n_cpus| n_cpus > 1);
        let indexes =
            if covered.is_some() { self.seen.keys().copied().collect() } else { self.indexes(cpu) };
        for index in indexes {
            if self.cover(cpu, index).is_some() {
                continue;
            }
            let cpus = self.cpus(cpu, index);
            is_smt |= index == 0 && cpus.len() > 1;
            let Some((size_bytes, shape)) = self.read(cpu, index, is_smt) else { continue };
            // Without a set that says who shares it, a cache cannot be counted.
            if !cpus.is_empty() {
                self.add(cpu, index, Seen { cpus, size_bytes, shape });
            }
        }
    }

    /// The indexes of the caches of `cpu`, in ascending order.
    fn indexes(&self, cpu: u32) -> Vec<u32> {
        let names = self.machine.list(&format!("sys/devices/system/cpu/cpu{cpu}/cache"));
        let index = |name: &String| name.strip_prefix("index")?.parse().ok();
        let indexes = names.iter().filter_map(index);
        indexes
            .filter(|index| *index < LIMIT)
            .collect::<std::collections::BTreeSet<u32>>()
            .into_iter()
            .collect()
    }

    /// How many CPUs share the cache at `index` that covers `cpu`.
    fn cover(&self, cpu: u32, index: u32) -> Option<usize> {
        let mut caches = self.seen.get(&index)?.iter().rev();
        caches.find(|cache| cache.cpus.contains(cpu)).map(|cache| cache.cpus.len())
    }

    /// Adds a cache; one that shares a part of its CPUs with another is inconsistent.
    fn add(&mut self, cpu: u32, index: u32, seen: Seen) {
        let caches = self.seen.entry(index).or_default();
        let overlaps = |other: &&Seen| {
            other.shape.level == seen.shape.level
                && other.shape.kind == seen.shape.kind
                && !other.cpus.intersection(&seen.cpus).is_empty()
        };
        if let Some(other) = caches.iter().find(overlaps) {
            let path = path(cpu, index, "shared_cpu_list");
            let expected = format!("a set apart from {}, or the same", other.cpus);
            self.machine.problem(&path, quote(&seen.cpus.to_string()), expected);
        }
        caches.push(seen);
    }

    /// Reads size and shape of the cache at `index` of `cpu`; `None` if there is none.
    fn read(&mut self, cpu: u32, index: u32, is_smt: bool) -> Option<(Option<u64>, Shape)> {
        let size = self.machine.parse(&path(cpu, index, "size"), parse_size);
        let size = size.filter(|size| *size > 0);
        let (Some(bytes), true) = (size, is_smt) else {
            return Some((size, self.shape(cpu, index)?));
        };
        if let Some(shape) = self.shapes.get(&(index, bytes)) {
            return Some((size, shape.clone()));
        }
        let shape = self.shape(cpu, index)?;
        self.shapes.insert((index, bytes), shape.clone());
        Some((size, shape))
    }

    fn shape(&self, cpu: u32, index: u32) -> Option<Shape> {
        let file = |name: &str| path(cpu, index, name);
        let positive = |name: &str| self.machine.number(&file(name)).filter(|n: &u32| *n > 0);
        Some(Shape {
            level: self.machine.number(&file("level"))?,
            kind: self.machine.parse(&file("type"), parse_kind),
            line_bytes: positive("coherency_line_size"),
            ways: positive("ways_of_associativity"),
        })
    }

    /// The online CPUs that share the cache; empty where nothing says it.
    fn cpus(&self, cpu: u32, index: u32) -> CpuSet {
        let list = path(cpu, index, "shared_cpu_list");
        let mask = path(cpu, index, "shared_cpu_map");
        let set = self.machine.parse(&list, CpuSet::parse);
        let set = set.or_else(|| self.machine.parse(&mask, CpuSet::parse_mask));
        let cpus = set.map(|set| set.intersection(self.online)).unwrap_or_default();
        if cpus.is_empty() || cpus.contains(cpu) {
            return cpus;
        }
        let expected = format!("a set that holds CPU {cpu}");
        self.machine.problem(&list, quote(&cpus.to_string()), expected);
        CpuSet::default()
    }
}

fn path(cpu: u32, index: u32, name: &str) -> String {
    format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{name}")
}

/// A size such as `32K` (`drivers/base/cacheinfo.c`).
fn parse_size(text: &str) -> Result<u64, &'static str> {
    const EXPECTED: &str = "a size such as 32K";
    let (digits, shift) = match text.strip_suffix('K') {
        Some(digits) => (digits, 10),
        None => match text.strip_suffix('M') {
            Some(digits) => (digits, 20),
            None => (text, 0),
        },
    };
    let size: u64 = digits.parse().map_err(|_| EXPECTED)?;
    size.checked_mul(1 << shift).ok_or(EXPECTED)
}

fn parse_kind(text: &str) -> Result<String, &'static str> {
    match text {
        "Data" | "Instruction" | "Unified" => Ok(text.to_lowercase()),
        _ => Err("Data, Instruction or Unified"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    /// The files of one cache.
    fn cache(
        cpu: u32,
        index: u32,
        level: u32,
        kind: &str,
        size: &str,
        cpus: &str,
    ) -> Vec<(String, String)> {
        let file = |name: &str, value: &str| (path(cpu, index, name), value.to_owned());
        vec![
            file("level", &level.to_string()),
            file("type", kind),
            file("size", size),
            file("shared_cpu_list", cpus),
            file("coherency_line_size", "64"),
            file("ways_of_associativity", "8"),
        ]
    }

    fn read(
        files: Vec<Vec<(String, String)>>,
        online: &str,
    ) -> (Vec<(u32, Option<u64>, String)>, usize) {
        let files: Vec<(String, String)> = files.concat();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(p, c)| (p.as_str(), c.as_str())).collect();
        let machine = tree(&files);
        let caches = caches(&machine, &CpuSet::parse(online).unwrap());
        let caches = caches.into_iter().map(|c| (c.level, c.size_bytes, c.shared_cpus)).collect();
        (caches, machine.problems().len())
    }

    #[test]
    fn a_cache_is_listed_once_over_the_online_cpus_whatever_node_they_are_in() {
        let (caches, n_problems) = read(
            vec![
                cache(0, 0, 1, "Data", "48K", "0,4"),
                cache(0, 1, 3, "Unified", "32M", "0-7"),
                cache(1, 0, 1, "Data", "48K", "1,5"),
                cache(2, 0, 1, "Data", "32K", "2"),
                cache(2, 1, 3, "Unified", "32M", "0-7"),
            ],
            "0-4",
        );
        let expected = [
            (1, Some(48 << 10), "0,4"),
            (1, Some(48 << 10), "1"),
            (1, Some(32 << 10), "2"),
            (3, Some(32 << 20), "0-4"),
        ];
        assert_eq!(caches, expected.map(|(l, s, c)| (l, s, c.to_owned())));
        assert_eq!(n_problems, 0);
    }

    #[test]
    fn sets_that_contradict_each_other_are_a_problem() {
        let (_, n_problems) = read(
            vec![
                cache(0, 0, 2, "Unified", "1M", "0-1"),
                cache(2, 0, 2, "Unified", "1M", "1-2"),
                cache(3, 0, 2, "Unified", "1M", "0"),
            ],
            "0-3",
        );
        assert_eq!(n_problems, 2);
    }

    #[test]
    fn a_size_may_be_missing_and_nonsense_is_a_problem() {
        assert_eq!(parse_size("32K"), Ok(32 << 10));
        assert!(parse_size("").is_err() && parse_size("-1K").is_err());
        assert!(parse_size("18446744073709551615K").is_err());
        let mut files = cache(0, 0, 1, "Data", "x", "0");
        files.retain(|(path, _)| !path.ends_with("ways_of_associativity"));
        let (caches, n_problems) = read(vec![files], "0");
        assert_eq!((caches, n_problems), (vec![(1, None, "0".to_owned())], 1));
    }
}
