//! What is replaced because of where it is: EFI variables, leases, LLDP, SMBIOS.

use super::*;

/// A boot entry as efivarfs gives it, of nodes (kind, kind within it, data).
fn boot_entry(description: &str, nodes: &[(u8, u8, &[u8])]) -> Vec<u8> {
    let mut path = Vec::new();
    for (kind, subkind, data) in nodes {
        let length = u16::try_from(4 + data.len()).unwrap();
        path.extend([&[*kind, *subkind][..], &length.to_le_bytes(), data].concat());
    }
    path.extend([0x7f, 0xff, 4, 0]);
    let length = u16::try_from(path.len()).unwrap().to_le_bytes();
    let text: Vec<u8> = description.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
    [&[7, 0, 0, 0, 1, 0, 0, 0][..], &length, &text, &path].concat()
}

#[test]
fn the_addresses_and_names_in_a_boot_entry_are_hidden_and_it_stays_one() {
    let mac = [&[0x0c, 0x42, 0xa1, 0xde, 0xad, 0xbe][..], &[0; 26], &[1]].concat();
    let v4 = [&[10, 66, 5, 9, 10, 66, 5, 4][..], &[0; 7], &[10, 66, 5, 1, 255, 255, 255, 0]];
    let v6: Vec<u8> = [&[0xfd, 2, 0x9a, 4][..], &[0; 11], &[7]].concat();
    let eui = [1, 0, 0, 0, 0x21, 0x43, 0x65, 0xb1, 0x11, 0x38, 0x25, 0x00];
    let target = [&[0; 14][..], b"iqn.2009-06.example:storage4711"].concat();
    let entry = boot_entry(
        "UEFI PXEv4 (MAC:0C42A1DEADBE)",
        &[
            (3, 11, &mac),
            (3, 12, &v4.concat()),
            (3, 13, &[&v6[..], &v6, &[0; 8], &v6].concat()),
            (3, 23, &eui),
            (3, 19, &target),
            (3, 24, b"http://bob:builder@10.66.5.4/x.efi?sig=swordfish"),
            (3, 24, b"http://boot/x.efi"),
        ],
    );
    let path = "sys/firmware/efi/efivars/Boot0003-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    let files = recorded(&[(path, &entry), ("sys/class/net/eno1/address", b"0c:42:a1:de:ad:be\n")]);
    let files = anonymous(&files, &json!({}));
    let found = &files[path];
    let address = text(&files, "sys/class/net/eno1/address").trim().replace(':', "");
    let hex = formats::hex::hex(found);
    let secrets: [&[u8]; 10] = [
        &[0x0c, 0x42, 0xa1, 0xde, 0xad, 0xbe],
        &[10, 66, 5],
        &v6,
        &eui[4..],
        b"storage4711",
        b"bob",
        b"builder",
        b"10.66.5",
        b"swordfish",
        b"http://boot/",
    ];
    for secret in secrets {
        assert!(!hex.contains(&formats::hex::hex(secret)), "{}", latin(secret));
    }
    let units = found[10..].chunks(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    let description = String::from_utf16(&units.take(29).collect::<Vec<u16>>()).unwrap();
    assert_eq!(description, format!("UEFI PXEv4 (MAC:{})", address.to_uppercase()));
    assert!(hex.contains(&address), "the MAC is the port's");
    // Every node is as long as it states, and so is the path.
    let length = usize::from(u16::from_le_bytes([found[8], found[9]]));
    let mut rest = &found[10 + 60..];
    assert_eq!(rest.len(), length);
    let mut kinds = Vec::new();
    while let [kind, subkind, low, high, ..] = rest {
        kinds.push((*kind, *subkind));
        rest = &rest[usize::from(u16::from_le_bytes([*low, *high]))..];
    }
    assert_eq!(kinds.len(), 8);
    assert_eq!(kinds[7], (0x7f, 0xff));
}

fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

#[test]
fn a_lease_loses_its_addresses_names_and_domains() {
    let dhclient = "lease {\n  interface \"eno1\";\n  fixed-address 10.31.7.20;\n  \
                    option domain-name-servers 10.31.7.2,10.31.7.3;\n  \
                    option host-name \"controller\";\n  option domain-name \"corp.example\";\n  \
                    option domain-search \"lab.example.\", \"dev.example.\";\n  \
                    option subnet-mask 255.255.255.0;\n  \
                    option root-path \"filer:/export\";\n}\n";
    let networkd = "ADDRESS=10.31.7.20\nROUTER=10.31.7.1 10.31.8.1\nDNS=10.31.7.2 10.31.9.3\n\
                    HOSTNAME=controller\nDOMAIN_SEARCH_LIST=lab.example dev.example\n\
                    CLIENTID=ffb6220feb00020000ab11d2a4c3d1e5f60718\nLIFETIME=3600\n";
    let manager = "[ip4]\nnext-server=10.31.7.5\ndomain-name=corp.example\n";
    let files = recorded(&[
        ("var/lib/dhclient/dhclient.leases", dhclient.as_bytes()),
        ("run/systemd/netif/leases/2", networkd.as_bytes()),
        ("run/NetworkManager/devices/2", manager.as_bytes()),
    ]);
    let files = anonymous(&files, &json!({"serial": "3600"}));
    for path in files.keys() {
        let text = text(&files, path);
        let secrets =
            ["10.31.", "controller", "corp", "lab.", "dev.", "filer", "ab11d2a4c3d1e5f60718"];
        for secret in secrets {
            assert!(!text.contains(secret), "{secret} in {path}: {text}");
        }
    }
    let dhclient = text(&files, "var/lib/dhclient/dhclient.leases");
    assert!(dhclient.starts_with("lease {\n  interface \"eno1\";"), "{dhclient}");
    assert!(dhclient.contains("subnet-mask 255.255.255.0;"), "{dhclient}");
    assert!(text(&files, "run/systemd/netif/leases/2").ends_with("LIFETIME=3600\n"));
}

#[test]
fn what_names_remote_disks_arrays_and_accelerators_is_hidden() {
    let report = json!({
        "disks": [{"target": {"portal": "10.44.8.5:3260"}}, {"target": {"portal": "san:3260"}}],
        "contents": [{"kind": "linux_raid_member", "label": "oldhost77.acme:0"}],
    });
    let files = recorded(&[
        ("sys/class/nvme/nvme0/address", b"traddr=10.44.7.7,trsvcid=4420,src_addr=10.44.7.9\n"),
        ("run/udev/data/b8:0", b"E:ID_PATH=ip-10.44.8.5:3260-iscsi-x\nE:MD_NAME=raider:7\n"),
        ("kernel/disk/sda/4096-4096", b"\xfc\x4e\x2b\xa9oldhost77.acme:0\0\0"),
        ("kernel/disk/sdb/4096-4096", b"\xfc\x4e\x2b\xa9raider:7\0\0"),
        ("sys/class/kfd/kfd/topology/nodes/1/properties", b"unique_id 1801979520617338022\n"),
        ("sys/bus/pci/devices/0000:03:00.0/unique_id", b"1901e38e4c8d8ca6\n"),
        ("sys/block/dm-0/dm/uuid", b"mpath-1IBM     IPR-0   5EC2590000000080\n"),
    ]);
    let hex = format!("{:016x}\n", 1_801_979_520_617_338_022_u64);
    let path = "sys/bus/pci/devices/0000:03:00.0/unique_id";
    let mut files = files;
    files.files.insert(path.to_owned(), hex.clone().into_bytes());
    let files = anonymous(&files, &report);
    let secrets = ["10.44.", "oldhost77", "acme", "raider", "1801979520617338022"];
    for (path, content) in &files {
        let text = latin(content);
        for secret in secrets.iter().chain(&["5EC2590000000080", hex.trim()]) {
            assert!(!text.contains(secret), "{secret} in {path}: {text}");
        }
    }
    assert!(text(&files, "sys/class/nvme/nvme0/address").contains(",trsvcid=4420,src_addr="));
    let decimal = text(&files, "sys/class/kfd/kfd/topology/nodes/1/properties");
    let number: u64 = decimal.trim().strip_prefix("unique_id ").unwrap().parse().unwrap();
    assert_eq!(format!("{number:016x}\n"), text(&files, path), "one number in both forms");
    assert!(text(&files, "sys/block/dm-0/dm/uuid").starts_with("mpath-1IBM     IPR-0   "));
}

fn lldp_part(kind: u8, value: &[u8]) -> Vec<u8> {
    [&[kind << 1, u8::try_from(value.len()).unwrap()][..], value].concat()
}

/// The kernel's answer with one frame of these parts, received on `eno1`, as an anonymised capture has it.
fn anonymous_frame(parts: &[Vec<u8>]) -> String {
    const PATH: &str = "kernel/lldp/frames";
    let parts = parts.concat();
    let frame = [&[0x01, 0x80, 0xc2, 0, 0, 0x0e][..], &[2; 6], &[0x88, 0xcc], &parts].concat();
    let length = u16::try_from(frame.len()).unwrap().to_be_bytes();
    let answer = [&[1, 4, length[0], length[1]][..], b"eno1", &frame].concat();
    let files = anonymous(&recorded(&[(PATH, &answer)]), &json!({}));
    assert_eq!(files[PATH].len(), answer.len());
    latin(&files[PATH])
}

#[test]
fn the_texts_of_lldp_neighbours_are_hidden_and_a_port_described_by_its_id_stays_so() {
    let found = anonymous_frame(&[
        lldp_part(1, b"\x04\x0c\x42\xa1\xde\xad\xbe"),
        lldp_part(1, b"\x07rack-seven"),
        lldp_part(1, b"\x05\x01\x0a\x4d\x03\x09"),
        lldp_part(2, b"\x05Ethernet1/17"),
        lldp_part(4, b"Ethernet1/17"),
        lldp_part(4, b"rack seven"),
        lldp_part(6, b"Router of acme"),
        lldp_part(127, b"\x00\x80\xc2\x03\x00\x07\x07payroll"),
        lldp_part(127, b"\x00\x80\xc2\x01\x00\x07"),
        lldp_part(127, b"\x00\x12\xbb\x08FOC1723X0AB"),
        lldp_part(127, b"\x00\x12\xbb\x0bINVENTORY"),
        lldp_part(127, b"\x00\x90\x69\x01ABCDEFGH"),
        lldp_part(0, b""),
    ]);
    for secret in
        ["rack", "acme", "payroll", "FOC1723", "INVENTORY", "ABCDEFGH", "\x0a\x4d\x03\x09"]
    {
        assert!(!found.contains(secret), "{secret} in {found}");
    }
    assert_eq!(found.matches("Ethernet1/17").count(), 2);
    assert!(found.contains("\x00\u{80}\u{c2}\x01\x00\x07"), "numbers of VLANs stay");
}

#[test]
fn the_way_to_the_bmc_and_the_makers_strings_in_smbios_are_hidden() {
    let mut record = vec![4, 91 + 6];
    let uuid: Vec<u8> = (0x31..0x41).collect();
    record.extend(
        [&uuid[..], &[1, 1, 10, 77, 3, 9], &[0; 12], &[255, 255, 255, 0], &[0; 12]].concat(),
    );
    record.extend([&[1, 1, 10, 77, 3, 1][..], &[0; 12], &[255, 255, 255, 0], &[0; 12]].concat());
    record.extend([0xbb, 1, 0, 0, 0, 0, 6]);
    record.extend(b"bmcsix");
    let interface = [4, 13, 1, 2, 3, 4, 0, 0x0c, 0x42, 0xa1, 0xde, 0xad, 0xbe];
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
    let path = "sys/firmware/dmi/tables/DMI";
    let table = parts.concat();
    let files = anonymous(&recorded(&[(path, &table)]), &json!({}));
    let (found, text) = (&files[path], latin(&files[path]));
    assert_eq!(found.len(), table.len());
    let secrets: [&[u8]; 7] =
        [&uuid, &[10, 77, 3], &interface[7..], b"bmcsix", b"ORDER", b"4711", b"swordfish"];
    for secret in secrets {
        assert!(!text.contains(&latin(secret)), "{} in {text}", latin(secret));
    }
    assert_eq!(text.matches("Server 9000").count(), 2);
    assert_eq!(text.matches("plain words").count(), 1);
    assert_eq!(text.matches("\u{ff}\u{ff}\u{ff}\0").count(), 2, "masks stay");
}

#[test]
fn the_memory_of_a_part_loses_its_serial_in_every_encoding_and_keeps_its_model_and_checksum() {
    let seal = |mut bytes: Vec<u8>| {
        let sum = bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_sub(*byte));
        bytes.push(sum);
        bytes.insert(0, 0);
        bytes
    };
    let board = |serial: &[u8]| {
        let mut bytes = vec![1, 4, 0, 0, 0, 0, 0xc4];
        bytes.extend(b"DELL\xc4PSU1");
        bytes.extend(serial);
        bytes.extend(b"\xc60PJMDN\xc0\xc5MAC:7\xc1");
        seal(bytes)
    };
    let texts = board(b"\xc8CN179720");
    // IPMI in characters of six bits; 1234-5 in half bytes.
    let (six, half) = (board(&[0x83, 0x29, 0xdc, 0xa6]), board(&[0x43, 0x12, 0x34, 0xb5]));
    let recorded = recorded(&[
        ("kernel/ipmi/fru/00/board", &texts),
        ("kernel/ipmi/fru/01/board", &six),
        ("kernel/ipmi/fru/02/board", &half),
        ("sys/class/dmi/id/board_serial", b"CN179720\n"),
    ]);
    let report = json!({"bmc": {"frus": [{"board": {"serial": "CN179720"}}]}});
    let files = anonymous(&recorded, &report);
    for path in recorded.files.keys().filter(|path| path.starts_with("kernel/")) {
        let found = &files[path];
        assert_eq!(found.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)), 0, "{path}");
        assert_eq!(found.len(), recorded.files[path].len());
        let text = String::from_utf8_lossy(found);
        assert!(text.contains("DELL") && text.contains("PSU1") && text.contains("0PJMDN"));
        assert!(!text.contains("CN179720") && !text.contains("MAC:7"));
        assert_ne!(found[18..21], recorded.files[path][18..21], "{path}");
    }
    let serial = text(&files, "sys/class/dmi/id/board_serial");
    let same = String::from_utf8_lossy(&files["kernel/ipmi/fru/00/board"]);
    assert!(same.contains(serial.trim()), "the same serial number in two places stays the same");
    assert_eq!(files["kernel/ipmi/fru/02/board"][20] & 0xf0, 0xb0, "a sign stays");
}

