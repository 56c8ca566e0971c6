//! A disk image in the shape of `CoreOS`: GPT, EFI system partition, `boot` with a boot loader entry, `root`.

use std::fs;
use std::io::{Cursor, Write as _};
use std::path::Path;
use std::process::Command;

use super::machine::{IGNITION, tool};

const MIB: usize = 1 << 20;
/// EFI system partition and Linux file system, in the byte order of the disk.
const ESP: [u8; 16] =
    [0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b];
const LINUX: [u8; 16] = [
    0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d, 0xe4,
];

/// Where the partitions of the image begin and how large they are, in MiB: EFI system partition, boot, root.
pub(crate) const PARTS: [(usize, usize); 3] = [(1, 8), (9, 16), (25, 4)];

/// A partition: name, type, first MiB, MiB.
type Part<'a> = (&'a str, [u8; 16], usize, usize);

/// The partitions of the image.
const TABLE: [Part<'_>; 3] = [
    ("EFI-SYSTEM", ESP, PARTS[0].0, PARTS[0].1),
    ("boot", LINUX, PARTS[1].0, PARTS[1].1),
    ("root", LINUX, PARTS[2].0, PARTS[2].1),
];

/// The image that an install of `IGNITION` leaves on the disk.
pub(crate) fn plain() -> Vec<u8> {
    coreos(IGNITION, "ignition.platform.id=metal")
}

/// An image of 32 MiB with 512-byte sectors.
pub(crate) fn coreos(ignition: &str, options: &str) -> Vec<u8> {
    with_sectors(512, ignition, options)
}

/// What coreos-installer does: writes the image, and then the given config into its boot file system. A copy of the config stays.
pub(crate) fn writing_config() -> String {
    let (start, n) = PARTS[1];
    format!(
        "write_image; CONFIG=$ROOT/run/private/config.ign; cp $CONFIG $ROOT/run/private/installed.ign; \
         dd if=$DEVICE of=$ROOT/boot bs=1M skip={start} count={n} status=none; \
         printf 'cd /ignition\\nrm config.ign\\nwrite %s config.ign\\n' $CONFIG | \
         PATH=$PATH:/usr/sbin:/sbin debugfs -w $ROOT/boot >/dev/null 2>&1; \
         dd if=$ROOT/boot of=$DEVICE bs=1M seek={start} conv=notrunc status=none"
    )
}

pub(crate) fn with_sectors(sector: usize, ignition: &str, options: &str) -> Vec<u8> {
    with_boot_files(sector, &boot_files(ignition, options))
}

/// The files of the boot file system, as coreos-installer leaves them.
pub(crate) fn boot_files(ignition: &str, options: &str) -> Vec<(&'static str, String)> {
    vec![
        ("ignition/config.ign", ignition.to_owned()),
        ("ignition.firstboot", "set ignition_network_kcmdline='ip=dhcp'\n".to_owned()),
        ("loader/entries/a.conf", format!("title x\nlinux /v\noptions {options}\n")),
    ]
}

/// An image with these files in its boot file system.
pub(crate) fn with_boot_files(
    sector: usize,
    files: &[(impl AsRef<Path>, impl AsRef<[u8]>)],
) -> Vec<u8> {
    let mut image = vec![0; 32 * MIB];
    write_table(&mut image, sector, &TABLE);
    put(&mut image, 0, &esp(sector));
    put(&mut image, 1, &ext4("boot", PARTS[1].1, files));
    put(&mut image, 2, &ext4("root", PARTS[2].1, &[("x", "y")]));
    image
}

/// Copies a file system into its partition.
pub(crate) fn put(image: &mut [u8], part: usize, bytes: &[u8]) {
    let start = PARTS[part].0 * MIB;
    image[start..start + bytes.len()].copy_from_slice(bytes);
}

/// Writes the table again, without the last of its partitions.
pub(crate) fn without_root_partition(image: &mut [u8]) {
    write_table(image, 512, &TABLE[..2]);
}

/// Writes a table with these partitions only: name, first MiB, MiB.
pub(crate) fn only(image: &mut [u8], parts: &[(&str, usize, usize)]) {
    let parts: Vec<Part<'_>> = parts.iter().map(|(n, at, size)| (*n, LINUX, *at, *size)).collect();
    write_table(image, 512, &parts);
}

/// Writes an empty table over the ends of an image of whole sectors.
pub(crate) fn with_empty_table(mut image: Vec<u8>) -> Vec<u8> {
    write_table(&mut image, 512, &[]);
    image
}

/// Writes the table again, with partitions that coreos-installer saved: name, first MiB, MiB.
pub(crate) fn with_saved(image: &mut [u8], saved: &[(&str, usize, usize)]) {
    let saved = saved.iter().map(|(name, at, size)| (*name, LINUX, *at, *size));
    write_table(image, 512, &TABLE.iter().copied().chain(saved).collect::<Vec<_>>());
}

/// The superblocks of an XFS file system of four allocation groups: what a reader of labels and sizes reads.
pub(crate) fn xfs(label: &str, n_mib: usize) -> Vec<u8> {
    let mut bytes = vec![0; n_mib * MIB];
    let group_bytes = bytes.len() / 4;
    for group in 0..4 {
        let superblock = &mut bytes[group * group_bytes..][..512];
        superblock[..4].copy_from_slice(b"XFSB");
        superblock[6] = 0x10;
        superblock[14..16].copy_from_slice(&u16::try_from(n_mib * 256).unwrap().to_be_bytes());
        superblock[0x20..0x30].fill(0xfa);
        superblock[0x56..0x58].copy_from_slice(&u16::try_from(n_mib * 64).unwrap().to_be_bytes());
        superblock[0x5b] = 4;
        superblock[0x6c..0x6c + label.len()].copy_from_slice(label.as_bytes());
    }
    bytes
}

