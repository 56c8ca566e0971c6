//! Stage and progress events: numbered, queued, posted on a thread of their own.
//!
//! Posting is best effort and never delays the job: the queue is bounded and drops its oldest event when
//! full; what could not be posted is sent again; at the end the queue is emptied for a limited time.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use probes::guard;
use tracing::{debug, warn};

use super::client::Client;
use super::retry::{Backoff, Why};
use crate::api::time::rfc3339;
use crate::api::{Event, EventBatch, Stage, State};
use crate::clock::Clock;

/// Of the thread that posts; TLS takes some.
const STACK_BYTES: usize = 1 << 20;
/// How many events wait at most.
const MAX_QUEUED: usize = 256;
/// How many events go into one request.
const MAX_BATCH: usize = 64;
/// The longest message of an event, in characters.
const MAX_MESSAGE_CHARS: usize = 400;

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Event>,
    sequence: u64,
    node_id: Option<String>,
    request_id: Option<String>,
    is_ending: bool,
    n_dropped: u64,
    is_sending: bool,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes events and posts them.
#[derive(Debug)]
pub struct Events {
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    is_posting: bool,
}

impl Events {
    /// Begins; nothing is posted before [`Events::open`].
    #[must_use]
    pub fn start(client: Arc<Client>, clock: Arc<dyn Clock>) -> Self {
        let shared = Arc::new(Shared::default());
        let (for_thread, its_clock) = (Arc::clone(&shared), Arc::clone(&clock));
        let work = move || post_all(&for_thread, &client, its_clock.as_ref());
        let on_panic = |panic| warn!(panic, "a bug ended the posting of events");
        let is_posting = guard::spawn("events", STACK_BYTES, work, on_panic).is_ok();
        Self { shared, clock, is_posting }
    }

    /// The VIM knows the node by this name: events are posted from now on.
    pub fn open(&self, node_id: &str) {
        self.shared.lock().node_id = Some(node_id.into());
        self.shared.changed.notify_all();
    }

    /// Events belong to this instruction from now on.
    pub fn set_request(&self, request_id: Option<&str>) {
        self.shared.lock().request_id = request_id.map(str::to_owned);
    }

    /// Adds an event.
    pub fn push(&self, stage: Stage, how: State, percent: Option<u8>, message: Option<&str>) {
        let mut queue = self.shared.lock();
        queue.sequence += 1;
        let event = Event {
            sequence: queue.sequence,
            time: rfc3339(self.clock.time_of_day()),
            request_id: queue.request_id.clone(),
            stage,
            state: how,
            percent: percent.map(|percent| percent.min(100)),
            message: message.map(|text| text.chars().take(MAX_MESSAGE_CHARS).collect()),
        };
        if queue.events.len() >= MAX_QUEUED {
            queue.events.pop_front();
            queue.n_dropped += 1;
        }
        queue.events.push_back(event);
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// Waits until every event is posted, but not longer than `limit`, and ends.
    pub fn finish(self, limit: Duration) {
        let end = Instant::now() + limit;
        let mut queue = self.shared.lock();
        queue.is_ending = true;
        self.shared.changed.notify_all();
        while self.is_posting
            && queue.node_id.is_some()
            && (!queue.events.is_empty() || queue.is_sending)
        {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            queue = self
                .shared
                .changed
                .wait_timeout(queue, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        if queue.n_dropped > 0 || !queue.events.is_empty() {
            debug!(n_dropped = queue.n_dropped, n_left = queue.events.len(), "events not posted");
        }
        // The thread sees an empty queue and ends by itself; it is not waited for.
        queue.events.clear();
        drop(queue);
        self.shared.changed.notify_all();
    }
}

/// The thread: posts what is queued until it is told to end and nothing is left.
fn post_all(shared: &Shared, client: &Client, clock: &dyn Clock) {
    let mut backoff = Backoff::default();
    loop {
        let Some((node_id, batch)) = next_batch(shared) else { return };
        let outcome = client.post_events(&node_id, &EventBatch { events: batch.clone() });
        let mut queue = shared.lock();
        queue.is_sending = false;
        let wait = match outcome {
            Ok(()) => {
                backoff.reset();
                Duration::ZERO
            }
            // What the VIM does not take now it will not take later: these events are lost.
            Err(failed) if failed.why == Why::Refused && failed.status.is_some() => {
                if backoff.n_failed() == 0 {
                    warn!("posting events: {}", failed.message);
                }
                queue.n_dropped += batch.len() as u64;
                backoff.wait(&failed, clock);
                Duration::ZERO
            }
            Err(failed) => {
                debug!("posting events: {}", failed.message);
                put_back(&mut queue, batch);
                backoff.wait(&failed, clock)
            }
        };
        shared.changed.notify_all();
        let until = Instant::now() + wait;
        while !queue.events.is_empty() || !queue.is_ending {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            queue =
                shared.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Waits for events; `None` when there will be no more.
fn next_batch(shared: &Shared) -> Option<(String, Vec<Event>)> {
    let mut queue = shared.lock();
    loop {
        if let Some(node_id) = queue.node_id.clone()
            && !queue.events.is_empty()
        {
            let n = queue.events.len().min(MAX_BATCH);
            let batch = queue.events.drain(..n).collect();
            queue.is_sending = true;
            return Some((node_id, batch));
        }
        if queue.is_ending {
            return None;
        }
        queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Puts events that were not taken in front again; the oldest give way if there are too many.
fn put_back(queue: &mut Queue, batch: Vec<Event>) {
    for event in batch.into_iter().rev() {
        if queue.events.len() >= MAX_QUEUED {
            queue.n_dropped += 1;
        } else {
            queue.events.push_front(event);
        }
    }
}
