//! Tests of GPT on literal bytes, whose checksums were computed by another program.

use super::*;

/// Header for 128 entries at LBA 2 of a disk of 10,000 blocks; checksums of Python's `zlib.crc32`.
fn header_block() -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..8].copy_from_slice(b"EFI PART");
    block[8..16].copy_from_slice(&[0, 0, 1, 0, 92, 0, 0, 0]);
    block[16..20].copy_from_slice(&HEADER_CRC.to_le_bytes());
    block[24] = 1;
    block[32..34].copy_from_slice(&[0x0f, 0x27]);
    block[40] = 34;
    block[48..50].copy_from_slice(&[0xee, 0x26]);
    block[56..72].copy_from_slice(&[0xaa; 16]);
    block[72] = 2;
    (block[80], block[84]) = (128, 128);
    block[88..92].copy_from_slice(&ENTRIES_CRC.to_le_bytes());
    block
}

/// `boot` in blocks 100 to 149, an unused entry, and one that ends before it begins.
fn entries() -> Vec<u8> {
    let mut entries = vec![0; 128 * 128];
    entries[..16].copy_from_slice(&ESP_TYPE.0);
    entries[16..32].copy_from_slice(&[0x11; 16]);
    (entries[32], entries[40]) = (100, 149);
    entries[56..64].copy_from_slice(b"b\0o\0o\0t\0");
    entries[256..272].copy_from_slice(&ESP_TYPE.0);
    (entries[256 + 32], entries[256 + 40]) = (9, 8);
    entries
}

const HEADER_CRC: u32 = 0xb86c_84bb;
const ENTRIES_CRC: u32 = 0x7140_e04a;

#[test]
fn a_table_is_read_with_either_block_size() {
    let header = Header::parse(&header_block()).unwrap();
    assert_eq!((header.own_lba, header.n_blocks()), (1, 10_000));
    for block_bytes in [512, 4096] {
        assert_eq!(header.entries_place(block_bytes), Ok((2 * block_bytes, 16_384)));
        let parts = header.partitions(&entries(), block_bytes).unwrap();
        assert_eq!(parts.len(), 1, "{parts:?}");
        assert_eq!((parts[0].number, parts[0].name.as_str()), (1, "boot"));
        assert_eq!((parts[0].first_block, parts[0].n_blocks), (100, 50));
        assert_eq!(parts[0].start_bytes, 100 * block_bytes);
        assert_eq!(parts[0].size_bytes, 50 * block_bytes);
        assert_eq!(parts[0].type_guid, ESP_TYPE);
    }
}

#[test]
fn the_spans_of_identifiers_are_where_they_lie() {
    let (block, entries) = (header_block(), entries());
    let header = Header::parse(&block).unwrap();
    assert_eq!(header.fields()[0].bytes(&block), [0xaa; 16]);
    let fields = header.entry_fields(&entries);
    assert_eq!((fields[0].bytes(&entries), fields[0].kind), (&[0x11; 16][..], Kind::Serial));
    assert_eq!(fields[1].span, 272..288, "an unused entry reveals nothing");
}

#[test]
fn a_damaged_table_has_its_identifiers_at_the_same_places() {
    let (mut block, entries) = (header_block(), entries());
    let fields = Header::parse(&block).unwrap().entry_fields(&entries);
    block[16] ^= 1;
    assert!(Header::parse(&block).is_err());
    let header = Header::unverified(&block).unwrap();
    assert_eq!(header.fields()[0].bytes(&block), [0xaa; 16]);
    assert_eq!(header.entry_fields(&entries[..=128]), fields[..1]);
    assert_eq!(Header { entry_bytes: 0, ..header }.entry_fields(&entries), []);
    assert!(Header::unverified(&[0; 512]).is_err());
}

#[test]
fn any_changed_byte_of_header_or_entries_is_damage() {
    let (block, good) = (header_block(), entries());
    let header = Header::parse(&block).unwrap();
    for at in 0..92 {
        let mut damaged = block.clone();
        damaged[at] ^= 0x55;
        assert!(Header::parse(&damaged).is_err(), "{at}");
    }
    for at in (0..good.len()).step_by(97) {
        let mut damaged = good.clone();
        damaged[at] ^= 0x55;
        let found = header.partitions(&damaged, 512).unwrap_err();
        assert!(found.contains("entries that have a wrong checksum"), "{at}: {found}");
    }
    assert_eq!(header.partitions(&good[1..], 512), Err(UNREADABLE_ENTRIES.to_owned()));
    for length in 0..92 {
        assert!(Header::parse(&block[..length]).is_err(), "{length}");
    }
}

#[test]
fn entries_of_an_unlikely_number_size_or_place_are_damage_before_anything_is_read() {
    let good = Header::parse(&header_block()).unwrap();
    for (n_entries, entry_bytes) in [(1025, 128), (128, 127), (1, 4097), (u32::MAX, u32::MAX)] {
        let header = Header { n_entries, entry_bytes, ..good };
        let found = header.entries_place(512).unwrap_err();
        assert!(found.contains("unlikely number or size"), "{found}");
    }
    let largest = Header { n_entries: 1024, entry_bytes: 4096, ..good };
    assert_eq!(largest.entries_place(512), Ok((1024, 4 << 20)));
    for entries_lba in [u64::MAX, u64::MAX / 512] {
        let header = Header { entries_lba, ..good };
        let found = header.entries_place(512).unwrap_err();
        assert!(found.ends_with(&format!("(LBA {entries_lba})")), "{found}");
    }
}

#[test]
fn a_changed_table_is_valid_again_after_it_was_sealed() {
    let (mut block, mut entries) = (header_block(), entries());
    let header = Header::parse(&block).unwrap();
    block[56..72].fill(0xbb);
    entries[16..32].fill(0x22);
    assert!(Header::parse(&block).is_err());
    header.seal(&mut block, Some(crc32(&entries)));
    let sealed = Header::parse(&block).unwrap();
    assert_eq!(sealed.partitions(&entries, 512).unwrap()[0].guid, Guid([0x22; 16]));
}
