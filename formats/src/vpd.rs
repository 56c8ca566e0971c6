//! SCSI vital product data: pages 80h (unit serial number), 83h (device identification) and B1h (block
//! device characteristics), as the kernel keeps them in `device/vpd_pg80` and so on (SPC-5 §7.7,
//! SBC-4 §6.6.2; bytes 2 and 3 of a page are its length).

use crate::hex::hex;
use crate::text::padded;
use crate::{Encoding, Field, Kind};

/// A page begins with device type, code and length.
pub const HEADER_BYTES: usize = 4;
/// The identification of the vendor before the characters that it chose in a T10 designator.
const T10_VENDOR_BYTES: usize = 8;

/// The serial number of page 80h, without surrounding blanks and NULs.
pub fn unit_serial(page: &[u8]) -> Option<String> {
    padded(body(page, 0x80)?)
}

/// The NAA identifier of the logical unit in page 83h, e.g. `0x5000c500a1b2c3d4`.
pub fn naa(page: &[u8]) -> Option<String> {
    let is_naa = |d: &Descriptor| d.kind == 3 && matches!(d.bytes.len(), 8 | 16);
    descriptors(page).find(|d| d.is_of_unit && is_naa(d)).map(|d| format!("0x{}", hex(d.bytes)))
}

/// The EUI-64 of the logical unit in page 83h, e.g. `eui.002538e00000001a`.
pub fn eui(page: &[u8]) -> Option<String> {
    let is_eui = |d: &Descriptor| d.kind == 2 && matches!(d.bytes.len(), 8 | 12 | 16);
    descriptors(page).find(|d| d.is_of_unit && is_eui(d)).map(|d| format!("eui.{}", hex(d.bytes)))
}

/// The serial number in the T10 designator of page 83h: vendor (8 characters), model (16; 40 of an ATA
/// disk), serial number. Only of a disk of this model.
pub fn t10_serial(page: &[u8], model: &str) -> Option<String> {
    let is_t10 = |d: &Descriptor| d.kind == 1 && d.code_set == 2 && d.is_of_unit;
    let bytes = descriptors(page).find(is_t10)?.bytes;
    let n_model_bytes = if bytes.starts_with(b"ATA     ") { 40 } else { 16 };
    let (name, serial) = bytes.get(8..)?.split_at_checked(n_model_bytes)?;
    let is_model = !model.is_empty() && padded(name)?.starts_with(model);
    padded(serial).filter(|_| is_model)
}

/// The vendor-specific designator of page 83h, which udev uses as the serial number of a unit without page
/// 80h. It may hold any text, so only one word that does not repeat the vendor or the model counts.
pub fn vendor_specific_serial(page: &[u8], vendor: &str, model: &str) -> Option<String> {
    let is_ascii = |d: &Descriptor| d.kind == 0 && d.code_set == 2 && d.is_of_unit;
    let name = descriptors(page).find(is_ascii).and_then(|d| padded(d.bytes))?;
    let folded = name.to_lowercase();
    let repeats = |other: &str| {
        let other = other.trim().to_lowercase();
        !other.is_empty() && (other.contains(&folded) || folded.contains(&other))
    };
    let is_word = !name.contains(char::is_whitespace);
    (is_word && !repeats(vendor) && !repeats(model)).then_some(name)
}

/// Rotation rate in rpm, from page B1h.
pub fn rotation_rpm(page: &[u8]) -> Option<u32> {
    let rate = body(page, 0xb1)?.first_chunk()?;
    rpm(u16::from_be_bytes(*rate))
}

/// True if the medium rotates, from page B1h: 1 means that it does not.
pub fn is_rotational(page: &[u8]) -> Option<bool> {
    let rate = u16::from_be_bytes(*body(page, 0xb1)?.first_chunk()?);
    if rate == 1 { Some(false) } else { rpm(rate).map(|_| true) }
}

/// 0 means unknown, 1 a medium that does not rotate; rates begin at 401h (SBC-4 table 232).
pub fn rpm(rate: u16) -> Option<u32> {
    (0x401..=0xfffe).contains(&rate).then(|| u32::from(rate))
}

