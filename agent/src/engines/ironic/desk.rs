//! The main thread of the agent: takes Ironic's orders one after the other and carries them out, but for installs. The
//! last ones are to power off or to switch the networks off (ironic-python-agent's commands `standby.power_off` and
//! `system.lockdown`).

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use serde_json::Value;
use tracing::{error, info};

use super::commands::Work;
use super::steps::{ERASE, INSTALL, Kind, StepOrder, USE_CUSTOM_AGENT};
use super::{Agent, Ironic, Surveyed, commands, erase, instance, words};
use crate::act::{Code, Confirm, Failure, Order};
use crate::api::{JSON_MEDIA_TYPE, is_node_id};
use crate::engines::confirm::confirm;
use crate::exit_status::ExitStatus;
use crate::http::{Client, ServerSettings};
use crate::job::power::{self, POWEROFF_LIMIT, wait_for_signal};
use crate::job::{Next, Task};

/// Interval at which the main thread checks for a signal.
const POLL: Duration = Duration::from_millis(100);
/// Time for an answer to leave before the machine is switched off.
const ANSWER_TIME: Duration = Duration::from_secs(1);

impl Ironic<'_> {
    /// Carries out orders until one installs, a signal arrives, or Ironic ends the agent.
    pub(super) fn work(&mut self, agent: &mut Agent) -> Next {
        loop {
            match agent.is_over.try_recv() {
                Ok(Err(panic)) => {
                    error!(panic, "a bug ended the connection to Ironic");
                    return Next::End(ExitStatus::Bug);
                }
                Ok(Ok(())) => return Next::End(agent.exit_status),
                Err(_) => {}
            }
            let (id, order) = match self.node.clock.receive(&agent.work, POLL) {
                Ok(order) => order,
                Err(RecvTimeoutError::Timeout) if !self.node.stop.is_stopped() => {
                    self.show_wait(agent);
                    continue;
                }
                Err(_) => return Next::End(agent.exit_status),
            };
            self.node.console.works_on("carrying out what Ironic ordered");
            match order {
                Work::Step(order) => {
                    if let Some(task) = self.step(agent, id, order) {
                        return Next::Act(Box::new(task));
                    }
                }
                Work::PowerOff => {
                    info!("powering off as Ironic asks");
                    if self.is_switched_off(agent, &id) {
                        return Next::End(agent.exit_status);
                    }
                }
                Work::Reboot => {
                    info!("rebooting as Ironic asks");
                    agent.commands.journal().end(&id, Ok(Value::Null));
                    self.node.clock.sleep(ANSWER_TIME, &self.node.stop);
                    // systemd reboots after this status.
                    return Next::End(ExitStatus::Done);
                }
                Work::Lockdown => {
                    info!("switching the networks off as Ironic asks");
                    let advice = "power the machine off by hand";
                    // If they are still on, Ironic must see that the agent responds.
                    if self.is_run(agent, &id, &self.settings.lockdown, advice) {
                        // Ironic waits until nothing responds, and fails the deployment if the networks stay up.
                        agent.commands.close();
                        wait_for_signal(self.node.clock.as_ref(), &self.node.stop);
                        return Next::End(agent.exit_status);
                    }
                }
            }
        }
    }

    /// Shows on the console that nothing is carried out. Without a session the lookup goes on.
    fn show_wait(&self, agent: &Agent) {
        if let Some(session) = &agent.commands.journal().session {
            self.node.console.waits_for("a command from Ironic", &session.node_uuid);
        }
    }

    /// Carries out a step, or returns the task of the one that installs.
    fn step(&mut self, agent: &mut Agent, id: String, order: Box<StepOrder>) -> Option<Task> {
        let ended = match check(agent, &order) {
            Ok(()) if order.kind == Kind::Deploy => match self.install(&order) {
                Ok(task) => {
                    agent.installing = Some((id, order));
                    return Some(task);
                }
                Err(failure) => Err(failure),
            },
            Ok(()) => self.erase(agent, &order),
            Err(failure) => Err(failure),
        };
        agent.end_step(&id, &order, ended.map_err(|failure| failure.in_words(words)));
        None
    }

    fn survey(&mut self) -> Result<Surveyed, Failure> {
        (self.survey.0)().map_err(|error| Failure::new(Code::NoReport, format!("{error:#}")))
    }

    /// The task of the step that installs.
    fn install(&mut self, order: &StepOrder) -> Result<Task, Failure> {
        let hostname = nix::unistd::gethostname().unwrap_or_default();
        let hostname = hostname.to_str().unwrap_or_default();
        let is_allowed = self.node.settings.site.is_insecure_image_allowed;
        let is_confirmed =
            order.arguments().is_ok_and(|given| given.get("confirm") == Some(&true.into()));
        let confirm = is_confirmed.then(|| self.confirmation(&order.node)).transpose()?;
        let order = Order { confirm, ..instance::instance(order, hostname, is_allowed)? };
        let is_digest_known = order.image.as_ref().is_some_and(|image| image.hash.is_some());
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
        let client = Client::new(&server, Arc::clone(&self.node.clock), self.node.stop.clone())
            .map_err(|error| Failure::new(Code::Config, format!("{error:#}")))?;
        let mut task = Task::new(order, &self.node, Arc::new(client));
        // An image needs no signature if its digest is known.
        task.site.is_insecure_image_allowed |= is_digest_known;
        Ok(task)
    }

    /// The request by which the installed system writes its boots into `extra` of the node. Ironic refuses that of a node in the
    /// middle of a deployment.
    fn confirmation(&self, node: &Value) -> Result<Confirm, Failure> {
        let wrong = |what: &str| Failure::new(Code::Config, format!("confirm: {what}"));
        let uuid = node.get("uuid").and_then(Value::as_str).filter(|uuid| is_node_id(uuid));
        let uuid = uuid.ok_or_else(|| wrong("the node has no uuid"))?;
        let address = self.api.address().ok_or_else(|| wrong("Ironic has no address"))?;
        let instance = node.get("instance_uuid").filter(|id| id.is_string());
        let instance = instance.map(|id| format!(r#""instance":{id},"#)).unwrap_or_default();
        let value = format!(
            r#"{{"state":"confirmed",{instance}"boot":@BOOT@,"boot_id":"@BOOT_ID@"@DISK@}}"#
        );
        let body =
            format!(r#"[{{"op":"add","path":"/extra/run_coreos_installer","value":{value}}}]"#);
        let options = [
            ("request", "PATCH".to_owned()),
            ("header", format!("Content-Type: {JSON_MEDIA_TYPE}")),
            ("header", "X-OpenStack-Ironic-API-Version: 1.31".to_owned()),
            ("data-raw", body),
        ];
        confirm(&self.settings.ironic, &address.join(&format!("/v1/nodes/{uuid}")), options)
    }

    fn erase(&mut self, agent: &Agent, order: &StepOrder) -> Result<Value, Failure> {
        let surveyed = self.survey()?;
        self.node.lock()?;
        let around = erase::Surroundings {
            node: &self.node,
            reported: &surveyed.collected.disks,
            clean_disks: &self.settings.clean_disks,
            erasures: &agent.erasures,
        };
        let erased = erase::erase(order, &around);
        if agent.erasures.check_none_runs().is_ok() {
            self.node.unlock();
        }
        erased
    }

    /// Runs a program that makes the node unreachable for Ironic. The command ends only after it: a false success would
    /// leave a node on while Ironic counts it as off.
    fn is_run(&self, agent: &Agent, id: &str, program: &[String], advice: &str) -> bool {
        // Ironic does not wait for the end of these commands; the answer to its request leaves first.
        self.node.clock.sleep(ANSWER_TIME, &self.node.stop);
        let ran = power::run(program, POWEROFF_LIMIT, &self.node.settings.site.system);
        if let Err(why) = &ran {
            error!("{why}");
            error!("what to do: {advice}");
        }
        let failed = |why| commands::failure(&format!("{why}; what to do: {advice}"));
        let is_run = ran.is_ok();
        agent.commands.journal().end(id, ran.map(|()| Value::Null).map_err(failed));
        is_run
    }

    /// True if systemd ends this program after the machine was asked to power off. Otherwise further commands are
    /// served.
    fn is_switched_off(&self, agent: &Agent, id: &str) -> bool {
        const ADVICE: &str = "power the machine off by hand, or from Ironic";
        if !self.is_run(agent, id, &self.node.settings.poweroff, ADVICE) {
            return false;
        }
        self.node.clock.sleep(POWEROFF_LIMIT, &self.node.stop);
        if !self.node.stop.is_stopped() {
            error!("the machine is still on after {} s", POWEROFF_LIMIT.as_secs());
            error!("what to do: {ADVICE}");
        }
        self.node.stop.is_stopped()
    }
}

/// Checks that this agent has the step, and may begin it.
fn check(agent: &Agent, order: &StepOrder) -> Result<(), Failure> {
    if let Some(why) = &order.mismatch {
        return Err(Failure::new(Code::InstructionInvalid, why.clone()));
    }
    // An erasure that timed out may still write.
    agent.erasures.check_none_runs()?;
    match (order.kind, order.name()) {
        (Kind::Deploy, INSTALL) | (Kind::Clean, ERASE) => Ok(()),
        (kind, name) => {
            let text = format!("this agent has no {} step {name:.100}", kind.as_str());
            let failure = Failure::new(Code::ActionUnknown, text);
            let is_deploy = kind == Kind::Deploy;
            Err(if is_deploy { failure.advise(USE_CUSTOM_AGENT) } else { failure })
        }
    }
}
