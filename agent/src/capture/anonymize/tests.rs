//! Checks replaced values, their spellings, and values that stay.

use std::collections::{BTreeMap, BTreeSet};

use formats::hex::hex;
use serde_json::json;

use super::*;
use crate::capture::tests::recorded;

mod disks;
mod lines;
mod places;
mod unchanged;

type Files = BTreeMap<String, Vec<u8>>;

const DMI: &str = "sys/firmware/dmi/tables/DMI";
const DMI_SERIAL: &str = "sys/class/dmi/id/product_serial";

fn anonymous(files: &[(&str, &[u8])], report: &Value) -> Files {
    let put = with_key([7; 32], &recorded(files), report).unwrap().files;
    assert_eq!(put.len(), files.len());
    put
}

/// Returns the files of an anonymised machine. Checks first that none contains a secret in either case, and that the
/// first file still contains the kept values.
fn hidden(files: &[(&str, &[u8])], report: &Value, secrets: &[&[u8]], kept: &[&[u8]]) -> Files {
    let put = anonymous(files, report);
    let holds = |content: &[u8], part: &[u8]| {
        content.windows(part.len()).any(|bytes| bytes.eq_ignore_ascii_case(part))
    };
    for secret in secrets {
        let found = put.iter().find(|(_, content)| holds(content, secret));
        let found = found.map(|(path, content)| format!("{path}: {}", content.escape_ascii()));
        assert_eq!(found, None, "{}", secret.escape_ascii());
    }
    for part in kept {
        let first = &put[files[0].0];
        assert!(holds(first, part), "{} in {}", part.escape_ascii(), first.escape_ascii());
    }
    put
}

fn text(files: &Files, path: &str) -> String {
    String::from_utf8_lossy(&files[path]).into_owned()
}

/// The parts of a text between bars.
fn parts(text: &str) -> Vec<&[u8]> {
    text.split('|').map(str::as_bytes).collect()
}

fn in_turned_pairs(text: &[u8]) -> Vec<u8> {
    text.chunks(2).flat_map(|pair| pair.iter().rev().copied()).collect()
}

#[test]
fn a_mac_stays_a_mac_of_its_maker_in_every_form() {
    let files = [
        ("proc/cmdline", &b"BOOTIF=01-3c-ec-ef-11-22-30 quiet\n"[..]),
        ("sys/class/net/enx3cecef112230/address", b"3c:ec:ef:11:22:30\n"),
        ("kernel/rtnetlink/link", b"\0\0\0\x3c\xec\xef\x11\x22\x30"),
        ("run/udev/data/n2", b"E:ID_NET_NAME_MAC=enx3CECEF112230\n"),
    ];
    let secrets = [parts("ef112230|ef:11|ef-11"), vec![b"\xef\x11\x22\x30"]].concat();
    let files = hidden(&files, &json!({}), &secrets, &parts("BOOTIF=01-3c-ec-ef-| quiet\n"));
    let digits = hex(&files["kernel/rtnetlink/link"][3..]);
    let colons = formats::hex::grouped(&digits, 2, ":");
    assert_eq!(text(&files, &format!("sys/class/net/enx{digits}/address")), format!("{colons}\n"));
    assert!(text(&files, "proc/cmdline").contains(&colons.replace(':', "-")));
    let udev = format!("E:ID_NET_NAME_MAC=enx{}\n", digits.to_uppercase());
    assert_eq!(text(&files, "run/udev/data/n2"), udev);
}

#[test]
fn a_uuid_is_replaced_in_the_orders_of_smbios_and_of_text_and_a_type_is_not() {
    let mixed = b"\x33\x22\x11\0\x55\x44\x77\x46\x88\x99\xaa\xbb\xcc\xdd\xee\xf1";
    let linux = "0fc63daf-8483-4772-8e79-3d69d8477de4";
    let report = json!({"product": {"uuid": "00112233-4455-4677-8899-aabbccddeef1"},
        "partitions": [{"type_uuid": linux, "uuid": "11112222-3333-4444-8555-666677778888"}]});
    let line = format!("root=PARTUUID=11112222-3333-4444-8555-666677778888 type={linux}");
    let path = "sys/class/dmi/id/product_uuid";
    let files = [
        ("proc/cmdline", line.as_bytes()),
        (DMI, mixed),
        (path, b"00112233-4455-4677-8899-aabbccddeef1\n"),
    ];
    let secrets: [&[u8]; 3] = [b"11112222", b"00112233", &mixed[..8]];
    let files = hidden(&files, &report, &secrets, &[linux.as_bytes()]);
    let uuid = text(&files, path);
    assert_eq!((uuid.as_bytes()[14], uuid.as_bytes()[19]), (b'4', b'8'), "version and variant");
    assert_eq!(hex(files[DMI][..4].iter().rev()), uuid[..8]);
    assert_eq!(hex(&files[DMI][10..]), uuid.trim()[24..]);
}

