//! Waits between two requests, and the way back from a refusal: with an untouched disk the node asks again.

use std::time::Duration;

use tracing::{error, info, warn};

use super::Ended;
use super::sequence::{Job, Next};
use crate::act::Failure;
use crate::act::seen::Seen;
use crate::act::{Code, DiskState, Outcome, Stage, State};
use crate::api::OnRefusal;
use crate::engines::vim::Answer;
use crate::exit_status::ExitStatus;
use crate::http::client::GaveUp;
use crate::http::retry::{Backoff, Failed, MAX_RETRY_AFTER, RetryAfter, Why, is_transient};
use crate::http::url::Url;
use crate::qr::Summary;

/// The shortest wait between two requests.
const MIN_WAIT: Duration = Duration::from_secs(1);
/// The longest wait before the hardware of a blocked node is read again.
const BLOCKED_WAIT: Duration = Duration::from_mins(1);
/// One wait in this number shows the faulty part on the console again, which other lines push off the screen.
const WAITS_PER_BANNER: u32 = 5;
/// Maximum number of refused instructions that are remembered.
const MAX_REFUSED: usize = 64;

/// Codes of faults outside the instruction, which pass by themselves, in addition to statuses of a server that do
/// ([`is_transient`]). The same instruction is tried again after these, because a VIM that has nothing to correct sends
/// nothing else.
const PASSING: [Code; 4] =
    [Code::IgnitionFetch, Code::ImageFetch, Code::ImageStalled, Code::ImageTruncated];

/// True if the fault that a code names may pass by itself.
fn is_passing(code: &str) -> bool {
    let status = code.strip_prefix("HTTP_").and_then(|status| status.parse().ok());
    status.is_some_and(is_transient) || PASSING.iter().any(|passing| passing.to_string() == code)
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

/// An instruction that was refused.
#[derive(Debug, Clone)]
pub(super) struct Refused {
    digest: String,
    code: String,
    /// The node at that time; `None` if the refusal does not depend on it.
    seen: Option<Seen>,
}

/// A node whose findings prevent the install.
#[derive(Debug, Default)]
pub(super) struct Blocked {
    /// The text on the console meanwhile.
    pub(super) banner: Option<String>,
    /// The content of its QR code, if one is shown.
    pub(super) summary: Option<Summary>,
    n_waits: u32,
}

impl Refused {
    /// True if findings prevented the install.
    fn is_blocked(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| !seen.blocking.is_empty())
    }
}

/// The instructions that were refused. None of them is tried again, unless the obstacle may have passed.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    refused: Vec<Refused>,
    backoff: Backoff,
}

impl Refusals {
    fn find(&self, digest: &str) -> Option<&Refused> {
        self.refused.iter().find(|refused| refused.digest == digest)
    }

    fn forget(&mut self, digest: &str) {
        self.refused.retain(|refused| refused.digest != digest);
    }

    fn add(&mut self, refused: Refused) {
        if is_passing(&refused.code) {
            return;
        }
        if self.refused.len() >= MAX_REFUSED {
            self.refused.remove(0);
        }
        self.refused.push(refused);
    }
}

