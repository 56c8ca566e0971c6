//! Damaged machines: `cargo test --test noise`.
//!
//! Captured machines are damaged in memory, thousands of times with a fixed seed. Each must give a
//! valid report, in bounded time and memory, without a panic.
//! `RCI_NOISE_ROUNDS=N` damages each machine N times; `RCI_NOISE_TREE=NAME RCI_NOISE_ROUND=N`
//! repeats one that failed.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![expect(clippy::print_stderr, reason = "a test prints what it counted")]

mod damage;
mod facts;
mod invariants;
mod losses;
mod machines;
mod memory;
mod noise;
mod offline;
mod random;
mod rename;
mod replay;
mod same;
