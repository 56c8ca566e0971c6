//! The whole job on a virtual machine, which both the tests and `make demo` run: live system, agent, the real coreos-installer,
//! and the installed system with the real Ignition.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::agent::agent_binary;
use crate::artifacts::{Artifact, artifact, test_folder};
use crate::boot;
use crate::expect::differences;
use crate::guest::Guest;
use crate::lab::Lab;
use crate::machine::Machine;
use crate::narrator::Narrator;

/// Time limit of one boot of the live system with an install; many times what an idle machine needs.
pub(crate) const LIVE: Duration = Duration::from_mins(12);
/// Time limit of one boot of the installed system.
const INSTALLED: Duration = Duration::from_mins(8);

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

/// The instruction of the lab VIM: install the image for 512-byte sectors, with this Ignition config and a random kernel argument.
pub(crate) fn instruction(proof: &str) -> Result<Value> {
    instruction_for(proof, Artifact::Image512, 512)
}

/// The same with an image that installs in seconds and does not boot.
pub(crate) fn small_instruction(proof: &str) -> Result<Value> {
    instruction_for(proof, Artifact::ImageSmall, 512)
}

/// The same with the image for this sector size.
pub(crate) fn instruction_for(proof: &str, image: Artifact, sector_bytes: u32) -> Result<Value> {
    let image = artifact(image)?;
    let name = image.file_name().and_then(|name| name.to_str()).context("the image has no name")?;
    let stem = name.split('.').next().unwrap_or_default();
    let size = image.with_file_name(format!("{stem}.bytes"));
    let bytes: u64 = std::fs::read_to_string(size)?.trim().parse()?;
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

/// A test folder with the files that the lab VIM serves, and the lab VIM.
pub(crate) fn start_lab(test: &str, proof: &str, more: &[&str]) -> Result<(PathBuf, Lab)> {
    start_lab_with(test, proof, &instruction(proof)?, more)
}

/// The same with an instruction of the test's own.
pub(crate) fn start_lab_with(
    test: &str,
    proof: &str,
    instruction: &Value,
    more: &[&str],
) -> Result<(PathBuf, Lab)> {
    serving(test_folder(test)?, proof, instruction, more)
}

/// The same, where the lab VIM also serves the target's config under another name from the start.
pub(crate) fn start_lab_serving(
    test: &str,
    proof: &str,
    more: &[&str],
    name: &str,
) -> Result<(PathBuf, Lab)> {
    let folder = test_folder(test)?;
    let file = folder.join(name);
    std::fs::create_dir_all(file.parent().unwrap_or(&folder))?;
    std::fs::write(file, installed_ignition(proof))?;
    serving(folder, proof, &instruction(proof)?, more)
}

fn serving(
    folder: PathBuf,
    proof: &str,
    instruction: &Value,
    more: &[&str],
) -> Result<(PathBuf, Lab)> {
    std::fs::write(folder.join("target.ign"), installed_ignition(proof))?;
    std::fs::write(folder.join("instruction.json"), instruction.to_string())?;
    let mut arguments = ["--instruction", "instruction.json", "--file", "target.ign=target.ign"]
        .map(str::to_owned)
        .to_vec();
    for image in [Artifact::Image512, Artifact::ImageSmall, Artifact::Image4096] {
        arguments.extend(["--image".to_owned(), artifact(image)?.display().to_string()]);
    }
    arguments.extend(["--agent".to_owned(), agent_binary()?.display().to_string()]);
    arguments.extend(more.iter().map(|&argument| argument.to_owned()));
    let lab = Lab::start(&folder, &arguments)?;
    Ok((folder, lab))
}

/// Starts the live system on `machine` with the output of `live-config` for this lab VIM.
pub(crate) fn start_live(folder: &Path, machine: &Machine, lab: &Lab) -> Result<Guest> {
    start_live_with(folder, machine, lab, &[], "")
}

/// The same with more options of `live-config`, and a shell script that runs before the agent.
pub(crate) fn start_live_with(
    folder: &Path,
    machine: &Machine,
    lab: &Lab,
    options: &[&str],
    script: &str,
) -> Result<Guest> {
    let config = with_script(&live_config_of(lab, options)?, script)?;
    std::fs::write(folder.join("live.ign"), &config)?;
    let boot = boot::live("live", folder, machine, &config)?;
    Guest::start("live", folder, machine, &boot, LIVE)
}

/// The Ignition config of the live image for this lab VIM.
pub(crate) fn live_config_of(lab: &Lab, options: &[&str]) -> Result<Vec<u8>> {
    let agent = agent_binary()?.display().to_string();
    let url = lab.url_ipv4();
    let binary_url = format!("{url}/ocp/run-coreos-installer.gz");
    let of_lab =
        ["--vim", &url, "--allow-plain-http", "--binary", &agent, "--binary-url", &binary_url];
    // The images of the tests have no signature.
    let insecure = ["--agent-option", "allow-insecure-image=true"];
    live_config(&[&of_lab[..], &insecure, options].concat())
}

/// What `live-config` prints.
pub(crate) fn live_config(options: &[&str]) -> Result<Vec<u8>> {
    let agent = agent_binary()?;
    let output = Command::new(agent)
        // The agent refuses RCI_* variables that are no options, e.g. RCI_STATIC_AGENT.
        .env_clear()
        .arg("live-config")
        .args(options)
        .output()
        .with_context(|| format!("running {}", agent.display()))?;
    if !output.status.success() {
        bail!("live-config: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// Adds a unit that runs `script` before the agent to an Ignition config; none for an empty script.
fn with_script(config: &[u8], script: &str) -> Result<Vec<u8>> {
    if script.is_empty() {
        return Ok(config.to_owned());
    }
    let mut config: Value = serde_json::from_slice(config)?;
    let files = config["storage"]["files"].as_array_mut().context("a config without files")?;
    files.push(json!({
        "path": "/usr/local/bin/prepare", "mode": 0o755,
        "contents": {"source": format!("data:,{}", percent(script))},
    }));
    let unit = "[Unit]\nDescription=Prepare the disks of the test\nBefore=run-coreos-installer.service\n\n\
                [Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/local/bin/prepare\n\
                StandardOutput=journal+console\nStandardError=journal+console\n\n\
                [Install]\nRequiredBy=run-coreos-installer.service\n";
    let units = config["systemd"]["units"].as_array_mut().context("a config without units")?;
    units.push(json!({"name": "prepare.service", "enabled": true, "contents": unit}));
    Ok(config.to_string().into_bytes())
}

/// Boots the installed disk and returns the line that Ignition's unit prints.
pub(crate) fn boot_installed(name: &str, folder: &Path) -> Result<String> {
    let disk = folder.join("target.raw");
    let boot = boot::installed(name, folder, &disk, "console=ttyS0 mitigations=off")?;
    let mut guest = Guest::start(name, folder, &Machine::installed(), &boot, INSTALLED)?;
    let line = guest.wait_for("PROOF file=")?.text;
    guest.wait_for_end()?;
    Ok(line)
}

/// Checks of an install that takes long enough to have progress: also that the events show some.
pub(crate) fn check_installed(lab: &Lab) -> Result<()> {
    check_proved(lab)?;
    let events = lab.sent("events", Duration::ZERO)?;
    let events = events["events"].as_array().context("no list of events")?;
    let percents: Vec<_> = events
        .iter()
        .filter(|event| event["stage"] == "write")
        .filter_map(|event| event["percent"].as_u64())
        .collect();
    ensure!(
        percents.iter().any(|percent| (1..100).contains(percent)),
        "no progress of the write among {percents:?}"
    );
    Ok(())
}

/// Checks of every install: the result, each proof, and the order of the stages in the events.
pub(crate) fn check_proved(lab: &Lab) -> Result<()> {
    let result = lab.sent("result", Duration::ZERO)?;
    ensure!(result["outcome"] == "installed", "the result says {result:#}");
    let checks = result["proof"]["checks"].as_array().context("the result has no proof")?;
    let failed: Vec<_> =
        checks.iter().filter(|check| check["ok"] != true && check["fatal"] == true).collect();
    ensure!(failed.is_empty(), "these proofs failed: {failed:?}");
    for wanted in ["partition_table", "ignition_digest", "kernel_arguments"] {
        ensure!(
            checks.iter().any(|check| check["name"] == wanted && check["ok"] == true),
            "no proof \"{wanted}\" in {checks:?}"
        );
    }
    let events = lab.sent("events", Duration::ZERO)?;
    let events = events["events"].as_array().context("no list of events")?;
    let stages: Vec<_> = events.iter().filter_map(|event| event["stage"].as_str()).collect();
    let mut at = 0;
    for stage in ["report", "instruction", "preflight", "write", "proof"] {
        let found = stages[at..].iter().position(|&found| found == stage);
        at += found.with_context(|| {
            format!("no event of stage \"{stage}\" in its place among {stages:?}")
        })?;
    }
    Ok(())
}

/// Installs a bare machine, boots it twice, and checks each step; files and logs are in `target/vm/FOLDER/`.
pub(crate) fn whole_job(folder: &str, narrator: &mut Narrator) -> Result<()> {
    let proof = nonce()?;
    let (folder, lab) = start_lab(folder, &proof, &["--db", "vim.sqlite"])?;
    narrator.follow(&lab);
    let machine = Machine::plain(2048, vec![Machine::target_disk()]);
    narrator.say("a bare virtual machine boots the live image; systemd starts the agent");
    let mut live = start_live(&folder, &machine, &lab)?;
    live.wait_for_end()?;
    lab.keep(&folder)?;
    narrator.say("systemd has rebooted the machine; checking what was reported and written");
    check_installed(&lab)?;
    let differences = differences(&machine, &lab.sent("report", Duration::ZERO)?);
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    let ignition = boot::boot_file(&folder.join("target.raw"), "/ignition/config.ign")?;
    ensure!(
        ignition.as_deref() == Some(installed_ignition(&proof).as_bytes()),
        "the disk has another Ignition config"
    );

    narrator.say("the installed system boots; the real Ignition applies the VIM's config");
    let first = boot_installed("first", &folder)?;
    narrator.say(&format!("first boot: {first}"));
    let shown = format!("PROOF file={proof} mode=600 host=from-ignition user=1000");
    ensure!(first.contains(&format!("{shown} boot=1")), "the first boot showed {first:?}");
    let second = boot_installed("second", &folder)?;
    narrator.say(&format!("second boot, without Ignition: {second}"));
    ensure!(second.contains(&format!("{shown} boot=0")), "the second boot showed {second:?}");
    narrator.finish(&lab, &folder)
}
