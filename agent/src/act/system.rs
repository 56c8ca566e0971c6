//! The system whose disks are written, and the kernel operations of an install.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use probes::block::Disk;
use probes::collect::{Options, collect};
use probes::guard;
use probes::machine::{Machine, Source};

use super::device::{OpenDevice, device_number};
use super::mounted::{NewFile, Volume, replace};
use super::programs::{Programs, RealPrograms};
use super::takedown::{Step, disable_activation, perform};
use crate::ask::{Answer, GRACE, ask_by};
use crate::clock::{Clock, RealClock};
use crate::signals::Stop;

/// Time limit for the kernel to return its data on one disk; it does not ask the disk itself.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Time limit for collecting the facts of all disks.
const DISKS_LIMIT: Duration = Duration::from_mins(2);
/// Time limit for one step of a take-down, or for replacing files.
const TAKE_DOWN_LIMIT: Duration = Duration::from_mins(2);

/// Of the threads that are not waited for.
const STACK_BYTES: usize = 2 << 20;

/// The answer of a thread, once it is there.
pub(super) type Pending<T> = Answer<io::Result<T>>;

/// The kernel as an install uses it. Tests simulate one.
pub trait Kernel: fmt::Debug + Send + Sync {
    /// The kernel's files as they are now.
    ///
    /// # Errors
    /// If there are none.
    fn source(&self) -> io::Result<Source>;

    /// The facts of every disk as they are now; `None` if only those of the report are known.
    ///
    /// # Errors
    /// They could not be collected.
    fn disks(&self) -> io::Result<Option<Vec<Disk>>>;

    /// Opens a device for reading, without claiming it.
    ///
    /// # Errors
    /// As the kernel answers.
    fn open(&self, device: &str) -> io::Result<Arc<dyn Handle>>;

    /// The number of the block device that a path leads to, e.g. `8:0`; `None` if it is not a block device.
    ///
    /// # Errors
    /// As the kernel answers.
    fn number_of(&self, path: &str) -> io::Result<Option<String>>;

    /// The device file that a link below `/dev` leads to.
    fn resolve(&self, path: &str) -> Option<String>;

    /// Takes down a device that is built on a disk.
    ///
    /// # Errors
    /// As the kernel answers.
    fn take_down(&self, step: &Step) -> io::Result<()> {
        Err(io::Error::other(format!("this kernel takes nothing down: {step:?}")))
    }

    /// Replaces files of a file system.
    ///
    /// # Errors
    /// With the number of the kernel's error if nothing was written.
    fn replace(&self, _: &Volume, _: &[NewFile]) -> io::Result<()> {
        Err(Errno::EOPNOTSUPP.into())
    }

    /// Keeps everything that is taken down from being started again. Returns the time until that has an effect.
    ///
    /// # Errors
    /// As the kernel answers.
    fn keep_down(&self) -> io::Result<Duration> {
        Ok(Duration::ZERO)
    }
}

/// A device that is open for reading. While it is open, the kernel gives neither its name nor its number to
/// another disk.
pub trait Handle: fmt::Debug + Send + Sync {
    /// The number of the device, e.g. `8:0`; `None` if it is not a block device.
    ///
    /// # Errors
    /// As the kernel answers.
    fn number(&self) -> io::Result<Option<String>>;

    /// The sequence number of the disk; `None` before Linux 5.15.
    ///
    /// # Errors
    /// As the kernel answers.
    fn diskseq(&self) -> io::Result<Option<u64>>;

    /// The areas that the disk itself has allocated, in bytes; `None` if it does not report them. The disk can block it.
    fn allocated(&self, _: &Disk) -> Option<Vec<Range<u64>>> {
        None
    }

    /// Writes everything that the page cache holds for the device. The disk can block it.
    ///
    /// # Errors
    /// As the kernel answers.
    fn flush(&self) -> io::Result<()>;

    /// Another descriptor of the same open device.
    ///
    /// # Errors
    /// As the kernel answers.
    fn file(&self) -> io::Result<File>;

