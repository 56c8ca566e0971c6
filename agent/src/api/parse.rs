//! Parses an instruction strictly: what the agent does not understand may be what keeps it from the wrong disk.

use compare::expectation::Expectations;
use formats::digest::Algorithm;
use serde::Deserialize as _;
use serde_json::Value;

use super::{API_VERSION, Action, Code, Install, Instruction, OnRefusal, is_node_id, mistyped};
use crate::http::url::{Url, Zones};
use crate::{clean, strict_json};

/// Why an instruction is not obeyed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Stable code.
    pub code: Code,
    /// What was found and what was expected.
    pub message: String,
    /// The instruction's id, if it could be parsed.
    pub request_id: Option<String>,
    /// What the instruction says to do after a refusal, if that could be parsed.
    pub on_refusal: Option<OnRefusal>,
}

/// The objects of an instruction. serde also accepts a list for one of these, as its values without keys: text in the list
/// would become an address.
const OBJECTS: [&str; 7] = [
    "",
    "/install",
    "/install/ignition",
    "/install/image",
    "/install/image/stream",
    "/install/disk",
    "/install/expect",
];

/// How many keys of an object are tried to find the one at fault.
const MAX_KEYS_TRIED: usize = 64;

/// Parses an instruction.
///
/// # Errors
/// - `INSTRUCTION_INVALID`: not JSON, an unknown key, a value of the wrong type, a version other than 1, or a missing
///   key that the action needs.
/// - `ACTION_UNKNOWN`: the action is not an [`Action`].
pub fn parse_instruction(bytes: &[u8]) -> Result<Instruction, Refusal> {
    let refuse = |code: Code, message: String, value: &Value| Refusal {
        code,
        message,
        request_id: value.get("request_id").and_then(Value::as_str).map(|id| clean::text(id, 128)),
        on_refusal: value.get("on_refusal").and_then(|policy| OnRefusal::deserialize(policy).ok()),
    };
    let invalid = |message: String, value: &Value| refuse(Code::InstructionInvalid, message, value);
    let value = strict_json::parse(bytes)
        .map_err(|complaint| invalid(format!("the instruction {complaint}"), &Value::Null))?;
    if let Some(action) = value.get("action").filter(|action| action.is_string())
        && let Err(error) = Action::deserialize(action)
    {
        let fault = mistyped::fault(&["action".to_owned()], action, &error.to_string());
        return Err(refuse(Code::ActionUnknown, format!("the instruction's {fault}"), &value));
    }
    let is_list = |path: &&str| value.pointer(path).is_some_and(Value::is_array);
    if let Some(pointer) = OBJECTS.iter().find(|path| is_list(path)) {
        let path: Vec<String> = pointer.split('/').skip(1).map(str::to_owned).collect();
        let complaint = "invalid type: sequence, expected a map";
        return Err(invalid(nonconforming(&path, &Value::Null, complaint), &value));
    }
    let instruction: Instruction = serde_json::from_value(value.clone())
        .map_err(|error| invalid(misfit(&value, &error.to_string()), &value))?;
    check(&instruction).map_err(|message| invalid(message, &value))?;
    Ok(instruction)
}

/// Names the key that does not conform to the API, without its value: serde says what it found, but not where.
///
/// A key is at fault if the error changes when the key is removed.
fn misfit(value: &Value, complaint: &str) -> String {
    let mut path = Vec::new();
    let mut rest = value.clone();
    while let Some(key) = faulty_key(value, &path, &rest, complaint) {
        rest = rest.get(&key).cloned().unwrap_or_default();
        path.push(key);
    }
    nonconforming(&path, &rest, complaint)
}

fn nonconforming(path: &[String], value: &Value, complaint: &str) -> String {
    let fault = mistyped::fault(path, value, complaint);
    format!("the instruction does not conform to VIM API v1: {fault}")
}

/// The key of `object`, which lies at `path` in `whole`, that the complaint is about.
fn faulty_key(whole: &Value, path: &[String], object: &Value, complaint: &str) -> Option<String> {
    // Each attempt parses the whole instruction, so an object with more keys than the API defines is not searched fully.
    let is_faulty = |key: &&String| {
        let mut other = whole.clone();
        let inner = path.iter().try_fold(&mut other, |value, key| value.get_mut(key));
        if let Some(map) = inner.and_then(Value::as_object_mut) {
            // Another removal would change the order of the keys, and so which fault is found first.
            map.shift_remove(*key);
        }
        let Err(error) = serde_json::from_value::<Instruction>(other) else { return true };
        let error = error.to_string();
        // Removing a required key always causes an error, but about that key.
        let is_its_own = error == format!("missing field `{key}`");
        error != complaint && !(is_its_own && complaint.starts_with("missing field"))
    };
    object.as_object()?.keys().take(MAX_KEYS_TRIED).find(is_faulty).cloned()
}

