//! One disk as the report has it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bay::DiskBay;
use super::kernel_name::{emmc_parent, is_floppy, is_optical};
use super::obstacle::Obstacle;
use super::partition::Partition;
use super::queue::DiskQueue;
use super::target::DiskTarget;
use super::virtual_media::is_virtual_media;
use formats::disk_security::DiskSecurity;
use formats::health::Health;
use formats::signature::Filesystem;
use formats::tcg::DiskTcg;

/// One physical disk, LUN or drive.
#[serde_with::skip_serializing_none]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Disk {
    /// Kernel name, e.g. `sda`. It may change across boots, so it is never a key.
    pub name: String,
    /// Path of the device, e.g. `/dev/sda`.
    pub device: String,
    /// Major and minor number, e.g. `8:0`.
    pub device_number: Option<String>,
    /// Number that the kernel never reuses while it runs (since Linux 5.15).
    pub diskseq: Option<u64>,
    /// Size in bytes; 0 for a drive without a medium.
    pub size_bytes: Option<u64>,
    /// True if the kernel considers it rotating; virtual machines often claim this for any disk.
    pub rotational: Option<bool>,
    /// `sata`, `ata` (parallel, or of unknown kind), `sas`, `raid` (a RAID controller's volume,
    /// whatever its disks are), `scsi` (of unknown kind), `nvme`, `usb`, `virtio`, `mmc`, `fc`,
    /// `iscsi`, `xen`, `nvdimm`, `ccw`, …
    pub transport: Option<String>,
    /// Vendor as the disk reports it; `ATA` for SATA disks.
    pub vendor: Option<String>,
    /// Model as the disk reports it.
    pub model: Option<String>,
    /// Serial number of the unit.
    pub serial: Option<String>,
    /// Other serial numbers that some source reports for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_serials: Vec<String>,
    /// Firmware revision.
    pub firmware: Option<String>,
    /// World-wide name as udev writes it, e.g. `0x5000c500a1b2c3d4` or `eui.0025385b11b2c3d4`.
    pub wwn: Option<String>,
    /// The kernel's own identifier, e.g. `naa.5000c500a1b2c3d4` or `t10.ATA …`.
    pub wwid: Option<String>,
    /// EUI-64 of an NVMe namespace, 16 hexadecimal digits.
    pub eui64: Option<String>,
    /// NGUID of an NVMe namespace, 32 hexadecimal digits.
    pub nguid: Option<String>,
    /// Faults of the identifiers: blank, or shared with another disk.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub identity_issues: Vec<String>,
    /// SCSI Host:Channel:Target:LUN; it may change across boots.
    pub hctl: Option<String>,
    /// Path by place, e.g. `/dev/disk/by-path/pci-0000:00:1f.2-ata-1`; `None` without udev.
    pub by_path: Option<String>,
    /// Its other paths by place, e.g. `…-ata-1.0` where `by_path` is `…-ata-1`. Not reported.
    #[serde(skip)]
    pub other_paths: Vec<String>,
    /// Paths by identity, e.g. `/dev/disk/by-id/wwn-0x5000c500a1b2c3d4`.
    pub by_id: Vec<String>,
    /// PCI address of the controller; `None` if its paths use several.
    pub pci_address: Option<String>,
    /// NUMA node of the controller; `None` if the kernel does not know it.
    pub numa_node: Option<u32>,
    /// Logical block size in bytes: 4096 needs a special image.
    pub logical_block_bytes: Option<u32>,
    /// Physical block size in bytes.
    pub physical_block_bytes: Option<u32>,
    /// The CoreOS disk image that fits: `metal` for logical blocks of 512 bytes, whatever the size
    /// of the physical ones, `metal4k` for logical blocks of 4096 bytes; `None` if no image fits.
    pub coreos_image: Option<String>,
    /// Rotation rate in rpm; `None` for disks that do not rotate or do not report it (VPD page B1h, word
    /// 217 of IDENTIFY DEVICE).
    pub rotation_rpm: Option<u32>,
    /// Nominal form factor, e.g. `2.5 inch` (VPD page B1h, word 168 of IDENTIFY DEVICE).
    pub form_factor: Option<String>,
    /// Number of an NVMe namespace within its subsystem (`nsid`).
    pub namespace_id: Option<u32>,
    /// Driver of the PCI device that the disk is attached to, e.g. `ahci` or `megaraid_sas`.
    pub controller_driver: Option<String>,
    /// PCI address of the Intel Volume Management Device (VMD) that the drive is attached through.
    pub vmd_address: Option<String>,
    /// True if it is the volume of a RAID controller, whose drives are hidden, or a RAID 1 volume of Intel VROC, which
    /// the operating system assembles. `None` for controllers where this is unknown. Members of the firmware RAID of a
    /// chipset (Intel, AMD) are disks, with `false`.
    pub is_raid_volume: Option<bool>,
    /// RAID level of such a volume, as the driver writes it, e.g. `RAID 1(1+0)`.
    pub raid_level: Option<String>,
    /// The target end of the path to a SAS disk, Fibre Channel or iSCSI LUN.
    pub target: Option<DiskTarget>,
    /// Negotiated speed of a SATA link in Mbit/s (`ata_link/*/sata_spd`).
    pub link_mbit_s: Option<u32>,
    /// The bay that it is in; `None` without an enclosure that reports it.
    pub bay: Option<DiskBay>,
    /// Format of protection information that the kernel keeps with each block, e.g.
    /// `T10-DIF-TYPE1-CRC` (`integrity/format`).
    pub integrity_format: Option<String>,
    /// Type of T10 protection that a SCSI disk is formatted with, 1 to 3
    /// (`scsi_disk/*/protection_type`).
    pub protection_type: Option<u32>,
    /// The queue through which the kernel sends requests to it.
    pub queue: Option<DiskQueue>,
    /// Its means to erase and lock itself.
    pub security: Option<DiskSecurity>,
    /// The TCG standards (Opal and others) that it supports, and its locks by them. `None` if it
    /// was not asked: it does not support the commands, it is not a SAS, SATA or NVMe disk of its own, or
    /// the kernel blocks the commands (for SATA unless `libata.allow_tpm=1`).
    pub tcg: Option<DiskTcg>,
    /// The health that it reports.
    pub health: Option<Health>,
    /// True if the medium is removable.
    pub is_removable: Option<bool>,
    /// True if it refuses writes.
    pub is_read_only: Option<bool>,
    /// True if the device itself refuses writes; otherwise the kernel may only have been configured so. Not reported.
    #[serde(skip)]
    pub is_write_protected: bool,
    /// True if the kernel hides it.
    pub hidden: Option<bool>,
    /// `running` or `offline` of a SCSI disk, `live` or `dead` of an NVMe controller.
    pub state: Option<String>,
    /// `host-managed` or `host-aware` for zoned disks; `None` for all others.
    pub zoned: Option<String>,
    /// True if an install may use it, as far as the disk itself is concerned.
    pub eligible: bool,
    /// Why an install may not use it; empty if it may.
    pub not_eligible_because: Vec<String>,
    /// The same reasons with their kinds. Not reported.
    #[serde(skip)]
    pub obstacles: Vec<Obstacle>,
    /// Partitions that its table lists and the kernel does not have. Not reported.
    #[serde(skip)]
    pub unlisted: Vec<UnlistedPartition>,
    /// The content of mappings and arrays that are built on it. Not reported.
    #[serde(skip)]
    pub content_above: Vec<ContentAbove>,
    /// Every name of the mappings, arrays and loop devices that are built on it, of their partitions and of their content,
    /// paths among them. Not reported.
    #[serde(skip)]
    pub names_above: Vec<String>,
    /// True if it is reached over a fabric: Fibre Channel, iSCSI, SRP, or NVMe over one. Other hosts may use it then. Not
    /// reported.
    #[serde(skip)]
    pub is_on_fabric: bool,
    /// True if its first bytes contain something without any known signature. Not reported.
    #[serde(skip)]
    pub has_unknown_content: bool,
    /// True if part of its content was not examined because the right to read it is missing. Not
    /// reported, since `not_eligible_because` says it in words.
    #[serde(skip)]
    pub is_content_denied: bool,
    /// Why its first bytes cannot be read, if the disk itself is the cause. Not reported, since
    /// `not_eligible_because` says it.
    #[serde(skip)]
    pub unreadable_because: Option<String>,
    /// The part that a quick test could not read, if the disk itself is the cause. Not reported, since only `check` reads it.
    #[serde(skip)]
    pub sample_failure: Option<String>,
    /// True if the running system was booted from it.
    pub is_live_medium: bool,
    /// The disk that this boot area of an eMMC belongs to.
    pub part_of: Option<String>,
    /// Boot and other special areas of an eMMC; each is listed as a separate disk that is not eligible.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub areas: Vec<String>,
    /// The multipath device that this path belongs to, e.g. `dm-0`.
    pub multipath: Option<String>,
    /// The volume of Intel's firmware RAID (VROC, RST) that this disk is a member of, e.g. `md126`; only for RAID 1, which
    /// the firmware boots.
    pub raid_member_of: Option<String>,
    /// Of such a volume, the UUID of its container as mdadm writes it. Not reported.
    #[serde(skip)]
    pub md_container_uuid: Option<String>,
    /// `gpt` or `dos`.
    pub partition_table: Option<String>,
    /// Content of the whole disk, outside partitions.
    pub filesystem: Option<Filesystem>,
    /// Mount points of the whole disk.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounted_at: Vec<String>,
    /// True if the whole disk is swap in use; `None` if the list of swap areas (`/proc/swaps`) is unknown.
    pub is_swap: Option<bool>,
    /// Devices that the kernel has built on the whole disk, e.g. `dm-0`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<String>,
    /// Systems that seem to be installed on it, judged by types and labels of its partitions: an install
    /// would destroy them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub existing_os: Vec<String>,
    /// Partitions, by number.
    pub partitions: Vec<Partition>,
    /// Paths of an NVMe namespace with native multipath, or of a multipath device.
    pub paths: Vec<DiskPath>,
}

