//! What one process of the program has from its start to its end: `main` makes it, and after a panic, when the values of the
//! command are lost, it still has it.

use crate::checkpoint::CrashMemory;
use crate::clean::RecentLog;
use crate::links::BroughtUp;

/// The values; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// The last lines of its log.
    pub log: RecentLog,
    /// Where the job is, for the parent process.
    pub memory: CrashMemory,
    /// The network ports to restore.
    pub links: BroughtUp,
}
