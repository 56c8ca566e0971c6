//! Checks that coreos-installer exists and is new enough, and passes its options as a config file or as arguments.
//!
//! Options are the keys of `coreos-installer install --config-file`, which 0.12 brought; older ones, and those
//! before 0.26 where first-boot arguments are asked for (a config file made them lose these), get the same
//! options on the command line.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::act::child::end;
use crate::act::{Code, Failure, Order, System};
use crate::ask::ask_within;

/// The oldest version whose signature check cannot be bypassed (CVE-2021-20319).
const OLDEST: Version = Version(0, 10, 1);
/// The first version with `--config-file`.
const CONFIG_FILE_SINCE: Version = Version(0, 12, 0);
/// The first version that honours `--firstboot-args` together with a config file.
const FIRSTBOOT_ARGS_SINCE: Version = Version(0, 26, 0);
/// Time limit for `--version`.
const VERSION_LIMIT: Duration = Duration::from_secs(30);
/// Time limit for its end once its version was read.
const LEFT_OPEN_LIMIT: Duration = Duration::from_secs(1);
/// The most output that is read, in bytes.
const MAX_VERSION_BYTES: u64 = 4096;

/// Version of coreos-installer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// The version in `coreos-installer 0.27.0`.
pub fn parse_version(text: &str) -> Option<Version> {
    let word =
        text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut numbers = word.split(['.', '-', '+']).map(|part| part.parse().ok());
    Some(Version(numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0)))
}

/// Asks coreos-installer for its version.
///
/// # Errors
/// `INSTALLER_MISSING` if it cannot be run, `INSTALLER_TOO_OLD`.
pub fn version(program: &Path, system: &System) -> Result<Version, Failure> {
    let missing = |what: String| {
        let what = format!("running {} --version: {what}", program.display());
        Failure::new(Code::InstallerMissing, what)
            .advise("use a live image that contains coreos-installer")
    };
    let text = output_of_version(program, system).map_err(missing)?;
    let version = parse_version(&text)
        .ok_or_else(|| missing(format!("it printed {:?}, expected a version", text.trim())))?;
    if version < OLDEST {
        let what = format!("coreos-installer is {version}, expected at least {OLDEST}");
        return Err(Failure::new(Code::InstallerTooOld, what).advise("use a newer live image"));
    }
    Ok(version)
}

/// Returns the output of `--version` up to the line with the version. The program may hang, print without end, or leave
/// something running that keeps its output open; none of these blocks the agent.
fn output_of_version(program: &Path, system: &System) -> Result<String, String> {
    let started = || {
        let (pipe, stdout) = std::io::pipe()?;
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null());
        Ok((command.process_group(0).spawn()?, pipe))
    };
    let (mut child, pipe) = started().map_err(|error: std::io::Error| error.to_string())?;
    let read = move || {
        let (mut output, mut bytes) = (BufReader::new(pipe.take(MAX_VERSION_BYTES)), Vec::new());
        loop {
            let is_end = !matches!(output.read_until(b'\n', &mut bytes), Ok(n) if n > 0);
            let text = String::from_utf8_lossy(&bytes);
            if is_end || parse_version(&text).is_some() {
                return text.into_owned();
            }
        }
    };
    let text = ask_within("version", VERSION_LIMIT, system.stop(), read);
    // What follows its version is not read, but it may end by itself.
    let grace = if text.is_ok() { LEFT_OPEN_LIMIT } else { Duration::ZERO };
    end(&mut child, grace, system.clock().as_ref());
    text.map_err(|_| "it did not finish".to_owned())
}

/// The options of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Options {
    settings: Map<String, Value>,
    firstboot_args: Option<String>,
}

/// The paths for one run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places<'a> {
    /// Device file of the disk.
    pub(super) device: &'a str,
    /// File with the Ignition config.
    pub(super) ignition_file: &'a Path,
    /// Directory with `NetworkManager` profiles.
    pub(super) network_dir: &'a Path,
    /// Address of the image; `None` for the live image's own.
    pub(super) image_url: Option<&'a str>,
}

impl Options {
    /// Translates an order.
    pub(super) fn new(order: &Order, digest: &str, places: Places<'_>) -> Self {
        let mut settings = Map::new();
        let mut set = |key: &str, value: Value| drop(settings.insert(key.to_owned(), value));
        set("dest-device", json!(places.device));
        set("ignition-file", json!(places.ignition_file.display().to_string()));
        set("ignition-hash", json!(digest));
        match places.image_url {
            // Without retries: the agent itself retries the source, and its own server responds at once.
            Some(url) => set("image-url", json!(url)),
            None => set("offline", json!(true)),
        }
        if order.image.as_ref().is_some_and(|image| image.insecure) {
            set("insecure", json!(true));
        }
        if let Some(platform) = &order.platform {
            set("platform", json!(platform));
        }
        if order.copy_network {
            set("copy-network", json!(true));
            set("network-dir", json!(places.network_dir.display().to_string()));
        }
        for (key, values) in [
            ("console", &order.console),
            ("append-karg", &order.append_kargs),
            ("delete-karg", &order.delete_kargs),
            ("save-partlabel", &order.save_partlabel),
            ("save-partindex", &order.save_partindex),
        ] {
            if !values.is_empty() {
                set(key, json!(values));
            }
        }
        Self { settings, firstboot_args: order.firstboot_args.clone() }
    }

    /// True if this version takes the options from a file.
    pub(super) fn fit_a_file(&self, version: Version) -> bool {
        version >= CONFIG_FILE_SINCE
            && (self.firstboot_args.is_none() || version >= FIRSTBOOT_ARGS_SINCE)
    }

