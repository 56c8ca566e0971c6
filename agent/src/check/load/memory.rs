//! Patterns over free memory: every word is written, then read back; the next pass writes the inverse.
//!
//! Source for physical addresses: `/proc/self/pagemap` (`Documentation/admin-guide/mm/pagemap.rst`), which shows them
//! only to root.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use nix::unistd::{SysconfVar, sysconf};
use probes::live::available_memory_bytes;
use serde::{Deserialize, Serialize};

/// Words in a block: 4 MiB, which takes a few milliseconds.
const WORDS: usize = 1 << 19;
/// Bytes in a block.
const BLOCK_BYTES: u64 = 4 << 20;
/// An odd number, so that all words of a pass differ.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// The pagemap bits with the page number, and the one that marks a page as present.
const PAGE_NUMBER: u64 = (1 << 55) - 1;
const IS_PRESENT: u64 = 1 << 63;

/// Limits on a test's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Budget {
    /// Maximum bytes for this test.
    pub(super) bytes: u64,
    /// The test takes no more once the machine has less than this available.
    pub(super) floor_bytes: u64,
    /// Time in which the test may take more memory; after that, it reads back the memory that it has.
    pub(super) growth: Duration,
}

/// A word that was read back differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) address: usize,
    /// `None` without the permission to read it.
    pub(super) physical: Option<u64>,
    pub(super) found: u64,
    pub(super) expected: u64,
    /// The value from a second read.
    pub(super) again: u64,
}

/// The test of one process.
#[derive(Debug)]
pub(super) struct Memory {
    budget: Budget,
    blocks: Vec<Vec<u64>>,
    /// The block to fill or to read back next.
    next: usize,
    is_reading_back: bool,
    /// Number of times that all blocks were read back.
    n_passes: u64,
    /// Number of words that were read back differently.
    pub(super) n_wrong: u64,
}

impl Memory {
    pub(super) fn new(budget: Budget) -> Self {
        let blocks = Vec::new();
        Self { budget, blocks, next: 0, is_reading_back: false, n_passes: 0, n_wrong: 0 }
    }

    /// Returns the number of bytes that were read back at least once.
    pub(super) fn tested_bytes(&self) -> u64 {
        let is_first = self.n_passes == 0;
        let n = if is_first && !self.is_reading_back { 0 } else { self.blocks.len() };
        let n = if is_first { n.min(self.next) } else { n };
        u64::try_from(n).unwrap_or_default().saturating_mul(BLOCK_BYTES)
    }

    /// Fills one block or reads one back; returns the first word that differs.
    pub(super) fn step(&mut self, elapsed: Duration) -> Option<Wrong> {
        if !self.is_reading_back {
            if self.next < self.blocks.len() || self.grow(elapsed) {
                self.fill();
                return None;
            }
            (self.is_reading_back, self.next) = (true, 0);
        }
        let wrong = self.read_back();
        self.next += 1;
        if self.next >= self.blocks.len() {
            (self.is_reading_back, self.next) = (false, 0);
            self.n_passes += u64::from(!self.blocks.is_empty());
        }
        wrong
    }

    /// Takes another memory block, if that is allowed.
    fn grow(&mut self, elapsed: Duration) -> bool {
        let n_blocks = u64::try_from(self.blocks.len()).unwrap_or(u64::MAX);
        let is_allowed = self.n_passes == 0
            && elapsed < self.budget.growth
            && n_blocks < self.budget.bytes / BLOCK_BYTES
            && available_memory_bytes().is_some_and(|bytes| bytes > self.budget.floor_bytes);
        let mut block = Vec::new();
        if !is_allowed || block.try_reserve_exact(WORDS).is_err() {
            return false;
        }
        block.resize(WORDS, 0);
        self.blocks.push(block);
        true
    }

    fn fill(&mut self) {
        let pattern = self.pattern();
        if let Some(block) = self.blocks.get_mut(self.next) {
            block.iter_mut().zip(pattern).for_each(|(word, pattern)| *word = pattern);
            // What is read back must be what memory holds, not what the compiler knows.
            black_box(block);
        }
        self.next += 1;
    }

