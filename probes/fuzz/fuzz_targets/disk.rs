//! Partition tables and superblocks, as the first sectors of a disk have them.
#![no_main]

/// Beyond all superblocks that are looked for.
const N_BYTES: usize = 96 << 10;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((form, data)) = data.split_first() else { return };
    let (sector, text) = if form & 1 == 0 { (512, "512") } else { (4096, "4096") };
    let mut disk = fuzz::disk(data, N_BYTES);
    if form & 2 != 0 {
        fuzz::seal_gpt(&mut disk, sector);
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
    // The pieces that are asked for; their names tell place and length.
    for start in [0, 4096, 16384, 32768, 61440, 65536] {
        for n in [4096, 8192] {
            let end = (start + n).min(disk.len());
            files.push((format!("kernel/disk/sda/{start}-{n}"), &disk[start..end]));
            files.push((format!("kernel/disk/sda1/{start}-{n}"), &disk[start..end]));
        }
    }
    for n in [4096, 12288, 65536] {
        let start = disk.len() - n;
        files.push((format!("kernel/disk/sda/{start}-{n}"), &disk[start..]));
    }
    let files: Vec<(&str, &[u8])> = files.iter().map(|(p, c)| (p.as_str(), *c)).collect();
    let block = probes::block::block(&fuzz::machine(&files));
    assert_eq!(block.disks.len(), 1);
});
