//! Structures, strings, spans and versions, and tables that are damaged.

use super::*;
use crate::Kind;
use crate::field::tests::assert_fields;
use crate::testing::{structure, survives_any_bytes};

#[test]
fn fields_and_strings_are_read_and_what_is_not_there_is_none() {
    let mut table = structure(1, &[1, 2, 3, 9], &[b"Acme ", b"  ", b"M\xfcller"]);
    table.extend(structure(127, &[], &[]));
    table.extend(structure(1, &[], &[]));
    let smbios = parse(None, &table);
    assert_eq!(smbios.structures.len(), 2, "what follows the end is not a structure");
    let first = &smbios.structures[0];
    assert_eq!((first.kind(), first.handle()), (1, 7));
    assert!(first.as_type::<types::SMBiosMemoryDevice>().is_none());
    let system: types::SMBiosSystemInformation = smbios.first().unwrap();
    assert_eq!(text(&system.manufacturer()).as_deref(), Some("Acme"));
    assert_eq!(text(&system.product_name()), None, "blank");
    assert_eq!(text(&system.version()).as_deref(), Some("M\\xfcller"));
    assert_eq!(text(&system.serial_number()), None, "no such string");
    assert_eq!((text(&system.family()), system.uuid().is_none()), (None, true), "too short");
    assert_eq!(texts(&system).collect::<Vec<_>>(), ["Acme", "M\\xfcller"]);
}

#[test]
fn end_marker_before_other_structures_is_not_the_end() {
    let end = structure(127, &[], &[]);
    let whole = [structure(17, &[1; 80], &[b"A"]), end].concat();
    let is_complete = |table: &[u8], n_structures: u8| {
        let mut entry = b"_SM_".to_vec();
        entry.resize(0x1f, 0);
        entry[0x1c] = n_structures;
        parse(Some(&entry), table).is_complete
    };
    assert!(is_complete(&whole, 2) && is_complete(&whole, 1));
    assert!(!is_complete(&whole, 3), "the entry point promises another structure");
    assert!(parse(None, &[&whole[..], &[0; 9], &[0xff; 9]].concat()).is_complete, "padding");
    let continued = parse(None, &[whole.clone(), whole].concat());
    assert_eq!((continued.structures.len(), continued.is_complete), (2, false));
}

#[test]
fn no_cut_and_no_flipped_byte_of_a_table_makes_a_panic() {
    let mut table = structure(17, &[1; 80], &[b"DIMM A1", b"Bank 0", b"\xff\xfe"]);
    table.extend(structure(1, &[1; 23], &[b"a"]));
    table.extend(structure(127, &[], &[]));
    let touch = |bytes: &[u8]| {
        for structure in structures(bytes) {
            // Reads every field of every known type.
            let _ = format!("{:?}", structure.inner.defined_struct());
            let _ = format!("{structure:?}");
        }
    };
    // The edges of lengths and of the numbers of strings.
    for index in 0..table.len() {
        for value in [0, 1, 3, 4, 5, 127, 128, 254, 255] {
            let mut damaged = table.clone();
            damaged[index] = value;
            touch(&damaged);
        }
    }
    survives_any_bytes(&table, touch);
}

#[test]
fn the_version_is_read_from_each_kind_of_entry_point() {
    assert_eq!(entry_point_version(b"_SM_\0\x1f\x02\x08"), Some((2, 8)));
    assert_eq!(entry_point_version(b"_SM_\0\x1f\x02\x1f"), Some((2, 3)));
    assert_eq!(entry_point_version(b"_SM3_\0\x18\x03\x02\0"), Some((3, 2)));
    assert_eq!(entry_point_version(b"_SM3_"), None);
    assert_eq!(entry_point_version(b"nothing"), None);
}

#[test]
fn a_table_that_is_cut_is_known_to_be_and_has_no_number_of_structures() {
    let table = structure(1, &[0; 23], &[b"a"]);
    assert!(!parse(None, &table).is_complete);
    let mut entry = b"_SM_\0\x1f\x02\x01".to_vec();
    entry.resize(0x1f, 0);
    entry[0x1c] = 1;
    assert!(parse(Some(&entry), &table).is_complete, "the entry point names one structure");
    assert!(!parse(Some(&entry), &table[..20]).is_complete);
}

#[test]
fn every_span_holds_the_string_that_it_is_for() {
    let table = [
        structure(4, &[0; 8], &[]),
        structure(17, &[[0; 20].as_slice(), &[2, 3]].concat(), &[b"DIMM A1", b"SER1", b"TAG"]),
        structure(127, &[], &[]),
        structure(1, &[0, 0, 0, 1], &[b"OLD-7"]),
    ]
    .concat();
    // What follows the end of the table too.
    let expected = ["SER1", "TAG", "OLD-7"].map(|serial| (Kind::Serial, serial));
    assert_fields(&fields(&table), &table, &expected);
}

#[test]
fn without_an_end_the_whole_structures_stay_and_the_table_is_not_complete() {
    let whole = [structure(17, &[0; 20], &[b"A1"]), structure(9, &[0; 9], &[b"Slot 1"])].concat();
    let cut = [whole.as_slice(), &structure(17, &[0; 20], &[b"A2"])[..9]].concat();
    for table in [&whole, &cut] {
        let smbios = parse(None, table);
        assert_eq!(smbios.structures.iter().map(Structure::kind).collect::<Vec<u8>>(), [17, 9]);
        assert!(!smbios.is_complete);
    }
}

#[test]
fn the_interface_to_the_controller_gives_its_mac_addresses_and_names() {
    let mut record = vec![0x31; 16];
    record.extend([&[1, 1, 10, 77, 3, 9][..], &[0; 28]].concat());
    record.extend([&[1, 1, 10, 77, 3, 1][..], &[0; 28]].concat());
    record.resize(90, 0);
    record.extend(b"\x06bmcsix");
    let length = u8::try_from(record.len()).unwrap();
    let device = [4, 13, 1, 2, 3, 4, 0, 0x0c, 0x42, 0xa1, 0xde, 0xad, 0xbe];
    let fields_of_42 = [&[0x40, 13], &device[..], &[1, 4, length], &record].concat();
    let table = structure(42, &fields_of_42, &[]);
    let expected: [(Kind, &[u8]); 5] = [
        (Kind::Mac, &device[7..]),
        (Kind::Serial, &[0x31; 16]),
        (Kind::Address, &[10, 77, 3, 9]),
        (Kind::Address, &[10, 77, 3, 1]),
        (Kind::HostName, b"bmcsix"),
    ];
    assert_fields(&fields(&table), &table, &expected);
    survives_any_bytes(&table, |table| drop(fields(table)));
}
