//! The engine of VIM API v1.

use std::sync::Arc;
use std::time::Duration;

use tracing::{error, info};

use super::client::Answer;
use super::delivery::Delivery;
use super::events::Events;
use super::late::Late;
use super::result::of_crash;
use super::waiting::{Pace, Refusals};
use super::words;
use crate::act::say::Words;
use crate::act::{Order, Outcome};
use crate::api::{JobResult, OnRefusal};
use crate::exit_status::ExitStatus;
use crate::http::retry::Backoff;
use crate::http::{Client, ServerSettings};
use crate::job::{AfterCrash, Collected, Crash, Engine, Event, Next, Node, Survey, Task};

/// Time limit for posting the remaining events at the end.
const EVENTS_LIMIT: Duration = Duration::from_secs(10);
/// The same after a signal: the agent ends within five seconds, and the result comes first.
const STOPPED_EVENTS_LIMIT: Duration = Duration::from_secs(1);

/// Settings of the engine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Connection settings of the VIM.
    pub server: ServerSettings,
    /// The action after a refusal if the instruction does not say.
    pub on_refusal: OnRefusal,
}

/// The engine of VIM API v1: reports, asks for an instruction, posts its result.
///
/// A refusal with an untouched disk does not end it: the VIM is asked again, unless `on_refusal` is `stop`.
#[derive(Debug)]
pub struct Vim<'a> {
    pub(super) node: Node,
    pub(super) settings: Settings,
    /// Reads the hardware; again if the VIM asks for another report.
    pub(super) collect: Survey<'a, anyhow::Result<Collected>>,
    pub(super) client: Arc<Client>,
    pub(super) events: Events,
    /// The next step.
    step: Step,
    /// Counts consecutive reports that only led to a request for another one.
    pub(super) again: Backoff,
    pub(super) pace: Pace,
    pub(super) refusals: Refusals,
    /// The action after a refusal of the present instruction.
    pub(super) on_refusal: Option<OnRefusal>,
    /// True if an instruction was refused.
    pub(super) has_refused: bool,
    /// The result of the last instruction.
    pub(super) last_result: Option<JobResult>,
    /// A result that the VIM could not accept yet.
    pub(super) unposted: Option<Delivery>,
    /// The basis of the last report.
    pub(super) late: Late,
    /// The id under which the VIM gets, or has got, the neighbours.
    pub(super) supplemented: Option<String>,
    /// True if the next response answers the report: a 202 may give the node another id then, and nothing withdraws a
    /// load.
    pub(super) has_just_reported: bool,
    /// True if a bare Ignition config is carried out, not an instruction.
    pub(super) is_bare: bool,
}

/// The action after a response.
#[derive(Debug)]
pub(super) enum Step {
    Inspect,
    Ask(Answer),
    Act(Box<Order>),
    End(ExitStatus),
}

impl Engine for Vim<'_> {
    fn next(&mut self) -> Next {
        loop {
            self.step = match std::mem::replace(&mut self.step, Step::Inspect) {
                Step::Inspect => self.inspect().map_or_else(Step::End, Step::Ask),
                Step::Ask(answer) => self.follow(answer),
                Step::Act(order) => {
                    let task = Task::new(*order, &self.node, Arc::clone(&self.client));
                    return Next::Act(Box::new(Task { are_disks_settled: true, ..task }));
                }
                Step::End(exit_status) => {
                    self.close();
                    return Next::End(exit_status);
                }
            };
        }
    }

    fn progress(&mut self, events: Vec<Event>) {
        for Event { stage, state, percent, message } in events {
            self.events.push(stage, state, percent, message.as_deref());
        }
    }

    fn finish(&mut self, outcome: Outcome) -> Option<ExitStatus> {
        let exit_status = if outcome.failure.is_some() {
            self.end_badly(&outcome)
        } else if self.node.settings.is_dry_run {
            self.node.log_dry_run(&outcome);
            outcome.exit_status()
        } else {
            self.end_well(&outcome)
        };
        self.step = self.after(&outcome, exit_status);
        let Step::End(exit_status) = self.step else { return None };
        self.close();
        Some(exit_status)
    }

    fn crashed(&mut self, crash: &Crash) -> AfterCrash {
        // The VIM knows no other name of the node.
        if !crash.found.node_id.is_empty() {
            let result = of_crash(crash, words, self.node.clock.as_ref());
            let delivery = Delivery::new(result, false);
            let limit = Some(self.node.settings.failure_limit);
            // This process did not read the hardware, so it has no report.
            match self.client.post_result(&crash.found.node_id, &delivery, None, limit) {
                Ok(_) => info!("result posted"),
                Err(gave_up) => error!("the result could not be posted: {gave_up}"),
            }
        }
        AfterCrash::End(None)
    }

    fn term(&self) -> Words {
        words
    }

    fn node(&mut self) -> &mut Node {
        &mut self.node
    }
}

impl<'a> Vim<'a> {
    /// Makes the engine without sending anything.
    ///
    /// # Errors
    /// The settings of the server are wrong, or one of its files cannot be read.
    pub fn new(
        settings: Settings,
        mut node: Node,
        collect: Survey<'a, anyhow::Result<Collected>>,
    ) -> anyhow::Result<Self> {
        let client = Client::new(&settings.server, Arc::clone(&node.clock), node.stop.clone())?;
        let client = Arc::new(client);
        node.client = Some(Arc::clone(&client));
        let events = Events::new(Arc::clone(&client));
        Ok(Self {
            node,
            settings,
            collect,
            client,
            events,
            step: Step::Inspect,
            again: Backoff::default(),
            pace: Pace::default(),
            refusals: Refusals::default(),
            on_refusal: None,
            has_refused: false,
            last_result: None,
            unposted: None,
            late: Late::default(),
            supplemented: None,
            has_just_reported: false,
            is_bare: false,
        })
    }

    /// The result of the last instruction.
    pub fn result(&self) -> Option<&JobResult> {
        self.last_result.as_ref()
    }

    /// Ends the posting of events.
    fn close(&self) {
        // From here on a crash costs nothing that the VIM does not know.
        let is_over = self.unposted.is_none();
        self.node.memory.update(|checkpoint| checkpoint.is_over = is_over);
        let is_stopped = self.node.stop.is_stopped();
        self.events.finish(if is_stopped { STOPPED_EVENTS_LIMIT } else { EVENTS_LIMIT });
    }
}
