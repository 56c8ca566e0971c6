//! Ignition, before and after the agent: checks a config that a VIM returned, and makes the one that adds the agent to
//! a live image.
//!
//! [`merge`] merges a child config into its parent, [`hostname`] adds the host's name, [`confirm`] a report of the first
//! boots. [`check()`] and [`verify_hash`] run before the disk is touched. [`live`] turns one set of
//! [`live::Settings`] into Ignition JSON, Butane YAML, kernel arguments and an iPXE script.
//!
//! Sources: the Ignition specifications 3.0 to 3.6 (`docs/configuration-v3_*.md` of coreos/ignition) and
//! the rules in its `config/v3_*/types`; the Butane specification `config-fcos-v1_4.md` of
//! coreos/butane; `ignition.*` kernel arguments in Ignition's `docs/operator-notes.md`.

pub mod check;
pub mod confirm;
mod digest;
pub mod hostname;
pub mod live;
pub mod merge;
pub mod platform;
pub mod read_only;
mod refusal;
mod text;
mod url;

pub use check::{Checked, Erased, Pointer, check, check_with};
pub use digest::verify_hash;
pub use refusal::{Code, Problem, Refusal, Warning};

#[path = "../../tests/part.rs"]
#[cfg(test)]
mod part;
#[path = "../../tests/skipped.rs"]
#[cfg(test)]
mod skipped;
#[cfg(test)]
mod tools;
