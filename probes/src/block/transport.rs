//! Transport by which a disk is attached: the devices above it, the class of its SCSI host, or udev's `ID_BUS`.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::machine::Machine;

use super::listing::BlockDevice;
use super::sysfs_path::{hctl, is_numbered, pci_path};
use formats::ata_identify::Identify;

/// The facts of SCSI hosts read so far; many disks share one.
#[derive(Debug)]
pub(super) struct Hosts<'a> {
    machine: &'a Machine,
    drivers: RefCell<BTreeMap<String, Option<String>>>,
    classes: RefCell<BTreeMap<String, Option<&'static str>>>,
}

impl Hosts<'_> {
    pub(super) fn new(machine: &Machine) -> Hosts<'_> {
        Hosts { machine, drivers: RefCell::default(), classes: RefCell::default() }
    }

    /// The driver of the host (`/sys/class/scsi_host/hostN/proc_name`).
    fn driver(&self, host: &str) -> Option<String> {
        let read = || self.machine.text(&format!("sys/class/scsi_host/{host}/proc_name"));
        self.drivers.borrow_mut().entry(host.to_owned()).or_insert_with(read).clone()
    }

    /// The transport whose class contains the host.
    fn class(&self, host: &str) -> Option<&'static str> {
        let classes = [
            ("fc_host", "fc"),
            ("iscsi_host", "iscsi"),
            ("sas_host", "sas"),
            ("srp_host", "srp"),
            ("spi_host", "spi"),
        ];
        let is_in = |class: &str| self.machine.is_dir(&format!("sys/class/{class}/{host}"));
        let read =
            || classes.iter().find(|(class, _)| is_in(class)).map(|(_, transport)| *transport);
        *self.classes.borrow_mut().entry(host.to_owned()).or_insert_with(read)
    }
}

/// The transport of the disk, e.g. `sata`, `sas`, `nvme`; `None` if unknown.
pub(super) fn transport(device: &BlockDevice, hosts: &Hosts<'_>) -> Option<String> {
    let known = by_name(&device.name).or_else(|| by_path(&device.path));
    let known = known.or_else(|| by_host(hosts, &device.path));
    match known {
        Some("ata") => return Some(ata(device, hosts).to_owned()),
        Some(transport) => return Some(transport.to_owned()),
        None => {}
    }
    match device.udev.property("ID_BUS") {
        Some("ata") => Some(ata(device, hosts)),
        Some(bus @ ("usb" | "scsi" | "nvme" | "mmc")) => Some(bus),
        _ => hctl(&device.path).map(|_| "scsi"),
    }
    .map(str::to_owned)
}

fn by_name(name: &str) -> Option<&'static str> {
    let drivers = [
        ("nvme", "nvme"),
        ("mmcblk", "mmc"),
        ("vd", "virtio"),
        ("xvd", "xen"),
        ("pmem", "nvdimm"),
        ("dasd", "ccw"),
        ("fd", "floppy"),
        ("hd", "ata"),
    ];
    drivers.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, transport)| *transport)
}

/// Distinguishes SATA from parallel ATA: by the disk itself, by udev, or by the driver of the host. If
/// none of them says, it is `ata`.
fn ata(device: &BlockDevice, hosts: &Hosts<'_>) -> &'static str {
    let reported = Identify::of_page(&device.ata_page).and_then(Identify::is_serial_ata);
    let by_udev = || device.udev.property("ID_ATA_SATA").map(|_| true);
    let by_driver = || {
        let of_pci = || hosts.machine.link_name(&format!("{}/driver", pci_path(&device.path)?));
        let host = hctl(&device.path)?.split(':').next()?;
        let driver = hosts.driver(&format!("host{host}")).or_else(of_pci)?;
        Some(driver.contains("ahci") || driver.starts_with("sata_"))
    };
    if reported.or_else(by_udev).or_else(by_driver) == Some(true) { "sata" } else { "ata" }
}

/// The nearest device above the disk that ends a transport. A USB bridge hides a SATA disk, so the device that the
/// kernel talks to counts, not those further away.
fn by_path(path: &str) -> Option<&'static str> {
    path.rsplit('/').find_map(|part| match part {
        _ if is_numbered(part, "end_device-") => Some("sas"),
        _ if is_numbered(part, "rport-") => Some("fc"),
        _ if is_numbered(part, "session") => Some("iscsi"),
        _ if is_numbered(part, "usb") => Some("usb"),
        _ if is_numbered(part, "ata") => Some("ata"),
        _ if is_numbered(part, "fw") => Some("sbp"),
        _ => None,
    })
}

