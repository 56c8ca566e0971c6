//! Settings of live images, and the resulting Ignition, Butane, kernel arguments and iPXE script.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use formats::digest::{sha256, sha512};
use serde_json::{Map, Value};

use super::*;
use crate::part::part;
use crate::skipped::skipped;
use crate::tools;

const PEM: &str = "-----BEGIN CERTIFICATE-----\nMAo=\n-----END CERTIFICATE-----\n";
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMAo=\n-----END PRIVATE KEY-----\n";
const SSH: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

/// The VIM document, and how masters join a single node, where they are next to the repository.
const SEED_OF_THE_VIM: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/seeds/000_8c5aca9955afa304.txt");
const SEED_OF_THE_SINGLE_NODE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/seeds/003_3d607ab188825f5a.txt");

/// As in the VIM document, section 1.4.2: IPv6, plain HTTP, a name in /etc/hosts.
fn vim_document() -> Settings {
    Settings {
        vim: Some("http://vim.lab.example:8080".to_owned()),
        allow_plain_http: true,
        vim_addresses: vec!["fd02:9a04::1".parse().unwrap()],
        vim_names: vec!["vim.lab.example".to_owned(), "vim".to_owned()],
        agent: AgentBinary::fetched("http://[fd02:9a04::1]/ocp/run-coreos-installer.gz", b"agent"),
        ssh_keys: vec![format!("{SSH} admin")],
        boot: Some(Boot {
            kernel_url: "http://[fd02:9a04::1]/live/vmlinuz".to_owned(),
            initramfs_url: "http://[fd02:9a04::1]/live/initramfs.img".to_owned(),
        }),
        rootfs_url: Some("http://[fd02:9a04::1]/live/rootfs.img".to_owned()),
        config_url: Some("http://[fd02:9a04::1]/live/live.ign".to_owned()),
        ..Settings::default()
    }
}

/// The config that an image without a VIM installs; its bytes must not change.
const TARGET: &str = "{\"ignition\": {\"version\": \"3.4.0\"}}\n\n";

/// Everything set.
fn everything() -> Settings {
    Settings {
        vim: Some("https://vim.example/base".to_owned()),
        vim_addresses: vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
        vim_names: Vec::new(),
        agent: AgentBinary::Embedded(b"#!/bin/sh\nexit 0\n".to_vec()),
        ca: Some(PEM.to_owned()),
        token: Some(Secret::new("0123456789abcdef")),
        client_cert: Some(PEM.to_owned()),
        client_key: Some(Secret::new(KEY)),
        agent_options: BTreeMap::from([("give_up_after".to_owned(), vec!["86400".to_owned()])]),
        ssh_keys: vec![format!("{SSH} one"), format!("{SSH} two")],
        password_hash: Some(Secret::new("$6$salt$hash")),
        autologin: true,
        hostname: Some("live-node".to_owned()),
        files: vec![
            ExtraFile {
                path: "/usr/local/bin/ethtool".to_owned(),
                mode: 0o555,
                source: FileSource::Url {
                    url: "https://vim.example/ethtool.gz".to_owned(),
                    hash: Some(sha512(b"ethtool")),
                    is_gzip: true,
                },
            },
            ExtraFile {
                path: "/etc/motd".to_owned(),
                mode: 0o644,
                source: FileSource::Content(b"hello\n".to_vec()),
            },
            ExtraFile {
                path: "/opt/site/current".to_owned(),
                mode: 0o777,
                source: FileSource::Link("v1".to_owned()),
            },
            ExtraFile { path: "/opt/site/v1".to_owned(), mode: 0o755, source: FileSource::Folder },
        ],
        units: vec![Unit {
            name: "hello.service".to_owned(),
            text: "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"
                .to_owned(),
        }],
        network: keyfiles("interfaces: [{name: eth0, ipv4: {dhcp: true}}]").unwrap(),
        network_metadata: Some("https://metadata.example/metadata?a=%20$x".to_owned()),
        mirror_ca: Some(PEM.to_owned()),
        proxy: Some(Secret::new("https://me:secret@proxy.example:3128")),
        no_proxy: vec![".site.example".to_owned(), "192.0.2.0/24".to_owned()],
        platform: Some("packet".to_owned()),
        kernel_arguments: ["console=ttyS0,115200n8", "rci.note=two words"]
            .map(str::to_owned)
            .into(),
        ..vim_document()
    }
}

