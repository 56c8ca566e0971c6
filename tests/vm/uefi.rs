//! The whole job on a machine with UEFI firmware, whose boot entry is made and read back.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::install::{check_installed, nonce, start_lab, start_live};
use crate::machine::Machine;

#[test]
fn a_machine_with_uefi_is_installed_and_its_boot_entry_is_read_back() -> Result<()> {
    let (folder, lab) = start_lab("uefi", &nonce()?, &[])?;
    let machine = Machine { has_uefi: true, ..Machine::plain(2048, vec![Machine::target_disk()]) };
    let mut live = start_live(&folder, &machine, &lab)?;
    live.wait_for_end()?;
    lab.keep(&folder)?;
    check_installed(&lab)?;
    let report = lab.sent("report", Duration::ZERO)?;
    ensure!(report["firmware"]["boot_mode"] == "uefi", "the report says {:#}", report["firmware"]);
    let result = lab.sent("result", Duration::ZERO)?;
    let checks = result["proof"]["checks"].as_array().context("the result has no proof")?;
    for wanted in ["esp_loader", "efi_entry"] {
        let check = checks.iter().find(|check| check["name"] == wanted);
        ensure!(check.is_some_and(|check| check["ok"] == true), "the proof says {check:?}");
    }
    Ok(())
}
