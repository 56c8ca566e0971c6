//! Programs that write an image to a disk. Each has its own folder: its requirements, its run, and the parser of its
//! output.

pub mod coreos_installer;

pub use coreos_installer::{Version, parse_version};

use super::Failure;

/// The program that writes.
pub trait Writer {
    /// Its name, for messages.
    fn name(&self) -> &'static str;

    /// Runs it once on the device at this path.
    fn run(&mut self, device: &str) -> Ran;
}

/// The result of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Success, or the reason for its failure.
    pub outcome: Result<(), Failure>,
    /// True if another run can help.
    pub is_transient: bool,
    /// Its end.
    pub end: End,
    /// Its last lines.
    pub log_tail: Vec<String>,
}

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It could not be started.
    NotStarted,
    /// Its process ended.
    Ended,
    /// The agent ended it because of a signal.
    Stopped,
    /// It hung in the kernel, so the disk must not be asked for anything.
    Hung,
}
