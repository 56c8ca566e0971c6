//! The bare reader: opens and reads exactly the files that the agent reads, and does nothing more: the
//! kernel's share of the cost. It lists no directories, so it opens less. It reads each file until the kernel reports its
//! end, where the agent stops after a short read, so on some machines it makes more system calls.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

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

/// The command that reads the same files as the agent.
pub(crate) fn command(agent: &Path, subject: &Subject) -> Result<Tool> {
    let list = std::env::temp_dir().join(format!("rci-bench-{}.list", std::process::id()));
    let root = subject.root.as_deref().unwrap_or(Path::new("/"));
    let paths = files_read(&tools::agent(agent, subject), &root.canonicalize()?)?;
    std::fs::write(&list, paths.join("\n"))?;
    let own = std::env::current_exe()?;
    let tool = Tool::new(
        "bare reader of the same files",
        &[&*own.to_string_lossy(), "read", &*list.to_string_lossy()],
    );
    Ok(tool.with(&root.to_string_lossy()))
}

/// Files that a run opens with success, directories and libraries left out; relative to the root.
///
/// Each thread has a trace of its own, so that no call is cut in two; a descriptor is shown with its
/// path (`strace -y`), which resolves links.
fn files_read(tool: &Tool, root: &Path) -> Result<Vec<String>> {
    let traces = std::env::temp_dir().join(format!("rci-bench-{}.opens", std::process::id()));
    std::fs::create_dir_all(&traces)?;
    let mut command = Command::new("strace");
    command.args(["-ff", "-y", "-e", "trace=open,openat,openat2", "-e", "signal=none", "-o"]);
    command.arg(traces.join("thread")).args(tool.words());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().context("strace does not run")?;
    let mut files = Vec::new();
    for trace in std::fs::read_dir(&traces)? {
        let text = std::fs::read_to_string(trace?.path())?;
        files.extend(text.lines().filter_map(|line| file_read(line, root)));
    }
    std::fs::remove_dir_all(&traces).ok();
    ensure!(
        files.len() > 50,
        "only {} files were seen to be read; is strace too old?",
        files.len()
    );
    Ok(files)
}

/// The path of a line such as `openat2(5</tree>, "proc/meminfo", {…}, 24) = 6</tree/proc/meminfo>`.
fn file_read(line: &str, root: &Path) -> Option<String> {
    let (call, result) = line.rsplit_once(" = ")?;
    let is_file = !call.contains("O_DIRECTORY") && !call.contains("O_PATH");
    let opened = result.split_once('<')?.1.strip_suffix('>')?;
    let path = Path::new(opened).strip_prefix(root).ok()?.to_str()?;
    // The traced process is gone when the reader runs.
    let is_own = call.contains("/self/");
    let path = match path.strip_prefix("proc/").and_then(|rest| rest.split_once('/')) {
        Some((_, rest)) if is_own => format!("proc/self/{rest}"),
        _ => path.to_owned(),
    };
    let is_fact =
        ["sys/", "proc/", "run/", "etc/", "kernel/"].iter().any(|top| path.starts_with(top));
    (is_file && is_fact).then_some(path)
}
