//! The end of an order and of the job: posts and exit status.

use tracing::{error, info, warn};

use super::engine::Vim;
use super::result::result;
use super::words;
use crate::act::{Outcome, Stage, State};
use crate::exit_status::ExitStatus;
use crate::http::client::GaveUp;

impl Vim<'_> {
    /// Ends an order with a failure: posts it, returns the exit status.
    pub(super) fn end_badly(&mut self, outcome: &Outcome) -> ExitStatus {
        let said = outcome.failure.as_ref().map(|failure| failure.said(words));
        self.event(outcome.stage, State::Failed, said.as_deref());
        self.replace_unposted();
        let result = result(&mut self.node, outcome, words);
        if !self.node.settings.is_dry_run {
            self.node.console.works_at(Stage::Result, None);
            match self.post(&result, Some(self.node.settings.failure_limit)) {
                Ok(()) => info!("result posted"),
                Err(gave_up) => error!("the result could not be posted: {gave_up}"),
            }
        }
        self.has_refused = true;
        self.last_result = Some(result);
        outcome.exit_status()
    }

    /// Ends the job with an installed disk.
    ///
    /// The result is retried as long as the report: a VIM that does not know of the install would order it again. A
    /// server that only serves an Ignition config need not accept results.
    pub(super) fn end_well(&mut self, outcome: &Outcome) -> ExitStatus {
        self.replace_unposted();
        let result = result(&mut self.node, outcome, words);
        self.event(Stage::Result, State::Started, None);
        self.node.console.waits_for(&self.vim("the result to be accepted by"), &self.node.id);
        let limit = self.client.time_left().map(|left| left.max(self.node.settings.failure_limit));
        let limit = if self.is_bare { Some(self.node.settings.failure_limit) } else { limit };
        let exit_status = match self.post(&result, limit) {
            Ok(()) => {
                info!("result posted: {}", result.message);
                self.event(Stage::Result, State::Done, None);
                ExitStatus::Done
            }
            Err(GaveUp::Refused(failed) | GaveUp::Deadline(failed))
                if self.is_bare && failed.status.is_some() =>
            {
                warn!("{}; this VIM does not accept results: {}", result.message, failed.message);
                ExitStatus::Done
            }
            Err(gave_up) => {
                error!("{}, but the result could not be posted: {gave_up}", result.message);
                error!("what to do: make the VIM reachable, or reboot by hand; the disk is good");
                ExitStatus::NotReported
            }
        };
        self.last_result = Some(result);
        exit_status
    }

    /// Announces the action on the machine that the VIM asks for; a dry run leaves the machine as it is.
    pub(super) fn announce(&self, what: &str) {
        let message = format!("{what} as the VIM asks");
        let dry = if self.node.settings.is_dry_run { "dry run, so not " } else { "" };
        info!("{dry}{message}; no disk was touched");
        self.event(Stage::Result, State::Done, Some(&message));
    }

    /// Powers off because the VIM asks for it.
    pub(super) fn power_off(&mut self) -> ExitStatus {
        self.announce("powering off");
        if self.node.settings.is_dry_run {
            return ExitStatus::Done;
        }
        self.node.switch_off(ExitStatus::Untouched, "no disk was touched")
    }
}
