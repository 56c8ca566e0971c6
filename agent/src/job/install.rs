//! The action `install`: preflight, write, proof.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use probes::block::Disk;
use probes::guard;
use tracing::{info, warn};

use super::Ended;
use super::sequence::Job;
use crate::api::{
    Check, CheckName, Code, DiskState, Install, JobResult, Outcome, Proof, Stage, State,
};
use crate::exit_status::ExitStatus;
use crate::install::preflight::{self, Ready, Surroundings};
use crate::install::run::{self, Written};
use crate::install::selection::Selection;
use crate::install::target::Target;
use crate::install::{Failure, describe, efi, identity_of};
use crate::proof::{self, Expected};

/// Percentages that are logged.
const LOGGED_PERCENT: [u8; 4] = [25, 50, 75, 100];

/// Time limit for making a boot entry.
const BOOT_ENTRY_LIMIT: Duration = Duration::from_mins(1);
/// Stack of the thread that makes it.
const STACK_BYTES: usize = 2 << 20;

/// Why nothing is written, and the disk if one was chosen.
struct Refused {
    disk: Option<Box<Disk>>,
    failure: Failure,
}

impl Job<'_> {
    /// Carries out `install`.
    pub(super) fn install(&mut self, install: &Install) -> Ended {
        self.event(Stage::Preflight, State::Started, None);
        let (target, ready) = match self.preflight(install) {
            Ok(passed) => passed,
            // After a signal preflight fails only because it was interrupted.
            Err(_) if self.stop.is_stopped() => return self.interrupted(),
            Err(Refused { disk, failure }) => {
                let mut result =
                    self.result(Outcome::Refused, Stage::Preflight, DiskState::Untouched);
                result.disk = disk.map(|disk| identity_of(&disk));
                return self.end_badly(&mut result, &failure, ExitStatus::Untouched);
            }
        };
        let disk = target.disk();
        self.warnings.extend(ready.warnings.iter().cloned());
        info!(installer = %ready.version, "preflight passed for {}", describe(disk));
        self.event(Stage::Preflight, State::Done, Some(&describe(disk)));
        if self.settings.is_dry_run {
            info!("dry run: {} would be written now; nothing was changed", describe(disk));
            return Ended::with(ExitStatus::Done);
        }
        if self.stop.is_stopped() {
            return self.interrupted();
        }
        let written = self.write(install, &target, &ready);
        let mut result = self.result(Outcome::Failed, Stage::Write, written.disk_state);
        result.disk = Some(identity_of(disk));
        result.attempts = written.attempts;
        result.log_tail = written.log_tail;
        if let Err(failure) = written.outcome {
            let exit_status = if written.disk_state == DiskState::Untouched {
                ExitStatus::Untouched
            } else {
                ExitStatus::HalfWritten
            };
            return self.end_badly(&mut result, &failure, exit_status);
        }
        self.event(Stage::Write, State::Done, None);
        // What is proved and named in the result is the disk that was held open while it was written.
        let checked = target.check().and_then(|()| target.file());
        match checked {
            Ok(file) => self.prove(install, (disk, &Arc::new(file)), &ready, result),
            Err(failure) => self.end_badly(&mut result, &failure, ExitStatus::HalfWritten),
        }
    }

    fn selection<'b>(&'b self, install: &'b Install) -> Selection<'b> {
        Selection { system: &self.settings.system, reported: &self.collected.disks, install }
    }

    /// Every check before the disk is touched; returns the disk and what to write to it.
    fn preflight(&self, install: &Install) -> Result<(Target, Ready), Refused> {
        let none = |failure| Refused { disk: None, failure };
        let (ignition, mut warnings) =
            preflight::ignition(&install.ignition, &self.client).map_err(none)?;
        let target = self
            .selection(install)
            .target()
            .map_err(|(disk, failure)| Refused { disk, failure })?;
        let disk = target.disk();
        let around = Surroundings {
            client: &self.client,
            installer: &self.settings.installer,
            network_dir: &self.settings.network_dir,
            osmet_dir: &self.settings.osmet_dir,
            system: &self.settings.system,
            available_memory_bytes: (self.settings.available_memory_bytes)(),
        };
        match preflight::check(install, disk, &self.collected.findings, &around) {
            Ok((version, more)) => {
                warnings.extend(more);
                Ok((target, Ready { ignition, version, warnings }))
            }
            Err(failure) => Err(Refused { disk: Some(Box::new(disk.clone())), failure }),
        }
    }

    fn write(&mut self, install: &Install, target: &Target, ready: &Ready) -> Written {
        let disk = target.disk();
        self.event(Stage::Write, State::Started, Some(&describe(disk)));
        info!("writing {}", describe(disk));
        let job = run::Job {
            program: &self.settings.installer,
            version: ready.version,
            run_dir: &self.settings.run_dir,
            network_dir: &self.settings.network_dir,
            selection: self.selection(install),
            target,
            ignition: &ready.ignition,
            limit: self.settings.installer_limit,
        };
        let events = &self.events;
        let mut n_logged = 0;
        let mut last = None;
        run::install(&job, self.clock.as_ref(), &self.stop, &mut |percent, line| {
            let Some(percent) = percent else {
                events.push(Stage::Write, State::Progress, last, Some(line));
                return;
            };
            if last != Some(percent) {
                last = Some(percent);
                events.push(Stage::Write, State::Progress, last, None);
            }
            while let Some(step) = LOGGED_PERCENT.get(n_logged)
                && percent >= *step
            {
                n_logged += 1;
                if LOGGED_PERCENT.get(n_logged).is_none_or(|next| percent < *next) {
                    info!(percent, "writing");
                }
            }
        })
    }

    fn prove(
        &mut self,
        install: &Install,
        (disk, file): (&Disk, &Arc<File>),
        ready: &Ready,
        mut result: JobResult,
    ) -> Ended {
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
            disk: Arc::clone(file),
            sector_bytes: disk.logical_block_bytes.map_or(512, u64::from),
            ignition_digest: formats::digest::sha512(&ready.ignition),
            install: install.clone(),
            is_uefi,
            others,
        });
        result.stage = Stage::Proof;
        let failed = proof::fatal(&proof).cloned();
        // A disk that failed the proof gets no entry, because the firmware would boot it.
        if is_uefi && failed.is_none() {
            proof.checks.push(self.boot_entry(disk, file));
        }
        self.warnings.extend(doubts(&proof));
        let n_checks = proof.checks.len();
        result.proof = Some(proof);
        if let Some(check) = failed {
            result.outcome = Outcome::Unproven;
            let failure = Failure::new(
                Code::Proof(check.name),
                format!(
                    "{} was written, but {} is {}, expected {}",
                    describe(disk),
                    check.name.as_str(),
                    check.found.as_deref().unwrap_or("absent"),
                    check.expected.as_deref().unwrap_or("the requested value"),
                ),
            )
            .advise("do not boot this disk; install again, and use another disk if it fails again");
            return self.end_badly(&mut result, &failure, ExitStatus::Unproven);
        }
        info!(n_checks, "proved: the disk contains what the instruction asked for");
        self.event(Stage::Proof, State::Done, None);
        result.outcome = Outcome::Installed;
        result.stage = Stage::Result;
        result.message = format!("{} is installed and proved", describe(disk));
        self.end_well(result)
    }

    /// Makes the firmware boot the disk. A failure is reported but not fatal, since the disk may boot without it.
    fn boot_entry(&self, disk: &Disk, file: &Arc<File>) -> Check {
        let efivars = self.settings.system.efivars();
        let sector_bytes = disk.logical_block_bytes.map_or(512, u64::from);
        let file = Arc::clone(file);
        // Firmware that hangs in a variable service must not prevent the result.
        let answer = guard::ask("efi", STACK_BYTES, move || {
            proof::esp::read(proof::disk::Disk::of(file), sector_bytes)
                .and_then(|(esp, loaders)| efi::ensure_entry(&efivars, &esp, &loaders))
        });
        let outcome = match answer.map(|answer| answer.recv_timeout(BOOT_ENTRY_LIMIT)) {
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
