//! For tests: runs one of them again in a network namespace of its own (`network_namespaces(7)`).

use std::process::Command;

use crate::skipped::skipped;

/// Set in the process that runs inside.
const INSIDE: &str = "RCI_IN_NAMESPACE";

/// Whether the caller is inside and should go on. Outside, this runs the test `name` alone in new namespaces, after
/// `script` has made its ports there, and fails if that fails. Where no namespace is permitted it says so.
///
/// # Panics
/// The test fails inside, or its ports cannot be made.
pub(crate) fn enter(name: &str, script: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["-n", "-m"]);
        command
    };
    if !unshare().arg("true").status().is_ok_and(|status| status.success()) {
        skipped("no network namespace is permitted here");
        return false;
    }
    let program = std::env::current_exe().unwrap();
    let script = format!("{script} && exec {} --exact {name} --nocapture", program.display());
    let status = unshare().args(["sh", "-c", &script]).env(INSIDE, "1").status();
    assert!(status.unwrap().success(), "{name} failed in its namespace");
    false
}
