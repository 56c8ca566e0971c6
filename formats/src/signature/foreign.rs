//! Content that other disks or other hosts may need, judged by the signature in a volume and by the type of its
//! partition.
//!
//! Kinds and types, with their sources, are in `data/foreign.txt`.

use serde::Deserialize;

use crate::data;
use crate::text::quote;

use super::Filesystem;

/// The dependence of other disks or hosts on a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It is a member of an array or pool, which may have others.
    Member,
    /// It is never all: the rest is on another volume or host.
    Part,
    /// It contains a file system that several hosts use.
    Shared,
    /// It contains the same for hypervisors; many of them use it alone.
    Datastore,
    /// It contains the journal of a file system elsewhere.
    Journal,
}

/// Kinds of content and types of partitions.
const KNOWN: &str = include_str!("../../data/foreign.txt");

impl Role {
    /// The role in words, after the name of the volume.
    fn text(self) -> &'static str {
        match self {
            Self::Member | Self::Part => "is a member of an array or pool",
            Self::Shared | Self::Datastore => "contains a file system that other hosts may use",
            Self::Journal => "contains the journal of a file system elsewhere",
        }
    }
}

/// True if the volume is part of something that other disks or hosts may need.
pub fn is_foreign(filesystem: &Filesystem) -> bool {
    role(filesystem).is_some()
}

/// Describes the unit to which the volume called `name` belongs; `None` if nothing else needs it.
pub fn of_volume(name: &str, filesystem: &Filesystem) -> Option<String> {
    let role = role(filesystem)?.text();
    let kind = &filesystem.kind;
    let label = filesystem.label.as_deref().map(|label| format!(" {}", quote(label)));
    let label = label.unwrap_or_default();
    let devices = filesystem.n_devices.filter(|n| *n > 1);
    let devices = devices.map(|n| format!(", one of {n} devices")).unwrap_or_default();
    Some(format!("{name} {role}: {kind}{label}{devices}"))
}

/// Describes the unit to which the partition called `name` belongs by its type alone.
pub fn of_type(name: &str, type_uuid: &str) -> Option<String> {
    data::lookup(KNOWN, &type_uuid.to_ascii_lowercase()).map(|role| format!("{name} {role}"))
}

/// The role of a volume; `None` if nothing else needs it.
pub fn role(filesystem: &Filesystem) -> Option<Role> {
    let kind = filesystem.kind.as_str();
    let known = data::lookup(KNOWN, kind).and_then(data::word);
    // Members of LVM, md, ZFS, multipath and of every firmware RAID end so.
    let is_member = kind.ends_with("_member") || filesystem.n_devices.is_some_and(|n| n > 1);
    known.or(is_member.then_some(Role::Member))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role_of(kind: &str, n_devices: Option<u64>) -> Option<Role> {
        role(&Filesystem { kind: kind.to_owned(), n_devices, ..Filesystem::default() })
    }

    #[test]
    fn members_shared_file_systems_and_journals_are_foreign() {
        for kind in ["zfs_member", "promise_fasttrack_raid_member", "VMFS_volume_member", "stratis"]
        {
            assert_eq!(role_of(kind, None), Some(Role::Member), "{kind}");
        }
        for kind in ["gfs2", "ocfs2", "scoutfs_meta", "lustre"] {
            assert_eq!(role_of(kind, None), Some(Role::Shared), "{kind}");
        }
        assert_eq!(role_of("xfs_external_log", None), Some(Role::Journal));
        assert_eq!(role_of("btrfs", Some(3)), Some(Role::Member));
        for (kind, n) in [("btrfs", Some(1)), ("btrfs", None), ("xfs", None), ("crypto_LUKS", None)]
        {
            assert_eq!(role_of(kind, n), None, "{kind}");
        }
    }

    #[test]
    fn every_row_is_a_kind_with_a_role_or_a_type() {
        for [key, text] in data::rows(KNOWN).filter_map(data::cells) {
            let is_type = key.starts_with("0x") || key.len() == 36;
            assert_eq!(data::word::<Role>(text).is_none(), is_type, "{key}");
        }
    }

    #[test]
    fn partition_types_of_dynamic_disks_vmfs_and_ceph_are_foreign() {
        assert!(of_type("sda1", "0x42").unwrap().ends_with("a Windows dynamic disk"));
        let vmfs = "AA31E02A-400F-11DB-9590-000C2911D1B8";
        assert!(of_type("sda1", vmfs).unwrap().starts_with("sda1 is a VMFS datastore"));
        assert_eq!(of_type("sda1", "0x83"), None);
    }
}
