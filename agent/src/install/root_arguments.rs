//! Kernel arguments that an installed `CoreOS` needs to find its root on more than a local disk (Fedora CoreOS
//! documentation, pages on bare metal installs).

use probes::block::Disk;

use super::{System, describe};
use crate::api::Install;

/// Arguments for a root on a multipath device.
const MULTIPATH: [&str; 3] =
    ["rd.multipath=default", "root=/dev/disk/by-label/dm-mpath-root", "rw"];
/// The argument for an iSCSI root that the firmware connects, as its iBFT table says.
const ISCSI_FIRMWARE: &str = "rd.iscsi.firmware=1";

/// The instruction with the arguments that its disk needs and that it lacks, and what was added or is missing, in
/// words.
#[must_use]
pub fn with_derived(install: &Install, disk: &Disk, system: &System) -> (Install, Vec<String>) {
    let has_ibft = || system.ask(|machine| machine.is_dir("sys/firmware/ibft")).unwrap_or_default();
    let derived = derived(disk, &install.append_kargs, has_ibft);
    let mut install = install.clone();
    let mut notes = Vec::new();
    match derived {
        Derived::None => {}
        Derived::Arguments(arguments) => {
            let words = arguments.join(" ");
            notes.push(format!("kernel arguments added for {}: {words}", describe(disk)));
            install.append_kargs.extend(arguments);
        }
        Derived::Unknown => notes.push(format!(
            "{} is an iSCSI LUN that the firmware did not connect; without rd.iscsi.initiator and netroot in \
             append_kargs the installed system will not find its root",
            describe(disk)
        )),
    }
    (install, notes)
}

/// What a disk needs.
#[derive(Debug, PartialEq, Eq)]
enum Derived {
    None,
    Arguments(Vec<String>),
    /// Arguments that only the VIM knows.
    Unknown,
}

fn derived(disk: &Disk, given: &[String], has_ibft: impl FnOnce() -> bool) -> Derived {
    let is_given = |prefixes: &[&str]| {
        given.iter().any(|argument| prefixes.iter().any(|prefix| argument.starts_with(prefix)))
    };
    let is_iscsi = disk.transport.as_deref() == Some("iscsi");
    let is_connected = is_given(&["rd.iscsi.", "netroot=iscsi:"]);
    let mut arguments = Vec::new();
    // A multipath device of device-mapper; NVMe has its own multipath, which needs no argument.
    if disk.name.starts_with("dm-") && !is_given(&["rd.multipath", "root="]) {
        arguments.extend(MULTIPATH.map(str::to_owned));
    }
    if is_iscsi && !is_connected {
        if !has_ibft() {
            return Derived::Unknown;
        }
        arguments.push(ISCSI_FIRMWARE.to_owned());
    }
    if arguments.is_empty() { Derived::None } else { Derived::Arguments(arguments) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, transport: &str, given: &[&str], has_ibft: bool) -> Derived {
        let disk = Disk { name: name.into(), transport: Some(transport.into()), ..Disk::default() };
        let given: Vec<String> = given.iter().map(|text| (*text).to_owned()).collect();
        derived(&disk, &given, || has_ibft)
    }

    fn arguments(words: &str) -> Derived {
        Derived::Arguments(words.split(' ').map(str::to_owned).collect())
    }

    #[test]
    fn root_on_multipath_or_iscsi_gets_its_arguments_once() {
        let mpath = "rd.multipath=default root=/dev/disk/by-label/dm-mpath-root rw";
        assert_eq!(of("dm-0", "fc", &["quiet"], false), arguments(mpath));
        assert_eq!(of("dm-0", "fc", &["rd.multipath=default"], false), Derived::None);
        assert_eq!(of("sda", "iscsi", &[], true), arguments("rd.iscsi.firmware=1"));
        let both = format!("{mpath} rd.iscsi.firmware=1");
        assert_eq!(of("dm-0", "iscsi", &[], true), arguments(&both));
        assert_eq!(of("sda", "iscsi", &["netroot=iscsi:x"], false), Derived::None);
        assert_eq!(of("sda", "iscsi", &[], false), Derived::Unknown);
        assert_eq!(of("sda", "sata", &[], true), Derived::None);
        assert_eq!(of("nvme0n1", "nvme", &[], true), Derived::None);
    }

    #[test]
    fn added_arguments_are_appended_and_named() {
        let disk = Disk { name: "dm-0".into(), device: "/dev/dm-0".into(), ..Disk::default() };
        let install = Install { append_kargs: vec!["quiet".into()], ..Install::default() };
        let (install, notes) = with_derived(&install, &disk, &System::default());
        assert_eq!(install.append_kargs.len(), 4);
        assert_eq!(
            notes,
            ["kernel arguments added for /dev/dm-0 (size unknown): rd.multipath=default \
              root=/dev/disk/by-label/dm-mpath-root rw"]
        );
    }
}
