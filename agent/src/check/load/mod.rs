//! `check --load`, and the load that a VIM allows while the node waits: a process on each CPU that computes known
//! results, and writes and reads back free memory.
//!
//! A process and not a thread, because a wrong result can be a wrong address: then only the process on that CPU
//! crashes. The program starts itself again with an environment variable, as `job::supervise` does.

mod child;
mod judge;
mod kernels;
mod memory;

use std::io::Read as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus as ProcessStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use probes::cpuset::CpuSet;
use probes::live::available_memory_bytes;
use probes::machine::{Machine, Problem, Source};
use tracing::info;

use crate::report::Report;
pub use child::Task;
pub use judge::{End, Outcome, Verdict, judge};
use memory::Budget;

/// Time beyond the requested end that a process may run: the machine is read under load at the end.
const READING: Duration = Duration::from_secs(5);
/// Time limit for the processes to end.
const GRACE: Duration = Duration::from_secs(4);
/// CPU time that a stuck process uses meanwhile. One round takes 1 ms, and 20 ms in an emulated CPU.
const STUCK: Duration = Duration::from_secs(2);
/// Interval at which the parent polls.
const POLL: Duration = Duration::from_millis(20);
/// Maximum bytes to read from a process; its lines are far fewer.
const MOST_BYTES: u64 = 16 << 10;
/// Time unit of `/proc/PID/stat` (`USER_HZ`, the same on all architectures that this program runs on).
const TICKS_PER_S: u64 = 100;

/// A running load.
#[derive(Debug)]
pub struct Load {
    children: Vec<(u32, Child)>,
    outcomes: Vec<Outcome>,
}

impl Load {
    /// Starts a process on each CPU. They end when [`Load::finish`] is called, or soon after `seconds`.
    pub fn start(seconds: u64) -> Load {
        let (cpus, offline) = cpus();
        let not_started = |cpu: u32, why: String| Outcome {
            cpu,
            output: String::new(),
            end: End::NotStarted(why),
        };
        let outcomes = offline.iter().map(|cpu| not_started(cpu, "it is offline".to_owned()));
        let mut load = Load { children: Vec::new(), outcomes: outcomes.collect() };
        let n_cpus = u64::try_from(cpus.len()).unwrap_or(u64::MAX).max(1);
        // Half of what is available, so that the rest of the machine neither swaps nor runs out of memory.
        let available = free_memory_bytes();
        let time = Duration::from_secs(seconds);
        let memory =
            Budget { bytes: available / 2 / n_cpus, floor_bytes: available / 4, growth: time / 3 };
        for cpu in cpus.iter() {
            match spawn(Task { cpu, limit: time + READING, memory }) {
                Ok(child) => load.children.push((cpu, child)),
                Err(error) => {
                    load.outcomes.push(not_started(cpu, format!("starting a process: {error}")));
                }
            }
        }
        info!("loading {} CPUs, and at most half of the available memory", load.children.len());
        load
    }

    /// Ends the processes and returns their results.
    pub fn finish(mut self) -> Verdict {
        for (_, child) in &mut self.children {
            drop(child.stdin.take());
        }
        let asked = Instant::now();
        let used: Vec<Option<Duration>> =
            self.children.iter().map(|(_, child)| cpu_time(child)).collect();
        for ((cpu, mut child), used) in self.children.into_iter().zip(used) {
            let end = end(&mut child, asked + GRACE, used);
            let mut output = Vec::new();
            if let Some(stdout) = child.stdout.take() {
                stdout.take(MOST_BYTES).read_to_end(&mut output).ok();
            }
            let output = String::from_utf8_lossy(&output).into_owned();
            self.outcomes.push(Outcome { cpu, output, end });
        }
        judge(&self.outcomes)
    }
}

/// Waits for a process, and ends it after `until`. `used` is its CPU time when it was asked to end.
fn end(child: &mut Child, until: Instant, used: Option<Duration>) -> End {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return end_of(status),
            Ok(None) if Instant::now() < until => std::thread::sleep(POLL),
            Ok(None) => {
                let now = cpu_time(child);
                child.kill().ok();
                child.wait().ok();
                let since = used.zip(now).map(|(used, now)| now.saturating_sub(used));
                return if since >= Some(STUCK) { End::Stuck } else { End::Late };
            }
            Err(error) => return End::NotStarted(format!("waiting for its process: {error}")),
        }
    }
}

fn end_of(status: ProcessStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exited(code),
        (None, Some(signal)) => End::Signalled(signal),
        // wait(2) gives one or the other.
        (None, None) => End::NotStarted(format!("its process ended in an unknown way: {status}")),
    }
}

fn spawn(task: Task) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg0("run-coreos-installer")
        .args(std::env::args_os().skip(1))
        .env(child::VARIABLE, serde_json::to_string(&task)?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
}

/// Returns a process's CPU time: user and kernel mode, fields 14 and 15 of `/proc/PID/stat` (`proc_pid_stat(5)`).
fn cpu_time(child: &Child) -> Option<Duration> {
    let text = machine().text(&format!("proc/{}/stat", child.id()))?;
    let (_, fields) = text.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(|field| field.parse::<u64>().ok());
    let ticks = times.next()?? + times.next()??;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_S))
}

/// Returns the CPUs that are online, and those that are present but not online. With SMT off, the other thread tests an
/// offline thread's core.
fn cpus() -> (CpuSet, CpuSet) {
    const CPU: &str = "sys/devices/system/cpu";
    let machine = machine();
    let set = |name: &str| machine.parse(&format!("{CPU}/{name}"), CpuSet::parse);
    let n_cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let all = || (0..u32::try_from(n_cpus).unwrap_or(1)).collect();
    let online = set("online").unwrap_or_else(all);
    let is_smt_off = machine.text(&format!("{CPU}/smt/control")).is_some_and(|c| c.contains("off"));
    let offline = set("present").filter(|_| !is_smt_off).map(|present| present.difference(&online));
    (online, offline.unwrap_or_default())
}

/// Returns the memory available to this process: the machine's, or less in a control group with a limit
/// (`Documentation/admin-guide/cgroup-v2.rst`).
fn free_memory_bytes() -> u64 {
    let machine = machine();
    let groups = machine.text("proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let number = |folder: &Path, name: &str| -> Option<u64> {
        machine.text(&format!("sys/fs/cgroup/{}/{name}", folder.display()))?.parse().ok()
    };
    // A limit of any group above counts too; without one the file contains `max`.
    let left = |folder: &Path| {
        Some(number(folder, "memory.max")?.saturating_sub(number(folder, "memory.current")?))
    };
    let available = available_memory_bytes().unwrap_or_default();
    Path::new(group).ancestors().filter_map(left).fold(available, u64::min)
}

fn machine() -> Machine {
    Machine::new(Arc::new(Source::live()), "load")
}

impl Verdict {
    /// Describes the tested CPUs and memory.
    pub fn summary(&self) -> String {
        format!(
            "computed on {} CPUs and tested {} MiB of memory; what is not found may still be there",
            self.n_cpus,
            self.memory_bytes >> 20
        )
    }

    /// Adds findings to a report, and a problem for everything that was not tested.
    pub fn add_to(self, report: &mut Report) {
        for (reason, cpus) in self.untested {
            tracing::warn!("CPU {cpus} was not tested: {reason}");
            report.problems.push(Problem {
                collector: "load".to_owned(),
                path: format!("CPU {cpus}"),
                found: reason,
                expected: "a CPU that can be tested".to_owned(),
            });
        }
        let findings = std::mem::take(&mut report.findings);
        report.set_findings(findings.into_iter().chain(self.findings).collect());
    }
}
