//! Installs that write the disk, and what is reported to the VIM.

use std::fs;

use formats::digest;
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::{Value, json};

use super::image;
use super::machine::{IGNITION, Machine, tool};
use super::mock::{Mock, Reply};

/// An image of zeros.
static ZEROS: [u8; 70_000] = [0; 70_000];

/// A VIM that answers `install` and serves the Ignition config and an image of zeros.
pub(crate) fn vim(install: Value) -> Mock {
    Mock::start(move |request, _| match request.path.as_str() {
        "/v1/reports" => Reply::json(
            200,
            &json!({"api_version": "1", "request_id": "r1", "action": "install", "install": install}),
        ),
        "/config.ign" => Reply::bytes(IGNITION.as_bytes()),
        "/image.raw" | "/signed.raw" => Reply::bytes(&ZEROS),
        "/signed.raw.sig" => Reply::bytes(b"signature"),
        path if path.ends_with(".raw.sig") || path.starts_with("/missing") => Reply::status(404),
        _ => Reply::status(204),
    })
}

pub(crate) fn inline() -> Value {
    json!({"inline": IGNITION, "hash": digest::sha512(IGNITION.as_bytes())})
}

pub(crate) fn result(mock: &Mock) -> Value {
    let results = mock.requests("/result");
    assert_eq!(results.len(), 1);
    assert!(results[0].header("idempotency-key").is_some());
    results[0].json()
}

#[test]
fn installer_that_wrote_nothing_is_not_believed_even_if_the_disk_already_fits() {
    let image = image::coreos(IGNITION, "quiet ignition.platform.id=metal");
    let mock = vim(json!({
        "ignition": inline(), "existing_data": "wipe", "disk": {"hints": {"serial": "SERIAL-sda"}},
    }));
    let mut machine = Machine::new(&mock.url);
    fs::write(machine.disk("sda"), image).unwrap();
    fs::File::options().write(true).open(machine.disk("sda")).unwrap().set_len(64 << 20).unwrap();
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    let result = result(&mock);
    assert_eq!(result["code"], "INSTALLER_FAILED", "{result:#}");
    assert_eq!(
        (&result["outcome"], &result["disk_state"]),
        (&json!("refused"), &json!("untouched"))
    );
    assert!(result["message"].as_str().unwrap().contains("wrote nothing"));
}