/// Checks what the types do not express.
fn check(instruction: &Instruction) -> Result<(), String> {
    if instruction.api_version != API_VERSION {
        return Err(format!(
            "the instruction's api_version is not {API_VERSION:?}, the only one that this agent knows"
        ));
    }
    if !(1..=128).contains(&instruction.request_id.chars().count()) {
        return Err("the instruction's request_id is empty or longer than 128".into());
    }
    if !clean::is_clean(&instruction.request_id) {
        return Err("the instruction's request_id contains a control or format character".into());
    }
    if instruction.node_id.as_ref().is_some_and(|id| !is_node_id(id)) {
        let pattern = super::NODE_ID_PATTERN;
        return Err(format!("the instruction's node_id has another form, expected {pattern}"));
    }
    if let Some(seconds) = instruction.load_s
        && (instruction.action != Action::Wait || !(1..=86_400).contains(&seconds))
    {
        return Err(format!(
            "the instruction's load_s is {seconds}, expected 1 to 86400 with the action wait"
        ));
    }
    if let Some(expect) = &instruction.expect {
        Expectations::parse_keys(expect).map_err(|why| {
            format!("the instruction's expect: {}", mistyped::without_values(&why))
        })?;
    }
    let Some(install) = &instruction.install else {
        return match instruction.action {
            action @ (Action::Install | Action::Reignite) => {
                Err(format!("the instruction's action is {action}, but it has no install"))
            }
            _ => Ok(()),
        };
    };
    check_forms(install)?;
    if instruction.action == Action::Reignite
        && let Some(key) = of_an_image(install)
    {
        return Err(format!("install.{key} is for an install, but the action is reignite"));
    }
    if install.ignition.url.is_some() == install.ignition.inline.is_some() {
        return Err("install.ignition needs exactly one of url and inline".into());
    }
    if let Some(image) = &install.image
        && image.url.iter().count() + image.file.iter().count() + image.stream.iter().count() != 1
    {
        return Err("install.image needs exactly one of url, file and stream".into());
    }
    if let Some(disk) = &install.disk
        && disk.device.is_some()
        && disk.hints.is_some()
    {
        return Err("install.disk has both device and hints, expected one of them".into());
    }
    Ok(())
}

/// A key that is set and means nothing where no image is written.
fn of_an_image(install: &Install) -> Option<&'static str> {
    [
        ("image", install.image.is_some()),
        ("existing_data", install.existing_data.is_some()),
        ("override", !install.overrides.is_empty()),
        ("save_partlabel", !install.save_partlabel.is_empty()),
        ("save_partindex", !install.save_partindex.is_empty()),
        ("console", !install.console.is_empty()),
        ("copy_network", install.copy_network.is_some()),
        ("verify", install.verify.is_some()),
        ("on_unproved", install.on_unproved.is_some()),
    ]
    .into_iter()
    .find_map(|(key, is_set)| is_set.then_some(key))
}

