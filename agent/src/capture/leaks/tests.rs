//! Identifiers that are left, in every spelling, and values that occur by chance.

use serde_json::json;

use super::*;
use crate::capture::tests::recorded;

/// Returns the keys of `report` whose values remain in a file with this content.
fn left(report: &Value, content: &[u8]) -> Vec<String> {
    let identifiers = Identifiers::of(report, &Recorded::default());
    let leaks = identifiers.left_in(&recorded(&[("sys/x", content)]), "").unwrap();
    leaks.into_iter().map(|leak| leak.key).collect()
}

#[test]
fn an_identifier_is_found_in_every_spelling() {
    let mixed = [
        0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x46, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee,
        0xf1,
    ];
    let of_mac: [&[u8]; 7] = [
        b"x3C-EC-EF-11-22-3A.",
        b"id 3ceC ef1122 3cecef11223a0000",
        b"3cec.ef11.223a",
        b"3c ec ef 11 22 3a",
        &[0, 0x3c, 0xec, 0xef, 0x11, 0x22, 0x3a],
        &[0x3a, 0x22, 0x11, 0xef, 0xec, 0x3c],
        b"3\0c\0e\0c\0e\0f\x001\x001\x002\x002\x003\0A\0",
    ];
    let of_serial: [&[u8]; 5] = [
        b"disk S64g ne0R1.",
        b"E:ID_SERIAL=Model_S64G_NE0R1",
        b"6SG4N 0E1R",
        b"nvme.144d-53363447204e45305231-51454d55",
        b"S\x006\x004\0G\0 \0N\0E\x000\0R\x001\0",
    ];
    let of_uuid: [&[u8]; 3] =
        [&mixed, b"33221100-5544-7746-8899-AABBCCDDEEF1", b"33221100:77465544:bbaa9988:f1eeddcc"];
    for (key, value, contents) in [
        ("current_mac", "3c:ec:ef:11:22:3a", &of_mac[..]),
        ("serial", "S64G NE0R1", &of_serial),
        ("uuid", "00112233-4455-4677-8899-aabbccddeef1", &of_uuid),
    ] {
        for content in contents {
            let report = json!({"parts": [{key: value}]});
            assert_eq!(left(&report, content), [key], "{}", content.escape_ascii());
        }
    }
}

#[test]
fn the_serial_number_in_a_wwid_is_an_identifier_too() {
    let nvme = json!({"wwid": "nvme.144d-533634474e453052313233-51454d55-00000001"});
    assert_eq!(left(&nvme, b"S64GNE0R123\n"), ["wwid"]);
    let ata = json!({"wwid": "t10.ATA     KINGSTON SH103S3240G                    50026B72A7"});
    assert_eq!(left(&ata, b"50026b72a7"), ["wwid"]);
    assert!(left(&ata, b"KINGSTON SH103S3240G").is_empty());
}

#[test]
fn what_could_be_a_word_or_a_size_or_was_never_set_is_not_searched_for() {
    let values = "SATASER|2048|123456789|A1B2|To Be Filled By O.E.M.|00:00:00:00:00:0a|02:00:00:00:00:0a|\
         50:00:00:00:00:00:00:ab|0x1221000000000000|03000200-0400-0500-0006-000700080009";
    for value in values.split('|') {
        let report = json!({"serial": value, "current_mac": value, "uuid": value});
        assert_eq!(Identifiers::of(&report, &Recorded::default()).0.len(), 0, "{value}");
    }
    let short = json!({"serial": "A1B2C3D"});
    assert!(left(&short, b"xA1B2C3D").is_empty(), "a part of a longer word");
    assert_eq!(left(&short, b"x A1b2C3D\0"), ["serial"]);
    assert!(left(&json!({"model": "A1B2C3D4", "size": "8"}), b"A1B2C3D4").is_empty());
}

#[test]
fn types_of_partitions_and_places_in_the_tree_are_not_identifiers() {
    let linux = "0fc63daf-8483-4772-8e79-3d69d8477de4";
    let report = json!({"type_uuid": linux, "uuid": linux, "serial": "0000:00:14.0"});
    let tree = recorded(&[("sys/devices/pci0000:00/0000:00:14.0/usb1/serial", b"0000:00:14.0\n")]);
    assert_eq!(Identifiers::of(&report, &tree).0.len(), 0);
}

#[test]
fn names_links_failures_and_the_report_are_searched_and_a_message_never_holds_the_value() {
    let report = json!({"permanent_mac": "3c:ec:ef:11:22:3a"});
    let identifiers = Identifiers::of(&report, &Recorded::default());
    let text = "sys/class/net/enx3cECef11223a".to_owned();
    let key = (probes::machine::Operation::Read, "sys/f".to_owned());
    let trees = [
        recorded(&[(&text, b"1")]),
        Recorded { links: [("sys/l".to_owned(), text.clone())].into(), ..Recorded::default() },
        Recorded {
            directories: [("sys/d".to_owned(), vec![text.clone()])].into(),
            ..Recorded::default()
        },
        Recorded { failures: [(key, Failure::Text(text.clone()))].into(), ..Recorded::default() },
    ];
    let found = trees.map(|tree| identifiers.left_in(&tree, "").unwrap().remove(0).path);
    assert_eq!(found, ["sys/class/net/enx…", "sys/l", "sys/d", "sys/f"]);
    let report = "{\"mac\":\"3C:EC:EF:11:22:3A\"}";
    let leaks = identifiers.left_in(&Recorded::default(), report).unwrap();
    assert_eq!(leaks[0].path, "report.json");
}
