//! Checks that coreos-installer exists and is new enough, and passes its options as a config file or as arguments.
//!
//! Options are the keys of `coreos-installer install --config-file`, which 0.12 brought; older ones, and those
//! before 0.26 where first-boot arguments are asked for (a config file made them lose these), get the same
//! options on the command line.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::act::{Code, Failure, Order, System};

/// The oldest version whose signature check cannot be bypassed (CVE-2021-20319).
const OLDEST: Version = Version(0, 10, 1);
/// The first version with `--config-file`.
const CONFIG_FILE_SINCE: Version = Version(0, 12, 0);
/// The first version that honours `--firstboot-args` together with a config file.
const FIRSTBOOT_ARGS_SINCE: Version = Version(0, 26, 0);
/// Time limit for `--version`.
const VERSION_LIMIT: Duration = Duration::from_secs(30);
/// The most output that is read, in bytes.
const MAX_VERSION_BYTES: usize = 4096;

/// Version of coreos-installer, or of another program.
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
    let command = (program, &["--version".to_owned()][..]);
    let (text, _) = system
        .output_of(command, VERSION_LIMIT, MAX_VERSION_BYTES, has_version)
        .map_err(missing)?;
    let version = parse_version(&text)
        .ok_or_else(|| missing(format!("it printed {:?}, expected a version", text.trim())))?;
    if version < OLDEST {
        let what = format!("coreos-installer is {version}, expected at least {OLDEST}");
        return Err(Failure::new(Code::InstallerTooOld, what).advise("use a newer live image"));
    }
    Ok(version)
}

/// True if a whole line has the version. What follows it is not waited for.
fn has_version(output: &[u8]) -> bool {
    let end = output.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    parse_version(&String::from_utf8_lossy(&output[..end])).is_some()
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
    use std::sync::Arc;

    use super::*;
    use crate::testing::{Scripted, VirtualClock};

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

    #[test]
    fn a_version_is_read_whatever_the_program_leaves_open_or_prints_without_end() {
        let (good, endless) = ("coreos-installer 0.27.0\n", "y\n".repeat(MAX_VERSION_BYTES));
        let more = [good, &endless].concat();
        for (prints, status, expected) in [
            (good, Some(0), Ok(Version(0, 27, 0))),
            (good, None, Ok(Version(0, 27, 0))),
            (&more, None, Ok(Version(0, 27, 0))),
            (good.trim(), Some(0), Ok(Version(0, 27, 0))),
            // The line may go on.
            ("coreos-installer 0.27", None, Err(Code::InstallerMissing)),
            ("", Some(0), Err(Code::InstallerMissing)),
            (&endless, None, Err(Code::InstallerMissing)),
            ("coreos-installer 0.10.0\n", Some(0), Err(Code::InstallerTooOld)),
        ] {
            let programs = Arc::new(Scripted { prints: prints.to_owned(), status });
            let system = System::default().with_programs(programs);
            let system = system.with_clock(Arc::new(VirtualClock::new(0, |_| {})));
            let found = version(Path::new("x"), &system).map_err(|failure| failure.code);
            assert_eq!(found, expected, "{prints:.40}");
        }
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
