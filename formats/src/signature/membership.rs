//! Number of devices in an array, volume group or pool, by the metadata on one of them: data spread over several disks
//! is lost as a whole if one of them is overwritten.

use crate::bytes::{array, le32, le64};
use crate::guid::uuid;
use crate::lvm::group;
use crate::zfs;

use super::Read;

/// The array, volume group or pool that a volume belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Membership {
    /// Its description, e.g. `volume group "vg0"`.
    pub name: String,
    /// The name of a volume group.
    pub group: Option<String>,
    /// Identifier of the whole, which every member has.
    pub whole: Option<String>,
    /// Least number of members; `None` if it is not in the metadata.
    pub n_members: Option<u64>,
    /// Identifiers of the members as far as they are listed: UUIDs for physical volumes, serial numbers for drives.
    pub members: Vec<String>,
    /// True if each member contains everything, as in RAID 1 of md.
    pub is_mirror: bool,
}

/// The volume group that a physical volume belongs to; `first` are the first 4 KiB of the volume.
pub(super) fn of_lvm(first: &[u8], read: &mut Read<'_>) -> Option<Membership> {
    let mut areas = group::areas(first).into_iter().take(2);
    areas.find_map(|at| {
        let ranges = group::text_ranges(&read(at, group::AREA_HEADER_BYTES)?)?;
        if ranges.is_empty() {
            // A physical volume that belongs to no group yet.
            return Some(Membership { n_members: Some(1), ..Membership::default() });
        }
        let mut text = Vec::new();
        for range in ranges {
            let n_bytes = usize::try_from(range.end - range.start).ok()?;
            text.extend(read(at.checked_add(range.start)?, n_bytes)?);
        }
        let group = group::parse(&text)?;
        Some(Membership {
            name: format!("volume group {:?}", group.name),
            whole: group.id,
            n_members: Some(group.members.len() as u64).filter(|_| group.is_whole),
            members: group.members,
            group: Some(group.name),
            is_mirror: false,
        })
    })
}

/// The array of a superblock of md, version 1.
pub(super) fn of_md_1(superblock: &[u8]) -> Option<Membership> {
    let level = array(superblock, 72).map(i32::from_le_bytes)?;
    let n_disks = le32(superblock, 92);
    Some(array_of(level, n_disks, superblock.get(16..32).map(uuid)))
}

/// The array of a superblock of md, version 0.90. `MD_SB_MAGIC` of a big-endian machine is in the reverse order; then
/// its numbers are, too.
pub(super) fn of_md_0(superblock: &[u8], is_big_endian: bool, id: Option<String>) -> Membership {
    let number = |at: usize| {
        let number = le32(superblock, at);
        if is_big_endian { number.swap_bytes() } else { number }
    };
    array_of(number(28).cast_signed(), number(40), id)
}

fn array_of(level: i32, n_disks: u32, whole: Option<String>) -> Membership {
    Membership {
        name: if level >= 0 { format!("array of RAID {level}") } else { "array".to_owned() },
        whole,
        n_members: Some(u64::from(n_disks)).filter(|n| *n > 0),
        is_mirror: level == 1,
        ..Membership::default()
    }
}

/// The pool of a ZFS label.
pub(super) fn of_zfs(label: &zfs::Label) -> Membership {
    let name = label.pool.as_ref().map(|pool| format!("pool {pool:?}"));
    Membership {
        name: name.unwrap_or_else(|| "pool".to_owned()),
        whole: label.pool_guid.map(|guid| guid.to_string()),
        n_members: label.least_devices(),
        ..Membership::default()
    }
}

/// The drives in an Intel firmware RAID, by the last but one block of one member (mdadm, `super-intel.c`,
/// `struct imsm_super`).
pub(super) fn of_imsm(block: &[u8]) -> Option<Membership> {
    let (n_disks, n_volumes) = (*block.get(56)?, *block.get(57)?);
    // The list may go on in the block before this one.
    let list = block.get(216..512)?.chunks_exact(48);
    let serial = |disk: &[u8]| {
        let text = String::from_utf8_lossy(disk.get(..16)?).into_owned();
        Some(text.trim_matches(['\0', ' ']).to_owned()).filter(|serial| !serial.is_empty())
    };
    Some(Membership {
        name: "Intel firmware RAID".to_owned(),
        whole: Some(format!("{:08x}", le32(block, 40))),
        // Without a volume its drives are only marked as belonging together.
        n_members: Some(if n_volumes == 0 { 1 } else { u64::from(n_disks) }),
        members: list.take(usize::from(n_disks)).filter_map(serial).collect(),
        ..Membership::default()
    })
}

