//! Reads disks back: good ones, wrong ones, and damaged ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use formats::digest;
use run_coreos_installer::act::proof::before::{Before, Unread};
use run_coreos_installer::act::proof::{Expected, Proved, fatal, prove};
use run_coreos_installer::act::stream_facts::{Sample, StreamFacts};
use run_coreos_installer::act::{Order, System};
use run_coreos_installer::api::{Check, CheckName, Install, Proof};
use run_coreos_installer::signals::Stop;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::image;
use super::machine::IGNITION;

const OPTIONS: &str = "quiet a=1 console=ttyS0 ignition.platform.id=metal";

struct Disk(PathBuf);

impl Disk {
    fn new(bytes: &[u8]) -> Self {
        static N: AtomicU32 = AtomicU32::new(0);
        let n = N.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("rci-proof-{}-{n}", std::process::id()));
        fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn open(&self) -> Arc<fs::File> {
        Arc::new(fs::File::open(&self.0).unwrap())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.0.starts_with(std::env::temp_dir()) {
            fs::remove_file(&self.0).ok();
        }
    }
}

fn order(extra: &Value) -> Order {
    let mut value = json!({"ignition": {"inline": IGNITION}});
    value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    serde_json::from_value::<Install>(value).unwrap().into()
}

fn proof_of(
    image: &[u8],
    sector_bytes: u64,
    asked: &Value,
    others: Vec<probes::block::Disk>,
) -> Proof {
    let disk = Disk::new(image);
    prove(Expected { sector_bytes, others, ..expected(&disk, asked) }).proof
}

fn expected(disk: &Disk, asked: &Value) -> Expected {
    Expected {
        system: System::default(),
        disk: disk.open(),
        sector_bytes: 512,
        ignition_digest: digest::sha512(IGNITION.as_bytes()),
        order: order(asked),
        is_uefi: true,
        others: vec![],
        before: Before::default(),
        image: None,
    }
}

/// What is learned of an image while it is streamed, with every block of 64 KiB.
fn facts_of(image: &[u8]) -> StreamFacts {
    let sample = |(number, block): (usize, &[u8])| Sample {
        offset: (number << 16) as u64,
        n_bytes: block.len(),
        sha256: Sha256::digest(block).into(),
    };
    StreamFacts {
        head: image[..1 << 20].to_vec(),
        samples: image.chunks(1 << 16).enumerate().map(sample).collect(),
        has_all_samples: true,
        ..StreamFacts::default()
    }
}

/// The checks that failed, apart from the comparison with an unknown image.
fn failed(proof: &Proof) -> Vec<CheckName> {
    let is_unknown = |check: &&Check| check.name == CheckName::ImageContent && !check.fatal;
    let failed = proof.checks.iter().filter(|check| !check.ok && !is_unknown(check));
    failed.map(|check| check.name).collect()
}

#[test]
fn a_good_disk_is_proved_with_either_sector_size() {
    for sector in [512, 4096] {
        let image = image::with_sectors(sector, IGNITION, OPTIONS);
        let asked = json!({
            "append_kargs": ["a=1"], "delete_kargs": ["b"], "platform": "metal",
            "console": ["ttyS0"], "firstboot_args": "ip=dhcp",
        });
        let proof = proof_of(&image, sector as u64, &asked, vec![]);
        assert_eq!(failed(&proof), [], "{proof:#?}");
        assert_eq!(proof.checks.len(), 12);
    }
}

#[test]
fn a_fat_boot_file_system_is_read_too() {
    let proof = proof_of(&image::with_fat_boot(IGNITION, OPTIONS), 512, &json!({}), vec![]);
    assert_eq!(failed(&proof), [], "{proof:#?}");
}

