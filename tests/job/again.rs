//! The same request at several live boots of one machine.

use std::fs;

use probes::block::{Filesystem, Partition};
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::{Value, json};

use super::image;
use super::install::{inline, with};
use super::machine::{IGNITION, Machine};
use super::mock::{Mock, Reply, assert_has, assert_says, instruction_to_install};

/// A VIM without a memory: it answers every report with this.
pub(crate) fn forgetful(instruction: Value) -> Mock {
    Mock::start(move |request, _| match request.path.as_str() {
        "/v1/reports" => Reply::json(200, &instruction),
        _ => Reply::status(204),
    })
}

pub(crate) fn order(request_id: &str, keys: Value) -> Value {
    let mut instruction = instruction_to_install(&with(keys));
    instruction["request_id"] = json!(request_id);
    instruction
}

/// A machine of UEFI whose coreos-installer does this with an image of CoreOS.
pub(crate) fn machine(script: &str) -> Machine {
    let mut machine = Machine::new("http://h/");
    fs::write(machine.root.join("image"), image::coreos(IGNITION, "ignition.platform.id=metal"))
        .unwrap();
    machine.script(script);
    fs::create_dir_all(efivars(&machine)).unwrap();
    machine
}

pub(crate) fn efivars(machine: &Machine) -> std::path::PathBuf {
    machine.root.join("sys/firmware/efi/efivars")
}

/// A live boot with this answer; its result.
pub(crate) fn boot(machine: &mut Machine, instruction: &Value) -> (ExitStatus, Value) {
    let mock = forgetful(instruction.clone());
    machine.settings.vim.url = Some(mock.url.clone());
    // The counters of a disk begin anew at each boot.
    fs::write(machine.root.join("sys/devices/sda/stat"), "100 0 800 0 0 0 0 0 0 0 0\n").unwrap();
    let ended = machine.run();
    (ended.exit_status, mock.result())
}

/// How often coreos-installer ran.
fn n_writes(machine: &Machine) -> usize {
    machine.read("args").lines().count()
}

/// From now on the disk is reported as it is after an install.
pub(crate) fn is_reported_as_installed(machine: &mut Machine) {
    let part = |number: u32, label: &str, kind: Option<&str>| {
        let (start_mib, n_mib) = image::PARTS[number as usize - 1];
        Partition {
            name: format!("sda{number}"),
            number: Some(number),
            device_number: Some(format!("8:{number}")),
            label: Some(label.into()),
            filesystem: Some(Filesystem {
                kind: if kind.is_some() { "vfat" } else { "ext4" }.into(),
                label: Some(label.into()),
                ..Filesystem::default()
            }),
            type_uuid: kind.map(str::to_owned),
            start_bytes: Some((start_mib << 20) as u64),
            size_bytes: Some((n_mib << 20) as u64),
            ..Partition::default()
        }
    };
    let disk = &mut machine.collected.disks[0];
    disk.partition_table = Some("gpt".into());
    disk.existing_os = vec!["Fedora or RHEL CoreOS".into()];
    let esp = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B";
    disk.partitions =
        vec![part(1, "EFI-SYSTEM", Some(esp)), part(2, "boot", None), part(3, "root", None)];
}

/// The installed system comes up, which removes the stamp for its first boot.
fn comes_up(machine: &Machine) {
    let files = image::boot_files(IGNITION, "ignition.platform.id=metal");
    let files: Vec<_> =
        files.into_iter().filter(|(name, _)| *name != "ignition.firstboot").collect();
    let without = image::with_boot_files(512, &files);
    let (start, n_bytes) = (image::PARTS[1].0 << 20, image::PARTS[1].1 << 20);
    machine.put(&without[start..start + n_bytes], start as u64);
}