/// The class of the SCSI host, or its driver.
fn by_host(hosts: &Hosts<'_>, path: &str) -> Option<&'static str> {
    let host = format!("host{}", hctl(path)?.split(':').next()?);
    if let Some(transport) = hosts.class(&host) {
        return Some(transport);
    }
    match hosts.driver(&host)?.as_str() {
        "virtio_scsi" => Some("virtio"),
        "usb-storage" | "uas" => Some("usb"),
        "iscsi_tcp" => Some("iscsi"),
        name if name.starts_with("ufshcd") => Some("ufs"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    fn of(name: &str, path: &str, files: &[(&str, &str)]) -> Option<String> {
        let device = BlockDevice { name: name.into(), path: path.into(), ..BlockDevice::default() };
        transport(&device, &Hosts::new(&tree(files)))
    }

    #[test]
    fn ata_disk_is_sata_only_on_evidence() {
        let path = "sys/devices/pci0000:00/0000:00:1f.2/ata5/host4/target4:0:0/4:0:0:0/block/sda";
        let of = |words: &[(usize, u16)], driver: &str| {
            let ata_page = crate::testing::bytes::identify_page(words, &[(27, "X")]);
            let device = BlockDevice {
                name: "sda".into(),
                path: path.into(),
                ata_page,
                ..BlockDevice::default()
            };
            let machine = tree(&[("sys/class/scsi_host/host4/proc_name", driver)]);
            transport(&device, &Hosts::new(&machine)).unwrap()
        };
        assert_eq!(of(&[], ""), "ata");
        assert_eq!(of(&[], "unheard_of"), "ata");
        assert_eq!(of(&[], "xgene-ahci"), "sata");
        assert_eq!(of(&[], "sata_nv"), "sata");
        assert_eq!(of(&[(222, 0x10ff)], "ata_piix"), "sata");
        assert_eq!(of(&[(222, 0x003f), (76, 6)], "sata_sil"), "ata", "through a bridge");
        assert_eq!(of(&[(76, 6)], ""), "sata");
        assert_eq!(of(&[(76, 0xffff), (222, 0xffff)], ""), "ata");
    }

    #[test]
    fn devices_above_a_disk_say_how_it_is_attached() {
        let sas = "sys/devices/pci0000:3a/0000:3b:00.0/host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0/block/sda";
        let usb = "sys/devices/pci0000:00/0000:00:14.0/usb1/1-7/1-7:1.0/host6/target6:0:0/6:0:0:0/block/sda";
        let sata = "sys/devices/pci0000:00/0000:00:1f.2/ata5/host4/target4:0:0/4:0:0:0/block/sdb";
        let raid = "sys/devices/pci0000:00/0000:03:00.0/host0/target0:2:0/0:2:0:0/block/sda";
        let files = [("sys/class/block/x", "")];
        assert_eq!(of("sda", sas, &files).as_deref(), Some("sas"));
        assert_eq!(of("sda", usb, &files).as_deref(), Some("usb"));
        let ahci = [("sys/class/scsi_host/host4/proc_name", "ahci")];
        assert_eq!(of("sdb", sata, &ahci).as_deref(), Some("sata"));
        assert_eq!(of("sda", raid, &files).as_deref(), Some("scsi"));
        let fc = [("sys/class/fc_host/host0/port_name", "0x1")];
        assert_eq!(of("sda", raid, &fc).as_deref(), Some("fc"));
        let ide = [("sys/class/scsi_host/host4/proc_name", "ata_piix")];
        assert_eq!(of("sdb", sata, &ide).as_deref(), Some("ata"));
        assert_eq!(of("foo", "sys/block/foo", &files), None);
        assert_eq!(hctl(raid), Some("0:2:0:0"));
    }
}
