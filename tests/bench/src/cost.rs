//! Runs a command and measures what it costs.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

use crate::tools::Tool;

/// What one run costs: medians, and counts of one traced run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// User and system time in ms.
    pub(crate) cpu_ms: f64,
    /// Peak resident memory in KiB.
    pub(crate) peak_kib: i64,
    /// `open`, `openat` and `openat2`, including failed ones.
    pub(crate) opens: u64,
    /// All system calls.
    pub(crate) calls: u64,
}

impl Cost {
    /// Both run one after the other.
    pub(crate) fn plus(self, other: Cost) -> Cost {
        Cost {
            cpu_ms: self.cpu_ms + other.cpu_ms,
            peak_kib: self.peak_kib.max(other.peak_kib),
            opens: self.opens + other.opens,
            calls: self.calls + other.calls,
        }
    }

    /// The cells of a table row after the name.
    pub(crate) fn cells(self) -> String {
        #[expect(clippy::cast_precision_loss, reason = "a size in a table")]
        let peak_mib = self.peak_kib as f64 / 1024.0;
        format!("{:.1} | {peak_mib:.1} | {} | {} |", self.cpu_ms, self.opens, self.calls)
    }
}

/// Medians of `rounds` runs and counts of one more, for each tool. The tools take turns, so that other
/// load on the machine affects all of them.
pub(crate) fn measure(tools: &[Tool], rounds: usize) -> Result<Vec<Cost>> {
    let mut times = vec![Vec::new(); tools.len()];
    for _ in 0..rounds.max(1) {
        for (tool, times) in tools.iter().zip(&mut times) {
            let before = cpu_ms(&children()?);
            run(tool.command())?;
            times.push(cpu_ms(&children()?) - before);
        }
    }
    let costs = tools.iter().zip(times).map(|(tool, times)| {
        let counts = trace(tool)?;
        let calls = counts.iter().map(|(_, n)| n).sum();
        let (cpu_ms, peak_kib) = (median(times), peak_kib(tool)?);
        Ok(Cost { cpu_ms, peak_kib, opens: opens_of(&counts), calls })
    });
    costs.collect()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// How many files one run opens, or tries to.
pub(crate) fn opens(tool: &Tool) -> Result<u64> {
    Ok(opens_of(&trace(tool)?))
}

fn opens_of(counts: &[(String, u64)]) -> u64 {
    counts.iter().filter(|(name, _)| name.starts_with("open")).map(|(_, n)| n).sum()
}

fn children() -> Result<Usage> {
    Ok(getrusage(UsageWho::RUSAGE_CHILDREN)?)
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a short run")]
fn cpu_ms(usage: &Usage) -> f64 {
    (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1000.0
}

/// The peak of one run. The kernel keeps the maximum over all children of a process, so a fresh one asks.
fn peak_kib(tool: &Tool) -> Result<i64> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("peak").args(tool.words()).stdin(Stdio::null());
    let output = tool.dressed(command).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().with_context(|| format!("the peak of {} is \"{text}\"", tool.name))
}

/// Runs a command and prints its peak memory in KiB.
pub(crate) fn print_peak(words: &[String]) -> Result<()> {
    let (program, arguments) = words.split_first().context("peak PROGRAM [ARGUMENT...]")?;
    let mut command = Command::new(program);
    command.args(arguments);
    run(command)?;
    println!("{}", children()?.max_rss());
    Ok(())
}

fn run(mut command: Command) -> Result<()> {
    let name = command.get_program().to_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().with_context(|| format!("{} does not start", name.display()))?;
    Ok(())
}

/// System calls of one run by name.
fn trace(tool: &Tool) -> Result<Vec<(String, u64)>> {
    let file = std::env::temp_dir().join(format!("rci-bench-{}.strace", std::process::id()));
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-o"]).arg(&file).args(tool.words());
    run(tool.dressed(command))?;
    let text = std::fs::read_to_string(&file).context("strace left no counts")?;
    std::fs::remove_file(&file).ok();
    Ok(counts(&text))
}

/// Names and counts of a `strace -c` table: `% seconds usecs calls [errors] name`.
fn counts(table: &str) -> Vec<(String, u64)> {
    let rows = table.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let name = *columns.last()?;
        let calls = columns.get(3)?.parse().ok()?;
        (columns.len() >= 5 && name != "total").then(|| (name.to_owned(), calls))
    });
    rows.collect()
}
