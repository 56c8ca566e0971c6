//! What is written, what is refused, and what the VIM hears of it.

use std::fs;
use std::time::Duration;

use run_coreos_installer::api::{Finding, Severity};
use run_coreos_installer::digest;
use serde_json::{Value, json};

use super::image;
use super::machine::{IGNITION, Machine, osmet};
use super::mock::{Mock, Reply};

/// An image of zeros.
static ZEROS: [u8; 70_000] = [0; 70_000];

/// A VIM that says `install`; it serves the Ignition config and an image of zeros.
fn vim(install: Value) -> Mock {
    Mock::start(move |request, _| match request.path.as_str() {
        "/v1/reports" => Reply::json(
            200,
            &json!({"api_version": "1", "request_id": "r1", "action": "install", "install": install}),
        ),
        "/config.ign" => Reply::bytes(IGNITION.as_bytes()),
        "/image.raw" | "/signed.raw" | "/signed.raw.sig" => Reply::bytes(&ZEROS),
        path if path.ends_with(".raw.sig") || path.starts_with("/missing") => Reply::status(404),
        _ => Reply::status(204),
    })
}

fn inline() -> Value {
    json!({"inline": IGNITION, "hash": digest::sha512(IGNITION.as_bytes())})
}

fn result(mock: &Mock) -> Value {
    let results = mock.requests("/result");
    assert_eq!(results.len(), 1);
    assert!(results[0].header("idempotency-key").is_some());
    results[0].json()
}

/// Runs one install and gives the exit status and the code.
fn refused(install: Value, change: impl FnOnce(&mut Machine)) -> (u8, String, Value) {
    let mock = vim(install);
    let mut machine = Machine::new(&mock.url);
    change(&mut machine);
    let exit_status = machine.run().exit_status;
    assert!(machine.is_untouched("sda"));
    assert!(machine.read("args").is_empty(), "the installer was run");
    let result = result(&mock);
    assert_eq!(result["outcome"], "refused");
    assert_eq!(result["disk_state"], "untouched");
    let code = result["code"].as_str().unwrap().to_owned();
    (exit_status, code, result)
}