/// The set of a bcache device (`struct cache_sb_disk`); one that belongs to none needs no other device.
pub(super) fn of_bcache(superblock: &[u8]) -> Option<Membership> {
    let set = superblock.get(56..72)?;
    let is_in_set = le64(set, 0) != 0 || le64(set, 8) != 0;
    Some(Membership {
        name: "bcache set".to_owned(),
        whole: is_in_set.then(|| uuid(set)),
        n_members: (!is_in_set).then_some(1),
        ..Membership::default()
    })
}

/// The datastore of an extent of VMFS, by the second 512 bytes of the volume's header (vmfs-tools, `vmfs_volume.h`).
/// Later versions have another layout, so that only a plausible number counts.
pub(super) fn of_vmfs(rest: &[u8]) -> Option<Membership> {
    let n_members = Some(u64::from(le32(rest, 0x90))).filter(|n| (1..=32).contains(n))?;
    let whole = rest.get(0x54..0x64).map(uuid);
    let name = "VMFS datastore".to_owned();
    Some(Membership { name, whole, n_members: Some(n_members), ..Membership::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::reader;

    #[test]
    fn volume_group_is_read_from_the_metadata_area() {
        let mut volume = vec![0; 64 << 10];
        let mut put = |at: usize, bytes: &[u8]| volume[at..at + bytes.len()].copy_from_slice(bytes);
        put(512, b"LABELONE");
        put(512 + 20, &[32]);
        put(512 + 24, b"LVM2 001");
        // One data area, the end of its list, one metadata area.
        put(512 + 32 + 40, &(1_u64 << 20).to_le_bytes());
        put(512 + 32 + 40 + 32, &4096_u64.to_le_bytes());
        put(4096 + 4, b" LVM2 x[5A%r0N*>");
        let text = "vg0 {\nid = \"G\"\nphysical_volumes {\npv0 {\nid = \"A\"\n}\npv1 {\nid = \"B\"\n}\n}\n";
        for (at, value) in [(32, 0x8000), (40, 1024), (48, text.len() as u64)] {
            put(4096 + at, &value.to_le_bytes());
        }
        put(4096 + 1024, text.as_bytes());
        let of = |volume: &[u8]| of_lvm(&volume[..4096], &mut reader(volume));
        let found = of(&volume).unwrap();
        assert_eq!((found.name.as_str(), found.n_members), ("volume group \"vg0\"", Some(2)));
        assert_eq!((found.whole.as_deref(), found.members.len()), (Some("G"), 2));
        assert_eq!(found.group.as_deref(), Some("vg0"));
        volume[4096 + 40..4096 + 56].fill(0);
        assert_eq!(of(&volume).unwrap().n_members, Some(1), "no group");
        volume[4096 + 4] = 0;
        assert_eq!(of(&volume), None, "damaged");
    }

    #[test]
    fn arrays_report_level_and_number_of_disks_in_every_version_and_byte_order() {
        let mut new = vec![0; 256];
        (new[72], new[92]) = (5, 3);
        let found = of_md_1(&new).unwrap();
        assert_eq!((found.name.as_str(), found.n_members), ("array of RAID 5", Some(3)));
        assert!(!found.is_mirror);
        let mut old = vec![0; 64];
        (old[31], old[43]) = (1, 2);
        let found = of_md_0(&old, true, None);
        assert_eq!((found.is_mirror, found.n_members), (true, Some(2)));
        assert!(!of_md_0(&old, false, None).is_mirror);
    }

    #[test]
    fn firmware_raid_lists_its_drives_and_bcache_its_set() {
        let mut block = vec![0; 512];
        (block[56], block[57]) = (2, 1);
        block[216..223].copy_from_slice(b"DRIVE-1");
        block[264..271].copy_from_slice(b"DRIVE-2");
        let found = of_imsm(&block).unwrap();
        assert_eq!((found.n_members, found.members.join(" ")), (Some(2), "DRIVE-1 DRIVE-2".into()));
        block[57] = 0;
        assert_eq!(of_imsm(&block).unwrap().n_members, Some(1));
        block[56] = 255;
        assert!(of_imsm(&block).unwrap().members.len() <= 6);
        let mut superblock = vec![0; 512];
        assert_eq!(of_bcache(&superblock).unwrap().n_members, Some(1));
        superblock[56] = 1;
        let set = of_bcache(&superblock).unwrap();
        assert!(set.whole.is_some() && set.n_members.is_none());
    }
}
