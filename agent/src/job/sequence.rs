//! From the report to the instruction, and what each action does.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tracing::{error, info, warn};

use super::{Collected, Ended, JobSettings};
use crate::api::{
    Action, Code, DiskState, IgnitionSource, Install, Instruction, Outcome, Stage, State,
    is_node_id, parse_instruction,
};
use crate::clock::Clock;
use crate::exit_status::ExitStatus;
use crate::install::Failure;
use crate::signals::Stop;
use crate::uuid;
use crate::vim::client::GaveUp;
use crate::vim::retry::{Backoff, Failed, MAX_RETRY_AFTER, Why};
use crate::vim::{Answer, Client, Events};

/// How long to wait if the VIM does not say.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);
/// The shortest wait between two requests.
const MIN_WAIT: Duration = Duration::from_secs(1);
/// Without an instruction for this long, a warning is logged.
const LONG_WAIT: Duration = Duration::from_mins(5);

/// One run of the job.
pub(super) struct Job<'a> {
    pub(super) settings: &'a JobSettings,
    pub(super) client: Arc<Client>,
    pub(super) events: Events,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) stop: Stop,
    pub(super) started_at: SystemTime,
    pub(super) node_id: String,
    pub(super) request_id: Option<String>,
    pub(super) collected: Collected,
    pub(super) warnings: Vec<String>,
    /// How long the VIM has had no instruction since the last warning about it.
    waited: Duration,
    /// Counts consecutive reports that only led to a request for another one.
    again: Backoff,
    /// Whether the VIM responded with a bare Ignition config.
    pub(super) is_bare: bool,
}

/// What to do after a response.
enum Next {
    Ask(Answer),
    Inspect,
    End(Ended),
}

/// Advice for a request that was given up.
fn advice(gave_up: &GaveUp) -> &'static str {
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

impl<'a> Job<'a> {
    pub(super) fn new(
        settings: &'a JobSettings,
        client: Arc<Client>,
        events: Events,
        clock: Arc<dyn Clock>,
        stop: Stop,
    ) -> Self {
        let started_at = clock.time_of_day();
        Self {
            settings,
            client,
            events,
            clock,
            stop,
            started_at,
            node_id: String::new(),
            request_id: None,
            collected: Collected::default(),
            warnings: Vec::new(),
            waited: Duration::ZERO,
            again: Backoff::default(),
            is_bare: false,
        }
    }

    pub(super) fn into_events(self) -> Events {
        self.events
    }

    pub(super) fn run(&mut self, collect: &mut dyn FnMut() -> anyhow::Result<Collected>) -> Ended {
        loop {
            if let Err(ended) = self.collect(collect) {
                return ended;
            }
            let mut next = match self.report() {
                Ok(answer) => Next::Ask(answer),
                Err(ended) => return ended,
            };
            loop {
                next = match next {
                    Next::Ask(answer) => self.follow(answer),
                    Next::Inspect => break,
                    Next::End(ended) => return ended,
                };
            }
        }
    }

    fn collect(
        &mut self,
        collect: &mut dyn FnMut() -> anyhow::Result<Collected>,
    ) -> Result<(), Ended> {
        self.event(Stage::Collect, State::Started, None);
        info!("reading the machine's hardware");
        self.collected = collect().map_err(|error| {
            error!("{}: {error:#}; nothing was reported, nothing was installed", Code::NoReport);
            Ended::with(ExitStatus::NotReported)
        })?;
        if self.node_id.is_empty() || !is_node_id(&self.node_id) {
            self.node_id.clone_from(&self.collected.node_id);
        }
        if !is_node_id(&self.node_id) {
            warn!(node_id = %self.node_id, "the node id cannot be used in a URL path; using a random one");
            self.node_id = format!("boot-{}", uuid::random());
        }
        self.event(Stage::Collect, State::Done, None);
        Ok(())
    }