/// One path to a namespace or LUN.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiskPath {
    /// Kernel name, e.g. `nvme0c0n1` or `sda`.
    pub name: String,
    /// The controller of an NVMe path, e.g. `nvme0`.
    pub controller: Option<String>,
    /// SCSI Host:Channel:Target:LUN of a path of a multipath device.
    pub hctl: Option<String>,
    /// The target end of a path of a multipath device.
    pub target: Option<DiskTarget>,
    /// State of the NVMe controller, e.g. `live`, or of the SCSI path, e.g. `running`.
    pub state: Option<String>,
    /// Asymmetric access state of NVMe (`optimized`, `non-optimized`, `inaccessible`, …) or of SCSI
    /// (`active/optimized`, `standby`, …; `device/access_state`).
    pub ana_state: Option<String>,
    /// PCI address of the controller.
    pub pci_address: Option<String>,
    /// NUMA node of the controller.
    pub numa_node: Option<u32>,
}

/// A partition that is in the table but not in the kernel: those of a backup table, or of a table that was
/// written after the kernel read it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnlistedPartition {
    /// Number in the table.
    pub number: u32,
    /// Name in a GPT.
    pub label: Option<String>,
    /// Its content.
    pub filesystem: Option<Filesystem>,
}

/// Content of one device above a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContentAbove {
    /// Kernel name of the device or one of its partitions, e.g. `dm-3` or `md127p1`.
    pub name: String,
    /// Its content.
    pub filesystem: Filesystem,
}

