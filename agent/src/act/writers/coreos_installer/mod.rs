//! coreos-installer: its requirements, its run, and the meaning of its end.
//!
//! The rest of `act` does not know its options or its output; assisted-service sends some of its options.

mod options;
mod output;

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use tempfile::TempPath;

use self::options::{Options, Places};
pub use self::options::{Version, parse_version, version};
use self::output::{meaning, summary};
use super::{End, Ran, Writer};
use crate::act::follow::{Cut, Ended, Follower, Progress};
use crate::act::programs::Output;
use crate::act::progress::Tail;
use crate::act::run::interrupted;
use crate::act::stream::Stream;
use crate::act::target::Target;
use crate::act::watchdog::Sampler;
use crate::act::{Code, DiskState, Failure, Order, Site};

/// The name of the program.
pub const NAME: &str = "coreos-installer";

/// coreos-installer, and the content that it writes.
pub(crate) struct CoreosInstaller<'a> {
    /// The live system, with the program.
    pub(crate) site: &'a Site,
    /// Its version.
    pub(crate) version: Version,
    /// The disk.
    pub(crate) target: &'a Target,
    /// The order.
    pub(crate) order: &'a Order,
    /// The Ignition config.
    pub(crate) ignition: &'a [u8],
    /// Serves the image; `None` for the live image's own.
    pub(crate) stream: Option<&'a Stream>,
    /// Callback for each line, with its percentage if it has one.
    pub(crate) progress: &'a mut dyn FnMut(Option<u8>, &str),
}

impl Writer for CoreosInstaller<'_> {
    fn name(&self) -> &'static str {
        NAME
    }

    fn run(&mut self, device: &str) -> Ran {
        match self.write_files(device) {
            // The files exist until the run has ended.
            Ok((args, _files)) => self.attempt(&args),
            Err(failure) => not_started(failure),
        }
    }
}

fn not_started(failure: Failure) -> Ran {
    Ran { outcome: Err(failure), is_transient: false, end: End::NotStarted, log_tail: Vec::new() }
}

impl CoreosInstaller<'_> {
    /// Writes the files that a run needs, and returns its arguments.
    fn write_files(&self, device: &str) -> Result<(Vec<String>, [TempPath; 2]), Failure> {
        let [ignition, config] =
            ["config.ign", "install.yaml"].map(|name| self.site.run_dir.join(name));
        let image_url = self.stream.map(Stream::url);
        let places = Places {
            device,
            ignition_file: &ignition,
            network_dir: &self.site.network_dir,
            image_url: image_url.as_deref(),
        };
        let digest = formats::digest::sha512(self.ignition);
        let options = Options::new(self.order, &digest, places);
        let args = if options.fit_a_file(self.version) {
            options.with_file(&config)
        } else {
            options.to_args()
        };
        let write = || {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.site.run_dir)?;
            let config = private(&config, options.to_file().as_bytes())?;
            Ok([private(&ignition, self.ignition)?, config])
        };
        let files = write().map_err(|error: io::Error| {
            let what = format!("writing to {}: {error}", self.site.run_dir.display());
            Failure::new(Code::NoSpace, what)
                .advise("the live system has no space left, or its /run is not writable")
        })?;
        Ok((args, files))
    }

    fn attempt(&mut self, args: &[String]) -> Ran {
        let failed = |code, error| {
            let what = format!("running {}: {error}", self.site.installer.display());
            Failure::advised(code, what)
        };
        if let Some(stream) = self.stream {
            stream.begin();
        }
        let (system, lock) = (&self.site.system, self.site.lock.as_deref());
        let started = system.programs().start(&self.site.installer, args, Output::Both, lock);
        let (mut process, output) = match started {
            Ok(started) => started,
            Err(error) => return not_started(failed(Code::InstallerMissing, error)),
        };
        let disk = self.target.disk();
        let number = disk.device_number.as_deref().unwrap_or_default();
        let mut tail = Tail::default();
        let mut follower = Follower {
            output: &output,
            stream: self.stream,
            sampler: Sampler::new(system, process.group(), number),
            device: &disk.device,
            site: self.site,
        };
        let progress: Progress<'_> = self.progress;
        let ended = follower.follow(process.as_mut(), &mut tail, progress);
        let log_tail = tail.lines();
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => {
                system.end(process.as_mut(), Duration::ZERO);
                let outcome = Err(failed(Code::InstallerFailed, error));
                return Ran { outcome, is_transient: false, end: End::Ended, log_tail };
            }
        };
        let end = match &ended {
            Ended { status: None, .. } | Ended { cut: Some(Cut::Hung(_)), .. } => End::Hung,
            Ended { cut: Some(Cut::Stopped), .. } => End::Stopped,
            Ended { .. } => End::Ended,
        };
        let (outcome, is_transient) = self.outcome(&ended, &log_tail);
        Ran { outcome, is_transient, end, log_tail }
    }

    /// Returns the result of an ended run, and whether another run can help.
    fn outcome(&self, ended: &Ended, lines: &[String]) -> (Result<(), Failure>, bool) {
        let hung = |what: String| {
            let failure = Failure::advised(Code::TargetHung, what);
            (Err(failure), false)
        };
        let status = match (ended.status, &ended.cut) {
            (_, Some(Cut::Hung(why))) => {
                let left = if ended.status.is_none() { "; it survived SIGKILL" } else { "" };
                return hung(format!("coreos-installer was stopped after {why}{left}"));
            }
            (None, _) => return hung("coreos-installer survived SIGKILL".into()),
            // What is left of the disk is known once its counters were read.
            (Some(_), Some(Cut::Stopped)) => {
                return (Err(interrupted(DiskState::HalfWritten)), false);
            }
            (Some(_), Some(Cut::TooLong)) => {
                let limit_s = self.site.installer_limit.as_secs();
                let what = format!("coreos-installer did not finish within {limit_s} s");
                return (Err(Failure::new(Code::InstallerFailed, what)), false);
            }
            (Some(status), None) => status,
        };
        // coreos-installer can only say that its connection broke; the stream knows why.
        if let Some(fault) = self.stream.and_then(Stream::fault) {
            return (Err(fault.failure), fault.is_transient);
        }
        if status.success() && self.stream.is_some_and(|stream| !stream.is_whole()) {
            let what = "coreos-installer ended without having read the whole image";
            return (Err(Failure::new(Code::InstallerFailed, what)), false);
        }
        if status.success() {
            return (Ok(()), false);
        }
        let found = meaning(lines, status.code());
        let (device, last) = (&self.target.disk().device, summary(lines));
        let what = format!("coreos-installer on {device}: {}: {last}", words(status));
        (Err(Failure::advised(found.code, what)), found.is_transient)
    }
}

/// Writes a new file that only its owner reads, and that is deleted when it is dropped.
fn private(path: &Path, bytes: &[u8]) -> io::Result<TempPath> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    TempPath::try_from_path(path)
}

fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".into(),
    }
}
