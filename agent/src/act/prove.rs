//! The proof of a written disk, and the firmware's boot entry for it.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use formats::gpt::Partition;
use formats::guid::Guid;
use probes::block::Disk;
use tracing::{info, warn};

use super::efi::{Bootable, Wish};
use super::erase::Erasure;
use super::install::{Act, Mark};
use super::order::{BootOrder, OnUnproved, Order};
use super::outcome::{Check, CheckName, Compared, DiskState, Outcome, Proof};
use super::proof::before::{Before, Unread};
use super::proof::{self, Expected, Proved};
use super::run::interrupted;
use super::saved::Saved;
use super::stage::{Stage, State};
use super::stream_facts::StreamFacts;
use super::target::Target;
use super::{Code, Failure, Term, describe, osmet, others, remains, say, trace};
use crate::ask::{Unanswered, ask_within};
use crate::random;
use crate::signals::Stop;

/// Time limit for reading the disk's content before the write.
const BEFORE_LIMIT: Duration = Duration::from_mins(2);
/// Time limit for reading the live image's own image: 2.5 GiB from a virtual medium at 2 MiB/s.
const MEDIUM_LIMIT: Duration = Duration::from_mins(20);
/// Time limit for erasing the table of a disk that failed.
const ERASE_LIMIT: Duration = Duration::from_mins(1);
/// The same after a signal.
const STOPPED_ERASE_LIMIT: Duration = Duration::from_secs(2);
/// Advice for a disk that failed and may boot.
const NO_BOOT: &str =
    "do not boot this disk; install again, and use another disk if it fails again";
/// Time limit for making a boot entry.
const BOOT_ENTRY_LIMIT: Duration = Duration::from_mins(1);

/// The written disk and its content.
pub(super) struct OnDisk<'a> {
    /// The disk, open since before the write.
    pub(super) target: &'a Target,
    /// The same disk, for reading.
    pub(super) file: Arc<File>,
    /// The facts read before the write.
    pub(super) before: Before,
    /// The Ignition config.
    pub(super) ignition: &'a [u8],
    /// The facts learned of the image; the live image's own is read here.
    pub(super) image: Option<StreamFacts>,
    /// All disks, as they were right before the write.
    pub(super) disks: Vec<Disk>,
}

/// Reads the content that must be the same after the write.
///
/// # Errors
/// `SAVED_PARTITION`, `NETWORK`, `TARGET_IO`: unreadable content cannot be compared later.
pub(super) fn read_before(
    target: &Target,
    order: &Order,
    network_dir: &Path,
) -> Result<Before, Failure> {
    let (disk, file) = (target.disk(), Arc::new(target.direct()?));
    let saved = Saved::parse(&order.save_partlabel, &order.save_partindex)?;
    let (order, dir) = (order.clone(), network_dir.to_owned());
    let sector_bytes = sector_bytes(disk);
    let read = move || Before::read(&file, sector_bytes, &order, &dir);
    let (code, what) = match ask_within("before", BEFORE_LIMIT, target.system().stop(), read) {
        Ok(Ok(before)) => {
            let listed = before.saved.iter().map(|saved| &saved.partition);
            let listed: Vec<_> = listed.map(|part| (part.number, part.start_bytes)).collect();
            return saved.check_table(disk, &listed).map(|()| before);
        }
        Ok(Err(Unread::Saved(what))) => {
            let where_ = format!("reading the partitions to keep on {}: {what}", describe(disk));
            (Code::SavedPartition, where_.into())
        }
        Ok(Err(Unread::Network(what))) => (Code::Network, say![Term::CopyNetwork, ": ", what]),
        Err(Unanswered::Stopped) => return Err(interrupted(DiskState::Untouched)),
        Err(why) => (Code::TargetIo, format!("reading {}: {why}", describe(disk)).into()),
    };
    Err(Failure::advised(code, what))
}

pub(super) fn sector_bytes(disk: &Disk) -> u64 {
    disk.logical_block_bytes.map_or(512, u64::from)
}

