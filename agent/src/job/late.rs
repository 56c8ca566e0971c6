//! Handles changes after the report was posted: disks appear, links come up.
//!
//! The report waits for neither. Once they are known, the VIM gets another report, and its response counts. An
//! install waits for the disks before the choice.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use probes::block::arrivals;
use tracing::info;

use super::sequence::Job;
use crate::act::settle::{self, Watch};
use crate::act::{System, can_be_written};

/// Interval at which a wait checks whether the disks have settled.
const TICK: Duration = Duration::from_secs(1);
/// Interval at which an install looks for a disk that has not appeared yet.
const DISK_POLL: Duration = Duration::from_secs(2);
/// A disk that comes and goes must not make the node report for ever.
const MAX_REPORTS: u32 = 8;

/// Name, sequence number and number of sectors of each disk.
type Disks = BTreeSet<(String, Option<u64>, Option<u64>)>;

/// The basis of the last report.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// The disks when the hardware was read; `None` if they could not be listed.
    reported: Option<Disks>,
    watch: Watch,
    n_reports: u32,
}

/// State of the last report: up to date or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Freshness {
    Current,
    /// Disks still appear, or links are still coming up.
    Unsettled,
    /// Another report would differ.
    Outdated(&'static str),
}

impl Late {
    /// Remembers the disks; call it before the hardware is read, so that a disk that appears meanwhile counts as new.
    pub(super) fn remember(&mut self, system: &System) {
        self.reported = disks(system);
    }

    /// True if the disks differ from those of the last report.
    fn has_other_disks(&self, system: &System) -> bool {
        let changed = |reported: &Disks| disks(system).is_some_and(|found| found != *reported);
        self.n_reports < MAX_REPORTS && self.reported.as_ref().is_some_and(changed)
    }

    fn check_disks(&mut self, system: &System, now: Instant) -> Freshness {
        if self.reported.is_none() || self.n_reports >= MAX_REPORTS {
            Freshness::Current
        } else if self.watch.is_settled(system, now).is_err() {
            Freshness::Unsettled
        } else if self.has_other_disks(system) {
            Freshness::Outdated("the disks have changed")
        } else {
            Freshness::Current
        }
    }
}

fn disks(system: &System) -> Option<Disks> {
    let found = system.ask(arrivals).ok()?.disks;
    Some(found.into_iter().map(|disk| (disk.name, disk.diskseq, disk.n_sectors)).collect())
}

impl Job<'_> {
    fn freshness(&mut self) -> Freshness {
        let now = self.clock.now();
        match self.late.check_disks(&self.settings.site.system, now) {
            Freshness::Current if self.settings.listener.take_new_links() => {
                Freshness::Outdated("links have come up")
            }
            Freshness::Current if self.settings.listener.brings_links_up() => Freshness::Unsettled,
            freshness => freshness,
        }
    }

    /// Sleeps for `wait`. Returns early, with the reason, once another report would differ from the last one.
    pub(super) fn sleep_until_outdated(&mut self, wait: Duration) -> Option<&'static str> {
        let end = self.clock.now() + wait;
        loop {
            let rest = end.saturating_duration_since(self.clock.now());
            if rest.is_zero() || self.stop.is_stopped() {
                return None;
            }
            match self.freshness() {
                Freshness::Outdated(why) => return Some(why),
                Freshness::Unsettled => self.clock.sleep(rest.min(TICK), &self.stop),
                Freshness::Current => self.clock.sleep(rest, &self.stop),
            }
        }
    }

    /// Waits until an install can choose a disk: no more appear, and there is one that can be written. Returns true if
    /// the VIM should get another report before.
    pub(super) fn await_disks(&mut self) -> bool {
        self.withdraw_load();
        let system = &self.settings.site.system;
        self.warnings.extend(settle::wait(system, self.clock.as_ref(), &self.stop));
        let since = self.clock.now();
        let mut is_reported = false;
        while !self.stop.is_stopped() {
            let waited = self.clock.now().saturating_duration_since(since);
            let rest = self.settings.wait_for_disk.saturating_sub(waited);
            let found = if rest.is_zero() { None } else { system.disks().ok().flatten() };
            let Some(found) = found.filter(|disks| !disks.iter().any(can_be_written)) else {
                break;
            };
            if !is_reported {
                let (n, rest_s) = (found.len(), rest.as_secs());
                info!(
                    "no disk can be written yet (disks found: {n}); waiting for at most {rest_s} s"
                );
                is_reported = true;
            }
            self.clock.sleep(DISK_POLL.min(rest), &self.stop);
        }
        let is_outdated = self.settings.offline.is_none()
            && !self.stop.is_stopped()
            && self.late.has_other_disks(system);
        if is_outdated {
            info!("the disks have changed since the report; reporting again before the install");
            self.late.n_reports += 1;
        }
        is_outdated
    }

    /// Counts a report that follows only because something has changed.
    pub(super) fn report_change(&mut self, why: &str) {
        info!("{why} since the report; reporting again");
        self.late.n_reports += 1;
    }
}