#[test]
fn equal_values_stay_equal_and_distinct_ones_distinct() {
    let serials: Vec<String> = (0..500).map(|i| format!("S{i:04}")).collect();
    let report = json!({"disks": serials.iter().map(|s| json!({"serial": s})).collect::<Vec<_>>()});
    let all = serials.join(" ") + " " + &serials.join(" ");
    let text = text(&anonymous(&[("etc/all", all.as_bytes())], &report), "etc/all");
    let words: Vec<&str> = text.split(' ').collect();
    assert_eq!(words[..500], words[500..]);
    assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), 500);
    assert!(words.iter().all(|word| word.len() == 5 && !serials.iter().any(|s| s == word)));
}

#[test]
fn what_was_never_set_and_what_could_be_a_word_or_a_size_or_a_place_stays() {
    let report = json!({"product": {"serial": "To Be Filled By O.E.M."}, "chassis": {"serial": "0000000"},
        "baseboard": {"asset_tag": "PowerEdge"}, "usb": [{"serial": "2048"}, {"serial": "0000:00:14.0"}],
        "bmc": {"guid": "04030201-0605-0807-090a-0b0c0d0e0f10"}});
    let unchanged: [(&str, &[u8]); 5] = [
        (DMI_SERIAL, b"To Be Filled By O.E.M.\n"),
        ("sys/class/dmi/id/product_name", b"PowerEdge R650\n"),
        ("sys/block/sda/size", b"2048\n"),
        ("sys/devices/pci0000:00/0000:00:14.0/usb1/serial", b"0000:00:14.0\n"),
        ("sys/devices/ipmi_bmc.0/guid", b"04030201-0605-0807-090a-0b0c0d0e0f10\n"),
    ];
    let (usb, udev) = ("sys/bus/usb/devices/1-1/serial", "run/udev/data/b8:0");
    let words = b"E:ID_SERIAL_SHORT=2048\nE:ID_PART_ENTRY_OFFSET=2048\n";
    let changed = [(usb, &b"2048\n"[..]), (udev, words)];
    let files = anonymous(&[&unchanged[..], &changed].concat(), &report);
    for (path, content) in unchanged {
        assert_eq!(text(&files, path).as_bytes(), content, "{path}");
    }
    let serial = text(&files, usb);
    assert_ne!(serial, "2048\n");
    let expected = format!("E:ID_SERIAL_SHORT={serial}E:ID_PART_ENTRY_OFFSET=2048\n");
    assert_eq!(text(&files, udev), expected);
}

#[test]
fn addresses_become_reserved_ones_and_stay_in_their_network() {
    let path = "etc/resolv.conf";
    let files: [(&str, &[u8]); 2] = [
        (path, b"search lab.corp.example\nnameserver 10.20.30.40\nnameserver 10.20.30.41\nnameserver fd00:1:2:3::53\n"),
        ("proc/sys/kernel/version", b"#1 SMP 10.20.30.401 (10.20.30.40.1)\n"),
    ];
    let files = anonymous(&files, &json!({}));
    let resolv = text(&files, path);
    for secret in ["corp", "10.20", "fd00"] {
        assert!(!resolv.contains(secret), "{resolv}");
    }
    let servers: Vec<&str> =
        resolv.lines().filter_map(|line| line.strip_prefix("nameserver ")).collect();
    let network = |address: &str| address.rsplit_once('.').unwrap().0.to_owned();
    assert_eq!(network(servers[0]), network(servers[1]));
    assert_ne!(servers[0], servers[1]);
    assert!(servers[0].starts_with("24") || servers[0].starts_with("25"), "{servers:?}");
    assert!(servers[2].starts_with("2001:db8:") && servers[2].ends_with("::53"), "{resolv}");
    assert!(text(&files, "proc/sys/kernel/version").contains("10.20.30.401 (10.20.30.40.1)"));
}

#[test]
fn the_environment_of_the_first_process_keeps_nothing_but_the_container() {
    let files = [("proc/1/environ", &b"PASSWORD=x\0container=podman\0HOME=/\0"[..])];
    assert_eq!(anonymous(&files, &json!({}))["proc/1/environ"], b"container=podman");
}

