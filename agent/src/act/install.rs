//! One install from an order to its outcome: preflight, write, proof.
//!
//! It does not know who ordered it: an engine gives the order, watches, and turns the outcome into its fleet's form.

use std::sync::Arc;

use ignition::Erased;
use probes::block::Disk;
use probes::findings::Finding;
use tracing::info;

use super::blocking;
use super::image::Image;
use super::order::Order;
use super::outcome::{DiskIdentity, DiskState, Outcome};
use super::preflight;
use super::proof::before::Before;
use super::prove::{OnDisk, read_before};
use super::readable::{self, Unreadable};
use super::root_arguments::with_derived;
use super::run::{self, interrupted};
use super::say::{Term, say};
use super::seen::Seen;
use super::selection::Selection;
use super::site::Site;
use super::stage::{Stage, State};
use super::stream::Stream;
use super::target::Target;
use super::writers::coreos_installer::{CoreosInstaller, NAME, Version};
use super::{
    Code, Failure, ProtectMissing, describe, existing_data, identity_of, list, osmet, protect,
};
use crate::act::stream_facts::StreamFacts;
use crate::http::Client;

/// Percentages that are logged.
const LOGGED_PERCENT: [u8; 4] = [25, 50, 75, 100];

/// Learns how an install goes on.
pub trait Watch {
    /// A stage starts, continues or ends.
    fn stage(&self, stage: Stage, how: State, percent: Option<u8>, message: Option<&str>);

    /// Notes the state that a crash from now on would leave. A parent process that reports the crash must know it.
    fn note(&self, mark: Mark);
}

/// A fact that would hold after a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// The disk was chosen and is going to be written.
    Disk(DiskIdentity),
    /// The state of the disk.
    State(DiskState),
    /// Number of times that the writer was started.
    Tries(u32),
    /// Descriptions of what was active on the disk and was taken down.
    TakenDown(Vec<String>),
    /// Descriptions of the metadata that was erased at the end of the disk.
    Erased(Vec<String>),
}

/// Reads the faults of the machine, the worst first; a disk that cannot be read is one of them.
pub type Findings<'a> = dyn Fn(Option<&Unreadable>) -> Vec<Finding> + 'a;

/// The inputs of an install besides its order.
pub struct Act<'a> {
    /// The live system.
    pub site: &'a Site,
    /// Fetches config and image.
    pub client: &'a Arc<Client>,
    /// Learns how it goes on.
    pub watch: &'a dyn Watch,
    /// The disks of the last report.
    pub reported: &'a [Disk],
    /// The faults of the machine.
    pub findings: &'a Findings<'a>,
    /// True to stop before anything is changed.
    pub is_dry_run: bool,
}

impl std::fmt::Debug for Act<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Act").field("site", self.site).finish_non_exhaustive()
    }
}

/// The result of a passed preflight.
struct Passed {
    target: Target,
    ignition: Vec<u8>,
    /// Version of the writer.
    version: Version,
    /// The image; `None` for the live image's own.
    image: Option<Image>,
    /// The order with the kernel arguments that the disk needs.
    order: Order,
}

