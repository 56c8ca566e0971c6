//! Numbers in little-endian order, as disks and PC firmware store them.

/// The 2 bytes at `at`; 0 where the bytes end before.
pub fn le16(bytes: &[u8], at: usize) -> u16 {
    array(bytes, at).map(u16::from_le_bytes).unwrap_or_default()
}

/// The 4 bytes at `at`; 0 where the bytes end before.
pub fn le32(bytes: &[u8], at: usize) -> u32 {
    array(bytes, at).map(u32::from_le_bytes).unwrap_or_default()
}

/// The 8 bytes at `at`; 0 where the bytes end before.
pub fn le64(bytes: &[u8], at: usize) -> u64 {
    array(bytes, at).map(u64::from_le_bytes).unwrap_or_default()
}

/// The `N` bytes at `at`; `None` where the bytes end before.
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_little_endian_and_zero_beyond_the_end() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!((le16(&bytes, 1), le32(&bytes, 1)), (0x0302, 0x0504_0302));
        assert_eq!(le64(&bytes, 1), 0x0908_0706_0504_0302);
        assert_eq!((le16(&bytes, 8), le64(&bytes, 2), le32(&bytes, usize::MAX)), (0, 0, 0));
    }
}