#[test]
fn five_live_boots_with_the_same_answer_write_the_disk_once() {
    for (is_uefi, next) in
        [(true, "it is the next to boot"), (false, "whether it boots next is up to the firmware")]
    {
        let mut machine = machine("write_image");
        if !is_uefi {
            fs::remove_dir_all(machine.root.join("sys/firmware")).unwrap();
        }
        let asked = order("r1", json!({}));
        let (status, result) = boot(&mut machine, &asked);
        assert_eq!((status, &result["outcome"]), (ExitStatus::Done, &json!("installed")));
        assert_eq!(result.get("previous"), None);
        is_reported_as_installed(&mut machine);
        comes_up(&machine);
        let installed = fs::read(machine.disk("sda")).unwrap();
        let message = format!(
            "{} (serial SERIAL-sda, 67108864 bytes) has what this request asks for, and {next}; to do it again, set \
             install.reinstall",
            machine.disk("sda").display()
        );
        for n in 2..=5 {
            let (status, result) = boot(&mut machine, &asked);
            assert_has(
                &result,
                &json!({
                    "outcome": "already_installed", "disk_state": "untouched", "request_id": "r1",
                    "previous": {"request": "r1", "stage": "installed", "proved": false},
                    "message": message,
                }),
            );
            assert_eq!((status, n_writes(&machine)), (ExitStatus::Done, 1), "boot {n}");
            assert!(fs::read(machine.disk("sda")).unwrap() == installed, "boot {n} wrote");
        }
    }
}

#[test]
fn install_without_a_vim_is_not_repeated_either() {
    let mut machine = Machine::offline(&with(json!({})));
    machine.writes(&image::coreos(IGNITION, "ignition.platform.id=metal"));
    machine.run();
    assert_eq!(machine.result()["outcome"], "installed");
    is_reported_as_installed(&mut machine);
    comes_up(&machine);
    assert_eq!((machine.run().exit_status, n_writes(&machine)), (ExitStatus::Done, 1));
    let result = machine.result();
    assert_eq!(result["outcome"], "already_installed", "{result:#}");
    assert_says(&result["message"], &["to do it again, set --reinstall"]);
}

#[test]
fn system_that_never_comes_up_ends_the_request_until_it_does() {
    let mut machine = machine("write_image");
    let asked = order("r1", json!({}));
    boot(&mut machine, &asked);
    is_reported_as_installed(&mut machine);
    for n in 1..=3 {
        let (_, result) = boot(&mut machine, &asked);
        assert_eq!(result["outcome"], "already_installed", "{n}");
    }
    let (status, result) = boot(&mut machine, &asked);
    assert_eq!((status, n_writes(&machine)), (ExitStatus::Untouched, 1));
    assert_has(&result, &json!({"outcome": "refused", "code": "ROUNDS_EXHAUSTED"}));
    assert_says(
        &result["message"],
        &["3. the disk was the next to boot, and the system on it did not come up"],
    );
    // A person chose the disk in the firmware's menu.
    comes_up(&machine);
    for _ in 0..4 {
        let (_, result) = boot(&mut machine, &asked);
        assert_eq!(result["outcome"], "already_installed");
    }
}

#[test]
fn disk_without_the_system_that_its_trace_promises_is_neither_written_nor_booted() {
    let mut machine = machine("write_image");
    let asked = with_wipe(order("r1", json!({})));
    boot(&mut machine, &asked);
    is_reported_as_installed(&mut machine);
    let (start, n_bytes) = (image::PARTS[1].0 << 20, image::PARTS[1].1 << 20);
    machine.put(&vec![0; n_bytes], start as u64);
    let is_refused = |machine: &mut Machine, why: &str| {
        let (_, result) = boot(machine, &asked);
        assert_has(&result, &json!({"outcome": "refused", "code": "ALREADY_INSTALLED"}));
        assert_says(&result["message"], &["its system is not found", why]);
        assert_eq!(n_writes(machine), 1);
    };
    is_refused(&mut machine, "neither ext4");
    // The file with the trace cannot be read either: the firmware has the trace.
    machine.collected.disks[0].partitions.clear();
    is_refused(&mut machine, "no partition \"boot\"");
    let (_, result) = boot(&mut machine, &with_wipe(order("r1", json!({"reinstall": true}))));
    assert_eq!((&result["outcome"], n_writes(&machine)), (&json!("installed"), 2));
}

