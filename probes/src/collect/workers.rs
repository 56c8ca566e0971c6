//! Runs collectors on few threads, and gives up those that do not answer.
//!
//! A thread costs more than most collectors do, and two at once make every call of the kernel dearer. So
//! one begins, which takes the next collector when it has done one. Where collectors wait and none gets
//! done for a while, one more begins: a slow or hanging collector keeps no other from running.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Collector, Fill};
use crate::guard::{self, Panic};
use crate::machine::{Machine, Problem};

/// Without a collector that gets done for so long, one more thread begins.
const PATIENCE: Duration = Duration::from_millis(10);
const STACK_BYTES: usize = 1 << 20;

/// A collector with the view that it reads through.
pub(super) struct Task {
    pub(super) collector: &'static Collector,
    pub(super) machine: Machine,
}

/// What became of a task.
pub(super) struct Settled {
    pub(super) name: &'static str,
    /// `None` if it panicked or did not answer; a problem says so.
    pub(super) fill: Option<Fill>,
    pub(super) problems: Vec<Problem>,
    pub(super) duration: Duration,
}

/// Runs the tasks and waits for each no longer than its deadline, and for all no longer than
/// `budget` from `start` on. The results have the order of the tasks.
pub(super) fn run(tasks: Vec<Task>, start: Instant, budget: Duration) -> Vec<Settled> {
    let mut crew = Crew { queue: Arc::new(Queue::new(tasks)), until: start + budget, n_hired: 0 };
    crew.hire();
    while crew.is_at_work() {}
    crew.settle()
}

/// The tasks, and what became of each.
struct Queue {
    tasks: Vec<Task>,
    state: Mutex<State>,
    /// Told when the last task is answered, and of each panic.
    news: Condvar,
}

struct State {
    waiting: VecDeque<usize>,
    begun: Vec<Option<Instant>>,
    outcomes: Vec<Option<Outcome>>,
    n_open: usize,
    /// Threads that a panic took, and that nobody took the place of yet.
    n_lost: usize,
}

enum Outcome {
    Filled(Fill, Duration),
    Panicked(Panic),
    /// Why there is no answer.
    GivenUp(Problem),
}

