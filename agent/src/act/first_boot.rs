//! What an order and its Ignition config do at the first boot that their author may not expect: to other disks, to who can
//! log in, and by kernel arguments. A disk that the config erases goes through the same choice as the target does.

use ignition::{Checked, Erased};
use probes::block::Disk;

use super::choice::{Wanted, label_warnings};
use super::choose::names;
use super::{Failure, describe, existing, list, protect, say};

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

/// Warnings about other disks: their labels that may stay, and their data that the first boot erases.
///
/// # Errors
/// `PROTECTED`: the config erases a protected disk.
pub fn of_disks(
    erased: &[Erased],
    target: &Disk,
    disks: &[Disk],
    wanted: &Wanted<'_>,
    resolve: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<String>, Failure> {
    let mut warnings = label_warnings(wanted.order, target, disks);
    for Erased { device, key, is_table } in erased {
        let node = resolve(device);
        let is_it = |name: &str| device == name || node.as_deref() == Some(name);
        let is_part = |name: &String| is_it(&format!("/dev/{name}"));
        let has_it = |disk: &&Disk| {
            names(disk).any(|name| is_it(name))
                || disk.partitions.iter().any(|part| is_part(&part.name))
        };
        let found = if device == BOOT_DISK { Some(target) } else { disks.iter().find(has_it) };
        let Some(disk) = found else { continue };
        if disk.name == target.name || disk.unit() == Some(&target.name) {
            if *is_table {
                warnings.push(format!(
                    "Ignition config: {key} wipes {device}, the disk that it is installed on: the first boot fails, or \
                     destroys the system"
                ));
            }
            continue;
        }
        let lists = [wanted.protect, &wanted.order.protect];
        protect::check(disk, disks, lists, resolve).map_err(|failure| {
            let what = format!("the Ignition config erases {device} ({key}), but ");
            Failure { message: say![what, failure.message.clone()], ..failure }
        })?;
        let is_whole = !disk.partitions.iter().any(|part| is_part(&part.name));
        let data = existing::found(disk).into_iter().filter(|data| is_whole || is_part(&data.name));
        let data: Vec<String> = data.map(|data| format!("{}: {}", data.name, data.what)).collect();
        if !data.is_empty() {
            let (disk, data) = (describe(disk), list(data, "; "));
            warnings.push(format!(
                "THE FIRST BOOT ERASES DATA ON ANOTHER DISK: {key} of the Ignition config erases {device} of {disk}, \
                 which contains {data}"
            ));
        }
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::act::testing::{disk, filesystem, partition};
    use crate::act::{Code, Order};

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
            let protect = crate::act::testing::texts(protect);
            let order = Order { protect, ..Order::default() };
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
    fn only_a_platform_without_keys_of_its_own_locks_everyone_out() {
        let config = checked(r#""storage":{}"#);
        assert!(of_login(&config, None).is_some() && of_login(&config, Some("metal")).is_some());
        assert_eq!(of_login(&config, Some("packet")), None);
    }
}