impl Job<'_> {
    /// Returns the action after an instruction ended in `ended`: ask again if it was refused and no disk was touched.
    pub(super) fn after(&mut self, ended: Ended, on_refusal: Option<OnRefusal>) -> Next {
        let policy = on_refusal.unwrap_or(self.settings.on_refusal);
        let Some(result) = ended.result.as_deref() else { return Next::End(ended) };
        let is_refusal = result.disk_state == DiskState::Untouched
            && ended.exit_status == ExitStatus::Untouched
            && result.code.as_deref() != Some(&Code::Interrupted.to_string());
        if !is_refusal
            || policy == OnRefusal::Stop
            || self.settings.is_dry_run
            || self.stop.is_stopped()
        {
            return Next::End(ended);
        }
        let refused = Refused {
            digest: self.request_digest.clone().unwrap_or_default(),
            code: result.code.clone().unwrap_or_default(),
            // Once coreos-installer ran, the same instruction is not tried again, whatever changes.
            seen: self.seen.take().filter(|_| result.attempts == 0),
        };
        self.refusals.add(refused.clone());
        self.last_result = ended.result;
        self.ask_again(&refused)
    }

    /// The earlier refusal of an instruction with this digest. `None` if there was none, or if the node has changed since:
    /// then the instruction is tried again.
    pub(super) fn refused_before(&mut self, digest: &str) -> Option<Refused> {
        let refused = self.refusals.find(digest)?.clone();
        if !refused.seen.as_ref().is_some_and(|seen| self.has_changed_since(seen)) {
            return Some(refused);
        }
        info!(
            "the hardware or network profiles of this node have changed since the instruction was refused with {}; trying it again",
            refused.code
        );
        self.refusals.forget(digest);
        None
    }

    /// Waits, ever longer, and asks for another instruction than those that were refused.
    pub(super) fn ask_again(&mut self, last: &Refused) -> Next {
        if self.withdraw_load() {
            return Next::Inspect;
        }
        let refused = Failed { why: Why::Refused, ..Failed::unavailable(String::new()) };
        let mut wait = self.refusals.backoff.wait(&refused, self.clock.as_ref());
        let code = &last.code;
        let is_blocked = last.is_blocked();
        if is_blocked {
            // Somebody may be at the machine, with the part in hand.
            wait = wait.min(BLOCKED_WAIT);
            self.blocked.n_waits += 1;
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
        self.console.waits_for(&what, &self.node_id);
        let wait_s = self.granted(wait).as_secs();
        info!("refused with {code}, no disk was touched; asking the VIM again in {wait_s} s");
        if is_blocked && self.is_banner_due() {
            self.show_banner(self.blocked.summary.clone());
        }
        let then = format!("refused with {code}; asking again");
        if !is_blocked {
            return self.wait_and_ask(wait, &then, None);
        }
        // Whether the fault is gone is only known once the hardware has been read again.
        match self.wait_unless_outdated(wait, &then) {
            Ok(_) => Next::Inspect,
            Err(ended) => Next::End(ended),
        }
    }

    /// Waits as the VIM asks before the hardware is read again.
    pub(super) fn reinspect(&mut self, asked: Option<RetryAfter>) -> Next {
        // A fault that the load has found is reported at once.
        if self.withdraw_load() {
            return Next::Inspect;
        }
        let wait = self.wait_before_inspecting(asked);
        self.wait(wait, "inspecting again").map_or_else(Next::End, |()| Next::Inspect)
    }

    /// A QR code needs the whole screen, so it is shown in every wait.
    fn is_banner_due(&self) -> bool {
        self.blocked.summary.is_some() || self.blocked.n_waits.is_multiple_of(WAITS_PER_BANNER)
    }

    /// Waits and asks for the instruction. `then` describes the action after the wait.
    pub(super) fn wait_and_ask(
        &mut self,
        wait: Duration,
        then: &str,
        location: Option<&Url>,
    ) -> Next {
        match self.wait_unless_outdated(wait, then) {
            Ok(None) => {}
            Ok(Some(why)) => {
                self.report_change(why);
                return Next::Inspect;
            }
            Err(ended) => return Next::End(ended),
        }
        self.post_earlier_result();
        match self.client.instruction(&self.node_id, location) {
            Ok(answer) => {
                // The VIM knows the node, so later requests to report again are unrelated.
                if matches!(answer, Answer::NotYet { .. }) {
                    self.again.reset();
                }
                Next::Ask(answer)
            }
            Err(GaveUp::Stopped) => Next::End(self.interrupted()),
            Err(gave_up) => Next::End(self.give_up(Some(&gave_up))),
        }
    }

    /// Returns the time limit for a wait. The VIM is asked once more when `--give-up-after` passes.
    fn granted(&self, wait: Duration) -> Duration {
        // An hour and its jitter.
        let wait = wait.clamp(MIN_WAIT, MAX_RETRY_AFTER + MAX_RETRY_AFTER / 10);
        self.client.time_left().map_or(wait, |left| wait.min(left))
    }

    /// Waits without regard to changes meanwhile.
    pub(super) fn wait(&mut self, wait: Duration, then: &str) -> Result<(), Ended> {
        self.wait_with(wait, then, |job, wait| job.clock.sleep(wait, &job.stop))
    }

    /// Waits; ends early, with the reason, once another report would differ from the last one.
    fn wait_unless_outdated(
        &mut self,
        wait: Duration,
        then: &str,
    ) -> Result<Option<&'static str>, Ended> {
        self.wait_with(wait, then, Self::sleep_until_outdated)
    }

    fn wait_with<T>(
        &mut self,
        wait: Duration,
        then: &str,
        sleep: impl FnOnce(&mut Self, Duration) -> T,
    ) -> Result<T, Ended> {
        if self.client.time_left().is_some_and(|left| left.is_zero()) {
            return Err(self.give_up(None));
        }
        let wait = self.granted(wait);
        let message = format!("{then} in {} s", wait.as_secs());
        self.event(Stage::Wait, State::Started, Some(&message));
        let slept = sleep(self, wait);
        if self.stop.is_stopped() {
            return Err(self.interrupted());
        }
        self.event(Stage::Wait, State::Done, None);
        Ok(slept)
    }

    /// Ends the job because `--give-up-after` has passed; `last` is why the last request failed.
    fn give_up(&mut self, last: Option<&GaveUp>) -> Ended {
        let limit_s = self.settings.vim.deadline.unwrap_or_default().as_secs();
        error!("no instruction could be carried out within {limit_s} s; giving up");
        if let Some(result) = self.last_result.take() {
            if let Err(gave_up) = self.post_unposted(Some(self.settings.failure_limit)) {
                error!("the result could not be posted: {gave_up}");
            }
            return Ended { exit_status: ExitStatus::Untouched, result: Some(result) };
        }
        let message = format!("the VIM sent no instruction within {limit_s} s");
        let failure = match last {
            Some(gave_up) => Failure::new(Code::NoInstruction, format!("{message}: {gave_up}"))
                .advise(advice(gave_up)),
            None => Failure::new(Code::NoInstruction, message)
                .advise("set an instruction for this node, then start the service again"),
        };
        self.refuse(failure)
    }

    /// The first re-inspection starts at once; each further one in a row waits longer.
    pub(super) fn wait_before_inspecting(&mut self, asked: Option<RetryAfter>) -> Duration {
        let is_first = self.again.n_failed() == 0;
        let failed = Failed::unavailable("the VIM asks for another inspection".into());
        let wait = self.again.wait(&Failed { retry_after: asked, ..failed }, self.clock.as_ref());
        match asked {
            _ if !is_first => wait,
            Some(asked) => asked.spread(self.clock.as_ref()),
            None => MIN_WAIT,
        }
    }

    /// The VIM just accepted the report but no longer knows the node. If it forgets every node, backing off keeps them
    /// from reporting in a loop.
    pub(super) fn report_again(&mut self, failed: &Failed) -> Next {
        let wait = self.again.wait(failed, self.clock.as_ref());
        warn!(
            "the VIM no longer knows this node: {}; reporting again in {} s, times so far: {}",
            failed.message,
            wait.as_secs(),
            self.again.n_failed()
        );
        self.wait(wait, "reporting again").map_or_else(Next::End, |()| Next::Inspect)
    }

    pub(super) fn interrupted(&mut self) -> Ended {
        self.refuse(
            Failure::new(
                Code::Interrupted,
                "the agent was interrupted by a signal before the disk was touched",
            )
            .advise("start the service again"),
        )
    }

    /// Refuses an instruction for another node.
    pub(super) fn refuse_node(&mut self, node_id: &str) -> Ended {
        let message =
            format!("the instruction is for node {node_id}, but this node is {}", self.node_id);
        self.refuse(Failure::new(Code::NodeWrong, message).advise(
            "correct node_id; another id for a node is given in the 202 that accepts its report",
        ))
    }

    /// Posts that nothing is done and no disk was touched.
    pub(super) fn refuse(&mut self, failure: Failure) -> Ended {
        self.open_events();
        let failure = Some(failure);
        self.end_badly(&Outcome { stage: Stage::Instruction, failure, ..Outcome::default() })
    }
}