#[test]
fn the_whole_job_ends_with_an_installed_and_proved_disk() {
    let image = image::coreos(IGNITION, "quiet a=1 ignition.platform.id=metal");
    let mock = vim(json!({
        "ignition": inline(), "append_kargs": ["a=1"], "delete_kargs": ["b"], "platform": "metal",
    }));
    let mut machine = Machine::new(&mock.url);
    fs::write(machine.root.join("image"), image).unwrap();
    machine.installer(
        "0.27.0",
        r"echo 'Read disk 1 MiB/4 MiB (25%)' >&2; write_image
           printf '> Read disk 4/4 (100%%)  \rInstall complete.\n' >&2",
    );
    let ended = machine.run();
    let result = result(&mock);
    assert_eq!(ended.exit_status, ExitStatus::Done, "{result:#}");
    assert_eq!(result["outcome"], "installed");
    assert_eq!(result["disk_state"], "installed");
    assert_eq!(result["attempts"], 1);
    assert_eq!(result["disk"]["serial"], "SERIAL-sda");
    assert!(result["live"]["agent_cpu_time_ms"].is_u64() && result["live"]["uptime_s"].is_u64());
    let checks = result["proof"]["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 12);
    let failed: Vec<&Value> = checks.iter().filter(|check| check["ok"] != true).collect();
    // The live image of the test has no image to compare with, and the result does not conceal that.
    assert_eq!(failed.len(), 1, "{checks:#?}");
    assert_eq!((&failed[0]["name"], &failed[0]["fatal"]), (&json!("image_content"), &json!(false)));
    let warning = result["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("image_content: found not compared: no digests"), "{warning}");
    assert_eq!(result["warnings"].as_array().unwrap().len(), 1);
    let percents: Vec<u64> = mock
        .requests("/events")
        .iter()
        .flat_map(|batch| batch.json()["events"].as_array().unwrap().clone())
        .filter_map(|event| event["percent"].as_u64())
        .collect();
    assert!(percents.is_sorted() && percents.last() == Some(&100), "{percents:?}");
    assert_eq!(machine.read("modes"), "600\n600\n700\n");
    assert!(!machine.root.join("run/private/config.ign").exists());
    assert_eq!(machine.seen_config()["offline"], true);
}

#[test]
fn a_machine_with_uefi_gets_a_boot_entry_and_only_for_a_proved_disk() {
    let write = "write_image";
    for (on_disk, exit_status, n_variables) in [
        (IGNITION, ExitStatus::Done, 2),
        (r#"{"ignition":{"version":"3.0.0"}}"#, ExitStatus::Unproven, 0),
    ] {
        let image = image::coreos(on_disk, "ignition.platform.id=metal");
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
        assert_eq!(entry.is_some(), exit_status == ExitStatus::Done);
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
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    assert_eq!(machine.read("got"), IGNITION);
    let mut machine = Machine::new(&mock.url);
    machine.add_disk("sdb", 64 << 20);
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
}

#[test]
fn a_server_that_accepts_no_results_does_not_delay_an_installed_node() {
    let image = image::coreos(IGNITION, "ignition.platform.id=metal");
    let mock = Mock::start(|request, _| match request.path.as_str() {
        "/v1/reports" => Reply::bytes(IGNITION.as_bytes())
            .and("Content-Type", "application/vnd.coreos.ignition+json"),
        _ => Reply::status(404),
    });
    let mut machine = Machine::new(&mock.url);
    fs::write(machine.root.join("image"), image).unwrap();
    machine.installer("0.27.0", "write_image");
    assert_eq!(machine.run().exit_status, ExitStatus::Done);
    assert_eq!(mock.requests("/result").len(), 2);
}

#[test]
fn page_of_a_proxy_in_place_of_a_bare_vim_is_no_answer_to_the_result() {
    let image = image::coreos(IGNITION, "ignition.platform.id=metal");
    let mock = Mock::start(|request, n| match request.path.as_str() {
        "/v1/reports" => Reply::bytes(IGNITION.as_bytes())
            .and("Content-Type", "application/vnd.coreos.ignition+json"),
        path if path.ends_with("/result") && n < 6 => {
            Reply::bytes(b"<html>log in first</html>").and("Content-Type", "text/html")
        }
        path if path.ends_with("/result") => Reply::status(204),
        _ => Reply::status(404),
    });
    let mut machine = Machine::new(&mock.url);
    machine.settings.failure_limit = std::time::Duration::from_mins(2);
    fs::write(machine.root.join("image"), image).unwrap();
    machine.installer("0.27.0", "write_image");
    assert_eq!(machine.run().exit_status, ExitStatus::Done);
    assert_eq!(
        mock.requests("/result").len(),
        7,
        "it is posted until the server itself accepts it"
    );
}

#[test]
fn a_result_that_the_vim_refuses_is_not_reported() {
    let image = image::coreos(IGNITION, "ignition.platform.id=metal");
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
    machine.installer("0.27.0", "write_image");
    assert_eq!(machine.run().exit_status, ExitStatus::NotReported);
}

#[test]
fn a_signed_and_valid_image_is_written_as_instructed() {
    let files = vim(json!({}));
    let mock = vim(json!({
        "ignition": {"url": format!("{}/config.ign", files.url)},
        "image": {
            "url": format!("{}/signed.raw", files.url), "hash": digest::sha512(&ZEROS),
            "uncompressed_bytes": 70_000, "sector_bytes": 512,
        },
        "disk": {"hints": {"serial": "SERIAL-sda"}},
        "copy_network": true, "console": ["ttyS0,115200n8"], "firstboot_args": "ip=dhcp",
        "platform": "paket",
    }));
    let mut machine = Machine::new(&mock.url);
    fs::write(machine.root.join("keyfiles/a.nmconnection"), "").unwrap();
    machine.installer("0.27.0", "exit 1");
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    let config = machine.seen_config();
    assert!(config["image-url"].as_str().unwrap().starts_with("http://127.0.0.1:"));
    assert_eq!(config["copy-network"], true);
    assert_eq!(config["console"], json!(["ttyS0,115200n8"]));
    assert_eq!(config["ignition-hash"], digest::sha512(IGNITION.as_bytes()));
    assert!(config.get("insecure").is_none());
    assert!(machine.read("args").contains("--firstboot-args=ip=dhcp"));
    let warnings = result(&mock)["warnings"].to_string();
    for expected in ["plain HTTP without a hash", "expected one that Ignition supports"] {
        assert!(warnings.contains(expected), "{warnings}");
    }
}

#[test]
fn ignored_key_and_endless_first_boot_on_packet_are_warnings_of_the_result() {
    let config = r#"{"ignition":{"version":"3.3.0"},"storge":{"files":[]}}"#;
    for (more, is_warned) in [(json!(null), true), (json!("rd.neednet=1 ip=dhcp"), false)] {
        let mock = vim(json!({
            "ignition": {"inline": config}, "platform": "packet", "firstboot_args": more,
        }));
        let mut machine = Machine::new(&mock.url);
        machine.installer("0.27.0", "exit 1");
        machine.run();
        let warnings = result(&mock)["warnings"].to_string();
        let ignored = "Ignition config: $.storge: unknown key, which Ignition ignores unless only its case is wrong";
        assert!(warnings.contains(ignored), "{warnings}");
        assert_eq!(warnings.contains("set firstboot_args"), is_warned, "{warnings}");
    }
}

#[test]
fn a_dry_run_changes_and_reports_nothing() {
    let mock = vim(json!({"ignition": inline()}));
    let mut machine = Machine::new(&mock.url);
    machine.settings.is_dry_run = true;
    assert_eq!(machine.run().exit_status, ExitStatus::Done);
    assert!(machine.is_untouched("sda"));
    assert!(machine.read("args").is_empty());
    assert!(mock.requests("/events").is_empty() && mock.requests("/result").is_empty());
}

#[test]
fn a_wrong_ignition_config_on_the_disk_fails_the_proof() {
    let other = r#"{"ignition":{"version":"3.2.0"}}"#;
    let image = image::coreos(other, "ignition.platform.id=metal");
    let mock = vim(json!({"ignition": inline()}));
    let mut machine = Machine::new(&mock.url);
    fs::write(machine.root.join("image"), image).unwrap();
    machine.installer("0.27.0", "write_image");
    assert_eq!(machine.run().exit_status, ExitStatus::Unproven);
    let result = result(&mock);
    assert_eq!(result["code"], "PROOF_IGNITION_DIGEST");
    assert_eq!(result["outcome"], "unproven");
    assert_eq!(result["disk_state"], "erased");
}

/// Installs an image that fails the proof and returns the disk before and after, and the result.
fn unproved(install: &Value, on_disk: &dyn Fn(&mut Vec<u8>)) -> (Vec<u8>, Vec<u8>, Value) {
    let other = r#"{"ignition":{"version":"3.2.0"}}"#;
    let mut image = image::coreos(other, "ignition.platform.id=metal");
    image.resize(64 << 20, 0);
    on_disk(&mut image);
    let disk = json!({"hints": {"serial": "SERIAL-sda"}});
    let mut instruction = json!({"ignition": inline(), "existing_data": "wipe", "disk": disk});
    instruction.as_object_mut().unwrap().extend(install.as_object().unwrap().clone());
    let mock = vim(instruction);
    let mut machine = Machine::new(&mock.url);
    fs::write(machine.disk("sda"), &image).unwrap();
    fs::write(machine.root.join("image"), &image).unwrap();
    let disk = &mut machine.collected.disks[0];
    disk.partition_table = Some("gpt".into());
    disk.partitions = vec![probes::block::Partition {
        number: Some(4),
        label: Some("data".into()),
        ..probes::block::Partition::default()
    }];
    machine.installer("0.27.0", "write_image");
    let ended = machine.run();
    assert_eq!(ended.exit_status, ExitStatus::Unproven, "{:?}", ended.result);
    let after = fs::read(machine.disk("sda")).unwrap();
    (image, after, result(&mock))
}

fn n_headers(disk: &[u8]) -> usize {
    disk.chunks(512).filter(|sector| sector.starts_with(b"EFI PART")).count()
}

#[test]
fn an_unproved_disk_is_left_without_partition_tables_and_otherwise_as_it_is() {
    let (before, after, result) = unproved(&json!({}), &|_| {});
    assert_eq!((n_headers(&before), n_headers(&after)), (2, 0));
    let first_partition = 1 << 20;
    assert!(after[..34 * 512].iter().all(|byte| *byte == 0));
    let image_end = 32 << 20;
    assert_eq!(after[first_partition..image_end - 512], before[first_partition..image_end - 512]);
    assert_eq!(result["disk_state"], "erased");
    let message = result["message"].as_str().unwrap();
    assert!(
        message.contains("its partition tables were erased, so that it does not boot"),
        "{message}"
    );
}

#[test]
fn an_unproved_disk_stays_as_it_is_if_the_instruction_says_so() {
    let (before, after, result) = unproved(&json!({"on_unproved": "keep"}), &|_| {});
    assert!(before == after);
    assert_eq!(result["disk_state"], "written", "nobody may take it for the whole image");
    let message = result["message"].as_str().unwrap();
    assert!(message.contains("was written, but ignition_digest: found sha512-"), "{message}");
}

#[test]
fn an_unproved_disk_keeps_the_partitions_that_were_to_be_kept() {
    let data = ("data", 40, 10);
    let with_data = |disk: &mut Vec<u8>| {
        image::with_saved(disk, &[data]);
        disk[40 << 20..50 << 20].fill(7);
    };
    let install = json!({"save_partlabel": ["data"]});
    let (before, after, result) = unproved(&install, &with_data);
    assert_eq!(result["disk_state"], "erased", "{}", result["message"]);
    assert_eq!(after[1 << 20..32 << 20], before[1 << 20..32 << 20]);
    assert!(after[40 << 20..50 << 20].iter().all(|byte| *byte == 7));
    // The fourth of the table: the others are gone.
    let mut expected = vec![0; 64 << 20];
    image::with_saved(&mut expected, &[data]);
    expected[1024..1024 + 3 * 128].fill(0);
    assert_eq!(after[1024..34 * 512], expected[1024..34 * 512]);
    assert_eq!(after[(64 << 20) - 33 * 512..(64 << 20) - 512], expected[1024..33 * 512 + 512]);
    assert_eq!(n_headers(&after), 3, "the image's own backup at its end is no longer referred to");
}

#[test]
fn an_installer_that_wrote_nothing_is_detected() {
    let mock = vim(json!({"ignition": inline()}));
    let mut machine = Machine::new(&mock.url);
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    assert_eq!(result(&mock)["code"], "INSTALLER_FAILED");
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

/// An osmet file whose packed image begins with this, up to a partition at 9 MiB.
fn osmet(image: &[u8]) -> Vec<u8> {
    let xz = tool("xz");
    let file = std::env::temp_dir().join(format!("rci-osmet-{}", std::process::id()));
    fs::write(&file, &image[..9 << 20]).unwrap();
    let packed = std::process::Command::new(xz).args(["-1", "-c"]).arg(&file).output().unwrap();
    fs::remove_file(file).unwrap();
    let header: &[u8] = &[1, 3, b'0', b'.', b'9', 251, 0, 2, 0, 0, 1];
    let partition: &[u8] = &[252, 0, 0, 0x90, 0, 252, 0, 0, 0x90, 1, 0];
    let size: &[u8] = &[252, 0, 0, 0, 2];
    [b"OSMET\0\0\0", header, partition, &[0; 32], size, &packed.stdout].concat()
}

#[test]
fn disk_is_compared_with_the_beginning_of_the_live_images_own_image() {
    let image = image::coreos(IGNITION, "ignition.platform.id=metal");
    let osmet = osmet(&image);
    for (damage, exit_status) in [(None, ExitStatus::Done), (Some(8 << 20), ExitStatus::Unproven)] {
        let mock = vim(json!({"ignition": inline()}));
        let mut machine = Machine::new(&mock.url);
        fs::write(machine.root.join("osmet/x86_64.osmet"), &osmet).unwrap();
        let mut written = image.clone();
        if let Some(at) = damage {
            written[at] ^= 1;
        }
        fs::write(machine.root.join("image"), written).unwrap();
        machine.installer("0.27.0", "write_image");
        let ended = machine.run();
        assert_eq!(ended.exit_status, exit_status, "{:?}", ended.result);
        let checks = result(&mock)["proof"]["checks"].as_array().unwrap().clone();
        let ok = |name| checks.iter().find(|check| check["name"] == name).map(|check| &check["ok"]);
        assert_eq!(ok("image_table"), Some(&json!(true)));
        assert_eq!(ok("image_content"), Some(&json!(damage.is_none())));
    }
}
