//! The live ISO: made ready by the real coreos-installer, started by the machine's own firmware.
//!
//! The two that install boot because what coreos-installer put into the ISO is read at the boot only.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::agent::agent_binary;
use crate::artifacts::{Artifact, artifact, test_folder};
use crate::guest::{Boot, Guest};
use crate::install::{
    LIVE, boot_installed, check_ignition, check_installed, installed_ignition, instruction,
    live_config, live_config_of, nonce, start_lab,
};
use crate::machine::Machine;
use crate::pointer;

/// The network of the machine before its VIM is reachable, in nmstate's form.
const NETWORK: &str = "\
interfaces:
- name: eth0
  type: ethernet
  ipv4:
    enabled: true
    address: [{ip: 10.0.2.77, prefix-length: 24}]
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 10.0.2.2, next-hop-interface: eth0}
";

/// Runs a program in this folder and returns what it printed; no argument contains a blank.
fn run(folder: &Path, program: &Path, arguments: &str) -> Result<String> {
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .output()
        .with_context(|| format!("running {}", program.display()))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} {arguments}: {stderr}", program.display());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn coreos_installer(folder: &Path, arguments: &str) -> Result<String> {
    run(folder, artifact(Artifact::COREOS_INSTALLER)?, arguments)
}

#[test]
fn iso_with_a_static_network_boots_by_bios_and_installs_a_pointer_config() -> Result<()> {
    let proof = nonce()?;
    let order = instruction(&proof, Artifact::IMAGE_512)?;
    let arguments = "--listen-https 127.0.0.1:0 --tls-dir tls --file config/master=master.ign";
    let lab = start_lab("iso_bios", &proof, &order, arguments)?;
    let folder = &lab.folder;
    pointer::write(&lab)?;
    std::fs::write(folder.join("network.yaml"), NETWORK)?;
    let config = live_config_of(&lab, "--network network.yaml --network-dir network")?;
    std::fs::write(folder.join("live.ign"), config)?;
    let original = artifact(Artifact::LIVE_ISO)?.display();
    coreos_installer(
        folder,
        &format!(
            "iso customize --live-ignition live.ign --network-keyfile network/eth0.nmconnection \
             --live-karg-append net.ifnames=0 -o live.iso {original}"
        ),
    )?;
    let boot = Boot::Cd(folder.join("live.iso"));
    let mut live = Guest::start("live", folder, &Machine::bare(2048), &boot, LIVE)?;
    live.wait_for("static address 10.0.2.77/24 of eth0")?;
    live.wait_for_end()?;
    check_installed(&lab)?;
    let report = lab.sent("report")?;
    let addresses = report["local_addresses"].to_string();
    ensure!(
        addresses.contains("10.0.2.77") && !addresses.contains("10.0.2.15"),
        "the addresses are {addresses}"
    );
    ensure!(report["firmware"]["boot_mode"] == "bios", "{:#}", report["firmware"]);
    boot_installed("first", folder, &proof)?;
    pointer::check(&lab)
}

/// The agent is a file of the ISO, for sites without a server, and so is the image, as the live image of CoreOS contains its own.
#[test]
fn iso_with_the_targets_config_boots_by_uefi_and_installs_without_any_server() -> Result<()> {
    let folder = &test_folder("iso_uefi")?;
    let proof = nonce()?;
    std::fs::write(folder.join("target.ign"), installed_ignition(&proof))?;
    let (agent, name) = (agent_binary()?.display(), Artifact::IMAGE_512.file_name()?);
    let original = artifact(Artifact::LIVE_ISO)?.display();
    let image = artifact(Artifact::IMAGE_512)?.display();
    run(
        folder,
        Path::new("xorriso"),
        &format!(
            "-indev {original} -outdev live.iso -compliance iso_9660_level=1 -boot_image any replay \
             -map {agent} /run-coreos-installer -map {image} /{name}"
        ),
    )?;
    let config = live_config(
        folder,
        &format!(
            "--install target.ign --binary-on-iso /run-coreos-installer --autologin \
             --agent-option image=/run/media/iso/{name} --agent-option allow-insecure-image=true \
             --agent-option hints=serial=TARGET-0 --agent-option append-karg=console=ttyS0 \
             --agent-option append-karg=vm.proof={proof} --agent-option after=poweroff"
        ),
    )?;
    std::fs::write(folder.join("live.ign"), config)?;
    coreos_installer(folder, "iso ignition embed -i live.ign live.iso")?;
    coreos_installer(folder, "iso kargs modify -a rci.log-level=debug live.iso")?;
    let mut machine = Machine { has_uefi: true, ..Machine::bare(2048) };
    // No server: the network reaches nothing.
    machine.ports[0].reaches_host = false;
    let boot = Boot::Cd(folder.join("live.iso"));
    let mut live = Guest::start("live", folder, &machine, &boot, LIVE)?;
    live.wait_for("installed: ")?;
    live.wait_for_end()?;
    check_ignition(&folder.join("target.raw"), &proof)?;
    boot_installed("first", folder, &proof).map(drop)
}

#[test]
fn initramfs_for_network_boot_accepts_config_and_network_from_coreos_installer() -> Result<()> {
    let folder = &test_folder("iso_pxe_customize")?;
    std::fs::write(folder.join("network.yaml"), NETWORK)?;
    let options =
        "--vim https://vim.example --agent-in-image --network network.yaml --network-dir network";
    std::fs::write(folder.join("live.ign"), live_config(folder, options)?)?;
    let initramfs = artifact(Artifact::LIVE_INITRD)?.display();
    coreos_installer(
        folder,
        &format!(
            "pxe customize --live-ignition live.ign --network-keyfile network/eth0.nmconnection \
             -o custom.img {initramfs}"
        ),
    )?;
    let embedded = coreos_installer(folder, "pxe ignition unwrap custom.img")?;
    let embedded: Value = serde_json::from_str(&embedded)?;
    // customize merges what it is given into a config of its own.
    ensure!(embedded["ignition"]["config"]["merge"].is_array(), "{embedded:#}");
    Ok(())
}
