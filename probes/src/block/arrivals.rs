//! Detection of disks that still appear: the disks present, since when udev knows each, and whether udev is busy.
//!
//! Sources: `/sys/block`, `/run/udev/queue` (exists while udev has events to process, `udevadm settle`),
//! `I:` in `/run/udev/data/b<major>:<minor>` (microseconds since the boot when the device was first processed),
//! `/proc/uptime`.

use std::time::Duration;

use crate::machine::Machine;

/// Directory of devices that the kernel makes itself, such as loop devices and mappings.
const VIRTUAL: &str = "sys/devices/virtual/";
/// The exception: the namespaces of NVMe controllers with several paths.
const NVME: &str = "sys/devices/virtual/nvme-subsystem/";

/// The disks of one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// True if udev has events to process.
    pub is_udev_busy: bool,
    /// Every disk, by name.
    pub disks: Vec<Arrival>,
}

/// A disk that has appeared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// Kernel name, e.g. `sda`.
    pub name: String,
    /// Number that the kernel gives each disk that appears, since Linux 5.15.
    pub diskseq: Option<u64>,
    /// Its size in sectors of 512 bytes. A disk that has just appeared, or an empty drive, may have 0.
    pub n_sectors: Option<u64>,
    /// For how long udev has known it; `None` if udev does not.
    pub age: Option<Duration>,
}

/// Reads which disks there are now.
pub fn arrivals(machine: &Machine) -> Arrivals {
    let uptime = machine.text("proc/uptime").as_deref().and_then(parse_uptime);
    let disk = |name: String| {
        let path = machine.device_path(&format!("sys/block/{name}"));
        if path.starts_with(VIRTUAL) && !path.starts_with(NVME) {
            return None;
        }
        let known_since = machine.text(&format!("{path}/dev")).and_then(|number| {
            let entry = machine.text(&format!("run/udev/data/b{number}"))?;
            entry.lines().find_map(|line| line.strip_prefix("I:")?.parse().ok())
        });
        let known_since = known_since.map(Duration::from_micros);
        let age = uptime.zip(known_since).map(|(now, since)| now.saturating_sub(since));
        let number = |file: &str| machine.number(&format!("{path}/{file}"));
        // A path to an NVMe namespace has no device number, so udev never knows its age. Its head is listed too.
        if number("hidden") == Some(1) {
            return None;
        }
        Some(Arrival { diskseq: number("diskseq"), n_sectors: number("size"), name, age })
    };
    Arrivals {
        is_udev_busy: machine.names("run/udev").iter().any(|name| name == "queue"),
        disks: machine.list("sys/block").into_iter().filter_map(disk).collect(),
    }
}

/// The first number of `350735.47 234388.90`, in seconds.
fn parse_uptime(text: &str) -> Option<Duration> {
    let seconds: f64 = text.split(' ').next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn disks_have_the_age_that_udev_knows_and_devices_of_the_kernel_are_none() {
        let machine = tree(&[
            ("proc/uptime", "20.50 11.00"),
            ("run/udev/queue", ""),
            ("run/udev/data/b8:0", "S:disk/by-id/x\nI:18000000\nE:ID_X=1\n"),
            ("sys/block/sda", "-> ../devices/pci0/sda"),
            ("sys/devices/pci0/sda/dev", "8:0"),
            ("sys/devices/pci0/sda/diskseq", "7"),
            ("sys/devices/pci0/sda/size", "2048"),
            ("sys/block/nvme0n1", "-> ../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1"),
            ("sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1/dev", "259:0"),
            ("sys/block/nvme0c0n1", "-> ../devices/pci0/nvme0/nvme0c0n1"),
            ("sys/devices/pci0/nvme0/nvme0c0n1/hidden", "1"),
            ("sys/block/loop0", "-> ../devices/virtual/block/loop0"),
            ("sys/devices/virtual/block/loop0/dev", "7:0"),
        ]);
        let found = arrivals(&machine);
        assert!(found.is_udev_busy);
        let [nvme, sda] = &found.disks[..] else { panic!("{found:?}") };
        assert_eq!((nvme.name.as_str(), nvme.age), ("nvme0n1", None));
        assert_eq!((sda.diskseq, sda.n_sectors), (Some(7), Some(2048)));
        assert_eq!(sda.age, Some(Duration::from_millis(2500)));
        assert_eq!(arrivals(&tree(&[])), Arrivals::default());
    }
}
