//! Numbers in an xz file ("The .xz File Format" 1.2.1, §1.2).

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

    #[test]
    fn numbers_have_seven_bits_in_each_byte() {
        assert_eq!(number(&[0x69, 1]), Some((0x69, &[1][..])));
        assert_eq!(number(&[0xc0, 0x9a, 0x0c]), Some((200_000, &[][..])));
        assert_eq!(number(&[0xc0, 0x9a]), None);
        assert_eq!(number(&[0xff; 30]), None);
    }
}
