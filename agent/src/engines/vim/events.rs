//! Stage and progress events: numbered, queued, and posted by a thread of their own.
//!
//! Posting is best effort and never delays the job. There is at most one request a second. A full queue drops its oldest event, failed posts are repeated, and
//! at the end the queue is flushed for a limited time.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use probes::guard;
use tracing::{debug, warn};

use formats::time::rfc3339;

use crate::act::{Stage, State};
use crate::api::{Event, EventBatch};
use crate::clock::Clock;
use crate::http::Client;
use crate::http::retry::{Backoff, Why};

/// Stack of the posting thread; TLS needs some of it.
const STACK_BYTES: usize = 1 << 20;
/// The shortest time between two requests; progress meanwhile becomes one event.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// Most events in the queue.
const MAX_QUEUED: usize = 256;
/// Most events of progress in one stage that wait to be posted.
const MAX_PROGRESS: usize = 8;
/// Most events in one request.
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

impl Queue {
    /// The last event, if it is progress that was not posted yet and that new progress replaces: a message that differs
    /// only in its figures, or any message once there are many.
    fn progress_of(
        &mut self,
        stage: Stage,
        how: State,
        message: Option<&str>,
    ) -> Option<&mut Event> {
        let is_alike = |event: &Event| {
            how == State::Progress
                && event.state == State::Progress
                && event.stage == stage
                && event.request_id == self.request_id
        };
        let n_alike = self.events.iter().rev().take_while(|event| is_alike(event)).count();
        let last = self.events.back_mut().filter(|_| n_alike > 0)?;
        let is_same = match (&last.message, message) {
            (Some(before), Some(now)) => words(before).eq(words(now)),
            _ => true,
        };
        (is_same || n_alike >= MAX_PROGRESS).then_some(last)
    }
}

/// The text without its figures.
fn words(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| !c.is_ascii_digit())
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

/// The queue of events and the thread that posts them.
#[derive(Debug)]
pub struct Events {
    client: Arc<Client>,
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    is_posting: bool,
}

impl Events {
    /// An empty queue; nothing is posted before [`Events::open`].
    pub fn new(client: Arc<Client>, clock: Arc<dyn Clock>) -> Self {
        Self { client, shared: Arc::default(), clock, is_posting: false }
    }

    /// Posts events from now on, under the id that the VIM has for the node.
    pub fn open(&mut self, node_id: &str) {
        self.shared.lock().node_id = Some(node_id.into());
        self.shared.changed.notify_all();
        if !self.is_posting {
            let (shared, client) = (Arc::clone(&self.shared), Arc::clone(&self.client));
            let clock = Arc::clone(&self.clock);
            let work = move || post_all(&shared, &client, clock.as_ref());
            let on_panic = |panic| warn!("a bug ended the posting of events: {panic}");
            self.is_posting = guard::spawn("events", STACK_BYTES, work, on_panic).is_ok();
        }
    }

    /// Sets the instruction that later events belong to.
    pub fn set_request(&self, request_id: Option<&str>) {
        self.shared.lock().request_id = request_id.map(str::to_owned);
    }

    /// Queues an event.
    pub fn push(&self, stage: Stage, how: State, percent: Option<u8>, message: Option<&str>) {
        let mut queue = self.shared.lock();
        if let Some(last) = queue.progress_of(stage, how, message) {
            last.time = rfc3339(self.clock.time_of_day());
            last.percent = percent.map(|percent| percent.min(100)).or(last.percent);
            if let Some(text) = message {
                last.message = Some(text.chars().take(MAX_MESSAGE_CHARS).collect());
            }
            return;
        }
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

    /// Waits until every event is posted, for at most `limit`, and stops posting.
    pub fn finish(&self, limit: Duration) {
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
        // The thread finds an empty queue and ends by itself; nobody joins it.
        queue.events.clear();
        drop(queue);
        self.shared.changed.notify_all();
    }
}

/// The posting thread: posts queued events until the queue is closed and empty.
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
                MIN_INTERVAL
            }
            // The VIM will not accept later what it refuses now, so these events are dropped.
            Err(failed) if failed.why == Why::Refused && failed.status.is_some() => {
                if backoff.n_failed() == 0 {
                    warn!("posting events: {}", failed.message);
                }
                queue.n_dropped += batch.len() as u64;
                backoff.wait(&failed, clock);
                MIN_INTERVAL
            }
            Err(failed) => {
                debug!("posting events: {}", failed.message);
                put_back(&mut queue, batch);
                backoff.wait(&failed, clock)
            }
        };
        shared.changed.notify_all();
        let until = Instant::now() + wait;
        // At the end the last events are not delayed, except after a failure.
        while !queue.is_ending || !queue.events.is_empty() && wait > MIN_INTERVAL {
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

/// Returns events that were not posted to the front of the queue; if it is full, the oldest are dropped.
fn put_back(queue: &mut Queue, batch: Vec<Event>) {
    for event in batch.into_iter().rev() {
        if queue.events.len() >= MAX_QUEUED {
            queue.n_dropped += 1;
        } else {
            queue.events.push_front(event);
        }
    }
}
