//! The job: read the hardware, report, obey the instruction, check, write, prove, post the result.
//!
//! ```text
//! collect → report → instruction → preflight → write → proof → result → exit 0
//!              ↑ wait, retry ↓        └ any failure: result with code and advice; exit status not 0
//! ```
//! systemd acts on the exit status: after 0 the unit's `ExecStartPost=` reboots (installed, or the VIM said `reboot`).
//! `poweroff` asks systemd to power off and waits for SIGTERM. `stop` and every failure exit with any other status (see
//! [`ExitStatus`]), and the unit's `OnFailure=` opens a shell on the console. A dry run from the configuration exits with
//! 4: after 0 the unit would reboot into the same dry run. A refusal with an untouched disk does not exit: the VIM is
//! asked again, unless `on_refusal` is `stop`.
//!
//! [`offline`] is the same job without a VIM.

mod banner;
mod collected;
pub(crate) mod console;
mod ending;
mod expect;
mod install;
mod late;
mod load;
mod neighbours;
pub mod offline;
mod posting;
pub(crate) mod power;
mod qr;
mod sequence;
pub mod supervise;
mod waiting;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use probes::block::Disk;
use probes::faults::Fault;
use tracing::error;

use crate::act::Site;
use crate::act::say::Words;
use crate::api::{Finding, JobResult, OnRefusal};
use crate::clock::Clock;
use crate::engines::vim::events::Observer;
use crate::engines::vim::{self, Events};
use crate::exit_status::ExitStatus;
use crate::http::{Client, ServerSettings};
use crate::signals::Stop;

pub use load::WaitingLoad;
pub use neighbours::Listener;
pub use offline::{After, Offline};

/// Time limit for posting the remaining events at the end.
const EVENTS_LIMIT: Duration = Duration::from_secs(10);

/// The same after a signal: the agent ends within five seconds, and the result comes first.
const STOPPED_EVENTS_LIMIT: Duration = Duration::from_secs(1);

/// Settings of the job.
#[derive(Debug, Clone)]
pub struct JobSettings {
    /// Connection settings of the VIM and other servers.
    pub vim: ServerSettings,
    /// The install without a VIM; then `vim` has no address.
    pub offline: Option<Offline>,
    /// Names for the parts of an order where its results are read.
    pub words: Words,
    /// The live system, and the policy of the node.
    pub site: Site,
    /// True to stop before anything is changed; then no events and no result are posted.
    pub is_dry_run: bool,
    /// The terminal on which a blocked node names the faulty part in large letters.
    pub screen: Option<PathBuf>,
    /// True if a blocked node, or one whose install has failed, also shows the reason there as a QR code.
    pub shows_qr: bool,
    /// The action after a refusal if the instruction does not say.
    pub on_refusal: OnRefusal,
    /// Time for which an install waits for a disk that can be written.
    pub wait_for_disk: Duration,
    /// Time for which to try to post the result of a failed job.
    pub failure_limit: Duration,
    /// Brings up links and listens for LLDP neighbours while the job goes on; one that was not started finds none.
    pub listener: Listener,
    /// The load that the VIM allows while the node waits; reading the hardware ends it.
    pub load: WaitingLoad,
    /// Program and arguments that power the machine off.
    pub poweroff: Vec<String>,
    /// Is called for each event of the job, also where no events are posted.
    pub observer: Option<Observer>,
    /// Reports that the process of the job crashed, if the server is not a VIM.
    pub crash_reporter: Option<CrashReporter>,
}

impl JobSettings {
    /// The settings of a live image.
    #[must_use]
    pub fn new(vim: ServerSettings) -> Self {
        Self {
            vim,
            offline: None,
            words: vim::words,
            site: Site::default(),
            is_dry_run: false,
            screen: None,
            shows_qr: false,
            on_refusal: OnRefusal::default(),
            wait_for_disk: Duration::ZERO,
            failure_limit: Duration::from_mins(2),
            listener: Listener::default(),
            load: WaitingLoad::default(),
            poweroff: vec!["systemctl".into(), "poweroff".into()],
            observer: None,
            crash_reporter: None,
        }
    }
}

/// Reports the result of a job whose process crashed. Returns an exit status other than that of a crash if the report makes
/// up for it.
pub type ReportCrash = dyn Fn(&JobResult) -> Option<ExitStatus> + Send + Sync;

/// Another way to report a crash than a result for a VIM.
#[derive(Clone)]
pub struct CrashReporter(pub Arc<ReportCrash>);

impl std::fmt::Debug for CrashReporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CrashReporter")
    }
}

/// The collected hardware, as the job needs it.
#[derive(Debug, Clone, Default)]
pub struct Collected {
    /// The whole report as JSON; these bytes are posted.
    pub report: Vec<u8>,
    /// The node id in the report.
    pub node_id: String,
    /// Every disk, in the order of the report.
    pub disks: Vec<Disk>,
    /// The faults of the machine.
    pub findings: Vec<Finding>,
    /// The findings joined into faults.
    pub faults: Vec<Fault>,
    /// Vendor, product and serial number, as far as they are known; `None` until the hardware is read.
    pub machine: Option<String>,
    /// Items that could not be read, as collector, a blank and path.
    pub unread: Vec<String>,
}

/// The outcome of the job.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// Exit status of the program.
    pub exit_status: ExitStatus,
    /// The result, if there was an instruction.
    pub result: Option<Box<JobResult>>,
}

impl Ended {
    fn with(exit_status: ExitStatus) -> Self {
        Self { exit_status, result: None }
    }
}

/// Catches SIGTERM, SIGINT and SIGHUP, so that the job can end in a clear state.
#[must_use]
pub fn stop_on_signals() -> Stop {
    Stop::on_signals().unwrap_or_else(|error| {
        error!(%error, "no signal handler could be set: SIGTERM will end the agent at once");
        Stop::default()
    })
}

/// Runs the job until it is done or `stop` is set.
///
/// `collect` reads the hardware, and is called again if the VIM asks for another report.
pub fn run_with(
    settings: &JobSettings,
    collect: &mut dyn FnMut() -> anyhow::Result<Collected>,
    clock: Arc<dyn Clock>,
    stop: Stop,
) -> Ended {
    if let Some(offline) = settings.offline.as_ref().filter(|_| !settings.is_dry_run)
        && let Err(error) = offline.prepare(settings)
    {
        error!("CONFIG: --result {}: {error}; nothing was installed", offline.result.display());
        return Ended::with(ExitStatus::Usage);
    }
    // After a signal no answer of the kernel is waited for any longer.
    let settings = &{
        let site = Site { system: settings.site.system.until(&stop), ..settings.site.clone() };
        JobSettings { site, ..settings.clone() }
    };
    let client = match Client::new(&settings.vim, Arc::clone(&clock), stop.clone()) {
        Ok(client) => Arc::new(client),
        Err(error) => {
            error!("CONFIG: {error:#}; nothing was installed");
            return Ended::with(ExitStatus::Usage);
        }
    };
    let observer = settings.observer.clone();
    let events = Events::start(Arc::clone(&client), Arc::clone(&clock), observer);
    let mut job = sequence::Job::new(settings, client, events, clock, stop);
    let ended = job.run(collect);
    let is_stopped = job.stop.is_stopped();
    job.into_events().finish(if is_stopped { STOPPED_EVENTS_LIMIT } else { EVENTS_LIMIT });
    ended
}