impl Act<'_> {
    /// Reads the disk back.
    ///
    /// # Errors
    /// `PROOF_…`: the disk is not what was ordered. `INTERRUPTED`.
    pub(super) fn prove(
        &self,
        order: &Order,
        written: OnDisk<'_>,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        let OnDisk { target, file, before, ignition, image, disks } = written;
        let disk = target.disk();
        let keep: Vec<Partition> =
            before.saved.iter().map(|saved| saved.partition.clone()).collect();
        self.stage(Stage::Proof, State::Started, None);
        self.erase_remains(target, outcome);
        info!("reading {} back", disk.device);
        let is_uefi = self.site.system.is_uefi();
        let expected = Expected {
            system: self.site.system.clone(),
            disk: Arc::clone(&file),
            sector_bytes: sector_bytes(disk),
            ignition_digest: formats::digest::sha512(ignition),
            order: order.clone(),
            is_uefi,
            others: others(&disks, disk).cloned().collect(),
            before,
            image: match order.image {
                Some(_) => image,
                None => self.live_image(order, disk),
            },
        };
        let (failed, is_interrupted) = self.read_back(order, target, expected, outcome);
        if let Some(check) = failed {
            let is_erased = order.on_unproved == OnUnproved::Erase;
            let erased = is_erased.then(|| erase(target, keep));
            return Err(self.unproved(disk, &check, erased.as_ref(), outcome));
        }
        if is_interrupted {
            // Nothing is known to be wrong with the disk, so it is not erased.
            return Err(interrupted(DiskState::Written));
        }
        conclude(outcome.proof.as_ref());
        self.stage(Stage::Proof, State::Done, None);
        self.set_state(DiskState::Installed, outcome);
        Ok(())
    }

    /// Reads the disk back. One that passed gets the firmware's boot entry; a system whose config was replaced has one, if the order
    /// is to stay. Returns the check that failed, and true if a signal came first.
    pub(super) fn read_back(
        &self,
        order: &Order,
        target: &Target,
        expected: Expected,
        outcome: &mut Outcome,
    ) -> (Option<Check>, bool) {
        let (file, is_uefi) = (Arc::clone(&expected.disk), expected.is_uefi);
        let Proved { mut proof, is_interrupted } = proof::prove(expected);
        let failed = proof::fatal(&proof).cloned();
        let place = order.boot_order;
        let has_entry = order.reignite && place == BootOrder::Keep;
        // A disk that failed the proof gets no entry, because the firmware would boot it.
        if is_uefi && failed.is_none() && !is_interrupted && !has_entry {
            let wish = Wish { place, is_next: place == BootOrder::Disk };
            proof.checks.extend(self.boot_entry(wish, target.disk(), &file));
        }
        outcome.warnings.extend(doubts(&proof.checks));
        outcome.proof = Some(proof);
        (failed, is_interrupted)
    }

    pub(super) fn set_state(&self, state: DiskState, outcome: &mut Outcome) {
        outcome.state = state;
        self.watch.note(Mark::State(state));
    }

    /// Erases metadata that the image does not overwrite. It comes before the proof, which has to find none.
    fn erase_remains(&self, target: &Target, outcome: &mut Outcome) {
        match remains::erase(target) {
            Ok(erased) => {
                // The proof takes minutes, and a crash must not hide what happened before it.
                self.watch.note(Mark::Erased(erased.clone()));
                outcome.erased = erased;
            }
            Err(why) => {
                outcome.warnings.push(format!("erasing metadata at the end of the disk: {why}"));
            }
        }
        for what in &outcome.erased {
            info!("erased {what} of {}", target.disk().device);
        }
    }

    /// The failure of a disk that failed the proof.
    fn unproved(
        &self,
        disk: &Disk,
        check: &Check,
        erased: Option<&Result<String, String>>,
        outcome: &mut Outcome,
    ) -> Failure {
        let (what_now, advice) = match erased {
            Some(Ok(what)) => {
                self.set_state(DiskState::Erased, outcome);
                (format!("; {what}"), "install again, and use another disk if it fails again")
            }
            Some(Err(why)) => {
                (format!("; its partition table could not be erased: {why}"), NO_BOOT)
            }
            None => (String::new(), NO_BOOT),
        };
        let message =
            format!("{} was written, but {}{what_now}", describe(disk), difference(check));
        Failure::new(Code::Proof(check.name), message).advise(advice)
    }

    /// Returns the known facts of the live image's own image. Its medium may have been taken out since the write.
    fn live_image(&self, order: &Order, disk: &Disk) -> Option<StreamFacts> {
        let (dir, repo) = (self.site.osmet_dir.clone(), self.site.ostree_repo.clone());
        let (disk, verify) = (disk.clone(), order.verify);
        let work = move || osmet::whole::known(&dir, &repo, &disk, verify);
        let known = ask_within("osmet", MEDIUM_LIMIT, self.site.system.stop(), work);
        known.inspect_err(|why| warn!("reading the live image's own image: {why}")).ok()?
    }

    /// Makes the firmware boot the disk. A failure is reported but not fatal, since the disk may boot without it.
    pub(super) fn boot_entry(&self, wish: Wish, disk: &Disk, file: &Arc<File>) -> Vec<Check> {
        let efivars = self.site.system.efivars();
        let sector_bytes = sector_bytes(disk);
        let file = Arc::clone(file);
        let make = move || {
            let disk = proof::disk::Disk::of(file);
            let (esp, loaders) = proof::esp::read(&disk, sector_bytes)?;
            let disk = Bootable { esp: &esp, loaders: &loaders };
            let entry = disk.ensure_entry(&efivars, wish).or_else(|why| {
                // The entry is worth more than the trace, if there is no room for both.
                trace::forget(&efivars).map_err(|_| why)?;
                disk.ensure_entry(&efivars, wish)
            })?;
            Ok((entry, disk.check_order(&efivars, wish.place)))
        };
        // Firmware that hangs in a variable service must not prevent the result.
        let outcome = ask_within("efi", BOOT_ENTRY_LIMIT, self.site.system.stop(), make)
            .unwrap_or_else(|why| Err(format!("making the entry: {why}")));
        let (entry, order) = match outcome {
            Ok((entry, order)) => (Ok(entry), order),
            Err(why) => (Err(why), None),
        };
        let expected = "a boot entry for the disk's EFI system partition";
        let mut checks = vec![proof::check(CheckName::EfiEntry, expected, entry)];
        let expected =
            "the disk's entry before all others, or after those of the network as ordered";
        checks.extend(order.map(|order| proof::check(CheckName::EfiOrder, expected, order)));
        checks.into_iter().map(|check| Check { fatal: false, ..check }).collect()
    }
}

