//! The agent that the guests run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

use crate::artifacts::repository;
use crate::cpio::GuestFile;

/// The agent's path in a guest.
const IN_GUEST: &str = "usr/local/bin/run-coreos-installer";

/// The agent to run: the one that `RCI_STATIC_AGENT` names if that exists, else the one that cargo built for the tests.
pub(crate) fn agent_binary() -> Result<&'static Path> {
    static BINARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let binary = BINARY.get_or_init(|| {
        let named = std::env::var_os("RCI_STATIC_AGENT").map(PathBuf::from);
        named.filter(|path| path.exists()).or_else(stripped_test_build)
    });
    binary.as_deref().context("RCI_STATIC_AGENT names no file, expected the static agent")
}

/// The tests' own build without debug information, which makes it thirty times as large: too much for a small guest's memory.
fn stripped_test_build() -> Option<PathBuf> {
    // Cargo sets the variable for the tests of the agent's package alone, so the demo has none.
    let built = Path::new(option_env!("CARGO_BIN_EXE_run-coreos-installer")?);
    let folder = repository().join("target/vm");
    let stripped = folder.join("agent");
    let is_stripped = std::fs::create_dir_all(&folder).is_ok()
        && Command::new("strip")
            .arg("-o")
            .arg(&stripped)
            .arg(built)
            .status()
            .is_ok_and(|status| status.success());
    Some(if is_stripped { stripped } else { built.to_owned() })
}

/// The agent with the shared libraries that it needs, if any; the tiny system has none.
pub(crate) fn agent_files() -> Result<Vec<GuestFile>> {
    let binary = agent_binary()?;
    let content = std::fs::read(binary).with_context(|| format!("reading {}", binary.display()))?;
    let mut files = vec![GuestFile::new(IN_GUEST, 0o755, content)];
    let output = Command::new("ldd").arg(binary).output().context("running ldd")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && !stderr.contains("not a dynamic") {
        bail!("ldd {}: {stderr}", binary.display());
    }
    for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
        files.push(GuestFile::new(library, 0o755, std::fs::read(library)?));
    }
    Ok(files)
}
