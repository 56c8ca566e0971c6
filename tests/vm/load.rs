//! `check --load` in a guest with two CPUs. The debugger makes one of them compute wrong results, and changes memory that
//! is under test.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::artifacts::test_folder;
use crate::boot::start_tiny;
use crate::debugger::{Debugger, Socket};
use crate::disk::MIB;
use crate::guest::Guest;
use crate::machine::Machine;

/// The CPU whose registers change.
pub(crate) const BROKEN: u32 = 1;
/// How often registers change, and how long after the previous time. Many times, because a register often contains
/// nothing that is still needed.
const N_FLIPS: usize = 200;
pub(crate) const PAUSE: Duration = Duration::from_millis(40);
/// xmm0 to xmm7 contain numbers only, so a change makes results wrong and nothing else.
pub(crate) const NUMBERS: [u32; 8] = [49, 50, 51, 52, 53, 54, 55, 56];
/// rax, rcx, rdx, rsi, rdi, r8, r9, r10 contain addresses too, so a change can also crash the program.
const ADDRESSES: [u32; 8] = [0, 2, 3, 4, 5, 8, 9, 10];

/// What differs between two words of memory under test that follow each other, or its negative.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const PAGE_BYTES: usize = 4096;
/// Where in physical memory pages under test are looked for, and how much at once.
const SEARCHED: Range<u64> = 128 * MIB..960 * MIB;
const WINDOW: u64 = 64 * MIB;
/// In how many windows memory is changed.
const N_DAMAGED: u64 = 26;

/// A load of the healthy machine, and three of the broken one.
const SCRIPT: &str = "cd /results
run-coreos-installer check --load 3 --format json >healthy.json; echo HEALTHY $?
run-coreos-installer check --load 25 --format json >numbers.json; echo NUMBERS $?
run-coreos-installer check --load 25 --format json >addresses.json; echo ADDRESSES $?
run-coreos-installer check --load 24 --format json >memory.json; echo MEMORY $?
";

#[test]
fn cpu_with_wrong_results_is_named_and_no_other_and_so_is_the_address_of_changed_memory()
-> Result<()> {
    let folder = test_folder("load_wrong_result")?;
    let socket = Socket::new("load")?;
    let machine = Machine { more: socket.arguments(), ..Machine::plain(1024, Vec::new()) };
    let mut guest = start_tiny(&folder, &machine, SCRIPT)?;
    guest.wait_for("computed on 2 CPUs and tested ")?;
    guest.wait_for("HEALTHY")?;
    let mut debugger = Debugger::connect(&socket)?;
    flip(&mut guest, &mut debugger, |_| &NUMBERS)?;
    guest.wait_for("NUMBERS 7")?;
    flip(&mut guest, &mut debugger, |n| std::slice::from_ref(&ADDRESSES[n % ADDRESSES.len()]))?;
    guest.wait_for("ADDRESSES 7")?;
    let changed = damage(&mut guest, &mut debugger, &folder)?;
    guest.wait_for("MEMORY 7")?;
    guest.wait_for_end()?;
    let results = guest.results()?;
    let healthy = named(&results.join("healthy.json"))?;
    ensure!(healthy.is_empty(), "nothing was broken yet: {healthy:#?}");
    let evidence = evidence(&results.join("numbers.json"))?;
    ensure!(evidence.contains(" wrong result") && evidence.contains(" instead of "), "{evidence}");
    self::evidence(&results.join("addresses.json"))?;
    check_memory(&results.join("memory.json"), &changed)
}

/// Changes a byte of pages that the test has filled, while it runs; returns their physical addresses.
fn damage(guest: &mut Guest, debugger: &mut Debugger, folder: &Path) -> Result<Vec<u64>> {
    guest.wait_for("reading the machine again in 24 s")?;
    // Before, the test still takes more memory and reads nothing back.
    std::thread::sleep(Duration::from_secs(8));
    let dump = folder.join("memory.bin");
    let mut qmp = guest.qmp()?;
    let mut changed = Vec::new();
    for n in 0..N_DAMAGED {
        let windows = (SEARCHED.end - SEARCHED.start) / WINDOW;
        let start = SEARCHED.start + n % windows * WINDOW;
        debugger.stop()?;
        qmp.execute("pmemsave", &json!({"val": start, "size": WINDOW, "filename": dump}))?;
        let bytes = std::fs::read(&dump)?;
        let pages = bytes.chunks_exact(PAGE_BYTES).enumerate();
        if let Some((at, page)) = pages.rev().find(|(_, page)| is_under_test(page)) {
            let address = start + u64::try_from(at * PAGE_BYTES)?;
            debugger.write_physical(address, page[0] ^ 2)?;
            changed.push(address);
        }
        debugger.resume()?;
        std::thread::sleep(PAUSE * 5);
    }
    std::fs::remove_file(&dump)?;
    ensure!(!changed.is_empty(), "no page is under test");
    Ok(changed)
}

fn is_under_test(page: &[u8]) -> bool {
    let words: Vec<u64> = page
        .chunks_exact(8)
        .filter_map(|word| word.try_into().ok().map(u64::from_le_bytes))
        .collect();
    let has_step = |step: u64| words.windows(2).all(|two| two[1].wrapping_sub(two[0]) == step);
    has_step(STEP) || has_step(STEP.wrapping_neg())
}

/// The findings of changed memory name addresses that were changed, and no CPU is named.
fn check_memory(file: &Path, changed: &[u64]) -> Result<()> {
    let findings = named(file)?;
    ensure!(!findings.is_empty(), "no finding of memory changed at {changed:x?}");
    for finding in &findings {
        let evidence = finding["evidence"].as_str().unwrap_or_default();
        let address = evidence.split("physical address 0x").nth(1).unwrap_or_default();
        let address = address.split(|c: char| !c.is_ascii_hexdigit()).next().unwrap_or_default();
        let is_changed = u64::from_str_radix(address, 16).is_ok_and(|at| changed.contains(&at));
        ensure!(
            finding["code"] == "memory.wrong_content" && is_changed,
            "{finding:#} is none of the changes at {changed:x?}"
        );
    }
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
        n_flips += usize::from(debugger.flip(BROKEN, registers(n), None)?);
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
