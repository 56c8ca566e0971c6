//! Reads back what was written to the disk, without mounting anything.
//!
//! The partition table, the file system labelled `boot` with the Ignition config and the boot loader entries,
//! the EFI system partition, and the labels of all other disks. A corrupt disk can neither hang nor crash
//! the agent: reads have a budget, and the work runs on a thread of its own with a deadline.

pub mod boot;
pub mod disk;
pub mod esp;
pub mod gpt;
pub mod label;

use std::path::{Path, PathBuf};
use std::time::Duration;

use formats::gpt::{ESP_TYPE, Partition};
use probes::guard;

use crate::api::{Check, CheckName, Install, Proof};

use boot::BootFiles;
use disk::Disk;

/// How long the whole proof may take.
const LIMIT: Duration = Duration::from_mins(2);
/// Stack of the thread that reads the disk: the default of Rust's threads.
const STACK_BYTES: usize = 2 << 20;
/// The most other disks that are read.
const MAX_OTHER_DISKS: usize = 256;

/// What the disk must contain.
#[derive(Debug, Clone)]
pub struct Expected {
    /// The disk that was written.
    pub device: PathBuf,
    /// Its logical block size in bytes.
    pub sector_bytes: u64,
    /// Digest of the Ignition config, `sha512-…`.
    pub ignition_digest: String,
    /// The instruction.
    pub install: Install,
    /// Whether this machine was booted by UEFI, so that the disk must have a loader for it.
    pub is_uefi: bool,
    /// All other disks.
    pub others: Vec<probes::block::Disk>,
}

/// Reads the disk back.
///
/// A proof that does not finish, or panics, is a failed check and does not end the program.
#[must_use]
pub fn prove(expected: Expected) -> Proof {
    // A bug in the reader of a corrupt file system must not prevent the result from being reported.
    let answer = guard::ask("proof", STACK_BYTES, move || {
        let mut checks = Vec::new();
        look_at(&expected, &mut checks);
        checks
    });
    let broken = |found: &str| Proof {
        checks: vec![Check {
            name: CheckName::PartitionTable,
            ok: false,
            fatal: true,
            expected: Some("a disk that can be read".into()),
            found: Some(found.into()),
        }],
    };
    let Ok(answer) = answer else { return broken("could not start a thread to read it") };
    match answer.recv_timeout(LIMIT) {
        Ok(Ok(checks)) => Proof { checks },
        Ok(Err(panic)) => broken(&format!("reading it failed: {panic}")),
        Err(_) => broken("reading it did not finish"),
    }
}

/// The first failed check that prevents the reboot.
#[must_use]
pub fn fatal(proof: &Proof) -> Option<&Check> {
    proof.checks.iter().find(|check| !check.ok && check.fatal)
}

/// A check for `expected`; the outcome is what was found.
#[must_use]
pub fn check(name: CheckName, expected: &str, outcome: Result<String, String>) -> Check {
    let ok = outcome.is_ok();
    Check {
        name,
        ok,
        fatal: true,
        expected: (!expected.is_empty()).then(|| expected.to_owned()),
        found: Some(outcome.unwrap_or_else(|error| error)),
    }
}

fn look_at(expected: &Expected, checks: &mut Vec<Check>) {
    let opened = Disk::open(&expected.device).and_then(|mut disk| {
        let table = gpt::read(&mut disk, expected.sector_bytes)?;
        Ok((disk, table))
    });
    let (disk, table) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            checks.push(check(CheckName::PartitionTable, "a GUID partition table", Err(error)));
            return;
        }
    };
    let names: Vec<String> =
        table.iter().map(|part| format!("{} {:?}", part.number, part.name)).collect();
    checks.push(check(
        CheckName::PartitionTable,
        "a GUID partition table with partitions",
        if table.is_empty() {
            Err("a table without partitions".into())
        } else {
            Ok(names.join(", "))
        },
    ));
    look_at_boot(expected, &disk, &table, checks);
    let mut loader = check(
        CheckName::EspLoader,
        "a boot loader in the EFI system partition",
        esp::loaders(&disk, &table).map(|loaders| loaders.join(", ")),
    );
    loader.fatal = expected.is_uefi;
    checks.push(loader);
    let mut labels = check(
        CheckName::OtherBootLabels,
        "no file system labelled boot, and none of this disk's partitions, on another disk",
        other_boot_labels(&expected.others, &table),
    );
    labels.fatal = false;
    checks.push(labels);
}