/// An image whose `boot` file system is FAT.
pub(crate) fn with_fat_boot(ignition: &str, options: &str) -> Vec<u8> {
    let mut image = vec![0; 32 * MIB];
    write_table(&mut image, 512, &TABLE);
    let boot = fat(
        512,
        16,
        *b"boot       ",
        &[
            ("", "ignition.firstboot", b"\n"),
            ("ignition", "config.ign", ignition.as_bytes()),
            ("loader/entries", "a.conf", format!("options {options}\n").as_bytes()),
        ],
    );
    put(&mut image, 0, &esp(512));
    put(&mut image, 1, &boot);
    put(&mut image, 2, &xfs("root", PARTS[2].1));
    image
}

fn esp(sector: usize) -> Vec<u8> {
    esp_with(sector, if cfg!(target_arch = "aarch64") { 0xaa64 } else { 0x8664 })
}

/// An EFI system partition whose only loader is for this machine type.
pub(crate) fn esp_with(sector: usize, machine: u16) -> Vec<u8> {
    fat(sector, 8, *b"EFI-SYSTEM ", &[("EFI/BOOT", "BOOTX64.EFI", &program(machine))])
}

/// The headers of a PE program for this machine type.
pub(crate) fn program(machine: u16) -> Vec<u8> {
    let dos = [b"MZ", &[0; 0x3a][..], &[0x40, 0, 0, 0]].concat();
    [&dos[..], b"PE\0\0", &machine.to_le_bytes(), &[0; 64]].concat()
}

fn fat(sector: usize, n_mib: usize, label: [u8; 11], files: &[(&str, &str, &[u8])]) -> Vec<u8> {
    let mut bytes = Cursor::new(vec![0; n_mib * MIB]);
    let options = fatfs::FormatVolumeOptions::new()
        .bytes_per_sector(u16::try_from(sector).unwrap())
        .volume_label(label);
    fatfs::format_volume(&mut bytes, options).unwrap();
    {
        let fat = fatfs::FileSystem::new(&mut bytes, fatfs::FsOptions::new()).unwrap();
        for (dir, name, content) in files {
            let mut path = fat.root_dir();
            for part in dir.split('/').filter(|part| !part.is_empty()) {
                path = path.create_dir(part).unwrap();
            }
            path.create_file(name).unwrap().write_all(content).unwrap();
        }
    }
    bytes.into_inner()
}

/// A folder with these files.
pub(crate) fn tree(files: &[(impl AsRef<Path>, impl AsRef<[u8]>)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn ext4(label: &str, n_mib: usize, files: &[(impl AsRef<Path>, impl AsRef<[u8]>)]) -> Vec<u8> {
    let (tree, image) = (tree(files), tempfile::NamedTempFile::new().unwrap());
    image.as_file().set_len((n_mib * MIB) as u64).unwrap();
    let status = Command::new(tool("mkfs.ext4"))
        .args(["-q", "-F", "-b", "4096", "-L", label, "-d"])
        .args([tree.path(), image.path()])
        .status()
        .unwrap();
    assert!(status.success());
    fs::read(&image).unwrap()
}

fn write_table(image: &mut [u8], sector: usize, parts: &[Part<'_>]) {
    let mut entries = vec![0_u8; 128 * 128];
    for (at, (name, kind, start, size)) in parts.iter().enumerate() {
        let (first, n) = (start * MIB / sector, size * MIB / sector);
        let entry = &mut entries[at * 128..][..128];
        entry[..16].copy_from_slice(kind);
        entry[16..32].fill(u8::try_from(*start).unwrap());
        entry[32..40].copy_from_slice(&(first as u64).to_le_bytes());
        entry[40..48].copy_from_slice(&((first + n - 1) as u64).to_le_bytes());
        for (at, unit) in name.encode_utf16().enumerate() {
            entry[56 + at * 2..][..2].copy_from_slice(&unit.to_le_bytes());
        }
    }
    let n_sectors = image.len() / sector;
    let backup_entries = n_sectors - 1 - entries.len() / sector;
    for (own, other, at) in [(1, n_sectors - 1, 2), (n_sectors - 1, 1, backup_entries)] {
        let header = header(sector, [own, other, at, backup_entries - 1], &entries);
        image[own * sector..own * sector + 92].copy_from_slice(&header);
        image[at * sector..at * sector + entries.len()].copy_from_slice(&entries);
    }
    // The protective boot record.
    image[450] = 0xee;
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
}

/// A header: its place, that of the other one, that of the entries, and the last block for partitions.
fn header(sector: usize, places: [usize; 4], entries: &[u8]) -> [u8; 92] {
    let [own, other, at, last] = places.map(|place| (place as u64).to_le_bytes());
    let mut header = [0_u8; 92];
    header[..8].copy_from_slice(b"EFI PART");
    header[10..12].copy_from_slice(&1_u16.to_le_bytes());
    header[12..16].copy_from_slice(&92_u32.to_le_bytes());
    header[24..32].copy_from_slice(&own);
    header[32..40].copy_from_slice(&other);
    header[40..48].copy_from_slice(&((MIB / sector) as u64).to_le_bytes());
    header[48..56].copy_from_slice(&last);
    header[56..72].fill(0x77);
    header[72..80].copy_from_slice(&at);
    header[80..84].copy_from_slice(&128_u32.to_le_bytes());
    header[84..88].copy_from_slice(&128_u32.to_le_bytes());
    header[88..92].copy_from_slice(&crc32(entries).to_le_bytes());
    let crc = crc32(&header);
    header[16..20].copy_from_slice(&crc.to_le_bytes());
    header
}

/// CRC-32 bit by bit: these images share no code with the program that reads them.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}
