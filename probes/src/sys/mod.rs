//! Questions to the kernel that no file answers: netlink, ioctl, reads of a disk's first sectors.
//!
//! This folder is the only place with `unsafe` code. Every question is read-only. A capture keeps its answer
//! in `kernel/<name>`, where a replay finds it.

pub mod allocation;
pub mod clock;
pub mod disk;
pub mod diskseq;
mod ethtool;
pub mod ipmi;
pub mod kmsg;
pub mod lldp;
pub mod megaraid;
pub mod netlink;
pub mod nss;
pub mod nvme;
pub mod page_size;
pub mod port;
pub mod pstore;
pub mod random_id;
pub mod scsi;
pub mod tpm;

use std::fs::{File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::fcntl::OFlag;

/// A read-only question to the kernel, with a name under which a capture keeps its answer.
pub trait Question: std::fmt::Debug {
    /// The name of the question, a relative path such as `rtnetlink/link` or `ethtool/eno1/driver`.
    fn name(&self) -> String;

    /// Asks the running kernel.
    ///
    /// # Errors
    /// As the kernel answers; `ENODEV`, `EOPNOTSUPP` and the like mean that the fact is absent.
    fn ask_live(&self) -> io::Result<Vec<u8>>;
}

/// A question without parameters.
#[derive(Debug, Clone, Copy)]
pub struct Fixed {
    name: &'static str,
    ask: fn() -> io::Result<Vec<u8>>,
}

impl Question for Fixed {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        (self.ask)()
    }
}

/// Opens the device `path` for reading, without waiting for a medium; `wrong` if it is not of this type.
fn open_device(path: &str, is_type: fn(&FileType) -> bool, wrong: Errno) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    if is_type(&file.metadata()?.file_type()) { Ok(file) } else { Err(wrong.into()) }
}

/// The value in `cell`, which `make` fills if it is empty.
fn get_or_try<T>(cell: &OnceLock<T>, make: impl FnOnce() -> io::Result<T>) -> io::Result<&T> {
    match cell.get() {
        Some(value) => Ok(value),
        None => make().map(|value| cell.get_or_init(|| value)),
    }
}