/// The nominal form factor in page B1h.
pub fn form_factor(page: &[u8]) -> Option<&'static str> {
    form_factor_name(u16::from(*body(page, 0xb1)?.get(3)?))
}

/// SBC-4 table 235; word 168 of IDENTIFY DEVICE has the same numbers.
pub fn form_factor_name(number: u16) -> Option<&'static str> {
    const NAMES: [&str; 5] =
        ["5.25 inch", "3.5 inch", "2.5 inch", "1.8 inch", "less than 1.8 inch"];
    NAMES.get(usize::from(number & 0x0f).checked_sub(1)?).copied()
}

/// One identification descriptor.
struct Descriptor<'a> {
    /// 1 binary, 2 ASCII, 3 UTF-8.
    code_set: u8,
    /// Designator type: 0 vendor's own, 1 T10, 2 EUI-64, 3 NAA, 8 SCSI name.
    kind: u8,
    /// True if it identifies the logical unit and not a port or the target.
    is_of_unit: bool,
    bytes: &'a [u8],
}

/// The descriptors of page 83h.
fn descriptors(page: &[u8]) -> impl Iterator<Item = Descriptor<'_>> {
    walk(body(page, 0x83).unwrap_or_default())
}

/// The descriptors after the header of page 83h, up to one that is longer than the rest.
fn walk(body: &[u8]) -> impl Iterator<Item = Descriptor<'_>> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let (&[code_set, kind, _, n_bytes], after) = rest.split_first_chunk()?;
        let (bytes, next) = after.split_at_checked(usize::from(n_bytes))?;
        rest = next;
        let (code_set, is_of_unit) = (code_set & 0x0f, kind & 0x30 == 0);
        Some(Descriptor { code_set, kind: kind & 0x0f, is_of_unit, bytes })
    })
}

/// The serial number in page 80h. Neither code nor length of the page is checked: errors there must not keep a serial
/// number in a capture.
pub fn serial_fields(page: &[u8]) -> Vec<Field> {
    if page.len() <= HEADER_BYTES {
        return Vec::new();
    }
    vec![Field::text(HEADER_BYTES..page.len(), Kind::Serial)]
}

/// The names in page 83h of the unit, its ports and target. Neither code nor length of the page is
/// checked, as in [`serial_fields`].
pub fn designator_fields(page: &[u8]) -> Vec<Field> {
    let field = |Descriptor { code_set, kind, bytes, .. }| {
        let (value, kind, encoding) = match (code_set, kind) {
            (1, 2 | 3) => (bytes, Kind::Serial, Encoding::Bytes),
            (2, 1) => (last_word(bytes), Kind::Serial, Encoding::Text),
            (2 | 3, 0) => (bytes, Kind::Serial, Encoding::Text),
            (3, 8) => (bytes, Kind::Identifier, Encoding::Text),
            _ => return None,
        };
        Some(Field::within(page, value, kind, encoding))
    };
    walk(page.get(HEADER_BYTES..).unwrap_or_default()).filter_map(field).collect()
}

/// The serial number of a T10 designator: its last word, for the model may precede it.
fn last_word(bytes: &[u8]) -> &[u8] {
    let text = bytes.get(T10_VENDOR_BYTES..).unwrap_or_default();
    let mut words = text.rsplit(|byte| *byte == 0 || byte.is_ascii_whitespace());
    words.find(|word| !word.is_empty()).unwrap_or(&bytes[..0])
}

