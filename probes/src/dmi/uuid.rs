//! UUIDs in the byte orders of SMBIOS (DSP0134, section 7.2.1).

use formats::hex::hex;

/// Parses the text of a UUID into lower case.
pub(super) fn parse(text: &str) -> Result<String, &'static str> {
    let is_uuid = text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    let expected = "a UUID such as 4c4c4544-0058-4a10-8034-b7c04f4b5a33";
    is_uuid.then(|| text.to_ascii_lowercase()).ok_or(expected)
}

/// Writes a UUID as the kernel does: since SMBIOS 2.6 the first three parts are little-endian
/// (`dmi_save_uuid`, `drivers/firmware/dmi_scan.c`). `None` where the version is not known.
pub(super) fn of_table(raw: &[u8], version: Option<(u8, u8)>) -> Option<String> {
    let bytes = <[u8; 16]>::try_from(raw).ok()?;
    Some(uuid_text(bytes, version? >= (2, 6)))
}

/// The text of a UUID whose first three parts are little-endian, or not.
pub(crate) fn uuid_text(mut bytes: [u8; 16], is_little_endian: bool) -> String {
    if is_little_endian {
        bytes[..4].reverse();
        bytes[4..6].reverse();
        bytes[6..8].reverse();
    }
    let parts = [&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[8..10], &bytes[10..]];
    parts.map(hex).join("-")
}

/// The UUID `text` with its first three parts in the other byte order.
pub(super) fn swapped(text: &str) -> Option<String> {
    let digits: String = text.split('-').collect();
    let mut bytes = [0; 16];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(uuid_text(bytes, true))
}

/// Whether all bytes of a UUID are 0 or all are 255, which means that none is set.
pub(super) fn is_unset(uuid: &str) -> bool {
    ['0', 'f'].iter().any(|digit| uuid.chars().all(|c| c == *digit || c == '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_a_uuids_bytes_depends_on_the_version() {
        let raw: Vec<u8> = (0..16).collect();
        let new = of_table(&raw, Some((2, 6))).unwrap();
        let old = of_table(&raw, Some((2, 5))).unwrap();
        assert_eq!(new, "03020100-0504-0706-0809-0a0b0c0d0e0f");
        assert_eq!(old, "00010203-0405-0607-0809-0a0b0c0d0e0f");
        assert_eq!(of_table(&raw, None), None);
    }
}