fn fetched_file(url: &str, hash: Option<String>) -> ExtraFile {
    let source = FileSource::Url { url: url.to_owned(), hash, is_gzip: false };
    ExtraFile { path: "/etc/x".to_owned(), mode: 0o644, source }
}

/// Text with a special meaning in JSON, YAML, the template or a shell, wherever free text is allowed.
fn hostile() -> Settings {
    let hostile =
        "\"'`{{token}}${x} $(id) \\ %s\n- a: b # é\u{85}\u{2028}\t\r\n---\n...\n \u{7f}\0";
    let text = hostile.replace('\0', "");
    let pem = format!("{PEM}{text}");
    Settings {
        ca: Some(pem.clone()),
        client_cert: Some(pem.clone()),
        client_key: Some(Secret::new(format!("{KEY}{text}"))),
        token: Some(Secret::new("{{ca}}'${x}`\\")),
        agent_options: BTreeMap::from([
            ("a".to_owned(), vec![text]),
            ("b".to_owned(), vec!["yes".to_owned()]),
            ("c".to_owned(), vec!["0644".to_owned()]),
            ("d".to_owned(), vec![String::new()]),
            ("e".to_owned(), vec!["~".to_owned()]),
            ("f".to_owned(), vec!["1e3".to_owned()]),
            ("g".to_owned(), vec!["a: b".to_owned()]),
        ]),
        ssh_keys: vec![format!("{SSH} {{{{ca}}}} \"quoted\" 'name' # {{\"a\":[1]}}")],
        ..vim_document()
    }
}

/// An image that installs without a VIM.
fn offline() -> Settings {
    Settings {
        install: Some(Target::Embedded(Secret::new(TARGET))),
        agent: AgentBinary::OnIso("/run-coreos-installer".to_owned()),
        agent_options: BTreeMap::from([
            ("after".to_owned(), vec!["poweroff".to_owned()]),
            ("append_karg".to_owned(), vec!["a=1".to_owned(), "console=ttyS0".to_owned()]),
        ]),
        ..Settings::default()
    }
}

