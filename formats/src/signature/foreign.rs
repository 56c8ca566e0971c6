//! Content that other disks or other hosts may need, judged by the signature in a volume and by the type of its
//! partition.
//!
//! The kinds are those of libblkid and udev (`ID_FS_TYPE`): `libblkid/src/superblocks/*.c`. Types of partitions: UEFI
//! 2.10 §5.3.3 and their owners' documentation.

use crate::text::quote;

use super::Filesystem;

/// The dependence of other disks or hosts on a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// Kinds of content and the role of each.
const KINDS: [(&str, Role); 23] = [
    ("bcache", Role::Member),
    ("bcachefs", Role::Member),
    ("ceph_bluestore", Role::Member),
    ("drbd", Role::Part),
    ("drbdmanage_control_volume", Role::Part),
    ("drbdproxy_datalog", Role::Part),
    ("oracleasm", Role::Member),
    ("stratis", Role::Member),
    ("vdo", Role::Member),
    ("DM_integrity", Role::Member),
    ("DM_snapshot_cow", Role::Part),
    ("DM_verity_hash", Role::Part),
    ("exfs", Role::Shared),
    ("gfs", Role::Shared),
    ("gfs2", Role::Shared),
    ("lustre", Role::Shared),
    ("ocfs", Role::Shared),
    ("ocfs2", Role::Shared),
    ("scoutfs_data", Role::Shared),
    ("scoutfs_meta", Role::Shared),
    ("VMFS", Role::Datastore),
    ("jbd", Role::Journal),
    ("xfs_external_log", Role::Journal),
];

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

/// Types of partitions whose content no signature shows, or only far from its start.
const TYPES: [(&str, &str); 13] = [
    ("0x42", "belongs to a Windows dynamic disk"),
    ("5808c8aa-7e8f-42e0-85d2-e1e90434cfb3", "belongs to a Windows dynamic disk"),
    ("af9b60a0-1431-4f62-bc68-3311714a69ad", "belongs to a Windows dynamic disk"),
    ("e75caf8f-f680-4cee-afa3-b001e56efc2d", "belongs to a Windows storage pool"),
    ("0xfb", "is a VMFS datastore, which other hosts may use"),
    ("aa31e02a-400f-11db-9590-000c2911d1b8", "is a VMFS datastore, which other hosts may use"),
    ("381cfccc-7288-11e0-92ee-000c2911d0b2", "belongs to VMware vSAN"),
    ("4fbd7e29-9d25-41b8-afd0-062c0ceff05d", "belongs to Ceph"),
    ("4fbd7e29-9d25-41b8-afd0-5ec00ceff05d", "belongs to Ceph"),
    ("45b0969e-9b03-4f30-b4c6-b4b80ceff106", "belongs to Ceph"),
    ("cafecafe-9b03-4f30-b4c6-b4b80ceff106", "belongs to Ceph"),
    ("30cd0809-c2b2-499c-8879-2d6b78529876", "belongs to Ceph"),
    ("5ce17fce-4087-4169-b7ff-056cc58473f9", "belongs to Ceph"),
];

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
    let (_, role) = TYPES.iter().find(|(known, _)| known.eq_ignore_ascii_case(type_uuid))?;
    Some(format!("{name} {role}"))
}

/// The role of a volume; `None` if nothing else needs it.
pub fn role(filesystem: &Filesystem) -> Option<Role> {
    let kind = filesystem.kind.as_str();
    let known = KINDS.iter().find(|(known, _)| *known == kind).map(|(_, role)| *role);
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
    fn partition_types_of_dynamic_disks_vmfs_and_ceph_are_foreign() {
        assert!(of_type("sda1", "0x42").unwrap().ends_with("a Windows dynamic disk"));
        let vmfs = "AA31E02A-400F-11DB-9590-000C2911D1B8";
        assert!(of_type("sda1", vmfs).unwrap().starts_with("sda1 is a VMFS datastore"));
        assert_eq!(of_type("sda1", "0x83"), None);
    }
}
