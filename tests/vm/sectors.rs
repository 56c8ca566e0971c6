//! `check` in a guest whose disk returns an I/O error in its middle, and whose `PCIe` cards report errors.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::Value;

use crate::arguments::{damaged_disk, words};
use crate::artifacts::test_folder;
use crate::boot::start_tiny;
use crate::machine::Machine;
use crate::qmp::Qmp;

const LIMIT: Duration = Duration::from_mins(4);
const SIZE_BYTES: u64 = 64 << 20;
/// The page with this sector begins in the middle of the disk.
const BAD_SECTOR: u64 = SIZE_BYTES / 2 / 512 + 4;

const SCRIPT: &str = "cd /results
run-coreos-installer check --format json --read-disks=false >off.json; echo OFF $?
run-coreos-installer check --format json >on.json; echo ON $?
echo SAMPLING
run-coreos-installer check --sample 6 --format json >sampled.json; echo SAMPLED $?
until dmesg | grep -q 'severity=Uncorrected (Fatal)'; do sleep 0.2; done
run-coreos-installer check --format json >failed.json; echo FAILED $?
";

/// Cards below root ports. Virtio devices can report errors; QEMU's `e1000e` and `igb` have no bits that enable it.
pub(crate) const CARDS: &str = "\
    -device pcie-root-port,id=root-1,chassis=1,slot=1,addr=0x1c -device virtio-scsi-pci,aer=on,id=lossy,bus=root-1 \
    -device pcie-root-port,id=root-2,chassis=2,slot=2,addr=0x1d -device virtio-scsi-pci,aer=on,id=dead,bus=root-2";
/// Their addresses: the first two buses below bus 0.
pub(crate) const LOSSY: &str = "0000:01:00.0";
pub(crate) const DEAD: &str = "0000:02:00.0";

#[test]
fn bad_sector_in_the_middle_of_a_disk_and_errors_of_pcie_cards_are_named() -> Result<()> {
    let folder = test_folder("sectors_middle")?;
    let mut more = damaged_disk(&folder, ("bad", SIZE_BYTES, Some(BAD_SECTOR)), "serial=BAD-0")?;
    more.extend(words(CARDS));
    let machine = Machine { more, ..Machine::plain(512, Vec::new()) };
    let mut guest = start_tiny(&folder, &machine, SCRIPT)?;
    guest.wait_for("OFF ")?;
    guest.wait_for("ON 1")?;
    guest.wait_for("SAMPLING")?;
    let mut qmp = guest.qmp()?;
    let until = Instant::now() + LIMIT;
    // A link within its specification has less than one error in a second.
    while !guest.console.has("SAMPLED") && Instant::now() < until {
        inject(&mut qmp, "lossy", "BAD_TLP")?;
        std::thread::sleep(Duration::from_millis(10));
    }
    guest.wait_for("SAMPLED 1")?;
    // A lost transaction, and a link that fails.
    inject(&mut qmp, "lossy", "COMP_TIME")?;
    inject(&mut qmp, "dead", "DLP")?;
    guest.wait_for("FAILED 7")?;
    guest.wait_for_end()?;
    let results = guest.results()?;
    let of_code = |file: &str, code: &str| -> Result<Vec<Value>> {
        let all: Vec<Value> = serde_json::from_slice(&std::fs::read(results.join(file))?)?;
        Ok(all.into_iter().filter(|finding| finding["code"] == code).collect())
    };
    // What was corrected before a check is ignored, and so is what was not sampled.
    for (file, code, addresses) in [
        ("on.json", "pci.aer.correctable", &[][..]),
        ("sampled.json", "pci.aer.correctable", &[LOSSY]),
        ("failed.json", "pci.aer.correctable", &[]),
        ("sampled.json", "pci.aer.nonfatal", &[]),
        ("failed.json", "pci.aer.nonfatal", &[LOSSY]),
        ("sampled.json", "pci.aer.fatal", &[]),
        ("failed.json", "pci.aer.fatal", &[DEAD]),
    ] {
        let found = of_code(file, code)?;
        let is_named =
            |(one, address): (&Value, &&str)| one["locator"].to_string().contains(*address);
        let is_right = found.len() == addresses.len() && found.iter().zip(addresses).all(is_named);
        ensure!(is_right, "{file}: {code} of {addresses:?} expected, found {found:#?}");
    }
    let found = |file: &str| of_code(file, "disk.unreadable");
    let off = found("off.json")?;
    ensure!(off.is_empty(), "nothing reads the middle: {off:#?}");
    let on = found("on.json")?;
    let [finding] = on.as_slice() else { bail!("{on:#?}") };
    let first = BAD_SECTOR / 8 * 8;
    let expected = format!("sectors {first} to {} at its middle cannot be read: ", first + 7);
    let evidence = finding["evidence"].as_str().unwrap_or_default();
    ensure!(evidence.starts_with(&expected), "{evidence}");
    Ok(())
}

/// Makes a `PCIe` device report an error.
pub(crate) fn inject(qmp: &mut Qmp, device: &str, error: &str) -> Result<()> {
    let said = qmp.monitor(&format!("pcie_aer_inject_error {device} {error}"))?;
    ensure!(said.starts_with("OK "), "QEMU says {said}");
    Ok(())
}
