//! The action `install`: preflight, write; `prove` does the rest.

use std::sync::Arc;

use probes::block::Disk;
use tracing::{info, warn};

use super::prove::{OnDisk, read_before};
use super::sequence::Job;
use super::{Ended, banner};
use crate::api::{JobResult, Outcome};
use crate::checkpoint;
use crate::exit_status::ExitStatus;
use crate::install::attempt::CoreosInstaller;
use crate::install::blocking;
use crate::install::preflight::{self, Checked, Surroundings};
use crate::install::readable;
use crate::install::root_arguments::with_derived;
use crate::install::run::{self, Written};
use crate::install::say::{Term, say};
use crate::install::seen::{Seen, digest_of};
use crate::install::selection::Selection;
use crate::install::stream::Stream;
use crate::install::target::Target;
use crate::install::{Code, DiskState, Order, Stage, State, Verify};
use crate::install::{Failure, describe, existing_data, identity_of, osmet};
use crate::qr::Summary;
use crate::stream_facts::StreamFacts;

/// Percentages that are logged.
const LOGGED_PERCENT: [u8; 4] = [25, 50, 75, 100];

/// Why nothing is written, and the disk if one was chosen.
struct Refused {
    disk: Option<Box<Disk>>,
    failure: Failure,
    /// The node as the choice saw it; `None` if it was refused before.
    seen: Option<Seen>,
}

