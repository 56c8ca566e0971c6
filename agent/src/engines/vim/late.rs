//! Handles changes after the report was posted: disks appear, links come up.
//!
//! The report waits for neither. Once they are known, the VIM gets another report, and its response counts. An
//! install waits for the disks before the choice.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use probes::block::arrivals;
use tracing::info;

use super::engine::Vim;
use crate::act::System;
use crate::act::settle::{self, Watch};
use crate::job::Node;

/// Interval at which a wait checks whether the disks have settled.
const TICK: Duration = Duration::from_secs(1);
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

impl Vim<'_> {
    fn freshness(&mut self) -> Freshness {
        let now = self.node.clock.now();
        match self.late.check_disks(&self.node.settings.site.system, now) {
            Freshness::Current if self.node.settings.listener.take_new_links() => {
                Freshness::Outdated("links have come up")
            }
            Freshness::Current if self.node.settings.listener.brings_links_up() => {
                Freshness::Unsettled
            }
            freshness => freshness,
        }
    }

    /// Sleeps for `wait`. Returns early, with the reason, once another report would differ from the last one.
    pub(super) fn sleep_until_outdated(&mut self, wait: Duration) -> Option<&'static str> {
        let end = self.node.clock.now() + wait;
        loop {
            let rest = end.saturating_duration_since(self.node.clock.now());
            if rest.is_zero() || self.node.stop.is_stopped() {
                return None;
            }
            match self.freshness() {
                Freshness::Outdated(why) => return Some(why),
                Freshness::Unsettled => self.node.clock.sleep(rest.min(TICK), &self.node.stop),
                Freshness::Current => self.node.clock.sleep(rest, &self.node.stop),
            }
        }
    }

    /// Waits until an install can choose a disk. Returns true if the VIM should get another report before.
    pub(super) fn await_disks(&mut self) -> bool {
        self.withdraw_load();
        let Node { settings, stop, .. } = &self.node;
        let system = &settings.site.system;
        let warning = settle::until_writable(system, settings.wait_for_disk);
        let is_outdated = !stop.is_stopped() && self.late.has_other_disks(system);
        self.node.warnings.extend(warning);
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
