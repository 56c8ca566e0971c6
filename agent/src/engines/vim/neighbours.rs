//! Supplements a posted report with its LLDP neighbours, and waits for those that an instruction expects.

use std::sync::Arc;
use std::time::Duration;

use probes::guard;
use tracing::{debug, info, warn};

use super::engine::Vim;
use crate::api::Neighbours;
use crate::clock::Clock;
use crate::http::Client;
use crate::http::retry::{Backoff, Why};
use crate::signals::Stop;

/// Stack of the thread that posts.
const STACK_BYTES: usize = 2 << 20;
/// Interval at which a wait checks for the end of the listening.
const TICK: Duration = Duration::from_secs(1);
/// Time limit for awaiting the end of the listening: twice the time for listening and raising ports.
const LONGEST_WAIT: Duration = Duration::from_mins(2);
/// Maximum number of times that the supplement is posted before it is left to the result.
const MAX_TRIES: u32 = 5;

impl Vim<'_> {
    /// True if the VIM gets another report before an install: with disks that have appeared, or with neighbours.
    pub(super) fn needs_report(&mut self) -> bool {
        self.await_disks() || self.await_neighbours()
    }

    /// True if the instruction expects neighbours that the last report does not contain, so that the VIM gets another
    /// one before the install. Each further report listens again: a cable may have been moved.
    fn await_neighbours(&self) -> bool {
        let is_expected =
            self.node.expectations.as_ref().is_some_and(|expected| expected.names_neighbours());
        if !is_expected || self.node.settings.listener.is_required() {
            return false;
        }
        self.node.settings.listener.require();
        info!("the instruction expects LLDP neighbours; listening for them before the install");
        // What listens now puts ports down at its end that it brought up.
        let end = self.node.clock.now() + LONGEST_WAIT;
        while self.node.settings.listener.is_listening() && !self.node.stop.is_stopped() {
            if self.node.clock.now() >= end {
                warn!("the first listening for LLDP neighbours does not end; listening again");
                break;
            }
            self.node.clock.sleep(TICK, &self.node.stop);
        }
        !self.node.stop.is_stopped()
    }

    /// Posts the neighbours as soon as they are known. The VIM has the report.
    pub(super) fn supplement(&mut self) {
        if !self.posts() || self.supplemented.as_ref() == Some(&self.node.id) {
            return;
        }
        self.supplemented = Some(self.node.id.clone());
        let (listener, client) = (self.node.settings.listener.clone(), Arc::clone(&self.client));
        let (clock, stop) = (Arc::clone(&self.node.clock), self.node.stop.clone());
        let node_id = self.node.id.clone();
        let work = move || {
            if let Some(neighbours) = listener.wait().filter(|found| !found.is_empty()) {
                post(&client, &node_id, &neighbours, clock.as_ref(), &stop);
            }
        };
        let on_panic = |panic| warn!("a bug ended the posting of the neighbours: {panic}");
        // Without the thread the result still contains them.
        guard::spawn("neighbours", STACK_BYTES, work, on_panic).ok();
    }
}

fn post(client: &Client, node_id: &str, found: &Neighbours, clock: &dyn Clock, stop: &Stop) {
    let n_neighbours: usize = found.values().map(Vec::len).sum();
    let mut backoff = Backoff::default();
    while backoff.n_failed() < MAX_TRIES && !stop.is_stopped() {
        let Err(failed) = client.put_neighbours(node_id, found) else {
            return info!("LLDP neighbours posted: {n_neighbours} on {} ports", found.len());
        };
        debug!("posting the LLDP neighbours: {}", failed.message);
        // A VIM without this path finds them in the result.
        if failed.why == Why::Refused && failed.status.is_some() {
            return;
        }
        clock.sleep(backoff.wait(&failed, clock), stop);
    }
}
