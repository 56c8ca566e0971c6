//! The action `install`: passes the job's data to the install and makes its outcome the result.

use probes::block::Disk;
use tracing::{info, warn};

use super::sequence::Job;
use super::{Ended, banner};
use crate::act::blocking;
use crate::act::install::{Act, Mark, Watch};
use crate::act::seen::Seen;
use crate::act::{Order, Outcome, Stage, State, describe};
use crate::checkpoint;
use crate::qr::Summary;

impl Watch for Job<'_> {
    fn stage(&self, stage: Stage, how: State, percent: Option<u8>, message: Option<&str>) {
        self.push_event(stage, how, percent, message);
    }

    fn note(&self, mark: Mark) {
        checkpoint::update(|checkpoint| match mark {
            Mark::Disk(disk) => checkpoint.disk = Some(disk),
            Mark::State(state) => checkpoint.disk_state = Some(state),
            Mark::Tries(tries) => checkpoint.attempts = tries,
            Mark::TakenDown(steps) => checkpoint.taken_down = steps,
            Mark::Erased(erased) => checkpoint.erased = erased,
        });
    }
}

impl Job<'_> {
    /// Carries out `install`.
    pub(super) fn install(&mut self, order: &Order) -> Ended {
        let outcome = Act {
            site: &self.settings.site,
            client: &self.client,
            clock: self.clock.as_ref(),
            stop: &self.stop,
            watch: self,
            reported: &self.collected.disks,
            findings: &|unreadable| self.findings_with(unreadable),
            is_dry_run: self.settings.is_dry_run,
        }
        .carry_out(order);
        self.conclude(outcome)
    }

    /// Ends the job with the outcome of an install.
    fn conclude(&mut self, mut outcome: Outcome) -> Ended {
        self.warnings.append(&mut outcome.warnings);
        self.sampled = outcome.unreadable.take();
        if outcome.failure.is_some() {
            self.seen = outcome.seen.take();
            self.show_blocked(&outcome);
            return self.end_badly(&outcome);
        }
        if !self.settings.is_dry_run {
            return self.end_well(&outcome);
        }
        // They would be in the result, which a dry run does not post.
        for warning in &self.warnings {
            warn!("{warning}");
        }
        let disk = outcome.disk.as_deref().map(describe).unwrap_or_default();
        info!("dry run: {disk} would be written now; nothing was changed");
        Ended::with(outcome.exit_status())
    }

    /// Shows the findings that prevented the install on the console.
    fn show_blocked(&mut self, outcome: &Outcome) {
        if outcome.blocking.is_empty() {
            return;
        }
        let blocking: Vec<_> = outcome.blocking.iter().collect();
        self.blocked.banner = Some(banner::text(&blocking, &self.node_id));
        self.blocked.summary = self.summary_of_blocked(&blocking);
        // The code follows the lines that would push it off the screen.
        self.show_banner(None);
    }

    /// Names the faulty part on the console.
    pub(super) fn show_banner(&mut self, summary: Option<Summary>) {
        if let (Some(text), Some(screen)) = (&self.blocked.banner, &self.settings.screen)
            && !self.settings.is_dry_run
        {
            self.display.show(text.clone(), summary, screen.clone());
        }
    }

    /// True if the node differs from its state when an install was refused. If its disks cannot be read now, it does
    /// not.
    pub(super) fn has_changed_since(&self, seen: &Seen) -> bool {
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
}
