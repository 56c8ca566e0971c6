//! Another Ignition config for an installed system: `reignite`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use formats::digest;
use probes::block::Disk;
use probes::machine::Source;
use run_coreos_installer::act::system::{Files, Handle, Kernel};
use run_coreos_installer::act::{NewFile, System, Volume};
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::{Value, json};

use super::again::{boot, forgetful, is_reported_as_installed};
use super::image::{self, PARTS};
use super::install::check;
use super::machine::{IGNITION, Machine};
use super::mock::{assert_has, assert_says, instruction};

const OPTIONS: &str = "ostree=/ostree/boot.1 ignition.platform.id=metal";
const OTHER: &str = r#"{"ignition":{"version":"3.4.0"}}"#;

/// The kernel of a machine whose disk `sda` has the files in its file system `boot`.
#[derive(Debug)]
struct Mounting {
    files: Files,
    disk: PathBuf,
    content: Mutex<BTreeMap<String, Vec<u8>>>,
    fault: Fault,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    Refuses,
    Fails,
    Forges,
}

impl Mounting {
    /// Makes the file system once more, with the files that it has.
    fn write(&self) {
        let files: Vec<_> = self.content.lock().unwrap().clone().into_iter().collect();
        let (start, n_bytes) = (PARTS[1].0 << 20, PARTS[1].1 << 20);
        let image = image::with_boot_files(512, &files);
        let disk = File::options().write(true).open(&self.disk).unwrap();
        disk.write_all_at(&image[start..start + n_bytes], start as u64).unwrap();
    }
}

impl Kernel for Mounting {
    fn source(&self) -> io::Result<Source> {
        self.files.source()
    }

    fn disks(&self) -> io::Result<Option<Vec<Disk>>> {
        self.files.disks()
    }

    fn open(&self, device: &str) -> io::Result<Arc<dyn Handle>> {
        self.files.open(device)
    }

    fn number_of(&self, path: &str) -> io::Result<Option<String>> {
        self.files.number_of(path)
    }

    fn resolve(&self, path: &str) -> Option<String> {
        self.files.resolve(path)
    }

    fn replace(&self, volume: &Volume, files: &[NewFile]) -> io::Result<()> {
        let expected = ("/dev/sda2", "8:2", "ext4");
        assert_eq!((&*volume.device, &*volume.number, &*volume.kind), expected);
        // Without it Ignition would run with the config of before.
        let is_trace = files[0].path.ends_with("trace.json");
        assert!(is_trace || files.last().unwrap().path == "ignition.firstboot");
        let is_mended = self.files.root.join("mended").exists();
        let fault = if is_mended { Fault::None } else { self.fault };
        match fault {
            Fault::Refuses => return Err(io::Error::from_raw_os_error(30)),
            Fault::Fails => return Err(io::Error::other("ignition/config.ign: no space")),
            Fault::None | Fault::Forges => {}
        }
        for file in files {
            let mut bytes = file.bytes.clone();
            if fault == Fault::Forges && file.path == "ignition/config.ign" {
                bytes.push(b' ');
            }
            self.content.lock().unwrap().insert(file.path.clone(), bytes);
        }
        self.write();
        Ok(())
    }
}

/// A machine with a `CoreOS` that has come up.
fn installed(fault: Fault) -> Machine {
    let mut machine = Machine::new("http://h/");
    let files = image::boot_files(IGNITION, OPTIONS).into_iter();
    let files = files.filter(|(name, _)| !name.starts_with("ignition"));
    let content = files.map(|(name, text)| (name.to_owned(), text.into_bytes())).collect();
    machine.put(&image::coreos(IGNITION, OPTIONS), 0);
    let (root, disk) = (machine.root.clone(), machine.disk("sda"));
    let kernel =
        Mounting { files: Files { root: root.clone() }, disk, content: Mutex::new(content), fault };
    kernel.write();
    machine.settings.site.system = System::of(Arc::new(kernel), root);
    is_reported_as_installed(&mut machine);
    machine
}

fn order(request_id: &str, mut install: Value) -> Value {
    if install.get("ignition").is_none() {
        install["ignition"] = json!({"inline": OTHER});
    }
    let mut order = instruction("reignite");
    (order["request_id"], order["install"]) = (json!(request_id), install);
    order
}

