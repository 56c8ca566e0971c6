//! What is replaced, in which spellings, and what stays.

use std::collections::BTreeMap;

use probes::machine::Recorded;
use serde_json::json;

use super::*;

fn recorded(files: &[(&str, &[u8])]) -> Recorded {
    let files =
        files.iter().map(|(path, content)| ((*path).to_owned(), content.to_vec())).collect();
    Recorded { files, ..Recorded::default() }
}

fn anonymous(recorded: &Recorded, report: &serde_json::Value) -> BTreeMap<String, Vec<u8>> {
    with_key([7; 32], recorded, report).files
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
    assert_eq!(crate::digest::hex(&files["kernel/rtnetlink/link"][20..]), digits);
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
    assert_eq!(crate::digest::hex(&first), uuid[..8]);
    assert_eq!(crate::digest::hex(&raw[10..]), uuid.trim()[24..]);
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
fn addresses_become_ones_for_documentation_and_stay_in_their_network() {
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
    assert!(["192.0.2", "198.51.100", "203.0.113"].contains(&network(servers[0]).as_str()));
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
    use crate::proof::gpt::crc32;
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
        assert_eq!(first[1024..4096], table[..3072], "both reads tell the same");
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

/// The command line without its secrets, each of which was asserted to be gone.
fn command_line(line: &str, secrets: &[&str]) -> String {
    let files = recorded(&[("proc/cmdline", line.as_bytes())]);
    let line = text(&anonymous(&files, &json!({})), "proc/cmdline");
    for secret in secrets {
        assert!(!line.to_lowercase().contains(&secret.to_lowercase()), "{secret} in {line}");
    }
    line
}

#[test]
fn a_secret_of_the_command_line_that_could_be_a_word_or_a_number_is_hidden_there() {
    let line = command_line(
        "rd.token=correcthorsebattery inst.vncpassword=swordfish rd.iscsi.password=12345678 \
         systemd.hostname=compute ip=10.9.8.7::10.9.8.1:255.255.255.0:controller:eno1:none \
         rci.vim=http://deploy/cfg?key=abcdefghijklm&arch=x86_64 console=ttyS0 \
         rd.other_password=console \"rd.passphrase=two words\" inst.pw=abc quiet",
        &[
            "correcthorsebattery",
            "swordfish",
            "12345678",
            "compute",
            "controller",
            "deploy",
            "abcdefghijklm",
            "10.9.8",
            "=console",
            "two",
            "=abc",
        ],
    );
    assert!(line.starts_with("rd.token=") && line.ends_with(" quiet"), "{line}");
    assert!(line.contains(":255.255.255.0:") && line.contains(":eno1:none "), "{line}");
    assert!(line.contains(" console=ttyS0 ") && line.contains("/cfg?key="), "{line}");
}

#[test]
fn the_first_argument_does_not_make_a_secret_of_the_rest_of_the_line() {
    let line = command_line("rd.token=s3cr3tvalue quiet console=ttyS0,115200", &["s3cr3tvalue"]);
    assert!(line.ends_with(" quiet console=ttyS0,115200"), "{line}");
}

#[test]
fn every_form_of_a_secret_or_host_on_the_command_line_is_hidden() {
    let line = command_line(
        "netroot=iscsi:chapuser:Ch4pS3cret@10.44.5.6::3260:1:iqn.2009-06.example:disk-4711 \
         inst.sshpw=opensesame rd.luks.key=/secret-file:UUID=11112222-3333-4444-8555-666677778888 \
         ignition.auth=Basic:dXNlcjpwYXNzd29yZA== root=nfs:filer7.corp.example:/x \
         nfsroot=nas.corp.example:/x,vers=4.2 systemd.unit=multi-user.target \
         a.urls=http://one.corp.example/x,https://bob:builder@two.corp.example:8443/y?t=Zq8xYw77 \
         rci.vim=http://[FD02:9A04::0001]:8080 nameserver=FD02:9A04:0::0002 initrd=\\live.img",
        &[
            "chapuser",
            "Ch4pS3cret",
            "10.44.5.6",
            "opensesame",
            "secret-file",
            "11112222",
            "dXNlcjpwYXNzd29yZA",
            "filer7",
            "nas.corp",
            "corp",
            "bob",
            "builder",
            "Zq8xYw77",
            "FD02",
            "9A04",
        ],
    );
    assert!(line.contains("netroot=iscsi:") && line.contains("::3260:1:iqn.2009-06."), "{line}");
    assert!(line.contains(":/x,vers=4.2 systemd.unit=multi-user.target "), "{line}");
    assert!(line.contains("rci.vim=http://[2001:db8:") && line.contains("]:8080 "), "{line}");
    assert!(line.contains("initrd=\\live.img") && line.contains("ignition.auth=Basic:"), "{line}");
}

#[test]
fn a_server_without_a_domain_is_hidden_on_the_command_line_and_in_the_mounts() {
    let files = recorded(&[
        (
            "proc/cmdline",
            b"root=nfs:filer:/x nfsroot=server:/y netroot=nbd:storage:root ntp.server=fd00:7::1 \
              ip=eno1:dhcp:1500:0c:42:a1:de:ad:be pxe.from=bob:builder@10.7.8.9 root=live:/dev/x",
        ),
        ("proc/self/mountinfo", b"36 35 0:45 / /filer rw - nfs filer:/x rw,addr=10.7.8.9\n"),
    ]);
    let files = anonymous(&files, &json!({}));
    let line = text(&files, "proc/cmdline");
    for secret in ["filer", "server:", "storage", "fd00", "0c:42:a1:de", "bob", "builder", "10.7"] {
        assert!(!line.contains(secret), "{secret} in {line}");
    }
    assert!(line.contains(" root=live:/dev/x") && line.contains("ip=eno1:dhcp:1500:0c:42:a1:"));
    assert!(line.contains("root=nfs:") && line.contains("ntp.server=2001:db8:"), "{line}");
    let mounts = text(&files, "proc/self/mountinfo");
    assert!(!mounts.contains("filer:/") && mounts.contains(" /filer rw - nfs "), "{mounts}");
    let server = line.strip_prefix("root=nfs:").unwrap().split(':').next().unwrap();
    assert!(mounts.contains(&format!(" {server}:/x ")), "{server} in {mounts}");
}

#[test]
fn a_command_line_without_secrets_stays() {
    let line = "BOOT_IMAGE=(hd0,gpt2)/ostree/vmlinuz-5.14.0-70.el9.x86_64 quiet crashkernel=512M@64M \
                libata.force=1.00:3.0Gbps coreos.liveiso=fedora-coreos-42.20250101 pci=realloc \
                module_blacklist=nouveau audit=1 vconsole.keymap=de intel_iommu=on \
                systemd.mask=foo.service memmap=4G!12G";
    assert_eq!(command_line(line, &[]), line);
}

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
    let hex = crate::digest::hex(found);
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
        assert!(!hex.contains(&crate::digest::hex(secret)), "{}", latin(secret));
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

#[test]
fn the_texts_of_lldp_neighbours_are_hidden_and_a_port_described_by_its_id_stays_so() {
    let parts = [
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
    ];
    let frame = [&[0x01, 0x80, 0xc2, 0, 0, 0x0e][..], &[2; 6], &[0x88, 0xcc], &parts.concat()];
    let frame = frame.concat();
    let length = u16::try_from(frame.len()).unwrap().to_be_bytes();
    let answer = [&[1, 4, length[0], length[1]][..], b"eno1", &frame].concat();
    let path = "kernel/lldp/frames";
    let files = anonymous(&recorded(&[(path, &answer)]), &json!({}));
    let found = latin(&files[path]);
    for secret in
        ["rack", "acme", "payroll", "FOC1723", "INVENTORY", "ABCDEFGH", "\x0a\x4d\x03\x09"]
    {
        assert!(!found.contains(secret), "{secret} in {found}");
    }
    assert_eq!(found.matches("Ethernet1/17").count(), 2);
    assert!(found.contains("\x00\u{80}\u{c2}\x01\x00\x07"), "numbers of VLANs stay");
    assert_eq!(files[path].len(), answer.len());
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
