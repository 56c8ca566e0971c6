//! Another Ignition config for an installed system, from a live system and from the system itself; the real Ignition applies each.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::agent::agent_binary;
use crate::artifacts::Artifact;
use crate::boot;
use crate::guest::{Boot, Guest};
use crate::install::{
    INSTALLED, boot_installed, check, check_rebooted, instruction, live_config_of, nonce, percent,
    proved, start_lab,
};
use crate::machine::Machine;
use crate::template::{restore, restore_live};

/// A config that replaces the file with the proof, and the script that text it, and leaves the rest to what is there.
fn config(proof: &str, script: &str) -> String {
    let file = |path: &str, mode: u32, text: &str| {
        let contents = json!({"source": format!("data:,{}", percent(text))});
        json!({"path": path, "mode": mode, "overwrite": true, "contents": contents})
    };
    let show = format!(
        "#!/bin/sh\nexec >/dev/ttyS0 2>&1\necho \"PROOF file=$(cat /etc/proof) host=$(cat /etc/hostname) \
         user=$(id -u core) boot=$(grep -c ignition.firstboot /proc/cmdline)\"\n{script}"
    );
    let files = [file("/etc/proof", 0o600, proof), file("/usr/local/bin/show-proof", 0o755, &show)];
    json!({"ignition": {"version": "3.3.0"}, "storage": {"files": files}}).to_string()
}

/// What the installed system does by hand: `boot` is mounted read-only, as on `CoreOS`.
const BY_HAND: &str = "mount -o ro /boot\ncp /boot/agent /run/agent\nchmod 755 /run/agent\n\
    /run/agent reignite --ignition /etc/next.ign --append-karg by.hand=1\n\
    echo \"BYHAND status=$? mount=$(findmnt -no OPTIONS /boot | cut -d, -f1)\"\n";

#[test]
fn config_of_an_installed_system_is_replaced_by_a_live_boot_and_then_by_the_system_itself()
-> Result<()> {
    let [one, two, three] = [nonce()?, nonce()?, nonce()?];
    let order = instruction(&one, Artifact::IMAGE_512)?;
    let lab = start_lab("reignite", &one, &order, "")?;
    let (folder, machine) = (&lab.folder, Machine::bare(2048));
    check_rebooted(restore_live(&lab, &machine, "")?, &lab)?;
    boot_installed("first", folder, &one)?;

    // The file with the third config is one of the second.
    let mut second: Value = serde_json::from_str(&config(&two, BY_HAND))?;
    let next = format!("data:,{}", percent(&config(&three, "")));
    let next = json!({"path": "/etc/next.ign", "mode": 0o600, "contents": {"source": next}});
    second["storage"]["files"].as_array_mut().context("no list of files")?.push(next);
    let ignition = json!({"inline": second.to_string()});
    let order = json!({"action": "reignite", "install": {"ignition": ignition}});
    lab.put("/lab/default/instruction", &order)?;
    let live = restore("live-again", folder, &machine, &live_config_of(&lab, "")?, "")?;
    live.wait_for_reboot()?;
    let result = lab.sent("result")?;
    check(&result, &json!({"outcome": "reignited", "disk_state": "installed", "attempts": 0}))?;
    proved(&result, "ignition_digest")?;

    let disk = folder.join("target.raw");
    boot::write_boot_file(&disk, "/agent", &std::fs::read(agent_binary()?)?)?;
    let small = Machine { n_cores: 1, ..Machine::bare(1024) };
    let start = |name: &str| {
        let boot = Boot::Kernel(boot::installed(name, folder)?);
        Guest::start(name, folder, &small, &boot, INSTALLED)
    };
    // What the first config left stays: the host's name, and the user, which the second does not mention.
    let shown = |proof: &str| format!("PROOF file={proof} host=from-ignition user=1000 boot=1");
    let mut guest = start("second")?;
    let text = guest.wait_for("PROOF file=")?.text;
    ensure!(text.contains(&shown(&two)), "the second config: {text:?}");
    let text = guest.wait_for("BYHAND status=")?.text;
    ensure!(text.contains("status=0 mount=ro"), "by hand: {text:?}");
    guest.wait_for_end()?;
    let mut guest = start("third")?;
    let text = guest.wait_for("PROOF file=")?.text;
    ensure!(text.contains(&shown(&three)), "the third config: {text:?}");
    guest.wait_for_end()?;
    let entry = boot::boot_file(&disk, "/loader/entries/ostree-1-vm.conf")?.unwrap_or_default();
    ensure!(
        String::from_utf8_lossy(&entry).contains(" by.hand=1"),
        "the kernel argument is missing"
    );
    ensure!(boot::boot_file(&disk, "/ignition.firstboot")?.is_none(), "the stamp is left");
    Ok(())
}
