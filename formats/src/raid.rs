//! RAID controllers, the drives that they hide and the volumes on these, as the report has them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A RAID controller. What its firmware does not report is absent.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RaidController {
    /// PCI address, e.g. `0000:18:00.0`.
    pub pci_address: String,
    /// Driver: `megaraid_sas`; for `hpsa`, `aacraid` and `mpt3sas` only the drives are known.
    pub driver: String,
    /// Product as the firmware names it, e.g. `PERC H740P Mini` (`product_name` of
    /// `struct megasas_ctrl_info`).
    pub model: Option<String>,
    /// Serial number of the board (`serial_no`).
    pub serial: Option<String>,
    /// Version of the firmware package (`package_version`), e.g. `51.16.0-5150`.
    pub firmware: Option<String>,
    /// Cache memory in MiB (`memory_size`).
    pub memory_mib: Option<u16>,
    /// Corrected errors of the cache memory (`mem_correctable_error_count`).
    pub memory_correctable_errors: Option<u16>,
    /// Uncorrectable errors of the cache memory (`mem_uncorrectable_error_count`).
    pub memory_uncorrectable_errors: Option<u16>,
    /// Drives, by enclosure, slot and device id; `None` if the firmware was not asked or did not answer.
    pub drives: Option<Vec<RaidDrive>>,
    /// Volumes by id, at most 64; `None` if the firmware was not asked or did not answer.
    pub volumes: Option<Vec<RaidVolume>>,
}

/// A drive of a RAID controller (`MR_DCMD_PD_GET_INFO`, or a SCSI device without a disk).
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RaidDrive {
    /// The controller's number for the drive; the vendor's tools call it DID.
    pub device_id: Option<u16>,
    /// SCSI address of a drive that the kernel knows but does not expose as a disk, e.g. `1:0:4:0`.
    pub hctl: Option<String>,
    /// Device id of the enclosure, which the vendor's tools call EID; absent for a drive that is cabled
    /// directly to the controller.
    pub enclosure: Option<u16>,
    /// Number of the slot in the enclosure.
    pub slot: Option<u8>,
    /// `online`, `failed`, `offline`, `rebuilding`, `copyback`, `hot spare`, `unconfigured good`,
    /// `unconfigured bad`, or `jbod` for a drive that is passed through (`enum MR_PD_STATE`).
    pub state: Option<String>,
    /// Progress of the rebuild onto the drive, in percent.
    pub rebuild_percent: Option<u8>,
    /// `scsi`, `sas`, `sata`, `fc` or `nvme` (`enum MR_PD_TYPE`).
    pub interface: Option<String>,
    /// Size in bytes; the controller may use slightly less.
    pub size_bytes: Option<u64>,
    /// Bytes of a logical block; absent with older firmware, which supports only 512.
    pub logical_block_bytes: Option<u16>,
    /// True if it rotates (VPD page B1h of the drive, SBC-4 §6.6.2).
    pub rotational: Option<bool>,
    /// Rotation rate in rpm (VPD page B1h).
    pub rotation_rpm: Option<u32>,
    /// Vendor according to its INQUIRY data (SPC-5 §6.7.2); `ATA` for SATA drives.
    pub vendor: Option<String>,
    /// Model according to its INQUIRY data: at most 16 characters, so a SATA drive's may be truncated.
    pub model: Option<String>,
    /// Firmware revision according to its INQUIRY data, at most 4 characters.
    pub firmware: Option<String>,
    /// Serial number: VPD page 80h of the drive; if it does not answer, the vendor's bytes after the
    /// standard INQUIRY data that the controller keeps (bytes 36 to 55).
    pub serial: Option<String>,
    /// NAA name in VPD page 83h that the controller keeps, e.g. `0x5000c500a1b2c3d4`.
    pub wwn: Option<String>,
    /// SAS address of its first port, or the one that the controller made up for a SATA drive.
    pub sas_address: Option<String>,
    /// Temperature in degrees Celsius.
    pub temperature_celsius: Option<u8>,
    /// Medium errors counted by the controller.
    pub media_errors: Option<u32>,
    /// Other errors counted by the controller: cable, backplane, and timeouts.
    pub other_errors: Option<u32>,
    /// Number of times that the drive predicted its failure (SMART).
    pub predictive_failures: Option<u32>,
    /// True if it contains volumes of another controller that were not imported.
    pub is_foreign: Option<bool>,
    /// Kernel name of its disk, for a drive that is passed through.
    pub disk: Option<String>,
}

/// A volume that a RAID controller builds on drives (`MR_DCMD_LD_GET_INFO`, `/sys/class/raid_devices`).
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RaidVolume {
    /// The controller's number for the volume, its SCSI target; the vendor's tools call it VD.
    pub id: u8,
    /// Name that an administrator gave it.
    pub name: Option<String>,
    /// `optimal`, `partially degraded` (it can lose one more drive), `degraded`, `resyncing` or
    /// `offline`.
    pub state: Option<String>,
    /// `RAID 0`, `RAID 1`, `RAID 10`, … (SNIA DDF 2.0 §4.2.1; of several spans, those with a 0).
    pub raid_level: Option<String>,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// NAA name of the volume, e.g. `0x600508b400105e210000900000490000`.
    pub wwn: Option<String>,
    /// Kernel name of its disk, e.g. `sda`.
    pub disk: Option<String>,
    /// Device ids of its drives, in the order of the arrays.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<u16>,
    /// Number of members that the controller does not find.
    pub n_missing_drives: Option<usize>,
}

impl RaidController {
    /// Its drives, as far as they are known.
    pub fn drives(&self) -> impl Iterator<Item = &RaidDrive> {
        self.drives.iter().flatten()
    }

    /// Its volumes, as far as they are known.
    pub fn volumes(&self) -> impl Iterator<Item = &RaidVolume> {
        self.volumes.iter().flatten()
    }
}
