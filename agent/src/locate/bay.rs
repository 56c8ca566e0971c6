//! The locate light of a disk bay: an SES enclosure slot
//! (`/sys/class/enclosure/<enclosure>/<slot>/locate`, `drivers/misc/enclosure.c`), or the LED of a `PCIe` port
//! (`/sys/class/leds/<port>:enclosure:locate`, NPEM, `drivers/pci/npem.c`).

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use probes::block::Disk;
use probes::machine::Machine;

/// Turns the light of the disk's bay on or off, and returns its file. `root` is the machine's root directory.
///
/// # Errors
/// If the disk is in no bay with such a light, or the light cannot be set.
pub(super) fn set(
    machine: &Machine,
    root: &Path,
    disk: &Disk,
    is_on: bool,
) -> anyhow::Result<String> {
    let path = light(machine, disk).ok_or_else(|| {
        anyhow!("{} is in no bay with a locate light that the kernel knows", disk.device)
    })?;
    let opened = OpenOptions::new().write(true).open(root.join(&path));
    let written = opened.and_then(|mut file| file.write_all(if is_on { b"1" } else { b"0" }));
    written.with_context(|| format!("writing /{path}"))?;
    Ok(path)
}

fn light(machine: &Machine, disk: &Disk) -> Option<String> {
    let slot = disk.bay.as_ref().and_then(|bay| bay.enclosure.as_ref().zip(bay.label.as_ref()));
    if let Some((enclosure, label)) = slot {
        return Some(format!("sys/class/enclosure/{enclosure}/{label}/locate"));
    }
    // The light of another disk's port would be that of the card which the disk is attached to.
    if disk.transport.as_deref() != Some("nvme") {
        return None;
    }
    // A disk that is reached over several controllers has an address for each of them only.
    let address = disk.pci_address.as_ref().or_else(|| disk.paths.first()?.pci_address.as_ref())?;
    let device = machine.device_path(&format!("sys/bus/pci/devices/{address}"));
    let leds = machine.list("sys/class/leds");
    // The port of the bay is the one next to the disk; a port above it leads to the whole backplane.
    let name = |port: &&str| format!("{port}:enclosure:locate");
    let port = device.rsplit('/').find(|port| leds.contains(&name(port)))?;
    Some(format!("sys/class/leds/{port}:enclosure:locate/brightness"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use probes::block::{DiskBay, DiskPath};
    use probes::machine::Source;

    use super::*;

    fn read(root: &Path, path: &str) -> String {
        fs::read_to_string(root.join(path)).unwrap()
    }

    #[test]
    fn only_the_light_of_the_disks_own_bay_is_switched() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let slots = ["sys/class/enclosure/0:0:8:0/Slot 03", "sys/class/enclosure/0:0:8:0/Slot 04"];
        let leds = ["0000:3a:00.0", "0000:3a:02.0", "0000:3a:03.0"]
            .map(|port| format!("sys/class/leds/{port}:enclosure:locate"));
        for folder in slots.iter().copied().chain(leds.iter().map(String::as_str)) {
            fs::create_dir_all(root.join(folder)).unwrap();
            fs::write(root.join(folder).join("locate"), "0").unwrap();
            fs::write(root.join(folder).join("brightness"), "0").unwrap();
        }
        let device = "sys/devices/pci0000:39/0000:3a:00.0/0000:3a:03.0/0000:3c:00.0";
        fs::create_dir_all(root.join(device)).unwrap();
        fs::create_dir_all(root.join("sys/bus/pci/devices")).unwrap();
        symlink(format!("../../../../{device}"), root.join("sys/bus/pci/devices/0000:3c:00.0"))
            .unwrap();
        let machine = Machine::new(Arc::new(Source::captured(root).unwrap()), "locate");

        let bay = DiskBay {
            enclosure: Some("0:0:8:0".to_owned()),
            label: Some("Slot 03".to_owned()),
            ..DiskBay::default()
        };
        let sas = Disk { device: "/dev/sda".to_owned(), bay: Some(bay), ..Disk::default() };
        set(&machine, root, &sas, true).unwrap();
        let state = slots.map(|slot| read(root, &format!("{slot}/locate")));
        assert_eq!(state, ["1", "0"]);
        set(&machine, root, &sas, false).unwrap();
        assert_eq!(read(root, &format!("{}/locate", slots[0])), "0");

        let path = DiskPath { pci_address: Some("0000:3c:00.0".to_owned()), ..DiskPath::default() };
        let transport = Some("nvme".to_owned());
        let nvme = Disk { paths: vec![path.clone()], transport, ..Disk::default() };
        set(&machine, root, &nvme, true).unwrap();
        let state = leds.map(|led| read(root, &format!("{led}/brightness")));
        assert_eq!(state, ["0", "0", "1"]);

        let other = Disk { device: "/dev/vda".to_owned(), paths: vec![path], ..Disk::default() };
        let error = set(&machine, root, &other, true).unwrap_err().to_string();
        assert_eq!(error, "/dev/vda is in no bay with a locate light that the kernel knows");
    }
}
