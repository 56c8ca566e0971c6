//! Configs that come straight from a machine-config server, and configs that name others by their addresses.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::{Value, json};

use super::certificates::{Certificates, Fault};
use super::image;
use super::install::Job;
use super::machine::{IGNITION, Machine};
use super::mock::{Mock, Reply, Request, assert_has, assert_says};
use super::part::part;
use super::until::until;

/// The real machine-config server with a pool `master`, over HTTPS.
struct ConfigServer {
    child: Child,
    url: String,
    certificates: Certificates,
    log: tempfile::NamedTempFile,
}

impl ConfigServer {
    /// Starts it; `None` where it is not next to the repository.
    fn start() -> Option<Self> {
        let program = part("machine-config-server")?;
        let shared = super::part::shared()?.join("parts/machine-config-server");
        let certificates = Certificates::make(Fault::None);
        let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (secure, insecure) = (port(), port());
        let log = tempfile::NamedTempFile::new().unwrap();
        let child = Command::new(program)
            .args(["bootstrap", "--server-basedir"])
            .arg(shared.join("base"))
            .arg("--bootstrap-kubeconfig")
            .arg(shared.join("kubeconfig"))
            .arg("--cert")
            .arg(certificates.path("server.pem"))
            .arg("--key")
            .arg(certificates.path("server.key"))
            .args([format!("--secure-port={secure}"), format!("--insecure-port={insecure}")])
            .stdout(Stdio::null())
            .stderr(log.reopen().unwrap())
            .spawn()
            .unwrap();
        until("the config server", || TcpStream::connect(("127.0.0.1", secure)).ok());
        let url = format!("https://127.0.0.1:{secure}/config");
        Some(Self { child, url, certificates, log })
    }

    /// A config that merges the one of a pool, and trusts the CA of the server.
    fn pointer(&self, pool: &str) -> String {
        let ca = BASE64_STANDARD.encode(fs::read(self.certificates.path("ca.pem")).unwrap());
        let authority = json!({"source": format!("data:text/plain;base64,{ca}")});
        let merge = json!([{"source": format!("{}/{pool}", self.url)}]);
        json!({"ignition": {
            "version": "3.2.0", "config": {"merge": merge},
            "security": {"tls": {"certificateAuthorities": [authority]}},
        }})
        .to_string()
    }
}