    /// The config file: JSON, which is YAML too.
    pub(super) fn to_file(&self) -> String {
        format!("{:#}\n", Value::Object(self.settings.clone()))
    }

    /// The arguments in addition to a config file.
    pub(super) fn with_file(&self, file: &Path) -> Vec<String> {
        let mut args = vec!["install".into(), "--config-file".into(), file.display().to_string()];
        args.extend(self.firstboot_arg());
        args
    }

    /// All options as arguments; values are joined to their option, so that none looks like another option.
    pub(super) fn to_args(&self) -> Vec<String> {
        let mut args = vec!["install".to_owned()];
        args.extend(self.firstboot_arg());
        let mut device = None;
        for (key, value) in &self.settings {
            match value {
                Value::String(value) if key == "dest-device" => device = Some(value.clone()),
                Value::String(value) => args.push(format!("--{key}={value}")),
                Value::Array(values) => {
                    let values = values.iter().filter_map(Value::as_str);
                    args.extend(values.map(|value| format!("--{key}={value}")));
                }
                _ => args.push(format!("--{key}")),
            }
        }
        args.push("--".into());
        args.extend(device);
        args
    }

    fn firstboot_arg(&self) -> Option<String> {
        self.firstboot_args.as_ref().map(|args| format!("--firstboot-args={args}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared_by_number() {
        assert_eq!(parse_version("coreos-installer 0.27.0\n"), Some(Version(0, 27, 0)));
        assert_eq!(parse_version("coreos-installer 0.10.1-1.el8"), Some(Version(0, 10, 1)));
        assert_eq!(parse_version("coreos-installer 0.9"), Some(Version(0, 9, 0)));
        assert!(Version(0, 9, 9) < OLDEST && Version(0, 10, 1) >= OLDEST);
        for text in ["", "coreos-installer", "coreos-installer 7", "0.x.1"] {
            assert_eq!(parse_version(text), None, "{text}");
        }
    }

    /// Returns the version read from a program with this content.
    fn version_of(body: &str) -> Result<Version, Code> {
        let dir = tempfile::tempdir().unwrap();
        let (source, program) = (dir.path().join("source"), dir.path().join("program"));
        std::fs::write(&source, format!("#!/bin/bash\n{body}\n")).unwrap();
        // By another process, see tests/job/machine.rs.
        let order = Command::new("install").args(["-m", "755"]).arg(&source).arg(&program).status();
        assert!(order.unwrap().success());
        version(&program, &System::default()).map_err(|failure| failure.code)
    }

    #[test]
    fn a_version_is_read_whatever_the_program_leaves_open_or_prints_without_end() {
        let started = std::time::Instant::now();
        let good = "echo coreos-installer 0.27.0";
        // Longer than the limit below, and short enough not to outlive the tests for long.
        for rest in ["", "; sleep 30 &", "; exec yes"] {
            assert_eq!(version_of(&format!("{good}{rest}")), Ok(Version(0, 27, 0)), "{rest}");
        }
        for bad in ["exit 0", "exec yes"] {
            assert_eq!(version_of(bad), Err(Code::InstallerMissing), "{bad}");
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }

    fn install(text: &str) -> Order {
        crate::engines::vim::order::tests::of(&serde_json::from_str(text).unwrap())
    }

    const PLACES: (&str, &str) = ("/run/x/config.ign", "/etc/NetworkManager/system-connections");

    fn options(text: &str) -> Options {
        let order = install(text);
        let places = Places {
            image_url: order.image.as_ref().map(|_| "http://127.0.0.1:1/x/image"),
            device: "/dev/vda",
            ignition_file: Path::new(PLACES.0),
            network_dir: Path::new(PLACES.1),
        };
        Options::new(&order, "sha512-00", places)
    }

    #[test]
    fn the_config_file_has_the_installers_keys() {
        let options = options(
            r#"{"ignition":{"inline":"{}"},"image":{"url":"http://h/i","insecure":true},
                "append_kargs":["a=1"],"copy_network":true}"#,
        );
        let file: Value = serde_json::from_str(&options.to_file()).unwrap();
        assert_eq!(
            file,
            json!({
                "dest-device": "/dev/vda",
                "ignition-file": PLACES.0,
                "ignition-hash": "sha512-00",
                "image-url": "http://127.0.0.1:1/x/image",
                "insecure": true,
                "copy-network": true,
                "network-dir": PLACES.1,
                "append-karg": ["a=1"],
            })
        );
    }

    #[test]
    fn an_install_without_an_image_never_goes_to_the_internet() {
        let file: Value =
            serde_json::from_str(&options(r#"{"ignition":{"inline":"{}"}}"#).to_file()).unwrap();
        assert_eq!(file["offline"], json!(true));
    }

    #[test]
    fn first_boot_arguments_survive_every_version() {
        let options = options(r#"{"ignition":{"inline":"{}"},"firstboot_args":"ip=dhcp a=b"}"#);
        assert!(!options.fit_a_file(Version(0, 25, 0)));
        assert!(options.fit_a_file(Version(0, 26, 0)));
        assert!(options.to_args().contains(&"--firstboot-args=ip=dhcp a=b".to_owned()));
        assert!(
            options.with_file(Path::new("/f")).contains(&"--firstboot-args=ip=dhcp a=b".to_owned())
        );
        assert_eq!(options.to_args().last().map(String::as_str), Some("/dev/vda"));
    }
}
