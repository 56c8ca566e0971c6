//! Listens for LLDP neighbours, which arrive up to half a minute after the report was posted, and follows the links that
//! are brought up for them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use probes::guard;
use tracing::warn;

use crate::api::Neighbours;

/// Stack of the thread that listens.
const STACK_BYTES: usize = 2 << 20;

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
    pub fn is_listening(&self) -> bool {
        matches!(*self.lock(), State::Listening)
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
        match &*self.lock() {
            State::Done(neighbours) => Some(neighbours.clone()),
            State::Idle | State::Listening => None,
        }
    }

    /// Waits for the neighbours; `None` if it does not listen.
    pub(crate) fn wait(&self) -> Option<Neighbours> {
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
