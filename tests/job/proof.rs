//! Reads disks back: good ones, wrong ones, and damaged ones.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use formats::digest;
use run_coreos_installer::act::proof::before::{Before, Unread};
use run_coreos_installer::act::proof::{Expected, Proved, gpt, prove};
use run_coreos_installer::act::record::{self, Record};
use run_coreos_installer::act::stream_facts::{Sample, StreamFacts};
use run_coreos_installer::act::{Compared, Order, System};
use run_coreos_installer::api::{Check, CheckName, Install, Proof};
use run_coreos_installer::signals::Stop;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use super::image;
use super::machine::IGNITION;

const OPTIONS: &str = "quiet a=1 console=ttyS0 ignition.platform.id=metal";

/// A disk with these bytes.
fn disk(bytes: &[u8]) -> NamedTempFile {
    let mut disk = NamedTempFile::new().unwrap();
    disk.write_all(bytes).unwrap();
    disk
}

fn order(extra: &Value) -> Order {
    let mut value = json!({"ignition": {"inline": IGNITION}});
    value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    serde_json::from_value::<Install>(value).unwrap().into()
}

fn proof_of(image: &[u8], asked: &Value) -> Proof {
    prove(expected(&disk(image), asked)).proof
}

fn expected(disk: &NamedTempFile, asked: &Value) -> Expected {
    Expected {
        system: System::default(),
        disk: Arc::new(disk.reopen().unwrap()),
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
    let mut record = Record::default();
    let table = gpt::read(&mut &image[..], 512).unwrap();
    record::whole(&mut &image[..], &table.partitions, &mut record).unwrap();
    StreamFacts {
        image_bytes: Some(image.len() as u64),
        boot: record.boot,
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

fn check(proof: &Proof, name: CheckName) -> Option<&Check> {
    proof.checks.iter().find(|check| check.name == name)
}

#[test]
fn a_good_disk_is_proved_with_either_sector_size() {
    for sector in [512, 4096] {
        let image = image::with_sectors(sector, IGNITION, OPTIONS);
        let asked = json!({
            "append_kargs": ["a=1"], "delete_kargs": ["b"], "platform": "metal",
            "console": ["ttyS0"], "firstboot_args": "ip=dhcp",
        });
        let expected = |disk| Expected { sector_bytes: sector as u64, ..expected(disk, &asked) };
        let proof = prove(expected(&disk(&image))).proof;
        assert_eq!(failed(&proof), [], "{proof:#?}");
        assert_eq!(proof.checks.len(), 12);
    }
}

#[test]
fn a_fat_boot_file_system_is_read_too() {
    let proof = proof_of(&image::with_fat_boot(IGNITION, OPTIONS), &json!({}));
    assert_eq!(failed(&proof), [], "{proof:#?}");
}

#[test]
fn each_difference_from_the_instruction_is_detected() {
    let image = image::coreos(IGNITION, OPTIONS);
    for (asked, name) in [
        (json!({"append_kargs": ["a=2"]}), CheckName::KernelArguments),
        // Part of an argument is none.
        (json!({"append_kargs": ["quie"]}), CheckName::KernelArguments),
        (json!({"append_kargs": ["a=1", "a=1"]}), CheckName::KernelArguments),
        (json!({"delete_kargs": ["quiet"]}), CheckName::KernelArguments),
        (json!({"console": ["ttyS1"]}), CheckName::KernelArguments),
        (json!({"firstboot_args": "ip=none"}), CheckName::KernelArguments),
        (json!({"platform": "qemu"}), CheckName::Platform),
    ] {
        assert_eq!(failed(&proof_of(&image, &asked)), [name], "{asked}");
    }
    let other_sectors = Expected { sector_bytes: 4096, ..expected(&disk(&image), &json!({})) };
    assert_eq!(failed(&prove(other_sectors).proof), [CheckName::PartitionTable]);
}

type Damage<'a> = &'a dyn Fn(&mut Vec<u8>);

/// The checks that fail after this damage to an image.
fn failed_after(damage: Damage<'_>, image: &[u8]) -> Vec<CheckName> {
    let mut image = image.to_vec();
    damage(&mut image);
    failed(&proof_of(&image, &json!({})))
}

/// The end of the image, where the backup of its table lies, which a truncated image lacks.
const END: usize = 32 << 20;
const BOOT: std::ops::Range<usize> = 9 << 20..25 << 20;
const ROOT: std::ops::Range<usize> = 25 << 20..29 << 20;

#[test]
fn each_damage_fails_the_check_that_is_responsible_for_it() {
    use CheckName::{BackupTable, BootFilesystem, EspLoader, RootFilesystem};
    const ENTRIES: std::ops::Range<usize> = END - 33 * 512..END - 512;
    let other_entries = |image: &mut Vec<u8>| {
        let mut copy = image.clone();
        image::without_root_partition(&mut copy);
        image[ENTRIES.start..].copy_from_slice(&copy[ENTRIES.start..]);
    };
    let cut_root = |image: &mut Vec<u8>| {
        image::put(image, 2, &image::xfs("root", 4));
        image[ROOT.end - (1 << 20)..ROOT.end].fill(0);
    };
    let cases: [(&str, Damage<'_>, &[CheckName]); 12] = [
        ("no loader", &|image| image[1 << 20..9 << 20].fill(0), &[EspLoader]),
        ("no boot", &|image| image[9 << 20..25 << 20].fill(0), &[BootFilesystem]),
        ("root of zeros", &|image| image[ROOT].fill(0), &[RootFilesystem]),
        ("no root", &|image| image::without_root_partition(image), &[RootFilesystem]),
        (
            "two roots",
            &|image| image::put(image, 0, &image::xfs("root", 4)),
            &[RootFilesystem, EspLoader],
        ),
        ("whole root", &|image| image::put(image, 2, &image::xfs("root", 4)), &[]),
        (
            "larger root",
            &|image| image::put(image, 2, &image::xfs("root", 8)[..4 << 20]),
            &[RootFilesystem],
        ),
        ("end of the root not written", &cut_root, &[RootFilesystem]),
        ("label", &|image| image::put(image, 2, &image::xfs("data", 4)), &[RootFilesystem]),
        ("no backup header", &|image| image[END - 512..].fill(0), &[BackupTable]),
        ("no backup entries", &|image| image[ENTRIES].fill(0), &[BackupTable]),
        ("other backup entries", &other_entries, &[BackupTable]),
    ];
    let image = image::coreos(IGNITION, OPTIONS);
    for (name, damage, expected) in cases {
        assert_eq!(failed_after(damage, &image), expected, "{name}");
    }
}

#[test]
fn metadata_of_an_array_or_pool_at_an_end_is_not_proved() {
    let image = image::coreos(IGNITION, OPTIONS);
    for (at, magic) in [
        // Version 1.0, 8 KiB before the end of the partition.
        (ROOT.end - 8192, &[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0][..]),
        // The root partition grows up to these at the first boot.
        (END - (64 << 10), &[0xfc, 0x4e, 0x2b, 0xa9]),
        (END - 63 * 512, b"Promise Technology, Inc."),
        (END - 257 * 512, &[0xde, 0x11, 0xde, 0x11]),
        (END - (128 << 10), &[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0]),
    ] {
        let put = |image: &mut Vec<u8>| image[at..at + magic.len()].copy_from_slice(magic);
        assert_eq!(failed_after(&put, &image), [CheckName::Signatures], "{at}");
    }
}

#[test]
fn disk_without_the_first_boot_stamp_is_not_proved() {
    let mut files = image::boot_files(IGNITION, OPTIONS);
    files.retain(|(path, _)| *path != "ignition.firstboot");
    let proof = proof_of(&image::with_boot_files(512, &files), &json!({}));
    assert_eq!(failed(&proof), [CheckName::FirstbootStamp], "{proof:#?}");
}

#[test]
fn every_boot_entry_must_have_the_arguments_and_the_platform() {
    let old = ("loader/entries/0-old.conf".to_owned(), b"options quiet\n".to_vec());
    let entry = format!("title x\nlinux /v\noptions {OPTIONS}\n");
    let proof = proof_of(&with_entry(&entry, &[old]), &json!({"append_kargs": ["a=1"]}));
    assert_eq!(failed(&proof), [CheckName::KernelArguments, CheckName::Platform], "{proof:#?}");
}

#[test]
fn a_second_boot_label_on_another_disk_is_reported_but_not_fatal() {
    let image = image::coreos(IGNITION, OPTIONS);
    let clone = disk(&image);
    let other = probes::block::Disk {
        device: clone.path().to_str().unwrap().into(),
        size_bytes: Some(image.len() as u64),
        logical_block_bytes: Some(512),
        ..probes::block::Disk::default()
    };
    let proof =
        prove(Expected { others: vec![other], ..expected(&disk(&image), &json!({})) }).proof;
    let check = check(&proof, CheckName::OtherBootLabels).unwrap();
    assert!(!check.ok && !check.fatal);
    let found = check.found.as_ref().unwrap();
    assert!(found.contains("partition 2"), "{found}");
    // A clone: the firmware cannot distinguish its EFI system partition from that of this disk.
    assert!(found.contains("partition 1 has the GUID of this disk's EFI system"), "{found}");
}

#[test]
fn a_disk_that_returns_no_data_is_a_failed_check() {
    let null = Arc::new(fs::File::open("/dev/null").unwrap());
    let proof = prove(Expected { disk: null, ..expected(&disk(&[]), &json!({})) }).proof;
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
        assert!(!proof_of(&image, &json!({})).checks.is_empty());
    }
}

/// What is read before the write of a disk with these bytes and of these network profiles.
fn before(bytes: &[u8], asked: &Value, profiles: &Path) -> Before {
    let disk = Arc::new(disk(bytes).into_file());
    Before::read(&disk, 512, &order(asked), profiles).unwrap()
}

/// The data partition of a disk of 64 MiB: name, first MiB, MiB.
const DATA: (&str, usize, usize) = ("data", 40, 20);

/// A disk with a partition to keep, and what is read of it before the write.
fn disk_with_data(asked: &Value) -> (Vec<u8>, Before) {
    let mut bytes = vec![0; 64 << 20];
    image::only(&mut bytes, &[("old", 1, 30), DATA]);
    for (at, byte) in bytes[DATA.1 << 20..(DATA.1 + DATA.2) << 20].iter_mut().enumerate() {
        *byte = u8::try_from(at % 251).unwrap();
    }
    (bytes.clone(), before(&bytes, asked, Path::new("/nonexistent")))
}

#[test]
fn saved_partitions_are_compared_with_what_they_were() {
    let image = image::coreos(IGNITION, OPTIONS);
    let asked = json!({"save_partlabel": ["dat*"]});
    let (mut good, before) = disk_with_data(&asked);
    assert_eq!(before.saved.len(), 1);
    good[..32 << 20].copy_from_slice(&image);
    image::with_saved(&mut good, &[DATA]);
    let failed_with = |bytes: &[u8], image: Option<StreamFacts>| {
        let before = before.clone();
        failed(&prove(Expected { before, image, ..expected(&disk(bytes), &asked) }).proof)
    };
    assert_eq!(failed_with(&good, None), []);
    assert_eq!(failed_with(&good, Some(facts_of(&image))), [], "no difference from the image");
    let changed = |change: Damage<'_>| {
        let mut bytes = good.clone();
        change(&mut bytes);
        failed_with(&bytes, None)
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
        let saved = disk_with_data(&asked).1.saved.into_iter();
        saved.map(|saved| saved.partition.name).collect()
    };
    assert_eq!(names(json!({"save_partlabel": ["data", "x"]})), ["data"]);
    assert_eq!(names(json!({"save_partlabel": ["Data*"]})), [""; 0]);
    assert_eq!(names(json!({"save_partindex": ["1-2"]})), ["old", "data"]);
    assert_eq!(names(json!({})), [""; 0]);
}

/// An image with this boot entry, and with more files in its boot file system.
fn with_entry(entry: &str, more: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut files = more.to_vec();
    for (path, text) in image::boot_files(IGNITION, OPTIONS) {
        let text = if path.starts_with("loader") { entry.to_owned() } else { text };
        files.push((path.to_owned(), text.into_bytes()));
    }
    image::with_boot_files(512, &files)
}

/// What `coreos-installer pxe network wrap` of 0.27.0 writes for two profiles of 18 bytes.
const APPENDED: &[u8] = include_bytes!("../../agent/src/act/proof/testdata/network.img");

#[test]
fn network_profiles_must_be_on_the_disk_where_either_version_of_coreos_installer_puts_them() {
    let dir = tempfile::tempdir().unwrap();
    let profiles =
        ["a", "b"].map(|id| (format!("{id}.nmconnection"), format!("[connection]\nid={id}\n")));
    for (name, text) in &profiles {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let asked = json!({"copy_network": true});
    let empty = Arc::new(disk(&[0; 4096]).into_file());
    let unread = Before::read(&empty, 512, &order(&asked), Path::new("/nonexistent"));
    assert!(matches!(unread, Err(Unread::Network(_))), "{unread:?}");
    let before = before(&[0; 4096], &asked, dir.path());
    let entry = format!("title x\nlinux /v\ninitrd /i/initramfs.img\noptions {OPTIONS}\n");
    let failed_with = |more: &[(String, Vec<u8>)]| {
        let disk = disk(&with_entry(&entry, more));
        failed(&prove(Expected { before: before.clone(), ..expected(&disk, &asked) }).proof)
    };
    let initramfs = |content: &[u8]| ("i/initramfs.img".to_owned(), content.to_vec());
    let in_boot = |name: &str, text: &str| {
        (format!("coreos-firstboot-network/{name}.nmconnection"), text.as_bytes().to_vec())
    };
    let (a, b) = (in_boot("a", &profiles[0].1), in_boot("b", &profiles[1].1));
    let other = in_boot("b", "[connection]\nid=x\n");
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
        let paths: Vec<&String> = files.iter().map(|(path, _)| path).collect();
        assert_eq!(failed_with(&files), expected, "{paths:?}");
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
        let mut files = Vec::new();
        // In place of the link to itself that OSTree puts there.
        let dirs =
            more.map_or_else(Vec::new, |more| [(format!("boot/{dir}"), more), (dir, more)].into());
        for (dir, more) in dirs {
            files.push((format!("{dir}/vmlinuz-6.1"), kernel.to_vec()));
            files.push((format!("{dir}/initramfs-6.1.img"), initramfs.to_vec()));
            files.push((format!("{dir}/.vmlinuz-6.1.hmac"), b"x".to_vec()));
            files.extend(more.iter().map(|name| (format!("{dir}/{name}"), b"x".to_vec())));
        }
        let mut expected = expected(&disk(&with_entry(&entry, &files)), asked);
        expected.before.profiles = (*asked != json!({})).then(BTreeMap::default);
        check(&prove(expected).proof, CheckName::BootFiles).cloned()
    };
    let none = json!({});
    let good = found(&none, &kernel, &initramfs, Some(&[])).unwrap();
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
        let facts = Some(facts_of(&image));
        failed(&prove(Expected { image: facts, ..expected(&self::disk(&disk), asked) }).proof)
    };
    let full = json!({"verify": "full", "image": {"url": "http://h/i"}});
    for asked in [json!({}), full] {
        assert_eq!(failed_of(&asked, &|_| {}), []);
        // Free space of the EFI system partition, which no reader of its files would miss.
        let esp = |disk: &mut Vec<u8>| disk[8 << 20] ^= 1;
        assert_eq!(failed_of(&asked, &esp), [CheckName::ImageContent]);
        let boot_code = |disk: &mut Vec<u8>| disk[100] ^= 1;
        let expected = [CheckName::PartitionTable, CheckName::ImageContent];
        assert_eq!(failed_of(&asked, &boot_code), expected);
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
fn disk_that_was_not_compared_with_its_image_is_never_said_to_be() {
    let image = image::coreos(IGNITION, OPTIONS);
    let disk = disk(&image);
    let content = |image: Option<StreamFacts>, verify: &str| {
        let asked = json!({"verify": verify, "image": {"url": "http://h/i"}});
        let proof = prove(Expected { image, ..expected(&disk, &asked) }).proof;
        check(&proof, CheckName::ImageContent).unwrap().clone()
    };
    for facts in [None, Some(StreamFacts::default())] {
        let check = content(facts.clone(), "sample");
        assert!(!check.ok && !check.fatal, "{check:?}");
        assert!(check.found.unwrap().starts_with("not compared: no digests of the image"));
        assert!(content(facts, "full").fatal);
    }
    // A full comparison needs digests of the whole image.
    let facts = facts_of(&image);
    for part in [
        StreamFacts { samples: vec![], ..facts.clone() },
        StreamFacts { image_bytes: None, has_all_samples: false, ..facts },
    ] {
        let (sample, full) = (content(Some(part.clone()), "sample"), content(Some(part), "full"));
        assert!((sample.ok || !sample.fatal) && !full.ok && full.fatal, "{sample:?} {full:?}");
    }
}

#[test]
fn boot_file_system_that_was_not_compared_is_never_said_to_be() {
    let image = image::coreos(IGNITION, OPTIONS);
    let mut bytes = image.clone();
    bytes[24 << 20] ^= 1;
    let facts = Some(StreamFacts { boot: None, ..facts_of(&image) });
    let proof = prove(Expected { image: facts, ..expected(&disk(&bytes), &json!({})) }).proof;
    let check = check(&proof, CheckName::ImageContent).unwrap();
    let found = check.found.as_deref().unwrap();
    assert!(check.ok && proof.compared == Some(Compared::Sample), "{found}");
    assert!(found.ends_with("; the boot file system was not compared"), "{found}");
}

/// An image as CoreOS is: GRUB sets a variable that its boot loader entry uses. Files replace those of the same name.
fn with_grub(grub: &str, options: &str, more: &[(&str, &[u8])]) -> Vec<u8> {
    let entry = format!("title x\nlinux /vmlinuz\noptions {options}\n");
    let mut files: BTreeMap<&str, Vec<u8>> = BTreeMap::from([
        ("ignition/config.ign", IGNITION.into()),
        ("ignition.firstboot", Vec::new()),
        ("loader/entries/a.conf", entry.into_bytes()),
        ("grub2/grub.cfg", grub.into()),
    ]);
    files.extend(more.iter().map(|(path, content)| (*path, content.to_vec())));
    image::with_boot_files(512, &files.into_iter().collect::<Vec<_>>())
}

const GRUB: &str = "set ignition_firstboot=\"\"\nsearch --fs-uuid 0b60-4e5b\nblscfg\n";
const COREOS_OPTIONS: &str = "$ignition_firstboot ignition.platform.id=metal";

/// Changes the first of these bytes in the boot file system.
fn change(disk: &mut [u8], bytes: &[u8]) {
    let boot = &mut disk[BOOT];
    let at = boot.windows(bytes.len()).position(|window| window == bytes).unwrap();
    boot[at] ^= 1;
}

/// Runs commands of debugfs on the boot file system, which allocate and free blocks as a mounted one does.
fn debugfs(disk: &mut [u8], commands: &str) {
    let file = self::disk(&disk[BOOT]);
    let script = self::disk(commands.as_bytes());
    let mut command = std::process::Command::new(super::machine::tool("debugfs"));
    let ran = command.arg("-wf").args([script.path(), file.path()]).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    disk[BOOT].copy_from_slice(&fs::read(&file).unwrap());
}

/// The comparison of a damaged disk with its image.
fn content_of(image: &[u8], asked: &Value, damage: Damage<'_>) -> (Option<Compared>, String) {
    let mut bytes = image.to_vec();
    damage(&mut bytes);
    let image = Some(facts_of(image));
    let proof = prove(Expected { image, ..expected(&disk(&bytes), asked) }).proof;
    let content = check(&proof, CheckName::ImageContent).unwrap().clone();
    (content.ok.then_some(proof.compared).flatten(), content.found.unwrap())
}

#[test]
fn boot_files_that_nobody_writes_must_be_the_images() {
    let kernel: Vec<u8> = (0..90_000_u32).flat_map(u32::to_le_bytes).collect();
    let options = format!("{COREOS_OPTIONS} console=ttyS0,9600n8");
    let files: [(&str, &[u8]); 2] = [("vmlinuz", &kernel), ("initramfs.img", &kernel[..100_000])];
    let image = with_grub(GRUB, &options, &files);
    let found = |asked: &Value, damage: Damage<'_>| content_of(&image, asked, damage);
    let plain = json!({});
    let (compared, same) = found(&plain, &|_| {});
    assert_eq!(compared, Some(Compared::Whole), "{same}");
    let uuid = |bytes: &mut Vec<u8>| change(bytes, b"0b60-4e5b");
    let grub_of_zeros = |bytes: &mut Vec<u8>| {
        let at = BOOT.start + bytes[BOOT].windows(6).position(|w| w == b"blscfg").unwrap();
        bytes[at / 4096 * 4096..][..4096].fill(0);
    };
    let within_the_kernel = |bytes: &mut Vec<u8>| change(bytes, &70_000_u32.to_le_bytes());
    let entry = |bytes: &mut Vec<u8>| change(bytes, b"title x");
    let cases: [(Damage<'_>, &str); 4] = [
        (&uuid, "/grub2/grub.cfg"),
        (&grub_of_zeros, "/grub2/grub.cfg"),
        (&within_the_kernel, "/vmlinuz"),
        (&entry, "/loader/entries/a.conf"),
    ];
    for (damage, path) in cases {
        let (compared, why) = found(&plain, damage);
        assert!(compared.is_none() && why.contains(path), "{path}: {why}");
    }
    let stamp = "rm /ignition.firstboot\nwrite /etc/hostname /ignition.firstboot";
    for (commands, path) in [
        ("unlink /grub2/grub.cfg", "/grub2"),
        ("clri /vmlinuz", "/vmlinuz"),
        ("sif /vmlinuz size 0", "/vmlinuz"),
        ("sif /vmlinuz size 4096", "/vmlinuz"),
        ("sif /vmlinuz mode 0010644", "/vmlinuz"),
        ("copy_inode /grub2/grub.cfg /vmlinuz", "/vmlinuz"),
        (stamp, "/ignition.firstboot"),
    ] {
        let (compared, why) = found(&plain, &|bytes| debugfs(bytes, commands));
        assert!(compared.is_none() && why.contains(path), "{commands}: {why}");
    }
    // Only what the order lets coreos-installer write may differ, and only as it writes it.
    let console = json!({"console": ["ttyS0"]});
    let options = |bytes: &mut Vec<u8>| change(bytes, b"ttyS0,9600");
    assert_eq!(found(&console, &options).0, Some(Compared::Whole));
    assert_eq!(found(&plain, &options).0, None);
    for damage in [&uuid as Damage<'_>, &entry] {
        assert_eq!(found(&console, damage).0, None);
    }
    let new = disk(&[&kernel[..100_000], &[7; 10_000]].concat());
    let network = json!({"copy_network": true});
    let written = |bytes: &mut Vec<u8>| {
        // As `copy_network_config` does it: a new file takes the place of the initramfs.
        let new = new.path().display();
        let replaced = format!("rm /initramfs.img\nwrite {new} /initramfs.img\n");
        debugfs(bytes, &format!("{replaced}mkdir /coreos-firstboot-network\n"));
    };
    let (compared, why) = found(&network, &written);
    assert_eq!(compared, Some(Compared::Whole), "{why}");
}

#[test]
fn bitmaps_of_boot_must_be_sound() {
    let image = with_grub(GRUB, COREOS_OPTIONS, &[]);
    let place = |bytes: &[u8], at: usize| {
        let number = bytes[BOOT][at..at + 4].try_into().unwrap();
        BOOT.start + usize::try_from(u32::from_le_bytes(number)).unwrap() * 4096
    };
    // The bitmaps are named by the first group descriptor, in the block after the superblock.
    for at in [4096, 4100] {
        let mut bytes = image.clone();
        let start = place(&bytes, at);
        bytes[start..start + 4096].fill(0);
        assert_eq!(failed(&proof_of(&bytes, &json!({}))), [CheckName::BootFilesystem], "{at}");
    }
}

/// An image whose boot file system was made with blocks of 1 KiB, so that it has a journal, and these options.
fn with_small_blocks(options: &[&str]) -> Vec<u8> {
    let mut image = with_grub(GRUB, COREOS_OPTIONS, &[]);
    image::put(&mut image, 1, &vec![0; 16 << 20]);
    let file = self::disk(&image[BOOT]);
    let mut mkfs = std::process::Command::new(super::machine::tool("mkfs.ext4"));
    let tree = image::tree(&image::boot_files(IGNITION, OPTIONS));
    let mkfs = mkfs.args(["-q", "-F", "-b", "1024", "-L", "boot"]).args(options).arg("-d");
    assert!(mkfs.args([tree.path(), file.path()]).status().unwrap().success());
    image::put(&mut image, 1, &fs::read(&file).unwrap());
    image
}

#[test]
fn lost_journal_of_boot_is_not_proved() {
    let mut image = with_small_blocks(&[]);
    assert_eq!(failed(&proof_of(&image, &json!({}))), []);
    // The magic number and type of its superblock (kernel, `journal.rst`).
    let journal = [0xc0, 0x3b, 0x39, 0x98, 0, 0, 0, 4];
    let at = image[BOOT].windows(8).position(|window| window == journal).unwrap();
    image[BOOT][at..at + 1024].fill(0);
    assert_eq!(failed(&proof_of(&image, &json!({}))), [CheckName::BootFilesystem]);
}

#[test]
fn boot_with_the_small_inodes_of_older_images_is_read() {
    let small = with_small_blocks(&["-I", "128"]);
    let facts = Some(facts_of(&small));
    let proof = prove(Expected { image: facts, ..expected(&disk(&small), &json!({})) }).proof;
    assert_eq!((failed(&proof), proof.compared), (vec![], Some(Compared::Whole)), "{proof:#?}");
}

#[test]
fn directory_that_contains_itself_is_no_obstacle() {
    let mut image = with_grub(GRUB, COREOS_OPTIONS, &[]);
    let name = "a".repeat(250);
    debugfs(&mut image, &format!("mkdir /x\nln /x /x/{name}\nln /x /x/b{name}\n"));
    let facts = Some(facts_of(&image));
    let proof = prove(Expected { image: facts, ..expected(&disk(&image), &json!({})) }).proof;
    assert_eq!(proof.compared, Some(Compared::Sample));
}

#[test]
fn boot_record_must_be_protective_and_the_images() {
    let image = image::plain();
    for (at, asked) in [(510, json!({})), (450, json!({})), (0, json!({"save_partindex": ["9"]}))] {
        let mut bytes = image.clone();
        bytes[at] ^= 0x5a;
        let image = Some(facts_of(&image));
        let proof = prove(Expected { image, ..expected(&disk(&bytes), &asked) }).proof;
        assert!(failed(&proof).contains(&CheckName::PartitionTable), "{at}: {proof:#?}");
    }
}

#[test]
fn grub_and_every_entry_must_use_the_first_boot_stamp() {
    let with_braces = COREOS_OPTIONS.replace("$ignition_firstboot", "${ignition_firstboot}");
    for (grub, options, words) in [
        (GRUB, COREOS_OPTIONS, None),
        (GRUB, &with_braces, None),
        ("blscfg\n", "ignition.platform.id=metal", None),
        (GRUB, "ignition.platform.id=metal", Some("a.conf does not pass $ignition_firstboot")),
        ("blscfg\n", COREOS_OPTIONS, Some("grub.cfg does not set the variable")),
        ("\0\0\0", COREOS_OPTIONS, Some("grub.cfg is empty or damaged")),
        ("", COREOS_OPTIONS, Some("grub.cfg is empty or damaged")),
    ] {
        let proof = proof_of(&with_grub(grub, options, &[]), &json!({}));
        let stamp = check(&proof, CheckName::FirstbootStamp).unwrap();
        let found = stamp.found.as_deref().unwrap();
        assert_eq!(stamp.ok, words.is_none(), "{found}");
        assert!(found.contains(words.unwrap_or("/ignition.firstboot")), "{found}");
    }
}

#[test]
fn loader_and_kernel_must_be_for_this_machine() {
    let (own, other) =
        if cfg!(target_arch = "aarch64") { (0xaa64, 0x8664) } else { (0x8664, 0xaa64) };
    let with_kernel =
        |machine| with_grub(GRUB, COREOS_OPTIONS, &[("vmlinuz", &image::program(machine))]);
    let good = with_kernel(own);
    let proof = proof_of(&good, &json!({}));
    assert_eq!(failed(&proof), [], "{proof:#?}");
    assert!(check(&proof, CheckName::KernelArchitecture).unwrap().ok);
    assert_eq!(failed(&proof_of(&with_kernel(other), &json!({}))), [CheckName::KernelArchitecture]);
    let mut bytes = good;
    for machine in [other, 0] {
        image::put(&mut bytes, 0, &image::esp_with(512, machine));
        assert_eq!(failed(&proof_of(&bytes, &json!({}))), [CheckName::EspLoader], "{machine:x}");
    }
}

/// A disk so large that comparing it with the image takes seconds, and what is known of the image.
fn large_disk(image: &[u8]) -> (NamedTempFile, StreamFacts) {
    const N_BLOCKS: u64 = 200_000;
    let disk = disk(image);
    disk.as_file().set_len((N_BLOCKS + 1000) << 16).unwrap();
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
        disk.as_file().set_len(0).unwrap();
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        let failed = failed(&proof);
        assert!(is_interrupted && proof.checks.len() >= 5, "{proof:#?}");
        // What was found to be wrong until then still counts.
        assert_eq!(failed, if has_stamp { vec![] } else { vec![CheckName::FirstbootStamp] });
    }
}
