//! Makes the running live system the bootstrap host of a cluster: Ignition applies a config to it, systemd starts its units.
//!
//! `ignition-apply` (coreos/ignition, `internal/apply/apply.go`) carries out the stage `files` alone, so no disk is
//! partitioned or formatted. It skips users with `--ignore-unsupported`, and runs only where the variable `container` is
//! set. Units that a config enables get a preset, which systemd would apply at the first boot. The units and their order
//! are those of assisted-installer (openshift/assisted-installer, `src/installer/installer.go`).

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tracing::{info, warn};

use super::programs::Output;
use super::{Code, Failure, Site, System};
use crate::{clean, random, secret, whole_file};

/// Ignition's program below the root: as its package installs it, and among the sources of the initramfs.
const PROGRAMS: [&str; 2] =
    ["usr/libexec/ignition-apply", "usr/lib/dracut/modules.d/30ignition/ignition"];
/// The name by which the program does this and nothing else.
const NAME: &str = "ignition-apply";
/// The units that make the temporary control plane.
const UNITS: [&str; 3] = ["bootkube.service", "approve-csr.service", "progress.service"];
/// Exists once the control plane has moved to the other hosts.
const DONE: &str = "opt/openshift/.bootkube.done";
/// Time limit for Ignition, and for systemctl.
const LIMIT: Duration = Duration::from_mins(5);
/// Most of what a program prints that is read; Ignition prints two lines for each file.
const MAX_OUTPUT_BYTES: usize = 4 << 20;
/// The longest part of it in a message, in characters.
const MAX_SHOWN_CHARS: usize = 500;

/// A bootstrap that cannot go on.
pub(crate) fn failed(message: impl Into<String>) -> Failure {
    Failure::new(Code::BootstrapFailed, message.into()).advise(
        "read the log of bootkube.service; to try again, boot the live image again and reset the cluster",
    )
}

/// Applies the config to the live system, and starts the control plane. `is_single` if the host is to be the only one.
///
/// # Errors
/// Nothing was changed: the config is not usable, or one was applied before. Or a program failed.
pub(crate) fn begin(site: &Site, config: &[u8], is_single: bool) -> Result<(), Failure> {
    secret::conceal_config(config);
    check(config)?;
    let system = &site.system;
    if system.ask(probes::os::is_live_image) != Ok(true) {
        let what = "the running system is no live image, and a bootstrap config would change it";
        return Err(failed(what).advise("boot the discovery image"));
    }
    if is_done(system) {
        return Err(failed(format!(
            "/{DONE} exists: this live system was a bootstrap host before"
        )));
    }
    apply(site, config)?;
    info!("Ignition applied the bootstrap config to the live system");
    let config: Value = serde_json::from_slice(config).unwrap_or_default();
    let units = config["systemd"]["units"].as_array();
    let enabled = units.into_iter().flatten().filter(|unit| unit["enabled"] == true);
    let enabled: Vec<&str> = enabled.filter_map(|unit| unit["name"].as_str()).collect();
    // The units below start without it.
    if !enabled.is_empty()
        && let Err(failure) = systemctl(system, &[&["preset", "--"][..], &enabled].concat())
    {
        warn!("{}", failure.message);
    }
    systemctl(system, &["daemon-reload"])?;
    name_host(system);
    if !is_single {
        // Its dispatcher makes the names of the cluster known to the resolver.
        systemctl(system, &["restart", "NetworkManager.service"])?;
    }
    // A start may wait for downloads of units that are needed first.
    systemctl(system, &[&["start", "--no-block"][..], &UNITS].concat())?;
    info!("the temporary control plane was started");
    Ok(())
}

/// Refuses what Ignition would refuse after a part is applied, and what may not come from this config.
fn check(config: &[u8]) -> Result<(), Failure> {
    let invalid = |what: String| {
        let what = format!("the bootstrap config: {what}; it was not applied");
        Failure::new(Code::IgnitionInvalid, what).advise("reset the cluster in the service")
    };
    let checked = ignition::check(config).map_err(|refusal| invalid(refusal.to_string()))?;
    if checked.may_fetch {
        return Err(invalid("it refers to other files, expected one that contains all".into()));
    }
    if let Some(erased) = checked.erased.first() {
        let what = format!("{} erases a disk, expected files and units only", erased.key);
        return Err(invalid(what));
    }
    Ok(())
}