#[test]
fn disk_with_a_damaged_trace_is_written_only_by_reinstall_if_nothing_else_is_known() {
    let mut machine = machine("write_image");
    fs::remove_dir_all(machine.root.join("sys/firmware")).unwrap();
    let asked = with_wipe(order("r1", json!({})));
    boot(&mut machine, &asked);
    is_reported_as_installed(&mut machine);
    let disk = fs::read(machine.disk("sda")).unwrap();
    let at = disk.windows(9).position(|bytes| bytes == b"\"request\"").unwrap();
    machine.put(b"!", at as u64);
    let (_, result) = boot(&mut machine, &asked);
    assert_has(&result, &json!({"outcome": "refused", "code": "ALREADY_INSTALLED"}));
    assert_says(&result["message"], &["the trace of an earlier install on", "is damaged"]);
    let (_, result) = boot(&mut machine, &with_wipe(order("r1", json!({"reinstall": true}))));
    assert_eq!((&result["outcome"], n_writes(&machine)), (&json!("installed"), 2));
}

#[test]
fn another_request_another_config_or_the_wish_to_reinstall_write_it_again() {
    let mut machine = machine("write_image");
    boot(&mut machine, &order("r1", json!({})));
    is_reported_as_installed(&mut machine);
    let kept = json!({"append_kargs": ["a=1"]});
    for (n, asked) in [
        (2, order("r2", json!({}))),
        (3, order("r2", json!({"reinstall": true}))),
        (4, order("r2", json!({"again": "install"}))),
        (5, order("r2", kept)),
    ] {
        let (_, result) = boot(&mut machine, &with_wipe(asked));
        assert_eq!(n_writes(&machine), n, "{result:#}");
    }
    let (status, result) = boot(&mut machine, &with_wipe(order("r3", json!({"again": "ask"}))));
    assert_eq!((status, n_writes(&machine)), (ExitStatus::Done, 6), "{result:#}");
    let (status, result) = boot(&mut machine, &with_wipe(order("r3", json!({"again": "ask"}))));
    assert_eq!((status, n_writes(&machine)), (ExitStatus::Untouched, 6));
    assert_has(&result, &json!({"outcome": "refused", "code": "ALREADY_INSTALLED"}));
    assert_says(&result["advice"], &["set install.reinstall"]);
}

/// The order for a disk that is named, so that its data are no obstacle.
pub(crate) fn with_wipe(mut instruction: Value) -> Value {
    instruction["install"]["disk"] = json!({"hints": {"serial": "SERIAL-sda"}});
    instruction
}

#[test]
fn request_goes_on_with_its_own_remains_and_ends_after_three_fruitless_rounds() {
    let asked = order("r1", json!({"ignition": inline()}));
    let mut machine = machine("write_some; echo 'Error: dropped' >&2; exit 1");
    let (_, result) = boot(&mut machine, &asked);
    assert_has(&result, &json!({"outcome": "failed", "disk_state": "half_written"}));
    // What a power cut leaves: an empty table, and bytes behind it.
    let disk = &mut machine.collected.disks[0];
    (disk.partition_table, disk.has_unknown_content) = (Some("gpt".into()), true);
    for _ in 2..=3 {
        let (_, result) = boot(&mut machine, &asked);
        assert_has(
            &result,
            &json!({
                "outcome": "failed", "previous": {"request": "r1", "stage": "half_written"},
            }),
        );
    }
    let n_runs = n_writes(&machine);
    let (status, result) = boot(&mut machine, &asked);
    assert_eq!((status, n_writes(&machine)), (ExitStatus::Untouched, n_runs));
    assert_has(&result, &json!({"outcome": "refused", "code": "ROUNDS_EXHAUSTED"}));
    assert_says(&result["message"], &["tried 3 times", "1. ", "3. ", "dropped"]);
    // What its advice says goes on, without another word about the data.
    for (n, asked) in [(1, order("r2", json!({}))), (2, order("r2", json!({"reinstall": true})))] {
        let (_, result) = boot(&mut machine, &asked);
        assert_eq!((&result["outcome"], n_writes(&machine)), (&json!("failed"), n_runs + n));
    }
    let n_runs = n_writes(&machine);
    let (_, result) = boot(&mut machine, &order("r2", json!({"existing_data": "refuse"})));
    assert_has(&result, &json!({"outcome": "refused", "code": "EXISTING_DATA"}));
    assert_eq!(n_writes(&machine), n_runs, "refuse means a blank disk");
    // A machine whose firmware forgot everything treats the remains as data.
    fs::remove_dir_all(efivars(&machine)).unwrap();
    fs::create_dir_all(efivars(&machine)).unwrap();
    let (_, result) = boot(&mut machine, &asked);
    assert_has(&result, &json!({"outcome": "refused", "code": "EXISTING_DATA"}));
}