#[test]
fn a_serial_number_within_a_wwid_is_hidden_even_if_it_is_a_number_or_looks_like_a_word() {
    // A number like a MAC; a number of digits alone; both as text, as digits, and in swapped pairs.
    for serial in ["20472B8DA5C0", "20472b8da5c0", "48151623", "SATASER", "S64GNE0R123456"] {
        let digits = hex(serial.as_bytes());
        let wwid = format!("nvme.1344-{digits}-4d4f44454c-00000001\n");
        let ata = format!("t10.ATA     MODEL                                   {serial:<20}\n");
        let swapped = in_turned_pairs(serial.as_bytes());
        let report = json!({"disks": [{"serial": serial}, {"wwn": serial}]});
        let files = [
            ("sys/block/nvme0n1/wwid", wwid.as_bytes()),
            ("sys/block/sda/device/wwid", ata.as_bytes()),
            ("kernel/ata/sda", &swapped),
            ("sys/block/nvme0n1/device/serial", serial.as_bytes()),
        ];
        let secrets: [&[u8]; 2] = [digits.as_bytes(), serial.as_bytes()];
        let files = hidden(&files, &report, &secrets, &[b"-4d4f44454c-00000001\n"]);
        let put = text(&files, "sys/block/nvme0n1/device/serial");
        let start = format!("nvme.1344-{}-", hex(put.as_bytes()));
        assert!(text(&files, "sys/block/nvme0n1/wwid").starts_with(&start), "{serial}");
        assert!(text(&files, "sys/block/sda/device/wwid").contains(&put), "{serial}");
        assert!(serial.len() % 2 == 1 || files["kernel/ata/sda"] != swapped, "{serial}");
    }
}

#[test]
fn a_serial_that_could_be_a_word_is_hidden_in_all_pages_of_the_disk_and_stays_elsewhere() {
    let pages: [(&str, &[u8]); 4] = [
        ("sys/block/sda/device/vpd_pg80", b"\0\x80\0\x0cSATASER     "),
        ("sys/block/sda/device/vpd_pg89", b"\0\x89\0\x0e\0\0ASATES R    \x03\0"),
        ("kernel/nvme/nvme0/identify", b"\x36\x1bSATASER   MODEL"),
        ("sys/class/dmi/id/product_name", b"SATASER\n"),
    ];
    let files = anonymous(&pages, &json!({}));
    let put = String::from_utf8_lossy(&files[pages[0].0][4..11]).into_owned();
    assert_ne!(put, "SATASER");
    assert!(text(&files, pages[2].0).contains(&put));
    assert_eq!(in_turned_pairs(&files[pages[1].0][6..14]), format!("{put} ").into_bytes());
    assert_eq!(text(&files, pages[3].0), "SATASER\n");
}

#[test]
fn an_identifier_is_hidden_whatever_its_form_and_keeps_its_length() {
    for (path, content, secret) in [
        ("dm/uuid", "mpath-3600508b1001cabcdef4567890123456", "abcdef4567890123456"),
        ("dm/uuid", "mpath-3600508b1001c4d41aabbccddeeff0011", "aabbccddeeff0011"),
        ("dm/uuid", "part1-mpath-3600508b1001c4d41aabbccddeeff0011", "aabbccddeeff0011"),
        ("dm/uuid", "mpath-eui.0025385b71b01234", "5b71b01234"),
        ("dm/uuid", "mpath-20025385b71b01234", "5b71b01234"),
        ("dm/uuid", "mpath-nvme.144d-533634474e4530-51454d55-00000001", "533634474e4530"),
        ("dm/uuid", "mpath-SATA_Samsung_SSD_S64GNE0R123456", "S64GNE0R123456"),
        ("dm/uuid", "mpath-1IBM     IPR-0   5EC2590000000080", "5EC2590000000080"),
        ("wwid", "eui.0025385b71b01234", "5b71b01234"),
        ("eui", "00 25 38 5b 71 b0 12 34", "5b 71 b0 12 34"),
    ] {
        let path = format!("sys/block/x/{path}");
        let report = json!({"disks": [{"eui64": "0025385b71b01234"}]});
        let start = content.split_inclusive(['-', '.', ' ']).next().unwrap().as_bytes();
        let files = hidden(&[(&path, content.as_bytes())], &report, &[secret.as_bytes()], &[start]);
        assert_eq!(files[&path].len(), content.len());
    }
}

#[test]
fn an_eui_64_that_the_kernel_writes_with_blanks_stays_the_same_everywhere() {
    let files: [(&str, &[u8]); 2] = [
        ("sys/block/nvme0n1/eui", b"00 25 38 5b 71 b0 12 34\n"),
        ("sys/block/nvme0n1/wwid", b"eui.0025385b71b01234\n"),
    ];
    let files = anonymous(&files, &json!({"disks": [{"eui64": "0025385b71b01234"}]}));
    let eui = text(&files, "sys/block/nvme0n1/eui").trim().replace(' ', "");
    assert!(eui.starts_with("002538") && eui != "0025385b71b01234", "{eui}");
    assert_eq!(text(&files, "sys/block/nvme0n1/wwid"), format!("eui.{eui}\n"));
}

