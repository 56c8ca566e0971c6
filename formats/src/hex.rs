//! Bytes as hexadecimal digits.

/// The lower-case digits of `bytes`, without separators.
pub fn hex<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> String {
    let digits = |byte: &u8| [byte >> 4, byte & 0x0f].map(|n| char::from_digit(n.into(), 16));
    bytes.into_iter().flat_map(digits).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn every_byte_has_two_lower_case_digits() {
        assert_eq!(hex(&[0x00, 0x0a, 0xb0, 0xff]), "000ab0ff");
        assert_eq!(hex(&[]), "");
    }
}
