//! Kernel arguments that an installed `CoreOS` needs to find its root on more than a local disk (Fedora CoreOS
//! documentation, pages on bare metal installs).

use probes::block::Disk;
use probes::machine::Machine;

use super::{Code, Failure, Order, System, Term, describe, say};

/// Arguments for a root on a multipath device.
const MULTIPATH: [&str; 3] =
    ["rd.multipath=default", "root=/dev/disk/by-label/dm-mpath-root", "rw"];
/// Argument that lets the initramfs assemble a volume of Intel's firmware RAID, with the UUID of its container
/// (`OpenShift` documentation, page on Intel VROC).
const MD_UUID: &str = "rd.md.uuid=";
/// The argument for an iSCSI root that the firmware connects, as its iBFT table says.
const ISCSI_FIRMWARE: &str = "rd.iscsi.firmware=1";
/// Arguments that supply a root on iSCSI: those of dracut's module `95iscsi`.
const ISCSI_ARGUMENTS: [&str; 2] = ["rd.iscsi.", "netroot=iscsi:"];

/// Returns the order with the missing arguments that its disk needs, and descriptions of the additions.
///
/// # Errors
/// `KARGS`: the installed system would not find its root, and only the VIM knows the arguments that it needs.
pub fn with_derived(
    order: &Order,
    disk: &Disk,
    system: &System,
) -> Result<(Order, Vec<String>), Failure> {
    let firmware = || system.ask(firmware_targets).unwrap_or_else(Firmware::Unknown);
    let derived = derived(disk, &order.append_kargs, firmware)?;
    let mut order = order.clone();
    let mut notes = Vec::new();
    if !derived.is_empty() {
        let words = derived.join(" ");
        notes.push(format!("kernel arguments added for {}: {words}", describe(disk)));
        order.append_kargs.extend(derived);
    }
    Ok((order, notes))
}

/// The LUNs that the firmware connected before it started the system.
#[derive(Debug, PartialEq, Eq)]
enum Firmware {
    /// The names of their targets; empty without a table of the firmware.
    Targets(Vec<String>),
    /// There is a table, but it names no target.
    Unnamed,
    /// The table could not be read; why.
    Unknown(String),
}

/// Reads `/sys/firmware/ibft` and `/sys/firmware/iscsi_boot<N>` (`Documentation/ABI/testing/sysfs-ibft`).
fn firmware_targets(machine: &Machine) -> Firmware {
    let is_table = |name: &String| name == "ibft" || name.starts_with("iscsi_boot");
    let tables: Vec<String> = machine.list("sys/firmware").into_iter().filter(is_table).collect();
    let mut names = Vec::new();
    for table in &tables {
        let path = format!("sys/firmware/{table}");
        let targets = machine.list(&path).into_iter().filter(|name| name.starts_with("target"));
        names.extend(
            targets.filter_map(|target| machine.text(&format!("{path}/{target}/target-name"))),
        );
    }
    if let Some(problem) = machine.problems().first() {
        return Firmware::Unknown(format!("{}: {}", problem.path, problem.found));
    }
    let is_unnamed = !tables.is_empty() && names.is_empty();
    if is_unnamed { Firmware::Unnamed } else { Firmware::Targets(names) }
}

fn derived(
    disk: &Disk,
    given: &[String],
    firmware: impl FnOnce() -> Firmware,
) -> Result<Vec<String>, Failure> {
    let is_given = |prefixes: &[&str]| {
        given.iter().any(|argument| prefixes.iter().any(|prefix| argument.starts_with(prefix)))
    };
    let mut arguments = Vec::new();
    // A multipath device of device-mapper; NVMe has its own multipath, which needs no argument.
    if disk.name.starts_with("dm-") && !is_given(&["rd.multipath", "root="]) {
        arguments.extend(MULTIPATH.map(str::to_owned));
    }
    if disk.name.starts_with("md") && !is_given(&[MD_UUID, "rd.auto"]) {
        let uuid = disk.md_container_uuid.as_deref().ok_or_else(|| {
            let what = format!(
                "{} is a RAID volume without which the installed system does not find its root, and the UUID of its \
                 container is unknown",
                describe(disk)
            );
            Failure::new(Code::Kargs, what)
                .advise("add rd.md.uuid=… with the MD_UUID that `mdadm --detail --export` prints for the container")
        })?;
        arguments.push(format!("{MD_UUID}{uuid}"));
    }
    if disk.transport.as_deref() == Some("iscsi") && !is_given(&ISCSI_ARGUMENTS) {
        check_firmware(disk, firmware())?;
        arguments.push(ISCSI_FIRMWARE.to_owned());
    }
    Ok(arguments)
}

/// Refuses an iSCSI LUN that the firmware will not connect again at the next boot.
fn check_firmware(disk: &Disk, firmware: Firmware) -> Result<(), Failure> {
    let iqn = disk.target.as_ref().map(|target| target.name.as_str());
    let why = match firmware {
        Firmware::Unnamed => return Ok(()),
        Firmware::Targets(names) if names.is_empty() => {
            "the firmware did not connect it".to_owned()
        }
        Firmware::Targets(names) if iqn.is_none_or(|iqn| names.iter().any(|name| name == iqn)) => {
            return Ok(());
        }
        Firmware::Targets(names) => {
            format!("the firmware connected {}, not {}", names.join(", "), iqn.unwrap_or_default())
        }
        Firmware::Unknown(why) => format!(
            "whether the firmware connected it is unknown, since its table cannot be read: {why}"
        ),
    };
    let what = format!(
        "{} is an iSCSI LUN without which the installed system does not find its root: {why}",
        describe(disk)
    );
    Err(Failure::new(Code::Kargs, what).advise(say![
        "add rd.iscsi.initiator=…, netroot=iscsi:… and ip=… to ",
        Term::AppendKargs,
        ", or configure the LUN in the firmware"
    ]))
}