#[test]
fn installed_system_gets_another_config_once_and_only_boot_and_the_trace_are_written() {
    let mut machine = installed(Fault::None);
    let before = fs::read(machine.disk("sda")).unwrap();
    let keys =
        json!({"append_kargs": ["a=1"], "delete_kargs": ["quiet"], "firstboot_args": "ip=dhcp"});
    let (status, result) = boot(&mut machine, &order("r1", keys.clone()));
    assert_has(&result, &json!({"outcome": "reignited", "disk_state": "installed", "attempts": 0}));
    assert_eq!(status, ExitStatus::Done);
    for name in
        ["boot_filesystem", "firstboot_stamp", "ignition_digest", "kernel_arguments", "platform"]
    {
        assert_eq!(check(&result, name).unwrap()["ok"], true, "{name}: {result:#}");
    }
    let arguments = &check(&result, "kernel_arguments").unwrap()["found"];
    assert_eq!(*arguments, format!("{OPTIONS} a=1"));
    let after = fs::read(machine.disk("sda")).unwrap();
    // The trace is in the EFI system partition.
    let (boot_start, root_start) = (PARTS[1].0 << 20, PARTS[2].0 << 20);
    assert!(after[..PARTS[0].0 << 20] == before[..PARTS[0].0 << 20], "the table");
    assert!(
        after[root_start..] == before[root_start..] && after[boot_start..] != before[boot_start..]
    );
    assert_eq!(machine.read("args"), "", "coreos-installer ran");
    let (status, result) = boot(&mut machine, &order("r1", keys));
    assert_has(&result, &json!({"outcome": "already_installed", "disk_state": "untouched"}));
    assert_eq!(status, ExitStatus::Done);
    assert!(fs::read(machine.disk("sda")).unwrap() == after);
    let units = r#"{"ignition":{"version":"3.3.0"},"systemd":{"units":[{"name":"a.service","enabled":true}]}}"#;
    let keys = json!({"ignition": {"inline": units}, "confirm": true});
    let (_, result) = boot(&mut machine, &order("r2", keys.clone()));
    assert_eq!(result["outcome"], "reignited", "{result:#}");
    assert!(result["warnings"].to_string().contains("such as a.service only while"), "{result:#}");
    assert_eq!(result["confirm"]["ignition_digest"], digest::sha256(units.as_bytes()));
    // The VIM has forgotten the token's digest.
    let (_, again) = boot(&mut machine, &order("r2", keys));
    assert_eq!(
        (&again["outcome"], &again["confirm"]),
        (&json!("already_installed"), &result["confirm"])
    );
}

#[test]
fn trace_is_in_boot_on_a_disk_without_an_efi_system_partition() {
    let mut machine = installed(Fault::None);
    let mut image = image::coreos(IGNITION, OPTIONS);
    let parts = ["x", "boot", "root"].into_iter().zip(PARTS);
    let parts: Vec<_> = parts.map(|(name, (start, size))| (name, start, size)).collect();
    image::only(&mut image, &parts);
    machine.put(&image[..1 << 20], 0);
    machine.collected.disks[0].partitions[0].type_uuid = None;
    for outcome in ["reignited", "already_installed"] {
        let (_, result) = boot(&mut machine, &order("r1", json!({})));
        assert_eq!(result["outcome"], outcome, "{result:#}");
    }
}

#[test]
fn same_id_and_keys_of_another_action_are_another_request() {
    let mut machine = installed(Fault::None);
    let keys = json!({"disk": {"hints": {"serial": "SERIAL-sda"}}});
    assert_eq!(boot(&mut machine, &order("r1", keys.clone())).1["outcome"], "reignited");
    let mut install = order("r1", keys);
    install["action"] = json!("install");
    boot(&mut machine, &install);
    assert_eq!(machine.read("args").lines().count(), 1);
}

#[test]
fn install_that_is_ordered_again_after_another_config_is_still_the_same_install() {
    let mut machine = installed(Fault::None);
    fs::create_dir_all(machine.root.join("sys/firmware/efi/efivars")).unwrap();
    machine.collected.disks[0].partitions.clear();
    machine.collected.disks[0].existing_os.clear();
    machine.writes(&image::coreos(IGNITION, OPTIONS));
    let mut install = order("r1", json!({"ignition": {"inline": IGNITION}}));
    install["action"] = json!("install");
    install["install"]["disk"] = json!({"hints": {"serial": "SERIAL-sda"}});
    assert_eq!(boot(&mut machine, &install).1["outcome"], "installed");
    is_reported_as_installed(&mut machine);
    let (_, result) = boot(&mut machine, &order("r2", json!({})));
    assert_eq!(result["outcome"], "reignited", "{result:#}");
    for asked in [&install, &order("r2", json!({}))] {
        let (_, result) = boot(&mut machine, asked);
        assert_eq!(result["outcome"], "already_installed", "{result:#}");
        assert_eq!(result["previous"]["config_of"]["id"], "r2");
    }
    assert_eq!(machine.read("args").lines().count(), 1);
}