#[test]
fn the_number_of_a_disk_in_a_boot_entry_is_the_one_of_its_partitions() {
    let drive = |kind: u8| {
        let number = 0xa1b2_c3d4_u32.to_le_bytes();
        [&1_u32.to_le_bytes()[..], &[0; 16], &number, &[0; 12], &[1, kind]].concat()
    };
    let path =
        |n| format!("sys/firmware/efi/efivars/Boot000{n}-8be4df61-93ca-11d2-aa0d-00e098032b8c");
    let of_mbr = boot_entry("Disk", &[(4, 1, &drive(1))]);
    let unsigned = boot_entry("Disk", &[(4, 1, &drive(0))]);
    let (one, other) = (path(1), path(2));
    let files = [
        (one.as_str(), &of_mbr[..]),
        (other.as_str(), &unsigned),
        ("run/udev/data/b8:1", b"E:ID_PART_ENTRY_UUID=a1b2c3d4-01\n"),
    ];
    let files = anonymous(&recorded(&files), &json!({}));
    let udev = text(&files, "run/udev/data/b8:1");
    let digits = udev.trim().trim_start_matches("E:ID_PART_ENTRY_UUID=").trim_end_matches("-01");
    assert_ne!(digits, "a1b2c3d4");
    let number = u32::from_str_radix(digits, 16).unwrap().to_le_bytes();
    assert!(files[&one].windows(4).any(|bytes| bytes == number), "{digits}");
    assert_eq!(files[&one].len(), of_mbr.len());
    assert_eq!(files[&other], unsigned, "no number of a master boot record");
}

