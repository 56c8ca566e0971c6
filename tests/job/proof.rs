//! Reads disks back: good ones, wrong ones, and damaged ones.

use std::fs;
use std::path::PathBuf;
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
        device: disk.0.clone(),
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
        assert_eq!(proof.checks.len(), 7);
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
fn a_missing_disk_is_a_failed_check() {
    let proof = prove(Expected {
        device: "/nonexistent/disk".into(),
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