#[test]
fn the_whole_job_ends_with_an_installed_and_proved_disk() {
    let Some(image) = image::coreos(IGNITION, "quiet a=1 ignition.platform.id=metal") else {
        return;
    };
    let mock = vim(json!({
        "ignition": inline(), "append_kargs": ["a=1"], "delete_kargs": ["b"], "platform": "metal", "typo": 1,
    }));
    let mut machine = Machine::new(&mock.url);
    fs::write(machine.root.join("image"), image).unwrap();
    machine.installer(
        "0.27.0",
        r"echo 'Read disk 1 MiB/4 MiB (25%)' >&2; dd if=$ROOT/image of=$DEVICE conv=notrunc status=none
           printf '> Read disk 4/4 (100%%)  \rInstall complete.\n' >&2",
    );
    let ended = machine.run();
    let result = result(&mock);
    assert_eq!(ended.exit_status, 0, "{result:#}");
    assert_eq!(result["outcome"], "installed");
    assert_eq!(result["disk_state"], "installed");
    assert_eq!(result["attempts"], 1);
    assert_eq!(result["disk"]["serial"], "SERIAL-sda");
    let checks = result["proof"]["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 7);
    assert!(checks.iter().all(|check| check["ok"] == true), "{checks:#?}");
    assert_eq!(result["warnings"][0], "unknown key install.?.typo in the instruction");
    let percents: Vec<u64> = mock
        .requests("/events")
        .iter()
        .flat_map(|batch| batch.json()["events"].as_array().unwrap().clone())
        .filter_map(|event| event["percent"].as_u64())
        .collect();
    assert_eq!(percents, [25, 100, 100]);
    assert_eq!(machine.read("modes"), "600\n600\n700\n");
    assert!(!machine.root.join("run/private/config.ign").exists());
    assert_eq!(machine.seen_config()["offline"], true);
}

#[test]
fn a_machine_with_uefi_gets_a_boot_entry_and_only_for_a_proved_disk() {
    let write = "dd if=$ROOT/image of=$DEVICE conv=notrunc status=none";
    for (on_disk, exit_status, n_variables) in
        [(IGNITION, 0, 2), (r#"{"ignition":{"version":"3.0.0"}}"#, 6, 0)]
    {
        let Some(image) = image::coreos(on_disk, "ignition.platform.id=metal") else { return };
        let mock = vim(json!({"ignition": inline()}));
        let mut machine = Machine::new(&mock.url);
        let efivars = machine.root.join("sys/firmware/efi/efivars");
        fs::create_dir_all(&efivars).unwrap();
        fs::write(machine.root.join("image"), image).unwrap();
        machine.installer("0.27.0", write);
        assert_eq!(machine.run().exit_status, exit_status);
        assert_eq!(fs::read_dir(&efivars).unwrap().count(), n_variables);
        let checks = result(&mock)["proof"]["checks"].clone();
        let entry = checks.as_array().unwrap().iter().find(|check| check["name"] == "efi_entry");
        assert_eq!(entry.is_some(), exit_status == 0);
        if let Some(entry) = entry {
            assert_eq!((&entry["ok"], &entry["fatal"]), (&json!(true), &json!(false)));
        }
    }
}

#[test]
fn a_bare_ignition_config_is_installed_on_the_only_eligible_disk() {
    let mock = Mock::start(|request, _| match request.path.as_str() {
        "/v1/reports" => Reply::bytes(IGNITION.as_bytes())
            .and("Content-Type", "application/vnd.coreos.ignition+json; charset=utf-8"),
        _ => Reply::status(204),
    });
    let mut machine = Machine::new(&mock.url);
    machine.installer("0.27.0", "cp $ROOT/run/private/config.ign $ROOT/got; exit 1");
    assert_eq!(machine.run().exit_status, 5);
    assert_eq!(machine.read("got"), IGNITION);
    let mut machine = Machine::new(&mock.url);
    machine.add_disk("sdb", 64 << 20);
    assert_eq!(machine.run().exit_status, 4);
}

#[test]
fn a_server_that_takes_no_results_does_not_hold_up_an_installed_node() {
    let Some(image) = image::coreos(IGNITION, "ignition.platform.id=metal") else { return };
    let mock = Mock::start(|request, _| match request.path.as_str() {
        "/v1/reports" => Reply::bytes(IGNITION.as_bytes())
            .and("Content-Type", "application/vnd.coreos.ignition+json"),
        _ => Reply::status(404),
    });
    let mut machine = Machine::new(&mock.url);
    fs::write(machine.root.join("image"), image).unwrap();
    machine.installer("0.27.0", "dd if=$ROOT/image of=$DEVICE conv=notrunc status=none");
    assert_eq!(machine.run().exit_status, 0);
    assert_eq!(mock.requests("/result").len(), 2);
}

#[test]
fn a_result_that_the_vim_refuses_is_not_reported() {
    let Some(image) = image::coreos(IGNITION, "ignition.platform.id=metal") else { return };
    let mock = Mock::start(|request, _| match request.path.as_str() {
        "/v1/reports" => Reply::json(
            200,
            &json!({"api_version": "1", "request_id": "r1", "action": "install",
                "install": {"ignition": inline()}}),
        ),
        path if path.ends_with("/result") => Reply::status(422),
        _ => Reply::status(204),
    });
    let mut machine = Machine::new(&mock.url);
    fs::write(machine.root.join("image"), image).unwrap();
    machine.installer("0.27.0", "dd if=$ROOT/image of=$DEVICE conv=notrunc status=none");
    assert_eq!(machine.run().exit_status, 3);
}

#[test]
fn a_wrong_ignition_hash_leaves_the_disk_as_it_was() {
    let wrong = digest::sha512(b"something else");
    for source in
        [json!({"inline": IGNITION, "hash": wrong}), json!({"inline": IGNITION, "hash": "md5-00"})]
    {
        let (exit_status, code, _) = refused(json!({"ignition": source}), |_| {});
        assert_eq!((exit_status, code.as_str()), (4, "IGNITION_HASH"));
    }
}

#[test]
fn ignition_configs_that_the_installed_system_would_refuse_are_refused() {
    for (text, code) in [
        (r#"{"ignition":{"version":"2.2.0"}}"#, "IGNITION_VERSION"),
        ("{}", "IGNITION_VERSION"),
        ("not json", "IGNITION_INVALID"),
    ] {
        let (_, found, _) = refused(json!({"ignition": {"inline": text}}), |_| {});
        assert_eq!(found, code, "{text}");
    }
}

type Change<'a> = &'a dyn Fn(&mut Machine);

/// Each install is refused with its code, on a machine that was changed.
fn each_is_refused(cases: Vec<(Value, Change<'_>, &str)>) {
    for (install, change, expected) in cases {
        let (exit_status, code, result) = refused(install.clone(), change);
        assert_eq!((exit_status, code.as_str()), (4, expected), "{install}\n{result:#}");
        assert!(!result["message"].as_str().unwrap().is_empty());
    }
}

fn with(key: &str, value: Value) -> Value {
    let mut install = json!({"ignition": inline()});
    install[key] = value;
    install
}

#[test]
fn a_disk_that_is_not_clear_or_not_as_expected_is_refused() {
    let plain = || json!({"ignition": inline()});
    let write = |machine: &mut Machine, path: &str, text: &str| {
        fs::write(machine.root.join(path), text).unwrap();
    };
    each_is_refused(vec![
        (plain(), &|machine| machine.add_disk("sdb", 64 << 20), "DISK_AMBIGUOUS"),
        (with("disk", json!({"device": "/dev/nope"})), &|_| {}, "DISK_NONE"),
        (with("disk", json!({"hints": {"serial": "X"}})), &|_| {}, "DISK_NONE"),
        (with("disk", json!({"hints": {"odd": "X"}})), &|_| {}, "INSTRUCTION_INVALID"),
        (with("disk", json!({"hints": {"size": ">= 0"}})), &|_| {}, "INSTRUCTION_INVALID"),
        (with("expect", json!({"serial": "X"})), &|_| {}, "DISK_CHANGED"),
        (plain(), &|machine| machine.collected.candidates[0].eligible = false, "DISK_NOT_ELIGIBLE"),
        (plain(), &|machine| write(machine, "sys/devices/sda/size", "8\n"), "DISK_CHANGED"),
        (plain(), &|machine| write(machine, "sys/devices/sda/serial", "OTHER\n"), "DISK_CHANGED"),
        (
            plain(),
            &|machine| {
                fs::create_dir_all(machine.root.join("sys/devices/sda/holders/dm-0")).unwrap();
            },
            "DISK_BUSY",
        ),
        (
            plain(),
            &|machine| {
                write(machine, "proc/self/mountinfo", "22 1 8:0 / /mnt rw - ext4 /dev/sda rw\n");
            },
            "DISK_BUSY",
        ),
    ]);
}

#[test]
fn a_machine_that_cannot_do_it_refuses() {
    let plain = || json!({"ignition": inline()});
    let finding = |machine: &mut Machine| {
        machine.collected.findings = vec![Finding {
            code: "memory.ecc.uncorrectable".into(),
            severity: Severity::Critical,
            component: "memory".into(),
            locator: Some("DIMM A1".into()),
            evidence: "3 errors".into(),
            advice: "replace DIMM A1".into(),
        }];
    };
    each_is_refused(vec![
        (plain(), &finding, "FINDINGS"),
        (with("append_kargs", json!(["a b"])), &|_| {}, "KARGS"),
        (with("copy_network", json!(true)), &|_| {}, "NETWORK"),
        (
            plain(),
            &|machine| fs::remove_file(&machine.settings.installer).unwrap(),
            "INSTALLER_MISSING",
        ),
        (plain(), &|machine| machine.installer("0.10.0", ""), "INSTALLER_TOO_OLD"),
        (
            plain(),
            &|machine| fs::remove_dir_all(&machine.settings.osmet_dir).unwrap(),
            "MEDIUM_LOST",
        ),
        (
            plain(),
            &|machine| {
                let larger = osmet((64 << 20) + 1);
                fs::write(machine.settings.osmet_dir.join("x86_64.osmet"), larger).unwrap();
            },
            "DISK_TOO_SMALL",
        ),
    ]);
}

#[test]
fn a_source_that_does_not_do_is_refused() {
    let files = vim(json!({}));
    let url = files.url.as_str();
    let image = |path: &str, extra: Value| {
        let mut image = json!({"url": format!("{url}{path}"), "insecure": true});
        image.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        with("image", image)
    };
    each_is_refused(vec![
        (image("/missing.raw", json!({})), &|_| {}, "IMAGE_FETCH"),
        (image("/image.raw", json!({"insecure": false})), &|_| {}, "SIGNATURE"),
        (
            image("/image.raw", json!({"uncompressed_bytes": 1_u64 << 40})),
            &|_| {},
            "DISK_TOO_SMALL",
        ),
        (image("/image.raw", json!({"sector_bytes": 4096})), &|_| {}, "SECTOR_SIZE"),
        (image("/image.raw", json!({"hash": digest::sha512(b"x")})), &|_| {}, "IMAGE_HASH"),
        (json!({"ignition": {"url": format!("{url}/missing")}}), &|_| {}, "IGNITION_FETCH"),
        (json!({"ignition": {"url": "ftp://x/y"}}), &|_| {}, "IGNITION_FETCH"),
    ]);
}

#[test]
fn an_image_that_is_there_signed_and_right_is_written_as_asked() {
    let files = vim(json!({}));
    let mock = vim(json!({
        "ignition": {"url": format!("{}/config.ign", files.url)},
        "image": {
            "url": format!("{}/signed.raw", files.url), "hash": digest::sha512(&ZEROS),
            "uncompressed_bytes": 70_000, "sector_bytes": 512,
        },
        "disk": {"hints": {"serial": "SERIAL-sda"}},
        "copy_network": true, "console": ["ttyS0,115200n8"], "firstboot_args": "ip=dhcp",
    }));
    let mut machine = Machine::new(&mock.url);
    fs::write(machine.root.join("keyfiles/a.nmconnection"), "").unwrap();
    machine.installer("0.27.0", "exit 1");
    assert_eq!(machine.run().exit_status, 5);
    let config = machine.seen_config();
    assert_eq!(config["image-url"], format!("{}/signed.raw", files.url));
    assert_eq!(config["copy-network"], true);
    assert_eq!(config["console"], json!(["ttyS0,115200n8"]));
    assert_eq!(config["ignition-hash"], digest::sha512(IGNITION.as_bytes()));
    assert!(config.get("insecure").is_none());
    assert!(machine.read("args").contains("--firstboot-args=ip=dhcp"));
    let warnings = result(&mock)["warnings"].to_string();
    assert!(warnings.contains("plain HTTP without a hash"), "{warnings}");
}

#[test]
fn each_way_in_which_the_installer_fails_has_its_code() {
    for (says, exit_status, code, disk_state) in [
        (
            "Partitions in use on /dev/sda:\nError: checking for exclusive access\nfound busy partitions",
            4,
            "DISK_BUSY",
            "untouched",
        ),
        (
            "Read disk 4/4 (100%)\nError: syncing data to disk\nInput/output error (os error 5)\nResetting partition table\nError: install failed",
            5,
            "TARGET_IO",
            "half_written",
        ),
        ("Error: HTTP status client error (404 Not Found) for url", 4, "HTTP_404", "untouched"),
        ("Read disk (9%)\nError: no space left on device", 5, "NO_SPACE", "half_written"),
        ("Error: something nobody knows", 5, "INSTALLER_FAILED", "half_written"),
    ] {
        let mock = vim(json!({"ignition": inline()}));
        let mut machine = Machine::new(&mock.url);
        machine.installer("0.27.0", &format!("cat >&2 <<'E'\n{says}\nE\nexit 1"));
        assert_eq!(machine.run().exit_status, exit_status, "{says}");
        let result = result(&mock);
        assert_eq!(result["code"], code);
        assert_eq!(result["disk_state"], disk_state);
        assert_eq!(result["outcome"], "failed");
        assert_eq!(result["attempts"], 1);
        assert!(!result["log_tail"].as_array().unwrap().is_empty());
        assert!(result["advice"].as_str().is_some());
    }
}

#[test]
fn a_broken_download_is_tried_up_to_three_times() {
    let fails = "echo 'Read disk (5%)'; echo 'Error: error decoding response body' >&2; exit 1";
    let mock = vim(json!({"ignition": inline()}));
    let mut machine = Machine::new(&mock.url);
    machine.installer("0.27.0", fails);
    assert_eq!(machine.run().exit_status, 5);
    let result = result(&mock);
    assert_eq!((&result["attempts"], &result["code"]), (&json!(3), &json!("IMAGE_FETCH")));
    assert_eq!(machine.read("args").lines().count(), 3);
}

#[test]
fn a_disk_that_changes_between_two_tries_is_not_written_again() {
    let mock = vim(json!({"ignition": inline()}));
    let mut machine = Machine::new(&mock.url);
    machine.installer(
        "0.27.0",
        "echo OTHER > $ROOT/sys/devices/sda/serial; echo 'Error: connection reset' >&2; exit 1",
    );
    assert_eq!(machine.run().exit_status, 5);
    let result = result(&mock);
    assert_eq!((&result["attempts"], &result["code"]), (&json!(1), &json!("DISK_CHANGED")));
    assert_eq!(result["disk_state"], "half_written");
}

#[test]
fn a_wish_to_end_stops_the_installer_and_is_told() {
    let mock = vim(json!({"ignition": inline()}));
    let mut machine = Machine::new(&mock.url);
    machine.installer("0.27.0", "echo 'Read disk (5%)'; touch $ROOT/begun; sleep 600");
    let (stop, begun) = (machine.stop.clone(), machine.root.join("begun"));
    std::thread::spawn(move || {
        while !begun.exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(200));
        stop.stop();
    });
    assert_eq!(machine.run().exit_status, 5);
    let result = result(&mock);
    assert_eq!(result["code"], "INTERRUPTED");
    assert_eq!(result["disk_state"], "half_written");
}

#[test]
fn a_wish_to_end_stops_the_reading_of_an_image_and_is_told() {
    let files = Mock::start(|request, _| match request.header("range") {
        Some(_) => Reply::With(
            206,
            vec![("Content-Range".into(), "bytes 0-3/70000".into())],
            b"head".to_vec(),
        ),
        None => Reply::Flood,
    });
    let mock = vim(json!({"ignition": inline(), "image": {
        "url": format!("{}/image.raw", files.url), "insecure": true, "hash": digest::sha512(b"x"),
    }}));
    let mut machine = Machine::new(&mock.url);
    let stop = machine.stop.clone();
    std::thread::spawn(move || {
        // The second request is the one that reads the whole image.
        while files.requests("/image.raw").len() < 2 {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.stop();
    });
    assert_eq!(machine.run().exit_status, 4);
    assert_eq!(result(&mock)["code"], "INTERRUPTED");
    assert!(machine.is_untouched("sda"));
}

#[test]
fn an_image_server_that_stalls_is_named_with_the_bytes_that_came() {
    for (pause, says) in [(5000, "stalled: nothing for 0.1 s"), (20, "stalled: ")] {
        let files = Mock::start(move |request, _| match request.header("range") {
            Some(_) => Reply::bytes(b"head"),
            None => Reply::Drip(Duration::from_millis(pause)),
        });
        let mock = vim(json!({"ignition": inline(), "image": {
            "url": format!("{}/image.raw", files.url), "insecure": true, "hash": digest::sha512(b"x"),
        }}));
        let mut machine = Machine::new(&mock.url);
        machine.settings.vim.timeouts.idle = Duration::from_millis(100);
        machine.settings.vim.timeouts.stall = Duration::from_millis(100);
        let started = std::time::Instant::now();
        assert_eq!(machine.run().exit_status, 4);
        assert!(started.elapsed() < Duration::from_secs(60));
        assert!(machine.is_untouched("sda"));
        let result = result(&mock);
        assert_eq!(result["code"], "IMAGE_FETCH");
        let message = result["message"].as_str().unwrap();
        assert!(message.contains(&format!("{}/image.raw", files.url)), "{message}");
        assert!(message.contains(says) && message.contains(" of 100000 bytes"), "{message}");
    }
}

#[test]
fn an_installer_that_does_not_end_is_ended() {
    let mock = vim(json!({"ignition": inline()}));
    let mut machine = Machine::new(&mock.url);
    machine.settings.installer_limit = Duration::from_millis(500);
    machine.installer("0.27.0", "sleep 600");
    assert_eq!(machine.run().exit_status, 5);
    assert_eq!(result(&mock)["code"], "INSTALLER_FAILED");
}

#[test]
fn a_dry_run_changes_and_tells_nothing() {
    let mock = vim(json!({"ignition": inline()}));
    let mut machine = Machine::new(&mock.url);
    machine.settings.is_dry_run = true;
    assert_eq!(machine.run().exit_status, 0);
    assert!(machine.is_untouched("sda"));
    assert!(machine.read("args").is_empty());
    assert!(mock.requests("/events").is_empty() && mock.requests("/result").is_empty());
}

#[test]
fn another_ignition_config_on_the_disk_is_no_proof() {
    let other = r#"{"ignition":{"version":"3.2.0"}}"#;
    let Some(image) = image::coreos(other, "ignition.platform.id=metal") else { return };
    let mock = vim(json!({"ignition": inline()}));
    let mut machine = Machine::new(&mock.url);
    fs::write(machine.root.join("image"), image).unwrap();
    machine.installer("0.27.0", "dd if=$ROOT/image of=$DEVICE conv=notrunc status=none");
    assert_eq!(machine.run().exit_status, 6);
    let result = result(&mock);
    assert_eq!(result["code"], "PROOF_IGNITION_DIGEST");
    assert_eq!(result["outcome"], "unproven");
    assert_eq!(result["disk_state"], "installed");
}

#[test]
fn an_installer_that_wrote_nothing_is_found_out() {
    let mock = vim(json!({"ignition": inline()}));
    let mut machine = Machine::new(&mock.url);
    assert_eq!(machine.run().exit_status, 6);
    assert_eq!(result(&mock)["code"], "PROOF_PARTITION_TABLE");
}

#[test]
fn old_installers_get_their_options_on_the_command_line() {
    let mock = vim(json!({"ignition": inline(), "append_kargs": ["a=1"]}));
    let mut machine = Machine::new(&mock.url);
    machine.installer("0.11.0", "exit 1");
    machine.run();
    let args = machine.read("args");
    assert!(args.contains("--append-karg=a=1") && !args.contains("--config-file"), "{args}");
    assert!(args.trim_end().ends_with(machine.disk("sda").to_str().unwrap()), "{args}");
}
