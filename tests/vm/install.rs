//! The whole job on a virtual machine, which both the tests and `make demo` run: live system, agent, the real coreos-installer,
//! and the installed system with the real Ignition.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::agent::agent_binary;
use crate::artifacts::{Artifact, artifact, test_folder};
use crate::boot;
use crate::expect::differences;
use crate::guest::{Boot, Guest};
use crate::lab::Lab;
use crate::machine::Machine;
use crate::narrator::Narrator;

/// Time limit of one boot of the live system with an install; many times what an idle machine needs.
pub(crate) const LIVE: Duration = Duration::from_mins(20);
/// Time limit of one boot of the installed system.
pub(crate) const INSTALLED: Duration = Duration::from_mins(8);

/// A random word, so that the proof cannot come from an earlier run.
pub(crate) fn nonce() -> Result<String> {
    let mut bytes = [0; 8];
    std::io::Read::read_exact(&mut File::open("/dev/urandom")?, &mut bytes)?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}

/// The installed system's config: a file, a host name, a user, and a unit that shows them on the console and powers off.
pub(crate) fn installed_ignition(proof: &str) -> String {
    let unit = "[Unit]\nDescription=Show on the console what Ignition left\nAfter=ignition-firstboot-complete.service\n\n\
                [Service]\nType=oneshot\nExecStart=/usr/local/bin/show-proof\nExecStartPost=/usr/bin/systemctl --no-block poweroff\n\n\
                [Install]\nWantedBy=multi-user.target\n";
    let script = "#!/bin/sh\nexec >/dev/ttyS0\necho \"PROOF file=$(cat /etc/proof) mode=$(stat -c %a /etc/proof) host=$(cat /etc/hostname) \
                  user=$(id -u core) boot=$(grep -c ignition.firstboot /proc/cmdline)\"\n";
    let data = |text: &str| format!("data:,{}", percent(text));
    let config = json!({
        "ignition": {"version": "3.3.0"},
        "passwd": {"users": [{"name": "core"}]},
        "storage": {"files": [
            {"path": "/etc/proof", "mode": 0o600, "contents": {"source": data(proof)}},
            {"path": "/etc/hostname", "overwrite": true, "mode": 0o644, "contents": {"source": data("from-ignition")}},
            {"path": "/usr/local/bin/show-proof", "mode": 0o755, "contents": {"source": data(script)}},
        ]},
        "systemd": {"units": [{"name": "show-proof.service", "enabled": true, "contents": unit}]},
    });
    config.to_string()
}

