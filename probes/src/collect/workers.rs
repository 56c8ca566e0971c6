//! Runs collectors on few threads, and gives up those that do not answer.
//!
//! To begin a thread costs more than most collectors do. So two begin, and each takes the next
//! collector when it has done one. Where collectors wait and none gets done for a while, one more
//! begins: a slow or hanging collector keeps no other from running.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Collector, Fill};
use crate::guard::{self, Panic};
use crate::machine::{Machine, Problem};

/// Threads at the start.
const N_THREADS: usize = 2;
/// Without an answer for so long, one more thread begins.
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

/// The number of a task, and what it found.
type Answer = (usize, Result<Fill, Panic>);

/// Runs the tasks and waits for each no longer than its deadline, and for all no longer than
/// `budget` from `start` on. The results have the order of the tasks.
pub(super) fn run(tasks: Vec<Task>, start: Instant, budget: Duration) -> Vec<Settled> {
    let (sender, answers) = mpsc::channel();
    let settled = tasks.iter().map(|_| None).collect();
    let queue = Arc::new(Queue::new(tasks));
    let crew = Crew { queue, sender, settled, until: start + budget, n_hired: 0 };
    crew.run(&answers)
}

/// The tasks, and which of them are begun.
struct Queue {
    tasks: Vec<Task>,
    state: Mutex<State>,
}

struct State {
    waiting: VecDeque<usize>,
    begun: Vec<Option<Instant>>,
}

impl Queue {
    /// Those that may take longest come first.
    fn new(tasks: Vec<Task>) -> Queue {
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(tasks[*index].collector.deadline));
        let state = State { waiting: order.into(), begun: vec![None; tasks.len()] };
        Queue { tasks, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next task to do.
    fn take(&self) -> Option<usize> {
        let mut state = self.state();
        let index = state.waiting.pop_front()?;
        state.begun[index] = Some(Instant::now());
        Some(index)
    }

    fn is_empty(&self) -> bool {
        self.state().waiting.is_empty()
    }

    fn begun(&self, index: usize) -> Option<Instant> {
        self.state().begun[index]
    }
}

/// Does one task after the other; `current` is the one at work.
fn work(queue: &Queue, current: &AtomicUsize, sender: &Sender<Answer>) {
    while let Some(index) = queue.take() {
        current.store(index, Ordering::Relaxed);
        let task = &queue.tasks[index];
        let fill = (task.collector.run)(&task.machine);
        if sender.send((index, Ok(fill))).is_err() {
            return;
        }
    }
}

/// Those who wait for the answers.
struct Crew {
    queue: Arc<Queue>,
    sender: Sender<Answer>,
    settled: Vec<Option<Settled>>,
    until: Instant,
    n_hired: usize,
}

impl Crew {
    fn run(mut self, answers: &Receiver<Answer>) -> Vec<Settled> {
        for _ in 0..N_THREADS.min(self.queue.tasks.len()) {
            self.hire();
        }
        while let Some(limit) = self.next_limit() {
            let patience = if self.queue.is_empty() { limit } else { Instant::now() + PATIENCE };
            let wait = limit.min(patience).saturating_duration_since(Instant::now());
            if let Ok((index, answer)) = answers.recv_timeout(wait) {
                self.take_in(index, answer);
            } else {
                self.give_up_the_late();
                self.hire();
            }
        }
        // Whoever still hangs finds nothing to do when he wakes.
        self.queue.state().waiting.clear();
        self.settled.into_iter().flatten().collect()
    }

    /// Begins one more thread, if there is something to do.
    fn hire(&mut self) {
        // Each task can take one thread with it; a loaded kernel may be slow to begin what it has.
        if self.queue.is_empty() || self.n_hired > 2 * self.settled.len() {
            return;
        }
        self.n_hired += 1;
        let (queue, sender) = (Arc::clone(&self.queue), self.sender.clone());
        let current = Arc::new(AtomicUsize::new(usize::MAX));
        let (failed, at_work) = (sender.clone(), Arc::clone(&current));
        let on_panic =
            move |panic| drop(failed.send((at_work.load(Ordering::Relaxed), Err(panic))));
        let begun =
            guard::spawn("collect", STACK_BYTES, move || work(&queue, &current, &sender), on_panic);
        if let Err(error) = begun
            && self.open().all(|index| self.queue.begun(index).is_none())
        {
            for index in self.open().collect::<Vec<_>>() {
                self.fail(index, "", error.to_string(), "a thread for the collector");
            }
        }
    }

    /// The tasks without an answer.
    fn open(&self) -> impl Iterator<Item = usize> {
        (0..self.settled.len()).filter(|index| self.settled[*index].is_none())
    }

    /// When a task without an answer is given up.
    fn limit(&self, index: usize) -> Instant {
        let deadline = self.queue.tasks[index].collector.deadline;
        self.queue.begun(index).map_or(self.until, |begun| self.until.min(begun + deadline))
    }

    /// When the next task is given up; `None` when no answer is missing.
    fn next_limit(&self) -> Option<Instant> {
        self.open().map(|index| self.limit(index)).min()
    }

    fn take_in(&mut self, index: usize, answer: Result<Fill, Panic>) {
        if self.settled.get(index).is_none_or(Option::is_some) {
            return;
        }
        match answer {
            Ok(fill) => self.settle(index, Some(fill)),
            Err(panic) => {
                let Task { collector, machine } = &self.queue.tasks[index];
                let found = format!("a bug in the collector {}: {panic}", collector.name);
                self.fail(index, &machine.last_path(), found, "no panic; please report this");
                // In place of the thread that the panic took.
                self.hire();
            }
        }
    }

    fn give_up_the_late(&mut self) {
        let now = Instant::now();
        let late: Vec<usize> = self.open().filter(|index| self.limit(*index) <= now).collect();
        for index in late {
            let path = self.queue.tasks[index].machine.last_path();
            let found = match self.queue.begun(index) {
                Some(begun) => {
                    let waited_ms = begun.elapsed().as_millis();
                    format!("no answer after {waited_ms} ms; the section is left out")
                }
                None => "no time was left for it; the section is left out".to_owned(),
            };
            self.fail(index, &path, found, "an answer before the collector's deadline");
        }
    }

    fn fail(&mut self, index: usize, path: &str, found: String, expected: &str) {
        self.settle(index, None);
        // Not through the machine's own list, which takes nothing more once it is full: why a section
        // is missing must always be told.
        if let Some(settled) = &mut self.settled[index] {
            let problem = Problem::new(settled.name, path, found, expected.to_owned());
            settled.problems.push(problem);
        }
    }

    fn settle(&mut self, index: usize, fill: Option<Fill>) {
        let Task { collector, machine } = &self.queue.tasks[index];
        let duration = self.queue.begun(index).map(|begun| begun.elapsed()).unwrap_or_default();
        let problems = machine.problems();
        self.settled[index] = Some(Settled { name: collector.name, fill, problems, duration });
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
