//! The file with the result of an install that is posted to no VIM, and its lines on the console.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tracing::{error, info, warn};

use super::client::json;
use super::result::result;
use crate::act::say::Words;
use crate::act::{Check, Outcome, Site};
use crate::api::openapi::schema;
use crate::api::{self, JobResult};
use crate::job::Node;
use crate::whole_file;

/// Name of the file of an engine that has no option for it.
pub(crate) const NAME: &str = "result.json";
/// Number of coreos-installer's last lines that are shown after a failure. The result has more.
const MAX_SHOWN_LINES: usize = 5;
/// The permissions of the result, as far as the umask allows.
const MODE: u32 = 0o666;
/// The longest file that is searched for a result, in bytes.
const MAX_RESULT_BYTES: u64 = 16 << 20;

/// The file.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultFile(pub PathBuf);

impl ResultFile {
    /// The file of an engine that has no option for it.
    pub(crate) fn of(site: &Site) -> Self {
        Self(site.run_dir.join(NAME))
    }

    /// Shows and writes the result of an engine that has no option for the file.
    pub(crate) fn conclude(node: &mut Node, outcome: &Outcome, words: Words) -> JobResult {
        let result = result(node, outcome, words);
        Self::of(&node.settings.site).deliver(&result);
        node.show_ending();
        result
    }

    /// Removes the result of an earlier run, and nothing else, and checks that this one can be written.
    pub(crate) fn prepare(&self, run_dir: &Path) -> io::Result<()> {
        if self.0.parent() == Some(run_dir) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(run_dir)?;
        }
        self.check_file()?;
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => whole_file::begin(&self.0, MODE).map(drop),
        }
    }

    /// Checks that the file is absent or contains an earlier result: it may be an input that was named by mistake.
    fn check_file(&self) -> io::Result<()> {
        match fs::symlink_metadata(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
            Ok(found) if !found.is_file() => return Err(io::Error::other("it is no regular file")),
            Ok(_) => {}
        }
        let bytes = crate::bounded::read_file(&self.0, MAX_RESULT_BYTES).unwrap_or_default();
        if is_result(&bytes) {
            return Ok(());
        }
        let what = "it contains something other than the result of an earlier install, and is kept; name another file";
        Err(io::Error::other(what))
    }

    /// Shows and writes a result. Failures are logged; returns false after one.
    pub(crate) fn deliver(&self, result: &JobResult) -> bool {
        show(result);
        let n_left_out = result.log_tail.len().saturating_sub(MAX_SHOWN_LINES);
        for line in result.log_tail.iter().skip(n_left_out).filter(|_| result.code.is_some()) {
            error!("coreos-installer: {line}");
        }
        self.write(result)
            .map(|()| info!("the result is in {}", self.0.display()))
            .map_err(|error| error!("the result is not in its file: {error}"))
            .is_ok()
    }

    /// Writes the whole result or, if that fails, nothing.
    fn write(&self, result: &JobResult) -> Result<(), String> {
        let mut text = json(result, "the result").map_err(|failed| failed.message)?;
        text.push(b'\n');
        let write = || {
            let mut draft = whole_file::begin(&self.0, MODE)?;
            draft.write_all(&text)?;
            self.check_file()?;
            whole_file::keep(draft, &self.0)?;
            Ok(())
        };
        write().map_err(|error: io::Error| format!("writing {}: {error}", self.0.display()))
    }
}

/// Shows a VIM's view of the result on the console.
pub(crate) fn show(result: &JobResult) {
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
    match result.outcome {
        api::Outcome::Installed => lines.push(format!("installed: {}", result.message)),
        api::Outcome::Reignited => lines.push(format!("reignited: {}", result.message)),
        api::Outcome::AlreadyInstalled => lines.push(format!("nothing to do: {}", result.message)),
        _ => {}
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
    let (name, found) = (check.name, or_absent(&check.found));
    format!("proof failed: {name} is {found}, expected {}", or_absent(&check.expected))
}

/// True if a file contains a result. Only its keys are looked at: a parser of the type would be 60 kB of the binary.
fn is_result(bytes: &[u8]) -> bool {
    let found = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    let schema = schema("Result").unwrap_or_default();
    let keys = schema.get("required").and_then(Value::as_array);
    keys.is_some_and(|keys| {
        keys.iter().all(|key| found.get(key.as_str().unwrap_or_default()).is_some())
    })
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
        result.as_object_mut().unwrap().remove("attempts");
        for other in [result.to_string().as_str(), "", "[]", "{}"] {
            assert!(!is_result(other.as_bytes()), "{other}");
        }
    }
}
