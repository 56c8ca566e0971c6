//! The machine of a job, as every engine sees it: its hardware, the order that it carries out, and its console.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use compare::expectation::Expectations;
use formats::digest;
use formats::time::rfc3339;
use probes::block::Disk;
use probes::faults::Fault;
use tracing::{error, info, warn};

use super::banner::Display;
use super::console::Console;
use super::findings::Known;
use super::listener::Listener;
use super::load::WaitingLoad;
use super::lock;
use super::power::{POWEROFF_LIMIT, run_until_stopped};
use super::qr::Ending;
use crate::act::readable::Unreadable;
use crate::act::say::Words;
use crate::act::seen::Seen;
use crate::act::{Code, DiskState, Failure, Outcome, Site, Stage, blocking, describe};
use crate::api::{Finding, is_node_id};
use crate::checkpoint::CrashMemory;
use crate::clock::Clock;
use crate::exit_status::ExitStatus;
use crate::http::Client;
use crate::process::Process;
use crate::qr::Summary;
use crate::random;
use crate::signals::Stop;

/// Time limit for another agent to end, and the interval between looks at it.
const LOCK_LIMIT: Duration = Duration::from_secs(5);
const LOCK_TICK: Duration = Duration::from_millis(200);

/// Settings of a job that do not depend on its engine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The live system, and the policy of the node.
    pub site: Site,
    /// True to stop before anything is changed; then nothing is posted but the report.
    pub is_dry_run: bool,
    /// The terminal on which a blocked node names the faulty part in large letters.
    pub screen: Option<PathBuf>,
    /// True if a blocked node, or one whose install has failed, also shows the reason there as a QR code.
    pub shows_qr: bool,
    /// Time for which an install waits for a disk that can be written.
    pub wait_for_disk: Duration,
    /// Time for which to try to report a failed install.
    pub failure_limit: Duration,
    /// Brings up links and listens for LLDP neighbours while the job goes on; one that was not started finds none.
    pub listener: Listener,
    /// The load that a VIM allows while the node waits; reading the hardware ends it.
    pub load: WaitingLoad,
    /// Program and arguments that power the machine off.
    pub poweroff: Vec<String>,
    /// The process that does the job.
    pub process: Process,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            site: Site::default(),
            is_dry_run: false,
            screen: None,
            shows_qr: false,
            wait_for_disk: Duration::ZERO,
            failure_limit: Duration::from_mins(2),
            listener: Listener::default(),
            load: WaitingLoad::default(),
            poweroff: vec!["systemctl".into(), "poweroff".into()],
            process: Process::default(),
        }
    }
}

/// The collected hardware, as the job needs it.
#[derive(Debug, Clone, Default)]
pub struct Collected {
    /// The whole report as JSON; these bytes are posted.
    pub report: Vec<u8>,
    /// The node id in the report.
    pub node_id: String,
    /// Every disk, in the order of the report.
    pub disks: Vec<Disk>,
    /// The faults of the machine.
    pub findings: Vec<Finding>,
    /// The findings joined into faults.
    pub faults: Vec<Fault>,
    /// Vendor, product and serial number, as far as they are known; `None` until the hardware is read.
    pub machine: Option<String>,
    /// Items that could not be read, as collector, a blank and path.
    pub unread: Vec<String>,
}

/// A node whose findings prevent the install.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    /// The text on the console meanwhile.
    pub(super) banner: Option<String>,
    /// The content of its QR code, if one is shown.
    pub(crate) summary: Option<Summary>,
    /// Number of waits since the refusal.
    pub(crate) n_waits: u32,
}

/// The machine.
#[derive(Debug)]
pub struct Node {
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stop: Stop,
    /// Its id: that of the report, unless the fleet gives it another one.
    pub(crate) id: String,
    pub(crate) started_at: SystemTime,
    /// Name of the order that is carried out.
    pub(crate) request_id: Option<String>,
    /// Digest of the bytes of that order.
    pub(crate) request_digest: Option<String>,
    pub(crate) collected: Collected,
    pub(crate) expectations: Option<Arc<Expectations>>,
    /// The warnings for the next result.
    pub(crate) warnings: Vec<String>,
    /// Its state when the order was refused, if another look may differ.
    pub(crate) seen: Option<Seen>,
    pub(crate) console: Arc<Console>,
    /// Outlives this process.
    pub(crate) memory: CrashMemory,
    pub(crate) blocked: Blocked,
    display: Display,
    /// The client that fetches for the order. The clock of its server is compared with this machine's.
    pub(crate) client: Option<Arc<Client>>,
    /// Set if the disk that the order leads to cannot be read.
    sampled: Option<Unreadable>,
    /// How the last order ended, if it failed.
    ending: Option<Ending>,
    /// True once an order has begun.
    has_order: bool,
}

