//! What is replaced, in which spellings, and what stays.

use std::collections::BTreeMap;

use probes::machine::Recorded;
use serde_json::json;

use super::*;

mod disks;
mod identifiers;
mod lines;
mod named;
mod places;
mod unchanged;

fn recorded(files: &[(&str, &[u8])]) -> Recorded {
    let files =
        files.iter().map(|(path, content)| ((*path).to_owned(), content.to_vec())).collect();
    Recorded { files, ..Recorded::default() }
}

fn anonymous(recorded: &Recorded, report: &serde_json::Value) -> BTreeMap<String, Vec<u8>> {
    with_key([7; 32], recorded, report).unwrap().files
}

fn text(files: &BTreeMap<String, Vec<u8>>, path: &str) -> String {
    String::from_utf8_lossy(&files[path]).into_owned()
}

#[test]
fn a_mac_stays_a_mac_of_its_maker_in_every_form() {
    let mac = [0x3c, 0xec, 0xef, 0x11, 0x22, 0x30];
    let files = recorded(&[
        ("sys/class/net/enx3cecef112230/address", b"3c:ec:ef:11:22:30\n"),
        ("proc/cmdline", b"BOOTIF=01-3c-ec-ef-11-22-30 quiet\n"),
        ("kernel/rtnetlink/link", &[&[0; 20][..], &mac].concat()),
        ("run/udev/data/n2", b"E:ID_NET_NAME_MAC=enx3CECEF112230\n"),
    ]);
    let files = anonymous(&files, &json!({}));
    let name = files.keys().find(|path| path.starts_with("sys/class/net/enx3cecef")).unwrap();
    let digits = &name["sys/class/net/enx".len()..][..12];
    assert_ne!(digits, "3cecef112230");
    let colons = text(&files, name).trim().to_owned();
    assert_eq!(colons.replace(':', ""), digits);
    assert_eq!(
        text(&files, "proc/cmdline"),
        format!("BOOTIF=01-{} quiet\n", colons.replace(':', "-"))
    );
    assert_eq!(formats::hex::hex(&files["kernel/rtnetlink/link"][20..]), digits);
    assert_eq!(
        text(&files, "run/udev/data/n2"),
        format!("E:ID_NET_NAME_MAC=enx{}\n", digits.to_uppercase())
    );
}

#[test]
fn a_uuid_is_replaced_in_the_orders_of_smbios_and_of_text_and_a_type_is_not() {
    let mixed = [
        0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x46, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee,
        0xf1,
    ];
    let linux = "0fc63daf-8483-4772-8e79-3d69d8477de4";
    let report = json!({"product": {"uuid": "00112233-4455-4677-8899-aabbccddeef1"},
        "partitions": [{"type_uuid": linux, "uuid": "11112222-3333-4444-8555-666677778888"}]});
    let cmdline = format!("root=PARTUUID=11112222-3333-4444-8555-666677778888 type={linux}");
    let files = recorded(&[
        ("sys/firmware/dmi/tables/DMI", &mixed),
        ("sys/class/dmi/id/product_uuid", b"00112233-4455-4677-8899-aabbccddeef1\n"),
        ("proc/cmdline", cmdline.as_bytes()),
    ]);
    let files = anonymous(&files, &report);
    let uuid = text(&files, "sys/class/dmi/id/product_uuid");
    assert!(
        !uuid.contains("00112233") && uuid.as_bytes()[14] == b'4' && uuid.as_bytes()[19] == b'8'
    );
    let raw = &files["sys/firmware/dmi/tables/DMI"];
    let first: Vec<u8> = raw[..4].iter().rev().copied().collect();
    assert_eq!(formats::hex::hex(&first), uuid[..8]);
    assert_eq!(formats::hex::hex(&raw[10..]), uuid.trim()[24..]);
    let cmdline = text(&files, "proc/cmdline");
    assert!(cmdline.ends_with(linux) && !cmdline.contains("11112222"), "{cmdline}");
}

#[test]
fn equal_values_stay_equal_and_distinct_ones_distinct() {
    let serials: Vec<String> = (0..500).map(|i| format!("S{i:04}")).collect();
    let report = json!({"disks": serials.iter().map(|s| json!({"serial": s})).collect::<Vec<_>>()});
    let all = serials.join(" ") + " " + &serials.join(" ");
    let files = anonymous(&recorded(&[("etc/all", all.as_bytes())]), &report);
    let text = text(&files, "etc/all");
    let words: Vec<&str> = text.split(' ').collect();
    assert_eq!(words[..500], words[500..]);
    let distinct: std::collections::BTreeSet<&&str> = words.iter().collect();
    assert_eq!(distinct.len(), 500);
    assert!(words.iter().all(|word| word.len() == 5 && !serials.iter().any(|s| s == word)));
}

