//! The proof of a written disk, and the firmware's boot entry for it.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use formats::gpt::Partition;
use formats::guid::Guid;
use probes::block::Disk;
use probes::guard;
use tracing::{info, warn};

use super::Ended;
use super::sequence::Job;
use crate::api::{
    Check, CheckName, Code, DiskState, Install, JobResult, OnUnproved, Outcome, Proof, Stage, State,
};
use crate::exit_status::ExitStatus;
use crate::install::erase::Erasure;
use crate::install::failure::advice;
use crate::install::target::Target;
use crate::install::{Failure, describe, efi, osmet};
use crate::proof::before::{Before, Unread};
use crate::proof::{self, Expected};
use crate::signals::Stop;
use crate::stream_facts::StreamFacts;
use crate::uuid;

/// Time limit for reading what the disk contains before the write.
const BEFORE_LIMIT: Duration = Duration::from_mins(2);
/// Time limit for reading the beginning of the live image's own image.
const MEDIUM_LIMIT: Duration = Duration::from_mins(1);
/// Time limit for erasing the table of a disk that failed.
const ERASE_LIMIT: Duration = Duration::from_mins(1);
/// What to do with a disk that failed and may boot.
const NO_BOOT: &str =
    "do not boot this disk; install again, and use another disk if it fails again";
/// Time limit for making a boot entry.
const BOOT_ENTRY_LIMIT: Duration = Duration::from_mins(1);
/// Stack of the threads for these.
const STACK_BYTES: usize = 2 << 20;

/// What was written, and where.
pub(super) struct Written<'a> {
    /// The disk, open since before the write.
    pub(super) target: &'a Target,
    /// The same disk, for reading.
    pub(super) file: Arc<File>,
    /// What was read before the write.
    pub(super) before: Before,
    /// The Ignition config.
    pub(super) ignition: &'a [u8],
    /// What was learned of the image; the live image's own is read here.
    pub(super) image: Option<StreamFacts>,
}

/// Reads what must be the same after the write.
///
/// # Errors
/// `SAVED_PARTITION`, `NETWORK`, `TARGET_IO`: what cannot be read now cannot be compared later.
pub(super) fn read_before(
    target: &Target,
    install: &Install,
    network_dir: &Path,
    stop: &Stop,
) -> Result<Before, Failure> {
    let (disk, file) = (target.disk(), Arc::new(target.direct()?));
    let (install, dir) = (install.clone(), network_dir.to_owned());
    let sector_bytes = sector_bytes(disk);
    let answer = guard::ask("before", STACK_BYTES, move || {
        Before::read(&file, sector_bytes, &install, &dir)
    });
    let failed = |code, what: String| Failure::new(code, what).advise(advice(code));
    let io = |what: String| failed(Code::TargetIo, format!("reading {}: {what}", describe(disk)));
    let answer = answer.map_err(|error| io(format!("could not start a thread: {error}")))?;
    match stop.receive(&answer, BEFORE_LIMIT) {
        Ok(Ok(Ok(before))) => Ok(before),
        Ok(Ok(Err(Unread::Saved(what)))) => Err(failed(
            Code::SavedPartition,
            format!("reading the partitions to keep on {}: {what}", describe(disk)),
        )),
        Ok(Ok(Err(Unread::Network(what)))) => {
            Err(failed(Code::Network, format!("copy_network: {what}")))
        }
        Ok(Err(panic)) => Err(io(panic)),
        Err(_) => Err(io(format!("no answer within {} s", BEFORE_LIMIT.as_secs()))),
    }
}

/// What is known of the live image's own image. Its medium may have been taken out since the write.
fn live_image(dir: &Path, disk: &Disk, stop: &Stop) -> Option<StreamFacts> {
    let (dir, disk) = (dir.to_owned(), disk.clone());
    let answer = guard::ask("osmet", STACK_BYTES, move || osmet::start::known(&dir, &disk));
    stop.receive(&answer.ok()?, MEDIUM_LIMIT).ok()?.ok()?
}

fn sector_bytes(disk: &Disk) -> u64 {
    disk.logical_block_bytes.map_or(512, u64::from)
}