/// Logs the result of the checks. Only a comparison of the whole image proves what the disk contains.
fn conclude(proof: Option<&Proof>) {
    let n_checks = proof.map_or(0, |proof| proof.checks.len());
    match proof.and_then(|proof| proof.compared) {
        Some(Compared::Whole) => {
            info!("proved by {n_checks} checks: the disk contains what was asked for");
        }
        Some(Compared::Sample) => {
            info!("sampled by {n_checks} checks: the rest of the image was not compared");
        }
        None => info!("{n_checks} checks were made, but the image was not compared"),
    }
}

/// Makes a disk that failed the proof unbootable. Returns a description of the change.
fn erase(target: &Target, keep: Vec<Partition>) -> Result<String, String> {
    let file = target.writable().map_err(|failure| failure.message.to_string())?;
    let disk = target.disk();
    let size_bytes = disk.size_bytes.ok_or("the size of the disk is unknown")?;
    let sector_bytes = sector_bytes(disk);
    let disk_guid = Guid(random::random_bytes().unwrap_or([0xff; 16]));
    let erase =
        move || Erasure { file: &file, size_bytes, sector_bytes, keep: &keep }.run(disk_guid);
    let stop = target.system().stop();
    // A signal that came before does not leave a bad disk bootable, but the agent must end soon.
    let (limit, stop) = if stop.is_stopped() {
        (STOPPED_ERASE_LIMIT, Stop::default())
    } else {
        (ERASE_LIMIT, stop.clone())
    };
    // A disk that does not respond must not prevent the result.
    ask_within("erase", limit, &stop, erase).unwrap_or_else(|why| Err(why.to_string()))
}

/// Describes a check that failed: `image_content: found …, expected …`.
pub(super) fn difference(check: &Check) -> String {
    format!(
        "{}: found {}, expected {}",
        check.name,
        check.found.as_deref().unwrap_or("nothing"),
        check.expected.as_deref().unwrap_or("the requested value")
    )
}

/// Failed checks that do not prevent the reboot.
pub(super) fn doubts(checks: &[Check]) -> Vec<String> {
    let failed = checks.iter().filter(|check| !check.ok && !check.fatal);
    let doubts: Vec<String> = failed.map(difference).collect();
    for doubt in &doubts {
        warn!("{doubt}");
    }
    doubts
}
