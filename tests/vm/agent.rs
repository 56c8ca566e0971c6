//! The agent that the guests run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

use crate::artifacts::repository;
use crate::cpio::GuestFile;

/// The agent to run: the one that `RCI_STATIC_AGENT` names, else the one that was built with this program.
pub(crate) fn agent_binary() -> Result<&'static Path> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let binary = BINARY.get_or_init(|| match std::env::var_os("RCI_STATIC_AGENT") {
        Some(path) => Ok(PathBuf::from(path)),
        None => stripped().map_err(|err| format!("{err:#}")),
    });
    match binary {
        Ok(path) => Ok(path),
        Err(err) => bail!("{err}"),
    }
}

/// A program that cargo built with this one: in the same folder, or for tests in the one above.
pub(crate) fn built(program: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("finding this program")?;
    let folder = own.parent().filter(|folder| !folder.ends_with("deps"));
    let folder = folder.or_else(|| own.parent()?.parent());
    Ok(folder.context("this program is in no folder")?.join(program))
}

/// A copy without debug information, with which it is too large for a small guest's memory.
fn stripped() -> Result<PathBuf> {
    let folder = repository().join("target/vm");
    std::fs::create_dir_all(&folder)?;
    let (built, stripped) = (built("run-coreos-installer")?, folder.join("agent"));
    // Tests run at the same time, each as a process of its own.
    let new = folder.join(format!("agent-{}", std::process::id()));
    let status = Command::new("strip").arg("-o").arg(&new).arg(&built).status();
    if !status.context("running strip")?.success() {
        bail!("strip {} failed", built.display());
    }
    std::fs::rename(&new, &stripped).context("renaming the stripped agent")?;
    Ok(stripped)
}

/// The agent as a file of a guest. It is static, so it needs no other.
pub(crate) fn agent_file() -> Result<GuestFile> {
    let binary = agent_binary()?;
    let content = std::fs::read(binary).with_context(|| format!("reading {}", binary.display()))?;
    Ok(GuestFile::new("usr/local/bin/run-coreos-installer", 0o755, content))
}