    /// The same device, opened once more for reads that bypass the page cache.
    ///
    /// # Errors
    /// As the kernel answers; `EINVAL` if the file system of a file does not support it.
    fn direct(&self) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The same device, opened once more for reading and writing. Only a disk that failed its proof is written.
    ///
    /// # Errors
    /// As the kernel answers; a simulated device cannot be written.
    fn writable(&self) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The same, and no one else can use the device as long as it is open.
    ///
    /// # Errors
    /// As the kernel answers; `EBUSY` if it is mounted, or used by an array or mapping.
    fn exclusive(&self) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The system whose disks are written: the running one. Tests put a directory or a simulated kernel in its place.
#[derive(Debug, Clone)]
pub struct System {
    kernel: Arc<dyn Kernel>,
    root: PathBuf,
    /// Cuts short the wait for an answer.
    stop: Stop,
    clock: Arc<dyn Clock>,
    pub(super) programs: Arc<dyn Programs>,
}

impl Default for System {
    fn default() -> Self {
        Self::below("/".into())
    }
}

impl System {
    /// A system whose `sys` and `proc` lie below `root`.
    pub fn below(root: PathBuf) -> Self {
        Self::of(Arc::new(Files { root: root.clone() }), root)
    }

    /// A system with another kernel, and with its other files below `root`.
    pub fn of(kernel: Arc<dyn Kernel>, root: PathBuf) -> Self {
        let (clock, programs) = (Arc::new(RealClock), Arc::new(RealPrograms));
        Self { kernel, root, stop: Stop::default(), clock, programs }
    }

    /// The same system; after a signal its answers are not waited for any longer.
    pub fn until(&self, stop: &Stop) -> Self {
        Self { stop: stop.clone(), ..self.clone() }
    }

    /// The same system with another clock.
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// The folder below which the files of the system are.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the flag that is set if the agent is to end.
    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Returns the clock of everything that waits for it.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Waits, but returns early once the agent is to end.
    pub(super) fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration, &self.stop);
    }

    /// Its kernel.
    pub(crate) fn kernel(&self) -> &dyn Kernel {
        self.kernel.as_ref()
    }

    /// Returns the mount point of efivarfs.
    pub fn efivars(&self) -> PathBuf {
        self.root.join("sys/firmware/efi/efivars")
    }

    /// True if this machine was booted by UEFI.
    pub fn is_uefi(&self) -> bool {
        // Unless the kernel clearly has no such directory, the disk must have a boot loader for UEFI:
        // the stricter check.
        self.ask(|machine| machine.has_directory("sys/firmware/efi")).ok().flatten().unwrap_or(true)
    }

    /// The facts of every disk as they are now; `None` if only those of the report are known.
    ///
    /// # Errors
    /// A message if they could not be collected in time.
    pub(crate) fn disks(&self) -> Result<Option<Vec<Disk>>, String> {
        in_words(self.on_a_thread("disks", DISKS_LIMIT, |kernel| kernel.disks()))
    }

    /// Takes down a device that is built on a disk. Ending swap space may take long.
    ///
    /// # Errors
    /// As the kernel answers, or if it does not answer in time.
    pub(crate) fn take_down(&self, step: &Step) -> io::Result<()> {
        let step = step.clone();
        self.on_a_thread("take down", TAKE_DOWN_LIMIT, move |kernel| kernel.take_down(&step))
    }

    /// Replaces files of a file system.
    ///
    /// # Errors
    /// As [`Kernel::replace`]; or if it does not answer in time.
    pub(crate) fn replace(&self, volume: &Volume, files: Vec<NewFile>) -> io::Result<()> {
        let volume = volume.clone();
        let work = move |kernel: &dyn Kernel| kernel.replace(&volume, &files);
        self.on_a_thread("files", TAKE_DOWN_LIMIT, work)
    }

    /// Opens a device. A disk that does not respond can block this, so it happens on a thread of its own.
    ///
    /// # Errors
    /// A message with the fault.
    pub(crate) fn open(&self, device: &str) -> Result<Arc<dyn Handle>, String> {
        let device = device.to_owned();
        let work = move |kernel: &dyn Kernel| kernel.open(&device);
        in_words(self.on_a_thread("open", ANSWER_LIMIT, work))
    }

    /// Asks the kernel as it is now. Each call has a source and a thread of its own, since a source keeps
    /// some files, and a thread the directory that it listed last: neither may answer for a disk that is
    /// gone.
    ///
    /// # Errors
    /// A message if there is no answer in time.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Machine) -> T + Send + 'static,
    ) -> Result<T, String> {
        in_words(self.on_a_thread("system", ANSWER_LIMIT, |kernel| asked(kernel, question)))
    }

    /// As [`System::ask`], without waiting for the answer.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(super) fn start<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Machine) -> T + Send + 'static,
    ) -> io::Result<Pending<T>> {
        let kernel = Arc::clone(&self.kernel);
        guard::ask("system", STACK_BYTES, move || asked(kernel.as_ref(), question))
    }

    fn on_a_thread<T: Send + 'static>(
        &self,
        name: &str,
        limit: Duration,
        work: impl FnOnce(&dyn Kernel) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let kernel = Arc::clone(&self.kernel);
        let work = move || work(kernel.as_ref());
        ask_by(self.clock.as_ref(), name, (limit, GRACE), &self.stop, work)
            .map_err(|why| io::Error::other(why.to_string()))?
    }
}

