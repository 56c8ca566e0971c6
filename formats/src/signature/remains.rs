//! Metadata of arrays and pools at the end of a disk, which an image smaller than the disk does not overwrite.
//!
//! md 0.90 and 1.0 (`drivers/md/md.c`), the last two labels of ZFS (512 KiB, `vdev_label.c`), copies of bcachefs
//! superblocks, and firmware RAID (`libblkid/src/superblocks/*_raid.c`): DDF in the last and the 257th sector from the
//! end, Promise in one of 13 sectors up to the 3087th.

use super::members::{BCACHEFS_MAGIC, IMSM, MD_MAGIC, PROMISE, drbd, firmware_raid};

/// Farthest distance of such metadata from the end of a disk: Promise's is the farthest, at 1.5 MiB.
pub const REMAINS_BYTES: u64 = 2 << 20;

const SECTOR_BYTES: usize = 512;
/// Marks of such metadata in its first sector: the offset, the bytes, and the kind.
const MARKS: [(usize, &[u8], &str); 12] = [
    (0, &MD_MAGIC.to_le_bytes(), "linux_raid_member"),
    (0, &MD_MAGIC.to_be_bytes(), "linux_raid_member"),
    (0, &[0xde, 0x11, 0xde, 0x11], "ddf_raid_member"),
    (0, &[0x11, 0xde, 0x11, 0xde], "ddf_raid_member"),
    (0, IMSM, "isw_raid_member"),
    (0, PROMISE, "promise_fasttrack_raid_member"),
    (0, b"$XIDE$", "lsi_mega_raid_member"),
    (0, &0x5a78_16f3_u32.to_le_bytes(), "hpt45x_raid_member"),
    (0, &0x5a78_16fd_u32.to_le_bytes(), "hpt45x_raid_member"),
    (24, &BCACHEFS_MAGIC, "bcachefs"),
    // An uberblock, in the byte order of the machine that wrote it.
    (0, &0x00ba_b10c_u64.to_le_bytes(), "zfs_member"),
    (0, &0x00ba_b10c_u64.to_be_bytes(), "zfs_member"),
];

/// Finds metadata of arrays and pools in a part of a disk: the first offset for each kind. `is_end` is true if the part
/// reaches the end of the disk.
///
/// Each sector is searched, and not only those at a known distance from the end: a partition that grows later ends
/// elsewhere than the disk, and then the metadata at its end counts.
pub fn remains(part: &[u8], is_end: bool) -> Vec<(usize, &'static str)> {
    let mut found: Vec<(usize, &'static str)> = Vec::new();
    for (number, sector) in part.chunks_exact(SECTOR_BYTES).enumerate() {
        let has = |at: usize, mark: &[u8]| sector.get(at..).is_some_and(|s| s.starts_with(mark));
        for (at, mark, kind) in MARKS {
            if has(at, mark) && found.iter().all(|(_, known)| *known != kind) {
                found.push((number * SECTOR_BYTES, kind));
            }
        }
    }
    if is_end {
        let last = part.len().saturating_sub(SECTOR_BYTES);
        let kinds = [firmware_raid(part), part.last_chunk::<4096>().and_then(|end| drbd(end))];
        for kind in kinds.into_iter().flatten() {
            if found.iter().all(|(_, known)| *known != kind) {
                found.push((last, kind));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 2 << 20;

    fn kinds(pieces: &[(usize, &[u8])]) -> Vec<(usize, &'static str)> {
        let mut part = vec![0; SIZE];
        for (at, bytes) in pieces {
            part[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        remains(&part, true)
    }

    #[test]
    fn promise_metadata_is_found_at_every_place_where_its_firmware_puts_it() {
        for n in [16, 63, 255, 256, 399, 591, 675, 735, 911, 951, 974, 991, 3087] {
            let at = SIZE - 512 * n;
            let found = kinds(&[(at, b"Promise Technology, Inc.")]);
            assert_eq!(found, [(at, "promise_fasttrack_raid_member")], "{n}");
        }
    }

    #[test]
    fn metadata_of_md_zfs_and_firmware_raid_is_found_wherever_the_disk_or_a_partition_ends() {
        let md = 0xa92b_4efc_u32;
        for end in [SIZE, SIZE - 33 * 512, SIZE - (1 << 20)] {
            let old = (end & !0xffff) - 0x1_0000;
            assert_eq!(kinds(&[(old, &md.to_le_bytes())]), [(old, "linux_raid_member")]);
            assert_eq!(kinds(&[(old, &md.to_be_bytes())]), [(old, "linux_raid_member")]);
            let new = (end & !0xfff) - 0x2000;
            assert_eq!(kinds(&[(new, &md.to_le_bytes())]), [(new, "linux_raid_member")]);
            let uberblock = (end & !0x3_ffff) - (128 << 10);
            let magic = [0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0];
            assert_eq!(kinds(&[(uberblock, &magic)]), [(uberblock, "zfs_member")]);
        }
        let at = |n: usize| SIZE - 512 * n;
        for n in [1, 257] {
            let ddf = [0xde, 0x11, 0xde, 0x11];
            assert_eq!(kinds(&[(at(n), &ddf)]), [(at(n), "ddf_raid_member")]);
        }
        let imsm = b"Intel Raid ISM Cfg Sig. 1.3.00";
        assert_eq!(kinds(&[(at(2), imsm)]), [(at(2), "isw_raid_member")]);
        assert_eq!(kinds(&[(at(2), b"NVIDIA")]), [(at(1), "nvidia_raid_member")]);
        assert_eq!(kinds(&[(SIZE - 4096 + 60, &[0x83, 0x74, 2, 0x6b])]), [(at(1), "drbd")]);
    }

    #[test]
    fn last_sectors_count_only_at_the_end_of_the_disk_and_each_kind_once() {
        assert_eq!(kinds(&[]), []);
        let mut part = vec![0; SIZE];
        part[SIZE - 512..SIZE - 506].copy_from_slice(b"$XIDE$");
        assert_eq!(remains(&part, true), [(SIZE - 512, "lsi_mega_raid_member")]);
        part[SIZE - 512..].fill(0);
        part[SIZE - 1024..SIZE - 1018].copy_from_slice(b"NVIDIA");
        assert_eq!(remains(&part, false), []);
        // Shorter than any metadata.
        for n in [0, 1, 511, 512, 4096] {
            assert_eq!(remains(&vec![0; n], true), [], "{n}");
        }
    }
}