fn all() -> [(&'static str, Settings); 5] {
    let bare = Settings { vim: Some("https://vim.example".to_owned()), ..Settings::default() };
    [
        ("vim-document", vim_document()),
        ("everything", everything()),
        ("hostile", hostile()),
        ("bare", bare),
        ("offline", offline()),
    ]
}

/// Compares with the file in `templates/expected`; `UPDATE_EXPECTED=1` writes it.
fn assert_expected(name: &str, actual: &str) {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("templates/expected");
    let path = dir.join(name);
    if std::env::var_os("UPDATE_EXPECTED").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(&path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(actual == expected, "{name} differs; UPDATE_EXPECTED=1 rewrites it:\n{actual}");
}

#[test]
fn outputs_match_the_expected_files() {
    for (name, settings) in all() {
        assert_expected(&format!("{name}.ign"), &ignition_json(&settings).unwrap());
        assert_expected(&format!("{name}.bu"), &butane_yaml(&settings).unwrap());
        assert_expected(&format!("{name}.kargs"), &(kernel_arguments(&settings).unwrap() + "\n"));
        if settings.boot.is_some() {
            assert_expected(&format!("{name}.ipxe"), &ipxe_script(&settings).unwrap());
            assert_expected(&format!("{name}.pxelinux"), &pxelinux_config(&settings).unwrap());
            assert_expected(&format!("{name}.grub"), &grub_entry(&settings).unwrap());
        }
    }
}

#[test]
fn every_spec_that_rhcos_reads_can_be_written_and_is_accepted() {
    assert_eq!(Spec::new(7), None);
    for minor in 0..=6 {
        for (name, settings) in all() {
            let settings = Settings { spec: Spec::new(minor).unwrap(), ..settings };
            let json = ignition_json(&settings).unwrap();
            assert_eq!(json.contains("httpProxy"), minor > 0 && name == "everything", "{json}");
            let checked = crate::check(json.as_bytes()).unwrap();
            let expected = (format!("3.{minor}.0"), Vec::new());
            assert_eq!((checked.version, checked.warnings), expected, "{name}");
            if let Some(answer) = tools::ignition_validate(&json) {
                assert_eq!(answer, Ok(String::new()), "{name} 3.{minor}.0");
            }
            let butane = butane_yaml(&settings).unwrap();
            let expected = ["1.0.0", "1.1.0", "1.2.0", "1.4.0", "1.5.0", "1.6.0", "1.7.0"];
            let expected = format!("\nversion: {}\n", expected[usize::from(minor)]);
            assert!(butane.contains(&expected), "{butane}");
        }
    }
    let mut settings = Settings { spec: Spec::new(0).unwrap(), ..vim_document() };
    settings.files = vec![fetched_file("http://h/x", Some(sha256(b"x")))];
    let error = ignition_json(&settings).unwrap_err().to_string();
    assert!(error.contains("sha256 needs spec 3.1.0"), "{error}");
}

#[test]
fn butane_makes_the_same_config_of_the_yaml_of_every_spec() {
    let Some(butane) = part("butane") else { return };
    for (minor, (name, settings)) in (0..=6).flat_map(|minor| all().map(|one| (minor, one))) {
        let settings = Settings { spec: Spec::new(minor).unwrap(), ..settings };
        let yaml = butane_yaml(&settings).unwrap();
        let output = tools::run(&butane, &["--strict"], yaml.as_bytes()).unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let json: Value = serde_json::from_str(&ignition_json(&settings).unwrap()).unwrap();
        assert_eq!(decoded(&found), decoded(&json), "{name} {minor}");
    }
}

/// The config with data URLs decoded, for comparison.
fn decoded(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let decoded = fields.iter().map(|(key, value)| (key.clone(), decoded(value)));
            let mut decoded: Map<_, _> = decoded.collect();
            if let Some(text) = inline(value) {
                decoded.insert("source".to_owned(), text.into());
                decoded.remove("compression");
            }
            decoded.into()
        }
        Value::Array(members) => members.iter().map(decoded).collect(),
        other => other.clone(),
    }
}

/// The content of a resource with a data URL.
fn inline(resource: &Value) -> Option<String> {
    let (head, data) = resource["source"].as_str()?.strip_prefix("data:")?.split_once(',')?;
    if head.is_empty() {
        return Some(percent_decoded(data));
    }
    let bytes = STANDARD.decode(data).unwrap();
    if resource["compression"] != "gzip" {
        return Some(String::from_utf8(bytes).unwrap());
    }
    let mut text = String::new();
    GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
    Some(text)
}

fn percent_decoded(data: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = data.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let digits = [rest.next().unwrap(), rest.next().unwrap()];
            u8::from_str_radix(str::from_utf8(&digits).unwrap(), 16).unwrap()
        } else {
            byte
        });
    }
    String::from_utf8(bytes).unwrap()
}

/// The decoded file at `path` in the generated config.
fn file(settings: &Settings, path: &str) -> Option<(u64, String)> {
    let json: Value = serde_json::from_str(&ignition_json(settings).unwrap()).unwrap();
    let files = json["storage"]["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"] == path)?;
    Some((file["mode"].as_u64().unwrap(), inline(&file["contents"]).unwrap()))
}

#[test]
fn agent_configuration_file_contains_every_option() {
    let settings = hostile();
    let (mode, text) = file(&settings, "/etc/run-coreos-installer.yaml").unwrap();
    assert_eq!(mode, 0o600);
    let config: BTreeMap<String, Value> = yaml_serde::from_str(&text).unwrap();
    for (key, value) in &settings.agent_options {
        assert_eq!(config[key], Value::from(value[0].clone()), "{text}");
    }
    assert_eq!(config["allow_plain_http"], Value::Bool(true));
    assert_eq!(config["token_file"], "/etc/run-coreos-installer/token");
}

