//! Gives an installed system another Ignition config for its next boot, and writes no image.
//!
//! Choice, checks and proof are those of an install, as far as they are about the config and the file system `boot`. Nothing else
//! is written but the trace and the firmware's boot order. The system may be the running one.

use std::fs::File;
use std::sync::Arc;

use formats::digest::sha512;
use nix::unistd::syncfs;
use probes::block::Disk;
use tracing::info;

use super::install::{Act, Chosen, Mark};
use super::mounted::{NewFile, Volume};
use super::order::Order;
use super::outcome::{CheckName, DiskState, Outcome};
use super::proof::before::Before;
use super::proof::{Expected, disk};
use super::proof::{armed, fsck};
use super::prove::{difference, sector_bytes};
use super::run::interrupted;
use super::stage::{Stage, State};
use super::target::Target;
use super::{Code, Failure, describe, identity_of, others, preflight};
use crate::ask::{Unanswered, ask_within};

/// Time limit for reading `boot`.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(30);

impl Act<'_> {
    /// Replaces the config of an installed system, and reads it back.
    ///
    /// # Errors
    /// As for an install; `DISK_NOT_ELIGIBLE` if `boot` is not in a partition of its own; `KARGS` for an entry without a platform;
    /// `TARGET_IO`; `PROOF_…` if what is read back differs; `INTERRUPTED`.
    pub(super) fn reignite(&self, order: &Order, outcome: &mut Outcome) -> Result<(), Failure> {
        let (chosen, ignition) = self.judged(order, outcome)?;
        let Chosen { target, order, warnings } = chosen;
        preflight::arguments(&order)?;
        outcome.warnings.extend(warnings);
        let (volume, start, files) = self.plan(&target, &order, &ignition)?;
        outcome.seen = None;
        let disk = target.disk();
        self.stage(Stage::Preflight, State::Done, Some(&describe(disk)));
        if self.is_dry_run {
            return Ok(());
        }
        if self.is_stopped() {
            return Err(interrupted(DiskState::Untouched));
        }
        let disks = self.selection(&order).confirm(&target, false)?;
        outcome.stage = Stage::Write;
        self.watch.note(Mark::Disk(identity_of(disk)));
        let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let what = format!("{} of boot on {}", names.join(", "), describe(disk));
        self.stage(Stage::Write, State::Started, Some(&what));
        info!("replacing {what}");
        self.set_state(DiskState::Written, outcome);
        if let Err(error) = self.site.system.replace(&volume, files) {
            if error.raw_os_error().is_some() {
                self.set_state(DiskState::Untouched, outcome);
            }
            let what = format!("replacing {what}: {error}");
            return Err(Failure::advised(Code::TargetIo, what));
        }
        self.stage(Stage::Write, State::Done, None);
        outcome.stage = Stage::Proof;
        self.prove_config(&order, &target, &ignition, &disks, outcome)?;
        if volume.mounted_at.is_none() {
            let sound = fsck::check(&target.direct()?, start, &self.site.system);
            sound.map_err(|why| {
                self.set_state(DiskState::Written, outcome);
                let what = format!("the config of {} was replaced, but {why}", describe(disk));
                Failure::new(Code::Proof(CheckName::BootFilesystem), what)
                    .advise("mend boot with e2fsck")
            })?;
        }
        outcome.is_reignited = true;
        self.leave_reignited(&order, &target, outcome);
        Ok(())
    }

    /// The file system that is changed, its first byte, and its new files.
    fn plan(
        &self,
        target: &Target,
        order: &Order,
        ignition: &[u8],
    ) -> Result<(Volume, u64, Vec<NewFile>), Failure> {
        let disk = target.disk();
        let refuse = |why: &str| {
            let what = format!("the config of {} cannot be replaced: {why}", describe(disk));
            Failure::new(Code::DiskNotEligible, what)
                .advise("replace it by hand, or install with save_partlabel for partitions to keep")
        };
        if cfg!(target_arch = "s390x") {
            return Err(refuse("its boot loader takes the stamp only from zipl"));
        }
        let (volume, place) = Volume::of_boot(disk).map_err(|why| refuse(&why))?;
        let (file, order, ignition) = (target.direct()?, order.clone(), ignition.to_owned());
        if volume.mounted_at.is_none() {
            // Otherwise new files could be given the place of others.
            fsck::check(&file, place.0, &self.site.system).map_err(|why| refuse(&why))?;
        }
        let mounted_at = volume.mounted_at.clone();
        let read = move || {
            if let Some(at) = mounted_at {
                // What is only in memory would not be read.
                File::open(at).map(|root| syncfs(root).ok()).ok();
            }
            let disk = disk::Disk::cached(Arc::new(file));
            armed::files(&disk, place, &order, &ignition)
        };
        let files = ask_within("boot", LIMIT, self.site.system.stop(), read);
        let late =
            |why: Unanswered| Failure::advised(Code::TargetIo, format!("reading boot: {why}"));
        Ok((volume, place.0, files.map_err(late)??))
    }

    /// Reads `boot` back, and makes the disk the next to boot.
    fn prove_config(
        &self,
        order: &Order,
        target: &Target,
        ignition: &[u8],
        disks: &[Disk],
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        self.stage(Stage::Proof, State::Started, None);
        let disk = target.disk();
        let expected = Expected {
            system: self.site.system.clone(),
            disk: Arc::new(target.direct()?),
            sector_bytes: sector_bytes(disk),
            ignition_digest: sha512(ignition),
            order: order.clone(),
            is_uefi: self.site.system.is_uefi(),
            others: others(disks, disk).cloned().collect(),
            before: Before::default(),
            image: None,
        };
        let (failed, is_interrupted) = self.read_back(order, target, expected, outcome);
        if let Some(check) = failed {
            let what = format!(
                "the config of {} was replaced, but {}",
                describe(disk),
                difference(&check)
            );
            return Err(Failure::new(Code::Proof(check.name), what).advise(
                "give the system its config again, or remove /ignition.firstboot from its boot file system",
            ));
        }
        if is_interrupted {
            return Err(interrupted(DiskState::Written));
        }
        info!("read back: the next boot of {} applies the config", describe(disk));
        self.stage(Stage::Proof, State::Done, None);
        self.set_state(DiskState::Installed, outcome);
        Ok(())
    }
}
