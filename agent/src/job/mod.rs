//! The job: collect, report, take the instruction, check, write, prove, tell the result.
//!
//! ```text
//! collect → report → instruction → preflight → write → proof → result → exit 0
//!              ↑ wait, retry ↓        └ any failure: result with code and advice; exit status not 0
//! ```
//! How each end is told to systemd: exit status 0 means that the unit's `ExecStartPost=` reboots (installed,
//! or the VIM said `reboot`). `poweroff` asks systemd to power off and waits for SIGTERM. `stop` and every
//! failure exit with 3 to 6, and the unit's `OnFailure=` gives the console to a person. A dry run that was not
//! typed on the command line but configured ends with 4 as well: after 0 the unit would reboot into it again.

mod ending;
mod install;
mod sequence;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use probes::block::Disk;
use tracing::error;

use crate::api::{Finding, JobResult};
use crate::clock::Clock;
use crate::exit_status::ExitStatus;
use crate::install::System;
use crate::signals::Stop;
use crate::vim::{Client, Events, VimSettings};

/// How long the events that are left are posted at the end.
const EVENTS_LIMIT: Duration = Duration::from_secs(10);

/// How the job is done.
#[derive(Debug, Clone)]
pub struct JobSettings {
    /// How the VIM is reached.
    pub vim: VimSettings,
    /// Whether to stop before anything is changed; no event and no result is posted then.
    pub is_dry_run: bool,
    /// The program that writes.
    pub installer: PathBuf,
    /// Directory for files that only root reads.
    pub run_dir: PathBuf,
    /// Directory with `NetworkManager` profiles.
    pub network_dir: PathBuf,
    /// Directory with the live image's own installable image.
    pub osmet_dir: PathBuf,
    /// The system whose disk is written.
    pub system: System,
    /// Reads how much memory is available; `None` if the kernel does not report it.
    pub available_memory_bytes: fn() -> Option<u64>,
    /// How long one run of coreos-installer may take.
    pub installer_limit: Duration,
    /// How long a failure is tried to be told to the VIM.
    pub failure_limit: Duration,
    /// Program and arguments that switch the machine off.
    pub poweroff: Vec<String>,
}

impl JobSettings {
    /// The settings of a live image.
    #[must_use]
    pub fn new(vim: VimSettings) -> Self {
        Self {
            vim,
            is_dry_run: false,
            installer: "coreos-installer".into(),
            run_dir: "/run/run-coreos-installer".into(),
            network_dir: "/etc/NetworkManager/system-connections".into(),
            osmet_dir: "/run/coreos-installer/osmet".into(),
            system: System::default(),
            available_memory_bytes: probes::live::available_memory_bytes,
            // coreos-installer itself gives up after four hours.
            installer_limit: Duration::from_mins(255),
            failure_limit: Duration::from_mins(2),
            poweroff: vec!["systemctl".into(), "poweroff".into()],
        }
    }
}

/// What was collected, as far as the job needs it.
#[derive(Debug, Clone, Default)]
pub struct Collected {
    /// The whole report as JSON; these bytes are posted.
    pub report: Vec<u8>,
    /// The name that the agent gives the node.
    pub node_id: String,
    /// Every disk, in the order of the report.
    pub disks: Vec<Disk>,
    /// What is faulty.
    pub findings: Vec<Finding>,
}

/// How the job ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// Exit status of the program.
    pub exit_status: ExitStatus,
    /// The result, if there was an instruction to carry out.
    pub result: Option<Box<JobResult>>,
}

impl Ended {
    fn with(exit_status: ExitStatus) -> Self {
        Self { exit_status, result: None }
    }
}

/// The wish to end that SIGTERM and SIGINT express, for a job that ends in a clear state.
#[must_use]
pub fn stop_on_signals() -> Stop {
    Stop::on_signals().unwrap_or_else(|error| {
        error!(%error, "SIGTERM will end the agent at once: no signal handler");
        Stop::default()
    })
}

/// Does the job until it is done or `stop` is set.
///
/// `collect` reads the hardware; it is called again when the VIM asks for it.
pub fn run_with(
    settings: &JobSettings,
    collect: &mut dyn FnMut() -> anyhow::Result<Collected>,
    clock: Arc<dyn Clock>,
    stop: Stop,
) -> Ended {
    let client = match Client::new(&settings.vim, Arc::clone(&clock), stop.clone()) {
        Ok(client) => Arc::new(client),
        Err(error) => {
            error!(code = "CONFIG", "{error:#}; nothing was reported, nothing was installed");
            return Ended::with(ExitStatus::Usage);
        }
    };
    let events = Events::start(Arc::clone(&client), Arc::clone(&clock));
    let mut job = sequence::Job::new(settings, client, events, clock, stop);
    let ended = job.run(collect);
    job.into_events().finish(EVENTS_LIMIT);
    ended
}