#[test]
fn address_of_the_config_to_install_is_a_kernel_argument_and_an_option() {
    let url = "https://h/node.ign";
    let settings = Settings { install: Some(Target::Url(url.to_owned())), ..Settings::default() };
    let line = kernel_arguments(&settings).unwrap();
    assert!(line.ends_with(" rci.ignition=https://h/node.ign"), "{line}");
    let (_, text) = file(&settings, "/etc/run-coreos-installer.yaml").unwrap();
    assert!(text.contains("ignition: \"https://h/node.ign\""), "{text}");
    assert!(file(&settings, "/etc/run-coreos-installer/target.ign").is_none());
}

#[test]
fn config_that_ignition_would_refuse_is_not_embedded() {
    for text in ["{}", "not json", "{\"ignition\":{\"version\":\"2.2.0\"}}"] {
        let install = Some(Target::Embedded(Secret::new(text)));
        let error = ignition_json(&Settings { install, ..Settings::default() }).unwrap_err();
        assert!(matches!(error, LiveError::Target(_)), "{error}");
    }
}

#[test]
fn gzip_is_deterministic_and_lossless() {
    let text = b"agent ".repeat(1000);
    assert_eq!(gzip(&text), gzip(&text));
    let mut back = Vec::new();
    GzDecoder::new(&gzip(&text)[..]).read_to_end(&mut back).unwrap();
    assert_eq!(back, text);
}

