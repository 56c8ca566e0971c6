//! `make bench`: compares the cost of a report with the tools that it replaces and with a bare reader of the
//! same files, in one run, as a table in Markdown.
//!
//! CPU time is a median of user and system time together; opens and calls are counted by `strace -f -c`.
//! Wall time says little on a shared machine and is not shown.

#![expect(clippy::print_stdout, reason = "the table is what the program is for")]

mod cost;
mod reader;
mod subject;
mod tools;

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::cost::Cost;
use crate::subject::Subject;

const USAGE: &str = "usage: rci-bench AGENT ROUNDS [TREE...]";

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().context(USAGE)?;
    match &*first {
        "read" => return reader::read(&arguments.collect::<Vec<_>>()),
        "peak" => return cost::print_peak(&arguments.collect::<Vec<_>>()),
        _ => {}
    }
    let rounds = arguments.next().and_then(|n| n.parse().ok()).context(USAGE)?;
    let agent = PathBuf::from(first);
    let mut subjects = vec![Subject::this_machine()];
    for tree in arguments {
        subjects.push(Subject::tree(&PathBuf::from(tree))?);
    }
    for subject in &subjects {
        table(&agent, subject, rounds)?;
    }
    Ok(())
}

/// Prints the table of one machine.
fn table(agent: &std::path::Path, subject: &Subject, rounds: usize) -> Result<()> {
    println!("\n**{}**; medians of {rounds} runs\n", subject.title);
    println!("| program | CPU ms | peak MiB | opens | system calls |");
    println!("|---|---:|---:|---:|---:|");
    let replaced = tools::replaced(subject);
    let n_replaced = replaced.len();
    let reader = reader::command(agent, subject)?;
    let mut all = vec![tools::agent(agent, subject), reader, tools::agent_version(agent)];
    all.extend(replaced);
    all.extend(tools::inventories(subject));
    let costs = cost::measure(&all, rounds)?;
    let sum = costs.iter().skip(3).take(n_replaced).copied().reduce(Cost::plus);
    for (number, (tool, cost)) in all.iter().zip(&costs).enumerate() {
        println!("| {} | {}", tool.name, cost.cells());
        if let (Some(sum), true) = (sum, number == 2 + n_replaced) {
            println!("| **sum of these** | {}", sum.cells());
        }
    }
    if let (Some(sum), [ours, floor, start, ..]) = (sum, costs.as_slice()) {
        println!(
            "\nThe report costs {} of that sum and {} times the bare reader in CPU time; 1.5 times the \
             reader and a start are {:.1} ms.",
            percent(ours.cpu_ms / sum.cpu_ms),
            ratio(ours.cpu_ms / floor.cpu_ms),
            1.5 * floor.cpu_ms + start.cpu_ms
        );
    }
    if let Some(cpus) = subject.n_logical_cpus {
        let opens = cost::opens(&tools::agent_cpu(agent, subject))?;
        let start = cost::opens(&tools::agent_version(agent))?;
        #[expect(clippy::cast_precision_loss, reason = "a count of files")]
        let each = opens.saturating_sub(start) as f64 / f64::from(cpus);
        println!(
            "\nOpens for cpu, caches and topology: {each:.1} per logical CPU ({cpus} of them)."
        );
    }
    Ok(())
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn ratio(times: f64) -> String {
    format!("{times:.2}")
}
