//! Tests of the whole program without virtual machines: `cargo test --test main`.
//!
//! `report` replays captured machines and compares the result with the expected one. `command_line` runs the program as a
//! user does, `readme` the commands of the README. `schemas` compares documents and code. `opens` counts the files that a
//! report opens. `signals` interrupts commands. `hygiene` and `layers` check the rules of the source tree.

#![expect(clippy::unwrap_used, reason = "what a test cannot get ends the test")]

mod command_line;
mod hygiene;
mod layers;
mod opens;
mod readme;
mod report;
mod schemas;
mod signals;
mod util;
