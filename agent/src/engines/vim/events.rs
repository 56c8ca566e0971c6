//! Stage and progress events: numbered, queued, and posted by a thread of their own.
//!
//! Posting is best effort and never delays the job. There is at most one request a second. A full queue drops its oldest event, failed posts are repeated, and
//! at the end the queue is flushed for a limited time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use formats::time::rfc3339;
use probes::guard;
use tracing::{debug, warn};

use crate::act::{Stage, State};
use crate::api::{Event, EventBatch};
use crate::clock::Clock;
use crate::http::Client;
use crate::http::retry::{Backoff, Why};
use crate::monitor::Monitor;

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
    /// Adds an event. New progress replaces progress that was not posted yet.
    fn push(&mut self, mut event: Event) {
        event.request_id.clone_from(&self.request_id);
        if let Some(last) = self.replaced_by(&event) {
            last.time = event.time;
            last.percent = event.percent.or(last.percent);
            last.message = event.message.or(last.message.take());
            return;
        }
        self.sequence += 1;
        event.sequence = self.sequence;
        if self.events.len() >= MAX_QUEUED {
            self.events.pop_front();
            self.n_dropped += 1;
        }
        self.events.push_back(event);
    }

    /// The last event, if it is progress that was not posted yet and that new progress replaces: a message that differs
    /// only in its figures, or any message once there are many.
    fn replaced_by(&mut self, new: &Event) -> Option<&mut Event> {
        let is_alike = |event: &&Event| {
            new.state == State::Progress
                && (event.state, event.stage) == (new.state, new.stage)
                && event.request_id == new.request_id
        };
        let n_alike = self.events.iter().rev().take_while(is_alike).count();
        let last = self.events.back_mut().filter(|_| n_alike > 0)?;
        let is_same = match (&last.message, &new.message) {
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

/// The queue of events and the thread that posts them.
#[derive(Debug)]
pub struct Events {
    client: Arc<Client>,
    queue: Arc<Monitor<Queue>>,
    is_posting: bool,
}

impl Events {
    /// An empty queue; nothing is posted before [`Events::open`].
    pub fn new(client: Arc<Client>) -> Self {
        Self { client, queue: Arc::default(), is_posting: false }
    }

    /// Posts events from now on, under the id that the VIM has for the node.
    pub fn open(&mut self, node_id: &str) {
        self.queue.change(|queue| queue.node_id = Some(node_id.into()));
        if !self.is_posting {
            let (queue, client) = (Arc::clone(&self.queue), Arc::clone(&self.client));
            let work = move || post_all(&queue, &client);
            let on_panic = |panic| warn!("a bug ended the posting of events: {panic}");
            self.is_posting = guard::spawn("events", STACK_BYTES, work, on_panic).is_ok();
        }
    }

    /// Sets the instruction that later events belong to.
    pub fn set_request(&self, request_id: Option<&str>) {
        self.queue.lock().request_id = request_id.map(str::to_owned);
    }

    /// Queues an event.
    pub fn push(&self, stage: Stage, how: State, percent: Option<u8>, message: Option<&str>) {
        let event = Event {
            sequence: 0,
            time: rfc3339(self.client.clock.time_of_day()),
            request_id: None,
            stage,
            state: how,
            percent: percent.map(|percent| percent.min(100)),
            message: message.map(|text| text.chars().take(MAX_MESSAGE_CHARS).collect()),
        };
        self.queue.change(|queue| queue.push(event));
    }

    /// Waits until every event is posted, for at most `limit`, and stops posting.
    pub fn finish(&self, limit: Duration) {
        self.queue.change(|queue| queue.is_ending = true);
        let is_busy = |queue: &Queue| {
            self.is_posting
                && queue.node_id.is_some()
                && (!queue.events.is_empty() || queue.is_sending)
        };
        drop(self.queue.wait_while(self.client.clock.as_ref(), limit, is_busy));
        self.queue.change(|queue| {
            let (n_dropped, n_left) = (queue.n_dropped, queue.events.len());
            if n_dropped > 0 || n_left > 0 {
                debug!(n_dropped, n_left, "events not posted");
            }
            // The thread finds an empty queue and ends by itself; nobody joins it.
            queue.events.clear();
        });
    }
}

/// The posting thread: posts queued events until the queue is closed and empty.
fn post_all(monitor: &Monitor<Queue>, client: &Client) {
    let clock = client.clock.as_ref();
    let mut backoff = Backoff::default();
    while let Some((node_id, batch)) = next_batch(monitor, clock) {
        let outcome = client.post_events(&node_id, &batch);
        let wait = monitor.change(|queue| {
            queue.is_sending = false;
            match outcome {
                Ok(()) => {
                    backoff.reset();
                    MIN_INTERVAL
                }
                // The VIM will not accept later what it refuses now, so these events are dropped.
                Err(failed) if failed.why == Why::Refused && failed.status.is_some() => {
                    if backoff.n_failed() == 0 {
                        warn!("posting events: {}", failed.message);
                    }
                    queue.n_dropped += batch.events.len() as u64;
                    backoff.wait(&failed, clock);
                    MIN_INTERVAL
                }
                Err(failed) => {
                    debug!("posting events: {}", failed.message);
                    put_back(queue, batch.events);
                    backoff.wait(&failed, clock)
                }
            }
        });
        // At the end the last events are not delayed, except after a failure.
        let is_delayed =
            |queue: &Queue| !queue.is_ending || !queue.events.is_empty() && wait > MIN_INTERVAL;
        drop(monitor.wait_while(clock, wait, is_delayed));
    }
}

/// Waits for events; `None` when there will be no more.
fn next_batch(monitor: &Monitor<Queue>, clock: &dyn Clock) -> Option<(String, EventBatch)> {
    let is_idle = |queue: &Queue| queue.node_id.is_none() || queue.events.is_empty();
    let mut queue =
        monitor.wait_while(clock, Duration::MAX, |queue| is_idle(queue) && !queue.is_ending);
    let node_id = queue.node_id.clone().filter(|_| !queue.events.is_empty())?;
    let n = queue.events.len().min(MAX_BATCH);
    queue.is_sending = true;
    Some((node_id, EventBatch { events: queue.events.drain(..n).collect() }))
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