#[test]
fn no_digit_of_the_number_of_an_accelerator_or_its_hive_stays_because_of_a_maker() {
    let (unique, hive) = (5_847_760_019_078_012_339_u64, 12_609_507_387_757_274_807_u64);
    let path = "sys/class/kfd/kfd/topology/nodes/1/properties";
    let content = format!("hive_id {hive}\nunique_id {unique}\n");
    let digits = format!("{unique:016x}\n");
    let device = "sys/bus/pci/devices/0000:03:00.0/unique_id";
    let files = [(path, content.as_bytes()), (device, digits.as_bytes())];
    let files = anonymous(&files, &json!({"unique_id": digits.trim()}));
    let properties = text(&files, path);
    let number = |key: &str| -> u64 {
        let line = properties.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim().parse().unwrap()
    };
    assert_ne!(number("hive_id") >> 36, hive >> 36, "{properties}");
    assert_ne!(number("unique_id") >> 36, unique >> 36, "{properties}");
    assert_eq!(text(&files, device), format!("{:016x}\n", number("unique_id")));
}

#[test]
fn a_name_or_short_serial_number_is_hidden_where_such_a_value_is_and_changes_no_path_of_the_kernel()
{
    for host in ["node0", "cpu1", "nvme0n1", "controller", "db7"] {
        let path = format!("sys/devices/system/node/{host}/meminfo");
        let name = format!("{host}\n");
        let line = format!("x={host} quiet\n");
        let hostname = "proc/sys/kernel/hostname";
        let mut recorded = recorded(&[
            (path.as_str(), b"Node 0 MemTotal: 1 kB\n"),
            (hostname, name.as_bytes()),
            ("proc/cpuinfo", line.as_bytes()),
        ]);
        recorded.directories.insert("sys/devices/system/node".into(), vec![host.into()]);
        let put = with_key([7; 32], &recorded, &json!({"hostname": host})).unwrap();
        assert!(put.files.contains_key(&path), "{:?}", put.files.keys());
        assert_eq!(put.directories["sys/devices/system/node"], [host]);
        assert_ne!(text(&put.files, hostname), name);
        assert_eq!(text(&put.files, "proc/cpuinfo"), line);
    }
    let mut recorded = recorded(&[("sys/block/sda/device/serial", b"Z1Z0A\n")]);
    let links = [("dev/disk/by-id/ata-DISK_Z1Z0A", "../../sda"), ("sys/class/x-Z1Z0A", "y")];
    recorded.links = links.map(|(path, to)| (path.to_owned(), to.to_owned())).into();
    let put = with_key([7; 32], &recorded, &json!({"serial": "Z1Z0A"})).unwrap();
    assert!(!put.links.contains_key(links[0].0), "a link of udev's: {:?}", put.links);
    assert!(put.links.contains_key(links[1].0), "{:?}", put.links);
}

#[test]
fn noise_in_every_kind_of_file_does_not_end_the_program() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[2]
    };
    let paths: Vec<&str> = "sys/firmware/dmi/tables/DMI kernel/rtnetlink/address kernel/rtnetlink/route \
        sys/block/sda/device/vpd_pg83 sys/block/sda/device/vpd_pg80 proc/cmdline kernel/disk/sda/0-4096 \
        etc/resolv.conf proc/1/environ sys/a/wwid sys/firmware/efi/efivars/Boot0001-x \
        sys/firmware/efi/efivars/LoaderInfo-x kernel/lldp/frames var/lib/dhclient/x.leases \
        run/systemd/netif/links/2 sys/a/properties proc/self/mountinfo"
        .split(' ')
        .collect();
    for _ in 0..200 {
        let content = |path: &str| {
            let mut bytes: Vec<u8> = (0..usize::from(noise()) * 4).map(|_| noise() % 96).collect();
            if path.starts_with("kernel/disk") && bytes.len() > 600 {
                bytes[512..520].copy_from_slice(b"EFI PART");
            }
            if path.contains("Boot0001") && bytes.len() > 60 {
                // Nodes of all kinds, of few bytes.
                bytes[8..12].copy_from_slice(&[40, 0, 0, 0]);
                for at in (12..52).step_by(8) {
                    let head = [3, bytes[at] % 32, 4 + bytes[at] % 9, 0];
                    bytes[at..at + 4].copy_from_slice(&head);
                }
            }
            if path.contains("lldp") && bytes.len() > 100 {
                bytes[..4].copy_from_slice(&[1, 0, 0, 90]);
                bytes[16..18].copy_from_slice(&[0x88, 0xcc]);
                let head = [bytes[18] * 2, bytes[19] % 40];
                bytes[18..20].copy_from_slice(&head);
                bytes[40] = 254;
            }
            bytes
        };
        let contents: Vec<Vec<u8>> = paths.iter().copied().map(content).collect();
        let files: Vec<(&str, &[u8])> =
            paths.iter().copied().zip(contents.iter().map(Vec::as_slice)).collect();
        anonymous(&files, &json!({}));
    }
}
