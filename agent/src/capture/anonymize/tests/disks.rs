//! What only the sectors of a disk or the list of mounts contain.

use formats::crc::crc32;
use formats::gpt::Header;
use formats::guid::Guid;

use super::*;

const DISK: [u8; 16] = [0xd1, 0x5c, 3, 4, 5, 6, 7, 0x48, 0x89, 10, 11, 12, 13, 14, 15, 16];
const PARTITION: [u8; 16] = [0xa1, 0xb2, 3, 4, 5, 6, 7, 0x48, 0x89, 10, 11, 12, 13, 14, 15, 17];
const BOOT: &str = "sys/firmware/efi/efivars/Boot0001-8be4df61-93ca-11d2-aa0d-00e098032b8c";

/// A disk's first sectors: one partition of 128 possible ones.
fn gpt() -> Vec<u8> {
    let mut disk = vec![0_u8; 1024 + 128 * 128];
    disk[1024..1040].copy_from_slice(&formats::gpt::ESP_TYPE.0);
    disk[1040..1056].copy_from_slice(&PARTITION);
    (disk[1056], disk[1064]) = (64, 99);
    disk[512..520].copy_from_slice(b"EFI PART");
    disk[524] = 92;
    disk[536] = 1;
    disk[568..584].copy_from_slice(&DISK);
    disk[584] = 2;
    (disk[592], disk[596]) = (128, 128);
    let entries = crc32(&disk[1024..]);
    disk[600..604].copy_from_slice(&entries.to_le_bytes());
    let header = crc32(&disk[512..604]);
    disk[528..532].copy_from_slice(&header.to_le_bytes());
    disk
}

fn contains(files: &BTreeMap<String, Vec<u8>>, secret: &[u8]) -> bool {
    files.values().any(|content| content.windows(secret.len()).any(|bytes| bytes == secret))
}

#[test]
fn the_guids_that_only_a_gpt_contains_are_replaced_and_it_stays_valid() {
    let disk = gpt();
    let parts =
        [("kernel/disk/sda/0-4096", &disk[..4096]), ("kernel/disk/sda/1024-16384", &disk[1024..])];
    let files = anonymous(&recorded(&parts), &json!({}));
    assert!(!contains(&files, &DISK) && !contains(&files, &PARTITION));
    let (first, entries) = (&files[parts[0].0], &files[parts[1].0]);
    let header = Header::parse(&first[512..]).unwrap();
    let partitions = header.partitions(entries, 512).unwrap();
    assert_eq!(partitions[0].type_guid, formats::gpt::ESP_TYPE);
    assert_eq!(first[1024..], entries[..3072], "both reads agree");
}

#[test]
fn the_guids_of_a_damaged_gpt_are_replaced_and_it_stays_damaged() {
    let mut disk = gpt();
    disk[528] ^= 1;
    let files = anonymous(&recorded(&[("kernel/disk/sda/0-4096", &disk[..4096])]), &json!({}));
    assert!(!contains(&files, &DISK) && !contains(&files, &PARTITION));
    assert!(Header::parse(&files["kernel/disk/sda/0-4096"][512..]).is_err());
}

#[test]
fn a_partition_has_one_new_guid_in_the_table_the_boot_entry_and_udev() {
    let node = [&[4, 1, 42, 0, 1, 0, 0, 0][..], &[0; 16], &PARTITION, &[2, 2]].concat();
    let path = [&node[..], &formats::device_path::END].concat();
    let entry = formats::efi::LoadOption::encode(1, "Linux", &path).unwrap();
    let entry = [&[7, 0, 0, 0][..], &entry].concat();
    let udev = format!("E:ID_PART_ENTRY_UUID={}\n", Guid(PARTITION));
    let files = [
        ("kernel/disk/sda/0-17408", &gpt()[..]),
        (BOOT, &entry),
        ("run/udev/data/b8:1", udev.as_bytes()),
    ];
    let files = anonymous(&recorded(&files), &json!({}));
    let put = &files["kernel/disk/sda/0-17408"][1040..1056];
    assert_ne!(put, PARTITION);
    assert_eq!(files[BOOT].windows(16).filter(|bytes| bytes == &put).count(), 1);
    let guid = Guid(put.try_into().unwrap());
    assert_eq!(text(&files, "run/udev/data/b8:1"), format!("E:ID_PART_ENTRY_UUID={guid}\n"));
}

