//! Sets of CPU or node numbers as the kernel writes them: `0-3,8` (`lib/bitmap.c`, `bitmap_parselist`).

use std::cmp::Ordering;
use std::fmt;

/// Largest number that is accepted; the kernel's `NR_CPUS` is at most 8192 on any architecture.
pub(crate) const LIMIT: u32 = 16_383;

/// A set of logical CPU or NUMA node numbers: a bit for each number up to the highest in the set, as
/// in the kernel, since a machine of a thousand CPUs has thousands of sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuSet {
    /// The last word is never 0, so that equal sets have equal words.
    words: Vec<u64>,
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
            set.insert_range(first, last);
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
        let mut words: Vec<u64> = Vec::new();
        for (index, word) in text.trim().split(',').rev().enumerate() {
            let bits = u64::from(u32::from_str_radix(word.trim(), 16).map_err(|_| EXPECTED)?);
            if index > LIMIT as usize / 32 {
                return Err(EXPECTED);
            }
            match words.last_mut() {
                Some(last) if index % 2 == 1 => *last |= bits << 32,
                _ => words.push(bits),
            }
        }
        Ok(CpuSet::of_words(words))
    }

    fn of_words(mut words: Vec<u64>) -> CpuSet {
        while words.last() == Some(&0) {
            words.pop();
        }
        CpuSet { words }
    }

    /// The numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let bases = (0..).step_by(64);
        self.words.iter().zip(bases).flat_map(|(word, base): (&u64, u32)| {
            let lowest_off = |rest: &u64| Some(rest & rest.wrapping_sub(1)).filter(|r| *r != 0);
            let rests = std::iter::successors(Some(*word).filter(|w| *w != 0), lowest_off);
            rests.map(move |rest| base + rest.trailing_zeros())
        })
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True if the set does not have any members.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// True if `number` is in the set.
    pub fn contains(&self, number: u32) -> bool {
        self.words.get(number as usize / 64).is_some_and(|word| word & bit(number) != 0)
    }

    /// True if every number of `other` is in the set.
    pub fn contains_all(&self, other: &CpuSet) -> bool {
        other.difference(self).is_empty()
    }

    /// The lowest number.
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// The highest number.
    pub fn last(&self) -> Option<u32> {
        let highest = self.words.last()?.checked_ilog2()?;
        Some(u32::try_from(self.words.len() - 1).ok()? * 64 + highest)
    }

    /// Adds `number`; one above 16383 is not added.
    pub fn insert(&mut self, number: u32) {
        if number <= LIMIT {
            self.insert_range(number, number);
        }
    }

    /// Adds the numbers from `first` to `last`, word by word: a list can name a range many times.
    fn insert_range(&mut self, first: u32, last: u32) {
        let (from, to) = (first as usize / 64, last as usize / 64);
        if to >= self.words.len() {
            self.words.resize(to + 1, 0);
        }
        for (index, word) in self.words.iter_mut().enumerate().take(to + 1).skip(from) {
            let low = if index == from { u64::MAX << (first % 64) } else { u64::MAX };
            let high = if index == to { u64::MAX >> (63 - last % 64) } else { u64::MAX };
            *word |= low & high;
        }
    }

    /// Adds every number of `other`.
    pub fn insert_all(&mut self, other: &CpuSet) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
    }

    /// The numbers in both sets.
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        CpuSet::of_words(self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect())
    }

    /// The numbers in this set but not in `other`.
    pub fn difference(&self, other: &CpuSet) -> CpuSet {
        let others = other.words.iter().chain(std::iter::repeat(&0));
        CpuSet::of_words(self.words.iter().zip(others).map(|(a, b)| a & !b).collect())
    }
}

/// The bit of `number` in its word.
fn bit(number: u32) -> u64 {
    1 << (number % 64)
}

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
