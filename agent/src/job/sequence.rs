//! From the report to the instruction, and the work of each action.

use std::sync::Arc;
use std::time::SystemTime;

use compare::expectation::Expectations;
use formats::digest;
use formats::time::rfc3339;
use tracing::{error, info, warn};

use super::banner::Display;
use super::console::Console;
use super::late::Late;
use super::posting::Unposted;
use super::waiting::{Blocked, Refusals, advice};
use super::{Collected, Ended, JobSettings};
use crate::act::Failure;
use crate::act::readable::Unreadable;
use crate::act::seen::Seen;
use crate::act::{Code, IgnitionSource, Order, Stage, State};
use crate::api::{Action, Instruction, JobResult, is_node_id, parse_instruction};
use crate::clock::Clock;
use crate::engines::vim::{Answer, Events};
use crate::exit_status::ExitStatus;
use crate::http::Client;
use crate::http::retry::{Backoff, RetryAfter};
use crate::secret::redact;
use crate::signals::Stop;
use crate::{checkpoint, clean, random};

/// Time to wait if the action `wait` does not specify it.
const DEFAULT_WAIT_S: u64 = 30;
/// The longest reason that is shown, in characters.
const MAX_REASON_CHARS: usize = 300;

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
    /// Digest of the instruction that is carried out.
    pub(super) request_digest: Option<String>,
    pub(super) collected: Collected,
    pub(super) expectations: Option<Expectations>,
    pub(super) warnings: Vec<String>,
    /// Counts consecutive reports that only led to a request for another one.
    pub(super) again: Backoff,
    pub(super) refusals: Refusals,
    /// The state of this node when the current instruction was refused, if another look may differ.
    pub(super) seen: Option<Seen>,
    /// The result of the last refusal.
    pub(super) last_result: Option<Box<JobResult>>,
    /// A result that the VIM could not accept yet.
    pub(super) unposted: Option<Unposted>,
    pub(super) console: Console,
    /// The basis of the last report.
    pub(super) late: Late,
    /// The id under which the VIM gets, or has got, the neighbours.
    pub(super) supplemented: Option<String>,
    /// True if the next response answers the report: a 202 may give the node another id then, and nothing withdraws a
    /// load.
    has_just_reported: bool,
    pub(super) blocked: Blocked,
    pub(super) display: Display,
    /// Set if the disk that the instruction leads to cannot be read.
    pub(super) sampled: Option<Unreadable>,
    /// True if a bare Ignition config is carried out, not an instruction.
    pub(super) is_bare: bool,
}

