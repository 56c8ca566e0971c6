//! What is known to be secret by the name of its line or file.

use super::*;

#[test]
fn the_numbers_and_names_in_cpuinfo_and_sysinfo_are_hidden() {
    let files = recorded(&[
        ("proc/cpuinfo", b"Revision\t: a22082\nSerial\t\t: 00000000acf9d788\n"),
        ("sys/firmware/devicetree/base/serial-number", b"00000000acf9d788\0"),
        (
            "proc/sysinfo",
            b"Type:   2817\nSequence Code:        00000000000EAA14\nLPAR Name:            R17 \n\
              VM00 Name:            GUEST\nVM00 Control Program: z/VM    6.1.0   \n",
        ),
    ]);
    let before = files.clone();
    let files = anonymous(&files, &json!({}));
    let cpuinfo = text(&files, "proc/cpuinfo");
    assert!(!cpuinfo.contains("acf9d788") && cpuinfo.contains("a22082"), "{cpuinfo}");
    let serial = text(&files, "sys/firmware/devicetree/base/serial-number");
    assert!(cpuinfo.contains(serial.trim_end_matches('\0')), "{serial} in {cpuinfo}");
    let sysinfo = text(&files, "proc/sysinfo");
    for secret in ["EAA14", "R17 ", "GUEST"] {
        assert!(!sysinfo.contains(secret), "{secret} in {sysinfo}");
    }
    assert!(sysinfo.ends_with("VM00 Control Program: z/VM    6.1.0   \n"), "{sysinfo}");
    assert_eq!(sysinfo.len(), before.files["proc/sysinfo"].len());
}

#[test]
fn the_host_in_a_fibre_channel_name_is_hidden() {
    let path = "sys/class/fc_host/host7/symbolic_name";
    let name = b"Emulex LPe16002 FV11.4 HN:dbserver17.corp.acme.com OS:Linux\n";
    let found = text(&anonymous(&recorded(&[(path, name)]), &json!({})), path);
    assert!(!found.contains("dbserver17") && !found.contains("acme"), "{found}");
    assert!(found.starts_with("Emulex LPe16002 FV11.4 HN:") && found.ends_with(" OS:Linux\n"));
}

#[test]
fn no_digit_of_the_number_of_an_accelerator_or_its_hive_stays_because_of_a_maker() {
    let (unique, hive) = (5_847_760_019_078_012_339_u64, 12_609_507_387_757_274_807_u64);
    let path = "sys/class/kfd/kfd/topology/nodes/1/properties";
    let content = format!("hive_id {hive}\nunique_id {unique}\n");
    let hex = format!("{unique:016x}\n");
    let files = anonymous(
        &recorded(&[
            (path, content.as_bytes()),
            ("sys/bus/pci/devices/0000:03:00.0/unique_id", hex.as_bytes()),
        ]),
        &json!({"unique_id": hex.trim()}),
    );
    let properties = text(&files, path);
    let number = |key: &str| -> u64 {
        let line = properties.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim().parse().unwrap()
    };
    assert_ne!(number("hive_id") >> 36, hive >> 36, "{properties}");
    assert_ne!(number("unique_id") >> 36, unique >> 36, "{properties}");
    let found = text(&files, "sys/bus/pci/devices/0000:03:00.0/unique_id");
    assert_eq!(found, format!("{:016x}\n", number("unique_id")));
}

#[test]
fn a_short_host_name_is_hidden_where_a_host_name_is() {
    let files = recorded(&[("proc/sys/kernel/hostname", b"db7\n"), ("proc/cpuinfo", b"a : db7\n")]);
    let files = anonymous(&files, &json!({"hostname": "db7"}));
    assert_ne!(text(&files, "proc/sys/kernel/hostname"), "db7\n");
    assert_eq!(text(&files, "proc/cpuinfo"), "a : db7\n");
}

#[test]
fn a_host_named_like_a_part_of_the_kernel_changes_no_path() {
    for host in ["node0", "cpu1", "nvme0n1", "controller"] {
        let path = format!("sys/devices/system/node/{host}/meminfo");
        let name = format!("{host}\n");
        let mut recorded = recorded(&[
            (path.as_str(), b"Node 0 MemTotal: 1 kB\n"),
            ("proc/sys/kernel/hostname", name.as_bytes()),
            ("proc/cmdline", b"x=node0 quiet\n"),
        ]);
        recorded.directories.insert("sys/devices/system/node".into(), vec![host.into()]);
        let put = with_key([7; 32], &recorded, &json!({"hostname": host})).unwrap();
        assert!(put.files.contains_key(&path), "{:?}", put.files.keys());
        assert_eq!(put.directories["sys/devices/system/node"], [host]);
        assert_ne!(text(&put.files, "proc/sys/kernel/hostname"), name);
        assert_eq!(text(&put.files, "proc/cmdline"), "x=node0 quiet\n");
    }
}

#[test]
fn a_short_serial_number_is_hidden_in_a_link_of_udev_and_not_in_the_names_of_the_kernel() {
    let mut recorded = recorded(&[("sys/block/sda/device/serial", b"Z1Z0A\n")]);
    let links = [("dev/disk/by-id/ata-DISK_Z1Z0A", "../../sda"), ("sys/class/x-Z1Z0A", "y")];
    recorded.links = links.map(|(path, to)| (path.to_owned(), to.to_owned())).into();
    let put = with_key([7; 32], &recorded, &json!({"serial": "Z1Z0A"})).unwrap();
    assert!(!put.links.contains_key("dev/disk/by-id/ata-DISK_Z1Z0A"), "{:?}", put.links);
    assert!(put.links.contains_key("sys/class/x-Z1Z0A"), "{:?}", put.links);
}

#[test]
fn a_serial_number_glued_to_a_letter_is_hidden_in_smbios() {
    let path = "sys/firmware/dmi/tables/DMI";
    let table = b"\xde\x05\x03\0\x01BYYE0i\0\0";
    let report = json!({"chassis": {"serial": "BYYE0"}});
    let found = &anonymous(&recorded(&[(path, table)]), &report)[path];
    assert_eq!(found.len(), table.len());
    assert!(!found.windows(5).any(|bytes| bytes == b"BYYE0"), "{found:?}");
}

#[test]
fn a_serial_number_behind_its_label_is_hidden_in_the_strings_of_vendors() {
    let path = "sys/firmware/dmi/tables/DMI";
    let table = b"\xde\x05\x03\0\x01DSN:50026B767C01850A\0Disk S/N: Q77\0\0";
    let found = anonymous(&recorded(&[(path, table)]), &json!({}));
    assert_eq!(found[path].len(), table.len());
    let found = text(&found, path);
    assert!(!found.contains("767C01850A"), "{found}");
}

#[test]
fn the_own_address_of_a_machine_is_hidden_in_the_tree_of_routes_even_if_it_ends_with_0() {
    let tree = "Local:\n  +-- 10.1.84.0/26 2 0 2\n     |-- 10.1.84.0\n        /32 host LOCAL\n     \
                |-- 10.6.255.255\n        /32 link BROADCAST\n     |-- 127.0.0.1\n";
    let path = "proc/net/fib_trie";
    let files = recorded(&[(path, tree.as_bytes())]);
    let found = text(&anonymous(&files, &json!({})), path);
    assert!(!found.contains("10.1.84.") && !found.contains("10.6."), "{found}");
    assert!(found.contains("|-- 127.0.0.1\n") && found.contains("/26 2 0 2\n"), "{found}");
}
