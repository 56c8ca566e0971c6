//! Adds to an Ignition config what makes the installed system report its first two boots: a unit, a script and its files.
//!
//! The config becomes a child of a new one (`ignition.config.merge`), byte for byte, because one with `ignition.config.replace`
//! loses whatever is added to it. Ignition renders a child with its own `replace`, `merge`, certificates, proxy and time limits
//! before it merges it, and the child takes precedence (coreos/ignition, `internal/exec/engine.go`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::check::MAX_CONFIG_BYTES;

/// The unit that runs the script.
pub const UNIT: &str = "run-coreos-installer-confirm.service";
/// The link that starts it, also in a system that is not new.
const WANTED: &str =
    "/etc/systemd/system/multi-user.target.wants/run-coreos-installer-confirm.service";
/// The script, which removes itself and its files after the second boot.
pub const SCRIPT: &str = include_str!("confirm/confirm.sh");
const UNIT_TEXT: &str = include_str!("confirm/confirm.service");
/// The beginning of the names of its files.
const FILES: &str = "/etc/run-coreos-installer/confirm";

/// The request by which an installed system confirms a boot. `@BOOT@` in address and body stands for the number of the boot,
/// `@BOOT_ID@` for the kernel's id of it, and `@DISK@` for `,"disk":"same"`, `,"disk":"other"`, or nothing if that is not known.
#[derive(Debug, Clone, Copy)]
pub struct Confirmation<'a> {
    /// Options of curl, in the order of its documentation: their long names and values.
    pub options: &'a [(&'a str, &'a str)],
    /// PEM with certificates that are trusted in addition to the system's.
    pub ca: Option<&'a str>,
    /// Serial number of the disk that was installed.
    pub serial: Option<&'a str>,
    /// World wide name of that disk.
    pub wwn: Option<&'a str>,
}

