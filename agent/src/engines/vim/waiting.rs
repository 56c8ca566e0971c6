//! Waits between two requests, and the way back from a refusal: with an untouched disk the node asks again.

use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use super::client::Answer;
use super::engine::{Step, Vim};
use super::words;
use crate::act::seen::Seen;
use crate::act::{Code, DiskState, Failure, Outcome, Stage, State};
use crate::api::OnRefusal;
use crate::exit_status::ExitStatus;
use crate::http::client::GaveUp;
use crate::http::retry::{Backoff, Failed, MAX_RETRY_AFTER, RetryAfter, Why, is_transient};
use crate::http::url::Url;
use crate::job::node::refused;

/// The shortest wait between two requests.
const MIN_WAIT: Duration = Duration::from_secs(1);
/// The longest wait before the hardware of a blocked node is read again.
const BLOCKED_WAIT: Duration = Duration::from_mins(1);
/// One wait in this number shows the faulty part on the console again, which other lines push off the screen.
const WAITS_PER_BANNER: u32 = 5;
/// Inspections that may follow each other without a pause.
const FREE_INSPECTIONS: u32 = 4;
/// The longest pause that is added before an inspection.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// An inspection counts as the first if the last one is at least this old.
const CALM: Duration = Duration::from_mins(5);
/// Maximum number of refused instructions that are remembered.
const MAX_REFUSED: usize = 64;

/// Codes of faults outside the instruction, which pass by themselves, in addition to statuses of a server that do
/// ([`is_transient`]). The same instruction is tried again after these, because a VIM that has nothing to correct sends
/// nothing else.
const PASSING: [Code; 4] =
    [Code::IgnitionFetch, Code::ImageFetch, Code::ImageStalled, Code::ImageTruncated];

/// True if the fault that a code names may pass by itself.
fn is_passing(code: Code) -> bool {
    matches!(code, Code::Http(status) if is_transient(status)) || PASSING.contains(&code)
}

/// Advice for a request that was given up.
pub(super) fn advice(gave_up: &GaveUp) -> &'static str {
    match gave_up {
        GaveUp::Stopped => "start the service again",
        GaveUp::Deadline(failed) | GaveUp::Refused(failed) if failed.why == Why::Refused => {
            "correct what the line above names, then start the service again"
        }
        GaveUp::Deadline(_) | GaveUp::Refused(_) => {
            "make the VIM reachable from this node, then start the service again"
        }
    }
}

/// The pace of inspections, whatever causes them. Each cause has a wait of its own, but two replicas of a VIM that disagree
/// would reset one by the other, and the node would report without end.
#[derive(Debug, Default)]
pub(super) struct Pace {
    last: Option<Instant>,
    n_in_a_row: u32,
}

impl Pace {
    /// Counts an inspection, and returns the pause before it.
    fn pause(&mut self, now: Instant) -> Duration {
        let spent = self.last.map_or(CALM, |last| now.saturating_duration_since(last));
        self.n_in_a_row = if spent >= CALM { 1 } else { self.n_in_a_row.saturating_add(1) };
        let n_more = self.n_in_a_row.saturating_sub(FREE_INSPECTIONS);
        let gap = Duration::from_secs((1 << n_more.min(8)) - 1).min(MAX_PAUSE);
        let pause = gap.saturating_sub(spent);
        self.last = Some(now + pause);
        pause
    }
}

/// An instruction that was refused.
#[derive(Debug, Clone)]
pub(super) struct Refused {
    digest: String,
    code: Code,
    /// The node at that time; `None` if the refusal does not depend on it.
    seen: Option<Seen>,
}

/// The instructions that were refused. None of them is tried again, unless the obstacle may have passed.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    refused: Vec<Refused>,
    backoff: Backoff,
}

impl Refusals {
    fn add(&mut self, refused: Refused) {
        if is_passing(refused.code) {
            return;
        }
        if self.refused.len() >= MAX_REFUSED {
            self.refused.remove(0);
        }
        self.refused.push(refused);
    }
}

