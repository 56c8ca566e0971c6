//! The log: tracing to standard error, one line per event, for the journal, kmsg and a console.
//!
//! Without time and target, which the journal adds. Coloured only on a terminal.

use std::io;

use probes::guard;
use tracing::level_filters::LevelFilter;

use crate::clean::CleanStderr;
use crate::cli::LogLevel;
use crate::process::Process;
use crate::terminal;

/// Starts logging, and keeps the last lines and the message of a panic in `process`; a second call does not change the log.
pub fn start(level: LogLevel, process: &Process) {
    let filter = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let Process { log: recent, memory, .. } = process.clone();
    let is_colored = terminal::may_be_colored(&io::stderr());
    tracing_subscriber::fmt()
        .with_max_level(filter)
        .with_writer(move || CleanStderr { has_colors: is_colored, recent: recent.clone() })
        .with_ansi(is_colored)
        .with_target(false)
        .without_time()
        // It would report its own errors with eprintln!, which panics where standard error cannot be written.
        .log_internal_errors(false)
        .try_init()
        .ok();
    // Panics of guarded work do not reach this hook: they become a problem in the report or a failed check.
    std::panic::set_hook(Box::new(move |panic| {
        let panic = guard::message(panic);
        memory.record_panic(&panic);
        tracing::error!(panic, "a bug ended the run");
    }));
}
