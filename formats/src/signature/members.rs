//! Parts of arrays, pools and encrypted volumes: LUKS, LVM, md, ZFS, bcache, Ceph, DDF, IMSM. `membership` reads their
//! metadata about the other parts.

use crate::bytes::{le16, le32, le64};
use crate::guid::uuid;
use crate::superblock;
use crate::text::to_nul;

use super::{Filesystem, Membership, Read, membership};

/// `MD_SB_MAGIC`, `include/uapi/linux/raid/md_p.h`.
pub(super) const MD_MAGIC: u32 = 0xa92b_4efc;
/// Start of the metadata of Promise's firmware RAID.
pub(super) const PROMISE: &[u8] = b"Promise Technology, Inc.";
/// Behind the checksum of a bcache superblock, `drivers/md/bcache/super.c`; a bcachefs has another.
pub(super) const BCACHE_MAGIC: [u8; 16] = [
    0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81,
];
/// Start of the metadata of Intel's firmware RAID.
pub(super) const IMSM: &[u8] = b"Intel Raid ISM Cfg Sig. ";
pub(super) const BCACHEFS_MAGIC: [u8; 16] = [
    0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9, 0xd9, 0x6a, 0x60, 0xcf, 0x80, 0x3d, 0xf7, 0xef,
];

/// Detects content with a signature in the first 4 KiB.
pub(super) fn in_first(first: &[u8]) -> Option<Filesystem> {
    let luks = superblock::luks(first).map(Filesystem::from);
    luks.or_else(|| ceph(first)).or_else(|| lvm(first)).or_else(|| md_1(first))
}

/// Detects content with a signature in the second 4 KiB.
pub(super) fn in_second(second: &[u8]) -> Option<Filesystem> {
    let magic = second.get(24..40)?;
    let id = || Some(uuid(&second[40..56]));
    // HighPoint 37x keeps its metadata in the tenth sector.
    if is_highpoint(le32(second, 9 * 512 + 32 - 4096)) {
        return Some(Filesystem::new("hpt37x_raid_member", None, None));
    }
    match magic {
        _ if magic == BCACHE_MAGIC => {
            Some(member("bcache", None, id(), membership::of_bcache(second)))
        }
        // Its own UUID is internal; the one for users, the label and the number of devices follow (`struct bch_sb`).
        _ if magic == BCACHEFS_MAGIC => {
            let label = second.get(72..104).and_then(to_nul);
            let n_devices = second.get(123).map(|n| u64::from(*n)).filter(|n| *n > 0);
            let found = Filesystem::new("bcachefs", label, second.get(56..72).map(uuid));
            Some(Filesystem { n_devices, ..found })
        }
        _ => md_1(second),
    }
}

/// Detects content with a signature in the last 128 KiB: md 0.90 and 1.0, DDF, IMSM.
pub(super) fn at_end(size_bytes: u64, read: &mut Read<'_>) -> Option<Filesystem> {
    let n_tail = 12 << 10;
    let tail_at = (size_bytes & !4095).checked_sub(n_tail)?;
    let n_bytes = usize::try_from(size_bytes - tail_at).ok()?;
    let tail = read(tail_at, n_bytes)?;
    let from_end = |n: usize| tail.get(tail.len().checked_sub(n)?..);
    // `super_1_load`, `drivers/md/md.c`: at least 8 KiB before the end, at a multiple of 4 KiB.
    let at = ((size_bytes / 512).checked_sub(16)? & !7) * 512;
    let md_10 = usize::try_from(at.checked_sub(tail_at)?).ok().and_then(|at| tail.get(at..));
    if let Some(found) = md_10.and_then(md_1) {
        return Some(found);
    }
    // In the last and the last but one block, of 512 or 4096 bytes.
    let has = |mark: &[u8], places: [usize; 2]| {
        places.into_iter().any(|n| from_end(n).is_some_and(|bytes| bytes.starts_with(mark)))
    };
    let is_ddf = |magic: u32| has(&magic.to_be_bytes(), [512, 4096]);
    if is_ddf(0xde11_de11) || is_ddf(0x11de_11de) {
        return Some(Filesystem::new("ddf_raid_member", None, None));
    }
    if has(IMSM, [1024, 8192]) {
        let block = [1024, 8192].into_iter().filter_map(from_end).find(|b| b.starts_with(IMSM));
        return Some(member("isw_raid_member", None, None, block.and_then(membership::of_imsm)));
    }
    if let Some(kind) = firmware_raid(&tail).or_else(|| drbd(from_end(4096)?)) {
        return Some(Filesystem::new(kind, None, None));
    }
    let old_at = (size_bytes & !0xffff).checked_sub(0x1_0000)?;
    md_0(&read(old_at, 4096)?)
}

