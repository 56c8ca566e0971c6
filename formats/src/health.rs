//! The health that a disk reports: the SMART log of NVMe, SMART on ATA disks, log pages of SAS.

pub mod ata;
pub mod nvme;
pub mod scsi;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The health that a disk reports. What it does not report is absent.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Health {
    /// True if the disk itself expects to keep working: SMART RETURN STATUS (ACS-4 §7.48.8),
    /// the log page Informational Exceptions (SPC-5 §7.3.9), no critical warning of an NVMe
    /// controller except temperature, no urgent state of an eMMC.
    pub is_passed: Option<bool>,
    /// Critical warnings of an NVMe controller (Base Specification 2.0, figure 207): `spare low`,
    /// `temperature`, `reliability degraded`, `read-only`, `backup failed`, `persistent memory
    /// read-only`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub critical_warnings: Vec<String>,
    /// Temperature in degrees Celsius.
    pub temperature_celsius: Option<i32>,
    /// Above this the disk considers itself too warm (NVMe WCTEMP, SCSI reference temperature).
    pub warning_temperature_celsius: Option<i32>,
    /// Above this the disk may stop (NVMe CCTEMP).
    pub critical_temperature_celsius: Option<i32>,
    /// Spare blocks left, in percent of the initial number.
    pub available_spare_percent: Option<u8>,
    /// Below this too few spare blocks are left.
    pub spare_threshold_percent: Option<u8>,
    /// Share of the rated life that is used, in percent; may exceed 100. For an eMMC in steps of ten,
    /// rounded up.
    pub used_percent: Option<u8>,
    /// Bytes that the host has read, as the controller counts them (in 512,000 bytes).
    pub data_read_bytes: Option<u64>,
    /// Bytes that the host has written, as the controller counts them (in 512,000 bytes).
    pub data_written_bytes: Option<u64>,
    /// Hours with power.
    pub power_on_hours: Option<u64>,
    /// Number of times that it was powered on.
    pub power_cycles: Option<u64>,
    /// Number of times that it lost power without notice.
    pub unsafe_shutdowns: Option<u64>,
    /// Failures to read or write data: media errors of NVMe, uncorrected errors of SCSI.
    pub media_errors: Option<u64>,
    /// Sectors replaced by spare ones (ATA attribute 5).
    pub reallocated_sectors: Option<u64>,
    /// Sectors that cannot be read and wait to be written (ATA attribute 197).
    pub pending_sectors: Option<u64>,
    /// Sectors that cannot be corrected (ATA attribute 198).
    pub uncorrectable_sectors: Option<u64>,
    /// Transfers that were damaged on the cable (ATA attribute 199).
    pub interface_crc_errors: Option<u64>,
    /// Commands that the disk did not answer in time, or that the ATA driver had to abort
    /// (`device/iotmo_cnt`, since Linux 5.18).
    pub late_commands: Option<u64>,
}
