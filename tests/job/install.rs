//! Installs that write the disk, and what is reported to the VIM.

use std::fs;
use std::sync::LazyLock;

use formats::digest;
use run_coreos_installer::api::OnRefusal;
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::{Value, json};

use super::image;
use super::machine::{IGNITION, Machine, packed};
use super::mock::{Mock, Reply, assert_has, assert_says};

/// An image without partitions, with zeros in between.
static EMPTY: LazyLock<Vec<u8>> = LazyLock::new(|| image::with_empty_table(vec![0; 137 * 512]));

/// A VIM that answers `install` and serves the Ignition config and an empty image.
pub(crate) fn vim(install: Value) -> Mock {
    Mock::start(move |request, _| match request.path.as_str() {
        "/v1/reports" => Reply::install(&install),
        "/config.ign" => Reply::bytes(IGNITION.as_bytes()),
        "/image.raw" | "/signed.raw" => Reply::bytes(&EMPTY),
        "/signed.raw.sig" => Reply::bytes(b"signature"),
        path if path.ends_with(".raw.sig") || path.starts_with("/missing") => Reply::status(404),
        _ => Reply::status(204),
    })
}

pub(crate) fn inline() -> Value {
    json!({"inline": IGNITION, "hash": digest::sha512(IGNITION.as_bytes())})
}

/// An install with these keys, of `IGNITION` if they name no config.
pub(crate) fn with(mut keys: Value) -> Value {
    if keys.get("ignition").is_none() {
        keys["ignition"] = inline();
    }
    keys
}

/// A machine and its VIM.
pub(crate) struct Job {
    pub(crate) mock: Mock,
    pub(crate) machine: Machine,
}

impl Job {
    /// An install as [`with`] makes it, by a coreos-installer that does nothing.
    pub(crate) fn new(keys: Value) -> Self {
        Self::at(vim(with(keys)))
    }

    pub(crate) fn at(mock: Mock) -> Self {
        let machine = Machine::new(&mock.url);
        Self { mock, machine }
    }

    /// Lets coreos-installer do this.
    pub(crate) fn script(mut self, body: &str) -> Self {
        self.machine.script(body);
        self
    }

    /// Lets coreos-installer write this image.
    pub(crate) fn writes(mut self, image: &[u8]) -> Self {
        self.machine.writes(image);
        self
    }

    /// Runs the job, which must end without a write and with these values in the only result. Returns that.
    #[track_caller]
    pub(crate) fn is_refused(&mut self, expected: &Value) -> Value {
        let result = self.ends(ExitStatus::Untouched, expected);
        assert_eq!(result["disk_state"], "untouched", "{result:#}");
        assert!(self.machine.is_untouched("sda"));
        result
    }

    /// Runs the job, which must end with this status and with these values in the only result. Returns that.
    #[track_caller]
    pub(crate) fn ends(&mut self, exit_status: ExitStatus, expected: &Value) -> Value {
        let ended = self.machine.run();
        let result = self.mock.result();
        assert_eq!(ended.exit_status, exit_status, "{result:#}");
        assert_has(&result, expected);
        result
    }
}

/// The checks of the proof in a result.
pub(crate) fn checks(result: &Value) -> &[Value] {
    result["proof"]["checks"].as_array().unwrap()
}

/// The check of this name.
pub(crate) fn check<'a>(result: &'a Value, name: &str) -> Option<&'a Value> {
    checks(result).iter().find(|check| check["name"] == name)
}

#[test]
fn installer_that_wrote_nothing_is_not_believed_even_if_the_disk_already_fits() {
    let image = image::coreos(IGNITION, "quiet ignition.platform.id=metal");
    let disk = json!({"hints": {"serial": "SERIAL-sda"}});
    let mut job = Job::new(json!({"existing_data": "wipe", "disk": disk}));
    let sda = job.machine.disk("sda");
    fs::write(&sda, image).unwrap();
    fs::File::options().write(true).open(sda).unwrap().set_len(64 << 20).unwrap();
    let expected =
        json!({"code": "INSTALLER_FAILED", "outcome": "refused", "disk_state": "untouched"});
    let result = job.ends(ExitStatus::Untouched, &expected);
    assert_says(&result["message"], &["wrote nothing"]);
}

