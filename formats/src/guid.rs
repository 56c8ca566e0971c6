//! GUIDs as UEFI stores them (UEFI Specification 2.10, appendix A): the first three groups are
//! little-endian, the last two are not.

use std::fmt;

use crate::hex::hex;

/// A GUID in the byte order of the disk or variable that holds it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// Whether all bytes are 0, which marks an unused entry of a table.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        self.0 == [0; 16]
    }
}

impl fmt::Display for Guid {
    /// Lower-case digits in groups of 8, 4, 4, 4 and 12.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
        f.write_str(&uuid(&order.map(|at: usize| self.0[at])))
    }
}

/// A UUID that is stored in the order in which it is written (RFC 9562); bytes of another number
/// are digits without groups.
#[must_use]
pub fn uuid(bytes: &[u8]) -> String {
    let digits = hex(bytes);
    match digits.len() {
        32 => {
            let groups = [0..8, 8..12, 12..16, 16..20, 20..32].map(|group| &digits[group]);
            groups.join("-")
        }
        _ => digits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
