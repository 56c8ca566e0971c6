//! The same request once more: what its trace of earlier rounds means for this one, and the trace of this one.
//!
//! | the trace says | this round |
//! |---|---|
//! | a disk carries the installed system | makes that disk the next to boot, or as [`Again`] says |
//! | an install left the disk half written, or erased its table | goes on with that disk, if nothing but remains is on it |
//! | [`MAX_ROUNDS`] rounds led to no system | ends, and names what failed each time |

use std::sync::Arc;

use formats::time::rfc3339;
use probes::block::Disk;
use tracing::{info, warn};

use super::choose::pick;
use super::efi::Wish;
use super::install::Act;
use super::mounted::Volume;
use super::order::{Again, BootOrder, Order};
use super::outcome::{CheckName, Compared, DiskState, NextBoot, Outcome};
use super::proof::earlier;
use super::prove::doubts;
use super::saved::Saved;
use super::seen::Seen;
use super::target::Target;
use super::trace::{self, LIMIT, MAX_ROUNDS, Previous, Request, Trace, is_one};
use super::{Code, Failure, Term, describe, identity_of, say};
use crate::ask::ask_within;
use crate::node_id::BOOT_ID;

/// A round that did not come to its end.
const CUT_SHORT: &str = "it did not come to its end, as after a power cut";
/// A round whose disk was installed before.
const NEVER_CAME_UP: &str = "the disk was the next to boot, and the system on it did not come up";

/// The trace of an install that has begun.
#[derive(Debug, Default)]
pub(super) struct Begun {
    /// The trace that was there before.
    before: Option<Trace>,
    /// The one that the firmware has now.
    kept: Option<Trace>,
}

