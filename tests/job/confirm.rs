//! The installed system answers: what an install adds to its config, and the script in it, run by the bash of this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use formats::digest::sha256;
use ignition::confirm::{Confirmation, UNIT, wrap};
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::again::{boot, efivars, is_reported_as_installed, machine, order, with_wipe};
use super::image;
use super::machine::IGNITION;
use super::mock::{Mock, Reply, assert_has, assert_says};
use super::secrets::logged;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn decoded(source: &Value) -> Vec<u8> {
    STANDARD.decode(source.as_str().unwrap().strip_prefix("data:;base64,").unwrap()).unwrap()
}

/// An installed system in a folder, with programs that describe its disk `sda` under the root file system.
struct Installed(TempDir);

impl Installed {
    /// With the files of a config.
    fn of(config: &[u8]) -> Self {
        let system = Self(tempfile::tempdir().unwrap());
        let config: Value = serde_json::from_slice(config).unwrap();
        for file in config["storage"]["files"].as_array().unwrap() {
            let path = file["path"].as_str().unwrap().trim_start_matches('/');
            system.put(path, &decoded(&file["contents"]["source"]));
        }
        system.put(&format!("etc/systemd/system/{UNIT}"), b"");
        for (name, body) in [
            ("findmnt", "[[ ${!#} == /sysroot ]] && echo /dev/sda4"),
            ("lsblk", "echo 'sda4 part'; echo 'sda disk'"),
            ("udevadm", "cat \"$ROOT/properties\""),
            ("systemctl", "echo \"$*\" >>\"$ROOT/systemctl\""),
            ("curl", "echo \"$*\" >>\"$ROOT/arguments\"; PATH=/usr/bin:/bin exec curl \"$@\""),
        ] {
            let program = format!("bin/{name}");
            system.put(&program, format!("#!/bin/bash\n{body}\n").as_bytes());
            let path = system.0.path().join(program);
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        system
    }

    /// With the request to this server, for a disk with these identifiers.
    fn to(server: &str, serial: Option<&str>, wwn: Option<&str>) -> Self {
        let url = format!("{server}/boots/@BOOT@");
        let bearer = format!("Authorization: Bearer {TOKEN}");
        let options = [
            ("url", url.as_str()),
            ("noproxy", "*"),
            ("request", "PUT"),
            ("header", &bearer),
            ("data-raw", r#"{"of":"a\"b","id":"@BOOT_ID@"@DISK@}"#),
        ];
        let added = Confirmation { options: &options, ca: Some(""), serial, wwn };
        Self::of(&wrap(IGNITION.as_bytes(), "3.3.0", &added).unwrap())
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.path().join(path)).unwrap_or_default()
    }

    /// Starts the unit in the boot of this id.
    fn start(&self, boot_id: &str, limit_s: u32) -> Output {
        self.put("proc/sys/kernel/random/boot_id", format!("{boot_id}\n").as_bytes());
        let root = self.0.path();
        let path = std::env::var("PATH").unwrap();
        let place = |variable: &str, folder: &str| (variable.to_owned(), root.join(folder));
        Command::new("bash")
            .arg(root.join("etc/run-coreos-installer/confirm.sh"))
            .env("PATH", format!("{}:{path}", root.join("bin").display()))
            .env("ROOT", root)
            .envs([place("CONFIRM_ETC", "etc"), place("CONFIRM_VAR", "var")])
            .envs([place("CONFIRM_PROC", "proc"), place("CONFIRM_SYS", "sys")])
            .env("CONFIRM_PAUSE", "0")
            .env("CONFIRM_LIMIT", limit_s.to_string())
            .output()
            .unwrap()
    }
}

/// The paths of all requests.
fn paths(mock: &Mock) -> Vec<String> {
    mock.requests("").into_iter().map(|request| request.path).collect()
}

#[test]
fn two_boots_are_confirmed_once_each_and_nothing_of_it_stays() {
    let mock = Mock::start(|_, n| Reply::status(if n == 0 { 409 } else { 204 }));
    let system = Installed::to(&mock.url, Some("S 1"), None);
    system.put("properties", b"ID_SERIAL_SHORT=S_1\n");
    let output = system.start("A", 60);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, "boot 1 was not confirmed: HTTP status 409\nboot 1 was confirmed\n");
    // The unit is started again.
    system.start("A", 60);
    assert_eq!(paths(&mock), ["/boots/1", "/boots/1"]);
    assert!(!system.read("etc/run-coreos-installer/confirm.curl").is_empty());
    let output = system.start("B", 60);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(paths(&mock)[2..], ["/boots/2", "/boots/2"]);
    for (request, id) in mock.requests("").iter().zip(["A", "A", "B", "B"]) {
        assert_eq!(request.json(), json!({"of": "a\"b", "id": id, "disk": "same"}));
        assert_eq!(request.header("authorization"), Some(&*format!("Bearer {TOKEN}")));
        assert_eq!(request.method, "PUT");
    }
    assert_eq!(system.read("systemctl"), format!("disable {UNIT}\n"));
    for gone in ["etc/run-coreos-installer", "var/run-coreos-installer"] {
        assert!(!system.0.path().join(gone).exists(), "{gone}");
    }
    assert!(!system.0.path().join("etc/systemd/system").join(UNIT).exists());
    assert!(system.read("arguments").contains("--config -"));
    assert!(!system.read("arguments").contains(TOKEN));
}