fn asked<T>(kernel: &dyn Kernel, question: impl FnOnce(&Machine) -> T) -> io::Result<T> {
    kernel.source().map(|source| question(&Machine::new(Arc::new(source), "install")))
}

fn in_words<T>(answer: io::Result<T>) -> Result<T, String> {
    answer.map_err(|error| error.to_string())
}

/// The running kernel, or a directory in its place.
#[derive(Debug)]
pub struct Files {
    /// The directory that contains `sys` and `proc`.
    pub root: PathBuf,
}

impl Files {
    fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }
}

impl Kernel for Files {
    fn source(&self) -> io::Result<Source> {
        if self.is_live() { Ok(Source::live()) } else { Source::captured(&self.root) }
    }

    fn disks(&self) -> io::Result<Option<Vec<Disk>>> {
        if !self.is_live() {
            return Ok(None);
        }
        let options = Options { only: vec!["block".to_owned()], ..Options::default() };
        let found = collect(&Arc::new(Source::live()), &options);
        let block = found.inventory.block.ok_or_else(|| io::Error::other("collecting them failed"));
        block.map(|block| Some(block.disks))
    }

    fn open(&self, device: &str) -> io::Result<Arc<dyn Handle>> {
        // Not exclusive: that would keep coreos-installer from reading the partition table again.
        let flags = OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(device)?;
        Ok(Arc::new(OpenDevice::of(file)))
    }

    fn number_of(&self, path: &str) -> io::Result<Option<String>> {
        fs::metadata(path).map(|metadata| device_number(&metadata))
    }

    fn resolve(&self, path: &str) -> Option<String> {
        fs::canonicalize(path).ok()?.to_str().map(str::to_owned)
    }

    fn take_down(&self, step: &Step) -> io::Result<()> {
        if self.is_live() { perform(step) } else { Err(io::ErrorKind::Unsupported.into()) }
    }

    fn replace(&self, volume: &Volume, files: &[NewFile]) -> io::Result<()> {
        if self.is_live() { replace(volume, files) } else { Err(Errno::EOPNOTSUPP.into()) }
    }

    fn keep_down(&self) -> io::Result<Duration> {
        if self.is_live() { disable_activation() } else { Ok(Duration::ZERO) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_is_booted_by_uefi_unless_the_directory_is_clearly_absent() {
        let is_uefi = |error: Option<&str>| {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path();
            fs::create_dir_all(root.join("sys/firmware")).unwrap();
            fs::create_dir_all(root.join("kernel")).unwrap();
            if let Some(error) = error {
                let line = format!("{error} sys/firmware/efi\n");
                fs::write(root.join("kernel/errors"), line).unwrap();
            }
            System::below(root.to_owned()).is_uefi()
        };
        assert!(!is_uefi(None));
        for (errno, name) in
            [("5", "EIO"), ("24", "EMFILE"), ("20", "ENOTDIR"), ("22", "EINVAL"), ("19", "ENODEV")]
        {
            assert!(is_uefi(Some(errno)), "{name}");
        }
    }
}