/// The config of this spec version with the confirmation added.
///
/// # Errors
/// The number of its bytes if they are more than [`MAX_CONFIG_BYTES`].
pub fn wrap(config: &[u8], version: &str, added: &Confirmation<'_>) -> Result<Vec<u8>, usize> {
    let line = |text: Option<&str>| text.unwrap_or_default().replace(char::is_control, "") + "\n";
    let option = |(name, value): &(&str, &str)| {
        let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', "");
        format!("{name} = \"{value}\"\n")
    };
    let options: String = added.options.iter().map(option).collect();
    let disk = line(added.serial) + &line(added.wwn);
    let given = [(".sh", 0o700, SCRIPT), (".curl", 0o600, &options), (".disk", 0o600, &disk)];
    let ca = added.ca.map(|ca| ("-ca.pem", 0o600, ca));
    let file = |(end, mode, text): (&str, u32, &str)| {
        let source = format!("data:;base64,{}", STANDARD.encode(text));
        let path = format!("{FILES}{end}");
        json!({"path": path, "mode": mode, "overwrite": true, "contents": {"source": source}})
    };
    let files: Vec<Value> = given.into_iter().chain(ca).map(file).collect();
    let unit = json!({"name": UNIT, "enabled": true, "contents": UNIT_TEXT});
    // systemd applies what a config enables at the first boot of a machine only.
    let start_link = json!({"path": WANTED, "target": format!("../{UNIT}"), "overwrite": true});
    let parts: [Value; 4] = [files.into(), start_link, unit, version.into()];
    let [files, start_link, unit, version] = parts.map(|part| part.to_string());
    let start = format!(
        r#"{{"ignition":{{"version":{version},"config":{{"merge":[{{"source":"data:;base64,"#
    );
    let end = format!(
        r#""}}]}}}},"storage":{{"files":{files},"links":[{start_link}]}},"systemd":{{"units":[{unit}]}}}}"#
    );
    let n_bytes = start.len() + config.len().div_ceil(3) * 4 + end.len();
    if n_bytes > MAX_CONFIG_BYTES {
        return Err(n_bytes);
    }
    let mut wrapped = String::with_capacity(n_bytes);
    wrapped.push_str(&start);
    STANDARD.encode_string(config, &mut wrapped);
    wrapped.push_str(&end);
    Ok(wrapped.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::ignition_validate;
    use crate::{check, merge};

    const ADDED: Confirmation<'_> = Confirmation {
        options: &[
            ("url", "https://vim.example/boots/@BOOT@"),
            ("data-raw", r#"{"a":"\u0041"@DISK@}"#),
        ],
        ca: Some("-----BEGIN CERTIFICATE-----\n"),
        serial: Some("S 1"),
        wwn: None,
    };

    fn decoded(source: &Value) -> Vec<u8> {
        let text = source.as_str().unwrap().strip_prefix("data:;base64,").unwrap();
        STANDARD.decode(text).unwrap()
    }

    #[test]
    fn config_of_each_version_is_kept_byte_for_byte_and_the_result_is_valid() {
        for minor in 0..=6 {
            let user = format!(
                r#"{{ "ignition": {{"version":"3.{minor}.0","config":{{"replace":{{"source":"https://vim.example/c"}}}}}} }}"#
            );
            let version = check(user.as_bytes()).unwrap().version;
            let wrapped = wrap(user.as_bytes(), &version, &ADDED).unwrap();
            let checked = check(&wrapped).unwrap();
            assert_eq!((checked.version.as_str(), checked.warnings), (version.as_str(), vec![]));
            let parsed: Value = serde_json::from_slice(&wrapped).unwrap();
            let source = &parsed["ignition"]["config"]["merge"][0]["source"];
            assert_eq!(decoded(source), user.as_bytes());
            // Of the versions that the tool knows.
            if minor <= 3 {
                let text = String::from_utf8(wrapped).unwrap();
                ignition_validate(&text).map(Result::unwrap);
            }
        }
    }

    #[test]
    fn files_hold_the_options_of_curl_and_the_disk_and_only_root_may_read_them() {
        let config = br#"{"ignition":{"version":"3.3.0"}}"#;
        let wrapped: Value =
            serde_json::from_slice(&wrap(config, "3.3.0", &ADDED).unwrap()).unwrap();
        let files = wrapped["storage"]["files"].as_array().unwrap();
        let content = |at: usize| String::from_utf8(decoded(&files[at]["contents"]["source"]));
        let escaped = r#"data-raw = "{\"a\":\"\\u0041\"@DISK@}""#;
        assert!(content(1).unwrap().ends_with(&format!("{escaped}\n")), "{:?}", content(1));
        assert_eq!(content(2).unwrap(), "S 1\n\n");
        assert_eq!(files.len(), 4);
        let modes = files.iter().map(|file| file["mode"].as_u64().unwrap());
        assert!(modes.into_iter().all(|mode| mode.trailing_zeros() >= 6));
        let unit = &wrapped["systemd"]["units"][0];
        assert_eq!((&unit["name"], &unit["enabled"]), (&json!(UNIT), &json!(true)));
    }

    #[test]
    fn files_and_units_of_the_config_stay_with_those_that_are_added() {
        let user = json!({
            "ignition": {"version": "3.2.0"},
            "storage": {"files": [{"path": "/etc/a", "contents": {"source": "data:,1"}}]},
            "systemd": {"units": [{"name": "a.service", "enabled": true}]},
        });
        let wrapped = wrap(user.to_string().as_bytes(), "3.2.0", &ADDED).unwrap();
        let mut parent: Value = serde_json::from_slice(&wrapped).unwrap();
        let child = parent["ignition"]["config"]["merge"][0]["source"].take();
        let merged = merge::merge(&parent, &serde_json::from_slice(&decoded(&child)).unwrap());
        let last = |list: &Value| list.as_array().unwrap().last().unwrap().clone();
        assert_eq!(last(&merged["storage"]["files"]), user["storage"]["files"][0]);
        assert_eq!(last(&merged["systemd"]["units"]), user["systemd"]["units"][0]);
        assert_eq!(merged["systemd"]["units"][0]["name"], UNIT);
    }

    #[test]
    fn config_that_would_become_too_large_is_not_wrapped() {
        let large = vec![b' '; MAX_CONFIG_BYTES / 4 * 3];
        assert!(wrap(&large, "3.3.0", &ADDED).unwrap_err() > MAX_CONFIG_BYTES);
        let fits = vec![b' '; MAX_CONFIG_BYTES / 4 * 3 - 9000];
        assert!(wrap(&fits, "3.3.0", &ADDED).unwrap().len() <= MAX_CONFIG_BYTES);
    }
}
