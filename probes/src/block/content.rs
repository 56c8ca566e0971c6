//! What was read from one disk: its bytes, and what it answered when asked about itself.

use std::collections::BTreeMap;

use super::bay::DiskBay;
use super::health::Health;
use super::partition_table::Table;
use super::security::DiskSecurity;
use super::signature::Filesystem;
use super::tcg::DiskTcg;

/// What was read from one disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// Whether its first bytes were read.
    pub is_read: bool,
    /// Its partition table.
    pub table: Option<Table>,
    /// What stands on the whole disk.
    pub filesystem: Option<Filesystem>,
    /// What stands on the partitions, by their names.
    pub partitions: BTreeMap<String, Filesystem>,
    /// What stands on partitions that the table has and the kernel does not, by their numbers.
    pub lost_partitions: BTreeMap<u32, Filesystem>,
    /// What of it was not looked at, and why, in words: it is not known to be empty.
    pub unread: Vec<String>,
    /// Why its first bytes could not be read; `None` where they were, or where the source has none.
    pub failure: Option<String>,
    /// What it says of its own health.
    pub health: Option<Health>,
    /// How it can be erased, as far as its controller was asked.
    pub security: Option<DiskSecurity>,
    /// Which TCG standards it follows, and whether it is locked by them.
    pub tcg: Option<DiskTcg>,
    /// Where it sticks.
    pub bay: Option<DiskBay>,
}
