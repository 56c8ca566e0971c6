//! The live ISO: made ready by the real coreos-installer, started by the machine's own firmware.
//!
//! The two that install boot because what coreos-installer put into the ISO is read at the boot only.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::agent::agent_binary;
use crate::artifacts::{Artifact, artifact, test_folder};
use crate::boot;
use crate::guest::{Boot, Guest};
use crate::install::{
    LIVE, boot_installed, check_installed, installed_ignition, live_config, live_config_of, nonce,
    start_lab_serving,
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

/// Runs a program and returns what it printed.
pub(crate) fn run(program: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("running {}", program.display()))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} {arguments:?}: {stderr}", program.display());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn coreos_installer(arguments: &[&str]) -> Result<String> {
    run(artifact(Artifact::CoreosInstaller)?, arguments)
}

/// The name of a file in the test's folder.
fn within(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

#[test]
fn iso_with_a_static_network_boots_by_bios_and_installs_a_pointer_config() -> Result<()> {
    let proof = nonce()?;
    let arguments =
        ["--listen-https", "127.0.0.1:0", "--tls-dir", "tls", "--file", "config/master=master.ign"];
    let (folder, lab) = start_lab_serving("iso_bios", &proof, &arguments, "master.ign")?;
    pointer::write(&folder, &lab)?;
    let file = |name: &str| within(&folder, name);
    std::fs::write(folder.join("network.yaml"), NETWORK)?;
    let network = ["--network", &file("network.yaml"), "--network-dir", &file("network")];
    std::fs::write(folder.join("live.ign"), live_config_of(&lab, &network)?)?;
    coreos_installer(&[
        "iso",
        "customize",
        "--live-ignition",
        &file("live.ign"),
        "--network-keyfile",
        &file("network/eth0.nmconnection"),
        "--live-karg-append",
        "net.ifnames=0",
        "-o",
        &file("live.iso"),
        &artifact(Artifact::LiveIso)?.display().to_string(),
    ])?;
    let machine = Machine::plain(2048, vec![Machine::target_disk()]);
    let boot = Boot::Cd(folder.join("live.iso"));
    let mut live = Guest::start("live", &folder, &machine, &boot, LIVE)?;
    live.wait_for("static address 10.0.2.77/24 of eth0")?;
    live.wait_for_end()?;
    lab.keep(&folder)?;
    check_installed(&lab)?;
    let report = lab.sent("report", Duration::ZERO)?;
    let addresses = report["local_addresses"].to_string();
    ensure!(
        addresses.contains("10.0.2.77") && !addresses.contains("10.0.2.15"),
        "the addresses are {addresses}"
    );
    ensure!(report["firmware"]["boot_mode"] == "bios", "{:#}", report["firmware"]);
    let first = boot_installed("first", &folder)?;
    ensure!(first.contains(&format!("file={proof} ")), "the first boot showed {first:?}");
    pointer::check(&lab)
}

/// The ISO with the agent as a file of its own, for sites without a server.
fn iso_with_agent(folder: &Path) -> Result<PathBuf> {
    let iso = folder.join("live.iso");
    run(
        Path::new("xorriso"),
        &[
            "-indev",
            &artifact(Artifact::LiveIso)?.display().to_string(),
            "-outdev",
            &iso.display().to_string(),
            "-compliance",
            "iso_9660_level=1",
            "-boot_image",
            "any",
            "replay",
            "-map",
            &agent_binary()?.display().to_string(),
            "/run-coreos-installer",
        ],
    )?;
    Ok(iso)
}

#[test]
fn iso_with_the_targets_config_boots_by_uefi_and_installs_without_any_server() -> Result<()> {
    let folder = test_folder("iso_uefi")?;
    let file = |name: &str| within(&folder, name);
    let proof = nonce()?;
    std::fs::write(folder.join("target.ign"), installed_ignition(&proof))?;
    let image = artifact(Artifact::Image512)?;
    let iso = iso_with_agent(&folder)?.display().to_string();
    let name = image.file_name().and_then(|name| name.to_str()).context("the image has no name")?;
    let with_image = file("with-image.iso");
    // The image is a file of the ISO too, as the live image of CoreOS contains its own.
    run(
        Path::new("xorriso"),
        &[
            "-indev",
            &iso,
            "-outdev",
            &with_image,
            "-compliance",
            "iso_9660_level=1",
            "-boot_image",
            "any",
            "replay",
            "-map",
            &image.display().to_string(),
            &format!("/{name}"),
        ],
    )?;
    let image = format!("image=/run/media/iso/{name}");
    let config = live_config(&[
        "--install",
        &file("target.ign"),
        "--binary-on-iso",
        "/run-coreos-installer",
        "--autologin",
        "--agent-option",
        &image,
        "--agent-option",
        "allow-insecure-image=true",
        "--agent-option",
        "hints=serial=TARGET-0",
        "--agent-option",
        "append-karg=console=ttyS0",
        "--agent-option",
        &format!("append-karg=vm.proof={proof}"),
        "--agent-option",
        "after=poweroff",
    ])?;
    std::fs::write(folder.join("live.ign"), config)?;
    coreos_installer(&["iso", "ignition", "embed", "-i", &file("live.ign"), &with_image])?;
    coreos_installer(&["iso", "kargs", "modify", "-a", "rci.log-level=debug", &with_image])?;
    let mut machine = Machine::plain(2048, vec![Machine::target_disk()]);
    machine.has_uefi = true;
    // No server: the network reaches nothing.
    machine.ports[0].reaches_host = false;
    let mut live = Guest::start("live", &folder, &machine, &Boot::Cd(with_image.into()), LIVE)?;
    live.wait_for("installed: ")?;
    live.wait_for_end()?;
    let ignition = boot::boot_file(&folder.join("target.raw"), "/ignition/config.ign")?;
    ensure!(ignition.as_deref() == Some(installed_ignition(&proof).as_bytes()), "another config");
    let first = boot_installed("first", &folder)?;
    ensure!(first.contains(&format!("file={proof} ")), "the first boot showed {first:?}");
    Ok(())
}

#[test]
fn initramfs_for_network_boot_accepts_config_and_network_from_coreos_installer() -> Result<()> {
    let folder = test_folder("iso_pxe_customize")?;
    let file = |name: &str| within(&folder, name);
    std::fs::write(folder.join("network.yaml"), NETWORK)?;
    let config = live_config(&[
        "--vim",
        "https://vim.example",
        "--agent-in-image",
        "--network",
        &file("network.yaml"),
        "--network-dir",
        &file("network"),
    ])?;
    std::fs::write(folder.join("live.ign"), &config)?;
    let initramfs = artifact(Artifact::LiveInitrd)?.display().to_string();
    coreos_installer(&[
        "pxe",
        "customize",
        "--live-ignition",
        &file("live.ign"),
        "--network-keyfile",
        &file("network/eth0.nmconnection"),
        "-o",
        &file("custom.img"),
        &initramfs,
    ])?;
    let embedded = coreos_installer(&["pxe", "ignition", "unwrap", &file("custom.img")])?;
    let embedded: Value = serde_json::from_str(&embedded)?;
    // customize merges what it is given into a config of its own.
    ensure!(embedded["ignition"]["config"]["merge"].is_array(), "{embedded:#}");
    Ok(())
}
