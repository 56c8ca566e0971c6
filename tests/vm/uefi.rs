//! A machine with UEFI firmware, from its own network boot to its own boot entry.
//!
//! It boots because the firmware's boot entries are the subject.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::artifacts::{Artifact, artifact};
use crate::guest::{Boot, Guest};
use crate::install::{LIVE, boot_installed, check_installed, nonce, start_lab_serving};
use crate::machine::Machine;
use crate::netboot::{fetched, write_boot_folder};

/// Starts the machine, whose firmware loads iPXE, which loads its script.
///
/// DHCP servers name one file for the firmware and another for iPXE. QEMU's names the same for both, so the file changes as soon as
/// the firmware has it.
fn start_by_network(name: &str, folder: &Path, machine: &Machine) -> Result<Guest> {
    let tftp = folder.join("tftp");
    let file = "snponly.efi";
    std::fs::copy(artifact(Artifact::SnponlyEfi)?, tftp.join(file))?;
    std::fs::copy(tftp.join("boot.ipxe"), tftp.join("script"))?;
    let boot = Boot::Network { tftp: tftp.clone(), file };
    let mut guest = Guest::start(name, folder, machine, &boot, LIVE)?;
    guest.wait_for("Start PXE over IPv4")?;
    guest.wait_for("NBP file downloaded successfully")?;
    std::fs::rename(tftp.join("script"), tftp.join(file))?;
    Ok(guest)
}

#[test]
fn uefi_machine_is_installed_by_network_boot_once_and_its_boot_entry_starts_the_disk() -> Result<()>
{
    let proof = nonce()?;
    let (folder, lab) = start_lab_serving("uefi", &proof, &["--boot", "boot"], "boot/target.ign")?;
    write_boot_folder(&folder, &lab)?;
    let machine = Machine { has_uefi: true, ..Machine::plain(2560, vec![Machine::target_disk()]) };
    let mut live = start_by_network("live", &folder, &machine)?;
    live.wait_for_end()?;
    lab.keep(&folder)?;
    check_installed(&lab)?;
    ensure!(fetched(&lab, "/boot/ipxe")? == 1, "{:#}", lab.requests()?);
    let report = lab.sent("report", Duration::ZERO)?;
    ensure!(report["firmware"]["boot_mode"] == "uefi", "the report says {:#}", report["firmware"]);
    let result = lab.sent("result", Duration::ZERO)?;
    let checks = result["proof"]["checks"].as_array().context("the result has no proof")?;
    for wanted in ["esp_loader", "efi_entry"] {
        let check = checks.iter().find(|check| check["name"] == wanted);
        ensure!(check.is_some_and(|check| check["ok"] == true), "the proof says {check:?}");
    }

    // The firmware reads the entry that the agent made, and starts the loader on the disk.
    let mut disk = Guest::start("disk", &folder, &machine, &Boot::Entries, LIVE)?;
    disk.wait_for("BdsDxe: starting Boot")?;
    ensure!(disk.console.has("\"CoreOS\" from HD("), "the firmware started another entry");
    drop(disk);
    // Firmware that prefers the network gets no second install, and tries its next entry.
    let mut again = start_by_network("again", &folder, &machine)?;
    again.wait_for("BdsDxe: failed to start Boot")?;
    ensure!(fetched(&lab, "/boot/ipxe")? == 2, "{:#}", lab.requests()?);
    drop(again);

    let first = boot_installed("first", &folder)?;
    ensure!(first.contains(&format!("file={proof} ")), "the first boot showed {first:?}");
    Ok(())
}
