//! Detects a disk in use: mounted, swapped to, held by a mapping or array, or opened exclusively.
//!
//! The probes say what the kernel lists (`probes::block::current_use`). Besides that, `open(2)` with
//! `O_EXCL` fails with `EBUSY` for a block device that the kernel itself uses, in whatever mount
//! namespace.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use probes::block::{Disk, current_use};

use super::{Code, Failure, System};
use crate::ask::ask_within;
use crate::signals::Stop;

/// Time limit for opening a disk.
const OPEN_LIMIT: Duration = Duration::from_secs(30);

/// Refuses a disk that is in use.
///
/// # Errors
/// `DISK_BUSY` with every use, or if the kernel's lists of uses cannot be read; `TARGET_IO` if it cannot be
/// opened for another reason.
pub fn check_not_busy(disk: &Disk, system: &System) -> Result<(), Failure> {
    let number = disk.device_number.clone().unwrap_or_default();
    let found = system.ask(move |machine| current_use(machine, &number));
    let found = found.and_then(|found| found).map_err(|why| {
        let what = format!("whether {} is in use cannot be determined: {why}", disk.device);
        Failure::new(Code::DiskBusy, what)
            .advise("run the agent as root, and make /proc and /sys readable")
    })?;
    let mut uses = found.uses;
    // The mappings of its partitions hold a LUN, so each of them is opened instead of the LUN.
    let mappings = found.mapped_partitions.iter().map(|name| format!("/dev/{name}"));
    let whole = found.mapped_partitions.is_empty().then(|| disk.device.clone());
    for device in whole.into_iter().chain(mappings) {
        if is_held(&device, system.stop())? {
            uses.push(format!("{device} is in use by the kernel"));
        }
    }
    if uses.is_empty() {
        return Ok(());
    }
    let what = format!("{} is in use: {}", disk.device, uses.join("; "));
    Err(Failure::advised(Code::DiskBusy, what))
}

/// True if the kernel refuses to open a device exclusively.
fn is_held(device: &str, stop: &Stop) -> Result<bool, Failure> {
    let path = device.to_owned();
    // A disk that does not respond can block the call.
    let opened = ask_within("busy", OPEN_LIMIT, stop, move || {
        OpenOptions::new()
            .read(true)
            .custom_flags((OFlag::O_EXCL | OFlag::O_CLOEXEC).bits())
            .open(path)
            .map(drop)
    });
    let why = match opened {
        Ok(Ok(())) => return Ok(false),
        Ok(Err(error)) if error.raw_os_error() == Some(Errno::EBUSY as i32) => return Ok(true),
        Ok(Err(error)) => error.to_string(),
        Err(why) => why.to_string(),
    };
    Err(Failure::new(Code::TargetIo, format!("opening {device}: {why}"))
        .advise("the disk cannot even be opened for reading; check the kernel log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_cannot_be_read_refuses_the_disk_and_names_the_list() {
        let disk = Disk {
            device: "/dev/null".into(),
            device_number: Some("8:0".into()),
            ..Disk::default()
        };
        for bad in ["proc/swaps", "proc/self/mountinfo"] {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path();
            let check = || check_not_busy(&disk, &System::below(root.to_owned()));
            std::fs::create_dir_all(root.join("proc/self")).unwrap();
            std::fs::create_dir_all(root.join("sys/dev/block")).unwrap();
            std::fs::create_dir_all(root.join("sys/devices/sda")).unwrap();
            let link = root.join("sys/dev/block/8:0");
            std::os::unix::fs::symlink("../../devices/sda", link).unwrap();
            let mounts = root.join("proc/self/mountinfo");
            std::fs::write(mounts, "1 0 0:1 / / rw - tmpfs none rw\n").unwrap();
            assert_eq!(check(), Ok(()));
            // Nobody can read a directory as a file, not even root.
            std::fs::remove_file(root.join(bad)).ok();
            std::fs::create_dir_all(root.join(bad).join("x")).unwrap();
            let failure = check().unwrap_err();
            assert_eq!(failure.code, Code::DiskBusy);
            assert!(failure.to_string().contains(&format!("reading /{bad}")), "{}", failure);
        }
    }

    #[test]
    fn a_disk_that_the_kernel_does_not_list_is_refused() {
        let disk = Disk { device: "/dev/null".into(), ..Disk::default() };
        let system = System::below(std::env::temp_dir().join("rci-nowhere"));
        assert_eq!(check_not_busy(&disk, &system).unwrap_err().code, Code::DiskBusy);
    }
}
