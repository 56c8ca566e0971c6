//! `Instruction` of VIM API v1: what a node is to do, and how its JSON is parsed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{API_VERSION, Code, is_node_id};

/// What the VIM orders a node to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Instruction {
    /// Version of the API: `1`.
    #[schemars(extend("const" = "1"))]
    pub api_version: String,
    /// Id of this instruction; events and the result repeat it.
    #[schemars(length(min = 1, max = 128))]
    pub request_id: String,
    /// The VIM's id for the node, if it differs from the one in the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z0-9._:-]{1,128}$"))]
    pub node_id: Option<String>,
    /// What to do.
    pub action: Action,
    /// Why, for people; shown on the node's console.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `wait`, `reinspect`: seconds until the node asks or reports again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
    /// `install`: what to write and where. `reignite`: the Ignition config. Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<Install>,
}

/// What a node can be ordered to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Write the disk, verify it, reboot.
    Install,
    /// Ask again after `retry_after_s`.
    Wait,
    /// Read the hardware again and post a new report.
    Reinspect,
    /// Reboot without touching a disk.
    Reboot,
    /// Power the machine off without touching a disk.
    Poweroff,
    /// Do nothing and stay up, so that a person can investigate.
    Stop,
    /// Give the installed system a new Ignition config for its next boot.
    Reignite,
}

impl Action {
    /// Every action, in the order of the documentation.
    pub const ALL: [Self; 7] = [
        Self::Install,
        Self::Wait,
        Self::Reinspect,
        Self::Reboot,
        Self::Poweroff,
        Self::Stop,
        Self::Reignite,
    ];

    /// The action as the API spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Wait => "wait",
            Self::Reinspect => "reinspect",
            Self::Reboot => "reboot",
            Self::Poweroff => "poweroff",
            Self::Stop => "stop",
            Self::Reignite => "reignite",
        }
    }
}

/// What to write and where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Install {
    /// The Ignition config that the installed system applies at its first boot.
    pub ignition: IgnitionSource,
    /// The operating system image; absent for the one in the live image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSource>,
    /// Which disk to write; absent for the only eligible one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskChoice>,
    /// What the chosen disk must be; otherwise nothing is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
    /// Kernel arguments to add to the installed system.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub append_kargs: Vec<String>,
    /// Kernel arguments to remove from the installed system.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delete_kargs: Vec<String>,
    /// Ignition platform id of the installed system, e.g. `metal`; absent for the image's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// Consoles of the installed system, e.g. `ttyS0,115200n8`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub console: Vec<String>,
    /// Whether to copy the live system's network profiles to the installed system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_network: Option<bool>,
    /// Kernel arguments for the first boot only; absent for coreos-installer's choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firstboot_args: Option<String>,
    /// Partitions to keep, by label (shell pattern).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub save_partlabel: Vec<String>,
    /// Partitions to keep, by number or range: `5`, `5-7`, `5-`, `-7`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub save_partindex: Vec<String>,
    /// The least severity of findings that prevents the install; absent for `critical`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_on: Option<BlockOn>,
}

/// Where the Ignition config is: exactly one of `url` and `inline`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("oneOf" = [{"required": ["url"]}, {"required": ["inline"]}]))]
pub struct IgnitionSource {
    /// `http` or `https` address of the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The config itself, as exact JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<String>,
    /// Digest of the config's bytes: `sha512-` and 128, or `sha256-` and 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^(sha512-[0-9A-Fa-f]{128}|sha256-[0-9A-Fa-f]{64})$"))]
    pub hash: Option<String>,
}

/// The operating system image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageSource {
    /// `http` or `https` address of a raw disk image; xz, gzip and zstd are recognised.
    pub url: String,
    /// Whether to install without a signature; absent if `URL.sig` must exist and be valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insecure: Option<bool>,
    /// Digest of the image as downloaded, as in `ignition.hash`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^(sha512-[0-9A-Fa-f]{128}|sha256-[0-9A-Fa-f]{64})$"))]
    pub hash: Option<String>,
    /// Size of the uncompressed image in bytes; a smaller disk is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncompressed_bytes: Option<u64>,
    /// Sector size that the image requires in bytes, 512 or 4096; other disks are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [512, 4096, null]))]
    pub sector_bytes: Option<u64>,
}

/// Which disk to write: at most one of `device` and `hints`; without both, the only eligible one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("not" = {"required": ["device", "hints"]}))]
pub struct DiskChoice {
    /// A path below `/dev`: preferably `/dev/disk/by-id/…` or `/dev/disk/by-path/…`, or a kernel name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Root device hints with the keys of Ironic (`size`, `wwn`, `by_path`, …, operators allowed)
    /// or of Metal3 (`deviceName`, `minSizeGigabytes`, …); all must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hints: Option<Map<String, Value>>,
    /// What to do if several eligible disks match; absent for `refuse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_several: Option<IfSeveral>,
}

