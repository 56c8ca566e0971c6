//! The mistakes that other tools make with disks, each as a claim that holds here.

use super::{Block, Disk, block};
use crate::machine::{Machine, Problem};
use crate::testing::{
    SAS, USB, disk_at, has, tree, tree_from, tree_from_bytes, tree_in, tree_of_bytes,
};
use serde_json::json;

fn of(files: &[(&str, &str)]) -> Block {
    block(&tree(files))
}

fn names(disks: &[Disk]) -> Vec<&str> {
    disks.iter().map(|disk| disk.name.as_str()).collect()
}

fn problems_of(machine: &Machine) -> Vec<Problem> {
    assert!(!block(machine).disks.is_empty());
    machine.problems()
}

const AHCI: &str = "sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0";
const SDA: &str = "pci0000:80/0000:80:01.0/0000:81:00.0/ata1/host0/target0:0:0/0:0:0:0/block/sda";

#[test]
fn numa_node_comes_from_the_nearest_device_above_the_disk_and_minus_one_is_absent() {
    let node = |of_controller: &str, of_bridge: &str| {
        let bridge = "sys/devices/pci0000:80/0000:80:01.0/numa_node";
        let files = [(&*format!("{AHCI}/numa_node"), of_controller), (bridge, of_bridge)];
        block(&disk_at(SDA, &files)).disks[0].numa_node
    };
    assert_eq!((node("1\n", "0\n"), node("-1\n", "-1\n")), (Some(1), None));
    let plain = of(&[("sys/block/sda/size", "8\n")]).disks.remove(0);
    assert_eq!((plain.numa_node, plain.queue), (None, None));
}

#[test]
fn second_path_of_a_sata_disk_is_kept_and_not_reported() {
    let paths = ["/dev/disk/by-path/pci-1-ata-1", "/dev/disk/by-path/pci-1-ata-1.0"];
    let udev = "S:disk/by-path/pci-1-ata-1.0\nS:disk/by-path/pci-1-ata-1\n";
    let files = [("sys/block/sda/size", "8\n"), ("sys/block/sda/dev", "8:0\n")];
    let disk = of(&[&files[..], &[("run/udev/data/b8:0", udev)]].concat()).disks.remove(0);
    assert_eq!(
        (disk.by_path.as_deref(), &disk.other_paths[..]),
        (Some(paths[0]), &[paths[1].to_owned()][..])
    );
    assert!(!serde_json::to_string(&disk).unwrap().contains("ata-1.0"));
}

#[test]
fn only_disks_that_are_reached_over_a_fabric_are_on_one() {
    let rport = "pci0000:3a/0000:3b:00.0/host7/rport-7:0-0/target7:0:0/7:0:0:1/block/sda";
    let session = "platform/host8/session1/target8:0:0/8:0:0:1/block/sda";
    for (path, expected) in [(rport, true), (session, true), (SAS, false), (SDA, false)] {
        let found = block(&disk_at(path, &[("removable", "0\n")])).disks.remove(0).is_on_fabric;
        assert_eq!(found, expected, "{path}");
    }
    for (transport, expected) in [("tcp", true), ("rdma", true), ("fc", true), ("pcie", false)] {
        let block = block(&tree_in(&[
            ("sys/block", &[("nvme0n1/size", "8"), ("vda/size", "8")]),
            ("sys/class/nvme/nvme0", &[("transport", &format!("{transport}\n"))]),
            ("sys/class/nvme/nvme0/nvme0n1", &[("size", "8")]),
        ]));
        let found = block.disks.iter().map(|disk| disk.is_on_fabric);
        assert_eq!(found.collect::<Vec<_>>(), [expected, false], "{transport}");
    }
}