impl Job<'_> {
    /// Reads the disk back.
    pub(super) fn prove(
        &mut self,
        install: &Install,
        written: Written<'_>,
        mut result: JobResult,
    ) -> Ended {
        let Written { target, file, before, ignition, image } = written;
        let disk = target.disk();
        let keep: Vec<Partition> =
            before.saved.iter().map(|saved| saved.partition.clone()).collect();
        self.event(Stage::Proof, State::Started, None);
        info!("reading {} back", disk.device);
        let is_uefi = self.settings.system.is_uefi();
        let others = self
            .collected
            .disks
            .iter()
            // The paths of a multipath LUN show the data that was just written.
            .filter(|other| {
                other.device != disk.device && other.multipath.as_ref() != Some(&disk.name)
            })
            .cloned()
            .collect();
        let mut proof = proof::prove(Expected {
            stop: self.stop.clone(),
            disk: Arc::clone(&file),
            sector_bytes: sector_bytes(disk),
            ignition_digest: formats::digest::sha512(ignition),
            install: install.clone(),
            is_uefi,
            others,
            before,
            image: match install.image {
                Some(_) => image,
                None => live_image(&self.settings.osmet_dir, disk, &self.stop),
            },
        });
        result.stage = Stage::Proof;
        let failed = proof::fatal(&proof).cloned();
        // A disk that failed the proof gets no entry, because the firmware would boot it.
        if is_uefi && failed.is_none() {
            proof.checks.push(self.boot_entry(disk, &file));
        }
        self.warnings.extend(doubts(&proof));
        let n_checks = proof.checks.len();
        result.proof = Some(proof);
        if let Some(check) = failed {
            let action = install.on_unproved.unwrap_or_default();
            let erased = (action == OnUnproved::Erase).then(|| erase(target, keep));
            return self.unproved(disk, &check, erased.as_ref(), result);
        }
        info!(n_checks, "proved: the disk contains what was asked for");
        self.event(Stage::Proof, State::Done, None);
        result.outcome = Outcome::Installed;
        result.stage = Stage::Result;
        result.message = format!("{} is installed and proved", describe(disk));
        self.end_well(result)
    }

    /// Ends the job with a disk that failed the proof.
    fn unproved(
        &mut self,
        disk: &Disk,
        check: &Check,
        erased: Option<&Result<String, String>>,
        mut result: JobResult,
    ) -> Ended {
        result.outcome = Outcome::Unproven;
        let (what_now, advice) = match erased {
            Some(Ok(what)) => {
                result.disk_state = DiskState::Erased;
                (
                    format!("; so that it does not boot, {what}"),
                    "install again, and use another disk if it fails again",
                )
            }
            Some(Err(why)) => {
                (format!("; its partition table could not be erased: {why}"), NO_BOOT)
            }
            None => (String::new(), NO_BOOT),
        };
        let message = format!(
            "{} was written, but {} is {}, expected {}{what_now}",
            describe(disk),
            check.name.as_str(),
            check.found.as_deref().unwrap_or("absent"),
            check.expected.as_deref().unwrap_or("the requested value"),
        );
        let failure = Failure::new(Code::Proof(check.name), message).advise(advice);
        self.end_badly(&mut result, &failure, ExitStatus::Unproven)
    }

    /// Makes the firmware boot the disk. A failure is reported but not fatal, since the disk may boot without it.
    fn boot_entry(&self, disk: &Disk, file: &Arc<File>) -> Check {
        let efivars = self.settings.system.efivars();
        let sector_bytes = sector_bytes(disk);
        let file = Arc::clone(file);
        // Firmware that hangs in a variable service must not prevent the result.
        let answer = guard::ask("efi", STACK_BYTES, move || {
            proof::esp::read(proof::disk::Disk::of(file), sector_bytes)
                .and_then(|(esp, loaders)| efi::ensure_entry(&efivars, &esp, &loaders))
        });
        let outcome = match answer.map(|answer| self.stop.receive(&answer, BOOT_ENTRY_LIMIT)) {
            Ok(Ok(Ok(outcome))) => outcome,
            Ok(Ok(Err(panic))) => Err(format!("it could not be made because of a bug: {panic}")),
            Ok(Err(_)) => {
                Err(format!("the firmware did not respond within {} s", BOOT_ENTRY_LIMIT.as_secs()))
            }
            Err(error) => Err(format!("no thread could be started: {error}")),
        };
        let expected = "a boot entry for the disk's EFI system partition";
        Check { fatal: false, ..proof::check(CheckName::EfiEntry, expected, outcome) }
    }
}

/// Makes a disk that failed the proof unbootable. Says what was done.
fn erase(target: &Target, keep: Vec<Partition>) -> Result<String, String> {
    let file = target.writable().map_err(|failure| failure.message)?;
    let disk = target.disk();
    let size_bytes = disk.size_bytes.ok_or("the size of the disk is unknown")?;
    let sector_bytes = sector_bytes(disk);
    let disk_guid = Guid(uuid::random_bytes().unwrap_or([0xff; 16]));
    // A disk that does not respond must not prevent the result.
    let answer = guard::ask("erase", STACK_BYTES, move || {
        Erasure { file: &file, size_bytes, sector_bytes, keep: &keep }.run(disk_guid)
    });
    let answer = answer.map_err(|error| format!("could not start a thread: {error}"))?;
    match answer.recv_timeout(ERASE_LIMIT) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => Err(panic),
        Err(_) => Err(format!("the disk did not respond within {} s", ERASE_LIMIT.as_secs())),
    }
}

/// Failed checks that do not prevent the reboot.
fn doubts(proof: &Proof) -> Vec<String> {
    let doubts: Vec<String> = proof
        .checks
        .iter()
        .filter(|check| !check.ok && !check.fatal)
        .map(|check| {
            format!(
                "{}: {}, expected {}",
                check.name.as_str(),
                check.found.as_deref().unwrap_or("absent"),
                check.expected.as_deref().unwrap_or("the requested value")
            )
        })
        .collect();
    for doubt in &doubts {
        warn!("{doubt}");
    }
    doubts
}
