//! Listens for LLDP neighbours, which arrive up to half a minute after the report was posted, and follows the links that
//! are brought up for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use probes::guard;
use tracing::warn;

use crate::api::Neighbours;
use crate::monitor::Monitor;

/// Stack of the thread that listens.
const STACK_BYTES: usize = 2 << 20;

/// Listens for neighbours while the job goes on.
#[derive(Debug, Clone, Default)]
pub struct Listener {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Monitor<State>,
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

impl State {
    fn neighbours(&self) -> Option<Neighbours> {
        if let Self::Done(neighbours) = self { Some(neighbours.clone()) } else { None }
    }
}

impl Listener {
    /// Runs `listen` on a thread. Only the first call does.
    pub fn start(&self, listen: impl FnOnce() -> Neighbours + Send + 'static) {
        let mut state = self.shared.state.lock();
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
    pub fn is_listening(&self) -> bool {
        matches!(*self.shared.state.lock(), State::Listening)
    }

    /// Makes further reports contain the neighbours.
    pub fn require(&self) {
        self.shared.is_required.store(true, Ordering::SeqCst);
    }

    /// True if a report must contain the neighbours, so that it listens for them itself.
    pub fn is_required(&self) -> bool {
        self.shared.is_required.load(Ordering::SeqCst)
    }

    /// True while ports are being brought up.
    pub(crate) fn brings_links_up(&self) -> bool {
        self.is_listening() && self.shared.is_raising.load(Ordering::SeqCst)
    }

    /// True if ports have been brought up since the last call.
    pub(crate) fn take_new_links(&self) -> bool {
        self.shared.has_new_links.swap(false, Ordering::SeqCst)
    }

    /// The neighbours, once all of them are known.
    pub(crate) fn known(&self) -> Option<Neighbours> {
        self.shared.state.lock().neighbours()
    }

    /// Waits for the neighbours; `None` if it does not listen.
    pub(crate) fn wait(&self) -> Option<Neighbours> {
        let mut state = self.shared.state.lock();
        while matches!(*state, State::Listening) {
            state = self.shared.state.wait(state, Duration::MAX);
        }
        state.neighbours()
    }

    fn set(&self, state: State) {
        self.shared.state.change(|known| *known = state);
    }
}
