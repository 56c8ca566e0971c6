//! Faults that show while a node runs: cards that report `PCIe` errors, a CPU that computes wrong results while the VIM says
//! `wait`, a disk that cannot be read in its middle. Each arrives at the lab VIM with the part's name and prevents the install,
//! as a QR code on the console too, until the VIM allows it.
//!
//! It boots because root ports with error reporting cannot be plugged in.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::arguments::{damaged_disk, words};
use crate::artifacts::Artifact;
use crate::debugger::{Debugger, Socket};
use crate::disk::{Disk, GIB};
use crate::faults::{of_code, refused_for, refused_with};
use crate::guest::Guest;
use crate::install::{LIVE, check, check_proved, instruction, nonce, start_lab, start_live};
use crate::load::{BROKEN, NUMBERS, PAUSE};
use crate::machine::Machine;
use crate::qr_reader;
use crate::sectors::{CARDS, DEAD, LOSSY, inject};

/// The page with this sector begins in the middle of the disk.
const BAD_SECTOR: u64 = GIB / 2 / 512 + 4;
/// The debugger must first see which process the load is, and then reach it many times.
const LOAD_S: u64 = 25;

/// Runs before the agent: waits for the error that ends a link.
const PREPARE: &str = "#!/bin/sh
echo BREAK-IT
until dmesg | grep -q 'severity=Uncorrected (Fatal)'; do sleep 0.2; done
";

#[test]
fn faults_that_show_while_the_node_waits_arrive_at_the_vim_and_block_the_install() -> Result<()> {
    let proof = nonce()?;
    let wait = json!({"action": "wait", "retry_after_s": 2, "load_s": LOAD_S});
    let lab = start_lab("waiting", &proof, &wait, "")?;
    let folder = &lab.folder;
    let socket = Socket::new("waiting")?;
    let target = Disk { size_bytes: GIB, sector_bytes: 4096, ..Machine::target_disk() };
    let machine = Machine { more: more(folder, &socket)?, ..Machine::plain(2048, vec![target]) };
    let mut live = start_live(&lab, &machine, "--agent-option console-qr=true", PREPARE)?;
    live.wait_for("BREAK-IT")?;
    let mut qmp = live.qmp()?;
    // A lost transaction, and a link that fails.
    inject(&mut qmp, "lossy", "COMP_TIME")?;
    inject(&mut qmp, "dead", "DLP")?;

    live.wait_for("the VIM allows a load of every CPU")?;
    break_cpu(&socket)?;
    live.wait_for("logical CPU 1")?;
    let code = "cpu.wrong_result";
    let report = lab.wait_for("report", LIVE, |report| !of_code(report, code)[0].is_null())?;
    check_named(&report, code, "logical CPU 1")?;
    check_named(&report, "pci.aer.fatal", DEAD)?;
    check_named(&report, "pci.aer.nonfatal", LOSSY)?;

    let mut order = instruction(&proof, Artifact::IMAGE_4096)?;
    order["install"]["disk"] = json!({"hints": {"serial": "TARGET-0"}});
    lab.put("/lab/default/instruction", &order)?;
    let refused = refused_with(&lab, "logical CPU 1")?;
    check_untouched(&refused, folder)?;
    check_named(&refused, "pci.aer.fatal", DEAD)?;
    check_code(&live)?;

    order["install"]["block_on"] = json!("never");
    order["install"]["block_also"] = json!(["disk.unreadable"]);
    order["install"]["disk"] = json!({"hints": {"serial": "MIDDLE-0"}});
    lab.put("/lab/default/instruction", &order)?;
    let refused = refused_with(&lab, "MIDDLE-0")?;
    check_untouched(&refused, folder)?;
    let unreadable = of_code(&refused, "disk.unreadable");
    let of_middle = unreadable.as_array().into_iter().flatten().find(|finding| {
        finding["evidence"].as_str().is_some_and(|evidence| evidence.contains("at its middle"))
    });
    let locator = of_middle.map(|finding| finding["locator"].to_string()).unwrap_or_default();
    ensure!(locator.contains("serial MIDDLE-0"), "{unreadable:#}");

    // Nobody asks for findings to block any more: a disk whose first sector cannot be read is never chosen. The reason is
    // the disk, not a finding.
    order["install"]["block_also"] = json!([]);
    order["install"]["disk"] = json!({"hints": {"serial": "FIRST-0"}});
    lab.put("/lab/default/instruction", &order)?;
    let refused = refused_for(&lab, "FIRST-0", |code| code != "FINDINGS")?;
    check_untouched(&refused, folder)?;

    order["install"]["disk"] = json!({"hints": {"serial": "TARGET-0"}});
    lab.put("/lab/default/instruction", &order)?;
    live.wait_for_end()?;
    check_proved(&lab)?;
    for disk in ["middle", "first"] {
        ensure!(is_untouched(folder, disk)?, "another disk than the target has changed: {disk}");
    }
    ensure!(!is_untouched(folder, "target")?, "an install leaves no trace in the target's image");
    Ok(())
}

