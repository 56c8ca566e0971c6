//! Sets of CPU or node numbers as the kernel writes them: `0-3,8` (`lib/bitmap.c`, `bitmap_parselist`).

use std::collections::BTreeSet;
use std::fmt;

/// Largest number that is accepted; the kernel's `NR_CPUS` is at most 8192 on any architecture.
const LIMIT: u32 = 65_535;

/// A set of logical CPU or NUMA node numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuSet(BTreeSet<u32>);

impl CpuSet {
    /// Parses a list such as `0-3,8`; an empty text is the empty set.
    ///
    /// # Errors
    /// If the text is no such list, or a number is above 65535.
    pub fn parse(text: &str) -> Result<CpuSet, &'static str> {
        const EXPECTED: &str = "a list of numbers and ranges such as 0-3,8";
        let mut set = BTreeSet::new();
        for part in text.trim().split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: u32 = first.parse().map_err(|_| EXPECTED)?;
            let last: u32 = last.parse().map_err(|_| EXPECTED)?;
            if first > last || last > LIMIT {
                return Err(EXPECTED);
            }
            set.extend(first..=last);
        }
        Ok(CpuSet(set))
    }

    /// Parses a mask of hexadecimal words such as `00000000,0000000f`.
    ///
    /// # Errors
    /// If the text is no such mask.
    pub fn parse_mask(text: &str) -> Result<CpuSet, &'static str> {
        const EXPECTED: &str =
            "hexadecimal words of 32 bits with commas, such as 00000000,0000000f";
        let mut set = BTreeSet::new();
        for (index, word) in text.trim().split(',').rev().enumerate() {
            let bits = u32::from_str_radix(word.trim(), 16).map_err(|_| EXPECTED)?;
            let base = u32::try_from(index).map_err(|_| EXPECTED)? * 32;
            if base > LIMIT {
                return Err(EXPECTED);
            }
            set.extend((0..32).filter(|bit| bits & (1 << bit) != 0).map(|bit| base + bit));
        }
        Ok(CpuSet(set))
    }

    /// The numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// How many numbers the set holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `number` is in the set.
    #[must_use]
    pub fn contains(&self, number: u32) -> bool {
        self.0.contains(&number)
    }

    /// The lowest number.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    /// Adds `number`.
    pub fn insert(&mut self, number: u32) {
        self.0.insert(number);
    }

    /// The numbers that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        self.0.intersection(&other.0).copied().collect()
    }

    /// The numbers that are in this set and not in `other`.
    #[must_use]
    pub fn difference(&self, other: &CpuSet) -> CpuSet {
        self.0.difference(&other.0).copied().collect()
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> CpuSet {
        CpuSet(numbers.into_iter().collect())
    }
}

/// Writes the set as a list in ascending order, ranges joined: `0-3,8`.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = numbers.next() {
            let mut last = first;
            while numbers.peek() == Some(&(last + 1)) {
                last += 1;
                numbers.next();
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_parsed_and_written_back_in_order() {
        assert_eq!(CpuSet::parse("8,0-3\n").unwrap().to_string(), "0-3,8");
        assert_eq!(CpuSet::parse("").unwrap().to_string(), "");
        assert_eq!(CpuSet::parse("0,2,4").unwrap().to_string(), "0,2,4");
    }

    #[test]
    fn masks_are_parsed_from_the_lowest_word() {
        assert_eq!(CpuSet::parse_mask("00000001,0000000f").unwrap().to_string(), "0-3,32");
    }

    #[test]
    fn nonsense_is_refused_and_does_not_use_memory_without_end() {
        for text in ["x", "3-1", "0-4294967295", "1-2-3", "-1", "99999999999"] {
            assert!(CpuSet::parse(text).is_err(), "{text}");
        }
        assert!(CpuSet::parse_mask(&"1,".repeat(100_000)).is_err());
    }
}