#[test]
fn the_port_of_a_fibre_channel_disk_is_hidden_in_a_boot_entry_of_either_form() {
    let wwn = [0x50, 0x06, 0x01, 0x60, 0x3b, 0xa0, 0x11, 0xc7];
    let data = [&[0; 4][..], &wwn, &[0; 8]].concat();
    for subkind in [3, 21] {
        let entry = boot_entry("Disk", &[(3, subkind, &data)]);
        let path = "sys/firmware/efi/efivars/Boot0001-8be4df61-93ca-11d2-aa0d-00e098032b8c";
        let files = anonymous(&recorded(&[(path, &entry)]), &json!({}));
        assert_eq!(files[path].len(), entry.len());
        assert!(!files[path].windows(8).any(|bytes| bytes == wwn), "{subkind}");
    }
}

#[test]
fn the_domain_and_the_words_of_an_iscsi_name_are_hidden_and_stay_the_same_everywhere() {
    let name = "iqn.2009-06.com.corp.storage:backup-pool:lun";
    let by_path = format!("ip-10.9.8.7:3260-iscsi-{name}-lun-1");
    let report =
        json!({"far_end": {"target": name, "path": format!("/dev/disk/by-path/{by_path}")}});
    let line = format!("netroot=iscsi:10.9.8.7::3260:1:{name} quiet\n");
    let files = recorded(&[
        ("sys/class/iscsi_session/session1/targetname", format!("{name}\n").as_bytes()),
        ("proc/cmdline", line.as_bytes()),
        ("run/udev/data/b8:0", format!("S:disk/by-path/{by_path}\n").as_bytes()),
    ]);
    let files = anonymous(&files, &report);
    let found = text(&files, "sys/class/iscsi_session/session1/targetname").trim().to_owned();
    assert!(found.starts_with("iqn.2009-06.") && found.len() == name.len(), "{found}");
    for word in ["com", "corp", "storage", "backup", "pool"] {
        assert!(!found.contains(word), "{word} in {found}");
    }
    let udev = text(&files, "run/udev/data/b8:0");
    assert!(udev.ends_with(&format!(":3260-iscsi-{found}-lun-1\n")), "{found} {udev}");
    let line = text(&files, "proc/cmdline");
    assert!(line.ends_with(&format!(":{found} quiet\n")), "{found} {line}");
}

