//! The process that loads one CPU: it computes and tests memory until its standard input ends, and writes what it
//! [`Said`] to standard output.

use std::io::{Write as _, stdin, stdout};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::kernels::{KERNELS, Kernel};
use super::memory::{Budget, Memory, Wrong};

/// The environment variable that makes the program such a child: its [`Task`] as JSON.
pub(super) const VARIABLE: &str = "RUN_COREOS_INSTALLER_LOAD";
/// Minimum run time of the kernels before the next memory block: this, or as long as the last block took.
const SLICE: Duration = Duration::from_millis(10);
/// Longer would delay the end.
const MOST: Duration = Duration::from_secs(1);

/// What a child says: all of it again, as a line of JSON, whenever something is new.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Said {
    /// The first wrong result, with the name of its kernel.
    pub(super) wrong: Option<String>,
    /// The first word that was read back differently.
    pub(super) memory: Option<String>,
    /// Rounds of kernels, wrong results, bytes of tested memory, wrong words; `None` if it did not finish.
    pub(super) done: Option<[u64; 4]>,
    /// The reason why the process may not run on the CPU.
    pub(super) unpinned: Option<String>,
    /// True if the kernel took the process off the CPU.
    pub(super) has_moved: bool,
}

impl Said {
    /// Returns what was said last.
    pub(super) fn last(output: &str) -> Said {
        output.lines().rev().find_map(|line| serde_json::from_str(line).ok()).unwrap_or_default()
    }

    fn print(&self) {
        let mut stdout = stdout().lock();
        // Without its parent there is nobody to read it.
        let line = serde_json::to_string(self).unwrap_or_default();
        writeln!(stdout, "{line}").and_then(|()| stdout.flush()).ok();
    }
}

/// The task of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub(super) cpu: u32,
    /// After this time it ends, even if its parent does not say so.
    pub(super) limit: Duration,
    pub(super) memory: Budget,
}

impl Task {
    /// Returns the task of this process, if it is such a child.
    pub fn of_environment() -> Option<Task> {
        serde_json::from_str(&std::env::var(VARIABLE).ok()?).ok()
    }

    /// Loads the CPU.
    pub fn run(self) {
        // Its parent can be killed, and the machine can run out of memory: no other process must suffer from this one.
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).ok();
        std::fs::write("/proc/self/oom_score_adj", "1000").ok();
        match pin(self.cpu) {
            Ok(()) => self.load(),
            Err(why) => Said { unpinned: Some(why.to_string()), ..Said::default() }.print(),
        }
    }

    fn load(self) {
        let start = Instant::now();
        let mut memory = Memory::new(self.memory);
        let (mut n_rounds, mut n_wrong) = (0_u64, 0_u64);
        let (mut said, mut share) = (Said::default(), SLICE);
        while start.elapsed() < self.limit && !is_over() {
            let before = said.clone();
            let slice = Instant::now();
            while slice.elapsed() < share {
                n_rounds += 1;
                for Kernel { name, run, expected } in &KERNELS {
                    let found = run();
                    if found != *expected {
                        n_wrong += 1;
                        let result = || format!("{name} gave {found:#x} instead of {expected:#x}");
                        said.wrong.get_or_insert_with(result);
                    }
                }
            }
            let test = Instant::now();
            let wrong = memory.step(start.elapsed());
            share = test.elapsed().clamp(SLICE, MOST);
            said.memory = said.memory.or_else(|| wrong.as_ref().map(described));
            // Before anything is said: what another CPU computed says nothing about this one.
            if sched_getcpu().ok() != usize::try_from(self.cpu).ok() {
                return Said { has_moved: true, ..Said::default() }.print();
            }
            if said != before {
                said.print();
            }
        }
        said.done = Some([n_rounds, n_wrong, memory.tested_bytes(), memory.n_wrong]);
        said.print();
    }
}

fn described(wrong: &Wrong) -> String {
    let Wrong { address, physical, found, expected, again } = wrong;
    let place = match physical {
        Some(physical) => format!("physical address {physical:#x}"),
        None => format!("virtual address {address:#x}, physical address unknown"),
    };
    let again = if again == expected { "the right value" } else { "a wrong value again" };
    format!("{place}: {found:#x} instead of {expected:#x}, a second read gave {again}")
}

/// Keeps this thread on one CPU.
fn pin(cpu: u32) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(usize::try_from(cpu).unwrap_or(usize::MAX))?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// Returns true if the parent has closed the pipe or exited.
fn is_over() -> bool {
    let stdin = stdin();
    let mut waits = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    poll(&mut waits, PollTimeout::ZERO) != Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_survives_the_environment() {
        let growth = Duration::from_millis(333);
        let memory = Budget { bytes: 5 << 30, floor_bytes: 7, growth };
        let task = Task { cpu: 1023, limit: Duration::from_millis(6500), memory };
        let text = serde_json::to_string(&task).unwrap();
        assert_eq!(serde_json::from_str::<Task>(&text).unwrap(), task);
    }

    #[test]
    fn thread_is_pinned_to_a_cpu_that_it_may_use_and_to_no_other() {
        let pinned = std::thread::spawn(|| {
            let here = u32::try_from(sched_getcpu().unwrap()).unwrap();
            (pin(here), pin(u32::MAX), sched_getcpu().unwrap() == here as usize)
        });
        let (here, nowhere, is_here) = pinned.join().unwrap();
        assert!(here.is_ok() && nowhere.is_err() && is_here);
    }
}
