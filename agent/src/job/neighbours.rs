//! LLDP neighbours, which arrive up to half a minute after the report was posted and supplement it; and the links that
//! are brought up for them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use compare::expectation::Expectations;
use probes::guard;
use tracing::{debug, info, warn};

use super::sequence::Job;
use crate::api::Neighbours;
use crate::clock::Clock;
use crate::http::Client;
use crate::http::retry::{Backoff, Why};
use crate::signals::Stop;

/// Stack of the thread that listens, and of the one that posts.
const STACK_BYTES: usize = 2 << 20;
/// Interval at which a wait checks for the end of the listening.
const TICK: Duration = Duration::from_secs(1);
/// Time limit for awaiting the end of the listening: twice the time for listening and raising ports.
const LONGEST_WAIT: Duration = Duration::from_mins(2);
/// Maximum number of times that the supplement is posted before it is left to the result.
const MAX_TRIES: u32 = 5;

/// Listens for neighbours while the job goes on.
#[derive(Debug, Clone, Default)]
pub struct Listener {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// True while ports are being brought up.
    is_raising: AtomicBool,
    /// True if ports have been brought up since the last report.
    has_new_links: AtomicBool,
    /// True if reports must contain the neighbours.
    is_required: AtomicBool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Listening,
    Done(Neighbours),
}

impl Listener {
    /// Runs `listen` on a thread. Only the first call does.
    pub fn start(&self, listen: impl FnOnce() -> Neighbours + Send + 'static) {
        let mut state = self.lock();
        if !matches!(*state, State::Idle) {
            return;
        }
        let (done, failed) = (self.clone(), self.clone());
        let work = move || done.set(State::Done(listen()));
        let on_panic = move |panic| {
            warn!("a bug ended the listening for LLDP neighbours: {panic}");
            failed.set(State::Idle);
        };
        if guard::spawn("lldp", STACK_BYTES, work, on_panic).is_ok() {
            *state = State::Listening;
        }
    }

    /// Says that ports are being brought up before the listening.
    pub fn begin_links(&self) {
        self.shared.is_raising.store(true, Ordering::SeqCst);
    }

    /// Marks this as done; `has_new` is true if there are new links.
    pub fn end_links(&self, has_new: bool) {
        self.shared.has_new_links.store(has_new, Ordering::SeqCst);
        self.shared.is_raising.store(false, Ordering::SeqCst);
    }

    /// True while it listens.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        matches!(*self.lock(), State::Listening)
    }

    /// Makes further reports contain the neighbours.
    pub fn require(&self) {
        self.shared.is_required.store(true, Ordering::SeqCst);
    }

    /// True if a report must contain the neighbours, so that it listens for them itself.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.shared.is_required.load(Ordering::SeqCst)
    }

    /// True while ports are being brought up.
    pub(super) fn brings_links_up(&self) -> bool {
        self.is_listening() && self.shared.is_raising.load(Ordering::SeqCst)
    }

    /// True if ports have been brought up since the last call.
    pub(super) fn take_new_links(&self) -> bool {
        self.shared.has_new_links.swap(false, Ordering::SeqCst)
    }

    /// The neighbours, once all of them are known.
    pub(super) fn known(&self) -> Option<Neighbours> {
        match &*self.lock() {
            State::Done(neighbours) => Some(neighbours.clone()),
            State::Idle | State::Listening => None,
        }
    }

    /// Waits for the neighbours; `None` if it does not listen.
    fn wait(&self) -> Option<Neighbours> {
        let mut state = self.lock();
        loop {
            match &*state {
                State::Done(neighbours) => return Some(neighbours.clone()),
                State::Idle => return None,
                State::Listening => {}
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn set(&self, state: State) {
        *self.lock() = state;
        self.shared.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job<'_> {
    /// True if the VIM gets another report before an install: with disks that have appeared, or with neighbours.
    pub(super) fn needs_report(&mut self) -> bool {
        self.await_disks() || self.await_neighbours()
    }

    /// True if the instruction expects neighbours that the last report does not contain, so that the VIM gets another
    /// one before the install. Each further report listens again: a cable may have been moved.
    fn await_neighbours(&self) -> bool {
        let is_expected = self.expectations.as_ref().is_some_and(Expectations::names_neighbours);
        if !is_expected || self.settings.listener.is_required() {
            return false;
        }
        self.settings.listener.require();
        info!("the instruction expects LLDP neighbours; listening for them before the install");
        // What listens now puts ports down at its end that it brought up.
        let end = self.clock.now() + LONGEST_WAIT;
        while self.settings.listener.is_listening() && !self.stop.is_stopped() {
            if self.clock.now() >= end {
                warn!("the first listening for LLDP neighbours does not end; listening again");
                break;
            }
            self.clock.sleep(TICK, &self.stop);
        }
        !self.stop.is_stopped()
    }

    /// Posts the neighbours as soon as they are known. The VIM has the report.
    pub(super) fn supplement(&mut self) {
        if !self.posts() || self.supplemented.as_ref() == Some(&self.node_id) {
            return;
        }
        self.supplemented = Some(self.node_id.clone());
        let (listener, client) = (self.settings.listener.clone(), Arc::clone(&self.client));
        let (clock, stop) = (Arc::clone(&self.clock), self.stop.clone());
        let node_id = self.node_id.clone();
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
        match client.put_neighbours(node_id, found) {
            Ok(()) => {
                info!("LLDP neighbours posted: {n_neighbours} on {} ports", found.len());
                return;
            }
            // A VIM without this path finds them in the result.
            Err(failed) if failed.why == Why::Refused && failed.status.is_some() => {
                debug!("posting the LLDP neighbours: {}", failed.message);
                return;
            }
            Err(failed) => {
                debug!("posting the LLDP neighbours: {}", failed.message);
                clock.sleep(backoff.wait(&failed, clock), stop);
            }
        }
    }
}