#[test]
fn each_difference_from_the_instruction_is_detected() {
    let image = image::coreos(IGNITION, OPTIONS);
    for (asked, name) in [
        (json!({"append_kargs": ["a=2"]}), CheckName::KernelArguments),
        (json!({"append_kargs": ["a=1", "a=1"]}), CheckName::KernelArguments),
        (json!({"delete_kargs": ["quiet"]}), CheckName::KernelArguments),
        (json!({"console": ["ttyS1"]}), CheckName::KernelArguments),
        (json!({"firstboot_args": "ip=none"}), CheckName::KernelArguments),
        (json!({"platform": "qemu"}), CheckName::Platform),
    ] {
        let proof = proof_of(&image, 512, &asked, vec![]);
        assert_eq!(failed(&proof), [name], "{asked}");
    }
    assert_fails("no loader", |image| image[1 << 20..9 << 20].fill(0), &[CheckName::EspLoader]);
    assert_fails("no boot", |image| image[9 << 20..25 << 20].fill(0), &[CheckName::BootFilesystem]);
    assert_eq!(failed(&proof_of(&image, 4096, &json!({}), vec![])), [CheckName::PartitionTable]);
}

/// Checks that a disk with these files in its boot file system fails these checks.
fn assert_files_fail(files: &[(&str, String)], asked: &Value, expected: &[CheckName]) {
    let proof = proof_of(&image::with_boot_files(512, files), 512, asked, vec![]);
    assert_eq!(failed(&proof), expected, "{proof:#?}");
}

/// Checks that this change of a good disk fails these checks.
fn assert_fails(name: &str, change: impl Fn(&mut Vec<u8>), expected: &[CheckName]) {
    let mut image = image::coreos(IGNITION, OPTIONS);
    change(&mut image);
    let proof = proof_of(&image, 512, &json!({}), vec![]);
    assert_eq!(failed(&proof), expected, "{name}: {proof:#?}");
}

const ROOT: std::ops::Range<usize> = 25 << 20..29 << 20;

#[test]
fn root_file_system_of_zeros_is_not_proved() {
    assert_fails("zeros", |image| image[ROOT].fill(0), &[CheckName::RootFilesystem]);
}

#[test]
fn disk_without_a_root_partition_is_not_proved() {
    let no_root = |image: &mut Vec<u8>| image::without_root_partition(image);
    assert_fails("no root", no_root, &[CheckName::RootFilesystem]);
}

#[test]
fn disk_with_two_root_file_systems_is_not_proved() {
    let two = |image: &mut Vec<u8>| image::put(image, 0, &image::xfs("root", 4));
    assert_fails("two", two, &[CheckName::RootFilesystem, CheckName::EspLoader]);
}

#[test]
fn root_file_system_whose_end_was_not_written_is_not_proved() {
    for n_groups in 1..4 {
        let cut = |image: &mut Vec<u8>| {
            image::put(image, 2, &image::xfs("root", 4));
            image[ROOT.start + (n_groups << 20)..ROOT.end].fill(0);
        };
        assert_fails(&n_groups.to_string(), cut, &[CheckName::RootFilesystem]);
    }
    let whole = |image: &mut Vec<u8>| image::put(image, 2, &image::xfs("root", 4));
    assert_fails("whole", whole, &[]);
    let larger = |image: &mut Vec<u8>| image::put(image, 2, &image::xfs("root", 8)[..4 << 20]);
    assert_fails("larger", larger, &[CheckName::RootFilesystem]);
}

#[test]
fn root_file_system_with_another_label_is_not_proved() {
    let other = |image: &mut Vec<u8>| image::put(image, 2, &image::xfs("data", 4));
    assert_fails("label", other, &[CheckName::RootFilesystem]);
}

/// A truncated image lacks its end, where the backup of its table lies.
#[test]
fn disk_without_the_backup_of_the_table_is_not_proved() {
    const END: usize = 32 << 20;
    let entries = END - 33 * 512..END - 512;
    assert_fails("no header", |image| image[END - 512..].fill(0), &[CheckName::BackupTable]);
    assert_fails("no entries", |image| image[entries.clone()].fill(0), &[CheckName::BackupTable]);
    let other = |image: &mut Vec<u8>| {
        let mut copy = image.clone();
        image::without_root_partition(&mut copy);
        image[entries.start..].copy_from_slice(&copy[entries.start..]);
    };
    assert_fails("other entries", other, &[CheckName::BackupTable]);
}