#[test]
fn what_was_never_set_and_what_could_be_a_word_or_a_size_stays() {
    let report = json!({"product": {"serial": "To Be Filled By O.E.M."}, "chassis": {"serial": "0000000"},
        "baseboard": {"asset_tag": "PowerEdge"}, "usb": [{"serial": "2048"}]});
    let files = recorded(&[
        ("sys/class/dmi/id/product_serial", b"To Be Filled By O.E.M.\n"),
        ("sys/class/dmi/id/product_name", b"PowerEdge R650\n"),
        ("sys/block/sda/size", b"2048\n"),
        ("sys/bus/usb/devices/1-1/serial", b"2048\n"),
        ("run/udev/data/b8:0", b"E:ID_SERIAL_SHORT=2048\nE:ID_PART_ENTRY_OFFSET=2048\n"),
    ]);
    let files = anonymous(&files, &report);
    assert_eq!(text(&files, "sys/class/dmi/id/product_serial"), "To Be Filled By O.E.M.\n");
    assert_eq!(text(&files, "sys/class/dmi/id/product_name"), "PowerEdge R650\n");
    assert_eq!(text(&files, "sys/block/sda/size"), "2048\n");
    let serial = text(&files, "sys/bus/usb/devices/1-1/serial");
    assert_ne!(serial, "2048\n");
    let udev = text(&files, "run/udev/data/b8:0");
    assert_eq!(udev, format!("E:ID_SERIAL_SHORT={serial}E:ID_PART_ENTRY_OFFSET=2048\n"));
}

#[test]
fn the_serial_number_of_a_root_hub_which_is_its_controllers_place_stays() {
    let path = "sys/devices/pci0000:00/0000:00:14.0/usb1/serial";
    let files =
        anonymous(&recorded(&[(path, b"0000:00:14.0\n")]), &json!({"serial": "0000:00:14.0"}));
    assert_eq!(text(&files, path), "0000:00:14.0\n");
}

