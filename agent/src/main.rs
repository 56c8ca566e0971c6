//! `run-coreos-installer`: reads the options, runs the command, exits with its status.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use probes::guard;
use run_coreos_installer::config::{Configuration, Failure, Sources, configure};
use run_coreos_installer::exit_status::ExitStatus;
use run_coreos_installer::process::Process;
use run_coreos_installer::{commands, log};

/// musl's allocator has one lock for all threads, and the collectors run on several.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Stack of the thread that runs the command: as large as that of a main thread.
const STACK_BYTES: usize = 8 << 20;

fn main() -> ExitCode {
    // Before the first thread starts: a static glibc must not load the host's NSS modules.
    let is_lookup_safe = probes::sys::nss::use_files_and_dns_only();
    debug_assert!(is_lookup_safe, "the C library refused to limit name lookup to files and DNS");
    let words: Vec<OsString> = std::env::args_os().collect();
    let may_install = !std::io::stdin().is_terminal();
    let sources = match Sources::read(named_config(&words).as_deref()) {
        Ok(sources) => sources,
        Err(error) => return usage_error(&error),
    };
    match configure(&words, &sources, may_install) {
        Ok(configuration) => run(configuration),
        Err(Failure::Usage(error)) => {
            error.print().ok();
            if error.use_stderr() { ExitStatus::Usage } else { ExitStatus::Done }.into()
        }
        Err(Failure::Source(error)) => usage_error(&error),
    }
}

fn run(configuration: Configuration) -> ExitCode {
    let process = Process::default();
    log::start(configuration.cli.common.log_level, &process);
    match guarded(configuration, process.clone()) {
        Ok(Ok(status)) => status.into(),
        Ok(Err(error)) => {
            tracing::error!("{error:#}");
            ExitStatus::Usage.into()
        }
        Err(panic) => {
            process.memory.record_panic(&panic);
            tracing::error!(panic, "a bug ended the run; please report it");
            process.links.restore();
            ExitStatus::Bug.into()
        }
    }
}

/// Runs the command on a thread of its own, so that the main thread can restore the network ports after a panic.
fn guarded(
    configuration: Configuration,
    process: Process,
) -> Result<anyhow::Result<ExitStatus>, guard::Panic> {
    let run = move || commands::run(&configuration, &process);
    let answer = guard::ask("run", STACK_BYTES, run).map_err(|error| error.to_string())?;
    answer.recv().unwrap_or_else(|error| Err(error.to_string()))
}

fn usage_error(error: &anyhow::Error) -> ExitCode {
    log::start(run_coreos_installer::cli::LogLevel::Info, &Process::default());
    tracing::error!("{error:#}");
    ExitStatus::Usage.into()
}

/// The configuration file that the command line or the environment names.
fn named_config(words: &[OsString]) -> Option<PathBuf> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--config" {
            return words.next().map(PathBuf::from);
        }
        if let Some(path) = word.to_str().and_then(|word| word.strip_prefix("--config=")) {
            return Some(PathBuf::from(path));
        }
    }
    std::env::var_os("RCI_CONFIG").map(PathBuf::from)
}
