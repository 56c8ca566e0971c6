//! Installs that must be refused before anything is written, in the tiny system: no installer is needed to refuse.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::agent::agent_files;
use crate::artifacts::{Artifact, artifact, test_folder};
use crate::boot;
use crate::cpio::GuestFile;
use crate::disk::{Disk, DiskKind};
use crate::guest::Guest;
use crate::lab::Lab;
use crate::machine::Machine;

/// Prints a version for the preflight, and a line on the console if it is called to install.
const INSTALLER: &str = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'coreos-installer 0.27.0' && exit 0\necho INSTALLER-WAS-RUN >/dev/console\nexit 1\n";

/// Instructs a guest with these disks to install `image` and returns the result that it posts.
fn refused(test: &str, disks: Vec<Disk>, image: &Value) -> Result<Value> {
    let folder = test_folder(test)?;
    let install = json!({
        "ignition": {"inline": "{\"ignition\":{\"version\":\"3.3.0\"}}"},
        "image": image,
    });
    std::fs::write(
        folder.join("instruction.json"),
        json!({"action": "install", "install": install}).to_string(),
    )?;
    let image = artifact(Artifact::Image4096)?.display().to_string();
    let lab = Lab::start(
        &folder,
        &["--instruction", "instruction.json", "--image", &image].map(str::to_owned),
    )?;
    let machine = Machine::plain(512, disks);
    let script = format!(
        "run-coreos-installer install --lldp-wait 0 --allow-plain-http --allow-insecure-image --on-refusal stop --vim '{}'; echo STATUS=$?",
        lab.url_ipv4()
    );
    let mut files = agent_files()?;
    files.push(GuestFile::new("usr/local/bin/coreos-installer", 0o755, INSTALLER));
    let boot = boot::tiny("guest", &folder, &machine, &script, &files)?;
    let mut guest = Guest::start("guest", &folder, &machine, &boot, Duration::from_mins(4))?;
    guest.wait_for("STATUS=4")?;
    ensure!(!guest.console.has("INSTALLER-WAS-RUN"), "the installer was run");
    lab.keep(&folder)?;
    lab.sent("result", Duration::ZERO)
}

/// An image that the lab VIM serves.
fn image(sector_bytes: u64) -> Result<Value> {
    let name = artifact(Artifact::Image4096)?
        .file_name()
        .and_then(|name| name.to_str())
        .context("the image has no name")?;
    Ok(
        json!({"url": format!("{{{{base}}}}/files/{name}"), "insecure": true, "sector_bytes": sector_bytes}),
    )
}

#[test]
fn an_image_for_another_sector_size_is_refused() -> Result<()> {
    let result = refused("refused_sector_size", vec![Machine::target_disk()], &image(4096)?)?;
    ensure!(
        result["code"] == "SECTOR_SIZE" && result["disk_state"] == "untouched",
        "the result says {result:#}"
    );
    Ok(())
}

#[test]
fn an_install_on_the_only_disk_is_refused_where_there_are_two() -> Result<()> {
    let other = Disk {
        id: "other",
        kind: DiskKind::Virtio { serial: "OTHER-0" },
        ..Machine::target_disk()
    };
    let result = refused("refused_two_disks", vec![Machine::target_disk(), other], &image(512)?)?;
    ensure!(
        result["code"] == "DISK_AMBIGUOUS" && result["disk_state"] == "untouched",
        "the result says {result:#}"
    );
    Ok(())
}