    fn report(&mut self) -> Result<Answer, Ended> {
        self.event(Stage::Report, State::Started, None);
        match self.client.post_report(&self.collected.report) {
            Ok(answer) => {
                info!(node_id = %self.node_id, "report posted");
                self.event(Stage::Report, State::Done, None);
                self.event(Stage::Instruction, State::Started, None);
                Ok(answer)
            }
            Err(gave_up) => {
                error!(
                    "{}: the report could not be posted: {gave_up}; nothing was installed",
                    Code::NoReport
                );
                error!("what to do: {}", advice(&gave_up));
                Err(Ended::with(ExitStatus::NotReported))
            }
        }
    }

    /// Acts on a response.
    fn follow(&mut self, answer: Answer) -> Next {
        match answer {
            Answer::NotYet { node_id, wait, location } => {
                if let Some(node_id) = node_id {
                    self.rename(&node_id);
                }
                self.open_events();
                self.log_waiting(wait);
                self.wait_and_ask(wait, location.as_ref())
            }
            Answer::NotKnown(failed) => {
                // The VIM just accepted the report. If it forgets every node, backing off keeps them from
                // reporting in a loop.
                let wait = self.again.wait(&failed, self.clock.as_ref());
                warn!(
                    "the VIM no longer knows this node: {}; reporting again in {} s, times so far: {}",
                    failed.message,
                    wait.as_secs(),
                    self.again.n_failed()
                );
                self.wait(wait).map_or_else(Next::End, |()| Next::Inspect)
            }
            Answer::Unreadable(message) => {
                Next::End(self.refuse(&Failure::new(Code::InstructionInvalid, message)))
            }
            Answer::Ignition(bytes) => Next::End(self.bare_ignition(bytes)),
            Answer::Instruction(bytes) => match parse_instruction(&bytes) {
                Ok(instruction) => self.carry_out(instruction),
                Err(refusal) => {
                    self.request_id = refusal.request_id;
                    let failure = Failure::new(refusal.code, refusal.message)
                        .advise("correct the VIM's response; it must conform to VIM API v1");
                    Next::End(self.refuse(&failure))
                }
            },
        }
    }

    fn bare_ignition(&mut self, bytes: Vec<u8>) -> Ended {
        self.open_events();
        self.is_bare = true;
        info!("instruction: a bare Ignition config, to be installed on the only eligible disk");
        match String::from_utf8(bytes) {
            Ok(text) => self.install(&Install {
                ignition: IgnitionSource { inline: Some(text), ..IgnitionSource::default() },
                ..Install::default()
            }),
            Err(_) => self.refuse(&Failure::new(
                Code::IgnitionInvalid,
                "the Ignition config contains bytes that are not UTF-8",
            )),
        }
    }

    fn carry_out(&mut self, instruction: Instruction) -> Next {
        self.request_id = Some(instruction.request_id.clone());
        self.events.set_request(Some(&instruction.request_id));
        if let Some(node_id) = &instruction.node_id {
            self.rename(node_id);
        }
        self.open_events();
        let reason: String = instruction
            .reason
            .unwrap_or_default()
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .take(300)
            .collect();
        info!(request_id = %instruction.request_id, reason, "instruction: {}", instruction.action.as_str());
        self.event(Stage::Instruction, State::Done, Some(instruction.action.as_str()));
        let wait = instruction.retry_after_s.map_or(DEFAULT_WAIT, Duration::from_secs);
        match (instruction.action, instruction.install) {
            (Action::Install, Some(install)) => Next::End(self.install(&install)),
            (Action::Wait, _) => {
                self.again.reset();
                self.wait_and_ask(wait, None)
            }
            (Action::Reinspect, _) => {
                let asked = instruction.retry_after_s.map(Duration::from_secs);
                let wait = self.wait_before_inspecting(asked);
                self.wait(wait).map_or_else(Next::End, |()| Next::Inspect)
            }
            (Action::Reboot, _) => {
                info!("rebooting as the VIM asks; no disk was touched");
                self.event(Stage::Result, State::Done, Some("rebooting as the VIM asks"));
                Next::End(Ended::with(ExitStatus::Done))
            }
            (Action::Poweroff, _) => Next::End(self.power_off()),
            (Action::Stop, _) => {
                warn!(
                    "stopping as the VIM asks: {reason}; nothing was installed, no disk was touched"
                );
                self.event(Stage::Result, State::Done, Some("stopped as the VIM asks"));
                Next::End(Ended::with(ExitStatus::Untouched))
            }
            (Action::Reignite, _) => Next::End(
                self.refuse(
                    &Failure::new(
                        Code::ActionUnsupported,
                        "this version of the agent cannot carry out reignite",
                    )
                    .advise("use install instead, with save_partlabel for partitions to keep"),
                ),
            ),
            // parse_instruction refuses this; the type allows it.
            (Action::Install, None) => Next::End(self.refuse(&Failure::new(
                Code::InstructionInvalid,
                "the instruction's action is install, but it has no install",
            ))),
        }
    }

