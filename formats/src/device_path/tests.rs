//! Tests of EFI device paths.

use super::*;
use crate::field::tests::assert_fields;

fn node(kind: u8, subkind: u8, data: &[u8]) -> Vec<u8> {
    super::node((kind, subkind), data).unwrap()
}

#[test]
fn a_disk_and_a_network_path_read_as_the_specification_writes_them() {
    let guid = [0x78, 0x56, 0x34, 0x12, 0xbc, 0x9a, 0xf0, 0xde, 1, 2, 3, 4, 5, 6, 7, 8];
    let (start, size) = (0x800_u64.to_le_bytes(), 0x32000_u64.to_le_bytes());
    let disk = [&[1, 0, 0, 0], &start[..], &size, &guid, &[2, 2]].concat();
    let disk = [node(4, 1, &disk), node(0x7f, 0xff, &[])].concat();
    let expected = "HD(1,GPT,12345678-9abc-def0-0102-030405060708,0x800,0x32000)";
    assert_eq!(text(&disk).as_deref(), Some(expected));
    let network = [
        node(2, 1, &[0xd0, 0x41, 0x03, 0x0a, 0, 0, 0, 0]),
        node(1, 1, &[0, 3]),
        node(3, 11, &[&[2, 0, 0, 0, 0, 1][..], &[0; 26], &[1]].concat()),
        node(3, 12, &[&[0; 4][..], &[192, 0, 2, 7], &[0; 15]].concat()),
        node(3, 24, b"http://192.0.2.1/boot.efi"),
    ];
    let expected = "PciRoot(0x0)/Pci(0x3,0x0)/MAC(020000000001,0x1)/IPv4(192.0.2.7)\
                    /Uri(http://192.0.2.1/boot.efi)";
    assert_eq!(text(&network.concat()).as_deref(), Some(expected));
}

#[test]
fn nodes_that_are_unknown_or_too_short_are_written_as_bytes() {
    assert_eq!(text(&node(9, 9, &[0xab])).as_deref(), Some("Path(9,9,AB)"));
    assert_eq!(text(&node(4, 1, &[1, 2])).as_deref(), Some("Path(4,1,0102)"));
}

#[test]
fn hostile_paths_end() {
    for none in [&[][..], &[4, 4, 0, 0], &[4, 4, 3, 0, 1], &[4, 4, 0xff, 0xff, 1]] {
        assert_eq!(text(none), None);
    }
    for kind in [0, 1, 2, 3, 4, 5, 6, 0x7e] {
        for subkind in [0, 1, 2, 3, 4, 8, 11, 13, 17, 23, 24, 31] {
            for length in [0, 1, 7, 24, 40] {
                let bytes = node(kind, subkind, &vec![0xff; length]).repeat(100);
                assert!(text(&bytes).is_none_or(|text| text.len() < 20_000));
            }
        }
    }
}

#[test]
fn what_a_path_reveals_lies_where_its_fields_say() {
    let mac = node(3, 11, &[[2, 0, 0, 0, 0, 1].as_slice(), &[0; 26], &[1]].concat());
    let mut ipv4 = vec![0; 23];
    ipv4[..8].copy_from_slice(&[192, 0, 2, 7, 192, 0, 2, 1]);
    let uri = node(3, 24, b"http://user:pw@boot/\0\0");
    let mut disk = vec![0; 38];
    (disk[20], disk[37]) = (7, 1);
    let path = [mac, node(3, 12, &ipv4), uri, node(4, 1, &disk), END.to_vec()].concat();
    let expected: [(Kind, &[u8]); 6] = [
        (Kind::Mac, &[2, 0, 0, 0, 0, 1]),
        (Kind::Address, &[192, 0, 2, 7]),
        (Kind::Address, &[192, 0, 2, 1]),
        (Kind::Address, &[0; 4]),
        (Kind::Arguments, b"http://user:pw@boot/"),
        (Kind::Serial, &[7, 0, 0, 0]),
    ];
    assert_fields(&fields(&path), &path, &expected);
}

#[test]
fn a_replacement_of_another_length_changes_the_nodes_length_and_no_other_node() {
    let path = [node(3, 24, b"http://boot"), node(3, 17, &[1]), END.to_vec(), vec![9]].concat();
    let edits = [(4..15, b"ftp://x".to_vec())];
    let expected = [node(3, 24, b"ftp://x"), node(3, 17, &[1]), END.to_vec(), vec![9]].concat();
    assert_eq!(splice(&path, 0, &edits), expected);
    assert_eq!(splice(&path, 0, &[]), path);
    let long = [(4..15, vec![b'x'; 70_000])];
    assert_eq!(splice(&path, 0, &long), path);
}