    fn read_back(&mut self) -> Option<Wrong> {
        let block = black_box(self.blocks.get(self.next)?);
        let differing = block.iter().zip(self.pattern()).filter(|(word, right)| *word != right);
        let (mut n_wrong, mut first) = (0, None);
        for (word, expected) in differing {
            n_wrong += 1;
            first = first.or_else(|| Some(wrong(word, expected)));
        }
        self.n_wrong += n_wrong;
        first
    }

    /// Returns the words of the next block: all different, and inverted at each pass.
    fn pattern(&self) -> impl Iterator<Item = u64> + use<> {
        let first = u64::try_from(self.next * WORDS).unwrap_or_default();
        let mask = if self.n_passes.is_multiple_of(2) { 0 } else { u64::MAX };
        (first..).map(move |index| index.wrapping_mul(MULTIPLIER) ^ mask)
    }
}

fn wrong(word: &u64, expected: u64) -> Wrong {
    let found = *word;
    let address = std::ptr::from_ref(word).addr();
    let physical = physical(address);
    Wrong { address, physical, found, expected, again: *black_box(word) }
}

/// Returns the physical address of a virtual one.
fn physical(address: usize) -> Option<u64> {
    let page_bytes = u64::try_from(sysconf(SysconfVar::PAGE_SIZE).ok()??).ok()?;
    let address = u64::try_from(address).ok()?;
    let mut entry = [0; 8];
    let pagemap = File::open("/proc/self/pagemap").ok()?;
    pagemap.read_exact_at(&mut entry, address / page_bytes * 8).ok()?;
    let entry = u64::from_ne_bytes(entry);
    let number = entry & PAGE_NUMBER;
    // Without the right to know it the number is 0.
    (entry & IS_PRESENT != 0 && number != 0).then(|| number * page_bytes + address % page_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(n_blocks: u64) -> Memory {
        let growth = Duration::from_secs(1);
        Memory::new(Budget { bytes: n_blocks * BLOCK_BYTES, floor_bytes: 0, growth })
    }

    #[test]
    fn flipped_bit_is_found_with_its_address_and_nothing_else_is() {
        let mut memory = memory(2);
        // Two blocks are filled, then both are read back.
        let steps: Vec<Option<Wrong>> = (0..4).map(|_| memory.step(Duration::ZERO)).collect();
        assert_eq!((steps, memory.tested_bytes()), (vec![None; 4], 2 * BLOCK_BYTES));
        for _ in 0..2 {
            memory.step(Duration::ZERO);
        }
        memory.blocks[1][5] ^= 1 << 40;
        assert_eq!(memory.step(Duration::ZERO), None);
        let found = memory.step(Duration::ZERO).unwrap();
        assert_eq!(found.address, std::ptr::from_ref(&memory.blocks[1][5]).addr());
        assert_eq!((found.found ^ found.expected, found.again), (1 << 40, found.found));
        assert_eq!(memory.n_wrong, 1);
    }

    #[test]
    fn every_bit_takes_both_values() {
        let mut memory = memory(1);
        memory.step(Duration::ZERO);
        let first = memory.blocks[0].clone();
        memory.step(Duration::ZERO);
        memory.step(Duration::ZERO);
        assert!(first.iter().zip(&memory.blocks[0]).all(|(a, b)| *a == !*b));
    }

    #[test]
    fn no_more_memory_is_taken_than_is_allowed() {
        let mut none = memory(0);
        let mut late = memory(9);
        let mut short = memory(9);
        short.budget.floor_bytes = u64::MAX;
        for _ in 0..5 {
            none.step(Duration::ZERO);
            late.step(Duration::from_secs(2));
            short.step(Duration::ZERO);
        }
        let n_blocks = [none, late, short].map(|memory| memory.blocks.len());
        assert_eq!(n_blocks, [0, 0, 0]);
    }
}
