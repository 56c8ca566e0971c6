//! Reads disks back: good ones, wrong ones, and damaged ones.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use formats::digest;
use run_coreos_installer::api::{CheckName, Install, Proof};
use run_coreos_installer::proof::{Expected, prove};
use serde_json::{Value, json};

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
}

impl Drop for Disk {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

fn install(extra: &Value) -> Install {
    let mut value = json!({"ignition": {"inline": IGNITION}});
    value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    serde_json::from_value(value).unwrap()
}

fn proof_of(
    image: &[u8],
    sector_bytes: u64,
    asked: &Value,
    others: Vec<probes::block::Disk>,
) -> Proof {
    let disk = Disk::new(image);
    prove(Expected {
        disk: Arc::new(fs::File::open(&disk.0).unwrap()),
        sector_bytes,
        ignition_digest: digest::sha512(IGNITION.as_bytes()),
        install: install(asked),
        is_uefi: true,
        others,
    })
}

fn failed(proof: &Proof) -> Vec<CheckName> {
    proof.checks.iter().filter(|check| !check.ok).map(|check| check.name).collect()
}

#[test]
fn a_good_disk_is_proved_with_either_sector_size() {
    for sector in [512, 4096] {
        let Some(image) = image::with_sectors(sector, IGNITION, OPTIONS) else { return };
        let asked = json!({
            "append_kargs": ["a=1"], "delete_kargs": ["b"], "platform": "metal",
            "console": ["ttyS0"], "firstboot_args": "ip=dhcp",
        });
        let proof = proof_of(&image, sector as u64, &asked, vec![]);
        assert_eq!(failed(&proof), [], "{proof:#?}");
        assert_eq!(proof.checks.len(), 10);
    }
}

#[test]
fn a_fat_boot_file_system_is_read_too() {
    let proof = proof_of(&image::with_fat_boot(IGNITION, OPTIONS), 512, &json!({}), vec![]);
    assert_eq!(failed(&proof), [], "{proof:#?}");
}

#[test]
fn each_difference_from_the_instruction_is_detected() {
    let Some(image) = image::coreos(IGNITION, OPTIONS) else { return };
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
    let mut no_loader = image.clone();
    no_loader[(1 << 20)..(9 << 20)].fill(0);
    assert_eq!(failed(&proof_of(&no_loader, 512, &json!({}), vec![])), [CheckName::EspLoader]);
    let mut no_boot = image.clone();
    no_boot[(9 << 20)..(25 << 20)].fill(0);
    assert_eq!(failed(&proof_of(&no_boot, 512, &json!({}), vec![])), [CheckName::BootFilesystem]);
    assert_eq!(failed(&proof_of(&image, 4096, &json!({}), vec![])), [CheckName::PartitionTable]);
}

/// Checks that this change of a good disk fails these checks.
fn assert_fails(name: &str, change: impl Fn(&mut Vec<u8>), expected: &[CheckName]) {
    let Some(mut image) = image::coreos(IGNITION, OPTIONS) else { return };
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
    assert_fails(
        "no root",
        |image| image::without_root_partition(image),
        &[CheckName::RootFilesystem],
    );
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
    let larger = |image: &mut Vec<u8>| {
        image::put(image, 2, &image::xfs("root", 8)[..4 << 20]);
    };
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
    let no_header = |image: &mut Vec<u8>| {
        let end = image.len();
        image[end - 512..].fill(0);
    };
    assert_fails("no header", no_header, &[CheckName::BackupTable]);
    let no_entries = |image: &mut Vec<u8>| {
        let end = image.len();
        image[end - 33 * 512..end - 512].fill(0);
    };
    assert_fails("no entries", no_entries, &[CheckName::BackupTable]);
    let other = |image: &mut Vec<u8>| {
        let mut copy = image.clone();
        image::without_root_partition(&mut copy);
        let end = image.len();
        image[end - 33 * 512..].copy_from_slice(&copy[end - 33 * 512..]);
    };
    assert_fails("other entries", other, &[CheckName::BackupTable]);
}

#[test]
fn disk_without_the_first_boot_stamp_is_not_proved() {
    let mut files = image::boot_files(IGNITION, OPTIONS);
    files.retain(|(path, _)| *path != "ignition.firstboot");
    let Some(image) = image::with_boot_files(512, &files) else { return };
    let proof = proof_of(&image, 512, &json!({}), vec![]);
    assert_eq!(failed(&proof), [CheckName::FirstbootStamp], "{proof:#?}");
}

#[test]
fn every_boot_entry_must_have_the_arguments_and_the_platform() {
    let mut files = image::boot_files(IGNITION, OPTIONS);
    files.push(("loader/entries/0-old.conf", "options quiet\n".to_owned()));
    let Some(image) = image::with_boot_files(512, &files) else { return };
    let proof = proof_of(&image, 512, &json!({"append_kargs": ["a=1"]}), vec![]);
    assert_eq!(failed(&proof), [CheckName::KernelArguments, CheckName::Platform], "{proof:#?}");
}

#[test]
fn a_second_boot_label_on_another_disk_is_reported_but_not_fatal() {
    let Some(image) = image::coreos(IGNITION, OPTIONS) else { return };
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
    let proof = prove(Expected {
        disk: Arc::new(fs::File::open("/dev/null").unwrap()),
        sector_bytes: 512,
        ignition_digest: String::new(),
        install: install(&json!({})),
        is_uefi: false,
        others: vec![],
    });
    assert_eq!(failed(&proof), [CheckName::PartitionTable]);
}

#[test]
fn damaged_file_systems_neither_hang_nor_crash() {
    let Some(good) = image::coreos(IGNITION, OPTIONS) else { return };
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
