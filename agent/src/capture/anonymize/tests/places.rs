//! Secrets that are replaced by position in binary formats.

use super::*;

/// Makes a boot entry in efivarfs's form from nodes (kind, kind within it, data).
pub(super) fn boot_entry(description: &str, nodes: &[(u8, u8, &[u8])]) -> Vec<u8> {
    let node = |(kind, subkind, data): &(u8, u8, &[u8])| {
        formats::device_path::node((*kind, *subkind), data).unwrap()
    };
    let mut path: Vec<u8> = nodes.iter().flat_map(node).collect();
    path.extend(formats::device_path::END);
    let option = formats::efi::LoadOption::encode(1, description, &path).unwrap();
    [&[7, 0, 0, 0][..], &option].concat()
}

const BOOT: &str = "sys/firmware/efi/efivars/Boot0003-8be4df61-93ca-11d2-aa0d-00e098032b8c";
const MAC: [u8; 6] = [0x0c, 0x42, 0xa1, 0xde, 0xad, 0xbe];

#[test]
fn the_addresses_and_names_in_a_boot_entry_are_hidden_and_it_stays_one() {
    let mac = [&MAC[..], &[0; 26], &[1]].concat();
    let v4 = [&[10, 66, 5, 9, 10, 66, 5, 4][..], &[0; 7], &[10, 66, 5, 1, 255, 255, 255, 0]];
    let v6: Vec<u8> = [&[0xfd, 2, 0x9a, 4][..], &[0; 11], &[7]].concat();
    let eui = [1, 0, 0, 0, 0x21, 0x43, 0x65, 0xb1, 0x11, 0x38, 0x25, 0x00];
    let port = [&[0; 4][..], &[0x50, 0x06, 0x01, 0x60, 0x3b, 0xa0, 0x11, 0xc7], &[0; 8]].concat();
    let nodes: [(u8, u8, &[u8]); 9] = [
        (3, 11, &mac),
        (3, 12, &v4.concat()),
        (3, 13, &[&v6[..], &v6, &[0; 8], &v6].concat()),
        (3, 23, &eui),
        (3, 19, b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0iqn.2009-06.example:storage4711"),
        (3, 24, b"http://bob:builder@10.66.5.4/x.efi?sig=swordfish"),
        (3, 24, b"http://boot/x.efi"),
        // A port of Fibre Channel in its old and its new form.
        (3, 3, &port),
        (3, 21, &port),
    ];
    let entry = boot_entry("UEFI PXEv4 (MAC:0C42A1DEADBE)", &nodes);
    let files = [(BOOT, &entry[..]), ("sys/class/net/eno1/address", b"0c:42:a1:de:ad:be\n")];
    let texts = parts("storage4711|bob|builder|10.66.5|swordfish|http://boot/");
    let numbers: [&[u8]; 5] = [&MAC, &[10, 66, 5], &v6, &eui[4..], &port[4..12]];
    let secrets = [texts, numbers.to_vec()].concat();
    let files = hidden(&files, &json!({}), &secrets, &[b"iqn.2009-06."]);
    let address = text(&files, "sys/class/net/eno1/address").trim().replace(':', "");
    // Every node is as long as it states, and so is the path.
    let option = formats::efi::LoadOption::parse(&files[BOOT][4..]);
    let description = option.description.map(formats::utf16::line).unwrap();
    assert_eq!(description, format!("UEFI PXEv4 (MAC:{})", address.to_uppercase()));
    let path = option.path.unwrap();
    let found: Vec<formats::device_path::Node> = formats::device_path::nodes(path).collect();
    let kinds: Vec<(u8, u8)> = found.iter().map(formats::device_path::Node::kind).collect();
    assert_eq!(kinds[..9], nodes.map(|(kind, subkind, _)| (kind, subkind)));
    assert_eq!((kinds[9], kinds.len(), option.optional.len()), ((0x7f, 0xff), 10, 0));
    assert_eq!(hex(&found[0].data()[..6]), address, "the MAC is the port's");
}

#[test]
fn the_definers_of_efi_variables_stay_and_the_partition_that_one_names_does_not() {
    let guid = b"\x22\x22\x11\x11\x33\x33\x44\x44\x85\x55\x66\x66\x77\x77\x88\x88";
    let content = [&[7, 0, 0, 0][..], guid].concat();
    let report = json!({"partitions": [{"uuid": "11112222-3333-4444-8555-666677778888"}]});
    hidden(&[(BOOT, &content)], &report, &[guid], &[&content[..4]]);
}

fn lldp_part(kind: u8, value: &[u8]) -> Vec<u8> {
    [&[kind << 1, u8::try_from(value.len()).unwrap()][..], value].concat()
}

/// Returns the kernel's answer with one frame that has these parts, received on `eno1`: as an anonymised capture has
/// it, and without the secrets.
fn anonymous_frame(parts: &[(u8, &[u8])], secrets: &[&[u8]]) -> Vec<u8> {
    const PATH: &str = "kernel/lldp/frames";
    let parts: Vec<u8> = parts.iter().flat_map(|(kind, value)| lldp_part(*kind, value)).collect();
    let frame = [&[0x01, 0x80, 0xc2, 0, 0, 0x0e][..], &[2; 6], &[0x88, 0xcc], &parts].concat();
    let length = u16::try_from(frame.len()).unwrap().to_be_bytes();
    let answer = [&[1, 4, length[0], length[1]][..], b"eno1", &frame].concat();
    let mut files = hidden(&[(PATH, &answer)], &json!({}), secrets, &[]);
    let found = files.remove(PATH).unwrap();
    assert_eq!(found.len(), answer.len());
    found
}

#[test]
fn the_texts_of_lldp_neighbours_are_hidden_and_a_port_described_by_its_id_stays_so() {
    let parts: [(u8, &[u8]); 13] = [
        (1, b"\x04\x0c\x42\xa1\xde\xad\xbe"),
        (1, b"\x07rack-seven"),
        (1, b"\x05\x01\x0a\x4d\x03\x09"),
        (2, b"\x05Ethernet1/17"),
        (4, b"Ethernet1/17"),
        (4, b"rack seven"),
        (6, b"Router of acme"),
        (127, b"\x00\x80\xc2\x03\x00\x07\x07payroll"),
        (127, b"\x00\x80\xc2\x01\x00\x07"),
        (127, b"\x00\x12\xbb\x08FOC1723X0AB"),
        (127, b"\x00\x12\xbb\x0bINVENTORY"),
        (127, b"\x00\x90\x69\x01ABCDEFGH"),
        (0, b""),
    ];
    let secrets: [&[u8]; 7] =
        [b"rack", b"acme", b"payroll", b"FOC1723", b"INVENTORY", b"ABCDEFGH", b"\x0a\x4d\x03\x09"];
    let found = anonymous_frame(&parts, &secrets);
    let count = |part: &[u8]| found.windows(part.len()).filter(|bytes| *bytes == part).count();
    assert_eq!((count(b"Ethernet1/17"), count(b"\x00\x80\xc2\x01\x00\x07")), (2, 1));
    // A port that is named by its owner.
    let parts: [(u8, &[u8]); 4] =
        [(1, b"\x07rack-seven"), (2, b"\x07acme-uplink-4"), (4, b"acme-uplink-4"), (0, b"")];
    let found = anonymous_frame(&parts, &[b"acme", b"uplink"]);
    let id = found.split(|byte| *byte == 7).nth(2).unwrap()[.."acme-uplink-4".len()].to_vec();
    assert_eq!(found.windows(id.len()).filter(|bytes| *bytes == id).count(), 2);
}

#[test]
fn the_way_to_the_bmc_and_the_makers_strings_in_smbios_are_hidden() {
    let uuid: Vec<u8> = (0x31..0x41).collect();
    let record = [
        &[4, 91 + 6],
        &uuid[..],
        b"\x01\x01\x0a\x4d\x03\x09\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"\x01\x01\x0a\x4d\x03\x01\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"\xbb\x01\0\0\0\0\x06bmcsix",
    ]
    .concat();
    let interface = [&[4, 13, 1, 2, 3, 4, 0][..], &MAC].concat();
    let n_bytes = u8::try_from(6 + interface.len() + 1 + record.len()).unwrap();
    let parts: [&[u8]; 7] = [
        &[42, n_bytes, 1, 0, 0x40, 13],
        &interface,
        &[1],
        &record,
        b"\0\0",
        b"\x01\x05\x02\0\x01Server 9000\0\0",
        b"\x0b\x05\x03\0\x04ORDER 4711-X\0Server 9000\0plain words\0io.x:key=swordfish\0\0",
    ];
    let table = parts.concat();
    let secrets: [&[u8]; 7] =
        [&uuid, &[10, 77, 3], &MAC, b"bmcsix", b"ORDER", b"4711", b"swordfish"];
    let found = &hidden(&[(DMI, &table)], &json!({}), &secrets, &[])[DMI];
    assert_eq!(found.len(), table.len());
    let count = |part: &[u8]| found.windows(part.len()).filter(|bytes| *bytes == part).count();
    assert_eq!((count(b"Server 9000"), count(b"plain words")), (2, 1));
    assert_eq!(count(b"\xff\xff\xff\0"), 2, "masks stay");
}

#[test]
fn the_memory_of_a_part_loses_its_serial_in_every_encoding_and_keeps_its_model_and_checksum() {
    let board = |serial: &[u8]| {
        let fields = b"\xc60PJMDN\xc0\xc5MAC:7\xc1";
        let mut area = [&b"\x01\x04\0\0\0\0\xc4DELL\xc4PSU1"[..], serial, fields].concat();
        area.push(formats::fru::complement(&area));
        [&[0], &area[..]].concat()
    };
    // IPMI in characters of six bits; 1234-5 in half bytes.
    let boards = [board(b"\xc8CN179720"), board(b"\x83\x29\xdc\xa6"), board(b"\x43\x12\x34\xb5")];
    let paths = [0, 1, 2].map(|n| format!("kernel/ipmi/fru/0{n}/board"));
    let serial = "sys/class/dmi/id/board_serial";
    let mut files: Vec<(&str, &[u8])> =
        paths.iter().zip(&boards).map(|(path, board)| (path.as_str(), &board[..])).collect();
    files.push((serial, b"CN179720\n"));
    let report = json!({"bmc": {"frus": [{"board": {"serial": "CN179720"}}]}});
    let kept: [&[u8]; 3] = [b"DELL", b"PSU1", b"0PJMDN"];
    let put = hidden(&files, &report, &[b"CN179720", b"MAC:7", b"\x29\xdc\xa6"], &kept);
    for (path, board) in paths.iter().zip(&boards) {
        let found = &put[path];
        assert_eq!((formats::fru::complement(found), found.len()), (0, board.len()), "{path}");
        assert!(found.windows(6).any(|bytes| bytes == b"0PJMDN"), "{path}");
        assert_ne!(found[18..21], board[18..21], "{path}");
    }
    let same = text(&put, serial);
    let first = String::from_utf8_lossy(&put[&paths[0]]).into_owned();
    assert!(first.contains(same.trim()), "the same serial number in two places stays the same");
    assert_eq!(put[&paths[2]][20] & 0xf0, 0xb0, "a sign stays");
}

#[test]
fn the_answers_of_a_raid_controller_hide_drives_that_the_report_does_not_name() {
    let naa = [0x50, 0x00, 0xc5, 0x00, 0xa1, 0xb2, 0xc3, 0xd4];
    let address: Vec<u8> = 0x500a_0984_a1b2_c3d9_u64.to_le_bytes().to_vec();
    let mut drive = vec![0; 512];
    drive[40..48].copy_from_slice(b"WFK0A1B2");
    drive[100..108].copy_from_slice(&[0, 0x83, 0, 12, 1, 3, 0, 8]);
    drive[108..116].copy_from_slice(&naa);
    let drives = [&[0; 16], &address[..], &[0; 8]].concat();
    let mut volume = vec![0; 384];
    volume[304..324].copy_from_slice(&[&[0, 0x83, 0, 16, 1, 3, 0, 8][..], &naa, &[0; 4]].concat());
    let answers: [(&str, &[u8]); 4] = [
        ("kernel/megaraid/host0/drive-8", &drive),
        ("kernel/megaraid/host0/drives", &drives),
        ("kernel/megaraid/host0/volume-0", &volume),
        ("kernel/megaraid/host0/drive-8-page-80", b"\0\x80\0\x0cZC1A2B3C0000"),
    ];
    let secrets: [&[u8]; 4] = [b"WFK0A1B2", &naa, &address, b"ZC1A2B3C0000"];
    let files = hidden(&answers, &json!({}), &secrets, &[]);
    for (path, answer) in answers {
        assert_eq!(files[path].len(), answer.len(), "{path}");
    }
}