/// The cards, a debugger, and the disks that cannot be read in their middle and at their start.
fn more(folder: &Path, socket: &Socket) -> Result<Vec<String>> {
    let sectors = "logical_block_size=4096,physical_block_size=4096";
    let mut all = words(CARDS);
    all.extend(socket.arguments());
    for (name, serial, sector) in [("middle", "MIDDLE-0", BAD_SECTOR), ("first", "FIRST-0", 0)] {
        let device = format!("serial={serial},{sectors}");
        all.extend(damaged_disk(folder, (name, GIB, Some(sector)), &device)?);
    }
    Ok(all)
}

/// Nothing was ever written to this disk: its image is still one hole.
fn is_untouched(folder: &Path, disk: &str) -> Result<bool> {
    Ok(folder.join(format!("{disk}.raw")).metadata()?.blocks() == 0)
}

/// Changes registers of the broken CPU while the load runs on it: those of its process only.
fn break_cpu(socket: &Socket) -> Result<()> {
    let mut debugger = Debugger::connect(socket)?;
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut n_flips = 0;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(LOAD_S - 5) {
        let running = debugger.process(BROKEN)?;
        let of_load = seen.iter().max_by_key(|(_, n)| **n).filter(|(_, n)| **n > 20);
        if let Some((process, _)) = of_load {
            debugger.flip(BROKEN, &NUMBERS, Some(process))?;
            n_flips += 1;
        } else if let Some(process) = running {
            *seen.entry(process).or_default() += 1;
        }
        std::thread::sleep(PAUSE);
    }
    ensure!(n_flips > 0, "no process was seen often enough on the CPU: {seen:?}");
    Ok(())
}

/// The only finding with this code is about this part.
fn check_named(document: &Value, code: &str, part: &str) -> Result<()> {
    let found = of_code(document, code);
    let is_named = found[0]["locator"].as_str().is_some_and(|locator| locator.contains(part));
    ensure!(is_named && found[1].is_null(), "{code} of {part} expected, found {found:#}");
    Ok(())
}

fn check_untouched(result: &Value, folder: &Path) -> Result<()> {
    check(result, &json!({"outcome": "refused", "disk_state": "untouched"}))?;
    for disk in ["target", "middle", "first"] {
        ensure!(is_untouched(folder, disk)?, "{disk} has changed");
    }
    Ok(())
}

/// The console shows a QR code with the worst fault that blocks the install, and how many more there are. It fits 24 rows.
fn check_code(live: &Guest) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let shown: String = live.console.lines().into_iter().map(|line| line.shown).collect();
        let codes = qr_reader::read(&shown);
        let wanted =
            format!("install blocked\ncritical pci.aer.fatal: PCI device {DEAD} in slot 0-2\n");
        if codes.iter().any(|code| code.contains(&wanted)) {
            return Ok(());
        }
        ensure!(Instant::now() < until, "the QR codes on the console say {codes:#?}");
        std::thread::sleep(Duration::from_secs(1));
    }
}
