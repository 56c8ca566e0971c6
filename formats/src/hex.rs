//! Bytes as hexadecimal digits (RFC 4648 §8), and back.

/// The lower-case digits of `bytes`, without separators.
pub fn hex<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> String {
    let digits = |byte: &u8| [byte >> 4, byte & 0x0f].map(|n| char::from_digit(n.into(), 16));
    bytes.into_iter().flat_map(digits).flatten().collect()
}

/// The bytes that `digits` spell in either case; `None` if they are an odd number, or not all are digits.
pub fn bytes(digits: &str) -> Option<Vec<u8>> {
    let n_bytes = digits.len() / 2;
    let bytes: Vec<u8> = bytes_lossy(digits).collect();
    (digits.len().is_multiple_of(2) && bytes.len() == n_bytes).then_some(bytes)
}

/// The bytes of damaged digits: a pair that is not two digits is skipped, as is a last digit alone.
pub fn bytes_lossy(digits: &str) -> impl Iterator<Item = u8> {
    digits.as_bytes().chunks_exact(2).filter_map(|pair| {
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|n| u8::try_from(n).ok());
        Some(digit(pair[0])? << 4 | digit(pair[1])?)
    })
}

/// Digits in groups of `n` with a separator between them; the last group may be shorter.
pub fn grouped(digits: &str, n: usize, separator: &str) -> String {
    let n = n.max(1);
    let groups = (0..digits.len()).step_by(n);
    let groups: Vec<&str> =
        groups.filter_map(|at| digits.get(at..(at + n).min(digits.len()))).collect();
    groups.join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_two_lower_case_digits() {
        assert_eq!(hex(&[0x00, 0x0a, 0xb0, 0xff]), "000ab0ff");
        assert_eq!(hex(&[]), "");
    }

    #[test]
    fn digits_of_either_case_are_parsed_into_the_bytes_that_they_spell() {
        assert_eq!(bytes("000Ab0fF").as_deref(), Some(&[0x00, 0x0a, 0xb0, 0xff][..]));
        assert_eq!(bytes("").as_deref(), Some(&[][..]));
        for wrong in ["0", "000", "0g", "+1", "-1", "0x01", " 1", "é", "00é"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn damaged_digits_lose_only_the_pairs_that_are_damaged() {
        assert_eq!(bytes_lossy("01zz02+304f").collect::<Vec<u8>>(), [1, 2, 4]);
        assert_eq!(bytes_lossy("é01").collect::<Vec<u8>>(), [1]);
    }

    #[test]
    fn groups_have_separators_between_them_only() {
        assert_eq!(grouped("0102030405", 4, "."), "0102.0304.05");
        assert_eq!(grouped("01", 2, ":"), "01");
        assert_eq!(grouped("", 2, ":"), "");
        assert_eq!(grouped("01", 0, ":"), "0:1");
    }
}
