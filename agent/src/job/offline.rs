//! An install without a VIM: the instruction comes from the configuration, the result goes to a file and to the
//! console. Everything between them is the same job.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tracing::{error, info, warn};

use super::sequence::Job;
use super::{Ended, JobSettings};
use crate::act::{Check, Order, Stage, State};
use crate::api::{Action, JobResult, Outcome};
use crate::checkpoint;
use crate::engines::vim::client::result_as_json;
use crate::exit_status::ExitStatus;
use crate::whole_file;

/// The `request_id` of its instruction.
pub const REQUEST_ID: &str = "offline";
/// Number of coreos-installer's last lines that are shown after a failure. The result has more.
const MAX_SHOWN_LINES: usize = 5;
/// The permissions of the result, as far as the umask allows.
const MODE: u32 = 0o666;
/// The longest file that is searched for a result, in bytes.
const MAX_RESULT_BYTES: u64 = 16 << 20;

/// An install without a VIM.
#[derive(Debug, Clone, PartialEq)]
pub struct Offline {
    /// The order.
    pub order: Order,
    /// The name of the order in events and the result.
    pub request_id: String,
    /// Why, for people.
    pub reason: &'static str,
    /// The file for the result.
    pub result: PathBuf,
    /// The action after the install.
    pub after: After,
}

/// The action after an install without a VIM. No action follows a failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum After {
    /// Exit with status 0, after which the unit of the live image reboots
    #[default]
    Reboot,
    /// Power the machine off
    Poweroff,
    /// Exit with status 7, after which nothing reboots
    Stay,
    /// Nothing: the caller says what happens
    #[value(skip)]
    Ordered,
}

impl Offline {
    /// Removes the result of an earlier run, and nothing else, and checks that this one can be written.
    pub(super) fn prepare(&self, settings: &JobSettings) -> io::Result<()> {
        if self.result.parent() == Some(&settings.site.run_dir) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&settings.site.run_dir)?;
        }
        self.check_file()?;
        remove(&self.result)?;
        whole_file::begin(&self.result, MODE).map(drop)
    }

    /// Checks that the file is absent or contains an earlier result: it may be an input that was named by mistake.
    fn check_file(&self) -> io::Result<()> {
        match fs::symlink_metadata(&self.result) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
            Ok(found) if !found.is_file() => return Err(io::Error::other("it is no regular file")),
            Ok(_) => {}
        }
        let bytes = crate::bounded::read_file(&self.result, MAX_RESULT_BYTES).unwrap_or_default();
        if is_result(&bytes) {
            return Ok(());
        }
        let what = "it contains something other than the result of an earlier install, and is kept; name another file";
        Err(io::Error::other(what))
    }

    /// Writes the result of a failed job, and logs where it is.
    pub(super) fn deliver(&self, result: &JobResult) {
        match self.write(result) {
            Ok(()) => info!("the result is in {}", self.result.display()),
            Err(error) => error!("the result is not in its file: {error}"),
        }
    }

    /// Writes the whole result or, if that fails, nothing.
    fn write(&self, result: &JobResult) -> Result<(), String> {
        let mut json = result_as_json(result)?;
        json.push(b'\n');
        let write = || {
            let mut draft = whole_file::begin(&self.result, MODE)?;
            draft.write_all(&json)?;
            self.check_file()?;
            whole_file::keep(draft, &self.result)?;
            checkpoint::update(|checkpoint| checkpoint.is_over = true);
            Ok(())
        };
        write().map_err(|error: io::Error| format!("writing {}: {error}", self.result.display()))
    }
}

fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl Job<'_> {
    /// Carries out the order of the configuration, or of an engine that has fetched it itself.
    pub(super) fn carry_out_offline(&mut self, offline: &Offline) -> Ended {
        self.receive(None);
        let action = Action::Install.as_str();
        self.request_id = Some(offline.request_id.clone());
        self.events.set_request(Some(&offline.request_id));
        self.open_events();
        info!("order {} asks for {action}: {}", offline.request_id, offline.reason);
        self.event(Stage::Instruction, State::Done, Some(action));
        self.await_disks();
        self.install(&offline.order)
    }

    /// Ends the job with an installed disk, without a VIM.
    pub(super) fn end_offline(&mut self, offline: &Offline, result: JobResult) -> Ended {
        show(&result);
        let exit_status = match offline.write(&result) {
            Ok(()) => {
                info!("the result is in {}", offline.result.display());
                self.leave(offline.after)
            }
            Err(error) => {
                error!("{}, but the result is not in its file: {error}", result.message);
                error!("what to do: reboot by hand; the disk is good");
                ExitStatus::NotReported
            }
        };
        Ended { exit_status, result: Some(Box::new(result)) }
    }

    /// Shows and writes the result of a failed job.
    pub(super) fn deliver_failure(&self, offline: &Offline, result: &JobResult) {
        show(result);
        let n_left_out = result.log_tail.len().saturating_sub(MAX_SHOWN_LINES);
        for line in result.log_tail.iter().skip(n_left_out) {
            error!("coreos-installer: {line}");
        }
        // A dry run changes nothing, not even the result of an earlier run.
        if !self.settings.is_dry_run {
            offline.deliver(result);
        }
    }

    fn leave(&mut self, after: After) -> ExitStatus {
        match after {
            After::Reboot => ExitStatus::Done,
            After::Ordered => ExitStatus::Staying,
            After::Stay => {
                info!("staying up, as configured: boot the installed disk by hand");
                ExitStatus::Staying
            }
            After::Poweroff => {
                info!("powering off, as configured");
                self.switch_off(ExitStatus::Staying, "the disk is installed and proved")
            }
        }
    }
}

/// Shows a VIM's view of the result on the console.
fn show(result: &JobResult) {
    for warning in &result.warnings {
        warn!("{warning}");
    }
    for line in words(result) {
        info!("{line}");
    }
}

/// Describes a result. Facts that are already in the log are left out.
fn words(result: &JobResult) -> Vec<String> {
    let mut lines = Vec::new();
    if result.outcome == Outcome::Installed {
        lines.push(format!("installed: {}", result.message));
    }
    if !result.existing_data.is_empty() {
        let found = result.existing_data.iter().map(|data| format!("{} {}", data.name, data.what));
        lines.push(format!("the disk contained: {}", found.collect::<Vec<_>>().join("; ")));
    }
    if let Some(image) = &result.image {
        let digest = image.digest.iter().map(|digest| format!(", {digest}"));
        let size = image.size_bytes.iter().map(|bytes| format!(", {bytes} bytes"));
        let parts: String = size.chain(digest).collect();
        lines.push(format!("image: {}{parts}", image.source));
    }
    if let Some(proof) = &result.proof {
        let n_passed = proof.checks.iter().filter(|check| check.ok).count();
        lines.push(format!("proof: {n_passed} of {} checks passed", proof.checks.len()));
        // One failure is the message of the result.
        if n_passed + 1 < proof.checks.len() {
            lines.extend(proof.checks.iter().filter(|check| !check.ok).map(failed));
        }
    }
    lines
}

fn failed(check: &Check) -> String {
    let or_absent = |text: &Option<String>| text.clone().unwrap_or_else(|| "absent".into());
    let (name, found) = (check.name.as_str(), or_absent(&check.found));
    format!("proof failed: {name} is {found}, expected {}", or_absent(&check.expected))
}

/// The keys that every result has.
const RESULT_KEYS: [&str; 9] = [
    "api_version",
    "node_id",
    "outcome",
    "stage",
    "message",
    "disk_state",
    "attempts",
    "started_at",
    "finished_at",
];

/// True if a file contains a result. Only its keys are looked at: a parser of the type would be 60 kB of the binary.
fn is_result(bytes: &[u8]) -> bool {
    let found = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    RESULT_KEYS.iter().all(|key| found.get(key).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_recognised_by_the_keys_that_its_type_requires() {
        let mut result = serde_json::json!({
            "api_version": "1", "node_id": "node-1", "outcome": "failed", "stage": "preflight", "message": "",
            "disk_state": "untouched", "attempts": 0,
            "started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:00:01Z",
        });
        serde_json::from_value::<JobResult>(result.clone()).unwrap();
        assert!(is_result(result.to_string().as_bytes()));
        for key in RESULT_KEYS {
            let value = result.as_object_mut().unwrap().remove(key).unwrap();
            assert!(!is_result(result.to_string().as_bytes()), "{key}");
            assert!(serde_json::from_value::<JobResult>(result.clone()).is_err(), "{key}");
            result[key] = value;
        }
        assert!(!is_result(b"") && !is_result(b"[]") && !is_result(b"{}"));
    }
}
