//! Network boot by the machine's own ROM, and a new install of an installed machine by iPXE from its own boot loader.
//!
//! It boots because network boot is the subject.

use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::artifacts::{Artifact, artifact};
use crate::boot;
use crate::guest::{Boot, EMERGENCY, Guest};
use crate::install::{
    LIVE, check_proved, instruction, live_config, live_config_of, nonce, start_lab,
    unit_before_agent,
};
use crate::lab::Lab;
use crate::machine::Machine;

/// The folder that the lab VIM serves to machines, made with `live-config` alone: a config that points at another one, with a
/// bootstrap in memory as that of a first node.
pub(crate) fn write_boot_folder(lab: &Lab) -> Result<()> {
    write_live_image(lab, "")?;
    let boot = lab.folder.join("boot");
    let commands = "ExecStart=/bin/sh -c 'echo bootstrap is done; : >/run/bootstrapped'";
    std::fs::write(lab.folder.join("bootstrap.service"), unit_before_agent(commands))?;
    std::fs::write(boot.join("nested.ign"), live_config_of(lab, "--unit bootstrap.service")?)?;
    let nested = format!("{}/boot/nested.ign", lab.url_ipv4());
    let outer = json!({"ignition": {
        "version": "3.3.0", "config": {"merge": [{"source": nested}]},
    }});
    Ok(std::fs::write(boot.join("live.ign"), outer.to_string())?)
}

/// The parts of the live image and the script that boots them, with more options of `live-config`; `boot/live.ign` is missing.
pub(crate) fn write_live_image(lab: &Lab, options: &str) -> Result<()> {
    let boot = lab.folder.join("boot");
    for (part, name) in [
        (Artifact::VMLINUZ, "vmlinuz"),
        (Artifact::LIVE_INITRD, "initramfs.img"),
        (Artifact::LIVE_SQUASHFS, "rootfs.img"),
    ] {
        // The lab VIM serves nothing outside its folder, so no symbolic link.
        if std::fs::hard_link(artifact(part)?, boot.join(name)).is_err() {
            std::fs::copy(artifact(part)?, boot.join(name))?;
        }
    }
    let url = lab.url_ipv4();
    let script = live_config(
        &lab.folder,
        &format!(
            "--format ipxe --vim {url} --allow-plain-http --kernel-url {url}/boot/vmlinuz \
             --initramfs-url {url}/boot/initramfs.img --rootfs-url {url}/boot/rootfs.img \
             --config-url {url}/boot/live.ign --append-karg console=ttyS0 --append-karg mitigations=off \
             --append-karg no_timer_check --append-karg systemd.show_status=1 {options}"
        ),
    )?;
    std::fs::write(boot.join("live.ipxe"), script)?;
    // What the machine's ROM finds by DHCP and TFTP.
    let tftp = lab.folder.join("tftp");
    std::fs::create_dir_all(&tftp)?;
    let chain = format!("#!ipxe\nchain {url}/boot/ipxe?mac=${{net0/mac}}&serial=${{serial}}\n");
    Ok(std::fs::write(tftp.join("boot.ipxe"), chain)?)
}

/// Adds iPXE to the installed system's boot loader, as the VIM document does: with its script on the command line or as initrd.
fn add_ipxe_entry(disk: &Path, lab: &Lab, is_initrd: bool) -> Result<()> {
    let ipxe = std::fs::read(artifact(Artifact::IPXE_LKRN)?)?;
    boot::write_boot_file(disk, "/ipxe.lkrn", &ipxe)?;
    let url = format!("{}/boot/ipxe?mac=${{net0/mac}}", lab.url_ipv4());
    let script = format!("#!ipxe\ndhcp && chain {url}\n");
    boot::write_boot_file(disk, "/again.ipxe", script.as_bytes())?;
    let command = if is_initrd {
        "linux16 /ipxe.lkrn\n  initrd16 /again.ipxe".to_owned()
    } else {
        format!("linux16 /ipxe.lkrn dhcp '&&' chain '{url}'")
    };
    let entry = format!(
        "set timeout=15\nmenuentry 'Install again' {{\n  {command}\n}}\necho the disk boots\n"
    );
    boot::write_boot_file(disk, "/grub2/user.cfg", entry.as_bytes())
}

/// Checks how often this path was requested.
pub(crate) fn check_fetched(lab: &Lab, path: &str, n_times: usize) -> Result<()> {
    let requests = lab.requests(|request| request["path"] == path)?;
    ensure!(requests.len() == n_times, "expected {n_times} requests for {path}: {requests:#?}");
    Ok(())
}

#[test]
fn machine_is_installed_by_network_boot_once_and_again_by_ipxe_from_its_boot_loader() -> Result<()>
{
    let proof = nonce()?;
    let order = instruction(&proof, Artifact::IMAGE_SMALL)?;
    let lab = start_lab("netboot", &proof, &order, "--boot boot")?;
    write_boot_folder(&lab)?;
    let machine = Machine::bare(2560);
    let boot = Boot::Network { tftp: lab.folder.join("tftp"), file: "boot.ipxe" };
    let mut live = Guest::start("live", &lab.folder, &machine, &boot, LIVE)?;
    live.wait_for("bootstrap is done")?;
    live.wait_for_end()?;
    check_proved(&lab)?;
    check_fetched(&lab, "/boot/ipxe", 1)?;

    // The firmware still prefers the network, and gets no second install.
    add_ipxe_entry(&lab.folder.join("target.raw"), &lab, false)?;
    let mut again = Guest::start("again", &lab.folder, &machine, &boot, LIVE)?;
    again.wait_for("the disk boots")?;
    check_fetched(&lab, "/boot/ipxe", 2)?;
    let page = lab.page()?;
    ensure!(page.contains("its disk: installed at "), "{page}");
    // Now it is asked for; the boot loader's entry finds it.
    let stop = json!({"action": "stop", "reason": "the report is all that this test needs"});
    lab.put(&format!("/lab/nodes/{}/instruction", lab.node_id()?), &stop)?;
    again.wait_for(EMERGENCY)?;
    check_fetched(&lab, "/boot/ipxe", 3)?;
    check_fetched(&lab, "/v1/reports", 2)?;
    drop(again);

    add_ipxe_entry(&lab.folder.join("target.raw"), &lab, true)?;
    let mut initrd = Guest::start("initrd", &lab.folder, &machine, &Boot::Entries, LIVE)?;
    initrd.wait_for("the disk boots")?;
    initrd.wait_for(EMERGENCY)?;
    check_fetched(&lab, "/boot/ipxe", 4)
}
