//! What an order and its Ignition config do at the first boot that their author may not expect: to other disks, to who can
//! log in, and by kernel arguments. A disk that the config erases goes through the same choice as the target does.

use std::path::Path;

use ignition::{Checked, Erased};
use probes::block::Disk;
use serde_json::Value;

use super::choice::{Wanted, label_warnings};
use super::choose::names;
use super::{Code, Failure, describe, existing, list, protect, say};

/// The link to the disk that CoreOS was booted from.
const BOOT_DISK: &str = "/dev/disk/by-id/coreos-boot-disk";
/// The root that CoreOS documents for multipath devices.
const MULTIPATH_ROOT: &str = "root=/dev/disk/by-label/dm-mpath-root";
/// Platforms that give no user a key.
const WITHOUT_KEYS: [&str; 3] = ["metal", "qemu", "file"];

/// Kernel arguments that seldom do what was meant, by their beginnings, and what they do.
const KERNEL_ARGUMENTS: [(&str, &str); 7] = [
    ("root=", "the system starts from that root file system, which may be on another disk"),
    ("init=", "that program runs in place of systemd"),
    ("rdinit=", "that program runs in place of the initramfs"),
    (
        "ignition.config.url=",
        "the first boot uses that Ignition config and ignores the installed one",
    ),
    ("systemd.unit=", "every boot ends at that unit"),
    ("coreos.inst.", "only the live image reads it; an installed system ignores it"),
    ("rd.luks.key=", "the initramfs waits for that key file"),
];

/// Warnings about kernel arguments that seldom do what was meant. Values may be secret.
pub(super) fn of_arguments(arguments: &[&str]) -> Vec<String> {
    let warning = |argument: &&str| {
        let mut known = KERNEL_ARGUMENTS.iter();
        let (start, effect) = known.find(|(start, _)| argument.starts_with(start))?;
        (*argument != MULTIPATH_ROOT).then(|| format!("kernel argument {start}…: {effect}"))
    };
    arguments.iter().filter_map(warning).collect()
}

/// A warning if no one can log in. Other platforms than these give the user `core` a key.
pub(super) fn of_login(checked: &Checked, platform: Option<&str>) -> Option<String> {
    let is_alone = platform.is_none_or(|platform| WITHOUT_KEYS.contains(&platform));
    let why = checked.lock_out.filter(|_| is_alone)?;
    Some(format!("Ignition config: {why}"))
}

/// A warning if the config of an installed system enables units.
pub(super) fn of_units(ignition: &[u8]) -> Option<String> {
    let config: Value = serde_json::from_slice(ignition).ok()?;
    let units = config["systemd"]["units"].as_array()?.iter();
    let names =
        units.filter(|unit| unit["enabled"] == true).filter_map(|unit| unit["name"].as_str());
    let names = list(names.map(str::to_owned), ", ");
    (!names.is_empty()).then(|| {
        format!(
            "Ignition config: systemd enables units such as {names} only while /etc/machine-id is empty, as at the first boot \
             of a new system; enable them by hand, or with links in the config"
        )
    })
}