impl Act<'_> {
    /// Carries out an order. The outcome of a dry run that would write has no failure and an untouched disk.
    pub fn carry_out(&self, order: &Order) -> Outcome {
        let mut outcome = Outcome::default();
        let missing = [order.protect_missing, self.site.protect_missing];
        let strictest = missing.into_iter().find(|found| *found == Some(ProtectMissing::Refuse));
        let mut order = Order { protect_missing: strictest.flatten(), ..order.clone() };
        outcome.failure = self.write_and_prove(&mut order, &mut outcome).err();
        if outcome.state == DiskState::Untouched && outcome.installed_before.is_none() {
            // No disk has the token.
            outcome.confirm = None;
        }
        outcome
    }

    fn write_and_prove(&self, order: &mut Order, outcome: &mut Outcome) -> Result<(), Failure> {
        self.stage(Stage::Preflight, State::Started, None);
        outcome.stage = Stage::Preflight;
        let is_new = self.recall(order, outcome).map_err(|failure| self.or_interrupted(failure))?;
        if !is_new {
            self.stage(Stage::Preflight, State::Done, Some("it was installed before"));
            return Ok(());
        }
        if order.reignite {
            return self.reignite(order, outcome).map_err(|failure| match outcome.state {
                DiskState::Untouched => self.or_interrupted(failure),
                _ => failure,
            });
        }
        let passed =
            self.preflight(order, outcome).map_err(|failure| self.or_interrupted(failure))?;
        let Passed { target, ignition, version, image, order } = passed;
        // A change of the node is a reason for another try only as long as nothing but checks was done.
        outcome.seen = None;
        let disk = target.disk();
        info!("preflight passed for {}, {NAME} {version}", describe(disk));
        self.stage(Stage::Preflight, State::Done, Some(&describe(disk)));
        if self.is_dry_run {
            return Ok(());
        }
        if self.is_stopped() {
            return Err(interrupted(DiskState::Untouched));
        }
        let before = read_before(&target, &order, &self.site.network_dir)
            .map_err(|failure| self.or_interrupted(failure))?;
        outcome.stage = Stage::Write;
        let begun = self.leave_begin(&order, target.disk(), outcome);
        let done = self.write_on(&order, &target, &ignition, (version, image), before, outcome);
        match &done {
            Ok(()) => self.leave_end(&order, &target, outcome),
            Err(failure) => self.leave_failure(begun, failure, outcome),
        }
        done
    }

    /// Writes the target and reads it back.
    fn write_on(
        &self,
        order: &Order,
        target: &Target,
        ignition: &[u8],
        writer: (Version, Option<Image>),
        before: Before,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        let (disks, image) = self.write(order, target, ignition, writer, outcome)?;
        self.stage(Stage::Write, State::Done, None);
        // What is proved and named in the outcome is the disk that was held open while it was written.
        let file = Arc::new(target.direct()?);
        let on_disk = OnDisk { target, file, before, ignition, image, disks };
        outcome.stage = Stage::Proof;
        self.prove(order, on_disk, outcome)
    }

    /// The failure of a check. After a signal a check fails only because it was interrupted.
    fn or_interrupted(&self, failure: Failure) -> Failure {
        if self.is_stopped() { interrupted(DiskState::Untouched) } else { failure }
    }

    /// True if the agent is to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.site.system.stop().is_stopped()
    }

    pub(super) fn stage(&self, stage: Stage, how: State, message: Option<&str>) {
        self.watch.stage(stage, how, None, message);
    }

    pub(super) fn selection<'b>(&'b self, order: &'b Order) -> Selection<'b> {
        Selection {
            system: &self.site.system,
            reported: self.reported,
            order,
            protect: &self.site.protect,
            min_bytes: min_bytes(order, self.site),
        }
    }

    /// Every check before the disk is touched.
    fn preflight(&self, order: &Order, outcome: &mut Outcome) -> Result<Passed, Failure> {
        let (Chosen { target, order, mut warnings }, ignition) = self.judged(order, outcome)?;
        let (site, client, disk) = (self.site, self.client, target.disk());
        let (version, image) = preflight::check(&order, disk, site, client, &mut warnings)?;
        outcome.warnings.extend(warnings);
        Ok(Passed { target, ignition, version, image, order })
    }

    /// The chosen disk and the Ignition config, both checked.
    pub(super) fn judged(
        &self,
        order: &Order,
        outcome: &mut Outcome,
    ) -> Result<(Chosen, Vec<u8>), Failure> {
        self.check_configuration(order)?;
        let (mut ignition, warnings, checked) = preflight::ignition(order, self.site, self.client)?;
        let selection = self.selection(order);
        let disks = selection.disks()?;
        outcome.seen = Some(Seen::of(&disks, self.site));
        let lists = [&self.site.protect[..], &order.protect];
        let resolve = |path: &str| self.site.system.kernel().resolve(path);
        let missing = protect::missing(&disks, lists, &resolve).into_iter();
        outcome.warnings.extend(missing.map(|entry| protect::no_disk(entry)));
        let chosen =
            choose(self.site, &selection, &disks, &checked.erased, self.findings, outcome)?;
        let mut warnings = [warnings, chosen.warnings].concat();
        if let Some(confirm) = &order.confirm {
            let disk = chosen.target.disk();
            let (wrapped, digests) = confirm.add(&ignition, &checked.version, disk)?;
            (ignition, outcome.confirm) = (wrapped, Some(digests));
            warnings.extend_from_slice(&confirm.warnings);
        }
        Ok((Chosen { warnings, ..chosen }, ignition))
    }

    /// Checks that the configuration allows the order, and that this agent can carry it out.
    fn check_configuration(&self, order: &Order) -> Result<(), Failure> {
        let is_insecure = order.image.as_ref().is_some_and(|image| image.insecure);
        if is_insecure && !self.site.is_insecure_image_allowed {
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

    /// Writes the disk. Returns all disks as they were right before, and the facts of the image.
    fn write(
        &self,
        order: &Order,
        target: &Target,
        ignition: &[u8],
        (version, image): (Version, Option<Image>),
        outcome: &mut Outcome,
    ) -> Result<(Vec<Disk>, Option<StreamFacts>), Failure> {
        // Also if the image cannot be served.
        outcome.image = image.as_ref().map(|image| image.written(None));
        let stream = image.clone();
        let stream = stream.map(|image| Stream::start(image, self.client, order.verify));
        let stream = stream.transpose()?;
        let disk = target.disk();
        self.watch.note(Mark::Disk(identity_of(disk)));
        let erased =
            existing_data(disk).into_iter().map(|data| format!("{}: {}", data.name, data.what));
        let erased = list(erased, "; ");
        let what = if erased.is_empty() { erased } else { format!(", which erases {erased}") };
        let what = format!("{}{what}", describe(disk));
        self.stage(Stage::Write, State::Started, Some(&what));
        info!("writing {what}");
        let mut progress = progress(self.watch);
        let mut installer = CoreosInstaller {
            site: self.site,
            version,
            target,
            order,
            ignition,
            stream: stream.as_ref(),
            progress: &mut progress,
        };
        let task = run::Task { target, selection: self.selection(order) };
        let written = run::write(&task, &mut installer, self.watch, outcome);
        let facts = stream.and_then(|stream| stream.facts());
        outcome.image = image.as_ref().map(|image| image.written(facts.as_ref()));
        let disks = written.map_err(|failure| {
            if outcome.state != DiskState::Untouched || outcome.taken_down.is_empty() {
                return failure;
            }
            let steps = outcome.taken_down.join("; ");
            let message = say![failure.message, "; the disk was not written, but before: ", steps];
            Failure { message, ..failure }
        })?;
        Ok((disks, facts))
    }
}

/// The size of the live image's own image. That of another one is known from the order, or not yet.
pub fn min_bytes(order: &Order, site: &Site) -> Option<u64> {
    if order.image.is_some() { None } else { osmet::least_bytes(&site.osmet_dir) }
}

/// The disk that is written, judged together with the machine.
#[derive(Debug)]
pub struct Chosen {
    /// The disk, held open.
    pub target: Target,
    /// The order with the kernel arguments that the disk needs.
    pub order: Order,
    /// Warnings for the result.
    pub warnings: Vec<String>,
}

/// Chooses one of these disks, and judges it, the disks around it and the faults of the machine. The outcome gets the disk,
/// and what keeps it from being written.
///
/// # Errors
/// As [`Selection::target`] and [`Selection::around`]; `FINDINGS`; `INSTRUCTION_INVALID`.
pub fn choose(
    site: &Site,
    selection: &Selection<'_>,
    disks: &[Disk],
    erased: &[Erased],
    findings: &Findings<'_>,
    outcome: &mut Outcome,
) -> Result<Chosen, Failure> {
    let target = selection.target(disks).map_err(|(disk, failure)| {
        outcome.disk = disk;
        failure
    })?;
    let disk = target.disk();
    outcome.disk = Some(Box::new(disk.clone()));
    // A response of the disk takes time, so only the chosen one is asked.
    outcome.unreadable = readable::check(&target);
    let (order, notes) = match selection.order {
        // The system on the disk has found its root.
        order if order.reignite => (order.clone(), Vec::new()),
        order => with_derived(order, disk, &site.system)?,
    };
    let findings = findings(outcome.unreadable.as_ref());
    let around = selection.around(disk, disks, erased)?;
    let policy = site.blocking.of(&order)?;
    policy.check(&findings).inspect_err(|_| {
        outcome.blocking = policy.blocking(&findings).into_iter().cloned().collect();
        if let Some(seen) = &mut outcome.seen {
            seen.blocking = outcome.blocking.iter().map(blocking::key).collect();
        }
    })?;
    Ok(Chosen { target, order, warnings: [notes, around].concat() })
}

/// Passes the progress of the writer on, and logs some of its percentages.
fn progress(watch: &dyn Watch) -> impl FnMut(Option<u8>, &str) {
    let (mut n_logged, mut last) = (0, None);
    move |percent, line| {
        last = percent.or(last);
        watch.stage(Stage::Write, State::Progress, last, Some(line));
        let Some(percent) = percent else { return };
        let n_reached = LOGGED_PERCENT.iter().filter(|step| percent >= **step).count();
        if n_reached > n_logged {
            n_logged = n_reached;
            info!("written: {percent} %");
        }
    }
}