#[test]
fn foreign_data_among_the_remains_are_no_remains() {
    let asked = order("r1", json!({}));
    let mut machine = machine("write_some; exit 1");
    boot(&mut machine, &asked);
    let n_runs = n_writes(&machine);
    let part = Partition { name: "sda1".into(), number: Some(1), ..Partition::default() };
    machine.collected.disks[0].partitions.push(part);
    let (_, result) = boot(&mut machine, &asked);
    assert_has(&result, &json!({"outcome": "refused", "code": "EXISTING_DATA"}));
    assert_eq!(n_writes(&machine), n_runs);
}

#[test]
fn round_that_is_cut_short_counts_and_one_that_wrote_nothing_does_not() {
    let asked = order("r1", json!({}));
    let mut cut = machine(
        "cp \"$ROOT\"/sys/firmware/efi/efivars/RunCore* \"$ROOT/during\"; write_some; exit 1",
    );
    for n in 1..=3 {
        boot(&mut cut, &asked);
        assert_eq!(n_writes(&cut), n);
        // The power was cut while coreos-installer wrote.
        let variables = fs::read_dir(efivars(&cut)).unwrap().flatten();
        let mut trace =
            variables.filter(|file| file.file_name().to_str().unwrap().starts_with("RunCore"));
        fs::rename(cut.root.join("during"), trace.next().unwrap().path()).unwrap();
        let disk = &mut cut.collected.disks[0];
        (disk.partition_table, disk.has_unknown_content) = (Some("gpt".into()), true);
    }
    let (_, result) = boot(&mut cut, &asked);
    assert_has(&result, &json!({"outcome": "refused", "code": "ROUNDS_EXHAUSTED"}));
    assert_says(&result["message"], &["3. it did not come to its end"]);
    let (_, result) =
        boot(&mut cut, &order("r1", json!({"reinstall": true, "existing_data": "wipe"})));
    assert_eq!((n_writes(&cut), &result["outcome"]), (4, &json!("failed")));

    let mut unreached = machine("exit 1");
    for _ in 0..4 {
        let (_, result) = boot(&mut unreached, &asked);
        assert_has(&result, &json!({"code": "INSTALLER_FAILED", "disk_state": "untouched"}));
    }
    unreached.script("write_image");
    let (_, result) = boot(&mut unreached, &asked);
    assert_eq!(result["outcome"], "installed");
}

#[test]
fn firmware_that_cannot_write_the_trace_is_a_warning() {
    let mut machine = machine("write_image");
    fs::remove_dir_all(efivars(&machine)).unwrap();
    let (_, result) = boot(&mut machine, &order("r1", json!({})));
    assert_eq!(result["outcome"], "installed");
    let warnings = result["warnings"].to_string();
    for why in ["the firmware keeps no trace of this install: writing", "efi_entry: found"] {
        assert!(warnings.contains(why), "{warnings}");
    }
    is_reported_as_installed(&mut machine);
    let (_, result) = boot(&mut machine, &order("r1", json!({})));
    assert_eq!((&result["outcome"], n_writes(&machine)), (&json!("already_installed"), 1));
}