/// Warnings about other disks: their labels that may stay, and their data that the first boot erases.
///
/// # Errors
/// `PROTECTED`: the config erases a protected disk, or one by a name that a protected disk may have at the first boot.
pub fn of_disks(
    erased: &[Erased],
    target: &Disk,
    disks: &[Disk],
    wanted: &Wanted<'_>,
    resolve: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<String>, Failure> {
    let mut warnings = label_warnings(wanted.order, target, disks);
    let lists = [wanted.protect, &wanted.order.protect];
    let protected = |disk: &Disk| protect::check(disk, disks, lists, resolve);
    let is_own = |disk: &Disk| disk.name == target.name || disk.unit() == Some(&target.name);
    for Erased { device, key, is_table } in erased {
        let Some(device) = device else { continue };
        let node = resolve(device);
        let is_it = |name: &str| device == name || node.as_deref() == Some(name);
        let is_part = |name: &String| is_it(&format!("/dev/{name}"));
        let has_it = |disk: &&Disk| {
            names(disk).chain(&disk.names_above).any(|name| is_it(name))
                || disk.partitions.iter().any(|part| is_part(&part.name))
        };
        // Several disks may claim one link.
        let found: Vec<&Disk> = match device.as_str() {
            BOOT_DISK => vec![target],
            _ => disks.iter().filter(has_it).collect(),
        };
        if *is_table && found.iter().any(|disk| is_own(disk)) {
            warnings.push(format!(
                "Ignition config: {key} wipes {device}, the disk that it is installed on: the first boot fails, or \
                 destroys the system"
            ));
        }
        let is_path = |disk: &Disk| found.iter().any(|head| disk.unit() == Some(&head.name));
        for disk in found.iter().filter(|disk| !is_own(disk) && !is_path(disk)) {
            protected(disk).map_err(|failure| {
                let what = format!("the Ignition config erases {device} ({key}), but ");
                Failure { message: say![what, failure.message.clone()], ..failure }
            })?;
            let is_whole = !disk.partitions.iter().any(|part| is_part(&part.name));
            let mut data = existing::found(disk);
            data.retain(|data| is_whole || is_part(&data.name));
            let data = list(data.iter().map(|data| format!("{}: {}", data.name, data.what)), "; ");
            if !data.is_empty() {
                let disk = describe(disk);
                warnings.push(format!(
                    "THE FIRST BOOT ERASES DATA ON ANOTHER DISK: {key} of the Ignition config erases {device} of {disk}, \
                     which contains {data}"
                ));
            }
        }
        if Path::new(device).parent() == Some(Path::new("/dev")) {
            let what = format!(
                "the Ignition config erases {device} ({key}), and another disk may have that name at the first boot"
            );
            if disks.iter().any(|disk| protected(disk).is_err()) {
                let what = format!("{what}, such as a protected one");
                let advice = "in the config, name it by /dev/disk/by-id or /dev/disk/by-path";
                return Err(Failure::new(Code::Protected, what).advise(advice));
            }
            warnings.push(what);
        }
    }
    let has_data = |disk: &Disk| !disk.is_live_medium && !existing::found(disk).is_empty();
    if !lists.concat().is_empty() || disks.iter().any(|disk| !is_own(disk) && has_data(disk)) {
        warnings.extend(of_unread(erased));
    }
    Ok(warnings)
}

/// A warning about contained configs that the first boot fetches, or that cannot be read.
fn of_unread(erased: &[Erased]) -> Option<String> {
    let unread = erased.iter().filter(|erased| erased.device.is_none());
    let keys = list(unread.map(|erased| erased.key.clone()), ", ");
    let unknown = "which was not read, erases on other disks is unknown";
    (!keys.is_empty()).then(|| format!("Ignition config: what {keys}, {unknown}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::act::Order;
    use crate::act::testing::{disk, filesystem, partition, texts};

    fn checked(sections: &str) -> Checked {
        let text = format!(r#"{{"ignition":{{"version":"3.4.0"}},{sections}}}"#);
        ignition::check(text.as_bytes()).unwrap()
    }

    #[test]
    fn argument_that_leads_elsewhere_is_a_warning_without_its_value() {
        let url = "ignition.config.url=http://u:SECRET@h/";
        let harmless = [MULTIPATH_ROOT, "quiet", "rootflags=x", "rw"];
        assert_eq!(of_arguments(&harmless), [] as [String; 0]);
        let found = of_arguments(&[
            "root=/dev/sdX",
            url,
            "init=/bin/sh",
            "systemd.unit=rescue.target",
            "coreos.inst.insecure",
            "rd.luks.key=/k",
        ]);
        assert_eq!(found.len(), 6, "{found:#?}");
        assert!(found[1].starts_with("kernel argument ignition.config.url=…: the first boot uses"));
        assert!(!found.concat().contains("SECRET"), "{found:?}");
    }

    #[test]
    fn disk_that_the_ignition_config_erases_is_refused_if_protected_and_its_data_are_named() {
        let mut data = disk("sdb", 9);
        data.partitions = vec![partition("sdb", 1, "", "xfs"), partition("sdb", 2, "", "ext4")];
        let disks = [
            disk("sda", 9),
            data,
            Disk { filesystem: Some(filesystem("xfs", None)), ..disk("sdc", 9) },
        ];
        let resolve = |path: &str| (path == "/dev/disk/by-label/x").then(|| "/dev/sdb2".to_owned());
        let of = |sections: &str, protect: &[&str]| {
            let order = Order { protect: texts(protect), ..Order::default() };
            let wanted = Wanted { order: &order, protect: &[], min_bytes: None };
            of_disks(&checked(sections).erased, &disks[0], &disks, &wanted, &resolve)
        };
        let table = |device: &str| {
            format!(r#""storage":{{"disks":[{{"device":"{device}","wipeTable":true}}]}}"#)
        };
        let found = of(&table("/dev/disk/by-id/ata-sdb"), &["SERIAL-sdc"]).unwrap().concat();
        assert!(found.starts_with("THE FIRST BOOT ERASES DATA"), "{found}");
        assert!(
            found.contains("SERIAL-sdb") && found.ends_with("sdb1: xfs; sdb2: ext4"),
            "{found}"
        );
        let failure = of(&table("/dev/sdb"), &["SERIAL-sdb"]).unwrap_err();
        assert_eq!(failure.code, Code::Protected);
        assert!(failure.to_string().contains("the Ignition config erases /dev/sdb"), "{failure}");
        let part = r#""storage":{"filesystems":[{"device":"/dev/disk/by-label/x","wipeFilesystem":true,"format":"xfs","path":"/var/x"}]}"#;
        let found = of(part, &[]).unwrap().concat();
        assert!(found.ends_with("which contains sdb2: ext4"), "{found}");
        // A data disk that is used again as it is.
        let kept = part.replace("true", "false");
        assert_eq!(of(&kept, &["SERIAL-sdb"]), Ok(Vec::new()));
        for own in ["/dev/sda", BOOT_DISK] {
            let found = of(&table(own), &[]).unwrap().concat();
            assert!(found.contains("the disk that it is installed on"), "{own}: {found}");
        }
        assert_eq!(of(&table("/dev/disk/by-id/absent"), &[]), Ok(Vec::new()));
    }

    #[test]
    fn everything_below_an_erased_name_is_judged_and_names_that_may_change_or_are_unknown_warn() {
        let mut disks = ["sda", "sdb", "sdc"].map(|name| disk(name, 9));
        for other in &mut disks[1..] {
            other.by_id.push("/dev/disk/by-id/usb-x".into());
            other.names_above = texts(&["/dev/dm-0", "/dev/md/data"]);
            other.filesystem = Some(filesystem("LVM2_member", None));
        }
        let resolve = |path: &str| (path == "/dev/vg0/home").then(|| "/dev/dm-0".to_owned());
        let of = |disks: &[Disk], device: Option<&str>, protect: &[&str]| {
            let device = device.map(str::to_owned);
            let erased = [Erased { device, key: "$.key".into(), is_table: false }];
            let order = Order { protect: texts(protect), ..Order::default() };
            let wanted = Wanted { order: &order, protect: &[], min_bytes: None };
            of_disks(&erased, &disks[0], disks, &wanted, &resolve)
        };
        for device in ["/dev/vg0/home", "/dev/md/data", "/dev/disk/by-id/usb-x"] {
            let found = of(&disks, Some(device), &["SERIAL-sda"]).unwrap();
            assert!(found.len() == 2 && found[1].contains("SERIAL-sdc"), "{found:?}");
            assert!(of(&disks, Some(device), &["SERIAL-sdc"]).is_err(), "{device}");
        }
        for device in ["/dev/sdz", "/dev/sda4", "/dev/nvme0n1"] {
            let found = of(&disks, Some(device), &["SERIAL-absent"]).unwrap().concat();
            assert!(found.contains("another disk may have that name"), "{found}");
            assert!(of(&disks, Some(device), &["SERIAL-sdc"]).is_err(), "{device}");
        }
        assert_eq!(of(&disks, Some(BOOT_DISK), &["SERIAL-sdc"]), Ok(Vec::new()));
        for (n, protect, is_warned) in [(3, "", true), (1, "SERIAL-absent", true), (1, "", false)] {
            let protect: Vec<&str> = protect.split_terminator(' ').collect();
            let found = of(&disks[..n], None, &protect).unwrap().concat();
            assert_eq!(found.starts_with("Ignition config: what $.key, which"), is_warned);
        }
    }

    #[test]
    fn only_a_platform_without_keys_of_its_own_locks_everyone_out() {
        let config = checked(r#""storage":{}"#);
        assert!(of_login(&config, None).is_some() && of_login(&config, Some("metal")).is_some());
        assert_eq!(of_login(&config, Some("packet")), None);
    }
}
