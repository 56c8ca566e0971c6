//! Waits until no more disks appear. Drivers find their disks in parallel: an NVMe disk is there long before the
//! boot disk of a slow controller, and would be the only one to choose from.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use probes::block::{Arrival, Arrivals, arrivals};
use tracing::{info, warn};

use super::{System, can_be_written};

/// No disk may have appeared for this long.
pub const QUIET: Duration = Duration::from_secs(5);
/// Time limit for this wait.
const LIMIT: Duration = Duration::from_mins(1);
/// Interval at which an install looks for a disk that has not appeared yet.
const DISK_POLL: Duration = Duration::from_secs(2);
/// Interval between checks.
const TICK: Duration = Duration::from_secs(1);

/// Watches disks appear.
#[derive(Debug, Default)]
pub struct Watch {
    /// When each disk was seen first, by name and sequence number.
    seen: BTreeMap<(String, Option<u64>), Instant>,
    /// When udev was found busy last.
    busy_at: Option<Instant>,
}

impl Watch {
    /// Checks that udev is idle and every disk has been there for a while; the error is the reason.
    ///
    /// # Errors
    /// The reason.
    pub fn is_settled(&mut self, system: &System, now: Instant) -> Result<(), String> {
        self.judge(&system.ask(arrivals)?, now)
    }

    fn judge(&mut self, found: &Arrivals, now: Instant) -> Result<(), String> {
        let keys = found.disks.iter().map(|disk| (disk.name.clone(), disk.diskseq));
        let seen = keys.map(|key| (self.seen.get(&key).copied().unwrap_or(now), key));
        self.seen = seen.map(|(since, key)| (key, since)).collect();
        if found.is_udev_busy {
            self.busy_at = Some(now);
            return Err("udev still processes devices".into());
        }
        // Between two devices the queue of udev is empty for a moment.
        if self.busy_at.is_some_and(|at| now.saturating_duration_since(at) < QUIET) {
            return Err("udev has just processed devices".into());
        }
        let age = |disk: &Arrival| {
            let seen = self.seen.get(&(disk.name.clone(), disk.diskseq));
            let watched = seen.map_or(Duration::ZERO, |at| now.saturating_duration_since(*at));
            disk.age.unwrap_or_default().max(watched)
        };
        match found.disks.iter().find(|disk| age(disk) < QUIET) {
            Some(disk) => Err(format!("{} has just appeared", disk.name)),
            None => Ok(()),
        }
    }
}

/// Waits until the disks have settled, but not forever; a warning if they have not.
pub fn wait(system: &System) -> Option<String> {
    let clock = system.clock();
    let mut watch = Watch::default();
    let started = clock.now();
    let mut is_reported = false;
    loop {
        let why = watch.is_settled(system, clock.now()).err()?;
        if clock.now().saturating_duration_since(started) >= LIMIT {
            let limit_s = LIMIT.as_secs();
            let warning = format!("the disks have not settled within {limit_s} s: {why}");
            warn!("{warning}");
            return Some(warning);
        }
        if system.stop().is_stopped() {
            return None;
        }
        if !is_reported {
            info!("waiting until no more disks appear: {why}");
            is_reported = true;
        }
        system.sleep(TICK);
    }
}

/// Waits until an install can choose a disk: they have settled, and there is one that can be written, for which it waits
/// for at most `limit`. Returns a warning if they have not settled.
pub fn until_writable(system: &System, limit: Duration) -> Option<String> {
    let (warning, clock) = (wait(system), system.clock());
    let since = clock.now();
    let mut is_reported = false;
    while !system.stop().is_stopped() {
        let rest = limit.saturating_sub(clock.now().saturating_duration_since(since));
        let found = if rest.is_zero() { None } else { system.disks().ok().flatten() };
        let Some(found) = found.filter(|disks| !disks.iter().any(can_be_written)) else { break };
        if !is_reported {
            let (n, rest_s) = (found.len(), rest.as_secs());
            info!("no disk can be written yet (disks found: {n}); waiting for at most {rest_s} s");
            is_reported = true;
        }
        system.sleep(DISK_POLL.min(rest));
    }
    warning
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(name: &str, age_s: Option<u64>) -> Arrival {
        Arrival {
            name: name.into(),
            diskseq: None,
            n_sectors: None,
            age: age_s.map(Duration::from_secs),
        }
    }

    fn found(disks: Vec<Arrival>) -> Arrivals {
        Arrivals { is_udev_busy: false, disks }
    }

    #[test]
    fn disks_that_udev_has_known_for_a_while_need_no_wait() {
        let old = found(vec![disk("sda", Some(9)), disk("sdb", Some(600))]);
        assert_eq!(Watch::default().judge(&old, Instant::now()), Ok(()));
        assert_eq!(Watch::default().judge(&found(vec![]), Instant::now()), Ok(()));
    }

    #[test]
    fn each_new_disk_and_a_busy_udev_begin_the_wait_again() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut watch = Watch::default();
        let nvme = || disk("nvme0n1", None);
        assert!(watch.judge(&found(vec![nvme()]), at(0)).is_err());
        assert!(watch.judge(&found(vec![nvme()]), at(4)).is_err());
        // The slow controller's disk appears just in time.
        let both = || found(vec![nvme(), disk("sda", Some(0))]);
        assert!(watch.judge(&both(), at(5)).is_err());
        assert!(watch.judge(&both(), at(9)).is_err());
        let busy = Arrivals { is_udev_busy: true, ..both() };
        assert!(watch.judge(&busy, at(10)).is_err());
        assert!(watch.judge(&both(), at(14)).is_err());
        assert_eq!(watch.judge(&both(), at(15)), Ok(()));
        // Another disk under the same name is new.
        let other = Arrival { diskseq: Some(9), ..disk("sda", None) };
        assert!(watch.judge(&found(vec![nvme(), other]), at(16)).is_err());
    }
}