#[test]
fn addresses_become_reserved_ones_and_stay_in_their_network() {
    let files = recorded(&[
        ("etc/resolv.conf", b"search lab.corp.example\nnameserver 10.20.30.40\nnameserver 10.20.30.41\nnameserver fd00:1:2:3::53\n"),
        ("proc/sys/kernel/version", b"#1 SMP 10.20.30.401 (10.20.30.40.1)\n"),
    ]);
    let files = anonymous(&files, &json!({}));
    let resolv = text(&files, "etc/resolv.conf");
    assert!(
        !resolv.contains("corp") && !resolv.contains("10.20") && !resolv.contains("fd00"),
        "{resolv}"
    );
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
fn the_definers_of_efi_variables_stay_and_the_partition_that_one_names_does_not() {
    let definer = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
    let name = format!("sys/firmware/efi/efivars/Boot0001-{definer}");
    let guid = [
        0x22, 0x22, 0x11, 0x11, 0x33, 0x33, 0x44, 0x44, 0x85, 0x55, 0x66, 0x66, 0x77, 0x77, 0x88,
        0x88,
    ];
    let content = [&[7, 0, 0, 0][..], &guid].concat();
    let report = json!({"partitions": [{"uuid": "11112222-3333-4444-8555-666677778888"}]});
    let files = anonymous(&recorded(&[(&name, &content)]), &report);
    let found = &files[&name];
    assert!(found[..4] == content[..4] && found[4..] != guid, "{found:?}");
}

#[test]
fn a_good_partition_table_stays_good_and_a_damaged_one_damaged() {
    use formats::crc::crc32;
    let report = json!({"partitions": [{"uuid": "11112222-3333-4444-8555-666677778888"}]});
    for damage in [0_u8, 1] {
        let mut disk = vec![0_u8; 1024 + 128 * 128];
        disk[1024..1028].fill(7);
        disk[1040..1056].copy_from_slice(&[
            0x22, 0x22, 0x11, 0x11, 0x33, 0x33, 0x44, 0x44, 0x85, 0x55, 0x66, 0x66, 0x77, 0x77,
            0x88, 0x88,
        ]);
        let entries = crc32(&disk[1024..]);
        disk[512..520].copy_from_slice(b"EFI PART");
        disk[524..528].copy_from_slice(&92_u32.to_le_bytes());
        disk[536..544].copy_from_slice(&1_u64.to_le_bytes());
        disk[584..592].copy_from_slice(&2_u64.to_le_bytes());
        disk[592..596].copy_from_slice(&128_u32.to_le_bytes());
        disk[596..600].copy_from_slice(&128_u32.to_le_bytes());
        disk[600..604].copy_from_slice(&(entries ^ u32::from(damage)).to_le_bytes());
        let sum = crc32(&disk[512..604]);
        disk[528..532].copy_from_slice(&sum.to_le_bytes());
        let parts = [
            ("kernel/disk/sda/0-4096", &disk[..4096]),
            ("kernel/disk/sda/1024-16384", &disk[1024..]),
        ];
        let files = anonymous(&recorded(&parts), &report);
        let (first, table) = (&files[parts[0].0], &files[parts[1].0]);
        assert_ne!(table[16..32], disk[1040..1056]);
        assert_eq!(first[1024..4096], table[..3072], "both reads agree");
        let mut header = first[512..604].to_vec();
        let sum = header.splice(16..20, [0; 4]).collect::<Vec<u8>>();
        assert_eq!(sum, crc32(&header).to_le_bytes());
        assert_eq!(header[88..92] == crc32(table).to_le_bytes(), damage == 0);
    }
}

#[test]
fn the_command_line_keeps_its_arguments_and_loses_its_secrets() {
    let line = b"quiet rci.vim=https://user:hunter22@vim7.corp.example:8443/boot?sig=abcdef0123 rd.token=s3cr3tvalue ip=10.1.2.3::10.1.2.1:255.255.255.0:node-17:eno1:none\n";
    let files = anonymous(&recorded(&[("proc/cmdline", line)]), &json!({}));
    let line = text(&files, "proc/cmdline");
    for secret in ["hunter22", "vim7", "corp", "abcdef0123", "s3cr3tvalue", "10.1.2", "node-17"] {
        assert!(!line.contains(secret), "{secret} in {line}");
    }
    assert!(line.starts_with("quiet rci.vim=https://") && line.contains("/boot?sig="), "{line}");
    assert!(line.contains(":255.255.255.0:") && line.ends_with(":eno1:none\n"), "{line}");
}

#[test]
fn the_environment_of_the_first_process_keeps_nothing_but_the_container() {
    let files = recorded(&[("proc/1/environ", b"PASSWORD=x\0container=podman\0HOME=/\0")]);
    assert_eq!(anonymous(&files, &json!({}))["proc/1/environ"], b"container=podman");
}

#[test]
fn an_nvme_wwid_and_an_ata_identify_page_hide_the_serial_too() {
    let report = json!({"disks": [{"serial": "S64GNE0R123456"}]});
    let wwid = "nvme.1b36-533634474e453052313233343536-51454d55-00000001";
    let swapped: Vec<u8> =
        b"S64GNE0R123456".chunks(2).flat_map(|pair| [pair[1], pair[0]]).collect();
    let files =
        recorded(&[("sys/block/nvme0n1/wwid", wwid.as_bytes()), ("kernel/ata/sda", &swapped)]);
    let files = anonymous(&files, &report);
    assert!(!text(&files, "sys/block/nvme0n1/wwid").contains("533634474e453052313233343536"));
    assert_ne!(files["kernel/ata/sda"], swapped);
    assert!(text(&files, "sys/block/nvme0n1/wwid").ends_with("-51454d55-00000001"));
}

#[test]
fn a_serial_that_could_be_a_word_is_hidden_in_all_pages_of_the_disk_and_stays_elsewhere() {
    let pages: [(&str, &[u8]); 4] = [
        ("sys/block/sda/device/vpd_pg80", b"\0\x80\0\x0cSATASER     "),
        ("sys/block/sda/device/vpd_pg89", b"\0\x89\0\x0e\0\0ASATES R    \x03\0"),
        ("kernel/nvme/nvme0/identify", b"\x36\x1bSATASER   MODEL"),
        ("sys/class/dmi/id/product_name", b"SATASER\n"),
    ];
    let files = anonymous(&recorded(&pages), &json!({}));
    let hidden = String::from_utf8_lossy(&files[pages[0].0][4..11]).into_owned();
    assert_ne!(hidden, "SATASER");
    assert!(text(&files, pages[2].0).contains(&hidden));
    let turned: Vec<u8> =
        files[pages[1].0][6..14].chunks(2).flat_map(|pair| [pair[1], pair[0]]).collect();
    assert_eq!(turned, format!("{hidden} ").into_bytes());
    assert_eq!(text(&files, pages[3].0), "SATASER\n");
}

#[test]
fn the_identifiers_of_dhcpv6_are_replaced_in_every_file_and_in_the_report_s_spelling() {
    let duid = "0001000129a7c3f23cecef112230";
    let report = json!({"dhcp6_clients": [{"interface": "eno1", "duid": duid}]});
    let networkd = format!("DHCP6_CLIENT_IAID=0x1\nDHCP6_CLIENT_DUID=DUID-LLT:{duid}\n");
    let dhclient = "default-duid \"\\000\\001\\)\\247cef\";\nlease6 {\n  option dhcp6.client-id \
                    0:1:0:1:29:a7:c3:f2:3c:ec:ef:11:22:30;\n}\n";
    let recorded = recorded(&[
        ("run/systemd/netif/links/2", networkd.as_bytes()),
        ("var/lib/dhclient/dhclient6-eno1.leases", dhclient.as_bytes()),
    ]);
    let files = anonymous(&recorded, &report);
    let networkd = text(&files, "run/systemd/netif/links/2");
    assert!(networkd.contains("DUID-LLT:") && !networkd.contains("cecef112230"), "{networkd}");
    let dhclient = text(&files, "var/lib/dhclient/dhclient6-eno1.leases");
    assert!(!dhclient.contains("c3:f2:3c:ec") && !dhclient.contains("247cef"), "{dhclient}");
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
    let paths = [
        "sys/firmware/dmi/tables/DMI",
        "kernel/rtnetlink/address",
        "kernel/rtnetlink/route",
        "sys/block/sda/device/vpd_pg83",
        "sys/block/sda/device/vpd_pg80",
        "proc/cmdline",
        "kernel/disk/sda/0-4096",
        "etc/resolv.conf",
        "proc/1/environ",
        "sys/a/wwid",
        "sys/firmware/efi/efivars/Boot0001-x",
        "sys/firmware/efi/efivars/LoaderInfo-x",
        "kernel/lldp/frames",
        "var/lib/dhclient/x.leases",
        "run/systemd/netif/links/2",
        "sys/a/properties",
        "proc/self/mountinfo",
    ];
    for _ in 0..200 {
        let files: Vec<(&str, Vec<u8>)> = paths
            .iter()
            .map(|path| {
                let mut bytes: Vec<u8> =
                    (0..usize::from(noise()) * 4).map(|_| noise() % 96).collect();
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
                (*path, bytes)
            })
            .collect();
        let files: Vec<(&str, &[u8])> = files.iter().map(|(p, c)| (*p, c.as_slice())).collect();
        assert_eq!(anonymous(&recorded(&files), &json!({})).len(), paths.len());
    }
}

#[test]
fn the_answers_of_a_raid_controller_hide_drives_that_the_report_does_not_name() {
    let naa = [0x50, 0x00, 0xc5, 0x00, 0xa1, 0xb2, 0xc3, 0xd4];
    let address: Vec<u8> = 0x500a_0984_a1b2_c3d9_u64.to_le_bytes().to_vec();
    let mut drive = vec![0; 512];
    drive[40..48].copy_from_slice(b"WFK0A1B2");
    drive[100..108].copy_from_slice(&[0, 0x83, 0, 12, 1, 3, 0, 8]);
    drive[108..116].copy_from_slice(&naa);
    let mut drives = vec![0; 8 + 24];
    drives[16..24].copy_from_slice(&address);
    let mut volume = vec![0; 384];
    volume[304..324].copy_from_slice(&[&[0, 0x83, 0, 16, 1, 3, 0, 8][..], &naa, &[0; 4]].concat());
    let answers: [(&str, &[u8]); 4] = [
        ("kernel/megaraid/host0/drive-8", &drive),
        ("kernel/megaraid/host0/drives", &drives),
        ("kernel/megaraid/host0/volume-0", &volume),
        ("kernel/megaraid/host0/drive-8-page-80", b"\0\x80\0\x0cZC1A2B3C0000"),
    ];
    let files = anonymous(&recorded(&answers), &json!({}));
    let holds = |path: &str, secret: &[u8]| {
        files[path].windows(secret.len()).any(|window| window == secret)
    };
    for (path, secret) in [
        (answers[0].0, &b"WFK0A1B2"[..]),
        (answers[0].0, &naa),
        (answers[1].0, &address),
        (answers[2].0, &naa),
        (answers[3].0, b"ZC1A2B3C0000"),
    ] {
        assert!(!holds(path, secret), "{path}");
        assert_eq!(files[path].len(), answers.iter().find(|a| a.0 == path).unwrap().1.len());
    }
}
