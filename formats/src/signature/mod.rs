//! The content of a disk or partition, by the signatures that file systems, swap and members of arrays have
//! at fixed offsets. Kinds are named as in udev (`ID_FS_TYPE`).
//!
//! An encrypted volume is read no further than its first 4 KiB: key slots may follow.

mod filesystems;
pub mod foreign;
mod members;
mod membership;
mod remains;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::superblock::Superblock;

pub use membership::Membership;
pub use remains::{REMAINS_BYTES, remains};

/// A file system, swap area, encrypted volume or member of an array.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Filesystem {
    /// E.g. `ext4`, `xfs`, `vfat`, `swap`, `LVM2_member`, `linux_raid_member`, `crypto_LUKS`.
    pub kind: String,
    /// Its label, or the array's name.
    pub label: Option<String>,
    /// Its UUID in its usual form.
    pub uuid: Option<String>,
    /// Number of devices of a file system that spans several, if it records that. Not reported.
    #[serde(skip)]
    pub n_devices: Option<u64>,
    /// The whole that it is a part of, by its own metadata. Not reported.
    #[serde(skip)]
    pub membership: Option<Box<Membership>>,
}

impl Filesystem {
    /// One of the kind `kind`.
    fn new(kind: &str, label: Option<String>, uuid: Option<String>) -> Filesystem {
        Filesystem { kind: kind.to_owned(), label, uuid, ..Filesystem::default() }
    }
}

impl From<Superblock> for Filesystem {
    fn from(found: Superblock) -> Self {
        let Superblock { kind, label, uuid, n_devices, .. } = found;
        Self { n_devices, ..Self::new(kind, label, uuid) }
    }
}

/// Reads bytes at an offset from the start of the volume; `None` if they cannot be read.
pub type Read<'a> = dyn FnMut(u64, usize) -> Option<Vec<u8>> + 'a;

/// Looks for a signature. `first` are the volume's first 4 KiB; without the size its end is not read.
#[must_use]
pub fn detect(first: &[u8], size_bytes: Option<u64>, read: &mut Read<'_>) -> Option<Filesystem> {
    let first_found = members::in_first(first);
    if first_found.as_ref().is_some_and(|found| found.kind != "LVM2_member") {
        return first_found;
    }
    let mut read = |offset_bytes: u64, n_bytes: usize| {
        let end = offset_bytes.checked_add(n_bytes as u64)?;
        if size_bytes.is_some_and(|size_bytes| end > size_bytes) {
            return None;
        }
        read(offset_bytes, n_bytes)
    };
    if let Some(found) = first_found {
        let membership = membership::of_lvm(first, &mut read).map(Box::new);
        return Some(Filesystem { membership, ..found });
    }
    let second = read(4096, 4096).unwrap_or_default();
    members::in_second(&second)
        .or_else(|| members::at_end(size_bytes?, &mut read))
        // Creating a pool leaves the first bytes of an older file system in place.
        .or_else(|| members::zfs(&read(16 << 10, 4096)?))
        .or_else(|| filesystems::in_first(first))
        .or_else(|| filesystems::ocfs2_of_large_blocks(&second, &read(8 << 10, 512)?))
        .or_else(|| filesystems::at_32_kib(&read(32 << 10, 4096)?))
        .or_else(|| filesystems::at_60_kib(first, &read(60 << 10, 8192)?))
        .or_else(|| filesystems::vmfs(&mut read))
}

/// Describes the unit to which the volume called `name` belongs, by its content; `None` if nothing else needs it.
/// `read` is as for a volume of `size_bytes` bytes; without the size its end is not read.
#[must_use]
pub fn foreign_content(name: &str, size_bytes: Option<u64>, read: &mut Read<'_>) -> Option<String> {
    let first = read(0, 4096)?;
    foreign::of_volume(name, &detect(&first, size_bytes, read)?)
}

#[cfg(test)]
mod tests {
    use super::foreign::is_foreign;
    use super::*;
    use crate::testing::reader;

