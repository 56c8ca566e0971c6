//! An install without a VIM: the order comes from the configuration, the result goes to a file and to the console.

mod options;
mod words;

pub use words::words;

use std::sync::Arc;

use tracing::{error, info};

pub(crate) use self::options::*;
use super::vim::ResultFile;
use super::vim::result::{of_crash, result};
use super::vim::result_file::show;
use crate::act::say::Words;
use crate::act::trace::Request;
use crate::act::{Order, Outcome, Stage};
use crate::api::Action;
use crate::cli::After;
use crate::exit_status::ExitStatus;
use crate::http::{Client, ServerSettings};
use crate::job::node::unread;
use crate::job::{AfterCrash, Collected, Crash, Engine, Next, Node, Survey, Task};
use crate::random;

/// The `request_id` in its result.
pub const REQUEST_ID: &str = "offline";

/// Settings of an install without a VIM.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The order.
    pub order: Order,
    /// What the configuration asks for, by which the order is known again.
    pub asked: String,
    /// The file for the result.
    pub result: ResultFile,
    /// The action after the install.
    pub after: After,
}

/// The engine of an install without a VIM.
#[derive(Debug)]
pub struct Offline<'a> {
    node: Node,
    settings: Settings,
    client: Arc<Client>,
    collect: Survey<'a, anyhow::Result<Collected>>,
}

impl<'a> Offline<'a> {
    /// Makes the engine; `server` has the settings for fetching config and image.
    ///
    /// # Errors
    /// The settings of the server are wrong, or one of its files cannot be read.
    pub fn new(
        settings: Settings,
        server: &ServerSettings,
        node: Node,
        collect: Survey<'a, anyhow::Result<Collected>>,
    ) -> anyhow::Result<Self> {
        let client = Client::new(server, Arc::clone(&node.clock), node.stop.clone())?;
        Ok(Self { node, settings, client: Arc::new(client), collect })
    }

    /// Reads the hardware; the error is the exit status.
    fn prepare(&mut self) -> Result<(), ExitStatus> {
        let file = &self.settings.result;
        if !self.node.settings.is_dry_run
            && let Err(error) = file.prepare(&self.node.settings.site.run_dir)
        {
            error!("CONFIG: --result {}: {error}; nothing was installed", file.0.display());
            return Err(ExitStatus::Usage);
        }
        self.node.record(Stage::Collect);
        info!("reading the machine's hardware");
        let collected = (self.collect.0)().map_err(|error| unread(&error))?;
        self.node.update(collected);
        Ok(())
    }

    fn leave(&mut self) -> ExitStatus {
        match self.settings.after {
            After::Reboot => ExitStatus::Done,
            After::Stay => {
                info!("staying up, as configured: boot the installed disk by hand");
                ExitStatus::Staying
            }
            After::Poweroff => {
                info!("powering off, as configured");
                self.node.switch_off(ExitStatus::Staying, "the disk is installed")
            }
        }
    }
}

impl Engine for Offline<'_> {
    fn next(&mut self) -> Next {
        if let Err(exit_status) = self.prepare() {
            return Next::End(exit_status);
        }
        self.node.begin(Some(REQUEST_ID), None);
        self.node.make_known();
        info!("order {REQUEST_ID} asks for {}: as configured, without a VIM", Action::Install);
        let mut order = self.settings.order.clone();
        let (node_id, asked) = (&self.node.collected.node_id, self.settings.asked.as_bytes());
        order.request = Some(Request::of(REQUEST_ID, node_id, asked));
        Next::Act(Box::new(Task::new(order, &self.node, Arc::clone(&self.client))))
    }

    fn finish(&mut self, outcome: Outcome) -> Option<ExitStatus> {
        let exit_status = outcome.exit_status();
        let is_failed = outcome.failure.is_some();
        // A dry run changes nothing, not even the result of an earlier run.
        if self.node.settings.is_dry_run {
            if is_failed {
                show(&result(&mut self.node, &outcome, words));
            } else {
                self.node.log_dry_run(&outcome);
            }
            return Some(exit_status);
        }
        let result = result(&mut self.node, &outcome, words);
        let is_written = self.settings.result.deliver(&result);
        self.node.memory.update(|checkpoint| checkpoint.is_over = is_written);
        if is_failed {
            return Some(exit_status);
        }
        if !is_written {
            error!("what to do: reboot by hand; the disk is good");
            return Some(ExitStatus::NotReported);
        }
        Some(self.leave())
    }

    fn crashed(&mut self, crash: &Crash) -> AfterCrash {
        let mut result = of_crash(crash, words, self.node.clock.as_ref());
        if result.node_id.is_empty() {
            result.node_id = format!("boot-{}", random::uuid());
            result.started_at.clone_from(&result.finished_at);
        }
        self.settings.result.deliver(&result);
        AfterCrash::End(None)
    }

    fn term(&self) -> Words {
        words
    }

    fn node(&mut self) -> &mut Node {
        &mut self.node
    }
}