fn apply(site: &Site, config: &[u8]) -> Result<(), Failure> {
    let root = site.system.root();
    let program = PROGRAMS.map(|path| root.join(path)).into_iter().find(|path| path.exists());
    let program = program.ok_or_else(|| {
        let what = format!("neither /{} nor /{} exists", PROGRAMS[0], PROGRAMS[1]);
        failed(what).advise("use a live image with Ignition 2.14 or later")
    })?;
    let (link, file) = (site.run_dir.join(NAME), site.run_dir.join("bootstrap.ign"));
    let _config = prepare(&program, &link, &file, config).map_err(|error| match error.kind() {
        // The link stays: a second config, or the same one again, would find the files of the first.
        io::ErrorKind::AlreadyExists => {
            failed("a bootstrap config was applied since this live system booted")
        }
        _ => failed(format!("writing to {}: {error}", site.run_dir.display())),
    })?;
    let words = [
        "container=run-coreos-installer".into(),
        link,
        "--root".into(),
        root.to_owned(),
        "--offline".into(),
        "--ignore-unsupported".into(),
        file,
    ];
    let args = words.map(|word: PathBuf| word.to_string_lossy().into_owned());
    let is_fault = |line: &&str| line.starts_with("CRITICAL");
    run(&site.system, "env", &args, NAME, |text| text.lines().rfind(is_fault))
}

/// Gives the program its name, and writes the config for it, which is deleted when it is dropped.
fn prepare(
    program: &Path,
    link: &Path,
    file: &Path,
    config: &[u8],
) -> io::Result<tempfile::TempPath> {
    if let Some(folder) = link.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    symlink(program, link)?;
    whole_file::write(file, 0o600, config)?;
    tempfile::TempPath::try_from_path(file)
}

/// `localhost` would let `NetworkManager` change the name during the bootstrap, and with it the resolver.
fn name_host(system: &System) {
    let name = system.ask(|machine| machine.text("proc/sys/kernel/hostname")).ok().flatten();
    if name.is_none_or(|name| name.is_empty() || name.starts_with("localhost")) {
        let name = format!("bootstrap-{}\n", random::uuid());
        let file = system.root().join("etc/hostname");
        whole_file::write(&file, 0o644, name.as_bytes())
            .unwrap_or_else(|error| warn!("writing /etc/hostname: {error}"));
    }
}

/// Returns true once the control plane has moved to the other hosts.
pub(crate) fn is_done(system: &System) -> bool {
    system.root().join(DONE).exists()
}

/// The state of a unit in systemd's word, e.g. `inactive`.
pub(crate) fn state_of(system: &System, unit: &str) -> Result<String, String> {
    let args = ["is-active", unit].map(str::to_owned);
    let command = (Path::new("systemctl"), &args[..]);
    let printed = system.output_of(command, LIMIT, MAX_SHOWN_CHARS, |_| false);
    printed.map(|(text, _)| clean::text(text.trim(), MAX_SHOWN_CHARS))
}

fn systemctl(system: &System, words: &[&str]) -> Result<(), Failure> {
    let args: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    let what = format!("systemctl {}", words[0]);
    run(system, "systemctl", &args, &what, |text| text.lines().last())
}

/// Runs a program to its end. `reason` finds the line that says why it failed.
fn run(
    system: &System,
    program: &str,
    args: &[String],
    what: &str,
    reason: impl Fn(&str) -> Option<&str>,
) -> Result<(), Failure> {
    let (command, limits) = ((Path::new(program), args), (LIMIT, MAX_OUTPUT_BYTES));
    match system.printed_by(command, Output::Both, limits, |_| false) {
        Ok((_, Some(0))) => Ok(()),
        Ok((text, status)) => {
            let status = status.map_or("a signal".into(), |code| format!("exit status {code}"));
            let reason = clean::text(reason(&text).unwrap_or_default(), MAX_SHOWN_CHARS);
            Err(failed(format!("{what} ended with {status}: {reason}")))
        }
        Err(why) => Err(failed(format!("running {what}: {why}"))),
    }
}
