//! Caches of the online CPUs.
//!
//! A cache that the files of an earlier CPU cover is not read again. Level, kind, line and ways come
//! from the first cache of the same kind of core, index and size; the next one supplies what is missing.
//! So a core costs a listing and two reads for each of its caches, three if it has no other CPU. An earlier CPU covers another only if
//! both have the same indexes: the third cache of a small core can be the fourth of a large one.

use std::collections::BTreeMap;

use super::Cache;
use crate::cpu::Kinds;
use crate::cpuset::CpuSet;
use crate::machine::{Machine, quote};

/// No CPU has this many; an endless directory must not block the report.
const LIMIT: u32 = 32;

/// Maximum number of caches of one kind that are read to complete the first one.
const LIMIT_READ: u32 = 3;

/// The caches by level, kind and first CPU.
pub(super) fn caches(machine: &Machine, online: &CpuSet) -> Vec<Cache> {
    let cpus: Vec<u32> = online.iter().collect();
    let kinds = Kinds::of_cpus(machine, &cpus);
    let (seen, at, at_level, shapes) = Default::default();
    let mut walk = Walk { machine, online, kinds, seen, at, at_level, shapes };
    for cpu in cpus {
        walk.visit(cpu);
    }
    let mut seen = walk.whole();
    seen.sort_by(|a, b| {
        let key = |seen: &Seen| (seen.shape.level, seen.shape.kind, seen.cpus.first());
        key(a).cmp(&key(b)).then_with(|| a.cpus.cmp(&b.cpus))
    });
    let cache = |seen: Seen| {
        Some(Cache {
            level: seen.shape.level?,
            kind: seen.shape.kind.map(str::to_owned),
            size_bytes: seen.size_bytes,
            shared_cpus: seen.cpus.to_string(),
            line_bytes: seen.shape.line_bytes,
            ways: seen.shape.ways,
            n_sets: seen.shape.n_sets,
        })
    };
    seen.into_iter().filter_map(cache).collect()
}

/// Indexes of the caches of a CPU, one bit each.
type Indexes = u32;

struct Walk<'a> {
    machine: &'a Machine,
    online: &'a CpuSet,
    kinds: Kinds,
    seen: Vec<Seen>,
    /// Number of each CPU's cache in `seen`, by index and CPU.
    at: BTreeMap<(u32, u32), usize>,
    /// Number of the first cache in `seen` by level, kind and CPU.
    at_level: BTreeMap<(Option<u32>, Option<&'static str>, u32), usize>,
    /// The known shape of each kind of cache, and how many caches were read for it.
    shapes: BTreeMap<Kind, (Shape, u32)>,
}

/// Common properties of caches with one shape: kind of core, its indexes, the index and the size.
type Kind = (usize, Indexes, u32, u64);

struct Seen {
    cpu: u32,
    index: u32,
    cpus: CpuSet,
    /// The caches with which it shares its shape; `None` if the size is unknown.
    of: Option<Kind>,
    size_bytes: Option<u64>,
    shape: Shape,
    /// The indexes of the CPU whose files were read.
    indexes: Indexes,
}

#[derive(Clone, Copy, Default)]
struct Shape {
    level: Option<u32>,
    kind: Option<&'static str>,
    line_bytes: Option<u32>,
    ways: Option<u32>,
    n_sets: Option<u32>,
}

impl Shape {
    fn is_whole(&self) -> bool {
        let has_numbers = self.line_bytes.is_some() && self.ways.is_some() && self.n_sets.is_some();
        self.level.is_some() && self.kind.is_some() && has_numbers
    }

    /// Fills missing values from `other`.
    fn or(self, other: Shape) -> Shape {
        Shape {
            level: self.level.or(other.level),
            kind: self.kind.or(other.kind),
            line_bytes: self.line_bytes.or(other.line_bytes),
            ways: self.ways.or(other.ways),
            n_sets: self.n_sets.or(other.n_sets),
        }
    }
}