impl Node {
    /// A machine that was not read yet.
    pub fn new(settings: Settings, clock: Arc<dyn Clock>, stop: Stop) -> Self {
        // After a signal no answer of the kernel is waited for any longer.
        let system = settings.site.system.until(&stop).with_clock(Arc::clone(&clock));
        let settings = Settings { site: Site { system, ..settings.site.clone() }, ..settings };
        Self {
            memory: settings.process.memory.clone(),
            console: Arc::new(Console::new(Arc::clone(&clock), settings.process.log.clone())),
            settings,
            started_at: clock.time_of_day(),
            clock,
            stop,
            id: String::new(),
            request_id: None,
            request_digest: None,
            collected: Collected::default(),
            expectations: None,
            warnings: Vec::new(),
            seen: None,
            blocked: Blocked::default(),
            display: Display::default(),
            client: None,
            sampled: None,
            ending: None,
            has_order: false,
        }
    }

    /// Takes over what was read of the hardware. Faults stay known whose source could not be read this time.
    pub(crate) fn update(&mut self, mut collected: Collected) {
        collected.keep_unread(&self.collected);
        self.collected = collected;
        // Its cable may be in its place now.
        let sampled = self.sampled.take();
        self.sampled = sampled.and_then(|sampled| sampled.again(&self.settings.site.system));
        if self.id.is_empty() || !is_node_id(&self.id) {
            self.id.clone_from(&self.collected.node_id);
        }
        if !is_node_id(&self.id) {
            warn!("the node id {} cannot be used in a URL path; using a random one", self.id);
            self.id = format!("boot-{}", random::uuid());
        }
    }

    /// Begins an order; its digest is that of `bytes`.
    pub(crate) fn begin(&mut self, request_id: Option<&str>, bytes: Option<&[u8]>) {
        self.memory.update(|checkpoint| {
            // A process may carry out several orders.
            (checkpoint.is_over, checkpoint.has_more) = (false, false);
            (checkpoint.disk, checkpoint.disk_state, checkpoint.attempts) = (None, None, 0);
            checkpoint.taken_down.clear();
            checkpoint.erased.clear();
        });
        self.seen = None;
        self.blocked = Blocked::default();
        self.sampled = None;
        (self.ending, self.has_order) = (None, true);
        self.expectations = None;
        self.request_id = request_id.map(str::to_owned);
        self.request_digest = bytes.map(digest::sha256);
    }

    /// Makes the node known to the parent process, which reports a crash under its id.
    pub(crate) fn make_known(&self) {
        self.memory.update(|checkpoint| {
            checkpoint.node_id.clone_from(&self.id);
            checkpoint.started_at = rfc3339(self.started_at);
        });
    }

    /// Records the stage for a crash, and for the console.
    pub(crate) fn record(&self, stage: Stage) {
        self.console.works_at(stage, None);
        self.memory.update(|checkpoint| {
            checkpoint.stage = Some(stage);
            checkpoint.request_id.clone_from(&self.request_id);
            checkpoint.request_digest.clone_from(&self.request_digest);
        });
    }

    /// The facts from which the findings follow.
    pub(super) fn known(&self) -> Known {
        Known {
            collected: self.collected.clone(),
            expectations: self.expectations.clone(),
            load: self.settings.load.clone(),
            client: self.client.clone(),
        }
    }

