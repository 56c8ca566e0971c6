//! Data read from one disk: its bytes, and its own reports about itself.

use std::collections::BTreeMap;

use crate::machine::Unanswered;

use super::health::Answers;
use super::obstacle::Obstacle;
use super::partition_table::Table;
use formats::signature::Filesystem;

/// Data read from one disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// True if its first bytes were read.
    pub is_read: bool,
    /// True if they contain anything but zeros.
    pub has_bytes: bool,
    /// Its partition table.
    pub table: Option<Table>,
    /// Content of the whole disk, outside partitions.
    pub filesystem: Option<Filesystem>,
    /// Content of the partitions, by their names.
    pub partitions: BTreeMap<String, Filesystem>,
    /// Content of partitions that are in the table but not in the kernel, by their numbers.
    pub lost_partitions: BTreeMap<u32, Filesystem>,
    /// The parts that were not read, with the reason: they are not known to be empty.
    pub unread: Vec<Obstacle>,
    /// Reason that its first bytes could not be read; `None` if they were read, or if the source has none.
    pub failure: Option<Unanswered>,
    /// The areas that a quick test could not read, if that is the disk's fault.
    pub sample_failure: Option<String>,
    /// True if a part could not be read because the right to read it is missing.
    pub is_denied: bool,
    /// The answers of the disk, its controller and its enclosure.
    pub answers: Answers,
}