/// A disk or a partition with known content.
#[derive(Debug, Clone)]
pub struct Volume<'d> {
    /// The disk.
    pub disk: &'d Disk,
    /// The partition; `None` for the whole disk, and for a partition that only the table lists.
    pub partition: Option<&'d Partition>,
    /// Kernel name, e.g. `sda1`; `partition 1` if only the table lists it.
    pub name: String,
    /// Its content.
    pub filesystem: &'d Filesystem,
}

/// Start of an identity issue that names disks with the same identity.
pub(super) const SHARED_IDENTITY: &str = "the same identity as";

impl Disk {
    /// True if it is a disk or LUN, not a drive for removable media.
    pub fn is_storage(&self) -> bool {
        let is_drive = is_optical(&self.name) || is_floppy(&self.name);
        !is_drive && emmc_parent(&self.name).is_none() && !self.is_bmc_medium()
    }

    /// The device that has the content of this disk and is to be used instead of it: the multipath device, or a
    /// firmware RAID volume.
    pub fn unit(&self) -> Option<&str> {
        self.multipath.as_deref().or(self.raid_member_of.as_deref())
    }

    /// Everything on it that has known content: the whole, its partitions, and those that only its table lists.
    pub fn volumes(&self) -> impl Iterator<Item = Volume<'_>> {
        let volume =
            |partition, name, filesystem| Volume { disk: self, partition, name, filesystem };
        let whole = self.filesystem.iter();
        let whole = whole.map(move |found| volume(None, self.name.clone(), found));
        let listed = self.partitions.iter().filter_map(move |part| {
            Some(volume(Some(part), part.name.clone(), part.filesystem.as_ref()?))
        });
        let unlisted = self.unlisted.iter().filter_map(move |part| {
            Some(volume(None, format!("partition {}", part.number), part.filesystem.as_ref()?))
        });
        whole.chain(listed).chain(unlisted)
    }

    /// True if an ATA password keeps it from being read.
    pub fn is_locked_by_password(&self) -> bool {
        self.security.as_ref().is_some_and(|security| security.is_locked == Some(true))
    }

    /// True if an ATA password or a TCG lock keeps it from being read or written.
    pub fn is_locked(&self) -> bool {
        self.is_locked_by_password()
            || self.tcg.as_ref().is_some_and(|tcg| tcg.obstacle().is_some())
    }

    /// The issues that name disks with the same identity.
    pub(crate) fn shared_identities(&self) -> impl Iterator<Item = &String> {
        self.identity_issues.iter().filter(|issue| issue.starts_with(SHARED_IDENTITY))
    }

    /// True if it is a virtual medium of a management controller.
    pub(super) fn is_bmc_medium(&self) -> bool {
        let (vendor, model) = (self.vendor.as_deref(), self.model.as_deref());
        is_virtual_media(self.transport.as_deref(), vendor, model)
    }
}

/// The value that all paths share; `None` if they differ.
pub(super) fn shared_by_all<T: PartialEq>(
    paths: &[DiskPath],
    value: impl Fn(&DiskPath) -> Option<T>,
) -> Option<T> {
    let first = value(paths.first()?)?;
    paths.iter().all(|path| value(path).as_ref() == Some(&first)).then_some(first)
}