#[test]
fn mappings_arrays_zram_and_empty_drives_are_not_counted_as_disks() {
    let block = block(&tree_in(&[
        ("sys/block/nvme0n1", &[("size", "2000")]),
        ("sys/block/dm-0", &[("size", "1900"), ("dm/uuid", "CRYPT-LUKS2-x")]),
        ("sys/block/dm-1", &[("size", "1800"), ("dm/uuid", "LVM-x")]),
        ("sys/block", &[("md0/size", "2000"), ("md0/md/level", "raid1"), ("zram0/size", "800")]),
        ("sys/block", &[("loop0/size", "80"), ("rbd0/size", "80"), ("nbd0/size", "80")]),
        ("sys/block", &[("ram0/size", "80"), ("sr0/size", "2097151"), ("sr0/removable", "1")]),
    ]));
    assert_eq!((block.n_disks, block.physical_bytes), (Some(1), Some(2000 * 512)));
    assert_eq!(names(&block.disks), ["nvme0n1", "sr0"]);
    assert_eq!(block.r#virtual.len(), 8);
}

#[test]
fn empty_optical_drive_has_size_zero_not_one_gibibyte() {
    let sizes = |sectors: &str| of(&[("sys/block/sr0/size", sectors)]).disks[0].size_bytes;
    assert_eq!(sizes("2097151\n"), Some(0));
    assert_eq!(sizes("2097148\n"), Some(2_097_148 * 512));
}

/// A namespace with two controllers; `links` adds the links that the kernel has had since 6.15.
/// The numbers in the names of the controllers are the wrong way round, and the first of them is dead.
fn namespace(links: bool) -> Block {
    let one = "devices/pci0000:00/0000:01:00.0/nvme/nvme1";
    let two = "devices/pci0000:80/0000:81:00.0/nvme/nvme0";
    let own = "sys/devices/virtual/nvme-subsystem/nvme-subsys2";
    let mut files: Vec<(String, String)> = Vec::new();
    let mut add = |path: &str, text: &str| files.push((path.to_owned(), text.to_owned()));
    add("sys/block/nvme2n1", "-> ../devices/virtual/nvme-subsystem/nvme-subsys2/nvme2n1");
    add(&format!("{own}/nvme2n1/size"), "8\n");
    add(&format!("{own}/nvme2n1/dev"), "259:0\n");
    let udev = "S:disk/by-path/pci-0000:01:00.0-nvme-1\nS:disk/by-id/nvme-eui.01\n";
    add("run/udev/data/b259:0", udev);
    for (path, name, controller, state) in
        [(one, "nvme2c0n1", "nvme1", "dead"), (two, "nvme2c1n1", "nvme0", "live")]
    {
        add(&format!("sys/block/{name}"), &format!("-> ../{path}/{name}"));
        add(&format!("sys/{path}/{name}/hidden"), "1\n");
        add(&format!("sys/{path}/{name}/ana_state"), "optimized\n");
        add(&format!("sys/class/nvme/{controller}"), &format!("-> ../../{path}"));
        add(&format!("sys/{path}/state"), state);
        add(&format!("sys/{path}/model"), "  M  \n");
        add(&format!("sys/{path}/numa_node"), "-1\n");
        add(&format!("{own}/{controller}"), &format!("-> ../../../../{path}"));
        if links {
            let link = format!("-> ../../../../../../{path}/{name}");
            add(&format!("{own}/nvme2n1/multipath/{name}"), &link);
        }
    }
    let class = "sys/class/nvme-subsystem/nvme-subsys2";
    add(class, "-> ../../devices/virtual/nvme-subsystem/nvme-subsys2");
    add(&format!("{own}/subsysnqn"), "nqn.2014-08.org.example:2\n");
    add(&format!("{own}/iopolicy"), "round-robin\n");
    let machine = tree_from(&files);
    let block = block(&machine);
    assert_eq!(machine.problems(), []);
    block
}

#[test]
fn hidden_paths_are_paths_of_one_namespace_which_has_no_place_and_the_state_of_a_live_one() {
    for links in [false, true] {
        has(
            &namespace(links),
            &json!({
                "n_disks": 1, "disks/0/name": "nvme2n1", "disks/1": null, "disks/0/paths/2": null,
                "disks/0/paths/0/ana_state": "optimized", "disks/0/state": "live",
                "disks/0/by_path": null, "disks/0/pci_address": null, "disks/0/numa_node": null,
                "disks/0/by_id": ["/dev/disk/by-id/nvme-eui.01"],
            }),
        );
    }
}

#[test]
fn controller_of_a_path_is_the_device_above_it_and_not_the_number_in_its_name() {
    has(
        &namespace(true).disks[0],
        &json!({
            "paths/0/name": "nvme2c0n1", "paths/0/controller": "nvme1", "paths/0/pci_address": "0000:01:00.0",
            "paths/1/name": "nvme2c1n1", "paths/1/controller": "nvme0", "paths/1/pci_address": "0000:81:00.0",
        }),
    );
}

#[test]
fn bcache_device_is_virtual_and_holds_its_disks() {
    let block = block(&tree_in(&[
        ("sys/block", &[("sda/size", "2048"), ("nvme0n1/size", "1024")]),
        ("sys/block/bcache0", &[("size", "2000"), ("slaves/sda/x", ""), ("slaves/nvme0n1/x", "")]),
    ]));
    assert_eq!(block.n_disks, Some(2));
    let bcache = &block.r#virtual[0];
    assert_eq!((bcache.kind.as_deref(), bcache.members.len()), (Some("bcache"), 2));
    for disk in &block.disks {
        let reasons = &disk.not_eligible_because;
        assert_eq!(*reasons, [format!("in use: {} is held by bcache0", disk.name)]);
    }
}

#[test]
fn disks_with_a_wwn_of_zeros_are_not_the_same_disk() {
    let block = block(&tree_in(&[
        ("sys/block/sda", &[("size", "2048"), ("device/wwid", "naa.0000000000000000")]),
        ("sys/block", &[("sda/device/serial", "A1"), ("sdb/size", "2048")]),
        ("sys/block/sdb/device", &[("wwid", "naa.0000000000000000"), ("serial", "A2")]),
    ]));
    assert_eq!(block.n_disks, Some(2));
    for disk in &block.disks {
        assert!(disk.eligible && disk.wwn.is_none());
        assert_eq!(disk.identity_issues, ["WWN is \"0x0000000000000000\""]);
    }
}

#[test]
fn serials_lose_their_padding_and_models_the_underscores_of_udev() {
    let machine = tree_of_bytes(&[
        ("sys/block/sda/size", b"8\n"),
        ("sys/block/sda/dev", b"8:0\n"),
        ("sys/block/sda/device/vpd_pg80", b"\x00\x80\x00\x0c  WD-WX1 2   "),
        (
            "run/udev/data/b8:0",
            b"E:ID_MODEL=WDC_WD40_X\nE:ID_MODEL_ENC=WDC\\x20WD40\\x20X\\x20\\x20\n",
        ),
    ]);
    let expected = json!({"serial": "WD-WX1 2", "model": "WDC WD40 X"});
    has(&block(&machine).disks[0], &expected);
}

#[test]
fn without_udev_the_identity_of_an_ata_disk_is_whole() {
    let identify = crate::testing::bytes::identify_page(
        &[(217, 7200), (168, 2)],
        &[(10, "WD-WX12D1234567     "), (23, "82.00A82"), (27, "WDC WD4003FZEX-00Z4SA0")],
    );
    let machine = tree_of_bytes(&[
        ("sys/block/sda/size", b"8\n"),
        ("sys/block/sda/device/vendor", b"ATA     \n"),
        ("sys/block/sda/device/model", b"WDC WD4003FZEX-0\n"),
        ("sys/block/sda/device/rev", b"0A82\n"),
        ("sys/block/sda/device/vpd_pg89", &identify),
    ]);
    has(
        &block(&machine).disks[0],
        &json!({
            "model": "WDC WD4003FZEX-00Z4SA0", "serial": "WD-WX12D1234567", "firmware": "82.00A82",
            "rotation_rpm": 7200, "form_factor": "3.5 inch",
        }),
    );
}

#[test]
fn sdaa1_is_not_a_partition_of_sda() {
    let block = block(&tree_in(&[
        ("sys/class/block/sda", &[("size", "2048")]),
        ("sys/class/block", &[("sda/sda1/partition", "1"), ("sdaa/size", "2048")]),
        ("sys/class/block", &[("sdaa/sdaa1/partition", "1"), ("sda1/partition", "1")]),
        ("sys/class/block", &[("sdaa1/partition", "1"), ("sdz/size", "2048")]),
    ]));
    assert_eq!(names(&block.disks), ["sda", "sdz", "sdaa"]);
    let partitions =
        |disk: &Disk| disk.partitions.iter().map(|p| p.name.clone()).collect::<Vec<_>>();
    assert_eq!(partitions(&block.disks[0]), ["sda1"]);
    assert_eq!(partitions(&block.disks[2]), ["sdaa1"]);
}

#[test]
fn virtual_media_of_a_bmc_are_neither_storage_nor_install_target() {
    let block = block(&disk_at(
        USB,
        &[
            ("removable", "0\n"),
            ("device/vendor", "iDRAC   \n"),
            ("device/model", "LCDRIVE         \n"),
        ],
    ));
    assert_eq!((block.n_disks, block.physical_bytes), (Some(0), Some(0)));
    assert_eq!(block.disks[0].not_eligible_because, ["virtual media of a management controller"]);
}

/// A disk with one partition in its table, at sector 8 and of 64 sectors.
fn partitioned(by_kernel: &[(&str, &str)], udev: &str) -> Machine {
    let mut first = vec![0; 4096];
    (first[510], first[511], first[446 + 4]) = (0x55, 0xaa, 0x83);
    (first[446 + 8], first[446 + 12]) = (8, 64);
    let mut ext4 = vec![0; 4096];
    (ext4[1080], ext4[1081], ext4[1024 + 0x60]) = (0x53, 0xef, 0x40);
    let mut files: Vec<(String, &[u8])> = vec![
        ("sys/block/sda/size".into(), b"2048\n"),
        ("kernel/disk/sda/0-4096".into(), &first),
        ("kernel/disk/sda/4096-4096".into(), &ext4),
        ("run/udev/data/b8:1".into(), udev.as_bytes()),
    ];
    for (path, text) in by_kernel {
        files.push((format!("sys/block/sda/{path}"), text.as_bytes()));
    }
    tree_from_bytes(&files)
}

#[test]
fn difference_between_kernel_and_table_is_a_problem() {
    let same = [("sda1/partition", "1\n"), ("sda1/start", "8\n"), ("sda1/size", "64\n")];
    assert_eq!(problems_of(&partitioned(&same, "")), []);
    let found = |files: &[(&str, &str)]| {
        let problems = problems_of(&partitioned(files, ""));
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems[0].found.clone()
    };
    let moved = [same[0], ("sda1/start", "16\n"), same[2]];
    assert!(found(&moved).contains("partition 1: start 8192 in the kernel, 4096 in the table"));
    let shrunk = [same[0], same[1], ("sda1/size", "32\n")];
    assert!(found(&shrunk).contains("size 16384 in the kernel, 32768 in the table"));
    assert!(found(&[]).starts_with("partition 1 is in the table but not in the kernel"));
    let more = [same[0], same[1], same[2], ("sda2/partition", "2\n")];
    assert!(found(&more).starts_with("partition 2 is in the kernel but not in the table"));
}

#[test]
fn difference_to_udevs_signature_is_a_problem_and_the_disk_wins() {
    let same = [
        ("sda1/partition", "1\n"),
        ("sda1/dev", "8:1"),
        ("sda1/start", "8\n"),
        ("sda1/size", "64\n"),
    ];
    assert_eq!(problems_of(&partitioned(&same, "E:ID_FS_TYPE=ext4\n")), []);
    let machine = partitioned(&same, "E:ID_FS_TYPE=xfs\n");
    let disk = &block(&machine).disks[0];
    assert_eq!(disk.partitions[0].filesystem.as_ref().unwrap().kind, "ext4");
    assert_eq!(machine.problems()[0].found, "ext4 on the disk, xfs according to udev");
}

#[test]
fn protection_information_and_zones_are_read_and_their_absence_is_absent() {
    let of = |format: &str, kind: &str, zoned: &str| {
        let kind = ("device/scsi_disk/0:0:0:0/protection_type", kind);
        let files = [("integrity/format", format), ("queue/zoned", zoned), kind];
        block(&disk_at(SAS, &files)).disks.remove(0)
    };
    let present = json!({
        "integrity_format": "T10-DIF-TYPE1-CRC", "protection_type": 1, "zoned": "host-managed",
    });
    has(&of("T10-DIF-TYPE1-CRC\n", "1\n", "host-managed\n"), &present);
    let absent = json!({"integrity_format": null, "protection_type": null, "zoned": null});
    has(&of("none\n", "0\n", "none\n"), &absent);
}

#[test]
fn sata_link_has_its_negotiated_speed_unless_it_is_down() {
    let speed = |text: &str| {
        let file = format!("{AHCI}/ata1/link1/ata_link/link1/sata_spd");
        block(&disk_at(SDA, &[(file, text)])).disks[0].link_mbit_s
    };
    assert_eq!(speed("6.0 Gbps\n"), Some(6000));
    assert_eq!(speed("<unknown>\n"), None);
}

#[test]
fn volume_of_a_sas_raid_controller_is_not_a_sas_disk() {
    let hba = "pci0000:00/0000:00:02.0/0000:03:00.0";
    let of = |address: &str, level: &str| {
        let driver = format!("sys/devices/{hba}/driver");
        let files = [
            ("device/raid_level", level),
            (&*driver, "-> ../../../../bus/pci/drivers/smartpqi"),
            ("sys/class/sas_host/host0/x", ""),
        ];
        let path = format!("{hba}/host0/target0/{address}/block/sda");
        block(&disk_at(&path, &files)).disks.remove(0)
    };
    has(&of("0:1:0:0", "RAID 1\n"), &json!({"transport": "raid", "is_raid_volume": true}));
    has(&of("0:0:0:0", "N/A\n"), &json!({"transport": "sas", "is_raid_volume": false}));
}