    /// Lists the faults of the machine and its deviations from the expectations; the worst first.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        self.known().findings(self.sampled.as_ref())
    }

    /// Keeps other agents of this machine from writing until [`Node::unlock`], or the end of this process and of what it
    /// started to write the disk.
    ///
    /// # Errors
    /// `NODE_LOCKED`: another agent has begun an install.
    pub(crate) fn lock(&mut self) -> Result<(), Failure> {
        if self.settings.site.lock.is_some() {
            return Ok(());
        }
        let end = self.clock.now() + LOCK_LIMIT;
        loop {
            match lock::take(&self.settings.site.run_dir) {
                // Another agent may be about to end.
                Err(_) if self.clock.now() < end && !self.stop.is_stopped() => {
                    self.clock.sleep(LOCK_TICK, &self.stop);
                }
                taken => return taken.map(|lock| self.settings.site.lock = lock),
            }
        }
    }

    /// Lets other agents write again: this one has written nothing, or what it wrote may be written again.
    pub(crate) fn unlock(&mut self) {
        self.settings.site.lock = None;
    }

    /// Takes over what an install found out, and names the faulty part on the console if a fault prevented it.
    pub(super) fn learn(&mut self, outcome: &mut Outcome) {
        self.warnings.append(&mut outcome.warnings);
        self.sampled = outcome.unreadable.take();
        if outcome.failure.is_none() {
            return;
        }
        self.seen = outcome.seen.take();
        if !outcome.blocking.is_empty() {
            let blocking: Vec<_> = outcome.blocking.iter().collect();
            self.blocked.banner = Some(super::banner::text(&blocking, &self.id));
            self.blocked.summary = self.summary("install blocked", &[], &blocking);
            // The code follows the lines that would push it off the screen.
            self.show_banner(None);
        }
    }

    /// Logs why and how an order failed, if it did.
    pub(crate) fn log_failure(&mut self, outcome: &Outcome, words: Words) {
        let Some(failure) = &outcome.failure else { return };
        error!("{} failed with {}", outcome.stage, failure.said(words));
        let disk = match outcome.state {
            DiskState::Untouched if !outcome.taken_down.is_empty() => {
                "the disk was not written, but what is listed was taken down or renamed before"
            }
            DiskState::Untouched => "no disk was touched",
            DiskState::HalfWritten => "the disk may be half written and does not boot",
            DiskState::Written => "the disk was written, but it is not proved",
            DiskState::Installed => "the disk is installed",
            DiskState::Erased => "the disk was written and its partition table erased",
        };
        let advice = failure.advice.as_ref().map(|advice| advice.in_words(words));
        let advice = advice.as_deref().unwrap_or("see the message above");
        error!("{disk}, no reboot; what to do: {advice}");
        self.ending = Ending::new(outcome.state, failure, words);
    }

    /// Describes a dry run that would write.
    pub(crate) fn log_dry_run(&self, outcome: &Outcome) {
        // They would be in the result, which a dry run does not post.
        for warning in &self.warnings {
            warn!("{warning}");
        }
        let disk = outcome.disk.as_deref().map(describe).unwrap_or_default();
        let what = if outcome.installed_before.is_some() {
            "would not be written, because this request has installed it before"
        } else {
            "would be written now"
        };
        info!("dry run: {disk} {what}; nothing was changed");
    }

    /// Names the faulty part on the console.
    pub(crate) fn show_banner(&mut self, summary: Option<Summary>) {
        if let (Some(text), Some(screen)) = (&self.blocked.banner, &self.settings.screen)
            && !self.settings.is_dry_run
        {
            self.display.show(text.clone(), summary, screen.clone());
        }
    }

    /// Shows on the console why the last order failed, unless that was intended.
    pub(crate) fn show_ending(&mut self) {
        let ending = self.ending.as_ref();
        let summary = ending.and_then(|ending| self.summary(&ending.what, &ending.reason, &[]));
        // That of a blocked node is set by the refusal, and replaced when the next order arrives.
        self.show_last(self.blocked.summary.clone().or(summary));
    }

    /// Shows on the console that nothing could be reported, unless an order arrived all the same.
    pub(super) fn show_no_report(&mut self) {
        if self.has_order {
            return;
        }
        let is_read = self.collected.machine.is_some();
        let reason = (!is_read).then(|| "the hardware could not be read".to_owned());
        let reason: Vec<String> = reason.into_iter().collect();
        self.show_last(self.summary(&format!("install failed: {}", Code::NoReport), &reason, &[]));
    }

    fn show_last(&mut self, summary: Option<Summary>) {
        if let (Some(summary), Some(screen)) = (summary, &self.settings.screen)
            && !self.stop.is_stopped()
        {
            let letters = self.blocked.banner.clone().unwrap_or_default();
            self.display.wait(self.clock.as_ref());
            self.display.show(letters, Some(summary), screen.clone());
            self.display.wait(self.clock.as_ref());
        }
    }

    /// True if the node differs from its state when an install was refused. If its disks cannot be read now, it does
    /// not.
    pub(crate) fn has_changed_since(&self, seen: &Seen) -> bool {
        let disks = match self.settings.site.system.disks() {
            Ok(disks) => disks,
            Err(why) => {
                warn!("collecting the facts of the disks again: {why}");
                return false;
            }
        };
        let disks: &[Disk] = disks.as_deref().unwrap_or(&self.collected.disks);
        let found: Vec<String> = self.findings().iter().map(blocking::key).collect();
        let is_repaired = seen.blocking.iter().any(|key| !found.contains(key));
        let now = Seen::of(disks, &self.settings.site);
        is_repaired || Seen { blocking: seen.blocking.clone(), ..now } != *seen
    }

    /// Asks systemd to power off and waits for it to end this program. If the machine stays on, returns `otherwise`;
    /// `disk` is the state of the disk for the advice.
    pub(crate) fn switch_off(&mut self, otherwise: ExitStatus, disk: &str) -> ExitStatus {
        self.console.works_on("powering the machine off");
        let Settings { poweroff, site, .. } = &self.settings;
        match run_until_stopped(poweroff, POWEROFF_LIMIT, &site.system) {
            Ok(()) => return ExitStatus::Done,
            Err(why) => error!("{why}"),
        }
        error!("what to do: power the machine off by hand; {disk}");
        otherwise
    }
}

/// Logs that the hardware could not be read, and returns the exit status.
pub(crate) fn unread(why: &anyhow::Error) -> ExitStatus {
    error!("{}: {why:#}; nothing was reported, nothing was installed", Code::NoReport);
    ExitStatus::NotReported
}

/// The failure of an order before anything was done.
pub(crate) fn refused(failure: Failure) -> Outcome {
    Outcome { stage: Stage::Instruction, failure: Some(failure), ..Outcome::default() }
}