/// The root partition grows up to them at the first boot.
#[test]
fn disk_with_metadata_of_an_array_at_its_end_is_not_proved() {
    const SIZE: usize = 32 << 20;
    let uberblock = [0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0];
    for (at, magic) in [
        (SIZE - (64 << 10), &[0xfc, 0x4e, 0x2b, 0xa9][..]),
        (SIZE - 63 * 512, b"Promise Technology, Inc."),
        (SIZE - 257 * 512, &[0xde, 0x11, 0xde, 0x11]),
        (SIZE - (128 << 10), &uberblock),
    ] {
        let put = |image: &mut Vec<u8>| image[at..at + magic.len()].copy_from_slice(magic);
        assert_fails(&at.to_string(), put, &[CheckName::Signatures]);
    }
}

#[test]
fn partition_that_is_a_member_of_an_array_is_not_proved() {
    // Version 1.0, 8 KiB before the end of the partition.
    let member = |image: &mut Vec<u8>| {
        image[ROOT.end - 8192..ROOT.end - 8184]
            .copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
    };
    assert_fails("root", member, &[CheckName::Signatures]);
}

#[test]
fn disk_without_the_first_boot_stamp_is_not_proved() {
    let mut files = image::boot_files(IGNITION, OPTIONS);
    files.retain(|(path, _)| *path != "ignition.firstboot");
    assert_files_fail(&files, &json!({}), &[CheckName::FirstbootStamp]);
}

#[test]
fn every_boot_entry_must_have_the_arguments_and_the_platform() {
    let mut files = image::boot_files(IGNITION, OPTIONS);
    files.push(("loader/entries/0-old.conf", "options quiet\n".to_owned()));
    let expected = [CheckName::KernelArguments, CheckName::Platform];
    assert_files_fail(&files, &json!({"append_kargs": ["a=1"]}), &expected);
}

#[test]
fn a_second_boot_label_on_another_disk_is_reported_but_not_fatal() {
    let image = image::coreos(IGNITION, OPTIONS);
    let clone = Disk::new(&image);
    let other = probes::block::Disk {
        device: clone.0.to_str().unwrap().into(),
        size_bytes: Some(image.len() as u64),
        logical_block_bytes: Some(512),
        ..probes::block::Disk::default()
    };
    let proof = proof_of(&image, 512, &json!({}), vec![other]);
    let check = proof.checks.iter().find(|check| check.name == CheckName::OtherBootLabels).unwrap();
    assert!(!check.ok && !check.fatal);
    let found = check.found.as_ref().unwrap();
    assert!(found.contains("partition 2"), "{found}");
    // A clone: the firmware cannot distinguish its EFI system partition from that of this disk.
    assert!(found.contains("partition 1 has the GUID of this disk's EFI system"), "{found}");
}

#[test]
fn a_disk_that_returns_no_data_is_a_failed_check() {
    let proof = prove(expected(&Disk("/dev/null".into()), &json!({}))).proof;
    assert_eq!(failed(&proof), [CheckName::PartitionTable]);
}

#[test]
fn damaged_file_systems_neither_hang_nor_crash() {
    let good = image::coreos(IGNITION, OPTIONS);
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    for _ in 0..40 {
        let mut image = good.clone();
        // Most of the structure is at the beginning of each file system.
        for _ in 0..30 {
            let (start, n_bytes) = [(1 << 20, 1 << 16), (9 << 20, 1 << 18)][random(2)];
            let at = start + random(n_bytes);
            image[at] = u8::try_from(random(256)).unwrap();
        }
        let proof = proof_of(&image, 512, &json!({}), vec![]);
        assert!(!proof.checks.is_empty());
    }
}

/// The data partition of a disk of 64 MiB: name, first MiB, MiB.
const DATA: (&str, usize, usize) = ("data", 40, 20);

/// A disk with a partition to keep, and what is read of it before the write.
fn disk_with_data(asked: &Value) -> (Vec<u8>, Result<Before, Unread>) {
    let mut bytes = vec![0; 64 << 20];
    image::only(&mut bytes, &[("old", 1, 30), DATA]);
    for (at, byte) in bytes[DATA.1 << 20..(DATA.1 + DATA.2) << 20].iter_mut().enumerate() {
        *byte = u8::try_from(at % 251).unwrap();
    }
    let disk = Disk::new(&bytes);
    let before = Before::read(&disk.open(), 512, &order(asked), &std::env::temp_dir());
    (bytes, before)
}

