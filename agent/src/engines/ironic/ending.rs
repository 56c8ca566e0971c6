//! The end of the agent's work: Ironic's orders to power off or to switch the networks off, and the handling of their
//! failure (ironic-python-agent's commands `standby.power_off` and `system.lockdown`).

use serde_json::Value;
use tracing::error;

use super::desk::Desk;
use super::{ANSWER_TIME, commands};
use crate::job::power::{self, POWEROFF_LIMIT};

impl Desk<'_> {
    /// Runs a program that makes the node unreachable for Ironic. The command ends only after it: a false success would
    /// leave a node on while Ironic counts it as off.
    fn is_run(&self, id: &str, program: &[String], advice: &str) -> bool {
        // Ironic does not wait for the end of these commands; the answer to its request leaves first.
        std::thread::sleep(ANSWER_TIME);
        let clock = self.node.clock.as_ref();
        let ran = power::run(program, POWEROFF_LIMIT, clock, &self.node.stop);
        if let Err(why) = &ran {
            error!("{why}");
            error!("what to do: {advice}");
        }
        let failed = |why| commands::failure(&format!("{why}; what to do: {advice}"));
        let is_run = ran.is_ok();
        self.agent.commands.end(id, ran.map(|()| Value::Null).map_err(failed));
        is_run
    }

    /// True if systemd ends this program after the machine was asked to power off. Otherwise further commands are
    /// served.
    pub(super) fn is_switched_off(&self, id: &str) -> bool {
        const ADVICE: &str = "power the machine off by hand, or from Ironic";
        if !self.is_run(id, &self.node.settings.poweroff, ADVICE) {
            return false;
        }
        self.node.clock.sleep(POWEROFF_LIMIT, &self.node.stop);
        if !self.node.stop.is_stopped() {
            error!("the machine is still on after {} s", POWEROFF_LIMIT.as_secs());
            error!("what to do: {ADVICE}");
        }
        self.node.stop.is_stopped()
    }

    /// True if the networks were switched off. If they were not, Ironic must see that the agent still responds.
    pub(super) fn is_locked(&self, id: &str) -> bool {
        if !self.is_run(id, &self.settings.lockdown, "power the machine off by hand") {
            return false;
        }
        // Ironic waits until nothing responds, and fails the deployment if the networks stay up.
        self.agent.commands.close();
        self.agent.wake.now();
        true
    }
}