    /// Looks at a volume of 1 MiB with the given bytes at the given places.
    fn of(pieces: &[(usize, &[u8])]) -> Option<Filesystem> {
        let mut volume = vec![0; 1 << 20];
        for (at, bytes) in pieces {
            volume[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        detect(&volume[..4096], Some(volume.len() as u64), &mut reader(&volume))
    }

    fn kind(pieces: &[(usize, &[u8])]) -> String {
        of(pieces).map(|found| found.kind).unwrap_or_default()
    }

    const MD: &[u8] = &0xa92b_4efc_u32.to_le_bytes();

    #[test]
    fn file_systems_are_detected_by_their_magic() {
        let ext = (1024 + 56, &[0x53, 0xef][..]);
        assert_eq!(kind(&[ext]), "ext2");
        assert_eq!(kind(&[ext, (1024 + 0x5c, &[4])]), "ext3");
        assert_eq!(kind(&[ext, (1024 + 0x5c, &[4]), (1024 + 0x60, &[0x42])]), "ext4");
        assert_eq!(kind(&[(0, b"XFSB")]), "xfs");
        assert_eq!(kind(&[(65536 + 64, b"_BHRfS_M")]), "btrfs");
        assert_eq!(kind(&[(4086, b"SWAPSPACE2")]), "swap");
        assert_eq!(kind(&[(65526, b"SWAPSPACE2")]), "swap");
        assert_eq!(kind(&[(32769, b"CD001")]), "iso9660");
        assert_eq!(kind(&[(0, b"hsqs"), (28, &[4])]), "squashfs");
        assert_eq!(kind(&[(3, b"NTFS    ")]), "ntfs");
        assert_eq!(kind(&[(3, b"EXFAT   ")]), "exfat");
        assert_eq!(kind(&[]), "");
    }

    #[test]
    fn labels_and_uuids_are_written_as_usual() {
        let ext4 = of(&[
            (1024 + 56, &[0x53, 0xef]),
            (1024 + 0x60, &[0x40]),
            (1024 + 0x68, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]),
            (1024 + 0x78, b"boot"),
        ]);
        let ext4 = ext4.unwrap();
        assert_eq!(ext4.label.as_deref(), Some("boot"));
        assert_eq!(ext4.uuid.as_deref(), Some("01020304-0506-0708-090a-0b0c0d0e0f10"));
        let fat = of(&[
            (0, &[0xeb, 0x58, 0x90]),
            (11, &[0, 2, 1, 32, 0, 2]),
            (67, &[0x88, 0x16, 0x2c, 0x09]),
            (71, b"EFI-SYSTEM FAT32   "),
            (510, &[0x55, 0xaa]),
        ]);
        let fat = fat.unwrap();
        assert_eq!((fat.kind.as_str(), fat.label.as_deref()), ("vfat", Some("EFI-SYSTEM")));
        assert_eq!(fat.uuid.as_deref(), Some("092C-1688"));
    }

    #[test]
    fn members_of_arrays_are_detected_at_every_offset() {
        assert_eq!(kind(&[(512, b"LABELONE"), (536, b"LVM2 001")]), "LVM2_member");
        assert_eq!(kind(&[(0, MD), (4, &[1])]), "linux_raid_member");
        assert_eq!(kind(&[(4096, MD), (4100, &[1])]), "linux_raid_member");
        assert_eq!(kind(&[((1 << 20) - 8192, MD), ((1 << 20) - 8188, &[1])]), "linux_raid_member");
        let old = (1 << 20) - (64 << 10);
        assert_eq!(kind(&[(old, MD), (old + 8, &[90])]), "linux_raid_member");
        assert_eq!(kind(&[((1 << 20) - 512, &[0xde, 0x11, 0xde, 0x11])]), "ddf_raid_member");
        assert_eq!(kind(&[((1 << 20) - 1024, b"Intel Raid ISM Cfg Sig. 1.3")]), "isw_raid_member");
        assert_eq!(kind(&[(0, b"bluestore block device\n")]), "ceph_bluestore");
        assert_eq!(kind(&[(4096 + 24, &members::BCACHE_MAGIC)]), "bcache");
        let zfs = b"\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\0\0\x24\0\0\0\x20\0\0\0\x07version\0";
        assert_eq!(kind(&[(16384, zfs)]), "zfs_member");
    }

    #[test]
    fn content_that_other_hosts_or_disks_need_is_detected() {
        let end = 1 << 20;
        assert_eq!(kind(&[(65536 + 4, &0x103c_428b_u32.to_le_bytes())]), "scoutfs_meta");
        for at in [1024, 2048, 4096, 8192] {
            assert_eq!(kind(&[(at, b"OCFSV2")]), "ocfs2", "{at}");
        }
        assert_eq!(kind(&[(65536, &[1, 0x16, 0x19, 0x70, 0, 0, 0, 1])]), "gfs2");
        let log = [0xfe, 0xed, 0xba, 0xbe, 0, 0, 0, 1, 0, 0, 0, 2];
        assert_eq!(kind(&[(0, &log)]), "xfs_external_log");
        assert_eq!(kind(&[(1024 + 56, &[0x53, 0xef]), (1024 + 0x60, &[8])]), "jbd");
        assert_eq!(kind(&[(end - 4096 + 60, &[0x83, 0x74, 2, 0x6b])]), "drbd");
        assert_eq!(kind(&[(end - 4096 + 52, &[0x83, 0x74, 2, 0x6d])]), "drbd");
        let magic = (65536 + 64, &b"_BHRfS_M"[..]);
        let n_devices = |n: u8| of(&[magic, (65536 + 136, &[n])]).unwrap();
        assert!(is_foreign(&n_devices(2)) && !is_foreign(&n_devices(1)));
    }

    #[test]
    fn datastore_of_vmware_is_detected_far_from_its_start() {
        for (place, magic, expected) in [
            (1 << 20, [0x0d, 0xd0, 0x01, 0xc0], "VMFS_volume_member"),
            (2 << 20, [0x5e, 0xf1, 0xab, 0x2f], "VMFS"),
        ] {
            let found = detect(&[0; 4096], Some(16 << 20), &mut |at, n| {
                let mut bytes = vec![0; n];
                if at == place {
                    bytes[..4].copy_from_slice(&magic);
                } else if at == place + 512 {
                    // Two extents.
                    bytes[0x90] = 2;
                }
                Some(bytes)
            });
            let found = found.unwrap();
            assert_eq!(found.kind, expected);
            let n_members = found.membership.and_then(|membership| membership.n_members);
            assert_eq!(n_members, (expected != "VMFS").then_some(2));
        }
    }

    #[test]
    fn members_of_firmware_raid_are_detected_by_their_last_sectors() {
        let end = 1 << 20;
        let at = |n: usize, bytes: &[u8]| kind(&[(end - 512 * n, bytes)]);
        assert_eq!(at(1, b"$XIDE$"), "lsi_mega_raid_member");
        assert_eq!(at(2, b"NVIDIA"), "nvidia_raid_member");
        assert_eq!(at(11, &0x5a78_16f3_u32.to_le_bytes()), "hpt45x_raid_member");
        assert_eq!(at(16, b"Promise Technology, Inc."), "promise_fasttrack_raid_member");
        // The sum of the first 50 bytes.
        let via = [(end - 512, &[0x55, 0xaa, 1][..]), (end - 512 + 50, &[0][..])];
        assert_eq!(kind(&via), "via_raid_member");
        // Of a sound array and of a broken one.
        for magic in [0x5a78_16f0_u32, 0x5a78_16fd] {
            let hpt = (9 * 512 + 32, &magic.to_le_bytes()[..]);
            assert_eq!(kind(&[hpt]), "hpt37x_raid_member");
        }
        assert_eq!(at(1, &[0x11, 0xde, 0x11, 0xde]), "ddf_raid_member");
        // On blocks of 4096 bytes.
        assert_eq!(at(8, &[0xde, 0x11, 0xde, 0x11]), "ddf_raid_member");
        assert_eq!(at(16, b"Intel Raid ISM Cfg Sig. 1.3"), "isw_raid_member");
        let last = end - 512;
        assert_eq!(kind(&[(last + 0x60, &[0, 0, 0, 0x2f])]), "silicon_medley_raid_member");
        // Two words that complement each other: the sum is zero.
        assert_eq!(kind(&[(last, b"JM"), (last + 2, &[0xb6, 0xb2])]), "jmicron_raid_member");
        let adaptec = [(last, &[0x37, 0xfc, 0x4d, 0x1e][..]), (last + 240, b"DPTM")];
        assert_eq!(kind(&adaptec), "adaptec_raid_member");
    }

    #[test]
    fn identifiers_of_bcachefs_and_iso_9660_are_those_that_blkid_prints() {
        let found = of(&[
            (4096 + 24, &members::BCACHEFS_MAGIC),
            (4096 + 40, &[1; 16]),
            (4096 + 56, &[2; 16]),
            (4096 + 72, b"pool"),
        ]);
        let found = found.unwrap();
        assert_eq!((found.kind.as_str(), found.label.as_deref()), ("bcachefs", Some("pool")));
        assert_eq!(found.uuid.as_deref(), Some("02020202-0202-0202-0202-020202020202"));
        let descriptor = 32 << 10;
        let uuid = |changed: &[u8]| {
            let made = (descriptor + 813, &b"2024010203040500"[..]);
            let mark = (descriptor + 1, &b"CD001"[..]);
            of(&[mark, made, (descriptor + 830, changed)]).unwrap().uuid.unwrap()
        };
        assert_eq!(uuid(b"2025020304050607"), "2025-02-03-04-05-06-07");
        assert_eq!(uuid(b"0000000000000000"), "2024-01-02-03-04-05-00");
        assert_eq!(uuid(&[0; 16]), "2024-01-02-03-04-05-00");
    }

    #[test]
    fn array_member_wins_over_the_file_system_inside_it() {
        assert_eq!(
            kind(&[((1 << 20) - 8192, MD), ((1 << 20) - 8188, &[1]), (0, b"XFSB")]),
            "linux_raid_member"
        );
        let older = (1024 + 56, &[0x53, 0xef][..]);
        let pool = [(16 << 10, &[1, 1, 0, 0][..]), ((16 << 10) + 20, b"\0\0\0\x07version")];
        assert_eq!(kind(&[older, pool[0], pool[1]]), "zfs_member");
    }

    #[test]
    fn nothing_after_the_header_of_an_encrypted_volume_is_read() {
        let mut first = vec![0; 4096];
        first[..8].copy_from_slice(b"LUKS\xba\xbe\x00\x02");
        first[24..28].copy_from_slice(b"data");
        first[168..172].copy_from_slice(b"abcd");
        let mut n_reads = 0;
        let found = detect(&first, Some(1 << 30), &mut |_, _| {
            n_reads += 1;
            None
        });
        let found = found.unwrap();
        assert_eq!((found.kind.as_str(), n_reads), ("crypto_LUKS", 0));
        assert_eq!((found.label.as_deref(), found.uuid.as_deref()), (Some("data"), Some("abcd")));
    }

    #[test]
    fn tiny_or_unreadable_volume_has_no_signature() {
        for n_bytes in [0, 1, 600, 4096] {
            assert_eq!(detect(&vec![0xff; n_bytes], Some(n_bytes as u64), &mut |_, _| None), None);
            assert_eq!(detect(&vec![0; n_bytes], None, &mut |_, n| Some(vec![0xa9; n / 2])), None);
        }
    }
}