#[test]
fn the_whole_job_ends_with_an_installed_and_proved_disk() {
    let keys = json!({"append_kargs": ["a=1"], "delete_kargs": ["b"], "platform": "metal"});
    let mut job = Job::new(keys)
        .writes(&image::coreos(IGNITION, "quiet a=1 ignition.platform.id=metal"))
        .script(
            r"echo 'Read disk 1 MiB/4 MiB (25%)' >&2; write_image
           printf '> Read disk 4/4 (100%%)  \rInstall complete.\n' >&2",
        );
    let expected = json!({
        "outcome": "installed", "disk_state": "installed", "attempts": 1,
        "disk": {"serial": "SERIAL-sda"},
    });
    let result = job.ends(ExitStatus::Done, &expected);
    assert!(result["live"]["agent_cpu_time_ms"].is_u64() && result["live"]["uptime_s"].is_u64());
    let checks = checks(&result);
    assert_eq!(checks.len(), 12);
    let failed: Vec<&Value> = checks.iter().filter(|check| check["ok"] != true).collect();
    // The live image of the test has no image to compare with, and the result does not conceal that.
    assert_eq!(failed.len(), 1, "{checks:#?}");
    assert_has(failed[0], &json!({"name": "image_content", "fatal": false}));
    let warnings: Vec<String> = serde_json::from_value(result["warnings"].clone()).unwrap();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].starts_with("Ignition config: no user gets an SSH key or a password"));
    assert!(warnings[1].starts_with("image_content: found not compared: no digests"));
    let events = job.mock.events().into_iter();
    let percents: Vec<u64> = events.filter_map(|event| event["percent"].as_u64()).collect();
    assert!(percents.is_sorted() && percents.last() == Some(&100), "{percents:?}");
    assert_eq!(job.machine.read("modes"), "600\n600\n700\n");
    assert!(!job.machine.root.join("run/private/config.ign").exists());
    assert_eq!(job.machine.seen_config()["offline"], true);
}

