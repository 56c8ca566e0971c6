//! The live system around an install: its programs and directories, the limits, and the policy of the node.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::blocking::Policy;
use super::watchdog::Patience;
use super::{ProtectMissing, System};

/// The live system on which an install runs.
#[derive(Debug, Clone)]
pub struct Site {
    /// The program that writes the disk.
    pub installer: PathBuf,
    /// Ignition of the live image, which it also installs.
    pub ignition: PathBuf,
    /// Directory for files that only root may read.
    pub run_dir: PathBuf,
    /// The lock of the node, which the program that writes inherits, so that it is held until that has ended.
    pub lock: Option<Arc<File>>,
    /// Directory with `NetworkManager` profiles.
    pub network_dir: PathBuf,
    /// Directory with the image that the live image itself can install.
    pub osmet_dir: PathBuf,
    /// The live system's `OSTree` repository, which has most of that image's content.
    pub ostree_repo: PathBuf,
    /// The system whose disk is written.
    pub system: System,
    /// Reads how much memory is available; `None` if the kernel does not report it.
    pub available_memory_bytes: fn() -> Option<u64>,
    /// Time limit for one run of the program that writes.
    pub installer_limit: Duration,
    /// Limits for a run that makes no progress.
    pub patience: Patience,
    /// Findings that prevent an install if the order does not say.
    pub blocking: Policy,
    /// Disks that are never written: serial, WWN, path below `/dev`, or a label on them.
    pub protect: Vec<String>,
    /// What follows if an entry of either list names no disk, unless the order is stricter.
    pub protect_missing: Option<ProtectMissing>,
    /// True if an order may ask for an image without a signature.
    pub is_insecure_image_allowed: bool,
}

impl Default for Site {
    fn default() -> Self {
        Self {
            installer: "coreos-installer".into(),
            // Where its module for dracut keeps it.
            ignition: "/usr/lib/dracut/modules.d/30ignition/ignition".into(),
            run_dir: "/run/run-coreos-installer".into(),
            lock: None,
            network_dir: "/etc/NetworkManager/system-connections".into(),
            osmet_dir: "/run/coreos-installer/osmet".into(),
            ostree_repo: "/ostree/repo".into(),
            system: System::default(),
            available_memory_bytes: probes::live::available_memory_bytes,
            // coreos-installer itself gives up after four hours.
            installer_limit: Duration::from_mins(255),
            patience: Patience::default(),
            blocking: Policy::default(),
            protect: Vec::new(),
            protect_missing: None,
            is_insecure_image_allowed: false,
        }
    }
}
