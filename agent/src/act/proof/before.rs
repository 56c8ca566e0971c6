//! Reads facts before the disk is written, for comparison afterwards.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::disk::Disk;
use super::network::{self, Profiles};
use super::saved::{self, Saved};
use crate::act::Order;

/// Content that must be on the disk after the write because it was there, or on the live system, before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Before {
    /// The partitions to keep.
    pub saved: Vec<Saved>,
    /// The network profiles to copy; `None` if none are to be copied.
    pub profiles: Option<Profiles>,
}

/// Why the state before the write could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// A partition to keep.
    Saved(String),
    /// A network profile to copy.
    Network(String),
}

impl Before {
    /// Reads the partitions to keep from the open disk, and the network profiles.
    ///
    /// # Errors
    /// If one of them cannot be read, so that it could not be compared.
    pub fn read(
        disk: &Arc<File>,
        sector_bytes: u64,
        order: &Order,
        network_dir: &Path,
    ) -> Result<Self, Unread> {
        let mut disk = Disk::of(Arc::clone(disk));
        let saved = saved::sample(&mut disk, sector_bytes, order).map_err(Unread::Saved)?;
        let profiles = if order.copy_network {
            Some(network::profiles(network_dir).map_err(Unread::Network)?)
        } else {
            None
        };
        Ok(Self { saved, profiles })
    }
}
