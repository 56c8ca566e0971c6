//! Tests which data a search finds, on sparse files in place of disks.

use std::process::Command;

use super::*;
use crate::act::System;
use crate::act::testing::disk;
use crate::skipped::skipped;

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// A held disk of this size, and the file in its place.
fn held(size_bytes: u64) -> (tempfile::TempDir, Target, File) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for dir in ["sys/dev/block", "sys/devices/sda"] {
        std::fs::create_dir_all(root.join(dir)).unwrap();
    }
    std::fs::write(root.join("sys/devices/sda/size"), format!("{}\n", size_bytes / 512)).unwrap();
    std::os::unix::fs::symlink("../../devices/sda", root.join("sys/dev/block/8:0")).unwrap();
    let path = root.join("disk");
    let file = File::create_new(&path).unwrap();
    file.set_len(size_bytes).unwrap();
    let facts = probes::block::Disk {
        device: path.to_str().unwrap().into(),
        device_number: Some("8:0".into()),
        serial: None,
        wwn: None,
        ..disk("sda", size_bytes)
    };
    let target = Target::hold(&facts, &System::below(root.to_owned())).unwrap();
    (folder, target, file)
}

fn fill(file: &File, at: u64, byte: u8, n_mib: u64) {
    for mib in 0..n_mib {
        file.write_all_at(&vec![byte; 1 << 20], at + mib * MIB).unwrap();
    }
}

fn searched(size_bytes: u64, change: impl Fn(&File)) -> Result<NoData, NotBlank> {
    let (_folder, target, file) = held(size_bytes);
    change(&file);
    check(&target, ExistingDataPolicy::Coreos)
}

#[test]
fn data_anywhere_on_the_disk_is_found_and_erased_flash_is_blank() {
    const SIZE: u64 = 1 << 30;
    let seen = searched(SIZE, |_| ()).unwrap();
    assert!(!seen.is_certain && seen.n_places >= 2048, "{seen:?}");
    assert_eq!(seen.to_string(), format!("no data found in {} places", seen.n_places));
    assert_eq!(searched(4096, |_| ()).unwrap().to_string(), "it is blank");
    // What is twice as large as a part cannot be missed.
    let found = searched(SIZE, |file| fill(file, 500 * MIB, 7, 1));
    assert!(matches!(found, Err(NotBlank::Data(at)) if at / MIB == 500), "{found:?}");
    let found = searched(SIZE, |file| fill(file, 500 * MIB, 0xff, 1));
    assert_eq!(found.map(|seen| seen.is_certain), Ok(false));
    // The second header of LUKS, UFS2, LVM on the first partition, and the table of a GPT at the end.
    for at in [16_384, 65_536 + 1372, MIB + 512, 2 * MIB + 4096, SIZE - 17_000] {
        let found = searched(SIZE, |file| file.write_all_at(b"SKUL", at).unwrap());
        assert_eq!(found, Err(NotBlank::Data(at / 4096 * 4096)));
    }
}

#[test]
fn places_differ_in_each_run_and_lie_in_every_part_of_the_disk() {
    let of = |random: u64| all_or_some(std::slice::from_ref(&(0..TIB)), random);
    let (one, other) = (of(1), of(2));
    assert_eq!((one.len(), &one), (2048, &of(1)));
    let is_in_its_part = |(n, (at, _)): (usize, &Place)| at / (TIB / 2048) == n as u64;
    assert!(one.iter().enumerate().all(is_in_its_part));
    let n_same = one.iter().zip(&other).filter(|(one, other)| one == other).count();
    assert!(n_same < 3, "{n_same}");
    // Areas between which others lie, none of them aligned.
    let areas = [512..96 * MIB + 512, TIB + 1536..TIB + 64 * MIB];
    let inside = |(at, n): &Place| areas.iter().any(|area| *at >= area.start && at + n <= area.end);
    assert!(all_or_some(&areas, 7).iter().all(inside));
}

#[test]
fn small_areas_are_read_whole() {
    let (start, end) = (MIB + 512, MIB + 2 * PIECE_BYTES);
    let areas = [start..end, 9 * MIB..9 * MIB + 1];
    let expected = [(start, PIECE_BYTES), (start + PIECE_BYTES, PIECE_BYTES - 512), (9 * MIB, 1)];
    assert_eq!(all_or_some(&areas, 7), expected);
    let (_folder, target, file) = held(TIB);
    file.write_all_at(b"x", 500 * MIB).unwrap();
    assert_eq!(check_areas(&target, &[400 * MIB..420 * MIB, 499 * MIB..500 * MIB]), Ok(()));
    let found = check_areas(&target, &[0..MIB, 490 * MIB..501 * MIB]);
    assert_eq!(found, Err(NotBlank::Data(500 * MIB)));
    assert_eq!(check_areas(&target, &[]), Ok(()));
}