/// The bytes after the header of the page `code`, cut to the length that the header gives.
fn body(page: &[u8], code: u8) -> Option<&[u8]> {
    let (header, rest) = page.split_at_checked(HEADER_BYTES)?;
    if header[1] != code {
        return None;
    }
    let n_bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    Some(&rest[..n_bytes.min(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::tests::assert_fields;

    #[test]
    fn serial_number_is_read_without_its_padding() {
        assert_eq!(unit_serial(b"\x00\x80\x00\x08  Z1Z0  ").as_deref(), Some("Z1Z0"));
        assert_eq!(unit_serial(b"\x00\x80\x00\x04\x00\x00\x00\x00"), None);
        assert_eq!(unit_serial(b"\x00\x80\xff\xffab").as_deref(), Some("ab"));
    }

    #[test]
    fn naa_of_the_unit_is_used_not_that_of_its_port() {
        let mut page = vec![0, 0x83, 0, 30];
        page.extend(b"\x02\x00\x00\x02AB");
        page.extend([0x61, 0x93, 0, 8, 1, 1, 1, 1, 1, 1, 1, 1]);
        page.extend([0x01, 0x03, 0, 8, 0x50, 0, 0xc5, 0, 0xa1, 0xb2, 0xc3, 0xd4]);
        assert_eq!(naa(&page).as_deref(), Some("0x5000c500a1b2c3d4"));
        assert_eq!(eui(&page), None);
        assert_eq!(t10_serial(&page, "AB"), None);
    }

    #[test]
    fn t10_designator_has_a_serial_number_and_a_vendor_specific_one_only_if_it_names_no_model() {
        let page = |kind: u8, name: &[u8]| {
            let n = u8::try_from(name.len()).unwrap();
            [&[0, 0x83, 0, n + 4, 2, kind, 0, n][..], name].concat()
        };
        let full = page(1, b"SEAGATE ST4000NM0023    Z1Z0ABCD");
        assert_eq!(t10_serial(&full, "ST4000NM0023").as_deref(), Some("Z1Z0ABCD"));
        assert_eq!(t10_serial(&full, "ST8000"), None);
        assert_eq!(t10_serial(&page(0, b"ST4000"), "ST4000NM0023"), None);
        let own = |name: &[u8]| vendor_specific_serial(&page(0, name), "SEAGATE", "ST4000NM0023");
        assert_eq!(own(b"r1").as_deref(), Some("r1"));
        for other in [&b"ST4000"[..], b"Seagate ST4000NM0023", b"LUN 1", b"SEAGATE-1", b""] {
            assert_eq!(own(other), None, "{other:?}");
        }
        assert_eq!(t10_serial(&page(1, b"SEAGATE ST4000NM0023    "), "ST4000NM0023"), None);
    }

    #[test]
    fn rotating_disk_has_a_rate_and_solid_state_disk_has_none() {
        let page = |rate: [u8; 2]| [&[0, 0xb1, 0, 0x3c][..], &rate, &[0, 3], &[0; 56]].concat();
        assert_eq!(rotation_rpm(&page([0x1c, 0x20])), Some(7200));
        assert_eq!(rotation_rpm(&page([0, 1])), None);
        assert_eq!(rotation_rpm(&page([0, 0])), None);
        assert_eq!(form_factor(&page([0, 1])), Some("2.5 inch"));
        assert_eq!(form_factor(b"\x00\xb1\x00\x3c\x00"), None);
    }

    #[test]
    fn truncated_or_foreign_pages_give_nothing() {
        for page in [
            &b""[..],
            b"\x00",
            b"\x00\x83\x00",
            b"\x00\x83\x00\x08\x01\x03\x00\x08\x50",
            b"\x00\x80\x00\x01",
        ] {
            assert_eq!(naa(page), None);
            assert_eq!(unit_serial(page), None);
        }
    }

    #[test]
    fn the_names_of_a_unit_its_port_and_target_are_identifying_whatever_the_header_says() {
        let mut page = vec![0, 0, 0, 0];
        page.extend(b"\x02\x01\x00\x13ATA     MODEL SER01");
        page.extend([0x61, 0x93, 0, 8, 0x50, 0, 0xc5, 0, 1, 2, 3, 4]);
        page.extend(b"\x03\x08\x00\x0anaa.500001");
        page.extend(b"\x02\x01\x00\x02AB");
        let expected = [
            (Kind::Serial, &b"SER01"[..]),
            (Kind::Serial, &page[31..39]),
            (Kind::Identifier, b"naa.500001"),
            (Kind::Serial, b""),
        ];
        assert_fields(&designator_fields(&page), &page, &expected);
        assert_eq!(serial_fields(b"\0\x80\0\x04 S1")[0].span, 4..7);
        assert_eq!(serial_fields(b"\0\x80\0\x04"), []);
        crate::testing::survives_any_bytes(&page, |bytes| drop(designator_fields(bytes)));
    }
}