/// How to choose among several disks that match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IfSeveral {
    /// Install nothing.
    #[default]
    Refuse,
    /// The smallest one; refused if two are equally small.
    Smallest,
    /// The largest one; refused if two are equally large.
    Largest,
    /// The first one in the order of the report.
    First,
}

/// What the chosen disk must be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Expect {
    /// Serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// World wide name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wwn: Option<String>,
    /// Size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// The least severity of findings that prevents an install.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockOn {
    /// Critical findings.
    #[default]
    Critical,
    /// Warnings and critical findings.
    Warning,
    /// No findings.
    Never,
}

/// Why an instruction is not obeyed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Stable code.
    pub code: Code,
    /// What was found and what was expected.
    pub message: String,
    /// The instruction's id, if it could be parsed.
    pub request_id: Option<String>,
}

/// How many keys of an object are tried to find the one at fault.
const MAX_KEYS_TRIED: usize = 64;

/// Parses an instruction; unknown keys are returned as warnings.
///
/// # Errors
/// - `INSTRUCTION_INVALID`: not JSON, a value of the wrong type, a version other than 1, or a missing key that the
///   action needs.
/// - `ACTION_UNKNOWN`: the action is none of [`Action::ALL`].
pub fn parse_instruction(bytes: &[u8]) -> Result<(Instruction, Vec<String>), Refusal> {
    let invalid = |message: String, request_id: Option<String>| Refusal {
        code: Code::InstructionInvalid,
        message,
        request_id,
    };
    let value: Value =
        serde_json::from_slice(bytes).map_err(|error| invalid(not_json(&error), None))?;
    let request_id = value
        .get("request_id")
        .and_then(Value::as_str)
        .map(|id| id.chars().take(128).collect::<String>());
    if let Some(action) = value.get("action").and_then(Value::as_str)
        && !Action::ALL.iter().any(|known| known.as_str() == action)
    {
        let shown: String = action.chars().take(64).collect();
        return Err(Refusal {
            code: Code::ActionUnknown,
            message: format!(
                "the instruction's action is {shown:?}, expected one of {}",
                Action::ALL.map(Action::as_str).join(", ")
            ),
            request_id,
        });
    }
    let mut warnings = Vec::new();
    let instruction: Instruction = serde_ignored::deserialize(&value, |path| {
        if warnings.len() < 32 {
            warnings.push(format!("unknown key {path} in the instruction"));
        }
    })
    .map_err(|error| invalid(misfit(&value, &error.to_string()), request_id.clone()))?;
    check(&instruction).map_err(|message| invalid(message, request_id))?;
    Ok((instruction, warnings))
}

fn not_json(error: &serde_json::Error) -> String {
    let end = if error.is_eof() { "it ends too early, " } else { "" };
    let (line, column) = (error.line(), error.column());
    format!("the instruction is not JSON: {end}line {line}, column {column}")
}

/// Names the key that does not conform to the API: serde says what it found, but not where.
///
/// A key is at fault if the error changes when the key is removed.
fn misfit(value: &Value, complaint: &str) -> String {
    let mut path = Vec::new();
    let mut rest = value.clone();
    while let Some(key) = faulty_key(value, &path, &rest, complaint) {
        rest = rest.get(&key).cloned().unwrap_or_default();
        path.push(key);
    }
    let place = if path.is_empty() { "it".to_owned() } else { path.join(".") };
    let says = complaint.replace('`', "\"");
    let missing = says.strip_prefix("missing field ");
    let found = ["invalid type: ", "invalid value: ", "unknown variant "];
    let found = found.iter().find_map(|prefix| says.strip_prefix(prefix));
    let says = match (missing, found) {
        (Some(key), _) => format!("{place} has no {key}"),
        (None, Some(found)) => format!("{place} holds {found}"),
        (None, None) => format!("{place} does not have the form that the API describes"),
    };
    format!("the instruction does not conform to VIM API v1: {says}")
}

/// The key of `object`, which lies at `path` in `whole`, that the complaint is about.
fn faulty_key(whole: &Value, path: &[String], object: &Value, complaint: &str) -> Option<String> {
    // Each attempt parses the whole instruction, so an object with more keys than the API defines is not searched fully.
    object
        .as_object()?
        .keys()
        .take(MAX_KEYS_TRIED)
        .find(|key| {
            let mut other = whole.clone();
            let inner = path.iter().try_fold(&mut other, |value, key| value.get_mut(key));
            if let Some(map) = inner.and_then(Value::as_object_mut) {
                map.remove(*key);
            }
            let Err(error) = serde_json::from_value::<Instruction>(other) else { return true };
            let error = error.to_string();
            // Removing a required key always causes an error, but about that key.
            let is_its_own = error == format!("missing field `{key}`");
            error != complaint && !(is_its_own && complaint.starts_with("missing field"))
        })
        .cloned()
}

