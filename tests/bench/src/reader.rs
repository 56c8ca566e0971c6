//! The bare reader: opens and reads exactly the files from which the agent took its facts, and nothing
//! else. No program that looks at the same facts can cost less.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::subject::Subject;
use crate::tools::{self, Tool};

/// Reads every file of a list: `read LIST [DIRECTORY]`.
pub(crate) fn read(arguments: &[String]) -> Result<()> {
    let list = arguments.first().context("read LIST [DIRECTORY]")?;
    if let Some(directory) = arguments.get(1) {
        std::env::set_current_dir(directory)?;
    }
    let mut buffer = vec![0; 1 << 16];
    for path in std::fs::read_to_string(list)?.lines() {
        let Ok(mut file) = File::open(path) else { continue };
        while file.read(&mut buffer).is_ok_and(|n| n > 0) {}
    }
    Ok(())
}

/// The command that reads what the agent reads.
pub(crate) fn command(agent: &Path, subject: &Subject) -> Result<Tool> {
    let list = std::env::temp_dir().join(format!("rci-bench-{}.list", std::process::id()));
    let paths = files_read(&tools::agent(agent, subject))?;
    std::fs::write(&list, paths.join("\n"))?;
    let own = std::env::current_exe()?;
    let tool =
        Tool::new("bare reader", &[&*own.to_string_lossy(), "read", &*list.to_string_lossy()]);
    let root = subject.root.as_deref().unwrap_or(Path::new("/"));
    Ok(tool.with(&root.to_string_lossy()))
}

/// Files that a run opens with success, directories and libraries left out; relative to the root.
fn files_read(tool: &Tool) -> Result<Vec<String>> {
    let trace = std::env::temp_dir().join(format!("rci-bench-{}.opens", std::process::id()));
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=openat,openat2", "-e", "signal=none", "-o"]).arg(&trace);
    command.args(tool.words()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().context("strace does not run")?;
    let text = std::fs::read_to_string(&trace)?;
    std::fs::remove_file(&trace).ok();
    Ok(text.lines().filter_map(file_read).collect())
}

/// The path of a line such as `7 openat2(3, "proc/meminfo", {flags=O_RDONLY|…}, 24) = 5`.
fn file_read(line: &str) -> Option<String> {
    let (call, result) = line.rsplit_once(" = ")?;
    let succeeded = result.bytes().next()?.is_ascii_digit();
    let is_file = !call.contains("O_DIRECTORY") && !call.contains("O_PATH");
    let path = call.split('"').nth(1)?.trim_start_matches('/');
    let is_fact = ["sys/", "proc/", "run/", "etc/"].iter().any(|top| path.starts_with(top));
    (succeeded && is_file && is_fact).then(|| path.to_owned())
}
