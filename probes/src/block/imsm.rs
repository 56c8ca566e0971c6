//! RAID 1 volumes of Intel's firmware RAID (VROC, RST), which md assembles: `md126` in the container `md127`. The
//! firmware boots them, so an install may use one; its members are not disks for an install.
//!
//! Sources: `md/{level,metadata_version}` below `/sys/block` (`Documentation/admin-guide/md.rst`), and udev's `MD_UUID`
//! of the container.

use crate::machine::Machine;

use super::disk::Disk;
use super::listing::{BlockDevice, Listing};

/// The only level with which RHCOS documents an install on VROC.
const LEVEL: &str = "raid1";

/// The volumes among the virtual devices.
pub(super) fn volumes(machine: &Machine, virtuals: &[BlockDevice]) -> Vec<BlockDevice> {
    let volume = |device: &BlockDevice| {
        let metadata = array(machine, device, "metadata_version")?;
        // `external:/md127/0`, or `external:-md127/0` while mdadm changes the array.
        let container = metadata.strip_prefix("external:")?.strip_prefix(['/', '-'])?;
        let (container, _) = container.split_once('/')?;
        let container = virtuals.iter().find(|other| other.name == container)?;
        let is_imsm = array(machine, container, "metadata_version")? == "external:imsm";
        if !is_imsm || array(machine, device, "level")? != LEVEL {
            return None;
        }
        // A UUID as mdadm writes it; it becomes a kernel argument.
        let is_part = |byte: u8| byte.is_ascii_hexdigit() || byte == b':';
        let is_uuid = |text: &&str| text.len() == 35 && text.bytes().all(is_part);
        let container_uuid = container.udev.property("MD_UUID").filter(is_uuid).map(str::to_owned);
        Some(BlockDevice { container_uuid, ..device.clone() })
    };
    virtuals.iter().filter_map(volume).collect()
}

fn array(machine: &Machine, device: &BlockDevice, attribute: &str) -> Option<String> {
    let is_array = device.name.starts_with("md");
    is_array.then(|| device.text(machine, &format!("md/{attribute}")))?
}

/// Marks the members of volumes, and completes the volumes.
pub(super) fn mark(disks: &mut [Disk], listing: &Listing) {
    for volume in &listing.volumes {
        for disk in disks.iter_mut() {
            if volume.slaves.contains(&disk.name) {
                disk.raid_member_of = Some(volume.name.clone());
            } else if disk.name == volume.name {
                disk.transport = Some("raid".to_owned());
                disk.is_raid_volume = Some(true);
                disk.raid_level = Some(LEVEL.to_owned());
                disk.md_container_uuid.clone_from(&volume.container_uuid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::tree;

    const UUID: &str = "f3b5c1d2:00000000:11111111:22222222";

    fn files<'a>(level: &'a str, metadata: &'a str) -> Vec<(&'a str, &'a str)> {
        vec![
            ("sys/block/nvme0n1/size", "4096\n"),
            ("sys/block/nvme0n1/holders/md126/x", ""),
            ("sys/block/nvme0n1/holders/md127/x", ""),
            ("sys/block/nvme1n1/size", "4096\n"),
            ("sys/block/nvme2n1/size", "8192\n"),
            ("sys/block/md127/dev", "9:127\n"),
            ("sys/block/md127/size", "0\n"),
            ("sys/block/md127/slaves/nvme0n1/x", ""),
            ("sys/block/md127/slaves/nvme1n1/x", ""),
            ("sys/block/md127/md/level", "container\n"),
            ("sys/block/md127/md/metadata_version", metadata),
            ("sys/block/md126/dev", "9:126\n"),
            ("sys/block/md126/size", "4000\n"),
            ("sys/block/md126/slaves/nvme0n1/x", ""),
            ("sys/block/md126/slaves/nvme1n1/x", ""),
            ("sys/block/md126/md/level", level),
            ("sys/block/md126/md/metadata_version", "external:/md127/0\n"),
            ("sys/block/md126/md126p1/partition", "1\n"),
            ("run/udev/data/b9:127", "I:1\nE:MD_UUID=f3b5c1d2:00000000:11111111:22222222\n"),
            ("run/udev/data/b9:126", "I:2\nS:disk/by-id/md-uuid-aa\n"),
        ]
    }

    #[test]
    fn vroc_volume_is_a_disk_and_its_members_are_not() {
        let block = super::super::block(&tree(&files("raid1\n", "external:imsm\n")));
        let names: Vec<&str> = block.disks.iter().map(|disk| disk.name.as_str()).collect();
        assert_eq!(names, ["md126", "nvme0n1", "nvme1n1", "nvme2n1"]);
        let volume = &block.disks[0];
        assert!(volume.eligible, "{:?}", volume.not_eligible_because);
        assert_eq!(volume.md_container_uuid.as_deref(), Some(UUID));
        assert_eq!(volume.by_id, ["/dev/disk/by-id/md-uuid-aa"]);
        assert_eq!(volume.partitions[0].name, "md126p1");
        for member in &block.disks[1..3] {
            assert_eq!(member.unit(), Some("md126"));
            let why = member.not_eligible_because.join("; ");
            assert!(why.contains("a member of the RAID volume md126; use that instead"), "{why}");
        }
        assert!(block.disks[3].eligible && block.disks[3].unit().is_none());
        // The drives are the storage, the volume is no further one.
        assert_eq!((block.n_disks, block.physical_bytes), (Some(3), Some(16384 * 512)));
    }

    #[test]
    fn arrays_that_the_firmware_does_not_boot_are_no_disks() {
        for (level, metadata) in [
            ("raid0\n", "external:imsm\n"),
            ("raid1\n", "external:ddf\n"),
            ("raid1\n", "1.2\n"),
            ("raid1\n", "none\n"),
        ] {
            let block = super::super::block(&tree(&files(level, metadata)));
            assert!(block.disks.iter().all(|disk| disk.name != "md126"), "{level}{metadata}");
            assert!(block.disks.iter().all(|disk| disk.unit().is_none()));
        }
    }
}