#[test]
fn a_machine_with_uefi_gets_a_boot_entry_and_only_for_a_proved_disk() {
    for (on_disk, exit_status, n_variables) in [
        // The entry, the order, the next boot, the trace.
        (IGNITION, ExitStatus::Done, 4),
        (r#"{"ignition":{"version":"3.0.0"}}"#, ExitStatus::Unproven, 1),
    ] {
        let image = image::coreos(on_disk, "ignition.platform.id=metal");
        let mut job = Job::new(json!({})).writes(&image);
        let efivars = job.machine.root.join("sys/firmware/efi/efivars");
        fs::create_dir_all(&efivars).unwrap();
        let result = job.ends(exit_status, &json!({}));
        assert_eq!(fs::read_dir(&efivars).unwrap().count(), n_variables);
        let entry = check(&result, "efi_entry");
        assert_eq!(entry.is_some(), exit_status == ExitStatus::Done);
        if let Some(entry) = entry {
            assert_has(entry, &json!({"ok": true, "fatal": false}));
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
    machine.script("cp $ROOT/run/private/config.ign $ROOT/got; exit 1");
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    assert_eq!(machine.read("got"), IGNITION);
    let mut machine = Machine::new(&mock.url);
    machine.add_disk("sdb", 64 << 20);
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
}

/// A machine that installs the bare config that it gets as the response to its report.
fn bare(result: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Job {
    let mock = Mock::of(|_| Reply::ignition(IGNITION), |_| Reply::status(404), result);
    Job::at(mock).writes(&image::plain())
}

#[test]
fn a_server_that_accepts_no_results_does_not_delay_an_installed_node() {
    let mut job = bare(|_| Reply::status(404));
    assert_eq!(job.machine.run().exit_status, ExitStatus::Done);
    assert_eq!(job.mock.requests("/result").len(), 2);
}

#[test]
fn page_of_a_proxy_in_place_of_a_bare_vim_is_no_answer_to_the_result() {
    let page = || Reply::bytes(b"<html>log in first</html>").and("Content-Type", "text/html");
    let mut job = bare(move |n| if n < 6 { page() } else { Reply::status(204) });
    job.machine.settings.failure_limit = std::time::Duration::from_mins(2);
    assert_eq!(job.machine.run().exit_status, ExitStatus::Done);
    let n_posts = job.mock.requests("/result").len();
    assert_eq!(n_posts, 7, "it is posted until the server itself accepts it");
}

#[test]
fn second_agent_on_a_node_reports_that_and_writes_nothing() {
    let mut job = Job::new(json!({})).writes(&image::plain());
    // It would ask again after any other refusal.
    job.machine.settings.on_refusal = OnRefusal::Retry;
    let run_dir = job.machine.settings.site.run_dir.clone();
    fs::create_dir_all(&run_dir).unwrap();
    let first = fs::File::create(run_dir.join("lock")).unwrap();
    first.try_lock().unwrap();
    let result = job.is_refused(&json!({"code": "NODE_LOCKED"}));
    assert_says(&result["message"], &["another agent", "installs on this node"]);
    assert!(job.machine.read("args").is_empty());
    drop(first);
    assert_eq!(job.machine.run().exit_status, ExitStatus::Done);
}

#[test]
fn lock_of_the_node_lasts_until_the_installer_has_ended_and_allows_the_agents_next_install() {
    // A lock is refused while the installer runs.
    let held = "flock -n -E 7 \"$ROOT/run/private/lock\" true; echo $? >> \"$ROOT/held\"; [ $N -gt 1 ] && write_image; exit 0";
    let mut job = Job::new(json!({})).writes(&image::plain());
    job.machine.script(held);
    job.machine.run();
    assert_eq!(job.machine.run().exit_status, ExitStatus::Done);
    let held = job.machine.read("held");
    assert!(held.lines().count() > 1 && held.lines().all(|status| status == "7"), "{held}");
}

#[test]
fn a_signed_and_valid_image_is_written_as_instructed() {
    let files = vim(json!({}));
    let mut job = Job::new(json!({
        "ignition": {"url": format!("{}/config.ign", files.url)},
        "image": {
            "url": format!("{}/signed.raw", files.url), "hash": digest::sha512(&EMPTY),
            "uncompressed_bytes": 70_000, "sector_bytes": 512,
        },
        "disk": {"hints": {"serial": "SERIAL-sda"}},
        "copy_network": true, "console": ["ttyS0,115200n8"], "firstboot_args": "ip=dhcp",
        "platform": "paket",
    }))
    .script("exit 1");
    fs::write(job.machine.root.join("keyfiles/a.nmconnection"), "").unwrap();
    let result = job.ends(ExitStatus::Untouched, &json!({}));
    let config = job.machine.seen_config();
    assert!(config["image-url"].as_str().unwrap().starts_with("http://127.0.0.1:"));
    let expected = json!({
        "copy-network": true, "console": ["ttyS0,115200n8"], "insecure": null,
        "ignition-hash": digest::sha512(IGNITION.as_bytes()),
    });
    assert_has(&config, &expected);
    assert!(job.machine.read("args").contains("--firstboot-args=ip=dhcp"));
    let warnings = result["warnings"].to_string();
    for expected in ["plain HTTP without a hash", "expected one that Ignition supports"] {
        assert!(warnings.contains(expected), "{warnings}");
    }
}

#[test]
fn ignored_key_and_endless_first_boot_on_packet_are_warnings_of_the_result() {
    let config = r#"{"ignition":{"version":"3.3.0"},"storge":{"files":[]}}"#;
    for (more, is_warned) in [(json!(null), true), (json!("rd.neednet=1 ip=dhcp"), false)] {
        let ignition = json!({"inline": config});
        let keys = json!({"ignition": ignition, "platform": "packet", "firstboot_args": more});
        let result = Job::new(keys).script("exit 1").ends(ExitStatus::Untouched, &json!({}));
        let warnings = result["warnings"].to_string();
        let ignored = "Ignition config: $.storge: unknown key, which Ignition ignores unless only its case is wrong";
        assert!(warnings.contains(ignored), "{warnings}");
        assert_eq!(warnings.contains("set firstboot_args"), is_warned, "{warnings}");
    }
}

#[test]
fn a_dry_run_changes_and_reports_nothing() {
    let Job { mock, mut machine } = Job::new(json!({}));
    machine.settings.is_dry_run = true;
    assert_eq!(machine.run().exit_status, ExitStatus::Done);
    assert!(machine.is_untouched("sda"));
    assert!(machine.read("args").is_empty());
    assert!(mock.requests("/events").is_empty() && mock.requests("/result").is_empty());
}

#[test]
fn disk_that_fails_the_proof_loses_its_table_unless_the_instruction_says_keep() {
    let image = image::coreos(r#"{"ignition":{"version":"3.2.0"}}"#, "ignition.platform.id=metal");
    let erased = "its partition tables were erased, so that it does not boot";
    let kept = "was written, but ignition_digest: found sha512-";
    for (on_unproved, disk_state, has_table, words) in [
        (json!(null), "erased", false, erased),
        (json!("erase"), "erased", false, erased),
        // Nobody may take it for the whole image.
        (json!("keep"), "written", true, kept),
    ] {
        let mut job = Job::new(json!({"on_unproved": on_unproved})).writes(&image);
        let expected = json!({
            "code": "PROOF_IGNITION_DIGEST", "outcome": "unproven", "disk_state": disk_state,
        });
        let result = job.ends(ExitStatus::Unproven, &expected);
        assert_says(&result["message"], &[words]);
        let disk = fs::read(job.machine.disk("sda")).unwrap();
        let has_header = |sector: &[u8]| sector.starts_with(b"EFI PART");
        assert_eq!(disk.chunks(512).any(has_header), has_table, "{on_unproved}");
        // Apart from the tables, if they are gone, it is as it was.
        let same = if has_table { 0..image.len() } else { 1 << 20..31 << 20 };
        assert!(disk[same.clone()] == image[same], "{on_unproved}");
    }
}

#[test]
fn disk_that_fails_the_proof_keeps_the_partitions_that_were_to_be_kept() {
    let mut image =
        image::coreos(r#"{"ignition":{"version":"3.2.0"}}"#, "ignition.platform.id=metal");
    image.resize(64 << 20, 0);
    image::with_saved(&mut image, &[("data", 40, 10)]);
    let disk = json!({"hints": {"serial": "SERIAL-sda"}});
    let keys = json!({"disk": disk, "existing_data": "wipe", "save_partlabel": ["data"]});
    let mut job = Job::new(keys).writes(&image);
    fs::write(job.machine.disk("sda"), &image).unwrap();
    job.machine.collected.disks[0].partitions = vec![probes::block::Partition {
        number: Some(4),
        label: Some("data".into()),
        ..probes::block::Partition::default()
    }];
    let result = job.ends(ExitStatus::Unproven, &json!({"disk_state": "erased"}));
    assert_says(&result["message"], &["its partition table lists only the partition to keep"]);
}

#[test]
fn old_installers_get_their_options_on_the_command_line() {
    let mut job = Job::new(json!({"append_kargs": ["a=1"]}));
    job.machine.installer("0.11.0", "exit 1");
    job.machine.run();
    let args = job.machine.read("args");
    assert!(args.contains("--append-karg=a=1") && !args.contains("--config-file"), "{args}");
    assert!(args.trim_end().ends_with(job.machine.disk("sda").to_str().unwrap()), "{args}");
}

/// An osmet file whose packed image begins with this, up to a partition at 9 MiB.
fn osmet(image: &[u8]) -> Vec<u8> {
    let packed = packed(&["xz", "-1", "-c"], &image[..9 << 20]);
    let header: &[u8] = &[1, 3, b'0', b'.', b'9', 251, 0, 2, 0, 0, 1];
    let partition: &[u8] = &[252, 0, 0, 0x90, 0, 252, 0, 0, 0x90, 1, 0];
    let size: &[u8] = &[252, 0, 0, 0, 2];
    [b"OSMET\0\0\0", header, partition, &[0; 32], size, &packed].concat()
}

#[test]
fn disk_is_compared_with_the_beginning_of_the_live_images_own_image() {
    let image = image::plain();
    let osmet = osmet(&image);
    for (damage, exit_status) in [(None, ExitStatus::Done), (Some(8 << 20), ExitStatus::Unproven)] {
        let mut written = image.clone();
        if let Some(at) = damage {
            written[at] ^= 1;
        }
        let mut job = Job::new(json!({})).writes(&written);
        fs::write(job.machine.root.join("osmet/x86_64.osmet"), &osmet).unwrap();
        let result = job.ends(exit_status, &json!({}));
        let ok = |name| check(&result, name).map(|check| &check["ok"]);
        assert_eq!(ok("image_table"), Some(&json!(true)));
        assert_eq!(ok("image_content"), Some(&json!(damage.is_none())));
        let sampled = damage.is_none().then_some("sample");
        assert_eq!(result["proof"]["compared"].as_str(), sampled);
    }
}

/// An osmet file of the whole image, whose root is an object of the live system.
fn whole_osmet(image: &[u8]) -> Vec<u8> {
    let root = 25 << 20..29 << 20;
    let rest = [&image[..root.start], &image[root.end..]].concat();
    let packed = packed(&["xz", "-1", "-c"], &rest);
    let number = |number: u32| [&[252][..], &number.to_le_bytes()].concat();
    let header: &[u8] = &[1, 3, b'0', b'.', b'9', 251, 0, 2, 0, 0, 1];
    let partition = [number(25 << 20), number(29 << 20), vec![1]].concat();
    let extent = [vec![0, 0], number(4 << 20), vec![5; 32]].concat();
    let digest = formats::hex::bytes(&digest::sha256(image)["sha256-".len()..]).unwrap();
    [b"OSMET\0\0\0", header, &partition, &extent, &digest, &number(32 << 20), &packed].concat()
}

#[test]
fn root_of_the_live_images_own_image_is_compared_whole_as_long_as_the_medium_can_be_read() {
    let image = image::plain();
    let osmet = whole_osmet(&image);
    for (damage, has_medium, exit_status, compared) in [
        (None, true, ExitStatus::Done, json!("whole")),
        // Free space of the root file system.
        (Some((29 << 20) - 1), true, ExitStatus::Unproven, json!(null)),
        // A medium that was taken out says nothing against the disk.
        (None, false, ExitStatus::Done, json!("sample")),
    ] {
        let mut written = image.clone();
        if let Some(at) = damage {
            written[at] ^= 1;
        }
        let mut job = Job::new(json!({})).writes(&written);
        fs::write(job.machine.root.join("osmet/x86_64.osmet"), &osmet).unwrap();
        let objects = job.machine.root.join("repo/objects/05");
        fs::create_dir_all(&objects).unwrap();
        if has_medium {
            let object = objects.join(format!("{}.file", "05".repeat(31)));
            fs::write(object, &image[25 << 20..29 << 20]).unwrap();
        }
        let result = job.ends(exit_status, &json!({}));
        assert_eq!(result["proof"]["compared"], compared, "{damage:?} {has_medium}");
    }
}