impl Vim<'_> {
    /// Returns the action after an instruction ended with this exit status: ask again if it was refused and no disk was
    /// touched.
    pub(super) fn after(&mut self, outcome: &Outcome, exit_status: ExitStatus) -> Step {
        let policy = self.on_refusal.take().unwrap_or(self.settings.on_refusal);
        let code = outcome.failure.as_ref().map(|failure| failure.code);
        let asks_again = outcome.state == DiskState::Untouched
            && exit_status == ExitStatus::Untouched
            && policy != OnRefusal::Stop
            && !self.node.settings.is_dry_run
            && !self.node.stop.is_stopped();
        let is_last = matches!(code, Some(Code::Interrupted | Code::NodeLocked));
        let Some(code) = code.filter(|_| asks_again && !is_last) else {
            return Step::End(exit_status);
        };
        let refused = Refused {
            digest: self.node.request_digest.clone().unwrap_or_default(),
            code,
            // Once coreos-installer ran, the same instruction is not tried again, whatever changes.
            seen: self.node.seen.take().filter(|_| outcome.tries == 0),
        };
        self.refusals.add(refused.clone());
        self.ask_again(&refused)
    }

    /// The earlier refusal of an instruction with this digest. `None` if there was none, or if the node has changed since:
    /// then the instruction is tried again.
    pub(super) fn refused_before(&mut self, digest: &str) -> Option<Refused> {
        let refused = self.refusals.refused.iter().find(|known| known.digest == digest)?.clone();
        if !refused.seen.as_ref().is_some_and(|seen| self.node.has_changed_since(seen)) {
            return Some(refused);
        }
        info!(
            "the hardware or network profiles of this node have changed since the instruction was refused with {}; trying it again",
            refused.code
        );
        self.refusals.refused.retain(|refused| refused.digest != digest);
        None
    }

    /// Waits, ever longer, and asks for another instruction than those that were refused.
    pub(super) fn ask_again(&mut self, last: &Refused) -> Step {
        if self.withdraw_load() {
            return Step::Inspect;
        }
        let refused = Failed { why: Why::Refused, ..Failed::unavailable(String::new()) };
        let mut wait = self.refusals.backoff.wait(&refused, self.node.clock.as_ref());
        let code = last.code;
        let is_blocked = last.seen.as_ref().is_some_and(|seen| !seen.blocking.is_empty());
        if is_blocked {
            // Somebody may be at the machine, with the part in hand.
            wait = wait.min(BLOCKED_WAIT);
            self.node.blocked.n_waits += 1;
        }
        let what = if is_passing(code) {
            format!("another try after {code}")
        } else if is_blocked {
            format!("another instruction, or a repair of this node, after {code}")
        } else if last.seen.is_some() {
            format!("another instruction, or a change of this node's disks, after {code}")
        } else {
            format!("an instruction other than the one refused with {code}")
        };
        self.node.console.waits_for(&what, &self.node.id);
        let wait_s = self.granted(wait).as_secs();
        info!("refused with {code}, no disk was touched; asking the VIM again in {wait_s} s");
        let (summary, n_waits) = (self.node.blocked.summary.clone(), self.node.blocked.n_waits);
        // A QR code needs the whole screen, so it is shown in every wait.
        if is_blocked && (summary.is_some() || n_waits.is_multiple_of(WAITS_PER_BANNER)) {
            self.node.show_banner(summary);
        }
        let then = format!("refused with {code}; asking again");
        if !is_blocked {
            return self.wait_and_ask(wait, &then, None);
        }
        // Whether the fault is gone is only known once the hardware has been read again.
        let slept = self.wait(wait, &then, Self::sleep_until_outdated);
        slept.map_or_else(Step::End, |_| Step::Inspect)
    }

    /// Waits before the hardware is read again, if it was read often of late.
    pub(super) fn pace_inspection(&mut self) -> Result<(), ExitStatus> {
        let pause = self.pace.pause(self.node.clock.now());
        if pause < MIN_WAIT {
            return Ok(());
        }
        info!("reading the hardware again in {} s, after several times in a row", pause.as_secs());
        self.sleep_through(pause, "inspecting again")
    }

    /// Waits as the VIM asks before the hardware is read again.
    pub(super) fn reinspect(&mut self, asked: Option<RetryAfter>) -> Step {
        // A fault that the load has found is reported at once.
        if self.withdraw_load() {
            return Step::Inspect;
        }
        // The first re-inspection starts at once; each further one in a row waits longer.
        let is_first = self.again.n_failed() == 0;
        let failed = Failed::unavailable("the VIM asks for another inspection".into());
        let failed = Failed { retry_after: asked, ..failed };
        let wait = self.again.wait(&failed, self.node.clock.as_ref());
        let wait = match asked {
            _ if !is_first => wait,
            Some(asked) => asked.spread(self.node.clock.as_ref()),
            None => MIN_WAIT,
        };
        self.wait_and_inspect(wait, "inspecting again")
    }

    /// Waits and asks for the instruction.
    pub(super) fn wait_and_ask(
        &mut self,
        wait: Duration,
        then: &str,
        location: Option<&Url>,
    ) -> Step {
        match self.wait(wait, then, Self::sleep_until_outdated) {
            Ok(None) => {}
            Ok(Some(why)) => {
                self.report_change(why);
                return Step::Inspect;
            }
            Err(exit_status) => return Step::End(exit_status),
        }
        self.post_earlier_result();
        match self.client.instruction(&self.node.id, location) {
            Ok(answer) => {
                // The VIM knows the node, so later requests to report again are unrelated.
                if matches!(answer, Answer::NotYet { .. }) {
                    self.again.reset();
                }
                Step::Ask(answer)
            }
            Err(GaveUp::Stopped) => Step::End(self.interrupted()),
            Err(gave_up) => Step::End(self.give_up(Some(&gave_up))),
        }
    }

    /// Returns the time limit for a wait. The VIM is asked once more when `--give-up-after` passes.
    fn granted(&self, wait: Duration) -> Duration {
        // An hour and its jitter.
        let wait = wait.clamp(MIN_WAIT, MAX_RETRY_AFTER + MAX_RETRY_AFTER / 10);
        self.client.time_left().map_or(wait, |left| wait.min(left))
    }

    /// Waits and reads the hardware again, without regard to changes meanwhile.
    fn wait_and_inspect(&mut self, wait: Duration, then: &str) -> Step {
        self.sleep_through(wait, then).map_or_else(Step::End, |()| Step::Inspect)
    }

    /// Waits without regard to changes meanwhile.
    fn sleep_through(&mut self, wait: Duration, then: &str) -> Result<(), ExitStatus> {
        self.wait(wait, then, |vim, wait| vim.node.clock.sleep(wait, &vim.node.stop))
    }

    /// Waits by means of `sleep`. `then` describes the action after the wait.
    fn wait<T>(
        &mut self,
        wait: Duration,
        then: &str,
        sleep: impl FnOnce(&mut Self, Duration) -> T,
    ) -> Result<T, ExitStatus> {
        if self.client.time_left().is_some_and(|left| left.is_zero()) {
            return Err(self.give_up(None));
        }
        let wait = self.granted(wait);
        let message = format!("{then} in {} s", wait.as_secs());
        self.event(Stage::Wait, State::Started, Some(&message));
        let slept = sleep(self, wait);
        if self.node.stop.is_stopped() {
            return Err(self.interrupted());
        }
        self.event(Stage::Wait, State::Done, None);
        Ok(slept)
    }

    /// Ends the job because `--give-up-after` has passed; `last` is why the last request failed.
    fn give_up(&mut self, last: Option<&GaveUp>) -> ExitStatus {
        let limit_s = self.settings.server.deadline.unwrap_or_default().as_secs();
        error!("no instruction could be carried out within {limit_s} s; giving up");
        if self.has_refused {
            if let Err(gave_up) = self.post_unposted(Some(self.node.settings.failure_limit)) {
                error!("the result could not be posted: {gave_up}");
            }
            return ExitStatus::Untouched;
        }
        let message = format!("the VIM sent no instruction within {limit_s} s");
        let failure = match last {
            Some(gave_up) => Failure::new(Code::NoInstruction, format!("{message}: {gave_up}"))
                .advise(advice(gave_up)),
            None => Failure::new(Code::NoInstruction, message)
                .advise("set an instruction for this node, then start the service again"),
        };
        self.refuse(failure).1
    }

    /// The VIM just accepted the report but no longer knows the node. If it forgets every node, backing off keeps them
    /// from reporting in a loop.
    pub(super) fn report_again(&mut self, failed: &Failed) -> Step {
        let wait = self.again.wait(failed, self.node.clock.as_ref());
        warn!(
            "the VIM no longer knows this node: {}; reporting again in {} s, times so far: {}",
            failed.message,
            wait.as_secs(),
            self.again.n_failed()
        );
        self.wait_and_inspect(wait, "reporting again")
    }

    pub(super) fn interrupted(&mut self) -> ExitStatus {
        let message = "the agent was interrupted by a signal before the disk was touched";
        let failure = Failure::new(Code::Interrupted, message).advise("start the service again");
        self.refuse(failure).1
    }

    /// Refuses an instruction; another one may follow.
    pub(super) fn refuse_instruction(&mut self, failure: Failure) -> Step {
        let (outcome, exit_status) = self.refuse(failure);
        self.after(&outcome, exit_status)
    }

    /// Posts that nothing is done and no disk was touched.
    fn refuse(&mut self, failure: Failure) -> (Outcome, ExitStatus) {
        self.open_events();
        let outcome = refused(failure);
        self.node.log_failure(&outcome, words);
        let exit_status = self.end_badly(&outcome);
        (outcome, exit_status)
    }
}
