//! Network boot by the machine's own ROM, and a new install of an installed machine by iPXE from its own boot loader.
//!
//! It boots because network boot is the subject.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::artifacts::{Artifact, artifact};
use crate::boot;
use crate::guest::{Boot, EMERGENCY, Guest};
use crate::install::{
    LIVE, check_proved, live_config, live_config_of, nonce, small_instruction, start_lab_serving,
};
use crate::lab::Lab;
use crate::machine::Machine;

/// Runs in memory before the agent, as the bootstrap of a first node would.
const BOOTSTRAP: &str = "\
[Unit]
Description=Bootstrap in memory
Before=run-coreos-installer.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'echo bootstrap is done; : >/run/bootstrapped'
StandardOutput=journal+console

[Install]
RequiredBy=run-coreos-installer.service
";

/// The folder that the lab VIM serves to machines, made with `live-config` alone: a config that points at another one.
pub(crate) fn write_boot_folder(folder: &Path, lab: &Lab) -> Result<()> {
    write_live_image(folder, lab, &[])?;
    let boot = folder.join("boot");
    std::fs::write(folder.join("bootstrap.service"), BOOTSTRAP)?;
    let unit = folder.join("bootstrap.service").display().to_string();
    std::fs::write(boot.join("nested.ign"), live_config_of(lab, &["--unit", &unit])?)?;
    let nested = format!("{}/boot/nested.ign", lab.url_ipv4());
    let outer = json!({"ignition": {
        "version": "3.3.0", "config": {"merge": [{"source": nested}]},
    }});
    Ok(std::fs::write(boot.join("live.ign"), outer.to_string())?)
}

/// The parts of the live image and the script that boots them, with more options of `live-config`; `boot/live.ign` is missing.
pub(crate) fn write_live_image(folder: &Path, lab: &Lab, options: &[&str]) -> Result<()> {
    let boot = folder.join("boot");
    let link = |artifact_: Artifact, name: &str| -> Result<()> {
        let path = artifact(artifact_)?;
        // The lab VIM serves nothing outside its folder, so no symbolic link.
        if std::fs::hard_link(path, boot.join(name)).is_err() {
            std::fs::copy(path, boot.join(name))?;
        }
        Ok(())
    };
    link(Artifact::Vmlinuz, "vmlinuz")?;
    link(Artifact::LiveInitrd, "initramfs.img")?;
    link(Artifact::LiveSquashfs, "rootfs.img")?;
    let url = lab.url_ipv4();
    let at = |name: &str| format!("{url}/boot/{name}");
    let of_image = [
        "--format",
        "ipxe",
        "--vim",
        &url,
        "--allow-plain-http",
        "--kernel-url",
        &at("vmlinuz"),
        "--initramfs-url",
        &at("initramfs.img"),
        "--rootfs-url",
        &at("rootfs.img"),
        "--config-url",
        &at("live.ign"),
        "--append-karg",
        "console=ttyS0",
        "--append-karg",
        "mitigations=off",
        "--append-karg",
        "no_timer_check",
        "--append-karg",
        "systemd.show_status=1",
    ];
    let script = live_config(&[&of_image, options].concat())?;
    std::fs::write(boot.join("live.ipxe"), script)?;
    // What the machine's ROM finds by DHCP and TFTP.
    let tftp = folder.join("tftp");
    std::fs::create_dir_all(&tftp)?;
    let chain = format!("#!ipxe\nchain {url}/boot/ipxe?mac=${{net0/mac}}&serial=${{serial}}\n");
    Ok(std::fs::write(tftp.join("boot.ipxe"), chain)?)
}

/// Adds iPXE to the installed system's boot loader, as the VIM document does.
fn add_ipxe_entry(disk: &Path, lab: &Lab) -> Result<()> {
    let ipxe = std::fs::read(artifact(Artifact::IpxeLkrn)?)?;
    boot::write_boot_file(disk, "/ipxe.lkrn", &ipxe)?;
    let entry = format!(
        "set timeout=15\n\
         menuentry 'Install again' {{\n  \
         linux16 /ipxe.lkrn dhcp '&&' chain '{}/boot/ipxe?mac=${{net0/mac}}'\n\
         }}\n\
         echo the disk boots\n",
        lab.url_ipv4()
    );
    boot::write_boot_file(disk, "/grub2/user.cfg", entry.as_bytes())
}

/// How often this path was requested.
pub(crate) fn fetched(lab: &Lab, path: &str) -> Result<usize> {
    let requests = lab.requests()?;
    let all = requests.as_array().map_or(&[][..], Vec::as_slice);
    Ok(all.iter().filter(|request| request["path"] == path).count())
}

#[test]
fn machine_is_installed_by_network_boot_once_and_again_by_ipxe_from_its_boot_loader() -> Result<()>
{
    let proof = nonce()?;
    let (folder, lab) =
        start_lab_serving("netboot", &proof, &["--boot", "boot"], "boot/target.ign")?;
    lab.put("/lab/default/instruction", &small_instruction(&proof)?)?;
    write_boot_folder(&folder, &lab)?;
    let machine = Machine::plain(2560, vec![Machine::target_disk()]);
    let boot = Boot::Network { tftp: folder.join("tftp"), file: "boot.ipxe" };
    let mut live = Guest::start("live", &folder, &machine, &boot, LIVE)?;
    live.wait_for("bootstrap is done")?;
    live.wait_for_end()?;
    lab.keep(&folder)?;
    check_proved(&lab)?;
    ensure!(fetched(&lab, "/boot/ipxe")? == 1, "{:#}", lab.requests()?);

    // The firmware still prefers the network, and gets no second install.
    let disk = folder.join("target.raw");
    add_ipxe_entry(&disk, &lab)?;
    let mut again = Guest::start("again", &folder, &machine, &boot, LIVE)?;
    again.wait_for("the disk boots")?;
    ensure!(fetched(&lab, "/boot/ipxe")? == 2, "{:#}", lab.requests()?);
    let node = lab.node_id(Duration::ZERO)?;
    let page = lab.text(&format!("/nodes/{node}"))?;
    ensure!(page.contains("its disk: installed at "), "{page}");
    // Now it is asked for; the boot loader's entry finds it.
    let stop = json!({"action": "stop", "reason": "the report is all that this test needs"});
    lab.put(&format!("/lab/nodes/{node}/instruction"), &stop)?;
    again.wait_for(EMERGENCY)?;
    ensure!(fetched(&lab, "/boot/ipxe")? == 3, "{:#}", lab.requests()?);
    ensure!(fetched(&lab, "/v1/reports")? == 2, "{:#}", lab.requests()?);
    Ok(())
}