#[test]
fn boot_that_no_server_accepts_is_given_up_and_sent_with_the_next_one() {
    let mock = Mock::start(|_, n| match n {
        0 => Reply::Close,
        1 => Reply::status(503),
        2 => Reply::status(403),
        _ => Reply::status(200),
    });
    let system = Installed::to(&mock.url, None, None);
    let output = system.start("A", 600);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("boot 1 was not confirmed: curl: (52)"), "{said}");
    assert!(lines[0].ends_with(" HTTP status 000"), "{said}");
    assert_eq!(
        lines[1..],
        [503, 403].map(|n| format!("boot 1 was not confirmed: HTTP status {n}"))
    );
    assert!(system.start("B", 0).status.success());
    let last = mock.requests("/boots/1").pop().unwrap();
    assert_eq!(last.json(), json!({"of": "a\"b", "id": "A"}));
    assert_eq!(mock.requests("/boots/2")[0].json()["id"], "B");
}

#[test]
fn boot_that_is_refused_is_sent_once_and_so_is_one_after_its_time_is_over() {
    for (status, limit_s) in [(301, 600), (400, 600), (422, 600), (503, 0)] {
        let mock = Mock::start(move |_, _| Reply::status(status));
        let output = Installed::to(&mock.url, None, None).start("A", limit_s);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(paths(&mock).len(), 1, "{status}");
    }
}

#[test]
fn disk_is_another_one_only_if_one_of_its_identifiers_is_known_and_differs() {
    let (serial, wwn) = (Some("WD-1 2"), Some("naa.5000C500A1B2C3D4"));
    for (serial, wwn, properties, attribute, expected) in [
        (serial, wwn, "ID_SERIAL_SHORT=WD-1_2\n", "", Some("same")),
        (serial, wwn, "ID_SERIAL_SHORT=X\nID_WWN=0x5000c500a1b2c3d4\n", "", Some("same")),
        (serial, wwn, "ID_SERIAL_SHORT=X\nID_WWN=0x5000c500a1b2c3d5\n", "", Some("other")),
        (serial, None, "ID_WWN=0x5000c500a1b2c3d5\n", "", None),
        (serial, None, "", "WD-1 2  \n", Some("same")),
        (serial, None, "", "WD-12", Some("same")),
        (serial, None, "ID_SERIAL_SHORT=WD-1\n", "", Some("other")),
        (None, None, "ID_SERIAL_SHORT=WD-1\n", "", None),
        (serial, wwn, "", "", None),
    ] {
        let mock = Mock::start(|_, _| Reply::status(204));
        let system = Installed::to(&mock.url, serial, wwn);
        system.put("properties", properties.as_bytes());
        system.put("sys/block/sda/serial", attribute.as_bytes());
        system.start("A", 60);
        let found = mock.requests("")[0].json();
        assert_eq!(found["disk"].as_str(), expected, "{properties}{attribute}");
    }
}