/// Checks what the types do not express.
fn check(instruction: &Instruction) -> Result<(), String> {
    if instruction.api_version != API_VERSION {
        return Err(format!(
            "the instruction's api_version is {:?}, expected {API_VERSION:?}",
            instruction.api_version
        ));
    }
    if !(1..=128).contains(&instruction.request_id.chars().count()) {
        return Err("the instruction's request_id is empty or longer than 128".into());
    }
    if let Some(id) = &instruction.node_id
        && !is_node_id(id)
    {
        return Err(format!(
            "the instruction's node_id is {id:?}, expected {}",
            super::NODE_ID_PATTERN
        ));
    }
    let Some(install) = &instruction.install else {
        return match instruction.action {
            Action::Install | Action::Reignite => Err(format!(
                "the instruction's action is {}, but it has no install",
                instruction.action.as_str()
            )),
            _ => Ok(()),
        };
    };
    if install.ignition.url.is_some() == install.ignition.inline.is_some() {
        return Err("install.ignition needs exactly one of url and inline".into());
    }
    if let Some(disk) = &install.disk
        && disk.device.is_some()
        && disk.hints.is_some()
    {
        return Err("install.disk has both device and hints, expected one of them".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn install(extra: &str) -> String {
        format!(
            r#"{{"api_version":"1","request_id":"r1","action":"install",
                "install":{{"ignition":{{"inline":"{{}}"}}{extra}}}}}"#
        )
    }

    #[test]
    fn smallest_install_instruction_is_parsed() {
        let (instruction, warnings) = parse_instruction(install("").as_bytes()).unwrap();
        assert_eq!(instruction.action, Action::Install);
        assert_eq!(instruction.install.unwrap().ignition.inline.as_deref(), Some("{}"));
        assert!(warnings.is_empty());
    }

    #[test]
    fn unknown_key_is_a_warning_with_its_path() {
        let (_, warnings) = parse_instruction(install(r#","disc":{}"#).as_bytes()).unwrap();
        assert_eq!(warnings, ["unknown key install.?.disc in the instruction"]);
    }

    #[test]
    fn unknown_action_is_refused_by_name() {
        let refusal =
            parse_instruction(br#"{"api_version":"1","request_id":"r9","action":"explode"}"#)
                .unwrap_err();
        assert_eq!(refusal.code, Code::ActionUnknown);
        assert_eq!(refusal.request_id.as_deref(), Some("r9"));
        assert!(refusal.message.contains("\"explode\""), "{}", refusal.message);
    }

    #[test]
    fn key_at_fault_is_named_with_what_it_holds() {
        for (text, expected) in [
            (
                install(r#","disk":{"if_several":"any"}"#),
                "install.disk.if_several holds \"any\", expected one of",
            ),
            (
                install(r#","append_kargs":"quiet""#),
                "install.append_kargs holds string \"quiet\", expected a sequence",
            ),
            (r#"{"api_version":"1","request_id":"r"}"#.to_owned(), "it has no \"action\""),
            (
                r#"{"api_version":"1","request_id":"r","action":"wait","retry_after_s":-1}"#
                    .to_owned(),
                "retry_after_s holds integer \"-1\", expected u64",
            ),
            ("[1".to_owned(), "is not JSON: it ends too early, line 1, column 2"),
        ] {
            let refusal = parse_instruction(text.as_bytes()).unwrap_err();
            assert!(refusal.message.contains(expected), "{}", refusal.message);
        }
    }

    #[test]
    fn malformed_instructions_are_refused() {
        for text in [
            "",
            "[]",
            "null",
            "<html>",
            r#"{"action":"wait"}"#,
            r#"{"api_version":"2","request_id":"r","action":"wait"}"#,
            r#"{"api_version":"1","request_id":"","action":"wait"}"#,
            r#"{"api_version":"1","request_id":"r","action":"wait","retry_after_s":-1}"#,
            r#"{"api_version":"1","request_id":"r","action":"wait","node_id":"a/b"}"#,
            r#"{"api_version":"1","request_id":"r","action":"install"}"#,
            r#"{"api_version":"1","request_id":"r","action":7}"#,
            &install(r#","disk":{"device":"/dev/a","hints":{}}"#),
            &"[".repeat(100_000),
        ] {
            let refusal = parse_instruction(text.as_bytes()).unwrap_err();
            assert_eq!(refusal.code, Code::InstructionInvalid, "{text:.80}");
        }
    }
}
