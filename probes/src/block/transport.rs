//! Transport by which a disk is attached: the devices above it, the class of its SCSI host, or udev's `ID_BUS`.

use crate::machine::Machine;

use super::listing::BlockDevice;
use super::sysfs_path::{hctl, is_numbered, pci_path};
use formats::ata_identify::Identify;
use formats::data;

const TRANSPORTS: &str = include_str!("../../data/transports.txt");

/// The transport of the first row of this sort with such a name.
fn by_name(sort: &str, is_it: impl Fn(&str) -> bool) -> Option<&'static str> {
    let mut rows = data::rows(TRANSPORTS).filter_map(data::cells);
    rows.find(|[of, name, _]| *of == sort && is_it(name)).map(|[.., transport]| transport)
}

/// The SCSI host of the disk at `path`, e.g. `host0`.
fn host(path: &str) -> Option<String> {
    Some(format!("host{}", hctl(path)?.split(':').next()?))
}

/// The driver of a SCSI host (`/sys/class/scsi_host/hostN/proc_name`).
fn host_driver(machine: &Machine, host: &str) -> Option<String> {
    machine.text(&format!("sys/class/scsi_host/{host}/proc_name"))
}

/// The transport of the disk, e.g. `sata`, `sas`, `nvme`; `None` if unknown.
pub(super) fn transport(machine: &Machine, device: &BlockDevice) -> Option<String> {
    let of_name = by_name("disk", |prefix| device.name.starts_with(prefix));
    let known = of_name.or_else(|| by_path(&device.path));
    let known = known.or_else(|| by_host(machine, &device.path));
    let transport = known.or_else(|| match device.udev.property("ID_BUS") {
        Some(bus @ ("ata" | "usb" | "scsi" | "nvme" | "mmc")) => Some(bus),
        _ => hctl(&device.path).map(|_| "scsi"),
    })?;
    Some(if transport == "ata" { ata(machine, device) } else { transport }.to_owned())
}

/// Distinguishes SATA from parallel ATA: by the disk itself, by udev, or by the driver of the host. If
/// none of them says, it is `ata`.
fn ata(machine: &Machine, device: &BlockDevice) -> &'static str {
    let reported = Identify::of_page(&device.ata_page).and_then(Identify::is_serial_ata);
    let by_udev = || device.udev.property("ID_ATA_SATA").map(|_| true);
    let by_driver = || {
        let of_pci = || machine.link_name(&format!("{}/driver", pci_path(&device.path)?));
        let driver = host_driver(machine, &host(&device.path)?).or_else(of_pci)?;
        Some(driver.contains("ahci") || driver.starts_with("sata_"))
    };
    if reported.or_else(by_udev).or_else(by_driver) == Some(true) { "sata" } else { "ata" }
}

/// The nearest device above the disk that ends a transport. A USB bridge hides a SATA disk, so the device that the
/// kernel talks to counts, not those further away.
fn by_path(path: &str) -> Option<&'static str> {
    path.rsplit('/').find_map(|part| by_name("above", |prefix| is_numbered(part, prefix)))
}

/// The class of the SCSI host, or its driver.
fn by_host(machine: &Machine, path: &str) -> Option<&'static str> {
    let host = host(path)?;
    let is_in = |class: &str| machine.is_dir(&format!("sys/class/{class}/{host}"));
    by_name("class", is_in).or_else(|| match host_driver(machine, &host)?.as_str() {
        "virtio_scsi" => Some("virtio"),
        "usb-storage" | "uas" => Some("usb"),
        "iscsi_tcp" => Some("iscsi"),
        name if name.starts_with("ufshcd") => Some("ufs"),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SAS, USB, tree};

    fn of(name: &str, path: &str, files: &[(&str, &str)]) -> Option<String> {
        let device = BlockDevice { name: name.into(), path: path.into(), ..BlockDevice::default() };
        transport(&tree(files), &device)
    }

    #[test]
    fn ata_disk_is_sata_only_on_evidence() {
        let path = "sys/devices/pci0000:00/0000:00:1f.2/ata5/host4/target4:0:0/4:0:0:0/block/sda";
        for (words, driver, expected) in [
            (&[][..], "", "ata"),
            (&[], "unheard_of", "ata"),
            (&[], "xgene-ahci", "sata"),
            (&[], "sata_nv", "sata"),
            (&[(222, 0x10ff)], "ata_piix", "sata"),
            // Through a bridge.
            (&[(222, 0x003f), (76, 6)], "sata_sil", "ata"),
            (&[(76, 6)], "", "sata"),
            (&[(76, 0xffff), (222, 0xffff)], "", "ata"),
        ] {
            let ata_page = crate::testing::bytes::identify_page(words, &[(27, "X")]);
            let (name, path) = ("sda".into(), path.into());
            let device = BlockDevice { name, path, ata_page, ..BlockDevice::default() };
            let machine = tree(&[("sys/class/scsi_host/host4/proc_name", driver)]);
            assert_eq!(transport(&machine, &device).as_deref(), Some(expected), "{words:x?}");
        }
    }

    #[test]
    fn devices_above_a_disk_say_how_it_is_attached() {
        let [sas, usb] = [SAS, USB].map(|path| format!("sys/devices/{path}"));
        let sata = "sys/devices/pci0000:00/0000:00:1f.2/ata5/host4/target4:0:0/4:0:0:0/block/sdb";
        let raid = "sys/devices/pci0000:00/0000:03:00.0/host0/target0:2:0/0:2:0:0/block/sda";
        let ahci = ("sys/class/scsi_host/host4/proc_name", "ahci");
        let ide = ("sys/class/scsi_host/host4/proc_name", "ata_piix");
        let fc = ("sys/class/fc_host/host0/port_name", "0x1");
        for (name, path, file, expected) in [
            ("sda", &*sas, ahci, Some("sas")),
            ("sda", &usb, ahci, Some("usb")),
            ("sdb", sata, ahci, Some("sata")),
            ("sdb", sata, ide, Some("ata")),
            ("sda", raid, ahci, Some("scsi")),
            ("sda", raid, fc, Some("fc")),
            ("xvda", "sys/devices/vbd-768/block/xvda", ahci, Some("xen")),
            ("foo", "sys/block/foo", ahci, None),
        ] {
            assert_eq!(of(name, path, &[file]).as_deref(), expected, "{path}");
        }
        assert_eq!(hctl(raid), Some("0:2:0:0"));
    }
}