type Change = fn(&mut Disk);

#[test]
fn disk_without_a_system_of_its_own_is_refused_and_stays_as_it_is() {
    let hash = json!({"ignition": {"inline": OTHER, "hash": format!("sha256-{}", "0".repeat(64))}});
    let by_serial = |serial: &str| json!({"disk": {"hints": {"serial": serial}}});
    let nothing: Change = |_| {};
    for (keys, change, code, says) in [
        (
            json!({}),
            (|disk| disk.existing_os.clear()) as Change,
            "DISK_NONE",
            "no installed CoreOS is on",
        ),
        (by_serial("SERIAL-sdb"), nothing, "DISK_NONE", "no installed CoreOS is on"),
        (json!({"protect": ["SERIAL-sda"]}), nothing, "PROTECTED", "protects"),
        (json!({"expect": {"serial": "X"}}), nothing, "DISK_CHANGED", "expected \"X\""),
        (hash, nothing, "IGNITION_HASH", ""),
        (
            json!({}),
            |disk| disk.partitions[1].holders.push("md127".into()),
            "DISK_NOT_ELIGIBLE",
            "used by md127",
        ),
        (json!({}), |disk| disk.is_on_fabric = true, "DISK_NOT_ELIGIBLE", "other hosts may use it"),
        (json!({"append_kargs": ["a b"]}), nothing, "KARGS", "append_kargs"),
        (
            json!({"image": {"url": "https://h/i"}}),
            nothing,
            "INSTRUCTION_INVALID",
            "install.image is for an install",
        ),
        (json!({"existing_data": "wipe"}), nothing, "INSTRUCTION_INVALID", "install.existing_data"),
    ] {
        let mut machine = installed(Fault::None);
        machine.add_disk("sdb", 64 << 20);
        change(&mut machine.collected.disks[0]);
        let before = fs::read(machine.disk("sda")).unwrap();
        let (status, result) = boot(&mut machine, &order("r1", keys));
        assert_has(
            &result,
            &json!({"outcome": "refused", "disk_state": "untouched", "code": code}),
        );
        assert_says(&result["message"], &[says]);
        assert_eq!(status, ExitStatus::Untouched);
        assert!(fs::read(machine.disk("sda")).unwrap() == before, "{code}");
    }
    let mut identified = installed(Fault::None);
    identified.collected.disks[0].is_on_fabric = true;
    let (_, result) = boot(&mut identified, &order("r1", by_serial("SERIAL-sda")));
    assert_eq!(result["outcome"], "reignited", "{result:#}");
}

#[test]
fn faults_while_the_config_is_replaced_are_named_and_erase_nothing_and_it_is_done_again() {
    for (fault, code, expected) in [
        (Fault::Refuses, "TARGET_IO", json!({"outcome": "refused", "disk_state": "untouched"})),
        (Fault::Fails, "TARGET_IO", json!({"outcome": "unproven", "disk_state": "written"})),
        (
            Fault::Forges,
            "PROOF_IGNITION_DIGEST",
            json!({"outcome": "unproven", "disk_state": "written"}),
        ),
    ] {
        let mut machine = installed(fault);
        let table = fs::read(machine.disk("sda")).unwrap()[..1 << 20].to_vec();
        let (_, result) = boot(&mut machine, &order("r1", json!({})));
        assert_has(&result, &expected);
        assert_eq!(result["code"], code);
        assert!(fs::read(machine.disk("sda")).unwrap()[..1 << 20] == table);
        fs::write(machine.root.join("mended"), "").unwrap();
        let (_, result) = boot(&mut machine, &order("r1", json!({})));
        assert_eq!(result["outcome"], "reignited", "{result:#}");
    }
}

#[test]
fn dry_run_of_another_config_changes_nothing() {
    let mut machine = installed(Fault::Fails);
    machine.settings.node.is_dry_run = true;
    let before = fs::read(machine.disk("sda")).unwrap();
    let mock = forgetful(order("r1", json!({})));
    machine.settings.vim.url = Some(mock.url.clone());
    assert_eq!(machine.run().exit_status, ExitStatus::Done);
    assert!(fs::read(machine.disk("sda")).unwrap() == before);
}