    /// The first re-inspection starts at once; each further one in a row waits longer.
    fn wait_before_inspecting(&mut self, asked: Option<Duration>) -> Duration {
        let is_first = self.again.n_failed() == 0;
        let failed = Failed::unavailable("the VIM asks for another inspection".into());
        let wait = self.again.wait(&Failed { retry_after: asked, ..failed }, self.clock.as_ref());
        if is_first { asked.unwrap_or(MIN_WAIT) } else { wait }
    }

    /// Adopts the node id that the VIM uses.
    fn rename(&mut self, node_id: &str) {
        if is_node_id(node_id) && node_id != self.node_id {
            info!(node_id, "the VIM uses another id for this node");
            self.node_id = node_id.into();
        }
    }

    /// Logs that the VIM has no instruction yet. Every few minutes it is a warning, so that a node that waits for hours
    /// does not look hung with `--log-level warn`.
    fn log_waiting(&mut self, wait: Duration) {
        self.waited = self.waited.saturating_add(wait);
        if self.waited < LONG_WAIT {
            info!("the VIM has no instruction yet; asking again in {} s", wait.as_secs());
            return;
        }
        self.waited = Duration::ZERO;
        warn!("the VIM still has no instruction; asking again in {} s", wait.as_secs());
    }

    /// Starts posting events: the VIM has the report, and its id for the node is known.
    fn open_events(&self) {
        if !self.settings.is_dry_run {
            self.events.open(&self.node_id);
        }
    }

    fn wait_and_ask(&mut self, wait: Duration, location: Option<&crate::vim::url::Url>) -> Next {
        if let Err(ended) = self.wait(wait) {
            return Next::End(ended);
        }
        match self.client.instruction(&self.node_id, location) {
            Ok(answer) => {
                // The VIM knows the node, so later requests to report again are unrelated.
                if matches!(answer, Answer::NotYet { .. }) {
                    self.again.reset();
                }
                Next::Ask(answer)
            }
            Err(GaveUp::Stopped) => Next::End(self.interrupted()),
            Err(gave_up) => Next::End(
                self.refuse(
                    &Failure::new(Code::NoReport, format!("asking for the instruction: {gave_up}"))
                        .advise(advice(&gave_up)),
                ),
            ),
        }
    }

    fn wait(&mut self, wait: Duration) -> Result<(), Ended> {
        let wait = wait.clamp(MIN_WAIT, MAX_RETRY_AFTER);
        let message = format!("asking again in {} s", wait.as_secs());
        self.event(Stage::Wait, State::Started, Some(&message));
        self.clock.sleep(wait, &self.stop);
        if self.stop.is_stopped() {
            return Err(self.interrupted());
        }
        self.event(Stage::Wait, State::Done, None);
        Ok(())
    }

    pub(super) fn interrupted(&mut self) -> Ended {
        self.refuse(
            &Failure::new(
                Code::Interrupted,
                "the agent was interrupted by a signal before the disk was touched",
            )
            .advise("start the service again"),
        )
    }

    /// Ends the job before a disk is touched.
    pub(super) fn refuse(&mut self, failure: &Failure) -> Ended {
        self.open_events();
        let mut result = self.result(Outcome::Refused, Stage::Instruction, DiskState::Untouched);
        self.end_badly(&mut result, failure, ExitStatus::Untouched)
    }

    pub(super) fn event(&self, stage: Stage, how: State, message: Option<&str>) {
        self.events.push(stage, how, None, message);
    }
}