impl Walk<'_> {
    /// Reads the caches of `cpu` that the files of earlier CPUs do not cover. A thread whose first cache
    /// is covered has the same indexes as the other threads of its core. The directory of any other CPU
    /// is listed, because indexes may be missing.
    fn visit(&mut self, cpu: u32) {
        let first = self.at.get(&(0, cpu)).and_then(|number| self.seen.get(*number));
        let indexes = first.map_or_else(|| self.indexes(cpu), |seen| seen.indexes);
        for index in (0..LIMIT).filter(|index| indexes & (1 << index) != 0) {
            if self.is_covered(cpu, index, indexes) {
                continue;
            }
            let cpus = self.cpus(cpu, index);
            // Without the set of CPUs that share it, a cache cannot be counted.
            if cpus.is_empty() {
                continue;
            }
            let seen = self.read(cpu, index, &cpus, indexes);
            self.add(seen);
        }
    }

    /// The indexes of the caches of `cpu`.
    fn indexes(&self, cpu: u32) -> Indexes {
        let names = self.machine.names(&format!("sys/devices/system/cpu/cpu{cpu}/cache"));
        let index = |name: &String| name.strip_prefix("index")?.parse::<u32>().ok();
        let indexes = names.iter().filter_map(index).filter(|index| *index < LIMIT);
        indexes.fold(0, |indexes, index| indexes | 1 << index)
    }

    fn is_covered(&self, cpu: u32, index: u32, indexes: Indexes) -> bool {
        let seen = self.at.get(&(index, cpu)).and_then(|number| self.seen.get(*number));
        seen.is_some_and(|seen| seen.indexes == indexes)
    }

    /// Adds a cache unless it was seen at another index. A cache that shares only some of its CPUs with
    /// another of its level and kind is inconsistent.
    fn add(&mut self, seen: Seen) {
        let (cpu, index) = (seen.cpu, seen.index);
        let place = |cpu| (seen.shape.level, seen.shape.kind, cpu);
        let places: Vec<_> = seen.cpus.iter().map(place).collect();
        let overlapping = places.iter().filter_map(|place| self.at_level.get(place)).min();
        let number = match overlapping.and_then(|number| Some((*number, self.seen.get(*number)?))) {
            Some((number, other)) if other.cpus == seen.cpus => number,
            other => {
                if let Some((_, other)) = other {
                    let path = path(cpu, index, "shared_cpu_list");
                    let expected = format!("a set equal to {} or disjoint from it", other.cpus);
                    self.machine.problem(&path, quote(&seen.cpus.to_string()), expected);
                }
                self.seen.len()
            }
        };
        self.at.extend(seen.cpus.iter().map(|cpu| ((index, cpu), number)));
        if number == self.seen.len() {
            for place in places {
                self.at_level.entry(place).or_insert(number);
            }
            self.seen.push(seen);
        }
    }

    /// Reads size and shape of the cache at `index` of `cpu`, which `cpus` share. If a file of one CPU is
    /// missing, that of another has the same value.
    fn read(&mut self, cpu: u32, index: u32, cpus: &CpuSet, indexes: Indexes) -> Seen {
        let others = || cpus.iter().filter(move |other| *other != cpu).take(2);
        let all = || std::iter::once(cpu).chain(others());
        let machine = self.machine;
        let size = all().find_map(|cpu| machine.parse(&path(cpu, index, "size"), parse_size));
        let size_bytes = size.filter(|size| *size > 0);
        let of = size_bytes.map(|size| (self.kinds.class(cpu), indexes, index, size));
        let known = of.and_then(|of| self.shapes.get(&of));
        let (mut shape, n_read) = known.copied().unwrap_or_default();
        if !shape.is_whole() && n_read < LIMIT_READ {
            for cpu in all() {
                shape = self.complete(shape, cpu, index);
            }
            self.shapes.extend(of.map(|of| (of, (shape, n_read + 1))));
        }
        Seen { cpu, index, of, size_bytes, shape, indexes, cpus: cpus.clone() }
    }

    /// Reads the missing parts of a shape.
    fn complete(&self, shape: Shape, cpu: u32, index: u32) -> Shape {
        let machine = self.machine;
        let file = |name: &str| path(cpu, index, name);
        let positive = |name: &str| machine.number(&file(name)).filter(|n: &u32| *n > 0);
        Shape {
            level: shape.level.or_else(|| machine.number(&file("level"))),
            kind: shape.kind.or_else(|| machine.parse(&file("type"), parse_kind)),
            line_bytes: shape.line_bytes.or_else(|| positive("coherency_line_size")),
            ways: shape.ways.or_else(|| positive("ways_of_associativity")),
            n_sets: shape.n_sets.or_else(|| positive("number_of_sets")),
        }
    }

    /// The caches, completed with values from later ones of their kind. A missing level is a problem.
    fn whole(mut self) -> Vec<Seen> {
        for seen in &mut self.seen {
            let known = seen.of.and_then(|of| self.shapes.get(&of));
            if let Some((shape, _)) = known {
                seen.shape = seen.shape.or(*shape);
            }
            if seen.shape.level.is_none() {
                let path = path(seen.cpu, seen.index, "level");
                self.machine.problem(&path, "no file", "the level of the cache");
            }
        }
        self.seen
    }

    /// The online CPUs that share the cache; empty if unknown.
    fn cpus(&self, cpu: u32, index: u32) -> CpuSet {
        let list = path(cpu, index, "shared_cpu_list");
        let set = self.machine.parse(&list, CpuSet::parse);
        let cpus = set.map(|set| set.intersection(self.online));
        let cpus = match cpus {
            Some(cpus) if cpus.len() == 1 && cpus.contains(cpu) => self.checked(cpu, index, cpus),
            Some(cpus) => cpus,
            None => self.mask(cpu, index).unwrap_or_default(),
        };
        if cpus.is_empty() || cpus.contains(cpu) {
            return cpus;
        }
        let expected = format!("a set that contains CPU {cpu}");
        self.machine.problem(&list, quote(&cpus.to_string()), expected);
        CpuSet::default()
    }

    /// `alone`, which is a list of only `cpu`, or the mask if that has more CPUs. Each such list is
    /// checked: that the caches of some cores are private says nothing about those of other cores.
    fn checked(&self, cpu: u32, index: u32, alone: CpuSet) -> CpuSet {
        let Some(mask) = self.mask(cpu, index).filter(|mask| mask.len() > 1 && mask.contains(cpu))
        else {
            return alone;
        };
        let list = path(cpu, index, "shared_cpu_list");
        self.machine.problem(&list, quote(&alone.to_string()), "the CPUs of shared_cpu_map");
        mask
    }

    /// The online CPUs in the mask of CPUs that share the cache.
    fn mask(&self, cpu: u32, index: u32) -> Option<CpuSet> {
        let mask = path(cpu, index, "shared_cpu_map");
        let set = self.machine.parse(&mask, CpuSet::parse_mask)?;
        Some(set.intersection(self.online))
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

fn parse_kind(text: &str) -> Result<&'static str, &'static str> {
    match text {
        "Data" => Ok("data"),
        "Instruction" => Ok("instruction"),
        "Unified" => Ok("unified"),
        _ => Err("Data, Instruction or Unified"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree_from;

    /// The files of one cache: `CPU index level type size CPUs`.
    fn cache(line: &str) -> Vec<(String, String)> {
        let cells: Vec<&str> = line.split(' ').collect();
        let (cpu, index) = (cells[0].parse().unwrap(), cells[1].parse().unwrap());
        let names = ["level", "type", "size", "shared_cpu_list"].into_iter().zip(&cells[2..]);
        let all = names.chain([("coherency_line_size", &"64"), ("ways_of_associativity", &"8")]);
        all.map(|(name, value)| (path(cpu, index, name), (*value).to_owned())).collect()
    }

    /// Level, size and CPUs of each cache that these files describe, and the number of problems.
    fn read_files(files: &[(String, String)], online: &str) -> (Vec<String>, usize) {
        let machine = tree_from(files);
        let caches = caches(&machine, &CpuSet::parse(online).unwrap());
        let kib = |cache: &Cache| {
            cache.size_bytes.map_or_else(|| "?".to_owned(), |n| (n >> 10).to_string())
        };
        let lines = caches.iter().map(|c| format!("L{} {}K {}", c.level, kib(c), c.shared_cpus));
        (lines.collect(), machine.problems().len())
    }

    fn read(lines: &[&str], online: &str) -> (Vec<String>, usize) {
        let files: Vec<_> = lines.iter().flat_map(|line| cache(line)).collect();
        read_files(&files, online)
    }

    #[test]
    fn caches_are_listed_once_whatever_the_nodes_of_their_cpus_and_their_indexes() {
        for (lines, online, expected) in [
            (
                &[
                    "0 0 1 Data 48K 0,4",
                    "0 1 3 Unified 32M 0-7",
                    "1 0 1 Data 48K 1,5",
                    "2 0 1 Data 32K 2",
                    "2 1 3 Unified 32M 0-7",
                ][..],
                "0-4",
                &["L1 48K 0,4", "L1 48K 1", "L1 32K 2", "L3 32768K 0-4"][..],
            ),
            // The third cache of a small core can be the fourth of a large one.
            (
                &[
                    "0 0 1 Data 32K 0",
                    "0 1 3 Unified 4M 0-1",
                    "1 0 1 Data 64K 1",
                    "1 1 2 Unified 1M 1",
                    "1 2 3 Unified 4M 0-1",
                ],
                "0-1",
                &["L1 32K 0", "L1 64K 1", "L2 1024K 1", "L3 4096K 0-1"],
            ),
            // Sub-NUMA clustering: nodes 0 and 1 have CPUs 0-1 and 2-3 of one package.
            (
                &["0 3 3 Unified 60M 0-3", "1 3 3 Unified 60M 0-3", "2 3 3 Unified 60M 0-3"],
                "0-3",
                &["L3 61440K 0-3"],
            ),
            (&["0 0 1 Data 48K 0", "0 1 1 Instruction 32K 0"], "0", &["L1 48K 0", "L1 32K 0"]),
        ] {
            let expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
            assert_eq!(read(lines, online), (expected, 0));
        }
    }

    #[test]
    fn shape_is_read_again_for_another_kind_of_core() {
        let mut files = [cache("0 0 1 Data 64K 0"), cache("1 0 1 Data 64K 1")].concat();
        files.retain(|(path, _)| !path.ends_with("cpu1/cache/index0/coherency_line_size"));
        files.push(("sys/devices/cpu_core/cpus".to_owned(), "0".to_owned()));
        files.push(("sys/devices/cpu_atom/cpus".to_owned(), "1".to_owned()));
        let caches = caches(&tree_from(&files), &CpuSet::parse("0-1").unwrap());
        let lines: Vec<_> = caches.iter().map(|cache| cache.line_bytes).collect();
        assert_eq!(lines, [Some(64), None]);
    }

    #[test]
    fn missing_file_of_one_cpu_is_read_from_another() {
        let mut files = cache("0 0 3 Unified 4M 0-1");
        files.retain(|(path, _)| path.ends_with("shared_cpu_list"));
        files.extend(cache("1 0 3 Unified 4M 0-1"));
        assert_eq!(read_files(&files, "0-1").0, ["L3 4096K 0-1"]);
    }

    #[test]
    fn missing_file_of_one_cache_is_supplied_by_equal_caches() {
        let of = |cpu: u32, missing: &str| {
            let mut files = cache(&format!("{cpu} 0 2 Unified 512K {cpu}"));
            files.push((path(cpu, 0, "number_of_sets"), "1024".to_owned()));
            files.retain(|(path, _)| !path.ends_with(missing));
            files
        };
        let files = [of(0, "/type"), of(1, "/level"), of(2, "/ways_of_associativity")].concat();
        let machine = tree_from(&files);
        let found = caches(&machine, &CpuSet::parse("0-2").unwrap());
        assert_eq!((found.len(), machine.problems().len()), (3, 0));
        let is_whole = |c: &Cache| c.kind.is_some() && c.ways == Some(8) && c.n_sets == Some(1024);
        assert!(found.iter().all(is_whole), "{found:?}");
    }

    #[test]
    fn contradictory_sets_are_a_problem() {
        let lines = ["0 0 2 Unified 1M 0-1", "2 0 2 Unified 1M 1-2", "3 0 2 Unified 1M 0"];
        assert_eq!(read(&lines, "0-3").1, 2);
    }

    #[test]
    fn mask_of_a_cache_wins_over_a_list_that_names_its_cpu_alone() {
        let read_l3 = |caches: &[(&str, &str)]| {
            let files = (0..).zip(caches).flat_map(|(cpu, (list, mask))| {
                let mut files = cache(&format!("{cpu} 0 3 Unified 8M {list}"));
                files.push((path(cpu, 0, "shared_cpu_map"), (*mask).to_owned()));
                files
            });
            read_files(&files.collect::<Vec<_>>(), "0-6")
        };
        for (caches, expected, n_problems) in [
            (&[("0", "f"), ("1", "f"), ("2", "f"), ("3", "f")][..], &["0-3"][..], 1),
            (&[("0", "1"), ("1", "2"), ("2", "4"), ("3", "8")], &["0", "1", "2", "3"], 0),
            (
                &[
                    ("0", "1"),
                    ("1", "2"),
                    ("2", "4"),
                    ("3", "78"),
                    ("4", "78"),
                    ("5", "78"),
                    ("6", "78"),
                ],
                &["0", "1", "2", "3-6"],
                1,
            ),
            // A list of several CPUs is not checked.
            (&[("0-1", "f")], &["0-1"], 0),
        ] {
            let expected = expected.iter().map(|cpus| format!("L3 8192K {cpus}")).collect();
            assert_eq!(read_l3(caches), (expected, n_problems));
        }
    }

    #[test]
    fn missing_size_is_absent_and_nonsense_is_a_problem() {
        assert_eq!(parse_size("32K"), Ok(32 << 10));
        assert!(parse_size("").is_err() && parse_size("-1K").is_err());
        assert!(parse_size("18446744073709551615K").is_err());
        assert_eq!(read(&["0 0 1 Data x 0"], "0"), (vec!["L1 ?K 0".to_owned()], 1));
    }
}
