//! Tests of the whole program without virtual machines: `cargo test --test main`.
//!
//! `report` replays captured machines and compares the result with the expected one. `command_line` runs the program as a
//! user does, `broken_machine` the commands of docs/broken-machine.md, `check` the findings in the forms of other programs, `compare` the comparison of reports,
//! `disks` the choice of a disk, `readme` the commands of the README. `findings` raises every finding on a small machine, `silence` none on healthy ones. `facts` and
//! `schemas` compare documents and code. `exports` compares the report in the forms of other programs. `second_opinion` compares the report with another library's. `opens` counts the
//! files that a report opens. `offline` installs without a
//! VIM. `signals` interrupts commands. `scripts` runs scripts of `make`. `pictures` checks those in docs/. `hygiene`, `layers` and `words` check
//! the rules of the source tree.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod broken_machine;
mod check;
mod command_line;
mod compare;
mod disks;
mod exports;
mod facts;
mod findings;
mod hygiene;
mod layers;
mod offline;
mod opens;
mod pictures;
mod readme;
mod report;
mod schemas;
mod scripts;
mod second_opinion;
mod signals;
mod silence;
#[path = "../skipped.rs"]
mod skipped;
mod trees;
mod util;
mod vxlan;
mod words;
