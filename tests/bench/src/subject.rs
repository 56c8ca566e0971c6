//! A machine that is measured: this one, or a captured tree.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// A machine to make reports of.
#[derive(Debug)]
pub(crate) struct Subject {
    /// Its title in the table.
    pub(crate) title: String,
    /// The unpacked tree; absent for the running machine.
    pub(crate) root: Option<PathBuf>,
    /// Its SMBIOS table in the form of `dmidecode --from-dump`.
    pub(crate) smbios_dump: Option<PathBuf>,
    /// How many logical CPUs are online.
    pub(crate) n_logical_cpus: Option<u32>,
}

impl Subject {
    pub(crate) fn this_machine() -> Subject {
        let model = first_model(Path::new("/proc/cpuinfo")).unwrap_or_default();
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let n = n_cpus(Path::new("/"));
        let cpus = n.map(|n| format!("{n} logical CPUs")).unwrap_or_default();
        let title = format!("This machine: {model}, {cpus}, kernel {}", kernel.trim());
        Subject { title, root: None, smbios_dump: None, n_logical_cpus: n }
    }

    /// A directory with `root/`, and `smbios.dump.bin` if there is a table.
    pub(crate) fn tree(dir: &Path) -> Result<Subject> {
        let root = dir.join("root");
        let root = if root.is_dir() { root } else { dir.to_owned() };
        anyhow::ensure!(root.join("sys").is_dir(), "{} has no tree", dir.display());
        let name = dir.file_name().context("a tree has a name")?.to_string_lossy();
        let n = n_cpus(&root);
        let cpus = n.map(|n| format!(", {n} logical CPUs")).unwrap_or_default();
        let dump = Some(dir.join("smbios.dump.bin")).filter(|path| path.exists());
        let title = format!("Captured tree {name}{cpus}");
        Ok(Subject { title, root: Some(root), smbios_dump: dump, n_logical_cpus: n })
    }
}

fn first_model(cpuinfo: &Path) -> Option<String> {
    let text = std::fs::read_to_string(cpuinfo).ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(": ")?.1.trim().to_owned())
}

/// Counts the CPUs of a list such as `0-3,8`.
fn n_cpus(root: &Path) -> Option<u32> {
    let online = std::fs::read_to_string(root.join("sys/devices/system/cpu/online")).ok()?;
    let ranges = online.trim().split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(last.parse::<u32>().ok()?.checked_sub(first.parse().ok()?)? + 1)
    });
    ranges.sum()
}
