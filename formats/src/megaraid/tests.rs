//! Damaged answers of the firmware, and the fields that name a part in them.

use super::*;
use crate::testing::survives_any_bytes;

#[test]
fn list_shorter_than_its_count_is_refused() {
    let mut answer = vec![0; 8 + 2 * 16];
    (answer[0], answer[24], answer[28]) = (2, 5, 3);
    let both = volumes(&answer).unwrap();
    assert_eq!((both[1].id, both[1].state, both.len()), (5, 3, 2));
    answer[0] = 3;
    assert_eq!(volumes(&answer), None);
    assert_eq!(volumes(&[]), None);
    answer.resize(8 + 64 * 16, 0);
    answer[..4].fill(0xff);
    assert_eq!(volumes(&answer).unwrap().len(), 64);
}

#[test]
fn the_serial_and_addresses_that_are_values_are_fields_too() {
    let mut info = vec![0; DRIVE_BYTES];
    info[4 + 36..4 + 40].copy_from_slice(b"ZC1A");
    info[192] = 1;
    info[200..208].copy_from_slice(&0x5000_c500_a1b2_c3d5_u64.to_le_bytes());
    info[100..112].copy_from_slice(&[0, 0x83, 0, 12, 1, 3, 0, 8, 0x50, 0, 0xc5, 0]);
    info[112..116].copy_from_slice(&[0xa1, 0xb2, 0xc3, 0xd4]);
    let (found, ..) = drive(&info).unwrap();
    assert_eq!(found.serial.as_deref(), Some("ZC1A"));
    assert_eq!(found.wwn.as_deref(), Some("0x5000c500a1b2c3d4"));
    assert_eq!(found.sas_address.as_deref(), Some("0x5000c500a1b2c3d5"));
    let fields = fields("drive-8", &info);
    let bytes: Vec<&[u8]> = fields.iter().map(|field| field.bytes(&info)).collect();
    assert!(bytes[0].starts_with(b"ZC1A\0"));
    assert_eq!(bytes[1], &info[108..116]);
    assert_eq!(bytes[2], 0x5000_c500_a1b2_c3d5_u64.to_le_bytes());
    for question in ["controller", "drives", "drive-1", "drive-1-page-00", "volume-0", "other"] {
        survives_any_bytes(&info[..256], |answer| drop(super::fields(question, answer)));
    }
    survives_any_bytes(&info, |answer| drop((drive(answer), volume(answer), drives(answer))));
}

#[test]
fn mirror_of_several_spans_is_raid_10_even_if_firmware_says_raid_1() {
    for (primary, secondary, n_spans, expected) in [
        (1, 0, 1, Some("RAID 1")),
        (1, 0, 2, Some("RAID 10")),
        (1, 3, 1, Some("RAID 10")),
        (5, 0, 1, Some("RAID 5")),
        (6, 0, 3, Some("RAID 60")),
        (0x99, 0, 1, None),
    ] {
        assert_eq!(level(primary, secondary, n_spans).as_deref(), expected);
    }
}

#[test]
fn text_ends_at_a_nul_and_other_bytes_or_an_end_before_it_give_none() {
    assert_eq!(text_at(b" 7PKX \0\xff\xff", 0, 9).as_deref(), Some("7PKX"));
    for (bytes, n) in [(&b"ab\x01\xffcd"[..], 6), (b"    ", 4), (b"ab", 3), (b"ab", usize::MAX)] {
        assert_eq!(text_at(bytes, 0, n), None);
    }
}
