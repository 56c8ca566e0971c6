//! File systems and swap. Places and magic numbers are those of each one's own documentation or
//! kernel header (`fs/*/`, `include/uapi/linux/magic.h`).

use crate::bytes::{le16, le32, le64};
use crate::guid::{uuid, uuid_if_set};
use crate::superblock::{self, volume_serial};
use crate::text::to_nul;

use super::{Filesystem, Read, membership};

/// Detects content with a signature in the first 4 KiB.
pub(super) fn in_first(first: &[u8]) -> Option<Filesystem> {
    let xfs = superblock::xfs(first).map(Filesystem::from).or_else(|| squashfs(first));
    let ext = || superblock::ext(first).map(Filesystem::from).or_else(|| f2fs(first));
    let found = xfs.or_else(ext).or_else(|| xfs_log(first)).or_else(|| ocfs2(first));
    let found = found.or_else(|| superblock::fat(first).map(Filesystem::from));
    let found = found.or_else(|| microsoft(first));
    found.or_else(|| swap(first, first.get(4086..4096)?))
}

/// Detects content with a signature in 4 KiB at 32 KiB: ISO 9660 and JFS.
pub(super) fn at_32_kib(bytes: &[u8]) -> Option<Filesystem> {
    if bytes.get(1..6)? == b"CD001" {
        // Its UUID is when it was last changed, else when it was made (ECMA-119 §8.4.26 and 8.4.27).
        let id = [830, 813].iter().find_map(|at| iso_date(bytes.get(*at..at + 16)?));
        return Some(Filesystem::new("iso9660", to_nul(bytes.get(40..72)?), id));
    }
    let is_jfs = bytes.starts_with(b"JFS1");
    is_jfs.then(|| Filesystem::new("jfs", None, bytes.get(136..152).map(uuid)))
}

/// Detects content with a signature in 8 KiB at 60 KiB: Btrfs, GFS2, `reiserfs`, swap of machines with pages of 64 KiB.
pub(super) fn at_60_kib(first: &[u8], bytes: &[u8]) -> Option<Filesystem> {
    let at_64 = bytes.get(4096..)?;
    if let Some(found) = superblock::btrfs(at_64) {
        return Some(found.into());
    }
    // `struct scoutfs_block_header`: a checksum, the magic of a superblock, the file system's id; both kinds of
    // device begin with it.
    if le32(at_64, 4) == 0x103c_428b {
        return Some(Filesystem::new("scoutfs_meta", None, None));
    }
    if at_64.starts_with(&[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1]) {
        return Some(Filesystem::new("gfs2", None, None));
    }
    if at_64.get(52..61)?.starts_with(b"ReIsEr") {
        return Some(Filesystem::new("reiserfs", None, None));
    }
    swap(first, bytes.get(4086..4096)?)
}

/// Sixteen digits from year to hundredth of a second; all zeros are not a date.
fn iso_date(digits: &[u8]) -> Option<String> {
    let is_date =
        digits.iter().all(u8::is_ascii_digit) && digits.iter().any(|digit| *digit != b'0');
    let digits = to_nul(digits).filter(|_| is_date)?;
    let cuts = [0, 4, 6, 8, 10, 12, 14, 16];
    let parts: Option<Vec<&str>> = cuts.windows(2).map(|cut| digits.get(cut[0]..cut[1])).collect();
    Some(parts?.join("-"))
}

/// An external log begins with the header of a record: magic, cycle, version 1 or 2 (`xlog_rec_header`).
fn xfs_log(first: &[u8]) -> Option<Filesystem> {
    let is_log = first.starts_with(&[0xfe, 0xed, 0xba, 0xbe])
        && matches!(first.get(8..12)?, [0, 0, 0, 1 | 2]);
    is_log.then(|| Filesystem::new("xfs_external_log", None, None))
}

/// OCFS2 has its superblock in the third block.
fn ocfs2(first: &[u8]) -> Option<Filesystem> {
    let is_there = |at: usize| first.get(at..).is_some_and(|bytes| bytes.starts_with(b"OCFSV2"));
    [1024, 2048].into_iter().any(is_there).then(|| Filesystem::new("ocfs2", None, None))
}

/// The same for blocks of 2 and of 4 KiB: `second` are the second 4 KiB, `third` the beginning of the third.
pub(super) fn ocfs2_of_large_blocks(second: &[u8], third: &[u8]) -> Option<Filesystem> {
    let is_there = |bytes: &[u8]| bytes.starts_with(b"OCFSV2");
    (is_there(second) || is_there(third)).then(|| Filesystem::new("ocfs2", None, None))
}

/// VMFS has its volume's header at 1 MiB and its own at 2 MiB (`libblkid/src/superblocks/vmfs.c`).
pub(super) fn vmfs(read: &mut Read<'_>) -> Option<Filesystem> {
    const VOLUME_AT: u64 = 1 << 20;
    if read(VOLUME_AT, 512)?.starts_with(&[0x0d, 0xd0, 0x01, 0xc0]) {
        let rest = read(VOLUME_AT + 512, 512);
        let membership = rest.and_then(|rest| membership::of_vmfs(&rest)).map(Box::new);
        return Some(Filesystem {
            membership,
            ..Filesystem::new("VMFS_volume_member", None, None)
        });
    }
    let is_file_system = read(2 << 20, 512)?.starts_with(&[0x5e, 0xf1, 0xab, 0x2f]);
    is_file_system.then(|| Filesystem::new("VMFS", None, None))
}

fn squashfs(first: &[u8]) -> Option<Filesystem> {
    let is_known = first.starts_with(b"hsqs") && le16(first, 28) <= 4;
    is_known.then(|| Filesystem::new("squashfs", None, None))
}

fn f2fs(first: &[u8]) -> Option<Filesystem> {
    let block = first.get(1024..).filter(|block| le32(block, 0) == 0xf2f5_2010)?;
    Some(Filesystem::new("f2fs", None, uuid_if_set(block.get(108..124)?)))
}

fn microsoft(first: &[u8]) -> Option<Filesystem> {
    match first.get(3..11)? {
        b"NTFS    " => {
            let serial = Some(le64(first, 72)).filter(|serial| *serial != 0);
            Some(Filesystem::new("ntfs", None, serial.map(|serial| format!("{serial:016X}"))))
        }
        b"EXFAT   " => Some(Filesystem::new("exfat", None, volume_serial(first, 100))),
        _ => None,
    }
}

fn swap(first: &[u8], mark: &[u8]) -> Option<Filesystem> {
    let is_swap = mark == b"SWAPSPACE2" || mark == b"SWAP-SPACE";
    is_swap.then(|| {
        let label = first.get(1052..1068).and_then(to_nul);
        Filesystem::new("swap", label, first.get(1036..1052).and_then(uuid_if_set))
    })
}
