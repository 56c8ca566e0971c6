//! State of a node when an install was refused. If it looks different, the same order may succeed: a disk was
//! inserted, a file system relabelled, a volume group deactivated, a network profile added.

use formats::digest;
use probes::block::Disk;

use super::preflight;
use super::site::Site;

/// The facts on which a refusal depends, in a form that is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Digest of the disks.
    pub disks: String,
    /// True if enough memory is available.
    pub has_memory: bool,
    /// True if there are network profiles to copy.
    pub has_profiles: bool,
    /// The findings that prevented the install, see [`super::blocking::key`].
    pub blocking: Vec<String>,
}

impl Seen {
    /// The node with these disks, without findings.
    pub fn of(disks: &[Disk], site: &Site) -> Self {
        Self {
            disks: digest_of(disks),
            has_memory: preflight::has_memory((site.available_memory_bytes)()),
            has_profiles: preflight::has_profiles(&site.network_dir).unwrap_or_default(),
            blocking: Vec::new(),
        }
    }
}

/// Digest of the facts of disks that decide whether they may be written. Facts that change by themselves (health,
/// temperature, link speed, states of paths) are left out; where they prevent an install, an obstacle says so.
pub fn digest_of(disks: &[Disk]) -> String {
    let lasting: Vec<Disk> = disks
        .iter()
        .map(|disk| Disk {
            health: None,
            security: None,
            tcg: None,
            queue: None,
            link_mbit_s: None,
            bay: None,
            paths: Vec::new(),
            ..disk.clone()
        })
        .collect();
    // What the report leaves out counts too.
    let unlisted = |disk: &'_ Disk| -> Vec<_> {
        let parts = disk.unlisted.iter().cloned();
        parts.map(|part| (part.number, part.label, part.filesystem)).collect()
    };
    let unreported: Vec<_> =
        disks.iter().map(|disk| (unlisted(disk), disk.has_unknown_content)).collect();
    // Disks can always be serialised; if they ever cannot, the rest is still compared.
    let mut bytes = serde_json::to_vec(&lasting).unwrap_or_default();
    bytes.extend(serde_json::to_vec(&unreported).unwrap_or_default());
    digest::sha256(&bytes)
}

#[cfg(test)]
mod tests {
    use probes::block::{Health, Partition, UnlistedPartition};

    use super::*;
    use crate::act::testing::filesystem;

    #[test]
    fn digest_changes_with_what_a_person_does_and_not_with_what_a_disk_does() {
        let partition = |label| Partition {
            filesystem: Some(filesystem("ext4", Some(label))),
            ..Partition::default()
        };
        let before =
            Disk { name: "sda".into(), partitions: vec![partition("boot")], ..Disk::default() };
        let warmer = Disk { health: Some(Health::default()), ..before.clone() };
        let relabelled = Disk { partitions: vec![partition("data")], ..before.clone() };
        let freed = Disk { holders: vec!["dm-0".into()], ..before.clone() };
        let digest = |disk: &Disk| digest_of(std::slice::from_ref(disk));
        assert_eq!(digest(&before), digest(&warmer));
        assert_ne!(digest(&before), digest(&relabelled));
        assert_ne!(digest(&before), digest(&freed));
        let unlisted = |label: &str| UnlistedPartition {
            filesystem: Some(filesystem("ext4", Some(label))),
            ..UnlistedPartition::default()
        };
        let old = Disk { unlisted: vec![unlisted("old")], ..before.clone() };
        let older = Disk { unlisted: vec![unlisted("older")], ..before.clone() };
        assert_ne!(digest(&before), digest(&old));
        assert_ne!(digest(&old), digest(&older));
        assert_ne!(digest_of(&[before.clone(), warmer]), digest(&before));
        assert_ne!(digest_of(&[]), digest(&before));
    }
}
