//! The proof's reads of an installed disk, its partition table, superblocks and tables of ext4, and of the live image's osmet
//! file.
#![no_main]

use formats::{executable, ext4};
use run_coreos_installer::act::proof::{gpt, superblock};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((form, data)) = data.split_first() else { return };
    formats::osmet::header(&mut &data[..]).ok();
    let sector = if form & 1 == 0 { 512 } else { 4096 };
    let mut disk = fuzz::disk(data, 64 << 10);
    if let Some(found) = superblock::of(&mut disk.as_slice()) {
        superblock::check(&found, &mut disk.as_slice(), disk.len() as u64).ok();
    }
    if let Some(layout) = disk.get(1024..).and_then(ext4::Layout::parse) {
        let descriptor_at = layout.descriptor_at(u32::from(*form));
        if descriptor_at.is_some() {
            layout.inode_at(u32::from(*form), data);
        }
        layout.tables(&disk);
        layout.is_directory_block(data);
    }
    if let Some(inode) = ext4::Inode::parse(data) {
        ext4::branches(&inode.root);
    }
    ext4::branches(data);
    ext4::names(data);
    executable::architecture(data);
    fuzz::seal_gpt(&mut disk, sector);
    gpt::read(&mut disk.as_slice(), sector as u64).ok();
});
