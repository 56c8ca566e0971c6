//! Identifiers that are written within others, or in an unusual form.

use super::*;

#[test]
fn an_eui_64_that_the_kernel_writes_with_blanks_is_hidden_and_stays_the_same_everywhere() {
    let report = json!({"disks": [{"eui64": "0025385b71b01234", "wwid": "eui.0025385b71b01234"}]});
    let files = recorded(&[
        ("sys/block/nvme0n1/eui", b"00 25 38 5b 71 b0 12 34\n"),
        ("sys/block/nvme0n1/wwid", b"eui.0025385b71b01234\n"),
    ]);
    let files = anonymous(&files, &report);
    let eui = text(&files, "sys/block/nvme0n1/eui").trim().replace(' ', "");
    assert!(eui.starts_with("002538") && eui != "0025385b71b01234", "{eui}");
    assert_eq!(text(&files, "sys/block/nvme0n1/wwid"), format!("eui.{eui}\n"));
}

#[test]
fn a_serial_number_within_a_wwid_is_hidden_even_if_it_is_a_number_or_looks_like_a_word() {
    // A number like a MAC; a number of digits alone; both as text, as digits, and in swapped pairs.
    for serial in ["20472B8DA5C0", "20472b8da5c0", "48151623", "SATASER"] {
        let hex = formats::hex::hex(serial.as_bytes());
        let wwid = format!("nvme.1344-{hex}-4d4f44454c-00000001\n");
        let ata = format!("t10.ATA     MODEL                                   {serial:<20}\n");
        let swapped: Vec<u8> =
            serial.as_bytes().chunks(2).flat_map(|p| p.iter().rev().copied()).collect();
        let report = json!({"disks": [{"serial": serial}, {"wwn": serial}]});
        let files = recorded(&[
            ("sys/block/nvme0n1/wwid", wwid.as_bytes()),
            ("sys/block/sda/device/wwid", ata.as_bytes()),
            ("kernel/ata/sda", &swapped),
            ("sys/block/nvme0n1/device/serial", serial.as_bytes()),
        ]);
        let files = anonymous(&files, &report);
        let put = text(&files, "sys/block/nvme0n1/device/serial");
        assert_ne!(put, serial);
        let found = text(&files, "sys/block/nvme0n1/wwid");
        assert!(!found.contains(&hex), "{found}");
        let hex = formats::hex::hex(put.as_bytes());
        assert!(found.starts_with(&format!("nvme.1344-{hex}-")), "{serial}: {found}");
        let found = text(&files, "sys/block/sda/device/wwid");
        assert!(found.contains(&put) && !found.contains(serial), "{found}");
        if serial.len().is_multiple_of(2) {
            assert_ne!(files["kernel/ata/sda"], swapped);
        }
    }
}

#[test]
fn the_identifier_of_a_multipath_device_is_hidden_whatever_its_form() {
    for (uuid, secret) in [
        ("mpath-3600508b1001cabcdef4567890123456", "abcdef4567890123456"),
        ("mpath-3600508b1001c4d41aabbccddeeff0011", "aabbccddeeff0011"),
        ("part1-mpath-3600508b1001c4d41aabbccddeeff0011", "aabbccddeeff0011"),
        ("mpath-eui.0025385b71b01234", "5b71b01234"),
        ("mpath-20025385b71b01234", "5b71b01234"),
        ("mpath-nvme.144d-533634474e453052313233-51454d55-00000001", "533634474e453052313233"),
        ("mpath-SATA_Samsung_SSD_S64GNE0R123456", "S64GNE0R123456"),
        ("mpath-1IBM     IPR-0   5EC2590000000080", "5EC2590000000080"),
    ] {
        let content = format!("{uuid}\n");
        let files = recorded(&[("sys/block/dm-0/dm/uuid", content.as_bytes())]);
        let found = text(&anonymous(&files, &json!({})), "sys/block/dm-0/dm/uuid");
        assert!(!found.contains(secret) && found.len() == content.len(), "{uuid}: {found}");
        assert!(found.contains("mpath-"), "{found}");
    }
}
