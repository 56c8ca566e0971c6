//! The load that a VIM allows while the node waits for its instruction: `load_s` of the action `wait`.

use std::time::Duration;

use tracing::info;

use super::engine::Vim;
use crate::act::{Stage, State};

impl Vim<'_> {
    /// Starts the load that a `wait` allows, or ends the one that is not allowed any more. Returns how long the node may
    /// wait; `None` if the hardware is to be read at once, because the load is over or because it has found a fault.
    ///
    /// What `accepts_report` says nothing about a load if it allows none: some VIMs accept every report alike.
    pub(super) fn load(
        &mut self,
        allowed_s: Option<u64>,
        wait: Duration,
        accepts_report: bool,
    ) -> Option<Duration> {
        let Some(seconds) = allowed_s.filter(|_| self.posts()) else {
            return (accepts_report || !self.withdraw_load()).then_some(wait);
        };
        let now = self.node.clock.now();
        let left = self.node.settings.load.allow(seconds, now, || {
            let text =
                format!("the VIM allows a load of every CPU and of free memory: {seconds} s");
            info!("{text}");
            self.event(Stage::Wait, State::Started, Some(&text));
        });
        let Some(left) = left else { return Some(wait) };
        (!left.is_zero()).then(|| wait.min(left))
    }

    /// Ends the load because the VIM no longer allows it. Returns true if it found a fault.
    pub(super) fn withdraw_load(&mut self) -> bool {
        let ended = self.node.settings.load.withdraw();
        self.report_load(ended)
    }

    /// Posts the end of a load; returns true if it found a fault. The result contains the findings, and they may block an
    /// install.
    pub(super) fn report_load(&self, ended: Option<(State, String)>) -> bool {
        let Some((how, text)) = ended else { return false };
        self.event(Stage::Wait, how, Some(&text));
        how == State::Failed
    }
}