#[test]
fn install_writes_the_confirmation_around_the_config_and_only_its_digest_is_known() {
    let mut machine = machine(&image::writing_config());
    machine.set_token("a-token-of-the-node");
    machine.collected.disks[0].wwn = Some("0x5000c500a1b2c3d4".into());
    let asked = order("r1", json!({"confirm": true}));
    let ((status, result), log) = logged(|| boot(&mut machine, &asked));
    assert_eq!(status, ExitStatus::Done, "{result:#}");
    assert_has(&result, &json!({"outcome": "installed"}));
    let config = fs::read(machine.root.join("run/private/installed.ign")).unwrap();
    let parsed: Value = serde_json::from_slice(&config).unwrap();
    assert_eq!(decoded(&parsed["ignition"]["config"]["merge"][0]["source"]), IGNITION.as_bytes());
    let system = Installed::of(&config);
    let options = system.read("etc/run-coreos-installer/confirm.curl");
    let token = options.split_once("Bearer ").unwrap().1.split_once('"').unwrap().0;
    assert_eq!((token.len(), token.chars().all(|c| c.is_ascii_hexdigit())), (32, true));
    assert_says(
        &json!(options),
        &["/v1/nodes/mac-02/boots/@BOOT@\"", "request = \"PUT\"", r#"\"request_id\":\"r1\""#],
    );
    assert_eq!(
        system.read("etc/run-coreos-installer/confirm.disk"),
        "SERIAL-sda\n0x5000c500a1b2c3d4\n"
    );
    let digests = json!({
        "token_digest": sha256(token.as_bytes()), "ignition_digest": sha256(IGNITION.as_bytes()),
    });
    assert_eq!(result["confirm"], digests);
    let trace = fs::read(trace(&efivars(&machine))).unwrap();
    for (place, text) in [
        ("log", &log),
        ("result", &result.to_string()),
        ("trace", &String::from_utf8_lossy(&trace).into_owned()),
    ] {
        assert!(!text.contains(token), "the token is in the {place}");
    }
    assert!(!String::from_utf8_lossy(&config).contains("a-token-of-the-node"));
    assert!(!options.contains("a-token-of-the-node"));
    // A VIM without a memory gets the same digests from the trace.
    is_reported_as_installed(&mut machine);
    let (_, again) = boot(&mut machine, &asked);
    assert_eq!((&again["outcome"], &again["confirm"]), (&json!("already_installed"), &digests));
    let (_, other) = boot(&mut machine, &with_wipe(order("r2", json!({"confirm": true}))));
    assert_eq!(other["outcome"], "installed", "{other:#}");
    assert_ne!(other["confirm"]["token_digest"], digests["token_digest"]);
}

fn trace(efivars: &Path) -> std::path::PathBuf {
    let files = fs::read_dir(efivars).unwrap().flatten().map(|entry| entry.path());
    files.into_iter().find(|path| path.to_str().unwrap().contains("RunCoreosInstaller")).unwrap()
}

#[test]
fn config_without_confirm_is_installed_as_it_came_and_too_large_a_one_is_refused_with_it() {
    let keep = "write_image; cp \"$ROOT/run/private/config.ign\" \"$ROOT/installed.ign\"";
    let mut node = machine(keep);
    let (_, result) = boot(&mut node, &order("r1", json!({"confirm": false})));
    assert_eq!((result.get("confirm"), &*node.read("installed.ign")), (None, IGNITION));
    let large = format!(r#"{{"ignition":{{"version":"3.3.0"}}{}}}"#, " ".repeat(7 << 20));
    let config = Mock::start(move |_, _| Reply::bytes(large.as_bytes()));
    let keys = json!({"confirm": true, "ignition": {"url": config.url}});
    let mut node = machine(keep);
    let (status, result) = boot(&mut node, &order("r2", keys));
    assert_eq!((status, node.is_untouched("sda")), (ExitStatus::Untouched, true));
    assert_has(
        &result,
        &json!({"outcome": "refused", "code": "IGNITION_INVALID", "confirm": null}),
    );
    assert_says(&result["message"], &["and its confirmation have", "expected at most 8388608"]);
}