#[test]
fn disk_that_cannot_be_read_is_not_blank() {
    let cut = searched(MIB, |file| file.set_len(MIB / 2).unwrap());
    assert!(matches!(cut, Err(NotBlank::Unread(_))), "{cut:?}");
}

#[test]
fn disk_is_read_whole_where_the_policy_requires_a_blank_one() {
    let (_folder, target, file) = held(256 * MIB);
    let seen = check(&target, ExistingDataPolicy::Refuse).unwrap();
    assert!(seen.is_certain && seen.n_places >= 2048, "{seen:?}");
    // One byte that no place contains.
    let places = places(256 * MIB, 7);
    let free = (64..180 * MIB / 4096).map(|n| n * 4096);
    let mut free = free.filter(|at| !places.iter().any(|place| place.0 == *at));
    let at = free.next_back().unwrap();
    file.write_all_at(b"x", at).unwrap();
    assert_eq!(check(&target, ExistingDataPolicy::Refuse), Err(NotBlank::Data(at)));
}

/// Formats the disk from this byte on, as a partition or volume there would be.
fn ext4(target: &Target, at: u64) -> bool {
    let mkfs = ["/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"]
        .into_iter()
        .find(|path| std::path::Path::new(path).exists());
    let Some(mkfs) = mkfs else {
        skipped("mkfs.ext4 is missing");
        return false;
    };
    let offset = format!("offset={at},lazy_itable_init=1,lazy_journal_init=1,nodiscard");
    let n_kib = format!("{}k", (target.disk().size_bytes.unwrap() - at) / 1024);
    let args = ["-q", "-F", "-b", "4096", "-E", &offset, &target.disk().device, &n_kib];
    assert!(Command::new(mkfs).args(args).status().unwrap().success());
    true
}

#[test]
fn file_system_whose_disk_lost_its_first_mibs_is_found_and_named() {
    // In a partition, and in a volume of LVM on it.
    for at in [MIB, 2 * MIB] {
        let (_folder, target, file) = held(64 << 30);
        if !ext4(&target, at) {
            return;
        }
        file.write_all_at(&vec![0; 1 << 20], 0).unwrap();
        let found = check(&target, ExistingDataPolicy::Coreos);
        assert!(matches!(found, Err(NotBlank::Data(_))), "{found:?}");
        let (place, filesystem) = lost_volume(&target).unwrap();
        assert_eq!((place, filesystem.kind.as_str()), (at, "ext4"));
        // Its superblock is gone, too.
        file.write_all_at(&vec![0; 4 << 20], 0).unwrap();
        assert!(matches!(check(&target, ExistingDataPolicy::Coreos), Err(NotBlank::Data(_))));
        let (place, filesystem) = lost_volume(&target).unwrap();
        assert_eq!((place, filesystem.kind.as_str()), (at + 128 * MIB, "ext4"));
    }
}

/// The header of a group of XFS.
fn group() -> Vec<u8> {
    [&b"XFSB\0\0\x10\0"[..], &[0; 504]].concat()
}

#[test]
fn copy_that_a_volume_of_another_kind_keeps_is_found() {
    let mut btrfs = vec![0; 4096];
    btrfs[0x40..0x48].copy_from_slice(b"_BHRfS_M");
    let mut ntfs = b"\xebR\x90NTFS    ".to_vec();
    ntfs.resize(512, 0);
    ntfs[510..].copy_from_slice(b"\x55\xaa");
    let luks = || [&b"SKUL\xba\xbe\0\x02"[..], &[0; 504]].concat();
    for (kind, at, bytes) in [
        ("btrfs", 64 * MIB, btrfs),
        ("ntfs", 4096 * MIB - 512, ntfs),
        ("xfs", 2048 * MIB, group()),
        ("crypto_LUKS", 16 << 10, luks()),
        ("crypto_LUKS", MIB + (32 << 10), luks()),
    ] {
        let (_folder, target, file) = held(4096 * MIB);
        assert_eq!(lost_volume(&target), None);
        file.write_all_at(&bytes, at).unwrap();
        let found = lost_volume(&target).map(|(place, found)| (place, found.kind));
        assert_eq!(found, Some((at, kind.to_owned())));
        assert_eq!(check(&target, ExistingDataPolicy::Wipe), Err(NotBlank::Data(at / 4096 * 4096)));
    }
}

#[test]
fn groups_of_xfs_are_read_on_disks_of_every_size_and_in_a_partition() {
    let size = 1_000_204_886_016;
    // A disk, a partition on it, and a disk of 8 TiB, whose groups are as large as they can be.
    for (size, at) in [
        (size, (size / 4096_u64).div_ceil(4) * 4096),
        (size, (size - 2 * MIB) / 4 / 4096 * 4096 + MIB),
        (8 * TIB, 3 * (TIB - 4096)),
        (8 * TIB, 7 * (TIB - 4096) + MIB),
    ] {
        let found = searched(size, |file| file.write_all_at(&group(), at).unwrap());
        assert_eq!(found, Err(NotBlank::Data(at)), "{size}");
    }
}
