//! The agent as the guests run it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

use crate::artifacts::repository;
use crate::cpio::GuestFile;

/// Where the agent lies in a guest.
const IN_GUEST: &str = "usr/local/bin/run-coreos-installer";

/// The binary under test: the static one that `make` names in `RCI_STATIC_AGENT` where that exists, else this build's own.
pub(crate) fn agent_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let named = std::env::var_os("RCI_STATIC_AGENT").map(PathBuf::from);
        named.filter(|path| path.exists()).unwrap_or_else(own_binary)
    })
}

/// This build's binary without debug information, which is thirty times the program and would fill a small guest's memory.
fn own_binary() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_run-coreos-installer"));
    let folder = repository().join("target/vm");
    let stripped = folder.join("agent");
    let made = std::fs::create_dir_all(&folder).is_ok()
        && Command::new("strip")
            .arg("-o")
            .arg(&stripped)
            .arg(built)
            .status()
            .is_ok_and(|status| status.success());
    if made { stripped } else { built.to_owned() }
}

/// The agent with the shared libraries that it needs, if it is not static, for the tiny system, which has none.
pub(crate) fn agent_files() -> Result<Vec<GuestFile>> {
    let binary = agent_binary();
    let content = std::fs::read(binary).with_context(|| format!("reading {}", binary.display()))?;
    let mut files = vec![GuestFile::new(IN_GUEST, 0o755, content)];
    let output = Command::new("ldd").arg(binary).output().context("running ldd")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && !complaint.contains("not a dynamic") {
        bail!("ldd {}: {complaint}", binary.display());
    }
    for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
        files.push(GuestFile::new(library, 0o755, std::fs::read(library)?));
    }
    Ok(files)
}