impl Act<'_> {
    /// Reads what earlier rounds of the request left, for the order to know. Returns false if it was carried out before.
    ///
    /// # Errors
    /// `ALREADY_INSTALLED` if the order asks for that, or its system is not found where it was installed; `ROUNDS_EXHAUSTED`; those
    /// of opening the disk.
    pub(super) fn recall(&self, order: &mut Order, outcome: &mut Outcome) -> Result<bool, Failure> {
        let Some(request) = order.request.clone() else { return Ok(true) };
        let disks = self.selection(order).disks()?;
        // Another look may differ, such as at a disk that did not respond.
        outcome.seen = Some(Seen::of(&disks, self.site));
        let previous = Previous::read(&self.site.system, &disks);
        outcome.previous = previous.newest();
        order.unfinished = previous.unfinished().cloned();
        if order.reinstall {
            return Ok(true);
        }
        let installed =
            previous.installed(&request, &disks).filter(|_| order.again != Again::Install);
        // A disk that was moved may be another one than the order means by now.
        if let Some((disk, trace)) =
            installed.filter(|(disk, _)| self.is_meant(order, disk, &disks))
        {
            if order.again == Again::Ask {
                return Err(already(disk, trace, "and is not to be installed again unasked"));
            }
            let last = previous.last_of(&request).unwrap_or(trace);
            return self.boot_again(order, disk, (trace, last), outcome).map(|()| false);
        }
        let is_damaged = |disk: &&Disk| previous.damaged.contains(&disk.name);
        if previous.last.is_none()
            && order.again != Again::Install
            && let Some(disk) = disks.iter().find(is_damaged)
            && self.is_meant(order, disk, &disks)
        {
            // It may carry the system of this request.
            return Err(damaged(disk));
        }
        match previous.last_of(&request) {
            Some(last) if last.rounds >= MAX_ROUNDS => Err(exhausted(last)),
            _ => Ok(true),
        }
    }

    fn is_meant(&self, order: &Order, disk: &Disk, disks: &[Disk]) -> bool {
        let resolve = |path: &str| self.site.system.kernel().resolve(path);
        let picked = pick(disks, &self.selection(order).wanted(), &resolve);
        picked.is_ok_and(|picked| picked.disk.name == disk.name)
    }

    /// Makes the disk with the installed system the next to boot. `last` is the newest trace of the request.
    fn boot_again(
        &self,
        order: &Order,
        disk: &Disk,
        (trace, last): (&Trace, &Trace),
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        let system = &self.site.system;
        let target = Target::hold(disk, system)?;
        let file = Arc::new(target.direct()?);
        outcome.disk = Some(Box::new(disk.clone()));
        let partitions = disk.partitions.clone();
        let has_not_come_up =
            earlier::awaits_first_boot(Arc::clone(&file), partitions, system.stop()).map_err(
                |why| already(disk, trace, &format!("but its system is not found: {why}")),
            )?;
        let mut last = last.clone();
        if !has_not_come_up {
            // Then its firmware or its VIM prefers this live system, and no round failed.
            (last.rounds, last.failures) = (0, Vec::new());
        } else if last.rounds >= MAX_ROUNDS {
            return Err(exhausted(&last));
        }
        outcome.confirm = trace.shown().confirm;
        outcome.installed_before = Some(NextBoot::Firmware);
        info!("{} has had what the request asks for since {}", describe(disk), trace.at);
        if self.is_dry_run || !system.is_uefi() {
            return Ok(());
        }
        let checks = self.boot_entry(Wish { place: order.boot_order, is_next: true }, disk, &file);
        let is_made = checks.iter().any(|check| check.name == CheckName::EfiEntry && check.ok);
        if is_made {
            outcome.installed_before = Some(NextBoot::Disk);
        }
        outcome.warnings.extend(doubts(&checks));
        // In the same live boot the disk has had no chance; with another order, the boot before this one was not from the disk.
        let is_round = has_not_come_up && order.boot_order == BootOrder::Disk;
        let boot = self.boot_id();
        if is_round && (boot.is_none() || boot != last.boot) {
            last.count(NEVER_CAME_UP);
        }
        self.keep(&Trace { at: self.now(), boot, ..last }, outcome);
        Ok(())
    }

    /// Leaves the trace of a disk that is going to be written.
    pub(super) fn leave_begin(&self, order: &Order, disk: &Disk, outcome: &mut Outcome) -> Begun {
        let Some(request) = &order.request else { return Begun::default() };
        let before = Previous::read(&self.site.system, &[]);
        let mut trace = self.trace(request, disk, DiskState::HalfWritten, outcome);
        if let Some(last) = before.last_of(request) {
            (trace.rounds, trace.failures) = (last.rounds, last.failures.clone());
        }
        // It is a fruitless round until its end says something else.
        trace.count(CUT_SHORT);
        let kept = self.keep(&trace, outcome).then_some(trace);
        Begun { before: before.last, kept }
    }

    /// Leaves the trace of an order that was carried out.
    pub(super) fn leave_end(&self, order: &Order, target: &Target, outcome: &mut Outcome) {
        let Some(request) = &order.request else { return };
        let disk = target.disk();
        let compared = outcome.proof.as_ref().and_then(|proof| proof.compared);
        let proved = compared == Some(Compared::Whole);
        let trace = Trace { proved, ..self.trace(request, disk, outcome.state, outcome) };
        let saved = Saved::parse(&order.save_partlabel, &order.save_partindex).unwrap_or_default();
        let kept = disk.partitions.iter().filter(|part| saved.keeps(part));
        let kept: Vec<u32> = kept.filter_map(|part| part.number).collect();
        // In the firmware first: there it replaces that of a write without an end, which would count.
        self.keep(&trace, outcome);
        self.leave(target, &kept, &trace, outcome);
    }

    /// Adds to the trace of the installed system which request gave it another config.
    pub(super) fn leave_reignited(&self, order: &Order, target: &Target, outcome: &mut Outcome) {
        let Some(request) = &order.request else { return };
        let disk = target.disk();
        let previous = Previous::read(&self.site.system, std::slice::from_ref(disk));
        // The firmware keeps one trace: not to be lost is that of a write that did not come to its end.
        let keeps_other = previous.unfinished().is_some_and(|other| !is_one(other, disk));
        let mut known = previous.on_disks.into_iter().map(|(_, trace)| trace).chain(previous.last);
        let known =
            known.find(|trace| trace.stage == DiskState::Installed && is_one(&trace.disk, disk));
        let trace =
            known.unwrap_or_else(|| self.trace(request, disk, DiskState::Installed, outcome));
        let trace = Trace {
            confirm: outcome.confirm.clone(),
            config_of: Some(request.clone()),
            at: self.now(),
            boot: self.boot_id(),
            rounds: 0,
            failures: Vec::new(),
            ..trace
        };
        // A running kernel does not notice writes below a mount.
        let mounted = disk.partitions.iter().filter(|part| !part.mounted_at.is_empty());
        let mounted: Vec<u32> = mounted.filter_map(|part| part.number).collect();
        if !keeps_other {
            self.keep(&trace, outcome);
        }
        self.leave(target, &mounted, &trace, outcome);
    }

    /// Leaves a trace on the disk, except in the partitions to `keep`.
    fn leave(&self, target: &Target, keep: &[u32], trace: &Trace, outcome: &mut Outcome) {
        let device = &target.disk().device;
        match trace::leave(target, keep, trace) {
            Ok(true) => info!("left a trace on {device}"),
            Ok(false) => self.leave_in_boot(target.disk(), trace, outcome),
            Err(why) => outcome.warnings.push(format!("leaving a trace on {device}: {why}")),
        }
    }

    /// Leaves a trace in the file system `boot`, as on machines without UEFI, whose disks have no EFI system partition.
    fn leave_in_boot(&self, disk: &Disk, trace: &Trace, outcome: &mut Outcome) {
        let system = &self.site.system;
        // The facts of the disk were collected before the write, and its partitions may be the old ones.
        let disks = system.disks().ok().flatten().unwrap_or_default();
        let disk = disks.iter().find(|now| now.name == disk.name).unwrap_or(disk);
        let device = &disk.device;
        let (volume, _) = match Volume::of_boot(disk) {
            Ok(found) => found,
            Err(why) => return info!("{device} has no place for a trace: {why}"),
        };
        let left = trace.file().and_then(|file| {
            system.replace(&volume, vec![file]).map_err(|error| error.to_string())
        });
        match left {
            Ok(()) => info!("left a trace in boot on {device}"),
            Err(why) => {
                outcome.warnings.push(format!("leaving a trace in boot on {device}: {why}"));
            }
        }
    }

    /// Leaves the trace of an order that failed after it had begun.
    pub(super) fn leave_failure(&self, begun: Begun, failure: &Failure, outcome: &mut Outcome) {
        let Begun { before, kept: Some(mut trace) } = begun else { return };
        (trace.stage, trace.at) = (outcome.state, self.now());
        if outcome.state == DiskState::Untouched {
            // Such as a server that was not reached: no round of the disk.
            trace.rounds -= 1;
            trace.failures.pop();
            self.keep(&before.unwrap_or(trace), outcome);
        } else {
            trace.explain(&failure.to_string());
            self.keep(&trace, outcome);
        }
    }

    /// Keeps a trace in the firmware, if that has variables. Returns true if it is there.
    fn keep(&self, trace: &Trace, outcome: &mut Outcome) -> bool {
        let system = &self.site.system;
        if !system.is_uefi() {
            return false;
        }
        let (efivars, trace) = (system.efivars(), trace.clone());
        let write = move || trace::remember(&efivars, &trace);
        // Firmware that hangs must not prevent the install or its result.
        let kept = ask_within("trace", LIMIT, system.stop(), write);
        let Err(why) = kept.unwrap_or_else(|why| Err(why.to_string())) else { return true };
        let what = format!("the firmware keeps no trace of this install: {why}");
        warn!("{what}");
        outcome.warnings.push(what);
        false
    }

    fn trace(&self, request: &Request, disk: &Disk, stage: DiskState, outcome: &Outcome) -> Trace {
        Trace {
            confirm: outcome.confirm.clone(),
            request: request.id.clone(),
            digest: request.digest.clone(),
            stage,
            at: self.now(),
            proved: false,
            boot: self.boot_id(),
            disk: identity_of(disk),
            rounds: 0,
            failures: Vec::new(),
            config_of: None,
        }
    }

    fn boot_id(&self) -> Option<String> {
        let read = |machine: &probes::machine::Machine| {
            machine.text(BOOT_ID).map(|id| id.trim().to_owned())
        };
        self.site.system.ask(read).ok().flatten()
    }

    fn now(&self) -> String {
        rfc3339(self.site.system.clock().time_of_day())
    }
}

fn exhausted(last: &Trace) -> Failure {
    let why: Vec<String> =
        (1..).zip(&last.failures).map(|(number, why)| format!("{number}. {why}")).collect();
    let why = why.join("; ");
    let tried = format!(" {} was tried {MAX_ROUNDS} times without a system: {why}", last.request);
    let advice = say!["mend what failed; then give a new request, or ", Term::Reinstall];
    Failure::new(Code::RoundsExhausted, say![Term::Order, tried]).advise(advice)
}

fn damaged(disk: &Disk) -> Failure {
    let what = format!("the trace of an earlier install on {} is damaged", describe(disk));
    let advice = say!["boot that disk; to install on it, ", Term::Reinstall];
    Failure::new(Code::AlreadyInstalled, what).advise(advice)
}

fn already(disk: &Disk, trace: &Trace, why: &str) -> Failure {
    let (disk, at) = (describe(disk), &trace.at);
    let what = format!(" {} was carried out on {disk} at {at}, {why}", trace.request);
    let advice = say!["boot that disk; to install again, give a new request, or ", Term::Reinstall];
    Failure::new(Code::AlreadyInstalled, say![Term::Order, what]).advise(advice)
}