impl Queue {
    /// Those that may take longest come first.
    fn new(tasks: Vec<Task>) -> Queue {
        let n = tasks.len();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by_key(|index| std::cmp::Reverse(tasks[*index].collector.deadline));
        let outcomes = std::iter::repeat_with(|| None).take(n).collect();
        let state =
            State { waiting: order.into(), begun: vec![None; n], outcomes, n_open: n, n_lost: 0 };
        Queue { tasks, state: Mutex::new(state), news: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next task to do.
    fn take(&self) -> Option<(usize, Instant)> {
        let mut state = self.state();
        let index = state.waiting.pop_front()?;
        let begun = Instant::now();
        state.begun[index] = Some(begun);
        Some((index, begun))
    }

    /// Does one task after the other; `current` is the one at work.
    fn work(&self, current: &AtomicUsize) {
        while let Some((index, begun)) = self.take() {
            current.store(index, Ordering::Relaxed);
            let task = &self.tasks[index];
            let fill = (task.collector.run)(&task.machine);
            let mut state = self.state();
            state.end(index, Outcome::Filled(fill, begun.elapsed()));
            if state.n_open == 0 {
                self.news.notify_one();
            }
        }
    }

    fn panicked(&self, index: usize, panic: Panic) {
        let mut state = self.state();
        state.end(index, Outcome::Panicked(panic));
        state.n_lost += 1;
        self.news.notify_one();
    }
}

impl State {
    /// The first outcome of a task counts: an answer that comes too late changes nothing.
    fn end(&mut self, index: usize, outcome: Outcome) {
        if let Some(open @ None) = self.outcomes.get_mut(index) {
            *open = Some(outcome);
            self.n_open -= 1;
        }
    }

    /// The tasks without an outcome.
    fn open(&self) -> impl Iterator<Item = usize> {
        (0..self.outcomes.len()).filter(|index| self.outcomes[*index].is_none())
    }
}

/// Those who do the tasks, and who watches them.
struct Crew {
    queue: Arc<Queue>,
    until: Instant,
    n_hired: usize,
}

impl Crew {
    /// Waits for a while, and sees that the work goes on; `false` when nothing is left to do.
    fn is_at_work(&mut self) -> bool {
        let state = self.queue.state();
        let Some(limit) = state.open().map(|index| self.limit(&state, index)).min() else {
            return false;
        };
        let now = Instant::now();
        let limit = if state.waiting.is_empty() { limit } else { limit.min(now + PATIENCE) };
        let n_open = state.n_open;
        let waited = self.queue.news.wait_timeout(state, limit.saturating_duration_since(now));
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let is_stuck = state.n_open == n_open;
        let n_lost = std::mem::take(&mut state.n_lost);
        self.give_up_the_late(&mut state);
        drop(state);
        (0..n_lost + usize::from(is_stuck)).for_each(|_| self.hire());
        true
    }

    /// Begins one more thread, if there is something to do.
    fn hire(&mut self) {
        // Each task can take one thread with it; a loaded kernel may be slow to begin what it has.
        let state = self.queue.state();
        if state.waiting.is_empty() || self.n_hired > 2 * state.outcomes.len() {
            return;
        }
        drop(state);
        self.n_hired += 1;
        let current = Arc::new(AtomicUsize::new(usize::MAX));
        let (queue, at_work) = (Arc::clone(&self.queue), Arc::clone(&current));
        let on_panic = move |panic| queue.panicked(at_work.load(Ordering::Relaxed), panic);
        let queue = Arc::clone(&self.queue);
        let begun = guard::spawn("collect", STACK_BYTES, move || queue.work(&current), on_panic);
        let Err(error) = begun else { return };
        let mut state = self.queue.state();
        if state.begun.iter().all(Option::is_none) {
            for index in state.open().collect::<Vec<_>>() {
                self.give_up(&mut state, index, error.to_string(), "a thread for the collector");
            }
        }
    }

    /// When a task without an answer is given up.
    fn limit(&self, state: &State, index: usize) -> Instant {
        let deadline = self.queue.tasks[index].collector.deadline;
        state.begun[index].map_or(self.until, |begun| self.until.min(begun + deadline))
    }

    fn give_up_the_late(&self, state: &mut State) {
        let now = Instant::now();
        let late: Vec<usize> =
            state.open().filter(|index| self.limit(state, *index) <= now).collect();
        for index in late {
            let found = match state.begun[index] {
                Some(begun) => {
                    let waited_ms = begun.elapsed().as_millis();
                    format!("no answer after {waited_ms} ms; the section is left out")
                }
                None => "no time was left for it; the section is left out".to_owned(),
            };
            self.give_up(state, index, found, "an answer before the collector's deadline");
        }
    }

    fn give_up(&self, state: &mut State, index: usize, found: String, expected: &str) {
        let problem = self.queue.tasks[index].problem(found, expected);
        state.end(index, Outcome::GivenUp(problem));
    }

    fn settle(self) -> Vec<Settled> {
        let mut state = self.queue.state();
        // Whoever still hangs finds nothing to do when he wakes.
        state.waiting.clear();
        let State { begun, outcomes, .. } = &mut *state;
        let settled = self.queue.tasks.iter().zip(begun).zip(outcomes);
        settled
            .filter_map(|((task, begun), outcome)| Some(task.settle(*begun, outcome.take()?)))
            .collect()
    }
}

impl Task {
    /// Why there is no answer, with what was read last.
    fn problem(&self, found: String, expected: &str) -> Problem {
        let path = self.machine.last_path();
        Problem::new(self.collector.name, &path, found, expected.to_owned())
    }

    fn settle(&self, begun: Option<Instant>, outcome: Outcome) -> Settled {
        let name = self.collector.name;
        let waited = begun.map(|begun| begun.elapsed()).unwrap_or_default();
        let (fill, duration, why) = match outcome {
            Outcome::Filled(fill, duration) => (Some(fill), duration, None),
            Outcome::Panicked(panic) => {
                let found = format!("a bug in the collector {name}: {panic}");
                (None, waited, Some(self.problem(found, "no panic; please report this")))
            }
            Outcome::GivenUp(problem) => (None, waited, Some(problem)),
        };
        // Not through the machine's own list, which takes nothing more once it is full: why a section
        // is missing must always be told.
        let problems = self.machine.problems().into_iter().chain(why).collect();
        Settled { name, fill, problems, duration }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::machine::Source;

    const GOOD: Collector = Collector {
        name: "good",
        sections: &["os"],
        deadline: Duration::from_secs(20),
        run: |_| Box::new(|_| ()),
    };
    const BAD: Collector = Collector { name: "bad", run: |_| panic!("out of cheese"), ..GOOD };
    const SLOW: Collector = Collector {
        name: "slow",
        deadline: Duration::from_millis(50),
        run: |machine| {
            assert!(machine.text("proc/version/none").is_none());
            thread::sleep(Duration::from_mins(10));
            Box::new(|_| ())
        },
        ..GOOD
    };

    fn run_all(collectors: &[&'static Collector], budget: Duration) -> Vec<Settled> {
        let source = Arc::new(Source::live());
        let task = |collector: &&'static Collector| {
            let machine = Machine::new(Arc::clone(&source), collector.name);
            Task { collector, machine }
        };
        run(collectors.iter().map(task).collect(), Instant::now(), budget)
    }

    #[test]
    fn more_collectors_that_panic_or_hang_than_there_are_threads_cost_only_themselves() {
        let list = [&BAD, &SLOW, &BAD, &SLOW, &SLOW, &GOOD, &BAD, &GOOD];
        let settled = run_all(&list, Duration::from_secs(20));
        let names: Vec<&str> = settled.iter().map(|settled| settled.name).collect();
        assert_eq!(names, list.map(|collector| collector.name));
        for settled in settled {
            let found: Vec<&str> = settled.problems.iter().map(|p| p.found.as_str()).collect();
            match settled.name {
                "good" => assert!(settled.fill.is_some() && found.is_empty(), "{found:?}"),
                "bad" => assert!(found.len() == 1 && found[0].contains("out of cheese")),
                _ => {
                    assert!(found.len() == 1 && found[0].starts_with("no answer after"));
                    assert_eq!(settled.problems[0].path, "/proc/version/none");
                }
            }
        }
    }

    #[test]
    fn why_a_section_is_missing_is_told_even_behind_more_problems_than_are_kept() {
        const NOISY: Collector = Collector {
            name: "noisy",
            run: |machine| {
                (0..1000).for_each(|i| machine.problem(&format!("sys/{i}"), "x", "y"));
                assert!(machine.text("sys/none/999").is_none());
                panic!("out of cheese")
            },
            ..GOOD
        };
        let settled = run_all(&[&NOISY], Duration::from_secs(20));
        let last = settled[0].problems.last().unwrap();
        assert!(last.found.contains("out of cheese"), "{}", last.found);
        assert_eq!((last.collector.as_str(), last.path.as_str()), ("noisy", "/sys/none/999"));
    }

    #[test]
    fn the_budget_ends_collectors_that_did_not_begin_too() {
        const WAITS: Collector = Collector { deadline: Duration::from_hours(1), ..SLOW };
        let list = [&WAITS, &WAITS, &WAITS, &GOOD];
        let settled = run_all(&list, Duration::ZERO);
        assert_eq!(settled.len(), 4);
        assert!(settled.iter().take(3).all(|settled| settled.problems.len() == 1));
    }
}