#[test]
fn a_disk_has_one_new_number_in_its_boot_record_the_boot_entry_and_udev() {
    let mut record = vec![0_u8; 4096];
    (record[510], record[511], record[450]) = (0x55, 0xaa, 0x83);
    record[440..444].copy_from_slice(&[0x79, 0x5f, 0x3d, 0x1b]);
    let alone = anonymous(&recorded(&[("kernel/disk/sda/0-4096", &record)]), &json!({}));
    assert!(!contains(&alone, &[0x79, 0x5f, 0x3d, 0x1b]));
    assert_eq!(alone["kernel/disk/sda/0-4096"][444..], record[444..]);

    let number = [0x79, 0x5f, 0x3d, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let node = [&[4, 1, 42, 0, 1, 0, 0, 0][..], &[0; 16], &number, &[1, 1]].concat();
    let path = [&node[..], &formats::device_path::END].concat();
    let entry = formats::efi::LoadOption::encode(1, "Linux", &path).unwrap();
    let entry = [&[7, 0, 0, 0][..], &entry].concat();
    let files = [
        ("kernel/disk/sda/0-4096", &record[..]),
        (BOOT, &entry),
        ("run/udev/data/b8:1", b"E:ID_PART_ENTRY_UUID=1b3d5f79-01\n"),
    ];
    let files = anonymous(&recorded(&files), &json!({}));
    let put = &files["kernel/disk/sda/0-4096"][440..444];
    assert_eq!(put, &alone["kernel/disk/sda/0-4096"][440..444]);
    assert!(files[BOOT].windows(4).any(|bytes| bytes == put));
    let digits = formats::hex::hex(put.iter().rev());
    assert_eq!(text(&files, "run/udev/data/b8:1"), format!("E:ID_PART_ENTRY_UUID={digits}-01\n"));
}

#[test]
fn an_lvm_member_has_one_new_identifier_on_the_disk_and_in_udev() {
    let id = "abcdefghijklmnopqrstuvwxyzABCDEF";
    let mut first = vec![0_u8; 4096];
    first[512..520].copy_from_slice(b"LABELONE");
    first[532] = 32;
    first[536..544].copy_from_slice(b"LVM2 001");
    first[544..576].copy_from_slice(id.as_bytes());
    let alone = anonymous(&recorded(&[("kernel/disk/sda/0-4096", &first)]), &json!({}));
    assert!(!contains(&alone, id.as_bytes()));

    let grouped = "abcdef-ghij-klmn-opqr-stuv-wxyz-ABCDEF";
    let udev = format!("E:ID_FS_UUID={grouped}\nE:ID_FS_UUID_ENC={grouped}\n");
    let files = [("kernel/disk/sda/0-4096", &first[..]), ("run/udev/data/b8:0", udev.as_bytes())];
    let files = anonymous(&recorded(&files), &json!({}));
    let put = formats::lvm::label(&files["kernel/disk/sda/0-4096"]).unwrap().id.unwrap();
    assert_ne!(put, grouped);
    let udev = text(&files, "run/udev/data/b8:0");
    assert_eq!(udev, format!("E:ID_FS_UUID={put}\nE:ID_FS_UUID_ENC={put}\n"));
}

#[test]
fn the_names_in_an_old_copy_of_lvm_metadata_are_replaced() {
    let metadata = b"payroll {\nid = \"abcdef-ghij-klmn-opqr-stuv-wxyz-ABCDE1\"\n\
        physical_volumes {\n}\nacme {\nid = \"abcdef-ghij-klmn-opqr-stuv-wxyz-ABCDE2\"\n\
        creation_host = \"bookkeeping\"\t# Linux bookkeeping 6.1.0\n}\n}\n\0\xff";
    let mut second = vec![0_u8; 4096];
    second[512..512 + metadata.len()].copy_from_slice(metadata);
    let files = anonymous(&recorded(&[("kernel/disk/sda/4096-4096", &second)]), &json!({}));
    for secret in ["payroll", "acme", "ABCDE1", "ABCDE2", "bookkeeping"] {
        assert!(!contains(&files, secret.as_bytes()), "{secret}");
    }
    assert!(contains(&files, b"physical_volumes {\n}\n"));
}

#[test]
fn a_server_that_only_the_list_of_mounts_names_is_replaced() {
    let mounts = "36 35 0:45 / /mnt rw - nfs filer:/x rw,addr=10.7.8.9\n\
                  37 35 0:46 / /b rw - cifs //store/share rw,username=bob,domain=corp\n\
                  38 35 0:47 / /c rw - nfs4 nas.acme.example:/x rw,clientaddr=10.7.8.8\n\
                  39 35 0:48 / /d rw - cgroup cgroup rw,name=systemd\n\
                  40 35 8:1 / /store rw - ext4 /dev/sda1 rw\n";
    for path in ["proc/self/mountinfo", "proc/mounts"] {
        let files = anonymous(&recorded(&[(path, mounts.as_bytes())]), &json!({}));
        let put = text(&files, path);
        for secret in ["filer", "//store", "bob", "corp", "acme", "nas.", "10.7.8"] {
            assert!(!put.contains(secret), "{secret} in {put}");
        }
        assert!(put.contains(" /store rw - ext4 /dev/sda1 rw\n"), "{put}");
        assert!(put.contains("/share rw,username=") && put.contains(",name=systemd\n"), "{put}");
    }
}
