//! The proof's reads of an installed disk, its partition table and superblocks, and of the live image's osmet file.
#![no_main]

use run_coreos_installer::act::proof::{gpt, superblock};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((form, data)) = data.split_first() else { return };
    formats::osmet::header(&mut &data[..]).ok();
    let sector = if form & 1 == 0 { 512 } else { 4096 };
    let mut disk = fuzz::disk(data, 64 << 10);
    if let Some(found) = superblock::of(&mut disk.as_slice()) {
        superblock::check(&found, &mut disk.as_slice(), disk.len() as u64).ok();
    }
    fuzz::seal_gpt(&mut disk, sector);
    gpt::read(&mut disk.as_slice(), sector as u64).ok();
});
