//! The proof's reads of an installed disk: its partition table and labels.
#![no_main]

use run_coreos_installer::proof::{gpt, label};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((form, data)) = data.split_first() else { return };
    let sector = if form & 1 == 0 { 512 } else { 4096 };
    let mut disk = fuzz::disk(data, 64 << 10);
    label::of(disk.as_slice());
    fuzz::seal_gpt(&mut disk, sector);
    gpt::read(&mut disk.as_slice(), sector as u64).ok();
});