impl Drop for ConfigServer {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The warnings of an install that must succeed.
#[track_caller]
fn warnings_of(machine: &mut Machine) -> String {
    machine.writes(&image::plain());
    machine.script(&image::writing_config());
    let ended = machine.run();
    assert_eq!(ended.exit_status, ExitStatus::Done, "{:#}", machine.result());
    machine.result()["warnings"].to_string()
}

#[test]
fn config_of_a_real_machine_config_server_is_installed_in_the_newest_spec_that_it_has() {
    let Some(server) = ConfigServer::start() else { return };
    let url = format!("{}/master", server.url);
    let mut machine = Machine::offline(&json!({"ignition": {"url": url}}));
    machine.settings.vim.ca_file = Some(server.certificates.path("ca.pem"));
    warnings_of(&mut machine);
    let installed: Value =
        serde_json::from_str(&machine.read("run/private/installed.ign")).unwrap();
    assert_eq!(installed["ignition"]["version"], "3.5.0");
    let files = installed["storage"]["files"].as_array().unwrap();
    assert!(!files.is_empty());
    let log = fs::read_to_string(server.log.path()).unwrap();
    assert!(log.contains("version=3.6.0, */*;q=0.1"), "{log}");
}

#[test]
fn pointer_to_a_real_machine_config_server_is_followed_by_the_ca_in_the_config() {
    let Some(server) = ConfigServer::start() else { return };
    let warnings = |pool: &str| {
        warnings_of(&mut Machine::offline(&json!({"ignition": {"inline": server.pointer(pool)}})))
    };
    assert!(!warnings("master").contains("was not checked"));
    // A pool that does not exist yet.
    assert!(warnings("worker").contains("$.ignition.config.merge.0 was not checked"));
    let log = fs::read_to_string(server.log.path()).unwrap();
    assert!(log.contains("Pool \"master\" requested"), "{log}");
}

/// A config that merges `/inner` of the server that was asked.
fn naming_inner(request: &Request) -> String {
    let source = format!("http://{}/inner", request.header("host").unwrap());
    let headers = json!([{"name": "X-Role", "value": "master"}]);
    let merge = json!([{"source": source, "httpHeaders": headers}]);
    json!({"ignition": {"version": "3.3.0", "config": {"merge": merge}}}).to_string()
}

/// A VIM that orders the install of a config that merges `/inner`, and answers that with `reply`.
fn pointing(keys: Value, reply: fn(&Request) -> Reply) -> Job {
    let mock = Mock::start(move |request, _| match request.path.as_str() {
        "/inner" => reply(request),
        "/v1/reports" => {
            let mut install = keys.clone();
            install["ignition"] = json!({"inline": naming_inner(request)});
            Reply::install(&install)
        }
        _ => Reply::status(204),
    });
    Job::at(mock)
}

#[test]
fn config_behind_a_pointer_is_asked_for_as_ignition_does_and_refused_as_ignition_would() {
    let mut job = pointing(json!({}), |_| Reply::ignition(r#"{"ignition":{"version":"2.2.0"}}"#));
    let result = job.is_refused(&json!({"code": "IGNITION_INVALID"}));
    let place = "$.ignition.config.merge.0 → $.ignition.version is \"2.2.0\"";
    assert_says(&result["message"], &[place]);
    assert_says(&result["advice"], &["or set check_pointers to false"]);
    let asked = &job.mock.requests("/inner")[0];
    let accept = "application/vnd.coreos.ignition+json;version=3.6.0, */*;q=0.1";
    assert_eq!(asked.header("accept"), Some(accept));
    assert_eq!(asked.header("x-role"), Some("master"));
    assert_eq!(asked.header("authorization"), None);
}

#[test]
fn what_a_pointed_config_erases_is_known_and_a_protected_disk_refuses() {
    let wiping = |_: &Request| {
        Reply::ignition(
            r#"{"ignition":{"version":"3.3.0"},"storage":{"disks":[{"device":"/dev/sdb","wipeTable":true}]}}"#,
        )
    };
    let disk = json!({"hints": {"serial": "SERIAL-sda"}});
    let mut job = pointing(json!({"protect": ["SERIAL-sdb"], "disk": disk}), wiping);
    job.machine.add_disk("sdb", 64 << 20);
    let result = job.is_refused(&json!({"code": "PROTECTED"}));
    assert_says(&result["message"], &["the Ignition config erases /dev/sdb"]);
}

#[test]
fn config_that_is_not_served_yet_or_names_itself_is_installed_and_a_skipped_one_is_not_asked_for() {
    let installs = |keys: Value, reply: fn(&Request) -> Reply| {
        let mut job = pointing(keys, reply).writes(&image::plain());
        job.machine.script(&image::writing_config());
        let result = job.ends(ExitStatus::Done, &json!({"outcome": "installed"}));
        (result["warnings"].to_string(), job.mock.requests("/inner").len())
    };
    let (warnings, n) = installs(json!({}), |_| Reply::status(503));
    assert!(
        warnings.contains("merge.0 was not checked, as it cannot be fetched now"),
        "{warnings}"
    );
    assert_eq!(n, 1);
    let (_, n) = installs(json!({}), |request| Reply::ignition(&naming_inner(request)));
    assert_eq!(n, 16);
    let (warnings, n) = installs(json!({"check_pointers": false}), |_| Reply::status(503));
    assert!(!warnings.contains("was not checked") && n == 0, "{warnings}");
}

#[test]
fn image_whose_ignition_is_older_than_the_config_is_not_installed_with_it() {
    let config = IGNITION.replace("3.3.0", "3.5.0");
    let mut job = Job::new(json!({"ignition": {"inline": config}}));
    let program = job.machine.root.join("ignition");
    fs::write(&program, "#!/bin/sh\necho 'Ignition v2.15.0'\n").unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    job.machine.settings.site.ignition = program;
    let result = job.is_refused(&json!({"code": "IGNITION_VERSION"}));
    assert_has(&result, &json!({"outcome": "refused"}));
    assert_says(&result["message"], &["Ignition 2.15.0 of the image knows 3.4.0 at most"]);
}
