//! The disk that is written, from its choice to the end of the proof.
//!
//! A [`Target`] holds the disk open for reading, not exclusively: while it does, the kernel gives neither the
//! disk's name nor its number to another disk that is plugged in (measured on SCSI, NVMe and virtio-blk), and
//! the name of a disk that was pulled out opens nothing. So the name that was checked still leads to the same
//! disk when coreos-installer opens it.

use std::fs::File;
use std::sync::Arc;

use nix::errno::Errno;
use probes::block::{Disk, current};

use super::identity::{changed, compare};
use super::system::Handle;
use super::{Code, Failure, System, describe};

/// The chosen disk, held open.
#[derive(Debug, Clone)]
pub struct Target {
    disk: Disk,
    system: System,
    handle: Arc<dyn Handle>,
}

impl Target {
    /// Opens the chosen disk and checks that it is the one that was opened.
    ///
    /// # Errors
    /// `TARGET_IO` if it cannot be opened; `DISK_CHANGED` as [`Target::check`].
    pub fn hold(disk: &Disk, system: &System) -> Result<Self, Failure> {
        let handle = system.open(&disk.device).map_err(|why| {
            Failure::new(Code::TargetIo, format!("opening {}: {why}", disk.device))
                .advise("the disk cannot even be opened for reading; check the kernel log")
        })?;
        let target = Self { disk: disk.clone(), system: system.clone(), handle };
        target.check()?;
        Ok(target)
    }

    /// The facts of the disk at its choice.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    pub(crate) fn system(&self) -> &System {
        &self.system
    }

    pub(super) fn handle(&self) -> &Arc<dyn Handle> {
        &self.handle
    }

    /// Checks that the open disk is the one that was chosen, that it is still there, and that its name leads to
    /// it. Asks the kernel, not the disk.
    ///
    /// # Errors
    /// `DISK_CHANGED` with every difference; also if the kernel does not respond.
    pub fn check(&self) -> Result<(), Failure> {
        let disk = &self.disk;
        let unknown = |what: String| Failure::new(Code::DiskChanged, what);
        let number = self.number().map_err(unknown)?;
        let asked = number.clone();
        let now = self.system.ask(move |machine| current(machine, &asked)).map_err(|why| {
            unknown(format!("reading the current state of {}: {why}", disk.device))
        })?;
        compare(disk, now.as_ref())?;
        let diskseq = self.diskseq().map_err(unknown)?;
        let in_sysfs = now.and_then(|now| now.diskseq);
        for other in [disk.diskseq, in_sysfs] {
            if let (Some(held), Some(other)) = (diskseq, other)
                && held != other
            {
                return Err(changed(format!(
                    "{} is disk number {other} of this boot, but number {held} was opened",
                    describe(disk)
                )));
            }
        }
        self.check_path(&disk.device, &number)
            .map_err(|found| changed(format!("{} has changed: its name {found}", describe(disk))))
    }

    /// The path that coreos-installer gets: the one by sequence number, which never leads to another disk, or
    /// the disk's device file.
    pub fn path(&self) -> String {
        // On s390x, coreos-installer passes the path on to tools that expect the kernel's name.
        let is_dasd = self.disk.name.starts_with("dasd");
        let by_diskseq = || {
            let path = format!("/dev/disk/by-diskseq/{}", self.diskseq().ok()??);
            self.check_path(&path, &self.number().ok()?).is_ok().then_some(path)
        };
        let by_diskseq = if is_dasd { None } else { by_diskseq() };
        by_diskseq.unwrap_or_else(|| self.disk.device.clone())
    }

    /// Another descriptor of the open disk.
    ///
    /// # Errors
    /// `TARGET_IO`.
    pub fn file(&self) -> Result<File, Failure> {
        self.handle.file().map_err(|error| {
            Failure::new(Code::TargetIo, format!("reading {}: {error}", self.disk.device))
        })
    }

    /// The open disk, opened once more so that reads come from the disk and not from the page cache; another
    /// descriptor of the open disk where that is not supported.
    ///
    /// # Errors
    /// `TARGET_IO`.
    pub fn direct(&self) -> Result<File, Failure> {
        self.handle.direct().or_else(|_| self.file())
    }

    /// The open disk, opened once more for reading and writing, after it was checked to be the chosen one.
    ///
    /// # Errors
    /// `DISK_CHANGED` as [`Target::check`]; `TARGET_IO`.
    pub fn writable(&self) -> Result<File, Failure> {
        self.check()?;
        self.handle.writable().map_err(|error| {
            let what = format!("opening {} for writing: {error}", self.disk.device);
            Failure::new(Code::TargetIo, what)
        })
    }

    /// The same, and no one else can use the disk as long as it is open. A LUN may be held by the mappings of its own
    /// partitions; [`super::preflight::check_use`] looks at each of them.
    ///
    /// # Errors
    /// As [`Target::writable`]; `DISK_BUSY`.
    pub fn exclusive(&self) -> Result<File, Failure> {
        if self.disk.name.starts_with("dm-") {
            return self.writable();
        }
        self.check()?;
        self.handle.exclusive().map_err(|error| {
            let is_busy = error.raw_os_error() == Some(Errno::EBUSY as i32);
            let code = if is_busy { Code::DiskBusy } else { Code::TargetIo };
            let device = &self.disk.device;
            Failure::new(code, format!("opening {device} for use by nothing else: {error}"))
        })
    }

    /// The number of the open device. A file in place of a disk, as in tests, has the number of the report.
    fn number(&self) -> Result<String, String> {
        let reported = &self.disk.device_number;
        let device = &self.disk.device;
        let held = self.handle.number().map_err(|error| format!("fstat of {device}: {error}"))?;
        match (held, reported) {
            (Some(held), Some(reported)) if held != *reported => Err(format!(
                "{} has changed: the device number of the open disk is {held}, not {reported}",
                describe(&self.disk)
            )),
            (_, Some(reported)) => Ok(reported.clone()),
            (_, None) => Err(format!("the device number of {device} is unknown")),
        }
    }

    fn diskseq(&self) -> Result<Option<u64>, String> {
        self.handle.diskseq().map_err(|error| {
            format!("reading the sequence number of {}: {error}", self.disk.device)
        })
    }

    /// Checks that a path leads to the open disk.
    fn check_path(&self, path: &str, number: &str) -> Result<(), String> {
        let is_disk = self.handle.number().is_ok_and(|number| number.is_some());
        match self.system.kernel().number_of(path) {
            Ok(Some(found)) if found == number => Ok(()),
            Ok(Some(found)) => Err(format!("leads to device {found}, not {number}")),
            Ok(None) if !is_disk => Ok(()),
            Ok(None) => Err("does not lead to a disk".into()),
            Err(error) => Err(format!("leads nowhere: {error}")),
        }
    }
}