/// Text in a URL: everything but letters and digits as %XX.
pub(crate) fn percent(text: &str) -> String {
    let one = |byte: u8| {
        if byte.is_ascii_alphanumeric() {
            (byte as char).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(one).collect()
}

/// An instruction of the lab VIM: install this image, with the target's Ignition config and a random kernel argument.
pub(crate) fn instruction(proof: &str, image: Artifact) -> Result<Value> {
    let name = image.file_name()?;
    let stem = name.split('.').next().unwrap_or_default();
    let size = artifact(image)?.with_file_name(format!("{stem}.bytes"));
    let bytes: u64 = std::fs::read_to_string(size)?.trim().parse()?;
    let sector_bytes = if image == Artifact::IMAGE_4096 { 4096 } else { 512 };
    Ok(json!({
        "action": "install",
        "install": {
            "ignition": {"url": "{{base}}/files/target.ign", "hash": "sha512-{{sha512:/files/target.ign}}"},
            "image": {
                "url": format!("{{{{base}}}}/files/{name}"), "insecure": true, "hash": format!("sha256-{{{{sha256:/files/{name}}}}}"),
                "uncompressed_bytes": bytes, "sector_bytes": sector_bytes,
            },
            "append_kargs": ["console=ttyS0", format!("vm.proof={proof}")],
        },
    }))
}

/// A lab VIM with this instruction, in the folder of the test. The folder has the target's config three times: as the file that
/// the instruction names, and for tests that serve it in another way.
pub(crate) fn start_lab(test: &str, proof: &str, instruction: &Value, more: &str) -> Result<Lab> {
    let folder = test_folder(test)?;
    std::fs::create_dir(folder.join("boot"))?;
    for name in ["target.ign", "master.ign", "boot/target.ign"] {
        std::fs::write(folder.join(name), installed_ignition(proof))?;
    }
    std::fs::write(folder.join("instruction.json"), instruction.to_string())?;
    let path = |image| Ok::<_, anyhow::Error>(artifact(image)?.display());
    let arguments = format!(
        "--instruction instruction.json --file target.ign=target.ign --agent {} \
         --image {} --image {} --image {} {more}",
        agent_binary()?.display(),
        path(Artifact::IMAGE_512)?,
        path(Artifact::IMAGE_SMALL)?,
        path(Artifact::IMAGE_4096)?,
    );
    Lab::start(folder, &arguments)
}

/// A unit of the live system that runs these commands before the agent.
pub(crate) fn unit_before_agent(commands: &str) -> String {
    format!(
        "[Unit]\nDescription=Part of the test\nBefore=run-coreos-installer.service\n\n\
         [Service]\nType=oneshot\nRemainAfterExit=yes\n{commands}\n\
         StandardOutput=journal+console\nStandardError=journal+console\n\n\
         [Install]\nRequiredBy=run-coreos-installer.service\n"
    )
}

/// Starts the live system on `machine` with the output of `live-config` for this lab VIM and these options, and a shell script
/// that runs before the agent.
pub(crate) fn start_live(
    lab: &Lab,
    machine: &Machine,
    options: &str,
    script: &str,
) -> Result<Guest> {
    let folder = &lab.folder;
    std::fs::write(folder.join("prepare"), script)?;
    let unit = unit_before_agent("ExecStart=/bin/sh /usr/local/bin/prepare");
    std::fs::write(folder.join("prepare.service"), unit)?;
    let unit = "--unit prepare.service --file /usr/local/bin/prepare=prepare";
    let options = if script.is_empty() { options } else { &format!("{unit} {options}") };
    let config = live_config_of(lab, options)?;
    std::fs::write(folder.join("live.ign"), &config)?;
    let boot = boot::live("live", folder, machine, &config)?;
    Guest::start("live", folder, machine, &Boot::Kernel(boot), LIVE)
}

/// The Ignition config of the live image for this lab VIM.
pub(crate) fn live_config_of(lab: &Lab, options: &str) -> Result<Vec<u8>> {
    // The images of the tests have no signature.
    let insecure = "--agent-option allow-insecure-image=true";
    live_config(&lab.folder, &format!("{} {insecure} {options}", agent_from(lab, &lab.url_ipv4())?))
}

/// Options of `live-config` for a VIM at `url` and the agent that the lab VIM serves.
pub(crate) fn agent_from(lab: &Lab, url: &str) -> Result<String> {
    let binary = agent_binary()?.display();
    let source = format!("{}/ocp/run-coreos-installer.gz", lab.url_ipv4());
    Ok(format!("--vim {url} --allow-plain-http --binary {binary} --binary-url {source}"))
}

/// What `live-config` prints with these options, which contain no blanks; it finds files in `folder`.
pub(crate) fn live_config(folder: &Path, options: &str) -> Result<Vec<u8>> {
    let agent = agent_binary()?;
    let output = Command::new(agent)
        // The agent refuses RCI_* variables that are no options, e.g. RCI_STATIC_AGENT.
        .env_clear()
        .current_dir(folder)
        .arg("live-config")
        .args(options.split_whitespace())
        .output()
        .with_context(|| format!("running {}", agent.display()))?;
    if !output.status.success() {
        bail!("live-config: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// Boots the installed disk in this folder, checks that Ignition has applied the config, and returns the line that its unit
/// prints.
pub(crate) fn boot_installed(name: &str, folder: &Path, proof: &str) -> Result<String> {
    let boot = boot::installed(name, folder)?;
    // A second CPU costs a quarter more under emulation.
    let machine = Machine { n_cores: 1, ..Machine::bare(1024) };
    shown_proof(Guest::start(name, folder, &machine, &Boot::Kernel(boot), INSTALLED)?, proof)
}

/// The line that the unit of the installed system prints.
pub(crate) fn shown_proof(mut guest: Guest, proof: &str) -> Result<String> {
    let line = guest.wait_for("PROOF file=")?.text;
    guest.wait_for_end()?;
    ensure!(line.contains(&format!("file={proof} ")), "the installed system showed {line:?}");
    Ok(line)
}

/// Checks that an installed disk has the target's config.
pub(crate) fn check_ignition(disk: &Path, proof: &str) -> Result<()> {
    let ignition = boot::boot_file(disk, "/ignition/config.ign")?;
    let is_same = ignition.as_deref() == Some(installed_ignition(proof).as_bytes());
    ensure!(is_same, "the disk has another Ignition config");
    Ok(())
}

/// Checks of an install that takes long enough to have progress: also that the events show some.
pub(crate) fn check_installed(lab: &Lab) -> Result<Value> {
    let result = check_proved(lab)?;
    let events = lab.sent("events")?;
    let events = events["events"].as_array().context("no list of events")?;
    let written = events.iter().filter(|event| event["stage"] == "write");
    let percents: Vec<_> = written.filter_map(|event| event["percent"].as_u64()).collect();
    ensure!(
        percents.iter().any(|percent| (1..100).contains(percent)),
        "no progress of the write among {percents:?}"
    );
    Ok(result)
}

/// Waits until the machine reboots after its install, and checks that one.
pub(crate) fn check_rebooted(live: Guest, lab: &Lab) -> Result<Value> {
    live.wait_for_reboot()?;
    check_proved(lab)
}

/// Checks of every install: the result, which it returns, each proof, and the order of the stages in the events.
pub(crate) fn check_proved(lab: &Lab) -> Result<Value> {
    let result = lab.sent("result")?;
    check(&result, &json!({"outcome": "installed"}))?;
    let checks = result["proof"]["checks"].as_array().context("the result has no proof")?;
    let failed: Vec<_> =
        checks.iter().filter(|check| check["ok"] != true && check["fatal"] == true).collect();
    ensure!(failed.is_empty(), "these proofs failed: {failed:?}");
    for wanted in ["partition_table", "ignition_digest", "kernel_arguments"] {
        proved(&result, wanted)?;
    }
    let events = lab.sent("events")?;
    let events = events["events"].as_array().context("no list of events")?;
    let stages: Vec<_> = events.iter().filter_map(|event| event["stage"].as_str()).collect();
    let mut at = 0;
    for stage in ["report", "instruction", "preflight", "write", "proof"] {
        let found = stages[at..].iter().position(|&found| found == stage);
        at += found.with_context(|| {
            format!("no event of stage \"{stage}\" in its place among {stages:?}")
        })?;
    }
    Ok(result)
}

/// The check of the proof with this name, which has passed.
pub(crate) fn proved<'a>(result: &'a Value, name: &str) -> Result<&'a Value> {
    let checks = result["proof"]["checks"].as_array().context("the result has no proof")?;
    let check = checks.iter().find(|check| check["name"] == name && check["ok"] == true);
    check.with_context(|| format!("no proof \"{name}\" in {checks:?}"))
}

/// Checks values of a document by key.
pub(crate) fn check(document: &Value, wanted: &Value) -> Result<()> {
    for (key, value) in wanted.as_object().into_iter().flatten() {
        ensure!(document[key] == *value, "{key} is not {value} in {document:#}");
    }
    Ok(())
}

/// Installs a bare machine, boots it twice, and checks each step; files and logs are in `target/vm/FOLDER/`.
pub(crate) fn whole_job(folder: &str, narrator: &mut Narrator) -> Result<()> {
    let proof = nonce()?;
    let order = instruction(&proof, Artifact::IMAGE_512)?;
    let lab = start_lab(folder, &proof, &order, "--db vim.sqlite")?;
    narrator.follow(&lab);
    let machine = Machine::bare(2048);
    narrator.say("a bare virtual machine boots the live image; systemd starts the agent");
    let mut live = start_live(&lab, &machine, "", "")?;
    live.wait_for_end()?;
    narrator.say("systemd has rebooted the machine; checking what was reported and written");
    check_installed(&lab)?;
    let differences = differences(&machine, &lab.sent("report")?);
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    check_ignition(&lab.folder.join("target.raw"), &proof)?;

    narrator.say("the installed system boots; the real Ignition applies the VIM's config");
    let first = boot_installed("first", &lab.folder, &proof)?;
    narrator.say(&format!("first boot: {first}"));
    let shown = format!("PROOF file={proof} mode=600 host=from-ignition user=1000");
    ensure!(first.contains(&format!("{shown} boot=1")), "the first boot showed {first:?}");
    let second = boot_installed("second", &lab.folder, &proof)?;
    narrator.say(&format!("second boot, without Ignition: {second}"));
    ensure!(second.contains(&format!("{shown} boot=0")), "the second boot showed {second:?}");
    narrator.finish(&lab)
}