#[test]
fn saved_partitions_are_compared_with_what_they_were() {
    let image = image::coreos(IGNITION, OPTIONS);
    let asked = json!({"save_partlabel": ["dat*"]});
    let (mut good, before) = disk_with_data(&asked);
    let before = before.unwrap();
    assert_eq!(before.saved.len(), 1);
    good[..32 << 20].copy_from_slice(&image);
    image::with_saved(&mut good, &[DATA]);
    let failed_of = |bytes: &[u8]| {
        let disk = Disk::new(bytes);
        failed(&prove(Expected { before: before.clone(), ..expected(&disk, &asked) }).proof)
    };
    assert_eq!(failed_of(&good), []);
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        failed_of(&bytes)
    };
    let saved = [CheckName::SavedPartitions];
    assert_eq!(changed(&|bytes| bytes[DATA.1 << 20] ^= 1), saved);
    assert_eq!(changed(&|bytes| bytes[((DATA.1 + DATA.2) << 20) - 1] ^= 1), saved);
    assert_eq!(changed(&|bytes| bytes[45 << 20..46 << 20].fill(0)), saved);
    assert_eq!(changed(&|bytes| image::with_saved(bytes, &[])), saved);
    for other in [("data", 39, 20), ("data", 40, 19), ("Data", 40, 20)] {
        assert_eq!(changed(&|bytes| image::with_saved(bytes, &[other])), saved, "{other:?}");
    }
    // With saved partitions the table is one for the whole disk.
    let at_the_images_end = changed(&|bytes| {
        let mut part = bytes[..62 << 20].to_vec();
        image::with_saved(&mut part, &[DATA]);
        bytes[..62 << 20].copy_from_slice(&part);
    });
    assert_eq!(at_the_images_end, [CheckName::BackupTable]);
}

#[test]
fn partitions_to_keep_are_selected_as_coreos_installer_selects_them() {
    let names = |asked: Value| -> Vec<String> {
        let before = disk_with_data(&asked).1.unwrap();
        before.saved.into_iter().map(|saved| saved.partition.name).collect()
    };
    assert_eq!(names(json!({"save_partlabel": ["data", "x"]})), ["data"]);
    assert_eq!(names(json!({"save_partlabel": ["Data*"]})), [""; 0]);
    assert_eq!(names(json!({"save_partindex": ["1-2"]})), ["old", "data"]);
    assert_eq!(names(json!({})), [""; 0]);
    let bad = disk_with_data(&json!({"save_partlabel": ["a**b"]})).1;
    assert!(matches!(bad, Err(Unread::Saved(_))), "{bad:?}");
}

/// What `coreos-installer pxe network wrap` of 0.27.0 writes for two profiles of 18 bytes.
const APPENDED: &[u8] = include_bytes!("../../agent/src/act/proof/testdata/network.img");

