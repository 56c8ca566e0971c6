//! Metadata of arrays and pools at the end of a disk, which the image does not overwrite.

use std::fs;

use run_coreos_installer::exit_status::ExitStatus;
use serde_json::{Value, json};

use super::image;
use super::install::{Job, check};
use super::machine::IGNITION;
use super::mock::assert_says;

const SIZE: u64 = 64 << 20;
/// A superblock of md 0.90 for the whole disk, and one of Promise at one of its 13 places.
const MD: (u64, &[u8]) = (SIZE - (64 << 10), &[0xfc, 0x4e, 0x2b, 0xa9, 0, 0, 0, 0, 90]);
const PROMISE: (u64, &[u8]) = (SIZE - 3087 * 512, b"Promise Technology, Inc.");

/// A machine whose disk has this at its end, and an installer that writes the image.
fn job(keys: Value, remains: &[(u64, &[u8])]) -> Job {
    let image = image::coreos(IGNITION, "quiet ignition.platform.id=metal");
    let job = Job::new(keys).writes(&image);
    for (at, bytes) in remains {
        job.machine.put(bytes, *at);
    }
    job
}

fn by_serial() -> Value {
    json!({"disk": {"hints": {"serial": "SERIAL-sda"}}})
}

#[test]
fn metadata_that_the_image_leaves_is_erased_and_reported() {
    let mut job = job(by_serial(), &[MD, PROMISE]);
    let erased = [
        format!("promise_fasttrack_raid_member at byte {}", PROMISE.0),
        format!("linux_raid_member at byte {}", MD.0),
    ];
    let result = job.ends(ExitStatus::Done, &json!({"erased": erased}));
    assert_eq!(check(&result, "signatures").unwrap()["ok"], true);
    let found = &result["existing_data"][0];
    assert_eq!(found, &json!({"name": "sda", "what": "promise_fasttrack_raid_member"}));
    let bytes = fs::read(job.machine.disk("sda")).unwrap();
    assert_eq!(bytes.len() as u64, SIZE);
    assert!(bytes[32 << 20..].iter().all(|byte| *byte == 0));
}

#[test]
fn disk_without_such_metadata_is_not_written_after_coreos_installer() {
    // Data of an earlier file system, which no reader looks for.
    let data: (u64, &[u8]) = (SIZE - 4096, b"some text");
    let mut job = job(by_serial(), &[data]);
    job.ends(ExitStatus::Done, &json!({"erased": null}));
    let bytes = fs::read(job.machine.disk("sda")).unwrap();
    let at = usize::try_from(data.0).unwrap();
    assert_eq!(&bytes[at..at + data.1.len()], data.1);
}

#[test]
fn disk_that_nobody_named_is_refused_for_metadata_that_only_its_end_contains() {
    for remains in [MD, PROMISE] {
        let mut job = job(json!({}), &[remains]);
        let before = fs::read(job.machine.disk("sda")).unwrap();
        let result = job.ends(ExitStatus::Untouched, &json!({"code": "EXISTING_DATA"}));
        assert_says(&result["message"], &[&format!("at byte {}", remains.0)]);
        assert!(fs::read(job.machine.disk("sda")).unwrap() == before);
    }
}

#[test]
fn partition_to_keep_at_the_end_of_the_disk_stays_a_member() {
    let mut keys = by_serial();
    keys["save_partlabel"] = json!(["data"]);
    let mut job = job(keys, &[]);
    let machine = &mut job.machine;
    // A member of an array with its superblock 8 KiB before its end, in the last 2 MiB of the disk.
    let (first_mib, n_mib) = (60, 3);
    let superblock = ((first_mib + n_mib) << 20) - (8 << 10);
    let mut disk = fs::read(machine.disk("sda")).unwrap();
    image::only(&mut disk, &[("data", first_mib, n_mib)]);
    disk[superblock..superblock + 8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
    fs::write(machine.disk("sda"), &disk).unwrap();
    machine.collected.disks[0].partitions = vec![probes::block::Partition {
        name: "sda1".into(),
        number: Some(1),
        label: Some("data".into()),
        start_bytes: Some((first_mib as u64) << 20),
        size_bytes: Some((n_mib as u64) << 20),
        ..probes::block::Partition::default()
    }];
    let mut written = fs::read(machine.root.join("image")).unwrap();
    written.resize(64 << 20, 0);
    written[32 << 20..].copy_from_slice(&disk[32 << 20..]);
    image::with_saved(&mut written, &[("data", first_mib, n_mib)]);
    fs::write(machine.root.join("image"), &written).unwrap();
    let result = job.ends(ExitStatus::Done, &json!({"erased": null}));
    assert_eq!(check(&result, "signatures").unwrap()["ok"], true, "{result:#}");
    // Before it lies the EFI system partition, which has the trace of the install.
    assert!(fs::read(job.machine.disk("sda")).unwrap()[32 << 20..] == written[32 << 20..]);
}