#[cfg(test)]
mod tests {
    use probes::block::DiskTarget;

    use super::*;
    use crate::act::testing::texts;

    fn of(name: &str, given: &[&str], firmware: Firmware) -> Result<String, String> {
        let transport = if name.starts_with("nvme") { "nvme" } else { "iscsi" };
        let target = DiskTarget { name: "iqn.2026-01.example:a".into(), ..DiskTarget::default() };
        let disk = Disk {
            name: name.into(),
            transport: Some(transport.into()),
            target: Some(target),
            ..Disk::default()
        };
        let derived = derived(&disk, &texts(given), || firmware).map_err(|failure| {
            assert_eq!(failure.code, Code::Kargs);
            failure.message.to_string()
        });
        derived.map(|arguments| arguments.join(" "))
    }

    fn targets(names: &[&str]) -> Firmware {
        Firmware::Targets(texts(names))
    }

    #[test]
    fn root_on_multipath_or_iscsi_gets_its_arguments_once() {
        let mpath = "rd.multipath=default root=/dev/disk/by-label/dm-mpath-root rw";
        let ours = || targets(&["iqn.2026-01.example:a"]);
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(of("dm-0", &["rd.iscsi.initiator=x"], targets(&[])), ok(mpath));
        assert_eq!(of("dm-0", &["rd.multipath=default", "netroot=iscsi:x"], targets(&[])), ok(""));
        assert_eq!(of("sda", &[], ours()), ok("rd.iscsi.firmware=1"));
        assert_eq!(of("sda", &[], Firmware::Unnamed), ok("rd.iscsi.firmware=1"));
        assert_eq!(of("dm-0", &[], ours()), ok(&format!("{mpath} rd.iscsi.firmware=1")));
        assert_eq!(of("sda", &["netroot=iscsi:x"], targets(&[])), ok(""));
        assert_eq!(of("nvme0n1", &[], targets(&[])), ok(""));
    }

    #[test]
    fn root_on_a_vroc_volume_gets_the_uuid_of_its_container_or_is_refused() {
        let uuid = "f3b5c1d2:00000000:11111111:22222222";
        let volume =
            Disk { name: "md126".into(), md_container_uuid: Some(uuid.into()), ..Disk::default() };
        let of = |disk: &Disk, given: &[String]| derived(disk, given, || targets(&[]));
        assert_eq!(of(&volume, &[]), Ok(vec![format!("rd.md.uuid={uuid}")]));
        assert_eq!(of(&volume, &["rd.md.uuid=x".into()]), Ok(vec![]));
        let unknown = Disk { md_container_uuid: None, ..volume };
        assert_eq!(of(&unknown, &["rd.md.uuid=x".into()]), Ok(vec![]));
        assert_eq!(of(&unknown, &[]).unwrap_err().code, Code::Kargs);
    }

    #[test]
    fn lun_that_the_next_boot_does_not_find_is_refused_with_the_reason() {
        for (firmware, words) in [
            (targets(&[]), "the firmware did not connect it"),
            (targets(&["iqn.x"]), "the firmware connected iqn.x, not iqn.2026-01.example:a"),
            (Firmware::Unknown("EIO".into()), "its table cannot be read: EIO"),
        ] {
            let message = of("sda", &[], firmware).unwrap_err();
            assert!(message.ends_with(words), "{message}");
        }
    }

    #[test]
    fn table_of_the_firmware_is_read_with_its_targets_and_errors() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let found = || System::below(root.to_owned()).ask(firmware_targets).unwrap();
        std::fs::create_dir_all(root.join("sys/firmware/ibft/target0")).unwrap();
        assert_eq!(found(), Firmware::Unnamed);
        let name = root.join("sys/firmware/ibft/target0/target-name");
        std::fs::write(&name, "iqn.x\n").unwrap();
        assert_eq!(found(), targets(&["iqn.x"]));
        std::fs::remove_file(&name).unwrap();
        std::fs::create_dir(root.join("kernel")).unwrap();
        let errors = "5 sys/firmware/ibft/target0/target-name\n";
        std::fs::write(root.join("kernel/errors"), errors).unwrap();
        assert!(matches!(found(), Firmware::Unknown(_)), "{:?}", found());
        std::fs::remove_dir_all(root.join("kernel")).unwrap();
        std::fs::remove_dir_all(root.join("sys/firmware/ibft")).unwrap();
        assert_eq!(found(), targets(&[]));
    }

    #[test]
    fn added_arguments_are_appended_and_named() {
        let disk = Disk { name: "dm-0".into(), device: "/dev/dm-0".into(), ..Disk::default() };
        let order = Order { append_kargs: vec!["quiet".into()], ..Order::default() };
        let (order, notes) = with_derived(&order, &disk, &System::default()).unwrap();
        assert_eq!(order.append_kargs.len(), 4);
        assert_eq!(
            notes,
            ["kernel arguments added for /dev/dm-0 (size unknown): rd.multipath=default \
              root=/dev/disk/by-label/dm-mpath-root rw"]
        );
    }
}
