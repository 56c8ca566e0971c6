//! Sets of CPU or node numbers as the kernel writes them: `0-3,8` (`lib/bitmap.c`, `bitmap_parselist`).

use std::cmp::Ordering;
use std::fmt;

use fixedbitset::FixedBitSet;

/// Largest number that is accepted; the kernel's `NR_CPUS` is at most 8192 on any architecture.
pub(crate) const LIMIT: u32 = 16_383;

/// A set of logical CPU or NUMA node numbers: a bit for each number at least up to the highest in the set, as
/// in the kernel, since a machine of a thousand CPUs has thousands of sets.
#[derive(Debug, Clone, Default)]
pub struct CpuSet {
    bits: FixedBitSet,
}

impl CpuSet {
    /// Parses a list such as `0-3,8`; an empty text is the empty set.
    ///
    /// # Errors
    /// If the text is not such a list, or a number is above 16383.
    pub fn parse(text: &str) -> Result<CpuSet, &'static str> {
        const EXPECTED: &str = "a list of numbers and ranges such as 0-3,8";
        let mut set = CpuSet::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: u32 = first.parse().map_err(|_| EXPECTED)?;
            let last: u32 = last.parse().map_err(|_| EXPECTED)?;
            if first > last || last > LIMIT {
                return Err(EXPECTED);
            }
            let end = last as usize + 1;
            set.bits.grow(end);
            set.bits.insert_range(first as usize..end);
        }
        Ok(set)
    }

    /// Parses a mask of hexadecimal words such as `00000000,0000000f`.
    ///
    /// # Errors
    /// If the text is not such a mask.
    pub fn parse_mask(text: &str) -> Result<CpuSet, &'static str> {
        const EXPECTED: &str =
            "hexadecimal words of 32 bits with commas, such as 00000000,0000000f";
        let mut set = CpuSet::default();
        let mut bases = (0..=LIMIT).step_by(32);
        for word in text.trim().split(',').rev() {
            let word = u32::from_str_radix(word.trim(), 16).map_err(|_| EXPECTED)?;
            let base = bases.next().ok_or(EXPECTED)?;
            (0..32).filter(|bit| word & (1 << bit) != 0).for_each(|bit| set.insert(base + bit));
        }
        Ok(set)
    }

    /// The numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.bits.ones().filter_map(|number| u32::try_from(number).ok())
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.bits.count_ones(..)
    }

    /// True if the set does not have any members.
    pub fn is_empty(&self) -> bool {
        self.bits.is_clear()
    }

    /// True if `number` is in the set.
    pub fn contains(&self, number: u32) -> bool {
        self.bits.contains(number as usize)
    }

    /// True if every number of `other` is in the set.
    pub fn contains_all(&self, other: &CpuSet) -> bool {
        self.bits.is_superset(&other.bits)
    }

    /// The lowest number.
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// The highest number.
    pub fn last(&self) -> Option<u32> {
        self.bits.maximum()?.try_into().ok()
    }

    /// Adds `number`; one above 16383 is not added.
    pub fn insert(&mut self, number: u32) {
        if number <= LIMIT {
            self.bits.grow_and_insert(number as usize);
        }
    }

    /// Adds every number of `other`.
    pub fn insert_all(&mut self, other: &CpuSet) {
        self.bits.union_with(&other.bits);
    }

    /// The numbers in both sets.
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        CpuSet { bits: &self.bits & &other.bits }
    }

    /// The numbers in this set but not in `other`.
    pub fn difference(&self, other: &CpuSet) -> CpuSet {
        let mut bits = self.bits.clone();
        bits.difference_with(&other.bits);
        CpuSet { bits }
    }
}

/// Sets are equal if they have the same numbers, however far their bits reach.
impl PartialEq for CpuSet {
    fn eq(&self, other: &CpuSet) -> bool {
        self.contains_all(other) && other.contains_all(self)
    }
}

impl Eq for CpuSet {}

/// Sets compare as lists of their numbers.
impl Ord for CpuSet {
    fn cmp(&self, other: &CpuSet) -> Ordering {
        self.iter().cmp(other.iter())
    }
}

impl PartialOrd for CpuSet {
    fn partial_cmp(&self, other: &CpuSet) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> CpuSet {
        let mut set = CpuSet::default();
        numbers.into_iter().for_each(|number| set.insert(number));
        set
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
        assert_eq!(CpuSet::parse_mask("1,00000000,00000000").unwrap().to_string(), "64");
        assert!(CpuSet::parse_mask("00000000,00000000").unwrap().is_empty());
    }

    #[test]
    fn sets_of_several_words_union_intersect_and_sort_as_lists() {
        let set = |text| CpuSet::parse(text).unwrap();
        let (low, high) = (set("0-3,63"), set("63-64,200"));
        assert_eq!(low.intersection(&high).to_string(), "63");
        assert_eq!(high.difference(&low).to_string(), "64,200");
        assert_eq!(high.difference(&high), CpuSet::default());
        assert_eq!((high.first(), high.last(), high.len()), (Some(63), Some(200), 3));
        assert_eq!((CpuSet::default().first(), CpuSet::default().last()), (None, None));
        assert!(set("0-200").contains_all(&high) && !low.contains_all(&high));
        assert!(set("0,200") < set("1") && set("0") < set("0,1"));
        let mut both = low.clone();
        both.insert_all(&high);
        assert_eq!(both.to_string(), "0-3,63-64,200");
    }

    #[test]
    fn ranges_at_any_offset_contain_exactly_their_numbers() {
        for (first, last) in [(0, 0), (63, 63), (63, 64), (5, 9), (0, 127), (60, 200), (64, 16_383)]
        {
            let set = CpuSet::parse(&format!("{first}-{last}")).unwrap();
            assert_eq!(set, (first..=last).collect(), "{first}-{last}");
        }
    }

    #[test]
    fn repeated_ranges_parse_quickly() {
        let text = "0-16383,".repeat(100_000);
        let began = std::time::Instant::now();
        assert_eq!(CpuSet::parse(&text).unwrap().len(), 16_384);
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    }

    #[test]
    fn malformed_sets_are_refused_in_bounded_memory() {
        for text in ["x", "3-1", "0-4294967295", "1-2-3", "-1", "16384", "99999999999"] {
            assert!(CpuSet::parse(text).is_err(), "{text}");
        }
        assert!(CpuSet::parse_mask(&"1,".repeat(100_000)).is_err());
    }
}