/// The checks of the file system labelled `boot`.
fn look_at_boot(expected: &Expected, disk: &Disk, table: &[Partition], checks: &mut Vec<Check>) {
    let wanted = "one file system labelled boot";
    let labelled: Vec<&Partition> = table
        .iter()
        .filter(|part| {
            disk.window(part.start_bytes, part.size_bytes)
                .is_ok_and(|window| label::of(window).as_deref() == Some("boot"))
        })
        .collect();
    let opened = match labelled[..] {
        [part] => disk
            .window(part.start_bytes, part.size_bytes)
            .and_then(BootFiles::open)
            .map(|files| (part, files)),
        [] => Err("none".into()),
        _ => Err(format!("{} of them", labelled.len())),
    };
    let (part, files) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            checks.push(check(CheckName::BootFilesystem, wanted, Err(error)));
            return;
        }
    };
    checks.push(check(
        CheckName::BootFilesystem,
        wanted,
        Ok(format!("partition {}, {}", part.number, files.kind())),
    ));
    let digest = files.read("/ignition/config.ign", crate::vim::client::MAX_IGNITION_BYTES);
    let digest = digest.map(|bytes| formats::digest::sha512(&bytes));
    checks.push(check(
        CheckName::IgnitionDigest,
        &expected.ignition_digest,
        match digest {
            Ok(found) if found == expected.ignition_digest => Ok(found),
            Ok(found) => Err(found),
            Err(error) => Err(format!("/ignition/config.ign: {error}")),
        },
    ));
    let options = files.last_entry_options();
    checks.push(boot::kernel_arguments(&expected.install, options.as_deref(), &files));
    checks.push(boot::platform(&expected.install, options.as_deref()));
}

/// Looks for file systems labelled `boot` on other disks, which the initramfs may use instead, and for an EFI
/// system partition with the same GUID as this disk's, as a clone has, which the firmware may start instead.
/// Names the disks that cannot be read.
fn other_boot_labels(others: &[probes::block::Disk], own: &[Partition]) -> Result<String, String> {
    let is_clone = |part: &Partition| {
        let is_esp = |part: &Partition| part.type_guid == ESP_TYPE;
        is_esp(part) && own.iter().any(|own| is_esp(own) && own.guid == part.guid)
    };
    let mut found = Vec::new();
    let mut unread = Vec::new();
    // A drive without a medium contains nothing.
    let others = others.iter().filter(|other| other.size_bytes != Some(0));
    for (number, other) in others.enumerate() {
        let opened = other
            .size_bytes
            .filter(|_| number < MAX_OTHER_DISKS)
            .and_then(|size_bytes| Some((Disk::open(Path::new(&other.device)).ok()?, size_bytes)));
        let Some((mut disk, size_bytes)) = opened else {
            unread.push(other.device.as_str());
            continue;
        };
        let whole = disk.window(0, size_bytes).ok().and_then(label::of);
        if whole.as_deref() == Some("boot") {
            found.push(other.device.clone());
        }
        let sector_bytes = other.logical_block_bytes.map_or(512, u64::from);
        let table = gpt::read(&mut disk, sector_bytes).unwrap_or_default();
        for part in table {
            let label = disk.window(part.start_bytes, part.size_bytes).ok().and_then(label::of);
            if label.as_deref() == Some("boot") {
                found.push(format!("{} partition {}", other.device, part.number));
            }
            if is_clone(&part) {
                found.push(format!(
                    "{} partition {} has the GUID of this disk's EFI system partition",
                    other.device, part.number
                ));
            }
        }
    }
    if found.is_empty() {
        unread.truncate(16);
        let unread = unread.join(", ");
        Ok(if unread.is_empty() { "none".into() } else { format!("none; not checked: {unread}") })
    } else {
        found.truncate(16);
        Err(found.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_other_disk_is_named_and_does_not_fail_the_check() {
        let disk = |device: &str, size_bytes| probes::block::Disk {
            device: device.into(),
            size_bytes,
            ..probes::block::Disk::default()
        };
        let empty_drive = disk("/dev/rci-empty", Some(0));
        let found =
            other_boot_labels(&[disk("/dev/rci-none", Some(1 << 30)), empty_drive.clone()], &[]);
        assert_eq!(found, Ok("none; not checked: /dev/rci-none".to_owned()));
        assert_eq!(other_boot_labels(&[empty_drive], &[]), Ok("none".to_owned()));
        let unknown = other_boot_labels(&[disk("/dev/null", None)], &[]);
        assert_eq!(unknown, Ok("none; not checked: /dev/null".to_owned()));
    }
}
