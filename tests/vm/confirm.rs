//! The installed system answers: its first two boots arrive at the VIM, and then nothing of that is left on the disk.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::artifacts::Artifact;
use crate::install::{boot_installed, check_rebooted, instruction, nonce, percent, start_lab};
use crate::machine::Machine;
use crate::template::restore_live;

/// The installed system of the tests has no program for its network.
const NETWORK: &str = "#!/bin/sh
modprobe virtio_net
udevadm settle
for port in /sys/class/net/[!l]*; do
  ip link set dev ${port##*/} up
  ip address add 10.0.2.15/24 dev ${port##*/}
done
";

/// Shows what is left of the confirmation once its unit has ended, and powers off.
const SHOW: &str = "#!/bin/sh
exec >/dev/ttyS0 2>&1
while systemctl --quiet is-active run-coreos-installer-confirm.service; do sleep 1; done
echo PROOF file=$(cat /etc/proof) left=$(ls /etc/run-coreos-installer /var/lib/run-coreos-installer 2>/dev/null | grep -c confirm)
";

fn unit(order: &str, script: &str, more: &str) -> String {
    format!(
        "[Unit]\nDescription=Part of the test\n{order}\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
         ExecStart=/usr/local/bin/{script}\n{more}\n[Install]\nWantedBy=multi-user.target\n"
    )
}

fn config(proof: &str) -> String {
    let file = |path: &str, mode: u32, text: &str| json!({"path": path, "mode": mode, "contents": {"source": format!("data:,{}", percent(text))}});
    let network = unit("Before=network-online.target", "network", "");
    let show = unit(
        "After=run-coreos-installer-confirm.service multi-user.target",
        "show",
        "ExecStartPost=/usr/bin/systemctl --no-block poweroff\n",
    );
    json!({
        "ignition": {"version": "3.3.0"},
        "storage": {"files": [
            file("/etc/proof", 0o600, proof), file("/usr/local/bin/network", 0o755, NETWORK), file("/usr/local/bin/show", 0o755, SHOW),
        ]},
        "systemd": {"units": [
            {"name": "network-of-test.service", "enabled": true, "contents": network},
            {"name": "show.service", "enabled": true, "contents": show},
        ]},
    })
    .to_string()
}

#[test]
fn installed_system_confirms_its_first_two_boots_and_removes_what_did_that() -> Result<()> {
    let proof = nonce()?;
    let mut order = instruction(&proof, Artifact::IMAGE_512)?;
    order["install"]["ignition"] = json!({"inline": config(&proof)});
    order["install"]["confirm"] = json!(true);
    let lab = start_lab("confirm", &proof, &order, "")?;
    let result = check_rebooted(restore_live(&lab, &Machine::bare(2048), "")?, &lab)?;
    ensure!(result["confirm"]["token_digest"].is_string(), "no digest in {result:#}");
    for (n, left) in [(1_usize, "left=3"), (2, "left=0")] {
        let shown = boot_installed(&format!("boot-{n}"), &lab.folder, &proof)?;
        let sent = lab.sent("boots")?;
        let boots = sent["boots"].as_array().map_or(&[][..], Vec::as_slice);
        ensure!(boots.len() == n, "after boot {n} there are {sent:#}");
        ensure!(shown.contains(left), "boot {n} showed {shown:?}");
        let is_same = |boot: &Value| boot["boot"]["disk"] == "same";
        ensure!(boots.iter().all(is_same), "another disk in {sent:#}");
    }
    ensure!(lab.page()?.contains("confirmed (boots 1 and 2)"), "the page does not say so");
    Ok(())
}