#[test]
fn the_names_of_volumes_and_their_groups_are_hidden_and_stay_the_same_everywhere() {
    let files = recorded(&[
        ("sys/block/dm-0/dm/uuid", b"LVM-x\n"),
        ("sys/block/dm-0/dm/name", b"vg--acme-payroll\n"),
        ("sys/block/dm-1/dm/uuid", b"mpath-3600508b1001c4d41aabbccddeeff0011\n"),
        ("sys/block/dm-1/dm/name", b"mpatha-part\n"),
        ("proc/cmdline", b"root=/dev/mapper/vg--acme-payroll rd.lvm.lv=vg-acme/payroll quiet\n"),
        ("proc/self/mountinfo", b"22 1 253:0 / / rw - xfs /dev/mapper/vg--acme-payroll rw\n"),
        (
            "run/udev/data/b253:0",
            b"E:DM_NAME=vg--acme-payroll\nE:DM_VG_NAME=vg-acme\nE:DM_LV_NAME=payroll\n",
        ),
    ]);
    let files = anonymous(&files, &json!({}));
    for (path, content) in &files {
        let content = latin(content);
        assert!(!content.contains("acme") && !content.contains("payroll"), "{path}: {content}");
    }
    let name = text(&files, "sys/block/dm-0/dm/name").trim().to_owned();
    let (group, own) = name.rsplit_once('-').unwrap();
    let single = group.replace("--", "-");
    assert_eq!(single.len(), "vg-acme".len());
    let line = text(&files, "proc/cmdline");
    assert_eq!(line, format!("root=/dev/mapper/{name} rd.lvm.lv={single}/{own} quiet\n"));
    assert!(text(&files, "proc/self/mountinfo").contains(&format!("/dev/mapper/{name} ")));
    let udev = text(&files, "run/udev/data/b253:0");
    assert_eq!(udev, format!("E:DM_NAME={name}\nE:DM_VG_NAME={single}\nE:DM_LV_NAME={own}\n"));
    assert_eq!(text(&files, "sys/block/dm-1/dm/name"), "mpatha-part\n");
}

#[test]
fn a_port_of_a_neighbour_that_is_named_by_its_owner_is_hidden() {
    let found = anonymous_frame(&[
        lldp_part(1, b"\x07rack-seven"),
        lldp_part(2, b"\x07acme-uplink-4"),
        lldp_part(4, b"acme-uplink-4"),
        lldp_part(0, b""),
    ]);
    assert!(!found.contains("acme") && !found.contains("uplink"), "{found}");
    let id = found.split('\x07').nth(2).unwrap();
    let id = &id[.."acme-uplink-4".len()];
    assert_eq!(found.matches(id).count(), 2, "{found}");
}
