//! Places of the blocks in an xz file ("The .xz File Format" 1.2.1, §2 and §3.1).
//!
//! A block that several threads packed names both of its sizes, so that a reader can skip it.

/// The stream header in front of the first block: magic, flags, checksum.
pub const STREAM_HEADER_BYTES: usize = 12;

/// The flags of a block header that say which sizes follow.
const HAS_PACKED_BYTES: u8 = 0x40;
const HAS_UNPACKED_BYTES: u8 = 0x80;

/// The sizes that a block names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// From the end of the block header to the next one: data, padding and check.
    pub body_bytes: u64,
    /// The decompressed data.
    pub unpacked_bytes: u64,
}

/// Size of the block header that begins with `first`; `None` if the index begins there, after the last block.
pub fn block_header_bytes(first: u8) -> Option<usize> {
    (first != 0).then(|| (usize::from(first) + 1) * 4)
}

/// Reads the header of a block; `None` if it does not name both sizes.
pub fn block(stream_header: &[u8], header: &[u8]) -> Option<Block> {
    // Each method of checking has a length of its own; those that are not used have one too.
    let check_bytes = match stream_header.get(7)? & 0xf {
        0 => 0,
        1..=3 => 4,
        4..=6 => 8,
        7..=9 => 16,
        10..=12 => 32,
        _ => 64,
    };
    let flags = *header.get(1)?;
    if flags & HAS_PACKED_BYTES == 0 || flags & HAS_UNPACKED_BYTES == 0 {
        return None;
    }
    let (packed_bytes, rest) = number(header.get(2..)?)?;
    let (unpacked_bytes, _) = number(rest)?;
    let body_bytes = packed_bytes.checked_next_multiple_of(4)?.checked_add(check_bytes)?;
    Some(Block { body_bytes, unpacked_bytes })
}

/// Parses a number with seven bits in each byte, the lowest first; returns it and the rest.
pub fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate().take(9) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: [u8; STREAM_HEADER_BYTES] = *b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46";

    #[test]
    fn sizes_of_a_block_are_read() {
        // `head -c 300000 /dev/zero | xz -T2 --block-size=200000`, the first block.
        let header = *b"\x03\xc0\x69\xc0\x9a\x0c\x21\x01\x16\0\0\0\x30\x21\xd5\xc5";
        let expected = Block { body_bytes: 108 + 8, unpacked_bytes: 200_000 };
        assert_eq!(block(&STREAM, &header), Some(expected));
        assert_eq!((block_header_bytes(3), block_header_bytes(0)), (Some(header.len()), None));
    }

    #[test]
    fn block_without_sizes_or_with_damaged_ones_has_none() {
        assert_eq!(block(&STREAM, &[2, 0, 0x21, 0x01, 0x16, 0, 0, 0]), None);
        assert_eq!(block(&STREAM, &[5, 0x40, 0x79, 0x21, 0x01]), None);
        for length in 0..6 {
            let header = [5, 0xc0, 0x79, 0xc0, 0x9a, 0x0c];
            assert_eq!(block(&STREAM, &header[..length]), None);
            assert_eq!(block(&STREAM[..7], &header), None);
        }
        let endless = [[5, 0xc0].as_slice(), &[0xff; 30]].concat();
        assert_eq!(block(&STREAM, &endless), None);
        let largest = [[5, 0xc0].as_slice(), &[0xff; 8], &[0x7f, 1]].concat();
        assert_eq!(block(&STREAM, &largest).unwrap().body_bytes, (1 << 63) + 8);
    }
}
