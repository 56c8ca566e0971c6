//! Fields of the firmware's structures, little endian, by their offsets.

/// Two bytes at `at`.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Four bytes at `at`.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Eight bytes at `at`.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Printable text of at most `n` bytes at `at`, up to the first NUL and without surrounding blanks; `None`
/// if there are other bytes.
pub(super) fn text_at(bytes: &[u8], at: usize, n: usize) -> Option<String> {
    let field = bytes.get(at..at.checked_add(n)?)?;
    let field = field.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = std::str::from_utf8(field).ok().filter(|text| text.is_ascii())?.trim();
    let is_printable = text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    (is_printable && !text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_beyond_the_end_is_absent() {
        let bytes = [1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!((u16_at(&bytes, 0), u32_at(&bytes, 4)), (Some(1), Some(0)));
        assert_eq!((u16_at(&bytes, 7), u32_at(&bytes, 5), u64_at(&bytes, 1)), (None, None, None));
        assert_eq!(u64_at(&bytes, usize::MAX), None);
        assert_eq!(text_at(&bytes, 7, usize::MAX), None);
    }

    #[test]
    fn text_ends_at_a_nul_and_other_bytes_give_none() {
        assert_eq!(text_at(b" 7PKX \0\xff\xff", 0, 9).as_deref(), Some("7PKX"));
        assert_eq!(text_at(b"ab\x01\xffcd", 0, 6), None);
        assert_eq!(text_at(b"    ", 0, 4), None);
    }
}
