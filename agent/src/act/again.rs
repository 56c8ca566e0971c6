//! The same request once more: what its trace of earlier rounds means for this one, and the trace of this one.
//!
//! | the trace says | this round |
//! |---|---|
//! | a disk carries the installed system | makes that disk the next to boot, or as [`Again`] says |
//! | the disk was left half written, or its table was erased | goes on with that disk, if nothing but remains is on it |
//! | [`MAX_ROUNDS`] rounds led to no system | ends, and names what failed each time |

use std::sync::Arc;

use formats::time::rfc3339;
use probes::block::Disk;
use tracing::{info, warn};

use super::install::Act;
use super::order::{Again, BootOrder, Order};
use super::outcome::{Compared, DiskState, Outcome};
use super::proof::earlier;
use super::prove::doubts;
use super::target::Target;
use super::trace::{self, MAX_ROUNDS, Previous, Request, Trace};
use super::{Code, Failure, Term, describe, identity_of, say};

/// The cause of a round that did not come to its end.
const CUT_SHORT: &str = "it did not come to its end, as after a power cut";
/// The cause of a round that wrote nothing.
const NEVER_CAME_UP: &str = "the disk was the next to boot, and the system on it did not come up";

impl Act<'_> {
    /// Reads what earlier rounds of the request left. Returns the order to carry out; `None` if it is done already, and the disk
    /// is the next to boot.
    ///
    /// # Errors
    /// `ALREADY_INSTALLED` if the order asks for that; `ROUNDS_EXHAUSTED`; those of opening the disk.
    pub(super) fn recall(
        &self,
        order: &Order,
        outcome: &mut Outcome,
    ) -> Result<Option<Order>, Failure> {
        let Some(request) = &order.request else { return Ok(Some(order.clone())) };
        let disks = self.selection(order).disks()?;
        let previous = Previous::read(&self.site.system, &disks);
        outcome.previous = previous.newest().cloned();
        if order.reinstall || order.again == Again::Install {
            return Ok(Some(order.clone()));
        }
        let (n_rounds, failures) = previous.rounds(request);
        if n_rounds >= MAX_ROUNDS {
            return Err(exhausted(request, &failures));
        }
        match previous.installed(request, &disks)[..] {
            [] => {
                let unfinished = previous.unfinished(request).cloned();
                if let Some(disk) = &unfinished {
                    info!("request {} goes on: {} contains its remains", request.id, disk.device);
                }
                Ok(Some(Order { unfinished, ..order.clone() }))
            }
            [found] if order.again == Again::Boot => {
                self.boot_again(order, found, &disks, outcome).map(|()| None)
            }
            ref found => Err(already(request, found)),
        }
    }

    /// Makes the disk with the installed system the next to boot.
    fn boot_again(
        &self,
        order: &Order,
        (disk, trace): (&Disk, &Trace),
        disks: &[Disk],
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        let target = Target::hold(disk, &self.site.system)?;
        let file = Arc::new(target.direct()?);
        outcome.disk = Some(Box::new(disk.clone()));
        outcome.is_installed_already = true;
        info!("{} was installed at {} by the same request", describe(disk), trace.at);
        if self.is_dry_run {
            return Ok(());
        }
        if self.site.system.is_uefi() {
            let checks = self.boot_entry((order.boot_order, true), (disk, &file), disks);
            outcome.warnings.extend(doubts(&checks));
        }
        // A system that came up has removed the stamp; then its firmware or its VIM prefers this live system, and no round failed.
        if earlier::awaits_first_boot(file, disk.partitions.clone(), self.site.system.stop()) {
            let (rounds, mut failures) = self.rounds(&order.request.clone().unwrap_or_default());
            failures.push(NEVER_CAME_UP.to_owned());
            let last = Trace { at: self.now(), rounds: rounds + 1, failures, ..trace.clone() };
            self.keep(&last, outcome);
        }
        Ok(())
    }

    /// Leaves the trace of a disk that is going to be written. Returns the one that was there.
    pub(super) fn leave_begin(
        &self,
        order: &Order,
        disk: &Disk,
        outcome: &mut Outcome,
    ) -> Option<Trace> {
        let request = order.request.as_ref()?;
        let before = self.last();
        // It is a fruitless round until its end says something else.
        let (rounds, mut failures) = self.rounds(request);
        failures.push(CUT_SHORT.to_owned());
        let rounds = (rounds + 1, failures);
        self.keep(&self.trace(request, disk, DiskState::HalfWritten, rounds), outcome);
        before
    }

    /// Leaves the trace of an order that was carried out.
    pub(super) fn leave_end(&self, order: &Order, target: &Target, outcome: &mut Outcome) {
        let Some(request) = &order.request else { return };
        let compared = outcome.proof.as_ref().and_then(|proof| proof.compared);
        let trace = Trace {
            proved: compared == Some(Compared::Whole),
            ..self.trace(request, target.disk(), outcome.state, (0, Vec::new()))
        };
        match trace::leave(target, &trace) {
            Ok(true) => info!("left a trace on {}", target.disk().device),
            Ok(false) => info!("{} has no place for a trace", target.disk().device),
            Err(why) => outcome.warnings.push(format!("leaving a trace on the disk: {why}")),
        }
        self.keep(&trace, outcome);
    }

    /// Leaves the trace of an order that failed after [`Act::leave_begin`], which returned `before`.
    pub(super) fn leave_failure(
        &self,
        order: &Order,
        before: Option<Trace>,
        failure: &Failure,
        outcome: &mut Outcome,
    ) {
        let (Some(request), Some(disk)) = (&order.request, outcome.disk.clone()) else { return };
        let (rounds, mut failures) = self.rounds(request);
        failures.pop();
        let trace = if outcome.state == DiskState::Untouched {
            // Such as a server that was not reached: no round of the disk.
            let rounds = (rounds.saturating_sub(1), failures);
            before.unwrap_or_else(|| self.trace(request, &disk, outcome.state, rounds))
        } else {
            failures.push(failure.to_string());
            self.trace(request, &disk, outcome.state, (rounds, failures))
        };
        self.keep(&trace, outcome);
    }

    /// Keeps a trace in the firmware, if that has variables.
    fn keep(&self, trace: &Trace, outcome: &mut Outcome) {
        let system = &self.site.system;
        if !system.is_uefi() {
            return;
        }
        if let Err(why) = trace::remember(&system.efivars(), trace) {
            let what = format!("the firmware keeps no trace of this install: {why}");
            warn!("{what}");
            outcome.warnings.push(what);
        }
    }

    /// The trace in the firmware.
    fn last(&self) -> Option<Trace> {
        Previous::read(&self.site.system, &[]).last
    }

    fn rounds(&self, request: &Request) -> (u32, Vec<String>) {
        Previous { last: self.last(), ..Previous::default() }.rounds(request)
    }

    fn trace(
        &self,
        request: &Request,
        disk: &Disk,
        stage: DiskState,
        (rounds, failures): (u32, Vec<String>),
    ) -> Trace {
        Trace {
            request: request.id.clone(),
            digest: request.digest.clone(),
            stage,
            at: self.now(),
            proved: false,
            disk: identity_of(disk),
            rounds,
            failures,
        }
    }

    fn now(&self) -> String {
        rfc3339(self.site.system.clock().time_of_day())
    }
}

fn exhausted(request: &Request, failures: &[String]) -> Failure {
    let why: Vec<String> =
        (1..).zip(failures).map(|(number, why)| format!("{number}. {why}")).collect();
    let what = say![
        Term::Order,
        format!(
            " {} was tried {MAX_ROUNDS} times without a system: {}",
            request.id,
            why.join("; ")
        )
    ];
    let advice = say!["mend what failed; then give a new request, or ", Term::Reinstall];
    Failure::new(Code::RoundsExhausted, what).advise(advice)
}

fn already(request: &Request, found: &[(&Disk, &Trace)]) -> Failure {
    let disks = found.iter().map(|(disk, trace)| format!("{} at {}", describe(disk), trace.at));
    let what = say![
        Term::Order,
        format!(" {} was carried out already: {}", request.id, super::list(disks, ", "))
    ];
    let advice = say!["boot that disk; to install again, give a new request, or ", Term::Reinstall];
    Failure::new(Code::AlreadyInstalled, what).advise(advice)
}

/// The place of the disk in the firmware's order, and whether the next boot is from it in any case.
pub(super) type Wish = (BootOrder, bool);
