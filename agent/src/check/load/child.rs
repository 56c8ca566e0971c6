//! The process that loads one CPU: it computes and tests memory until its standard input ends, and writes each failure
//! as a line to standard output.
//!
//! | line | meaning |
//! |---|---|
//! | `unpinned WHY` | the process may not run on the CPU |
//! | `moved` | the kernel took the process off the CPU |
//! | `wrong RESULT; KERNEL` | the first wrong result of a kernel |
//! | `memory WORD` | the first word that was read back differently |
//! | `done ROUNDS WRONG BYTES WORDS` | rounds of kernels, wrong ones; bytes of tested memory, wrong words |

use std::fmt::Write as _;
use std::io::{Write as _, stdin, stdout};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::kernels::KERNELS;
use super::memory::{Budget, Memory, Wrong};

/// The environment variable that makes the program such a child: its [`Task`] as JSON.
pub(super) const VARIABLE: &str = "RUN_COREOS_INSTALLER_LOAD";
/// Minimum run time of the kernels before the next memory block: this, or as long as the last block took.
const SLICE: Duration = Duration::from_millis(10);
/// Longer would delay the end.
const MOST: Duration = Duration::from_secs(1);

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
            Err(why) => say(&format!("unpinned {why}")),
        }
    }

    fn load(self) {
        let start = Instant::now();
        let mut memory = Memory::new(self.memory);
        let (mut n_rounds, mut n_wrong) = (0_u64, 0_u64);
        let mut is_known = [false; KERNELS.len()];
        let mut is_memory_known = false;
        let mut share = SLICE;
        while start.elapsed() < self.limit && !is_over() {
            let mut lines = String::new();
            let slice = Instant::now();
            while slice.elapsed() < share {
                n_rounds += 1;
                for (kernel, is_known) in KERNELS.iter().zip(&mut is_known) {
                    let found = (kernel.run)();
                    if found != kernel.expected {
                        n_wrong += 1;
                        if !std::mem::replace(is_known, true) {
                            let (name, expected) = (kernel.name, kernel.expected);
                            let result = format!("{found:#x} instead of {expected:#x}");
                            let _ = writeln!(lines, "wrong {result}; {name}");
                        }
                    }
                }
            }
            let test = Instant::now();
            let wrong = memory.step(start.elapsed());
            share = test.elapsed().clamp(SLICE, MOST);
            if let Some(wrong) = wrong.filter(|_| !std::mem::replace(&mut is_memory_known, true)) {
                let _ = writeln!(lines, "memory {}", described(&wrong));
            }
            // Before anything is said: what another CPU computed says nothing about this one.
            if sched_getcpu().ok() != usize::try_from(self.cpu).ok() {
                return say("moved");
            }
            say(lines.trim_end());
        }
        say(&format!("done {n_rounds} {n_wrong} {} {}", memory.tested_bytes(), memory.n_wrong));
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

fn say(lines: &str) {
    if !lines.is_empty() {
        let mut stdout = stdout().lock();
        // Without its parent there is nobody to read it.
        writeln!(stdout, "{lines}").and_then(|()| stdout.flush()).ok();
    }
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
