//! Partition tables and superblocks in the first sectors of a disk.
#![no_main]

/// Larger than the offset of any known superblock.
const N_BYTES: usize = 96 << 10;

/// The parsers of tables and labels, on the bytes as they come.
fn formats(data: &[u8], block_bytes: u64) {
    if let Ok(header) = formats::gpt::Header::parse(data) {
        if let Ok((_, n_bytes)) = header.entries_place(block_bytes) {
            let entries = data.get(..n_bytes).unwrap_or_default();
            let _ = header.partitions(entries, block_bytes);
        }
        header.seal(&mut data.to_vec(), Some(0));
    }
    let _ = formats::mbr::entries(data);
    let mut fields = formats::mbr::fields(data);
    fields.extend(formats::lvm::label(data).map(|label| label.fields).unwrap_or_default());
    fields.extend(formats::lvm::metadata_fields(data));
    if let Ok(header) = formats::gpt::Header::unverified(data) {
        fields.extend(header.fields().into_iter().chain(header.entry_fields(data)));
    }
    for field in &fields {
        assert!(data.get(field.span.clone()).is_some(), "a span outside the disk");
    }
    let text = String::from_utf8_lossy(data);
    let _ = (formats::lvm::Volume::parse(&text), formats::lvm::ids(&text));
    let _ = (formats::wwn::forms(&text), formats::digest::Algorithm::of(&text));
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((form, data)) = data.split_first() else { return };
    let (sector, text) = if form & 1 == 0 { (512, "512") } else { (4096, "4096") };
    formats(data, sector as u64);
    let mut disk = fuzz::disk(data, N_BYTES);
    if form & 2 != 0 {
        fuzz::seal_gpt(&mut disk, sector);
        let last = disk.len() / sector * sector - sector;
        fuzz::seal_gpt_at(&mut disk, last, sector);
    }
    let size = (N_BYTES / 512).to_string();
    let mut files: Vec<(String, &[u8])> = vec![
        ("sys/block/sda/size".to_owned(), size.as_bytes()),
        ("sys/block/sda/dev".to_owned(), b"8:0"),
        ("sys/block/sda/queue/logical_block_size".to_owned(), text.as_bytes()),
        ("sys/block/sda/device/vendor".to_owned(), b"ATA"),
        ("sys/block/sda/sda1/partition".to_owned(), b"1"),
        ("sys/block/sda/sda1/start".to_owned(), b"8"),
        ("sys/block/sda/sda1/size".to_owned(), b"160"),
    ];
    if form & 4 != 0 {
        // Without partitions from the kernel, the agent looks for the backup of the table.
        files.truncate(4);
    }
    let files: Vec<(&str, &[u8])> = files.iter().map(|(p, c)| (p.as_str(), *c)).collect();
    fuzz::with_disk(&files, &disk, |machine| {
        assert_eq!(probes::block::block(machine).disks.len(), 1);
    });
});