#[test]
fn network_profiles_must_be_on_the_disk_where_either_version_of_coreos_installer_puts_them() {
    let dir = std::env::temp_dir().join(format!("rci-proof-network-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let profiles =
        ["a", "b"].map(|id| (format!("{id}.nmconnection"), format!("[connection]\nid={id}\n")));
    for (name, text) in &profiles {
        fs::write(dir.join(name), text).unwrap();
    }
    let asked = json!({"copy_network": true});
    let empty = Disk::new(&[0; 4096]);
    let before = Before::read(&empty.open(), 512, &order(&asked), &dir).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    let unread = Before::read(&empty.open(), 512, &order(&asked), &dir);
    assert!(matches!(unread, Err(Unread::Network(_))), "{unread:?}");
    let entry = format!("title x\nlinux /v\ninitrd /i/initramfs.img\noptions {OPTIONS}\n");
    let failed_with = |more: &[(&'static str, Vec<u8>)]| -> Vec<CheckName> {
        let mut files: Vec<(&str, Vec<u8>)> = image::boot_files(IGNITION, OPTIONS)
            .into_iter()
            .map(|(path, text)| (path, text.into_bytes()))
            .collect();
        files.retain(|(path, _)| *path != "loader/entries/a.conf");
        files.push(("loader/entries/a.conf", entry.clone().into_bytes()));
        files.extend_from_slice(more);
        let disk = Disk::new(&image::with_boot_files(512, &files));
        failed(&prove(Expected { before: before.clone(), ..expected(&disk, &asked) }).proof)
    };
    let initramfs = |content: &[u8]| ("i/initramfs.img", content.to_vec());
    let in_boot = |name, text: &str| (name, text.as_bytes().to_vec());
    let a = in_boot("coreos-firstboot-network/a.nmconnection", &profiles[0].1);
    let b = in_boot("coreos-firstboot-network/b.nmconnection", &profiles[1].1);
    let other = in_boot("coreos-firstboot-network/b.nmconnection", "[connection]\nid=x\n");
    let appended = initramfs(&[&vec![7; 70_000], APPENDED].concat());
    let plain = initramfs(&vec![7; 70_000]);
    let missing = vec![CheckName::NetworkFiles];
    for (files, expected) in [
        (vec![a.clone(), b.clone(), plain.clone()], vec![]),
        (vec![appended], vec![]),
        (vec![plain.clone()], missing.clone()),
        (vec![], missing.clone()),
        (vec![a.clone(), plain.clone()], missing.clone()),
        (vec![a, other, plain], missing),
    ] {
        let failed = failed_with(&files);
        assert_eq!(
            failed,
            expected,
            "{:?}",
            files.iter().map(|(path, _)| path).collect::<Vec<_>>()
        );
    }
}

#[test]
fn kernel_and_initramfs_must_have_the_digest_in_the_name_of_their_directory() {
    let (kernel, initramfs) = (vec![5_u8; 70_000], vec![7_u8; 1_500_001]);
    let digest = digest::sha256(&[&kernel[..], &initramfs].concat()).replace("sha256-", "");
    let found = |asked: &Value, kernel: &[u8], initramfs: &[u8], more: Option<&[&str]>| {
        let dir = format!("ostree/test-{digest}");
        let entry = format!(
            "linux /boot/{dir}/vmlinuz-6.1\ninitrd /boot/{dir}/initramfs-6.1.img\noptions {OPTIONS}\n"
        );
        let mut files: Vec<(String, Vec<u8>)> = image::boot_files(IGNITION, OPTIONS)
            .into_iter()
            .filter(|(path, _)| !path.starts_with("loader"))
            .map(|(path, text)| (path.to_owned(), text.into_bytes()))
            .collect();
        files.push(("loader/entries/a.conf".into(), entry.into_bytes()));
        // In place of the link to itself that OSTree puts there.
        let dirs =
            more.map_or_else(Vec::new, |more| [(format!("boot/{dir}"), more), (dir, more)].into());
        for (dir, more) in dirs {
            files.push((format!("{dir}/vmlinuz-6.1"), kernel.to_vec()));
            files.push((format!("{dir}/initramfs-6.1.img"), initramfs.to_vec()));
            files.push((format!("{dir}/.vmlinuz-6.1.hmac"), b"x".to_vec()));
            files.extend(more.iter().map(|name| (format!("{dir}/{name}"), b"x".to_vec())));
        }
        let files: Vec<(&str, &[u8])> =
            files.iter().map(|(path, bytes)| (path.as_str(), &bytes[..])).collect();
        let disk = Disk::new(&image::with_boot_files(512, &files));
        let mut expected = expected(&disk, asked);
        expected.before.profiles = (*asked != json!({})).then(BTreeMap::default);
        let checks = prove(expected).proof.checks;
        checks.into_iter().find(|check| check.name == CheckName::BootFiles)
    };
    let none = json!({});
    let good = found(&none, &kernel, &initramfs, Some(&[]));
    let good = good.unwrap();
    assert!(good.ok && good.fatal, "{good:?}");
    assert!(good.found.unwrap().contains("2 MiB with the digest"));
    let mut damaged = initramfs.clone();
    damaged[1_500_000] ^= 1;
    let bad = found(&none, &kernel, &damaged, Some(&[])).unwrap();
    assert!(!bad.ok && bad.fatal, "{bad:?}");
    assert!(!found(&none, &damaged, &initramfs, Some(&[])).unwrap().ok);
    // Network profiles are appended, with zeros before them.
    let network = json!({"copy_network": true});
    for zeros in [&[][..], &[0; 3]] {
        let appended = [&initramfs[..], zeros, APPENDED].concat();
        assert!(found(&network, &kernel, &appended, Some(&[])).unwrap().ok);
        assert!(!found(&none, &kernel, &appended, Some(&[])).unwrap().ok);
    }
    assert!(found(&network, &kernel, &initramfs, Some(&[])).unwrap().ok);
    let gone = found(&none, &kernel, &initramfs, None).unwrap();
    assert!(!gone.ok && gone.fatal && gone.found.unwrap().contains(&digest));
    // The digest of a directory with a devicetree includes that.
    assert_eq!(found(&none, &kernel, &damaged, Some(&["devicetree-6.1"])), None);
}

#[test]
fn partitions_and_blocks_must_be_the_images() {
    let image = image::coreos(IGNITION, OPTIONS);
    let failed_of = |asked: &Value, change: &dyn Fn(&mut Vec<u8>)| {
        let mut disk = image.clone();
        disk.resize(48 << 20, 0);
        change(&mut disk);
        let disk = Disk::new(&disk);
        let facts = Some(facts_of(&image));
        failed(&prove(Expected { image: facts, ..expected(&disk, asked) }).proof)
    };
    let full = json!({"verify": "full", "image": {"url": "http://h/i"}});
    for asked in [json!({}), full] {
        assert_eq!(failed_of(&asked, &|_| {}), []);
        // Free space of the EFI system partition, which no reader of its files would miss.
        let esp = |disk: &mut Vec<u8>| disk[8 << 20] ^= 1;
        assert_eq!(failed_of(&asked, &esp), [CheckName::ImageContent]);
        let boot_code = |disk: &mut Vec<u8>| disk[100] ^= 1;
        assert_eq!(failed_of(&asked, &boot_code), [CheckName::ImageContent]);
        // coreos-installer writes to the boot file system, and what is beyond the image does not matter.
        assert_eq!(failed_of(&asked, &|disk| disk[24 << 20] ^= 1), []);
        assert_eq!(failed_of(&asked, &|disk| disk[40 << 20] ^= 1), []);
    }
    let more = |disk: &mut Vec<u8>| image::with_saved(&mut disk[..32 << 20], &[("data", 30, 1)]);
    assert_eq!(failed_of(&json!({}), &more), [CheckName::ImageTable, CheckName::ImageContent]);
    let fewer = |disk: &mut Vec<u8>| image::without_root_partition(&mut disk[..32 << 20]);
    assert_eq!(
        failed_of(&json!({}), &fewer),
        [CheckName::ImageTable, CheckName::RootFilesystem, CheckName::ImageContent]
    );
    // A table for the whole disk is coreos-installer's only with saved partitions.
    let whole = |disk: &mut Vec<u8>| image::with_saved(disk, &[]);
    assert_eq!(failed_of(&json!({}), &whole), [CheckName::ImageTable, CheckName::ImageContent]);
}

#[test]
fn saved_partitions_are_no_difference_from_the_image() {
    let image = image::coreos(IGNITION, OPTIONS);
    let asked = json!({"save_partlabel": ["data"]});
    let (mut disk, before) = disk_with_data(&asked);
    disk[..32 << 20].copy_from_slice(&image);
    image::with_saved(&mut disk, &[DATA]);
    let disk = Disk::new(&disk);
    let (before, image) = (before.unwrap(), Some(facts_of(&image)));
    let proof = prove(Expected { before, image, ..expected(&disk, &asked) }).proof;
    assert_eq!(failed(&proof), [], "{proof:#?}");
}

#[test]
fn disk_that_was_not_compared_with_its_image_is_never_said_to_be() {
    let disk = Disk::new(&image::with_fat_boot(IGNITION, OPTIONS));
    let content = |facts: Option<StreamFacts>, asked: &Value| {
        let proof = prove(Expected { image: facts, ..expected(&disk, asked) }).proof;
        proof.checks.into_iter().find(|check| check.name == CheckName::ImageContent).unwrap()
    };
    for facts in [None, Some(StreamFacts::default())] {
        let check = content(facts.clone(), &json!({}));
        assert!(!check.ok && !check.fatal, "{check:?}");
        assert!(check.found.unwrap().starts_with("not compared: no digests of the image"));
        let full = json!({"verify": "full", "image": {"url": "http://h/i"}});
        assert!(content(facts, &full).fatal);
    }
}

#[test]
fn blocks_of_the_boot_file_system_are_counted_as_equal_or_not_compared() {
    let image = image::coreos(IGNITION, OPTIONS);
    let mut bytes = image.clone();
    bytes[24 << 20] ^= 1;
    let disk = Disk::new(&bytes);
    let proof = prove(Expected { image: Some(facts_of(&image)), ..expected(&disk, &json!({})) });
    let checks = proof.proof.checks;
    let check = checks.iter().find(|check| check.name == CheckName::ImageContent).unwrap();
    let found = check.found.as_deref().unwrap();
    assert!(check.ok, "{found}");
    assert!(found.contains("of 256 more blocks in parts"), "{found}");
    assert!(found.contains("255 are equal and 1 were not compared"), "{found}");
}

#[test]
fn full_comparison_needs_digests_of_the_whole_image() {
    let image = image::coreos(IGNITION, OPTIONS);
    let disk = Disk::new(&image);
    let failed_with = |verify: &str, change: &dyn Fn(&mut StreamFacts)| {
        let asked = json!({"verify": verify, "image": {"url": "http://h/i"}});
        let mut facts = facts_of(&image);
        change(&mut facts);
        failed(&prove(Expected { image: Some(facts), ..expected(&disk, &asked) }).proof)
    };
    for (verify, expected) in [("full", vec![CheckName::ImageContent]), ("sample", vec![])] {
        assert_eq!(failed_with(verify, &|facts| facts.samples.clear()), expected);
        assert_eq!(failed_with(verify, &|facts| facts.has_all_samples = false), expected);
    }
}

/// A disk so large that comparing it with the image takes seconds, and what is known of the image.
fn large_disk(image: &[u8]) -> (Disk, StreamFacts) {
    const N_BLOCKS: u64 = 200_000;
    let disk = Disk::new(image);
    let size_bytes = (N_BLOCKS + 1000) << 16;
    fs::File::options().write(true).open(&disk.0).unwrap().set_len(size_bytes).unwrap();
    let (mut facts, zeros) = (facts_of(image), Sha256::digest(vec![0; 1 << 16]));
    let numbers = facts.samples.len() as u64..N_BLOCKS;
    facts.samples.extend(numbers.map(|number| Sample {
        offset: number << 16,
        n_bytes: 1 << 16,
        sha256: zeros.into(),
    }));
    (disk, facts)
}

#[test]
fn signal_during_the_proof_fails_no_check() {
    for has_stamp in [true, false] {
        let mut files = image::boot_files(IGNITION, OPTIONS);
        files.retain(|(path, _)| has_stamp || *path != "ignition.firstboot");
        let image = image::with_boot_files(512, &files);
        let (disk, facts) = large_disk(&image);
        let stop = Stop::default();
        stop.stop();
        let started = Instant::now();
        let system = System::default().until(&stop);
        let expected = Expected { system, image: Some(facts), ..expected(&disk, &json!({})) };
        let Proved { proof, is_interrupted } = prove(expected);
        // Ends the comparison, which goes on without anybody who waits for it.
        fs::File::options().write(true).open(&disk.0).unwrap().set_len(0).unwrap();
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        let failed = failed(&proof);
        assert!(is_interrupted && proof.checks.len() >= 5, "{proof:#?}");
        // What was found to be wrong until then still counts.
        assert_eq!(failed, if has_stamp { vec![] } else { vec![CheckName::FirstbootStamp] });
    }
}

#[test]
fn other_disk_that_never_responds_fails_nothing_but_its_own_check() {
    let disk = Disk::new(&image::with_fat_boot(IGNITION, OPTIONS));
    let pipe = std::env::temp_dir().join(format!("rci-proof-pipe-{}", std::process::id()));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    // Nobody writes to the pipe, so opening it as another disk never ends.
    let other = probes::block::Disk {
        device: pipe.display().to_string(),
        size_bytes: Some(1 << 20),
        ..probes::block::Disk::default()
    };
    let Proved { proof, is_interrupted } =
        prove(Expected { others: vec![other], ..expected(&disk, &json!({})) });
    fs::remove_file(&pipe).unwrap();
    assert_eq!(failed(&proof), [CheckName::OtherBootLabels], "{proof:#?}");
    assert!(fatal(&proof).is_none() && !is_interrupted);
    let found = proof.checks.last().unwrap().found.as_ref().unwrap();
    assert!(found.contains("not checked") && found.contains("no answer within"), "{found}");
}
