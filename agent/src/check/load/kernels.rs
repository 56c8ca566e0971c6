//! Computations with one right result: the same on every CPU, every time.
//!
//! Each step depends on the one before, so an error anywhere changes the result. The expected results were computed
//! with another implementation in another language.

use std::hint::black_box;

/// Words that a copy moves: 64 KiB, more than most first-level caches.
const WORDS: usize = 8192;
/// An odd number with well mixed bits.
const MULTIPLIER: u64 = 0xbf58_476d_1ce4_e5b9;

/// A computation.
#[derive(Debug)]
pub(super) struct Kernel {
    /// The name in the protocol between child and parent, and in the evidence.
    pub(super) name: &'static str,
    pub(super) run: fn() -> u64,
    pub(super) expected: u64,
}

/// All of them.
pub(super) static KERNELS: [Kernel; 3] = [
    Kernel { name: "integer arithmetic", run: integer, expected: 0x32bb_a960_8582_9fd3 },
    Kernel { name: "floating-point arithmetic", run: floating, expected: 0x80ea_355c_4a04_3083 },
    Kernel { name: "a memory copy", run: copy, expected: 0x3b6e_47b0_7faf_d123 },
];

/// Multiplication, division, shifts.
fn integer() -> u64 {
    let mut x: u64 = black_box(0x9e37_79b9_7f4a_7c15);
    let mut y: u64 = black_box(1);
    for step in 0..1 << 15 {
        x = (x ^ (x >> 29)).wrapping_mul(MULTIPLIER).wrapping_add(step);
        y = (y ^ x).rotate_left(23).wrapping_add(x / (((y | 1) >> 32) | 1));
    }
    x ^ y
}

/// Multiplication, division, square root: IEEE 754 defines each result exactly. The logistic map
/// makes a small error large.
fn floating() -> u64 {
    let mut a: f64 = black_box(0.3);
    let mut hash = 0_u64;
    for _ in 0..1 << 15 {
        a = 3.999 * a * (1.0 - a);
        let b = a.sqrt() / (a + 0.25);
        hash = (hash.rotate_left(7) ^ a.to_bits()).wrapping_add(b.to_bits());
    }
    hash
}

/// Copies in large pieces, as every program does.
fn copy() -> u64 {
    let word = |i: u64| i.wrapping_mul(MULTIPLIER) ^ (i >> 3);
    let mut from: Vec<u64> = (0..).map(word).take(black_box(WORDS)).collect();
    let mut to = vec![0; from.len()];
    for _ in 0..4 {
        let (head, tail) = from.split_at(from.len() / 3);
        let (front, back) = to.split_at_mut(tail.len());
        front.copy_from_slice(tail);
        back.copy_from_slice(head);
        std::mem::swap(black_box(&mut from), &mut to);
    }
    from.iter().fold(0_u64, |hash, word| (hash.rotate_left(5) ^ word).wrapping_mul(MULTIPLIER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_gives_its_expected_result_again_and_again() {
        for kernel in &KERNELS {
            for _ in 0..3 {
                assert_eq!((kernel.run)(), kernel.expected, "{}", kernel.name);
            }
        }
    }
}