/// Checks the form of addresses and digests, without their values: a config may be where its address belongs, and a password
/// where a digest does.
fn check_forms(install: &Install) -> Result<(), String> {
    let Install { ignition, image, .. } = install;
    let image = image.as_ref();
    let stream = image.and_then(|image| image.stream.as_ref()).map(|stream| &stream.url);
    for (key, url) in [
        ("ignition.url", ignition.url.as_ref()),
        ("image.url", image.and_then(|image| image.url.as_ref())),
        ("image.stream.url", stream),
    ] {
        let checked = url.map_or(Ok(()), |url| Url::parse(url, &Zones::default()).map(drop));
        checked.map_err(|error| format!("install.{key}: {error}"))?;
    }
    for (key, hash) in [
        ("ignition", ignition.hash.as_ref()),
        ("image", image.and_then(|image| image.hash.as_ref())),
    ] {
        if hash.is_some_and(|hash| Algorithm::of(hash).is_none()) {
            return Err(format!(
                "install.{key}.hash has another form, expected sha512- and 128 or sha256- and 64 hexadecimal digits"
            ));
        }
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
        let instruction = parse_instruction(install("").as_bytes()).unwrap();
        assert_eq!(instruction.action, Action::Install);
        assert_eq!(instruction.install.unwrap().ignition.inline.as_deref(), Some("{}"));
    }

    #[test]
    fn unknown_key_is_refused_with_its_path_and_the_nearest_known_one() {
        let inner = |key: &str| install(&format!(r#","{key}":["x"]"#));
        let disk = |key: &str| install(&format!(r#","disk":{{"{key}":"x"}}"#));
        let wait = r#"{"api_version":"1","request_id":"r","action":"wait","retry_after":1}"#;
        let disk_key = r#"did you mean "install.disk"?"#;
        for (text, path, hint) in [
            (inner("disc"), "install.disc", disk_key),
            (inner("Disk"), "install.Disk", disk_key),
            (inner("save_partlabels"), "install.save_partlabels", r#""install.save_partlabel"?"#),
            (inner("zzz"), "install.zzz", "is not a key of it"),
            (disk("serial"), "install.disk.serial", "is not a key of it"),
            (disk("Device"), "install.disk.Device", r#""install.disk.device"?"#),
            (wait.into(), "retry_after", r#""retry_after_s"?"#),
        ] {
            let refusal = parse_instruction(text.as_bytes()).unwrap_err();
            assert_eq!(refusal.code, Code::InstructionInvalid, "{text}");
            let message = refusal.message;
            assert!(message.contains(&format!("\"{path}\" is not a key of it")), "{message}");
            assert!(message.ends_with(hint), "{message}");
        }
    }

    #[test]
    fn misspelt_override_is_refused_with_the_nearest_word() {
        let text = install(r#","override":["removeable"]"#);
        let message = parse_instruction(text.as_bytes()).unwrap_err().message;
        assert!(message.contains("install.override"), "{message}");
        assert!(message.ends_with(r#", did you mean "removable"?"#), "{message}");
        parse_instruction(install(r#","override":["removable"]"#).as_bytes()).unwrap();
    }

    #[test]
    fn what_cannot_be_obeyed_is_refused_with_its_place_and_what_is_expected() {
        let head = |version: &str, id: &str| {
            format!(r#"{{"api_version":"{version}","request_id":"{id}","action":"wait"}}"#)
        };
        let with = |keys: &str| format!(r#"{{"api_version":"1","request_id":"r",{keys}}}"#);
        let wait = |keys: &str| with(&format!(r#""action":"wait",{keys}"#));
        let dimm = |keys: &str| wait(&format!(r#""expect":{{"dimm":{{{keys}}}}}"#));
        let key = |name: &str, value: &str| install(&format!(r#","{name}":{value}"#));
        parse_instruction(dimm(r#""count":16,"size":"32 GiB""#).as_bytes()).unwrap();
        let misspelt = r#"dimm: "sise" is not a known key, did you mean "size"?"#;
        let no_text = "install.append_kargs holds text, expected a list";
        let range = "retry_after_s holds a number out of range, expected a whole number from 0";
        for (text, expected) in [
            (dimm(r#""sise":"32 GiB""#), misspelt),
            (dimm(r#""size":"32 GiB..16 GiB""#), "size is …, a range that nothing"),
            (wait(r#""expect":[]"#), "expect holds a list, expected an object"),
            (key("image", r#"{"hash":null}"#), "exactly one of url, file"),
            (key("image", r#"{"url":"http://h/a","file":"/a"}"#), "exactly one of url, file"),
            (key("disk", r#"{"if_several":"any"}"#), "install.disk.if_several is not one of "),
            (key("disk", r#"{"device":"/dev/a","hints":{}}"#), "both device and hints"),
            (key("append_kargs", r#""quiet""#), no_text),
            (with(r#""reason":"x""#), r#"it has no "action""#),
            (wait(r#""retry_after_s":-1"#), range),
            (wait(r#""node_id":"a/b""#), "node_id has another form"),
            (wait(r#""action":"wait""#), "action"),
            (with(r#""action":"install""#), "it has no install"),
            (with(r#""action":7"#), "action holds a whole number, expected text"),
            (r#"{"action":"wait"}"#.into(), "it has no"),
            (head("2", "r"), r#"api_version is not "1""#),
            (head("1", ""), "request_id is empty"),
            (head("1", r"r\n"), "a control or format character"),
            ("[1".into(), "is not JSON: it ends too early, line 1, column 2"),
            (String::new(), "is not JSON"),
            ("[]".into(), "VIM API v1"),
            ("null".into(), "VIM API v1"),
            ("<html>".into(), "is not JSON"),
            ("[".repeat(100_000), "nested more than 32 levels deep"),
        ] {
            let refusal = parse_instruction(text.as_bytes()).unwrap_err();
            assert_eq!(refusal.code, Code::InstructionInvalid, "{text:.80}");
            assert!(refusal.message.contains(expected), "{text:.80}: {}", refusal.message);
        }
    }

    #[test]
    fn unknown_action_is_refused_with_the_known_ones() {
        let refusal =
            parse_instruction(br#"{"api_version":"1","request_id":"r9","action":"explode"}"#)
                .unwrap_err();
        assert_eq!(refusal.code, Code::ActionUnknown);
        assert_eq!(refusal.request_id.as_deref(), Some("r9"));
        assert_eq!(
            refusal.message,
            "the instruction's action is not one of install, wait, reinspect, reboot, poweroff, stop, reignite"
        );
    }
}
