//! Writing the disk: which one, whether it may be, and the run of coreos-installer.
//!
//! Nothing here is reachable from the code that collects facts. The order is [`choose::choose`],
//! [`preflight`], [`identity`] again, [`run::install`].

pub mod busy;
pub mod choose;
pub mod efi;
pub mod failure;
pub mod hints;
pub mod identity;
pub mod installer;
pub mod osmet;
pub mod preflight;
pub mod progress;
pub mod run;

use std::fmt;
use std::path::PathBuf;

use crate::api::{Code, DiskIdentity};

pub use choose::choose;

/// A disk of the report, as far as choosing and writing need it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Kernel name, e.g. `sda`.
    pub name: String,
    /// Device file, e.g. `/dev/sda`.
    pub device: String,
    /// Kernel device number, e.g. `8:0`.
    pub device_number: Option<String>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Logical block size in bytes.
    pub logical_block_bytes: Option<u64>,
    /// Serial number.
    pub serial: Option<String>,
    /// World wide name.
    pub wwn: Option<String>,
    /// EUI-64 of an NVM Express namespace.
    pub eui64: Option<String>,
    /// NGUID of an NVM Express namespace.
    pub nguid: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Vendor.
    pub vendor: Option<String>,
    /// Whether it spins.
    pub rotational: Option<bool>,
    /// SCSI host, channel, target, LUN: `0:0:0:0`.
    pub hctl: Option<String>,
    /// Path by connection, e.g. `/dev/disk/by-path/pci-0000:00:1f.2-ata-1`.
    pub by_path: Option<String>,
    /// The multipath device that this disk is a path of, e.g. `dm-0`.
    pub multipath: Option<String>,
    /// Number that the kernel gave the disk when it appeared, since Linux 5.15.
    pub diskseq: Option<u64>,
    /// Paths by identity, e.g. `/dev/disk/by-id/wwn-0x5000c500a1b2c3d4`.
    pub by_id: Vec<String>,
    /// How it is connected, e.g. `nvme`.
    pub transport: Option<String>,
    /// Whether the medium can be taken out.
    pub is_removable: bool,
    /// Whether it cannot be written.
    pub is_read_only: bool,
    /// Whether it may be written by an install.
    pub eligible: bool,
    /// Why not.
    pub not_eligible_because: Vec<String>,
}

impl Candidate {
    /// The disk as results name it.
    #[must_use]
    pub fn identity(&self) -> DiskIdentity {
        DiskIdentity {
            device: self.device.clone(),
            serial: self.serial.clone(),
            wwn: self.wwn.clone(),
            size_bytes: (self.size_bytes > 0).then_some(self.size_bytes),
        }
    }

    /// The disk in words: `/dev/sda (serial S1, 512110190592 bytes)`.
    #[must_use]
    pub fn describe(&self) -> String {
        let serial = self.serial.as_ref().map(|serial| format!("serial {serial}, "));
        format!("{} ({}{} bytes)", self.device, serial.unwrap_or_default(), self.size_bytes)
    }
}

/// Where the kernel's file systems are; tests put others in their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemPaths {
    /// sysfs.
    pub sys: PathBuf,
    /// procfs.
    pub proc: PathBuf,
}

impl Default for SystemPaths {
    fn default() -> Self {
        Self { sys: "/sys".into(), proc: "/proc".into() }
    }
}

/// Why the install does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Stable code.
    pub code: Code,
    /// What was found and what was expected.
    pub message: String,
    /// What to do about it.
    pub advice: Option<String>,
}

impl Failure {
    /// A failure without advice.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), advice: None }
    }

    /// The same with advice.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}
