//! Questions to the kernel that no file answers: netlink, ioctl, reads of a disk's first sectors.
//!
//! This folder is the only place with `unsafe` code. Every question is read-only. A capture keeps its answer
//! in `kernel/<name>`, where a replay finds it.

pub mod clock;
pub mod disk;
pub mod diskseq;
pub mod ethtool;
pub mod ipmi;
pub mod kmsg;
pub mod lldp;
pub mod megaraid;
pub mod netlink;
pub mod nss;
pub mod nvme;
pub mod page_size;
pub mod pstore;
pub mod random_id;
pub mod scsi;
pub mod tpm;

use std::io;

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
