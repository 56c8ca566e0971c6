//! What was read from one disk: its bytes, and what it answered when asked about itself.

use std::collections::BTreeMap;

use super::bay::DiskBay;
use super::health::Health;
use super::partition_table::Table;
use super::security::DiskSecurity;
use formats::signature::Filesystem;
use formats::tcg::DiskTcg;

/// Why a disk could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadFailure {
    /// In words.
    pub why: String,
    /// Whether it is the disk's fault: it did not answer, or the read ended in an I/O error.
    pub is_fault: bool,
}

/// What was read from one disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// Whether its first bytes were read.
    pub is_read: bool,
    /// Whether they contain anything but zeros.
    pub has_bytes: bool,
    /// Its partition table.
    pub table: Option<Table>,
    /// Content of the whole disk, outside partitions.
    pub filesystem: Option<Filesystem>,
    /// Content of the partitions, by their names.
    pub partitions: BTreeMap<String, Filesystem>,
    /// Content of partitions that are in the table but not in the kernel, by their numbers.
    pub lost_partitions: BTreeMap<u32, Filesystem>,
    /// Parts that were not read, and why, in words: they are not known to be empty.
    pub unread: Vec<String>,
    /// Why its first bytes could not be read; `None` if they were read, or if the source has none.
    pub failure: Option<ReadFailure>,
    /// What of the disk a quick test could not read, if that is the disk's fault.
    pub sample_failure: Option<String>,
    /// Whether a part could not be read because the right to read it is missing.
    pub is_denied: bool,
    /// The health that it reports.
    pub health: Option<Health>,
    /// How it can be erased, if its controller was asked.
    pub security: Option<DiskSecurity>,
    /// Which TCG standards it supports, and whether it is locked by them.
    pub tcg: Option<DiskTcg>,
    /// The bay that it is in.
    pub bay: Option<DiskBay>,
}
