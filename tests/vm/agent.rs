//! The agent as the guests run it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cpio::GuestFile;

/// Where the agent lies in a guest.
const IN_GUEST: &str = "usr/local/bin/run-coreos-installer";

/// The binary under test: the static one that `make` names in `RCI_STATIC_AGENT` where that exists, else this build's own.
pub(crate) fn agent_binary() -> PathBuf {
    std::env::var_os("RCI_STATIC_AGENT")
        .map(PathBuf::from)
        .filter(|path| path.exists())
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_run-coreos-installer")))
}

/// The agent with the shared libraries that it needs, if it is not static, for the tiny system, which has none.
pub(crate) fn agent_files() -> Result<Vec<GuestFile>> {
    let binary = agent_binary();
    let content =
        std::fs::read(&binary).with_context(|| format!("reading {}", binary.display()))?;
    let mut files = vec![GuestFile::new(IN_GUEST, 0o755, content)];
    let output = Command::new("ldd").arg(&binary).output().context("running ldd")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success()
        && !text.contains("statically linked")
        && !String::from_utf8_lossy(&output.stderr).contains("not a dynamic")
    {
        bail!("ldd {}: {}", binary.display(), String::from_utf8_lossy(&output.stderr));
    }
    for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
        files.push(GuestFile::new(library, 0o755, std::fs::read(library)?));
    }
    Ok(files)
}
