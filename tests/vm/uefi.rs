//! A machine with UEFI firmware, from its own network boot to its own boot entry.
//!
//! It boots because the firmware's boot entries are the subject.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::artifacts::{Artifact, artifact};
use crate::guest::{Boot, Guest};
use crate::install::{
    LIVE, boot_installed, check_installed, instruction, nonce, proved, start_lab,
};
use crate::machine::Machine;
use crate::netboot::{check_fetched, write_boot_folder};

/// The program that the firmware loads from the network.
const PROGRAM: &str = "snponly.efi";

/// QEMU puts the network before all entries of the firmware, at each start anew.
fn network_first(folder: &Path) -> Boot {
    Boot::Network { tftp: folder.join("tftp"), file: PROGRAM }
}

/// Starts the machine, whose firmware loads iPXE, which loads its script.
///
/// DHCP servers name one file for the firmware and another for iPXE. QEMU's names the same for both, so the file changes as soon as
/// the firmware has it.
fn start_by_network(name: &str, folder: &Path, machine: &Machine) -> Result<Guest> {
    let tftp = folder.join("tftp");
    let file = PROGRAM;
    std::fs::copy(artifact(Artifact::SNPONLY_EFI)?, tftp.join(file))?;
    std::fs::copy(tftp.join("boot.ipxe"), tftp.join("script"))?;
    let mut guest = Guest::start(name, folder, machine, &network_first(folder), LIVE)?;
    guest.wait_for("Start PXE over IPv4")?;
    guest.wait_for("NBP file downloaded successfully")?;
    std::fs::rename(tftp.join("script"), tftp.join(file))?;
    Ok(guest)
}

#[test]
fn uefi_machine_is_installed_by_network_boot_once_and_its_boot_entry_starts_the_disk() -> Result<()>
{
    let proof = nonce()?;
    let order = instruction(&proof, Artifact::IMAGE_512)?;
    let lab = start_lab("uefi", &proof, &order, "--boot boot")?;
    let folder = &lab.folder;
    write_boot_folder(&lab)?;
    let machine = Machine { has_uefi: true, ..Machine::bare(2560) };
    let mut live = start_by_network("live", folder, &machine)?;
    live.wait_for_end()?;
    let result = check_installed(&lab)?;
    check_fetched(&lab, "/boot/ipxe", 1)?;
    let report = lab.sent("report")?;
    ensure!(report["firmware"]["boot_mode"] == "uefi", "the report says {:#}", report["firmware"]);
    proved(&result, "esp_loader")?;
    proved(&result, "efi_entry")?;
    proved(&result, "efi_order")?;

    // The next boot is from the disk although the network comes first. QEMU has changed the order for that; in the one that the
    // agent left, the disk is first, also once the next boot is over.
    let variables = folder.join("uefi-variables.fd");
    let left = std::fs::read(&variables)?;
    let boots =
        [("next", network_first(folder)), ("entries", Boot::Entries), ("order", Boot::Entries)];
    for (name, boot) in boots {
        if name == "entries" {
            std::fs::write(&variables, &left)?;
        }
        let mut disk = Guest::start(name, folder, &machine, &boot, LIVE)?;
        let first = disk.wait_for("BdsDxe: loading Boot")?.text;
        ensure!(first.contains("\"CoreOS\" from HD("), "{name}: the firmware tried {first}");
        disk.wait_for("BdsDxe: starting Boot")?;
    }
    // Firmware that prefers the network gets no second install, and tries its next entry.
    let mut again = start_by_network("again", folder, &machine)?;
    again.wait_for("BdsDxe: failed to start Boot")?;
    check_fetched(&lab, "/boot/ipxe", 2)?;
    drop(again);

    boot_installed("first", folder, &proof).map(drop)
}