/// The action after a response.
pub(super) enum Next {
    Ask(Answer),
    Inspect,
    End(Ended),
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
            request_digest: None,
            collected: Collected::default(),
            expectations: None,
            warnings: Vec::new(),
            again: Backoff::default(),
            refusals: Refusals::default(),
            seen: None,
            last_result: None,
            unposted: None,
            console: Console::start(),
            late: Late::default(),
            supplemented: None,
            has_just_reported: false,
            blocked: Blocked::default(),
            display: Display::default(),
            sampled: None,
            is_bare: false,
        }
    }

    pub(super) fn into_events(self) -> Events {
        self.events
    }

    pub(super) fn run(&mut self, collect: &mut dyn FnMut() -> anyhow::Result<Collected>) -> Ended {
        let ended = self.run_to_end(collect);
        // From here on a crash costs nothing that the VIM does not know.
        let is_over = self.unposted.is_none();
        checkpoint::update(|checkpoint| checkpoint.is_over = is_over);
        self.show_end(&ended);
        ended
    }

    fn run_to_end(&mut self, collect: &mut dyn FnMut() -> anyhow::Result<Collected>) -> Ended {
        loop {
            if let Err(ended) = self.collect(collect) {
                return ended;
            }
            if let Some(offline) = &self.settings.offline {
                return self.carry_out_offline(offline);
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
        self.late.remember(&self.settings.site.system);
        // Links that are up already will be in this report.
        self.settings.listener.take_new_links();
        let mut collected = collect().map_err(|error| {
            error!("{}: {error:#}; nothing was reported, nothing was installed", Code::NoReport);
            Ended::with(ExitStatus::NotReported)
        })?;
        self.end_load_of_report();
        collected.keep_unread(&self.collected);
        self.collected = collected;
        // Its cable may be in its place now.
        let sampled = self.sampled.take();
        self.sampled = sampled.and_then(|sampled| sampled.again(&self.settings.site.system));
        if self.node_id.is_empty() || !is_node_id(&self.node_id) {
            self.node_id.clone_from(&self.collected.node_id);
        }
        if !is_node_id(&self.node_id) {
            warn!("the node id {} cannot be used in a URL path; using a random one", self.node_id);
            self.node_id = format!("boot-{}", random::uuid());
        }
        self.event(Stage::Collect, State::Done, None);
        Ok(())
    }

    /// Posts the report and returns the VIM's response.
    fn report(&mut self) -> Result<Answer, Ended> {
        self.event(Stage::Report, State::Started, None);
        self.console.waits_for(&self.vim("the report to be accepted by"), &self.node_id);
        self.has_just_reported = true;
        // A new report replaces the old one and what supplemented it.
        self.supplemented = None;
        match self.client.post_report(&self.collected.report) {
            Ok(answer) => {
                info!("report posted for node {}", self.node_id);
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
        let has_just_reported = std::mem::take(&mut self.has_just_reported);
        if let Answer::Instruction(bytes) | Answer::Ignition(bytes) = &answer {
            self.post_earlier_result();
            if let Some(refused) = self.refused_before(&digest::sha256(bytes)) {
                return self.ask_again(&refused);
            }
        }
        match answer {
            Answer::NotYet { node_id, wait, location } => {
                self.accept_id(node_id.as_deref(), has_just_reported);
                self.open_events();
                self.post_earlier_result();
                self.supplement();
                // The 202 that accepts a report says nothing about a load: some VIMs accept every report with one.
                if !has_just_reported && self.withdraw_load() {
                    return Next::Inspect;
                }
                self.console.waits_for(&self.vim("an instruction from"), &self.node_id);
                self.wait_and_ask(wait, "asking again", location.as_ref())
            }
            Answer::NotKnown(failed) => self.report_again(&failed),
            Answer::Ignition(bytes) => {
                self.receive(Some(&bytes));
                if self.await_disks() {
                    return Next::Inspect;
                }
                let ended = self.bare_ignition(bytes);
                self.after(ended, None)
            }
            Answer::Instruction(bytes) => {
                self.receive(Some(&bytes));
                match parse_instruction(&bytes) {
                    Ok(instruction) => self.carry_out(instruction, has_just_reported),
                    Err(refusal) => {
                        self.request_id = refusal.request_id;
                        self.events.set_request(self.request_id.as_deref());
                        let failure = Failure::new(refusal.code, refusal.message)
                            .advise("correct the VIM's response; it must conform to VIM API v1");
                        let ended = self.refuse(failure);
                        self.after(ended, refusal.on_refusal)
                    }
                }
            }
        }
    }

    /// The VIM's address after `what`, for the console.
    pub(super) fn vim(&self, what: &str) -> String {
        format!("{what} {}", redact(self.settings.vim.url.as_deref().unwrap_or_default()))
    }

    /// An order arrived; `bytes` are those of the VIM's instruction.
    pub(super) fn receive(&mut self, bytes: Option<&[u8]>) {
        self.console.works();
        self.supplement();
        checkpoint::update(|checkpoint| {
            // A process may run several jobs.
            checkpoint.is_over = false;
            (checkpoint.disk, checkpoint.disk_state, checkpoint.attempts) = (None, None, 0);
            checkpoint.taken_down.clear();
            checkpoint.erased.clear();
        });
        self.is_bare = false;
        self.seen = None;
        self.blocked = Blocked::default();
        self.sampled = None;
        self.expectations = None;
        self.request_id = None;
        self.events.set_request(None);
        self.request_digest = bytes.map(digest::sha256);
    }

    fn bare_ignition(&mut self, bytes: Vec<u8>) -> Ended {
        self.open_events();
        self.is_bare = true;
        info!("instruction: a bare Ignition config, to be installed on the only disk");
        match String::from_utf8(bytes) {
            Ok(text) => self.install(&Order {
                ignition: IgnitionSource { inline: Some(text), ..IgnitionSource::default() },
                ..Order::default()
            }),
            Err(_) => self.refuse(Failure::new(
                Code::IgnitionInvalid,
                "the Ignition config contains bytes that are not UTF-8",
            )),
        }
    }

    fn carry_out(&mut self, instruction: Instruction, has_just_reported: bool) -> Next {
        self.request_id = Some(instruction.request_id.clone());
        self.events.set_request(Some(&instruction.request_id));
        self.open_events();
        if let Some(node_id) = instruction.node_id.filter(|id| *id != self.node_id) {
            let ended = self.refuse_node(&node_id);
            return self.after(ended, instruction.on_refusal);
        }
        let reason = clean::text(&instruction.reason.unwrap_or_default(), MAX_REASON_CHARS);
        let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        let (action, request_id) = (instruction.action.as_str(), &instruction.request_id);
        info!("instruction {request_id} asks for {action}{because}");
        self.event(Stage::Instruction, State::Done, Some(instruction.action.as_str()));
        self.expect(instruction.expect.as_ref());
        let asked = instruction.retry_after_s.map(RetryAfter::seconds);
        let on_refusal = instruction.on_refusal;
        match (instruction.action, instruction.install) {
            (Action::Install, Some(_)) if self.needs_report() => Next::Inspect,
            (Action::Install, Some(install)) => {
                let ended = self.install(&Order::from(install));
                self.after(ended, on_refusal)
            }
            (Action::Wait, _) => {
                self.again.reset();
                let asked = asked.unwrap_or(RetryAfter::seconds(DEFAULT_WAIT_S));
                let wait = RetryAfter::poll(Some(asked), self.clock.as_ref());
                let Some(wait) = self.load(instruction.load_s, wait, has_just_reported) else {
                    return Next::Inspect;
                };
                self.console.waits_for(&self.vim("another instruction from"), &self.node_id);
                self.wait_and_ask(wait, "asking again", None)
            }
            (Action::Reinspect, _) => self.reinspect(asked),
            (Action::Reboot, _) => Next::End(self.reboot()),
            (Action::Poweroff, _) => Next::End(self.power_off()),
            (Action::Stop, _) => {
                warn!(
                    "stopping as the VIM asks{because}; nothing was installed, no disk was touched"
                );
                self.event(Stage::Result, State::Done, Some("stopped as the VIM asks"));
                Next::End(Ended::with(ExitStatus::Untouched))
            }
            (Action::Reignite, _) => {
                let message = "this version of the agent cannot carry out reignite";
                let failure = Failure::new(Code::ActionUnsupported, message)
                    .advise("use install instead, with save_partlabel for partitions to keep");
                let ended = self.refuse(failure);
                self.after(ended, on_refusal)
            }
            // parse_instruction refuses this; the type allows it.
            (Action::Install, None) => {
                let message = "the instruction's action is install, but it has no install";
                let ended = self.refuse(Failure::new(Code::InstructionInvalid, message));
                self.after(ended, on_refusal)
            }
        }
    }

    /// Starts posting events: the VIM has the report, and its id for the node is known.
    pub(super) fn open_events(&self) {
        checkpoint::update(|checkpoint| {
            checkpoint.node_id.clone_from(&self.node_id);
            checkpoint.started_at = rfc3339(self.started_at);
        });
        if self.posts() {
            self.events.open(&self.node_id);
        }
    }

    /// True if the VIM is informed of the job's progress.
    pub(super) fn posts(&self) -> bool {
        !self.settings.is_dry_run && self.settings.offline.is_none()
    }

    pub(super) fn event(&self, stage: Stage, how: State, message: Option<&str>) {
        self.push_event(stage, how, None, message);
    }

    pub(super) fn push_event(
        &self,
        stage: Stage,
        how: State,
        percent: Option<u8>,
        message: Option<&str>,
    ) {
        checkpoint::update(|checkpoint| {
            checkpoint.stage = Some(stage);
            checkpoint.request_id.clone_from(&self.request_id);
            checkpoint.request_digest.clone_from(&self.request_digest);
        });
        self.events.push(stage, how, percent, message);
    }
}
