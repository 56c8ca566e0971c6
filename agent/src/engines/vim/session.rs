//! From the report to the instruction, and the work of each action.

use std::sync::Arc;

use compare::expectation::Expectations;
use formats::digest;
use serde_json::Value;
use tracing::{error, info, warn};

use super::client::Answer;
use super::engine::{Step, Vim};
use super::waiting::advice;
use crate::act::trace::Request;
use crate::act::{Code, Confirm, Failure, IgnitionSource, Order, Stage, State};
use crate::api::{API_VERSION, Action, Install, Instruction, JSON_MEDIA_TYPE, parse_instruction};
use crate::clean;
use crate::engines::confirm::confirm;
use crate::exit_status::ExitStatus;
use crate::http::retry::RetryAfter;
use crate::job::node::unread;
use crate::secret::redact;

/// Time to wait if the action `wait` does not specify it.
const DEFAULT_WAIT_S: u64 = 30;
/// The longest reason that is shown, in characters.
const MAX_REASON_CHARS: usize = 300;

/// The id of a request that is nothing but an Ignition config.
const BARE: &str = "ignition";

impl Vim<'_> {
    /// Reads the hardware, posts the report and returns the VIM's response.
    pub(super) fn inspect(&mut self) -> Result<Answer, ExitStatus> {
        self.pace_inspection()?;
        self.event(Stage::Collect, State::Started, None);
        info!("reading the machine's hardware");
        self.late.remember(&self.node.settings.site.system);
        // Links that are up already will be in this report.
        self.node.settings.listener.take_new_links();
        let collected = (self.collect.0)().map_err(|error| unread(&error))?;
        // A load that is still running ends after the hardware was read.
        self.report_load(self.node.settings.load.end_of_report());
        self.node.update(collected);
        self.event(Stage::Collect, State::Done, None);
        self.report()
    }

    /// Posts the report and returns the VIM's response.
    fn report(&mut self) -> Result<Answer, ExitStatus> {
        self.event(Stage::Report, State::Started, None);
        self.node.console.waits_for(&self.vim("the report to be accepted by"), &self.node.id);
        self.has_just_reported = true;
        // A new report replaces the old one and what supplemented it.
        self.supplemented = None;
        match self.client.post_report(&self.node.collected.report) {
            Ok(answer) => {
                info!("report posted for node {}", self.node.id);
                self.event(Stage::Report, State::Done, None);
                self.event(Stage::Instruction, State::Started, None);
                Ok(answer)
            }
            Err(gave_up) => {
                let code = Code::NoReport;
                error!("{code}: the report could not be posted: {gave_up}; nothing was installed");
                error!("what to do: {}", advice(&gave_up));
                Err(ExitStatus::NotReported)
            }
        }
    }

    /// Acts on a response.
    pub(super) fn follow(&mut self, answer: Answer) -> Step {
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
                    return Step::Inspect;
                }
                self.node.console.waits_for(&self.vim("an instruction from"), &self.node.id);
                self.wait_and_ask(wait, "asking again", location.as_ref())
            }
            Answer::NotKnown(failed) => self.report_again(&failed),
            Answer::Ignition(bytes) => {
                self.receive(&bytes);
                if self.await_disks() {
                    return Step::Inspect;
                }
                self.bare_ignition(bytes)
            }
            Answer::Instruction(bytes) => {
                self.receive(&bytes);
                match parse_instruction(&bytes) {
                    Ok(instruction) => self.carry_out(instruction, has_just_reported),
                    Err(refusal) => {
                        self.node.request_id = refusal.request_id;
                        self.events.set_request(self.node.request_id.as_deref());
                        self.on_refusal = refusal.on_refusal;
                        let failure = Failure::new(refusal.code, refusal.message)
                            .advise("correct the VIM's response; it must conform to VIM API v1");
                        self.refuse_instruction(failure)
                    }
                }
            }
        }
    }

    /// The VIM's address after `what`, for the console.
    pub(super) fn vim(&self, what: &str) -> String {
        format!("{what} {}", redact(self.settings.server.url.as_deref().unwrap_or_default()))
    }

    /// An instruction arrived.
    fn receive(&mut self, bytes: &[u8]) {
        self.supplement();
        self.node.begin(None, Some(bytes));
        self.events.set_request(None);
        self.is_bare = false;
        self.on_refusal = None;
        self.last_result = None;
    }

    fn bare_ignition(&mut self, bytes: Vec<u8>) -> Step {
        self.open_events();
        self.is_bare = true;
        info!("instruction: a bare Ignition config, to be installed on the only disk");
        match String::from_utf8(bytes) {
            Ok(text) => Step::Act(Box::new(Order {
                request: Some(Request::of(BARE, &self.node.collected.node_id, text.as_bytes())),
                ignition: IgnitionSource { inline: Some(text), ..IgnitionSource::default() },
                ..Order::default()
            })),
            Err(_) => self.refuse_instruction(Failure::new(
                Code::IgnitionInvalid,
                "the Ignition config contains bytes that are not UTF-8",
            )),
        }
    }

    fn carry_out(&mut self, instruction: Instruction, has_just_reported: bool) -> Step {
        self.node.request_id = Some(instruction.request_id.clone());
        self.events.set_request(Some(&instruction.request_id));
        self.open_events();
        self.on_refusal = instruction.on_refusal;
        if let Some(node_id) = instruction.node_id.filter(|id| *id != self.node.id) {
            return self.refuse_instruction(of_another_node(&node_id, &self.node.id));
        }
        let is_signed = self.settings.server.vim_key.is_some();
        let install = instruction.install.as_ref().filter(|_| is_signed);
        if let Some(key) = install.and_then(unprotected) {
            return self.refuse_instruction(changeable(key));
        }
        let reason = clean::text(&instruction.reason.unwrap_or_default(), MAX_REASON_CHARS);
        let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        let (action, request_id) = (instruction.action.to_string(), &instruction.request_id);
        info!("instruction {request_id} asks for {action}{because}");
        self.event(Stage::Instruction, State::Done, Some(&action));
        // The parser has refused expectations that mean nothing.
        let expectations = instruction.expect.as_ref();
        self.node.expectations =
            expectations.and_then(|keys| Expectations::parse_keys(keys).ok()).map(Arc::new);
        let asked = instruction.retry_after_s.map(RetryAfter::seconds);
        match (instruction.action, instruction.install) {
            (Action::Install | Action::Reignite, Some(_)) if self.needs_report() => Step::Inspect,
            (action @ (Action::Install | Action::Reignite), Some(install)) => {
                let reignite = action == Action::Reignite;
                let order = self.order_of(&instruction.request_id, install, reignite);
                let act = |order| Step::Act(Box::new(order));
                order.map_or_else(|failure| self.refuse_instruction(failure), act)
            }
            (Action::Wait, _) => {
                self.again.reset();
                let asked = asked.unwrap_or(RetryAfter::seconds(DEFAULT_WAIT_S));
                let wait = RetryAfter::poll(Some(asked), self.node.clock.as_ref());
                let Some(wait) = self.load(instruction.load_s, wait, has_just_reported) else {
                    return Step::Inspect;
                };
                self.node.console.waits_for(&self.vim("another instruction from"), &self.node.id);
                self.wait_and_ask(wait, "asking again", None)
            }
            (Action::Reinspect, _) => self.reinspect(asked),
            (Action::Reboot, _) => {
                self.announce("rebooting");
                Step::End(ExitStatus::Done)
            }
            (Action::Poweroff, _) => Step::End(self.power_off()),
            (Action::Stop, _) => {
                warn!(
                    "stopping as the VIM asks{because}; nothing was installed, no disk was touched"
                );
                self.event(Stage::Result, State::Done, Some("stopped as the VIM asks"));
                Step::End(ExitStatus::Untouched)
            }
            // parse_instruction refuses this; the type allows it.
            (Action::Install | Action::Reignite, None) => {
                let message =
                    format!("the instruction's action is {action}, but it has no install");
                self.refuse_instruction(Failure::new(Code::InstructionInvalid, message))
            }
        }
    }

    /// The order of an instruction. It is known again by its id and all keys but `reinstall`.
    ///
    /// # Errors
    /// As [`confirm`].
    fn order_of(&self, id: &str, mut install: Install, reignite: bool) -> Result<Order, Failure> {
        let reinstall = install.reinstall.take();
        let confirm = install.confirm.unwrap_or_default().then(|| self.confirmation(id));
        let asked = serde_json::to_vec(&install).ok();
        // The same keys may be those of an install.
        let asked =
            asked.map(|asked| if reignite { [b"reignite\n", &*asked].concat() } else { asked });
        let request = asked.map(|asked| Request::of(id, &self.node.collected.node_id, &asked));
        let order = Order::from(Install { reinstall, ..install });
        Ok(Order { request, confirm: confirm.transpose()?, reignite, ..order })
    }

    /// The request by which the installed system confirms its boots.
    fn confirmation(&self, id: &str) -> Result<Confirm, Failure> {
        let path = format!("/v1/nodes/{}/boots/@BOOT@", self.node.id);
        let url = self.client.url_of(&path);
        let url = url.map_err(|why| Failure::new(Code::Config, why.message))?;
        let id = Value::from(id);
        let body = format!(
            r#"{{"api_version":"{API_VERSION}","request_id":{id},"boot_id":"@BOOT_ID@"@DISK@}}"#
        );
        let options = [
            ("request", "PUT".to_owned()),
            ("header", format!("Content-Type: {JSON_MEDIA_TYPE}")),
            ("header", "Authorization: Bearer @TOKEN@".to_owned()),
            ("data-raw", body),
        ];
        confirm(&self.settings.server, &url, options)
    }

    /// Starts posting events: the VIM has the report, and its id for the node is known.
    pub(super) fn open_events(&mut self) {
        self.node.make_known();
        if self.posts() {
            self.events.open(&self.node.id);
        }
    }

    /// True if the VIM is informed of the job's progress.
    pub(super) fn posts(&self) -> bool {
        !self.node.settings.is_dry_run
    }

    pub(super) fn event(&self, stage: Stage, how: State, message: Option<&str>) {
        self.node.record(stage);
        self.events.push(stage, how, None, message);
    }
}

