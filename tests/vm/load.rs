//! `check --load` in a guest with two CPUs. The debugger makes one of them compute wrong results.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::agent::agent_files;
use crate::artifacts::test_folder;
use crate::boot;
use crate::debugger::{Debugger, Socket};
use crate::guest::Guest;
use crate::machine::Machine;

/// The CPU whose registers change.
const BROKEN: u32 = 1;
/// How often registers change, and how long after the previous time. Many times, because a register often contains
/// nothing that is still needed.
const N_FLIPS: usize = 200;
const PAUSE: Duration = Duration::from_millis(40);
/// xmm0 to xmm7 contain numbers only, so a change makes results wrong and nothing else.
const NUMBERS: [u32; 8] = [49, 50, 51, 52, 53, 54, 55, 56];
/// rax, rcx, rdx, rsi, rdi, r8, r9, r10 contain addresses too, so a change can also crash the program.
const ADDRESSES: [u32; 8] = [0, 2, 3, 4, 5, 8, 9, 10];

/// A load of the healthy machine, and two of the broken one.
const SCRIPT: &str = "cd /results
run-coreos-installer check --load 3 --format json >healthy.json; echo HEALTHY $?
run-coreos-installer check --load 25 --format json >numbers.json; echo NUMBERS $?
run-coreos-installer check --load 25 --format json >addresses.json; echo ADDRESSES $?
";

#[test]
fn a_cpu_that_computes_wrong_results_is_named_and_no_other() -> Result<()> {
    let folder = test_folder("load_wrong_result")?;
    let socket = Socket::new()?;
    let machine = Machine { more: socket.arguments(), ..Machine::plain(1024, Vec::new()) };
    let boot = boot::tiny("guest", &folder, &machine, SCRIPT, &agent_files()?)?;
    let mut guest = Guest::start("guest", &folder, &machine, &boot, Duration::from_mins(8))?;
    guest.wait_for("computed on 2 CPUs and tested ")?;
    guest.wait_for("HEALTHY")?;
    let mut debugger = Debugger::connect(&socket)?;
    flip(&mut guest, &mut debugger, |_| &NUMBERS)?;
    guest.wait_for("NUMBERS 7")?;
    flip(&mut guest, &mut debugger, |n| std::slice::from_ref(&ADDRESSES[n % ADDRESSES.len()]))?;
    guest.wait_for("ADDRESSES 7")?;
    guest.wait_for_end()?;
    let results = guest.results()?;
    let healthy = named(&results.join("healthy.json"))?;
    ensure!(healthy.is_empty(), "nothing was broken yet: {healthy:#?}");
    let evidence = evidence(&results.join("numbers.json"))?;
    ensure!(evidence.contains(" wrong result") && evidence.contains(" instead of "), "{evidence}");
    self::evidence(&results.join("addresses.json"))?;
    Ok(())
}

/// Changes registers of the broken CPU while the load runs: at each time those that `registers` returns.
fn flip(
    guest: &mut Guest,
    debugger: &mut Debugger,
    registers: impl Fn(usize) -> &'static [u32],
) -> Result<()> {
    // From now on the agent itself sleeps; only its children run.
    guest.wait_for("reading the machine again in 25 s")?;
    std::thread::sleep(Duration::from_secs(2));
    let mut n_flips = 0;
    for n in 0..N_FLIPS {
        n_flips += usize::from(debugger.flip(BROKEN, registers(n))?);
        std::thread::sleep(PAUSE);
    }
    ensure!(n_flips > 0, "CPU {BROKEN} never ran a program when the guest was stopped");
    Ok(())
}

/// The findings of a load.
fn named(file: &Path) -> Result<Vec<Value>> {
    let findings: Vec<Value> = serde_json::from_slice(&std::fs::read(file)?)?;
    let is_load = |finding: &Value| {
        ["cpu.wrong_result", "memory.wrong_content"].iter().any(|code| finding["code"] == *code)
    };
    Ok(findings.into_iter().filter(is_load).collect())
}

/// The evidence of the only finding, which names the broken CPU.
fn evidence(file: &Path) -> Result<String> {
    let findings = named(file)?;
    let [finding] = findings.as_slice() else { bail!("{}: {findings:#?}", file.display()) };
    ensure!(finding["locator"] == format!("logical CPU {BROKEN}"), "{finding:#}");
    Ok(finding["evidence"].as_str().context("no evidence")?.to_owned())
}
