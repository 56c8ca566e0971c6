//! Parses bytes as a typed config of a known version, with a path for every value of a wrong type.
//!
//! The types are those of `ignition-config`. Their errors carry a line and a column, from which [`path_at`] finds the
//! path. A key that the config has and its typed form lacks is unknown.

use ignition_config::v3_6;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::error::Category;

use super::later::take_out;
use super::place::path_at;
use super::{Code, Refusal, Warning};
use crate::text::shown;

/// Newest minor version of spec 3 that this program knows.
const MAX_MINOR: u64 = 6;
const EXPECTED_VERSION: &str = "one of 3.0.0, 3.1.0, 3.2.0, 3.3.0, 3.4.0, 3.5.0, 3.6.0";
const EXPECTED_CONFIG: &str = "an Ignition config, a JSON object with $.ignition.version";

/// A config of a known version, without its unknown keys.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) version: String,
    pub(super) minor: u64,
    pub(super) config: Value,
    pub(super) warnings: Vec<Warning>,
}

/// The keys that identify the kind of a document.
#[derive(Deserialize)]
struct Head {
    ignition: Option<HeadIgnition>,
    #[serde(rename = "ignitionVersion")]
    version_1: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct HeadIgnition {
    version: Option<String>,
}

/// Most unknown keys that are listed.
const MAX_WARNINGS: usize = 50;

pub(super) fn parse(bytes: &[u8]) -> Result<Parsed, Refusal> {
    refuse_other_formats(bytes)?;
    let version = version(bytes)?;
    let minor = minor(&version)?;
    // The config as it is and its typed form each need many times the size of the text, so the types are dropped before
    // the other form is parsed.
    let typed_first = typed(bytes);
    let mut raw: Value = serde_json::from_slice(bytes).map_err(|err| at_path(bytes, &err))?;
    let later = take_out(&mut raw, minor);
    let config = match typed_first {
        Ok(mut config) => {
            take_out(&mut config, minor);
            config
        }
        // A key of a later version may have a value of any type.
        Err(refusal) if later.is_empty() => return Err(refusal),
        Err(_) => {
            let text = serde_json::to_vec(&raw).map_err(|err| at_path(bytes, &err))?;
            typed(&text)?
        }
    };
    refuse_lists_for_objects(&raw, &config, "$")?;
    let mut warnings: Vec<Warning> = later.iter().take(MAX_WARNINGS).map(|p| unknown(p)).collect();
    unknown_keys(&raw, &config, "$", &mut warnings);
    Ok(Parsed { version, minor, config, warnings })
}

/// Parses the config with the types of the newest version, which include those of all earlier ones.
fn typed(bytes: &[u8]) -> Result<Value, Refusal> {
    let config: v3_6::Config = serde_json::from_slice(bytes).map_err(|err| at_path(bytes, &err))?;
    serde_json::to_value(&config).map_err(|err| at_path(bytes, &err))
}

fn unknown(path: &str) -> Warning {
    Warning {
        path: cut(path),
        message: "unknown key, which Ignition ignores unless only its case is wrong".to_owned(),
    }
}

/// Lists the keys that the version does not know; a key with the value null has no meaning.
fn unknown_keys(raw: &Value, typed: &Value, path: &str, warnings: &mut Vec<Warning>) {
    let below = |key: &str| format!("{path}.{key}");
    match (raw, typed) {
        (Value::Object(raw), Value::Object(typed)) => {
            for (key, value) in raw.iter().filter(|(_, value)| !value.is_null()) {
                match typed.get(key) {
                    Some(typed) => unknown_keys(value, typed, &below(key), warnings),
                    None if warnings.len() < MAX_WARNINGS => warnings.push(unknown(&below(key))),
                    None => {}
                }
            }
        }
        (Value::Array(raw), Value::Array(typed)) => {
            for (index, (raw, typed)) in raw.iter().zip(typed).enumerate() {
                unknown_keys(raw, typed, &below(&index.to_string()), warnings);
            }
        }
        _ => {}
    }
}

fn invalid(path: &str, found: impl Into<String>) -> Refusal {
    Refusal::new(Code::Invalid, path, found, EXPECTED_CONFIG)
}

/// Names what is often sent instead of a config.
fn refuse_other_formats(bytes: &[u8]) -> Result<(), Refusal> {
    let text = bytes.trim_ascii_start();
    let found = match text {
        [] => "empty",
        [b'{', ..] => return Ok(()),
        [0x1f, 0x8b, ..] => "compressed with gzip",
        [0xef, 0xbb, 0xbf, ..] => "text with a byte order mark",
        [b'<', ..] => "an HTML or XML document",
        _ if text.starts_with(b"#cloud-config") => "a cloud-init config",
        _ if text.starts_with(b"variant:") => "a Butane config, which butane must translate first",
        [b'[', ..] => "a list",
        [b'"', ..] => "a string",
        [b'-' | b'0'..=b'9', ..] => "a number",
        // Not quoted: it may contain a secret.
        _ => "not a JSON object",
    };
    Err(invalid("$", found))
}

fn version(bytes: &[u8]) -> Result<String, Refusal> {
    let refuse = |path, found| Err(Refusal::new(Code::Version, path, found, EXPECTED_VERSION));
    let head: Head = serde_json::from_slice(bytes).map_err(|err| at_path(bytes, &err))?;
    if head.version_1.is_some() {
        return refuse("$.ignitionVersion", "a config of Ignition 0.x".to_owned());
    }
    let Some(ignition) = head.ignition else {
        return refuse("$.ignition", "missing".to_owned());
    };
    match ignition.version {
        Some(version) => Ok(version),
        None => refuse("$.ignition.version", "missing".to_owned()),
    }
}

/// The minor number of a stable spec 3 version.
fn minor(version: &str) -> Result<u64, Refusal> {
    let refuse = |why: &str| {
        let found = format!("{}{why}", shown(version));
        Err(Refusal::new(Code::Version, "$.ignition.version", found, EXPECTED_VERSION))
    };
    let (number, suffix) = version.split_at(version.find(['-', '+']).unwrap_or(version.len()));
    let parts: Option<Vec<u64>> = number.split('.').map(|part| part.parse().ok()).collect();
    match parts.as_deref() {
        Some([1 | 2, _, _]) => refuse(", a spec that Ignition 2 and later refuse"),
        Some([3, _, _]) if suffix.starts_with("-experimental") => {
            refuse(", an experimental spec that stable systems refuse")
        }
        Some([3, minor @ 0..=MAX_MINOR, 0]) if format!("3.{minor}.0") == version => Ok(*minor),
        Some([3, minor, _]) if *minor > MAX_MINOR => refuse(", newer than this program supports"),
        _ => refuse(""),
    }
}

/// Refuses a list in place of an object: serde accepts one as the values of the fields in their order.
fn refuse_lists_for_objects(raw: &Value, typed: &Value, path: &str) -> Result<(), Refusal> {
    match (raw, typed) {
        (Value::Object(raw), Value::Object(typed)) => {
            typed.iter().try_for_each(|(key, typed)| match raw.get(key) {
                Some(raw) => refuse_lists_for_objects(raw, typed, &format!("{path}.{key}")),
                None => Ok(()),
            })
        }
        (Value::Array(raw), Value::Array(typed)) => {
            raw.iter().zip(typed).enumerate().try_for_each(|(i, (raw, typed))| {
                refuse_lists_for_objects(raw, typed, &format!("{path}.{i}"))
            })
        }
        (Value::Array(_), Value::Object(_)) => {
            Err(Refusal::new(Code::Invalid, path, "a list", "an object"))
        }
        _ => Ok(()),
    }
}

/// Turns serde's `invalid type: string "x", expected i64 at line 1 column 7` into found and expected.
fn at_path(bytes: &[u8], err: &serde_json::Error) -> Refusal {
    let path = path_at(bytes, err.line(), err.column());
    let whole = err.to_string();
    let place = format!(" at line {} column {}", err.line(), err.column());
    let text = whole.strip_suffix(&place).unwrap_or(&whole);
    if err.is_data()
        && let Some((found, expected)) = text.rsplit_once(", expected ")
    {
        return Refusal::new(
            Code::Invalid,
            &cut(&path),
            kind_in_words(found),
            rust_type_in_words(expected),
        );
    }
    let field = |text: &str| text.strip_suffix('`').map(cut);
    if let Some(field) = text.strip_prefix("missing field `").and_then(field) {
        return Refusal::new(Code::Invalid, &cut(&format!("{path}.{field}")), "missing", "a value");
    }
    if let Some(field) = text.strip_prefix("duplicate field `").and_then(field) {
        let path =
            if path.ends_with(&format!(".{field}")) { path } else { format!("{path}.{field}") };
        return Refusal::new(Code::Invalid, &cut(&path), "repeated", "it once");
    }
    // serde's own text is left out: for a value of the wrong form it may quote a secret.
    let why = match err.classify() {
        Category::Eof => "an early end",
        Category::Data => "a value of the wrong form",
        _ if text.starts_with("trailing characters") => "text after its end",
        Category::Syntax | Category::Io => "a syntax error",
    };
    let found = format!("malformed{place}: {why}");
    Refusal::new(Code::Invalid, &cut(&path), found, "JSON")
}

/// The kind of what serde found. Never the value that it quotes: this is logged and posted, and a value of the wrong
/// kind may still be a password.
fn kind_in_words(found: &str) -> &'static str {
    const KINDS: &[(&str, &str)] = &[
        ("string", "text"),
        ("character", "text"),
        ("integer", "a number"),
        ("floating point", "a number with a fraction"),
        ("boolean", "true or false"),
        ("null", "null"),
        ("sequence", "a list"),
        ("map", "an object"),
    ];
    let found = found
        .strip_prefix("invalid type: ")
        .or_else(|| found.strip_prefix("invalid value: "))
        .unwrap_or_default();
    let kind = KINDS.iter().find(|(word, _)| found.starts_with(word));
    kind.map_or("a value of the wrong form", |(_, words)| words)
}

fn rust_type_in_words(expected: &str) -> String {
    match expected {
        "i64" => "a whole number".to_owned(),
        "a sequence" => "a list".to_owned(),
        text if text.starts_with("struct ") => "an object".to_owned(),
        text => cut(text),
    }
}

/// Shortens text from the document for a message.
fn cut(text: &str) -> String {
    match text.char_indices().nth(160) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
