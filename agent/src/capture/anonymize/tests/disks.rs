//! Secrets that only disk sectors contain.

use formats::gpt::{ESP_TYPE, Header, crc32};
use formats::guid::Guid;

use super::places::boot_entry;
use super::*;

const DISK: [u8; 16] = [0xd1, 0x5c, 3, 4, 5, 6, 7, 0x48, 0x89, 10, 11, 12, 13, 14, 15, 16];
const PARTITION: [u8; 16] = [0xa1, 0xb2, 3, 4, 5, 6, 7, 0x48, 0x89, 10, 11, 12, 13, 14, 15, 17];
const BOOT: &str = "sys/firmware/efi/efivars/Boot0001-8be4df61-93ca-11d2-aa0d-00e098032b8c";
const FIRST: &str = "kernel/disk/sda/0-4096";
const UDEV: &str = "run/udev/data/b8:1";

/// A disk's first sectors: one partition of 128 possible ones. `damage` is 0 or spoils the entries' checksum.
fn gpt(damage: u32) -> Vec<u8> {
    let mut disk = vec![0_u8; 1024 + 128 * 128];
    disk[1024..1040].copy_from_slice(&ESP_TYPE.0);
    disk[1040..1056].copy_from_slice(&PARTITION);
    (disk[1056], disk[1064]) = (64, 99);
    disk[512..520].copy_from_slice(b"EFI PART");
    (disk[524], disk[536], disk[584], disk[592], disk[596]) = (92, 1, 2, 128, 128);
    disk[568..584].copy_from_slice(&DISK);
    let entries = crc32(&disk[1024..]) ^ damage;
    disk[600..604].copy_from_slice(&entries.to_le_bytes());
    let header = crc32(&disk[512..604]);
    disk[528..532].copy_from_slice(&header.to_le_bytes());
    disk
}

/// Returns the boot entry for a partition with this identifier in a table of this kind.
fn entry(signature: &[u8], kind: u8) -> Vec<u8> {
    let node = [&[1, 0, 0, 0][..], &[0; 16], signature, &[kind, kind]].concat();
    boot_entry("Linux", &[(4, 1, &node)])
}

#[test]
fn the_guids_that_only_a_gpt_contains_are_replaced_and_it_stays_good_or_damaged() {
    for damage in [0, 1] {
        let disk = gpt(damage);
        let parts = [(FIRST, &disk[..4096]), ("kernel/disk/sda/1024-16384", &disk[1024..])];
        let files = hidden(&parts, &json!({}), &[&DISK, &PARTITION], &[b"EFI PART"]);
        let (first, entries) = (&files[FIRST], &files[parts[1].0]);
        let header = Header::parse(&first[512..]).unwrap();
        let partitions = header.partitions(entries, 512);
        assert_eq!(partitions.is_ok(), damage == 0);
        assert!(partitions.is_err() || partitions.unwrap()[0].type_guid == ESP_TYPE);
        assert_eq!(first[1024..], entries[..3072], "both reads agree");
    }
    let mut disk = gpt(0);
    disk[528] ^= 1;
    let files = hidden(&[(FIRST, &disk[..4096])], &json!({}), &[&DISK, &PARTITION], &[]);
    assert!(Header::parse(&files[FIRST][512..]).is_err());
}

#[test]
fn a_partition_has_one_new_guid_in_the_table_the_boot_entry_and_udev() {
    let (disk, entry) = (gpt(0), entry(&PARTITION, 2));
    let udev = format!("E:ID_PART_ENTRY_UUID={}\n", Guid(PARTITION));
    let files = [("kernel/disk/sda/0-17408", &disk[..]), (BOOT, &entry), (UDEV, udev.as_bytes())];
    let files = anonymous(&files, &json!({}));
    let put = &files["kernel/disk/sda/0-17408"][1040..1056];
    assert_ne!(put, PARTITION);
    assert_eq!(files[BOOT].windows(16).filter(|bytes| bytes == &put).count(), 1);
    let guid = Guid(put.try_into().unwrap());
    assert_eq!(text(&files, UDEV), format!("E:ID_PART_ENTRY_UUID={guid}\n"));
}

#[test]
fn a_disk_has_one_new_number_in_its_boot_record_the_boot_entry_and_udev() {
    let mut record = vec![0_u8; 4096];
    (record[510], record[511], record[450]) = (0x55, 0xaa, 0x83);
    record[440..444].copy_from_slice(&[0x79, 0x5f, 0x3d, 0x1b]);
    let alone = hidden(&[(FIRST, &record)], &json!({}), &[&record[440..444]], &[&record[444..]]);

    let number = [0x79, 0x5f, 0x3d, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let (known, unsigned) = (entry(&number, 1), entry(&number, 0));
    let other = BOOT.replace("0001", "0002");
    let udev = b"E:ID_PART_ENTRY_UUID=1b3d5f79-01\n";
    let files = [(BOOT, &known[..]), (FIRST, &record), (&other, &unsigned), (UDEV, udev)];
    let files = anonymous(&files, &json!({}));
    let put = &files[FIRST][440..444];
    assert_eq!(put, &alone[FIRST][440..444]);
    assert!(files[BOOT].windows(4).any(|bytes| bytes == put));
    assert_eq!(files[BOOT].len(), known.len());
    assert_eq!(files[&other], unsigned, "no number of a master boot record");
    let digits = hex(put.iter().rev());
    assert_eq!(text(&files, UDEV), format!("E:ID_PART_ENTRY_UUID={digits}-01\n"));
}

#[test]
fn an_lvm_member_has_one_new_identifier_on_the_disk_and_in_udev() {
    let id = b"abcdefghijklmnopqrstuvwxyzABCDEF";
    let mut first = vec![0_u8; 4096];
    first[512..520].copy_from_slice(b"LABELONE");
    first[532] = 32;
    first[536..544].copy_from_slice(b"LVM2 001");
    first[544..576].copy_from_slice(id);
    hidden(&[(FIRST, &first)], &json!({}), &[id], &[b"LABELONE"]);

    let grouped = "abcdef-ghij-klmn-opqr-stuv-wxyz-ABCDEF";
    let udev = |id: &str| format!("E:ID_FS_UUID={id}\nE:ID_FS_UUID_ENC={id}\n");
    let before = udev(grouped);
    let files = anonymous(&[(FIRST, &first), (UDEV, before.as_bytes())], &json!({}));
    let put = formats::lvm::label(&files[FIRST]).unwrap().id.unwrap();
    assert_ne!(put, grouped);
    assert_eq!(text(&files, UDEV), udev(&put));
}

#[test]
fn the_names_in_an_old_copy_of_lvm_metadata_are_replaced() {
    let metadata = b"payroll {\nid = \"abcdef-ghij-klmn-opqr-stuv-wxyz-ABCDE1\"\n\
        physical_volumes {\n}\nacme {\nid = \"abcdef-ghij-klmn-opqr-stuv-wxyz-ABCDE2\"\n\
        creation_host = \"bookkeeping\"\t# Linux bookkeeping 6.1.0\n}\n}\n\0\xff";
    let mut second = vec![0_u8; 4096];
    second[512..512 + metadata.len()].copy_from_slice(metadata);
    let secrets = parts("payroll|acme|ABCDE1|ABCDE2|bookkeeping");
    let files = [("kernel/disk/sda/4096-4096", &second[..])];
    hidden(&files, &json!({}), &secrets, &[b"physical_volumes {\n}\n"]);
}