#[test]
fn debug_output_hides_secrets() {
    let text = format!("{:?} {:?}", everything(), offline());
    for secret in ["0123456789abcdef", "PRIVATE KEY", "$6$salt", "3.4.0"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn invalid_setting_is_refused_by_name() {
    type Change = fn(&mut Settings);
    let cases: [(&str, Change); 27] = [
        ("vim", |s| s.vim = Some("vim.example".to_owned())),
        ("vim", |s| s.vim = Some("http://".to_owned())),
        ("vim", |s| s.vim = Some("http://vim example".to_owned())),
        ("vim", |s| s.allow_plain_http = false),
        ("vim and install", |s| s.install = Some(Target::Url("https://h/i".to_owned()))),
        ("vim and install", |s| s.vim = None),
        ("vim_addresses", |s| {
            (s.vim, s.install) = (None, Some(Target::Url("https://h/i".to_owned())));
        }),
        ("vim_names", |s| s.vim_names = vec!["a\n1.2.3.4 b".to_owned()]),
        ("proxy", |s| s.proxy = Some(Secret::new("socks5://u:geheim@h"))),
        ("hostname", |s| s.hostname = Some("-x".to_owned())),
        ("ca", |s| s.ca = Some("no pem".to_owned())),
        ("client_cert and client_key", |s| s.client_cert = Some(PEM.to_owned())),
        ("token", |s| s.token = Some(Secret::new("two words"))),
        ("ssh_keys", |s| s.ssh_keys = vec![format!("{SSH} a\nssh-rsa b")]),
        ("ssh_keys", |s| {
            s.ssh_keys = vec!["-----BEGIN OPENSSH PRIVATE KEY-----\ngeheim".to_owned()];
        }),
        ("password_hash", |s| s.password_hash = Some(Secret::new("geheim"))),
        ("agent.iso_path", |s| s.agent = AgentBinary::OnIso("/a b; reboot".to_owned())),
        ("agent.url", |s| s.agent = AgentBinary::fetched("http://[fe80::1%eth0]/a.gz", b"")),
        ("agent.url", |s| s.agent = AgentBinary::fetched("/srv/agent.gz", b"")),
        ("agent.hash", |s| {
            s.agent =
                AgentBinary::Fetched { url: "http://h/a".to_owned(), hash: "sha512-00".to_owned() };
        }),
        ("files", |s| s.files = vec![fetched_file("http://h/x", None)]),
        ("files.url", |s| s.files = vec![fetched_file("ftp://h/x", None)]),
        ("units", |s| {
            let name = "run-coreos-installer.service".to_owned();
            s.units = vec![Unit { name, text: "[Service]\n".to_owned() }];
        }),
        ("network_metadata", |s| s.network_metadata = Some("metadata".to_owned())),
        ("network", |s| {
            s.network = vec![Keyfile { name: "../x".to_owned(), text: String::new() }];
        }),
        ("agent_options", |s| {
            s.agent_options = BTreeMap::from([("vim".to_owned(), vec!["x".to_owned()])]);
        }),
        ("agent_options", |s| {
            s.agent_options = BTreeMap::from([("a: b".to_owned(), vec!["x".to_owned()])]);
        }),
    ];
    for (name, change) in cases {
        let mut settings = vim_document();
        change(&mut settings);
        match ignition_json(&settings) {
            Err(LiveError::Setting { setting, found, .. }) => {
                assert_eq!(setting, name);
                assert!(!found.contains("geheim"), "{found}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn two_files_with_one_path_are_refused_with_the_path() {
    let mut settings = everything();
    settings.files[0].path = "/etc/hosts".to_owned();
    let refusal = ignition_json(&settings).unwrap_err();
    assert!(refusal.to_string().contains("/etc/hosts"), "{refusal}");
    settings.files[0].path = "relative".to_owned();
    assert!(matches!(ignition_json(&settings), Err(LiveError::Refused(_))));
}

/// An image with this kernel argument.
fn with(argument: &str) -> Settings {
    Settings { kernel_arguments: vec![argument.to_owned()], ..vim_document() }
}

#[test]
fn kernel_argument_keeps_its_spaces_and_cannot_escape_its_quotes() {
    let line = kernel_arguments(&with("rci.note=two words")).unwrap();
    let expected =
        " rci.vim=http://vim.lab.example:8080 rci.allow_plain_http=true rci.note=\"two words\"";
    assert!(line.ends_with(expected), "{line}");
    for argument in ["", "a b", "a=\"b", "a\nb", "a=\u{e9}", "--", "a=b\tc"] {
        assert!(kernel_arguments(&with(argument)).is_err(), "{argument:?}");
    }
    assert!(kernel_arguments(&with(&"a".repeat(2048))).is_err());
}

#[test]
fn argument_that_contradicts_ours_or_starts_another_installer_is_refused() {
    for argument in [
        "ignition.platform.id=packet",
        "ignition.config.url=http://h/other.ign",
        "rci.vim=https://other",
        "coreos.inst.install_dev=/dev/sda",
        "coreos.live.rootfs_url=http://h/other.img",
    ] {
        let error = kernel_arguments(&with(argument)).unwrap_err();
        assert!(matches!(error, LiveError::Setting { setting: "kernel_arguments", .. }), "{error}");
    }
    let line = kernel_arguments(&everything()).unwrap();
    assert_eq!(line.matches("ignition.platform.id=").count(), 1);
    assert!(line.contains(" ignition.platform.id=packet "), "{line}");
    let settings = Settings { platform: Some("a b".to_owned()), ..vim_document() };
    assert!(kernel_arguments(&settings).is_err());
}

#[test]
fn grub_words_are_quoted() {
    let entry = grub_entry(&with("rci.note=$x; reboot & {")).unwrap();
    assert!(entry.contains(" 'rci.note=$x; reboot & {'\n"), "{entry}");
    assert!(entry.contains("  linux '(http,[fd02:9a04::1])/live/vmlinuz' "), "{entry}");
    assert!(grub_entry(&with("rci.note=it's")).is_err());
    assert!(grub_entry(&Settings { boot: None, ..vim_document() }).is_err());
    assert!(pxelinux_config(&Settings { boot: None, ..vim_document() }).is_err());
}

#[test]
fn ipxe_syntax_is_refused_in_the_script_and_allowed_elsewhere() {
    for argument in
        ["a=${net0/mac}", "a=x || shell", "a=x && shell", "a=x ; shell", "#a", "a=b  c", "a=x #y"]
    {
        assert!(kernel_arguments(&with(argument)).is_ok(), "{argument}");
        assert!(ipxe_script(&with(argument)).is_err(), "{argument}");
    }
    let mut settings = vim_document();
    settings.boot.as_mut().unwrap().kernel_url = "http://h/${x}".to_owned();
    assert!(ipxe_script(&settings).unwrap().contains(" http://h/$%7Bx} "));
    settings.boot.as_mut().unwrap().kernel_url = "http://h/a b".to_owned();
    assert!(ipxe_script(&settings).is_err());
    settings.boot = None;
    assert!(ipxe_script(&settings).is_err());
}

#[test]
fn systemd_analyze_accepts_the_unit_silently() {
    // The program is not installed on the test machine, so another one replaces it.
    let unit = UNIT.replace("/usr/local/bin/run-coreos-installer\n", "/bin/true\n");
    assert_ne!(unit, UNIT);
    let dir = std::env::temp_dir().join(format!("rci-unit-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("run-coreos-installer.service");
    std::fs::write(&path, unit).unwrap();
    let output = tools::run("systemd-analyze", &["verify", path.to_str().unwrap()], b"");
    std::fs::remove_dir_all(&dir).unwrap();
    if let Some(output) = output {
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert!(output.status.success());
    }
}

#[test]
fn unit_contains_the_lines_of_the_vim_document() {
    let lines: Vec<&str> = UNIT.lines().collect();
    for line in [
        "After=network-online.target",
        "Wants=network-online.target",
        "OnFailure=emergency.target",
        "OnFailureJobMode=replace-irreversibly",
        "RemainAfterExit=yes",
        "Type=oneshot",
        "ExecStart=/usr/local/bin/run-coreos-installer",
        "ExecStartPost=/usr/bin/systemctl --no-block reboot",
        "StandardOutput=kmsg+console",
        "StandardError=kmsg+console",
        "WantedBy=multi-user.target",
    ] {
        assert!(lines.contains(&line), "{line}");
    }
    // People log in while the agent waits for its VIM; the VIM document has this line.
}

#[test]
fn unit_that_holds_logins_is_the_text_of_the_vim_document() {
    let settings = Settings { hold_logins: true, ..vim_document() };
    let json: Value = serde_json::from_str(&ignition_json(&settings).unwrap()).unwrap();
    assert_eq!(json["systemd"]["units"][0]["contents"], HOLDING_UNIT);
    let Ok(document) = std::fs::read_to_string(SEED_OF_THE_VIM) else {
        return skipped("the VIM document is not next to the repository");
    };
    let (_, rest) = document.split_once("    contents: |\n").unwrap();
    let unit = rest.lines().map_while(|line| line.strip_prefix("      "));
    assert_eq!(unit.flat_map(|line| [line, "\n"]).collect::<String>(), HOLDING_UNIT);
}

/// A config as openshift-install makes it for a bootstrap in place, as far as it matters here.
fn in_place() -> Value {
    let text = r#"{"ignition": {"version": "3.1.0"},
 "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["SSH site"]}]},
 "storage": {"files": [
  {"path": "/usr/local/bin/bootkube.sh", "mode": 365, "overwrite": true, "contents": {"source": "data:,a"}},
  {"path": "/etc/motd", "append": [{"source": "data:,in-place"}]}]},
 "systemd": {"units": [
  {"name": "bootkube.service", "contents": "[Service]\nExecStart=/usr/local/bin/bootkube.sh\n"},
  {"name": "getty@.service", "dropins": [{"name": "20.conf", "contents": "[Unit]\n"}]}]}}"#;
    serde_json::from_str(&text.replace("SSH", SSH)).unwrap()
}

#[test]
fn config_of_a_bootstrap_in_place_is_merged_and_the_agent_stays_as_it_is() {
    let merge = Some(Secret::new(in_place().to_string()));
    let settings = Settings { autologin: true, merge, ..vim_document() };
    let json = ignition_json(&settings).unwrap();
    if let Some(answer) = tools::ignition_validate(&json) {
        assert_eq!(answer, Ok(String::new()), "{json}");
    }
    let merged: Value = serde_json::from_str(&json).unwrap();
    let alone = ignition_json(&Settings { merge: None, ..settings }).unwrap();
    let alone: Value = serde_json::from_str(&alone).unwrap();
    for list in ["/storage/files", "/systemd/units"] {
        let [merged, alone] =
            [&merged, &alone].map(|it| it.pointer(list).unwrap().as_array().unwrap());
        for ours in alone.iter().filter(|it| it["name"] != "getty@.service") {
            assert!(merged.contains(ours), "{ours}");
        }
    }
    for part in ["10-autologin.conf", "20.conf", "bootkube.service", "in-place", "3.3.0"] {
        assert!(json.contains(part), "{part}");
    }
    let keys = &merged["passwd"]["users"][0]["sshAuthorizedKeys"];
    assert_eq!(keys, &serde_json::json!([format!("{SSH} site"), format!("{SSH} admin")]));
}

/// What makes [`in_place`] impossible to merge: the key, its value, and a part of the refusal.
const NOT_MERGED: &str = r#"
systemd.units | [{"name": "run-coreos-installer.service", "mask": true}] | "run-coreos-installer.service" in another way
storage.files | [{"path": "/etc/hosts", "append": [{"source": "data:,x"}]}] | defines "/etc/hosts" in another way
storage.files | [{"path": "/etc/systemd/system/run-coreos-installer.service.d/x.conf"}] | service.d/x.conf" in another way
storage.links | [{"path": "/etc/hosts", "target": "/x"}] | defines "/etc/hosts" in another way
storage.links | [{"path": "/usr/local/bin", "target": "/x"}] | below "/usr/local/bin"
storage.disks | [{"device": "/dev/sda"}] | a config with storage.disks
ignition.config | {"replace": {"source": "https://h/x"}} | a config that names others
ignition.config | {"merge": [{"source": "https://h/x"}]} | a config that names others
ignition.version | "2.2.0" | 2.2.0
"#;

#[test]
fn config_that_would_change_or_lose_the_agent_is_not_merged() {
    for case in NOT_MERGED.trim().lines() {
        let [place, value, expected] = case.split(" | ").collect::<Vec<_>>()[..] else { panic!() };
        let mut config = in_place();
        let (section, key) = place.split_once('.').unwrap();
        config[section][key] = serde_json::from_str(value).unwrap();
        let merge = Some(Secret::new(config.to_string()));
        let error = ignition_json(&Settings { merge, ..vim_document() }).unwrap_err().to_string();
        assert!(error.contains(expected), "{case}: {error}");
    }
    let merge = Some(Secret::new(in_place().to_string()));
    let error = butane_yaml(&Settings { merge, ..vim_document() }).unwrap_err().to_string();
    assert!(error.starts_with("merge is a config, expected nothing for Butane"), "{error}");
}

/// The pointer config with which further masters join a cluster that began as a single node, as people write it for `OpenShift`
/// 4.10: keys of Ignition 2 (`filesystem`), an empty `verification`, plain HTTP.
#[test]
fn pointer_config_with_keys_of_ignition_2_is_installed_with_a_warning_only() {
    let hosts = "127.0.0.1   localhost localhost.localdomain localhost4 localhost4.localdomain4\n\
                 ::1         localhost localhost.localdomain localhost6 localhost6.localdomain6\n\
                 192.168.122.235 api-int.mycluster.karmalabs.com api.mycluster.karmalabs.com";
    let source = format!("data:text/plain;charset=utf-8;base64,{}", STANDARD.encode(hosts));
    let config = r#"{"ignition": {"config": {"merge": [{"source": "http://192.168.122.235:22624/config/master"}]}, "version": "3.1.0"},
 "storage": {"files": [{"contents": {"source": "HOSTS", "verification": {}},
  "filesystem": "root", "mode": 420, "overwrite": true, "path": "/etc/hosts"}]}}"#;
    let config = config.replace("HOSTS", &source);
    if let Ok(seed) = std::fs::read_to_string(SEED_OF_THE_SINGLE_NODE) {
        assert!(seed.contains(&source), "the seed has other hosts");
    }
    let target = Target::Embedded(Secret::new(config.clone()));
    let checked = target.checked().unwrap().unwrap();
    let places: Vec<&str> = checked.warnings.iter().map(|warning| warning.path.as_str()).collect();
    assert_eq!(places, ["$.storage.files.0.filesystem"]);
    assert!(checked.may_fetch && checked.erased.iter().all(|erased| erased.device.is_none()));
    if let Some(answer) = tools::ignition_validate(&config) {
        assert!(answer.is_ok(), "{answer:?}");
    }
    let settings = Settings { install: Some(target), ..Settings::default() };
    let (_, text) = file(&settings, "/etc/run-coreos-installer/target.ign").unwrap();
    assert_eq!(text, config, "the bytes are as given");
}
