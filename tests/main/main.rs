//! Tests of the whole program without virtual machines: `cargo test --test main`.
//!
//! `report` replays captured machines and compares with what is expected of them, `command_line`
//! runs the program as a user does, `schemas` hold documents and code to each other, `judge` runs over
//! the captured machines beside the repository if they are there, `opens` counts the files that a
//! report opens, `signals` end commands, `hygiene` holds the tree to its own rules.

#![expect(clippy::unwrap_used, reason = "what a test cannot get ends the test")]

mod command_line;
mod hygiene;
mod judge;
mod layers;
mod opens;
mod report;
mod schemas;
mod signals;
mod util;
