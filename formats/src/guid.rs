//! UUIDs (RFC 9562), and GUIDs as UEFI stores them (UEFI Specification 2.10, appendix A): the first
//! three groups are little-endian, the last two are not.
//!
//! A UUID is `[u8; 16]` in the order in which it is written.

use std::fmt;

use uuid::Uuid;

use crate::hex::hex;

/// A GUID in the byte order of the disk or variable that holds it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// True if all bytes are 0, which marks an unused entry of a table.
    pub fn is_nil(&self) -> bool {
        self.0 == [0; 16]
    }
}

impl fmt::Display for Guid {
    /// Lower-case digits in groups of 8, 4, 4, 4 and 12.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Uuid::from_bytes_le(self.0).fmt(f)
    }
}

/// A UUID that is stored in the order in which it is written (RFC 9562); bytes of another number
/// are digits without groups.
pub fn uuid(bytes: &[u8]) -> String {
    Uuid::from_slice(bytes).map_or_else(|_| hex(bytes), |uuid| uuid.to_string())
}

/// A UUID as [`uuid()`] writes it; `None` if all its bytes are 0.
pub fn uuid_if_set(bytes: &[u8]) -> Option<String> {
    bytes.iter().any(|byte| *byte != 0).then(|| uuid(bytes))
}

/// The bytes of a UUID in its usual form, 36 characters in either case.
pub fn parse(text: &str) -> Option<[u8; 16]> {
    parse_any(text).filter(|_| text.len() == 36)
}

/// The bytes of a UUID in its usual form, or of its 32 digits.
pub fn parse_any(text: &str) -> Option<[u8; 16]> {
    // The crate also takes braces and `urn:uuid:`.
    let uuid = Uuid::try_parse(text).ok().filter(|_| [32, 36].contains(&text.len()))?;
    Some(uuid.into_bytes())
}

/// A UUID with the bytes of its first three groups in the other order: converts between the order in
/// which it is written and that of UEFI and SMBIOS.
pub fn swapped(bytes: [u8; 16]) -> [u8; 16] {
    Uuid::from_bytes_le(bytes).into_bytes()
}

/// A UUID in every order in which one is stored: as it is written, as UEFI and SMBIOS do, and in
/// little-endian words of 32 bits (md superblocks of version 0.90).
pub fn orders(bytes: [u8; 16]) -> [[u8; 16]; 3] {
    let mut words = bytes;
    words.chunks_mut(4).for_each(<[u8]>::reverse);
    [bytes, swapped(bytes), words]
}

/// True if all bytes are 0 or all are 255, which means that no UUID is set (DSP0134, section 7.2.1).
pub fn is_unset(bytes: [u8; 16]) -> bool {
    bytes == [0; 16] || bytes == [0xff; 16]
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

    #[test]
    fn the_first_three_groups_of_a_guid_are_turned_and_those_of_a_uuid_are_not() {
        let bytes = [
            0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0, 0xa0, 0xc9, 0x3e, 0xc9,
            0x3b,
        ];
        assert_eq!(Guid(bytes).to_string(), "c12a7328-f81f-11d2-ba4b-00a0c93ec93b");
        assert_eq!(uuid(&bytes), "28732ac1-1ff8-d211-ba4b-00a0c93ec93b");
        assert_eq!(uuid(&[1, 2]), "0102");
    }

    #[test]
    fn a_uuid_is_parsed_in_either_case_and_written_in_lower_case() {
        let text = "00010203-0405-0607-0809-0A0b0c0d0e0f";
        assert_eq!(parse(text), Some(PLAIN));
        assert_eq!(uuid(&PLAIN), text.to_ascii_lowercase());
        assert_eq!(parse_any(text), Some(PLAIN));
    }

    #[test]
    fn digits_alone_are_a_uuid_only_where_that_is_allowed() {
        let digits = "000102030405060708090A0b0c0d0e0f";
        assert_eq!((parse(digits), parse_any(digits)), (None, Some(PLAIN)));
    }

    #[test]
    fn text_that_is_no_uuid_is_not_parsed() {
        for wrong in [
            "",
            "nonsense",
            "00010203-0405-0607-0809-0a0b0c0d0e0",
            "00010203-0405-0607-0809-0a0b0c0d0e0f0",
            "00010203-0405-0607-0809-0a0b0c0d0e0g",
            "0001020-30405-0607-0809-0a0b0c0d0e0f",
            "00010203-0405-0607-0809--a0b0c0d0e0f",
            "00010203_0405_0607_0809_0a0b0c0d0e0f",
            "{0010203-0405-0607-0809-0a0b0c0d0e0}",
            "00010203-0405-0607-0809-0a0b0c0d0eé",
            "+0+1+2+3+4+5+6+7+8+9+a+b+c+d+e+f",
        ] {
            assert_eq!(parse_any(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn orders_are_those_of_rfc_9562_of_uefi_and_of_md() {
        let written = orders(PLAIN).map(|order| uuid(&order));
        assert_eq!(
            written,
            [
                "00010203-0405-0607-0809-0a0b0c0d0e0f",
                "03020100-0504-0706-0809-0a0b0c0d0e0f",
                "03020100-0706-0504-0b0a-09080f0e0d0c",
            ]
        );
        assert_eq!(swapped(swapped(PLAIN)), PLAIN);
    }

    #[test]
    fn only_zeros_and_only_ones_are_unset() {
        assert!(is_unset([0; 16]) && is_unset([0xff; 16]));
        assert!(!is_unset(PLAIN) && !is_unset([0xfe; 16]));
    }
}