impl Job<'_> {
    /// Carries out `install`.
    pub(super) fn install(&mut self, install: &Order) -> Ended {
        self.event(Stage::Preflight, State::Started, None);
        let (target, ignition, checked, install) = match self.preflight(install) {
            Ok(passed) => passed,
            // After a signal preflight fails only because it was interrupted.
            Err(_) if self.stop.is_stopped() => return self.interrupted(),
            Err(refused) => return self.refused_by_preflight(refused, install),
        };
        let disk = target.disk();
        let install = &install;
        self.warnings.extend(checked.warnings.iter().cloned());
        info!("preflight passed for {}, coreos-installer {}", describe(disk), checked.version);
        self.event(Stage::Preflight, State::Done, Some(&describe(disk)));
        if self.settings.is_dry_run {
            // They would be in the result, which a dry run does not post.
            for warning in &self.warnings {
                warn!("{warning}");
            }
            info!("dry run: {} would be written now; nothing was changed", describe(disk));
            return Ended::with(ExitStatus::Done);
        }
        if self.stop.is_stopped() {
            return self.interrupted();
        }
        let network_dir = &self.settings.network_dir;
        let before = match read_before(&target, install, network_dir, &self.stop) {
            Ok(before) => before,
            Err(_) if self.stop.is_stopped() => return self.interrupted(),
            Err(failure) => return self.refused(Some(disk), &failure),
        };
        let (written, facts) = self.write(install, &target, &ignition, &checked);
        let mut result = self.result(Outcome::Failed, Stage::Write, written.disk_state);
        name_disk(&mut result, Some(disk));
        result.attempts = written.attempts;
        result.log_tail = written.log_tail;
        result.write = written.counters;
        result.image = checked.image.as_ref().map(|image| image.written(facts.as_ref()));
        result.taken_down = written.taken_down;
        if let Err(mut failure) = written.outcome {
            let is_untouched = written.disk_state == DiskState::Untouched;
            let steps = result.taken_down.join("; ");
            if is_untouched && !steps.is_empty() {
                failure.message =
                    say![failure.message, "; the disk was not written, but before: ", steps];
            }
            let exit_status = if is_untouched {
                result.outcome = Outcome::Refused;
                ExitStatus::Untouched
            } else {
                ExitStatus::HalfWritten
            };
            return self.end_badly(&mut result, &failure, exit_status);
        }
        self.event(Stage::Write, State::Done, None);
        // What is proved and named in the result is the disk that was held open while it was written.
        match target.direct() {
            Ok(file) => {
                let (target, file, disks) = (&target, Arc::new(file), written.disks);
                let ignition = &ignition;
                let on_disk = OnDisk { target, file, before, ignition, image: facts, disks };
                self.prove(install, on_disk, result)
            }
            Err(failure) => self.end_badly(&mut result, &failure, ExitStatus::Unproven),
        }
    }

    /// Ends the job before the write.
    fn refused(&mut self, disk: Option<&Disk>, failure: &Failure) -> Ended {
        let mut result = self.result(Outcome::Refused, Stage::Preflight, DiskState::Untouched);
        name_disk(&mut result, disk);
        self.end_badly(&mut result, failure, ExitStatus::Untouched)
    }

    fn refused_by_preflight(&mut self, refused: Refused, install: &Order) -> Ended {
        let Refused { disk, failure, mut seen } = refused;
        if failure.code == Code::Findings {
            let policy = self.settings.blocking.with(install);
            let findings = self.findings();
            let blocking = policy.blocking(&findings);
            if let Some(seen) = &mut seen {
                seen.blocking = blocking.iter().map(|finding| blocking::key(finding)).collect();
            }
            self.blocked.banner = Some(banner::text(&blocking, &self.node_id));
            self.blocked.summary = self.summary_of_blocked(&blocking);
            // The code follows the lines that would push it off the screen.
            self.show_banner(None);
        }
        self.seen = seen;
        self.refused(disk.as_deref(), &failure)
    }

    fn selection<'b>(&'b self, install: &'b Order) -> Selection<'b> {
        Selection {
            system: &self.settings.system,
            reported: &self.collected.disks,
            order: install,
            protect: &self.settings.protect,
            // The size of another image is known from the instruction, or not yet.
            min_bytes: match install.image {
                None => osmet::least_bytes(&self.settings.osmet_dir),
                Some(_) => None,
            },
        }
    }

    /// Every check before the disk is touched; returns the disk, the Ignition config, what else was found, and the
    /// instruction with the kernel arguments that the disk needs.
    fn preflight(&mut self, install: &Order) -> Result<(Target, Vec<u8>, Checked, Order), Refused> {
        let none = |failure| Refused { disk: None, failure, seen: None };
        self.check_configuration(install).map_err(none)?;
        let (ignition, mut warnings) = preflight::ignition(install, &self.client).map_err(none)?;
        let selection = self.selection(install);
        let disks = selection.disks().map_err(none)?;
        let seen = Some(self.seen_with(&disks));
        let target = selection.target(&disks).map_err(|(disk, failure)| Refused {
            disk,
            failure,
            seen: seen.clone(),
        })?;
        // A response of the disk takes time, so only the chosen one is asked.
        self.sampled = readable::check(&target);
        let disk = target.disk();
        let around = Surroundings {
            client: &self.client,
            blocking: &self.settings.blocking,
            installer: &self.settings.installer,
            network_dir: &self.settings.network_dir,
            osmet_dir: &self.settings.osmet_dir,
            system: &self.settings.system,
            available_memory_bytes: (self.settings.available_memory_bytes)(),
        };
        let refused =
            |failure| Refused { disk: Some(Box::new(disk.clone())), failure, seen: seen.clone() };
        let (install, notes) =
            with_derived(install, disk, &self.settings.system).map_err(refused)?;
        warnings.extend(notes);
        match preflight::check(&install, disk, &self.findings(), &around) {
            Ok(mut checked) => {
                warnings.append(&mut checked.warnings);
                Ok((target, ignition, Checked { warnings, ..checked }, install))
            }
            Err(failure) => Err(refused(failure)),
        }
    }

    /// Names the faulty part on the console.
    pub(super) fn show_banner(&mut self, summary: Option<Summary>) {
        if let (Some(text), Some(screen)) = (&self.blocked.banner, &self.settings.screen)
            && !self.settings.is_dry_run
        {
            self.display.show(text.clone(), summary, screen.clone());
        }
    }

    /// The facts on which a refusal depends, with these disks.
    fn seen_with(&self, disks: &[Disk]) -> Seen {
        Seen {
            disks: digest_of(disks),
            has_memory: preflight::has_memory((self.settings.available_memory_bytes)()),
            has_profiles: preflight::has_profiles(&self.settings.network_dir).unwrap_or_default(),
            blocking: Vec::new(),
        }
    }

    /// Whether the node differs from what it was when an install was refused. If its disks cannot be read now, it does
    /// not.
    pub(super) fn has_changed_since(&self, seen: &Seen) -> bool {
        let disks = match self.settings.system.disks() {
            Ok(disks) => disks,
            Err(why) => {
                warn!("collecting the facts of the disks again: {why}");
                return false;
            }
        };
        let disks = disks.as_deref().unwrap_or(&self.collected.disks);
        let found: Vec<String> = self.findings().iter().map(blocking::key).collect();
        let is_repaired = seen.blocking.iter().any(|key| !found.contains(key));
        is_repaired || Seen { blocking: seen.blocking.clone(), ..self.seen_with(disks) } != *seen
    }

    /// Checks that the configuration allows what the order asks for, and that this agent can do it.
    fn check_configuration(&self, install: &Order) -> Result<(), Failure> {
        // There are no digests of the live image's own image, whose files are those of the live system.
        if install.verify == Verify::Full && install.image.is_none() {
            let message = say![
                "this version of the agent does not support ",
                Term::Verify,
                " \"full\" without ",
                Term::Image
            ];
            let advice = say![Term::NameImage, ", or verify a sample"];
            return Err(Failure::new(Code::KeyUnsupported, message).advise(advice));
        }
        let is_insecure = install.image.as_ref().is_some_and(|image| image.insecure);
        if is_insecure && !self.settings.is_insecure_image_allowed {
            let message = say![
                Term::Order,
                " sets ",
                Term::Insecure,
                ", which the configuration of this node does not allow"
            ];
            return Err(Failure::new(Code::ImageInsecure, message).advise(
                "publish the image's .sig next to it, or allow it in the live image with allow-insecure-image",
            ));
        }
        Ok(())
    }

    /// Writes the disk; what was learned of the image comes with it.
    fn write(
        &mut self,
        install: &Order,
        target: &Target,
        ignition: &[u8],
        checked: &Checked,
    ) -> (Written, Option<StreamFacts>) {
        let verify = install.verify;
        let stream = checked.image.clone().map(|image| Stream::start(image, &self.client, verify));
        let stream = match stream.transpose() {
            Ok(stream) => stream,
            Err(failure) => return (Written::not_started(failure), None),
        };
        let disk = target.disk();
        checkpoint::update(|checkpoint| checkpoint.disk = Some(identity_of(disk)));
        self.event(Stage::Write, State::Started, Some(&describe(disk)));
        info!("writing {}", describe(disk));
        let events = &self.events;
        let mut n_logged = 0;
        let mut last = None;
        let mut progress = |percent: Option<u8>, line: &str| {
            let Some(percent) = percent else {
                events.push(Stage::Write, State::Progress, last, Some(line));
                return;
            };
            last = Some(percent);
            events.push(Stage::Write, State::Progress, last, Some(line));
            while let Some(step) = LOGGED_PERCENT.get(n_logged)
                && percent >= *step
            {
                n_logged += 1;
                if LOGGED_PERCENT.get(n_logged).is_none_or(|next| percent < *next) {
                    info!("written: {percent} %");
                }
            }
        };
        let mut installer = CoreosInstaller {
            program: &self.settings.installer,
            version: checked.version,
            run_dir: &self.settings.run_dir,
            network_dir: &self.settings.network_dir,
            target,
            order: install,
            ignition,
            stream: stream.as_ref(),
            limit: self.settings.installer_limit,
            patience: self.settings.patience,
            stop: &self.stop,
            progress: &mut progress,
        };
        let task = run::Task { target, selection: self.selection(install) };
        let written = run::install(&task, &mut installer, self.clock.as_ref(), &self.stop);
        (written, stream.and_then(|stream| stream.facts()))
    }
}

/// Names the disk in the result, with what was found on it.
fn name_disk(result: &mut JobResult, disk: Option<&Disk>) {
    result.disk = disk.map(identity_of);
    result.existing_data = disk.map(existing_data).unwrap_or_default();
}
