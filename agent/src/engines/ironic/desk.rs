//! The main thread of the agent: takes Ironic's orders one after the other and carries them out, but for installs.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use serde_json::Value;
use tracing::{error, info, warn};

use super::commands::Work;
use super::steps::{ERASE, INSTALL, Kind, StepOrder};
use super::{ANSWER_TIME, Agent, Settings, Surveyed, erase, instance, steps};
use crate::act::{Code, Failure, Site};
use crate::exit_status::ExitStatus;
use crate::http::{Client, ServerSettings};
use crate::job::power::wait_for_signal;
use crate::job::{Next, Node, Task};

/// Interval at which the main thread checks for a signal.
const POLL: Duration = Duration::from_millis(100);

/// The agent at work.
pub(super) struct Desk<'a> {
    pub(super) settings: &'a Settings,
    pub(super) node: &'a mut Node,
    pub(super) survey: &'a mut dyn FnMut() -> anyhow::Result<Surveyed>,
    pub(super) agent: &'a mut Agent,
}

impl Desk<'_> {
    /// Carries out orders until one installs, a signal arrives, or Ironic ends the agent.
    pub(super) fn work(&mut self) -> Next {
        loop {
            match self.agent.is_over.try_recv() {
                Ok(Some(panic)) => {
                    error!(panic, "a bug ended the connection to Ironic");
                    return Next::End(ExitStatus::Bug);
                }
                Ok(None) => return Next::End(self.agent.exit_status),
                Err(_) => {}
            }
            let (id, order) = match self.agent.work.recv_timeout(POLL) {
                Ok(order) => order,
                Err(RecvTimeoutError::Timeout) if !self.node.stop.is_stopped() => continue,
                Err(_) => return Next::End(self.agent.exit_status),
            };
            match order {
                Work::Step(order) => {
                    if let Some(task) = self.step(id, order) {
                        return Next::Act(Box::new(task));
                    }
                }
                Work::PowerOff => {
                    info!("powering off as Ironic asks");
                    if self.is_switched_off(&id) {
                        return Next::End(self.agent.exit_status);
                    }
                }
                Work::Reboot => {
                    info!("rebooting as Ironic asks");
                    self.answer(&id);
                    // systemd reboots after this status.
                    return Next::End(ExitStatus::Done);
                }
                Work::Lockdown => {
                    info!("switching the networks off as Ironic asks");
                    if self.is_locked(&id) {
                        wait_for_signal(self.node.clock.as_ref(), &self.node.stop);
                        return Next::End(self.agent.exit_status);
                    }
                }
            }
        }
    }

    /// Notes that a command is done, and lets its answer out.
    fn answer(&self, id: &str) {
        self.agent.commands.end(id, Ok(Value::Null));
        std::thread::sleep(ANSWER_TIME);
    }

    /// Carries out a step, or returns the task of the one that installs.
    fn step(&mut self, id: String, order: Box<StepOrder>) -> Option<Task> {
        let ended = match self.check(&order) {
            Ok(()) if (order.kind, order.name()) == (Kind::Deploy, INSTALL) => {
                match self.install(&order) {
                    Ok(task) => {
                        self.agent.installing = Some((id, order));
                        return Some(task);
                    }
                    Err(details) => Err(details),
                }
            }
            Ok(()) => self.erase(&order),
            Err(details) => Err(details),
        };
        self.agent.end_step(&id, &order, ended);
        None
    }

    /// Checks that this agent has the step, and may begin it.
    fn check(&self, order: &StepOrder) -> Result<(), String> {
        if let Some(why) = &order.mismatch {
            return Err(format!("{}: {why}", Code::InstructionInvalid));
        }
        // An erasure that timed out may still write.
        let erasures = &self.agent.erasures;
        erasures.check_none_runs().map_err(|failure| steps::details(&failure))?;
        match (order.kind, order.name()) {
            (Kind::Deploy, INSTALL) | (Kind::Clean, ERASE) => Ok(()),
            (kind, name) => Err(format!(
                "{}: this agent has no {} step {name:.100}",
                Code::ActionUnknown,
                kind.as_str()
            )),
        }
    }

    fn survey(&mut self) -> Result<Surveyed, String> {
        (self.survey)()
            .map_err(|error| steps::details(&Failure::new(Code::NoReport, format!("{error:#}"))))
    }

    /// The task of the step that installs.
    fn install(&mut self, order: &StepOrder) -> Result<Task, String> {
        let hostname = nix::unistd::gethostname().unwrap_or_default();
        let hostname = hostname.to_str().unwrap_or_default();
        let is_allowed = self.node.settings.site.is_insecure_image_allowed;
        let instance = instance::instance(order, hostname, is_allowed)
            .map_err(|failure| steps::details(&failure))?;
        instance.notes.iter().for_each(|note| warn!("{note}"));
        info!("reading the machine's hardware");
        let surveyed = self.survey()?;
        self.node.update(surveyed.collected);
        self.node.begin(Some(INSTALL), None);
        self.node.make_known();
        info!("order {INSTALL} asks for install: as Ironic asks");
        // Only files are fetched, and an image has its own time limits.
        let server = ServerSettings {
            url: None,
            token_file: None,
            deadline: None,
            ..self.settings.ironic.clone()
        };
        let Node { settings, clock, stop, .. } = &*self.node;
        let client = Client::new(&server, Arc::clone(clock), stop.clone());
        let client = client.map_err(|error| format!("CONFIG: {error:#}"))?;
        Ok(Task {
            order: instance.order,
            prepare: None,
            site: Site {
                is_insecure_image_allowed: is_allowed || instance.is_digest_known,
                ..settings.site.clone()
            },
            client: Arc::new(client),
            stop: stop.clone(),
            are_disks_settled: false,
        })
    }

    fn erase(&mut self, order: &StepOrder) -> Result<Value, String> {
        let surveyed = self.survey()?;
        let site = &self.node.settings.site;
        let around = erase::Surroundings {
            system: &site.system,
            reported: &surveyed.collected.disks,
            protect: &site.protect,
            clean_disks: &self.settings.clean_disks,
            erasures: &self.agent.erasures,
        };
        erase::erase(order, &around).map_err(|failure| steps::details(&failure))
    }
}