/// The key of a signed instruction that names a file which anybody on the way could replace: over plain HTTP, without a hash
/// and without a signature of its own. Stream metadata names the image and its digest, so its own signature is not enough.
fn unprotected(install: &Install) -> Option<&'static str> {
    let is_plain = |url: &Option<String>| {
        let scheme = url.as_deref().and_then(|url| url.split_once("://"));
        scheme.is_some_and(|(scheme, _)| !scheme.eq_ignore_ascii_case("https"))
    };
    if is_plain(&install.ignition.url) && install.ignition.hash.is_none() {
        return Some("install.ignition");
    }
    let image = install.image.as_ref().filter(|image| image.hash.is_none())?;
    let is_unsigned = image.insecure.unwrap_or_default() && is_plain(&image.url);
    let of_stream = image.stream.as_ref().is_some_and(|found| is_plain(&Some(found.url.clone())));
    (is_unsigned || of_stream).then_some("install.image")
}

/// The failure of an instruction that is [`unprotected`].
fn changeable(key: &str) -> Failure {
    let message = format!(
        "{key} is fetched over plain HTTP without a hash: anybody on the way can replace it, although --vim-key is set"
    );
    Failure::new(Code::InstructionInvalid, message)
        .advise(format!("add {key}.hash, or give an https:// address"))
}

/// The failure of an instruction for another node.
fn of_another_node(node_id: &str, own: &str) -> Failure {
    let message = format!("the instruction is for node {node_id}, but this node is {own}");
    Failure::new(Code::NodeWrong, message).advise(
        "correct node_id; another id for a node is given in the 202 that accepts its report",
    )
}
