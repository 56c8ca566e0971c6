//! Reads the hardware of a machine from sysfs, procfs, SMBIOS, netlink and ioctl; does not run any other program.
//!
//! ```text
//! kernel → Machine (all I/O) → parse_… (pure) → a domain's types → Inventory → findings → faults
//! ```
//!
//! One domain is one file or folder: its types, one public function, its readers and parsers, its tests.
//! [`collect::COLLECTORS`] lists them; each has its own deadline and panic guard. A probe never fails: an absent fact
//! is `None`, an unreadable one is a [`machine::Problem`]. `FACTS.md` next to this crate's manifest lists every fact
//! with its source and its file.

pub mod collect;
pub mod guard;
pub mod machine;
pub mod sys;

pub mod ancestors;
mod by_number;
pub mod cpuset;
mod firmware_reports;
mod kernel_messages;
pub mod natural;
pub mod pci_address;
mod pool;
pub mod udev;

pub mod smbios;

pub mod cpu;
pub mod memory;
pub mod topology;

pub mod block;
pub mod network;

pub mod gpu;
pub mod kfd;
pub mod pci;
pub mod usb;

pub mod bmc;
pub mod clock;
pub mod confidential;
pub mod counters;
pub mod devices;
pub mod dmi;
pub mod firmware;
pub mod iommu;
pub mod kernel_log;
pub mod live;
pub mod os;
pub mod power_supplies;
pub mod sensors;
pub mod serial_ports;
pub mod tpm;
pub mod virtualization;
pub mod watchdogs;

pub mod faults;
pub mod findings;
pub mod identity;
pub mod parts;

#[path = "../../tests/skipped.rs"]
#[cfg(test)]
mod skipped;
#[cfg(test)]
pub(crate) mod testing;