/// The firmware RAIDs whose metadata is in the last 12 KiB, by sectors of 512 bytes counted from the end
/// (`libblkid/src/superblocks/*_raid.c`, dmraid). Other makers' metadata is known only from udev.
pub(super) fn firmware_raid(tail: &[u8]) -> Option<&'static str> {
    let sector = |n: usize| tail.get(tail.len().checked_sub(512 * n)?..)?.get(..512);
    let last = sector(1)?;
    // Offset 60h of the silicon_medley metadata: the vendor's id, with the version of the format after it.
    let is_silicon = le32(last, 0x60) == 0x2f00_0000;
    let is_adaptec = last.starts_with(&[0x37, 0xfc, 0x4d, 0x1e])
        && last.windows(4).any(|window| window == b"DPTM");
    let is_highpoint = |n: usize| sector(n).is_some_and(|bytes| is_highpoint(le32(bytes, 0)));
    let found = [
        (last.starts_with(b"$XIDE$"), "lsi_mega_raid_member"),
        (is_via(last), "via_raid_member"),
        (last.starts_with(b"JM") && is_summed(last), "jmicron_raid_member"),
        (is_adaptec, "adaptec_raid_member"),
        (is_silicon, "silicon_medley_raid_member"),
        (sector(2)?.starts_with(b"NVIDIA"), "nvidia_raid_member"),
        (is_highpoint(11), "hpt45x_raid_member"),
        (sector(16)?.starts_with(PROMISE), "promise_fasttrack_raid_member"),
    ];
    found.into_iter().find(|(is_there, _)| *is_there).map(|(_, kind)| kind)
}

/// VIA's metadata: a signature, a version of 0 or 1, and the sum of the first 50 bytes after them.
fn is_via(sector: &[u8]) -> bool {
    let sum = sector.iter().take(50).fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    le16(sector, 0) == 0xaa55
        && sector.get(2).is_some_and(|version| *version <= 1)
        && sector.get(50) == Some(&sum)
}

/// The sum of the first 64 words of `JMicron` metadata is 0 or 1.
fn is_summed(sector: &[u8]) -> bool {
    let words = (0..64).map(|n| le16(sector, 2 * n));
    words.fold(0_u16, u16::wrapping_add) <= 1
}

/// Magic numbers of `HighPoint` controllers for a sound and for a broken array.
fn is_highpoint(word: u32) -> bool {
    matches!(word, 0x5a78_16f0 | 0x5a78_16f3 | 0x5a78_16fd)
}

/// DRBD's internal metadata are at the end (`struct md_on_disk_08`, `struct meta_data_on_disk_9`).
pub(super) fn drbd(last: &[u8]) -> Option<&'static str> {
    let magic = |at: usize| last.get(at..at + 4);
    let is_there =
        [60, 52].into_iter().any(|at| matches!(magic(at), Some([0x83, 0x74, 0x02, 0x6b..=0x6d])));
    is_there.then_some("drbd")
}

/// The label of a pool's device.
pub(super) fn zfs(label: &[u8]) -> Option<Filesystem> {
    let label = crate::zfs::label(label)?;
    let membership = membership::of_zfs(&label);
    let name = label.pool.and_then(|pool| to_nul(pool.as_bytes()));
    Some(member("zfs_member", name, None, Some(membership)))
}

fn member(
    kind: &str,
    label: Option<String>,
    id: Option<String>,
    membership: Option<Membership>,
) -> Filesystem {
    Filesystem { membership: membership.map(Box::new), ..Filesystem::new(kind, label, id) }
}

fn ceph(first: &[u8]) -> Option<Filesystem> {
    let rest = first.strip_prefix(b"bluestore block device\n")?;
    Some(Filesystem::new("ceph_bluestore", None, to_nul(rest.get(..36)?)))
}

fn lvm(first: &[u8]) -> Option<Filesystem> {
    crate::lvm::label(first).map(|label| Filesystem::new("LVM2_member", None, label.id))
}

/// A superblock of version 1: 1.1 at the start, 1.2 at 4 KiB, 1.0 at the end.
fn md_1(bytes: &[u8]) -> Option<Filesystem> {
    let is_md = bytes.len() >= 64 && le32(bytes, 0) == MD_MAGIC && le32(bytes, 4) == 1;
    let id = || Some(uuid(&bytes[16..32]));
    let membership = membership::of_md_1(bytes);
    is_md.then(|| member("linux_raid_member", to_nul(&bytes[32..64]), id(), membership))
}

/// A superblock of version 0.90, in the byte order of the machine that made it.
fn md_0(bytes: &[u8]) -> Option<Filesystem> {
    let words = bytes.get(..64)?;
    let is_big = words.starts_with(&MD_MAGIC.to_be_bytes());
    if !is_big && le32(words, 0) != MD_MAGIC {
        return None;
    }
    let id: Vec<u8> = [20, 52, 56, 60]
        .into_iter()
        .map(|at| le32(words, at))
        .flat_map(|word| if is_big { word.to_le_bytes() } else { word.to_be_bytes() })
        .collect();
    let is_known = le64(words, 0) != 0 && le16(words, 0) != 0;
    let id = Some(uuid(&id));
    let membership = membership::of_md_0(words, is_big, id.clone());
    is_known.then(|| member("linux_raid_member", None, id, Some(membership)))
}
