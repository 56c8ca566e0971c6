//! Parses bytes as a typed config of a known version, with a path for every value of a wrong type.
//!
//! The types are those of `ignition-config`. Their errors carry a line and a column, from which [`path_at`] finds the
//! path.

use ignition_config::v3_6;
use serde::Deserialize;
use serde_json::Value;
use serde_json::error::Category;

use super::findings::Findings;
use super::later::take_out;
use super::place::path_at;
use crate::refusal::{Code, Refusal};
use crate::text::shown;

/// Newest minor version of spec 3 that is accepted.
pub const MAX_MINOR: u64 = 6;
const EXPECTED_VERSION: &str = "one of 3.0.0, 3.1.0, 3.2.0, 3.3.0, 3.4.0, 3.5.0, 3.6.0";
const EXPECTED_CONFIG: &str = "an Ignition config, a JSON object with $.ignition.version";
const UNKNOWN_KEY: &str = "unknown key, which Ignition ignores unless only its case is wrong";

/// A config of a known version, without its unknown keys.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) version: String,
    pub(super) config: Value,
    /// A warning for each unknown key.
    pub(super) findings: Findings,
}

/// The keys that identify the kind of a document.
#[derive(Deserialize)]
struct Head {
    ignition: Option<HeadIgnition>,
}

#[derive(Deserialize)]
struct HeadIgnition {
    version: Option<String>,
}

pub(super) fn parse(bytes: &[u8]) -> Result<Parsed, Refusal> {
    refuse_other_formats(bytes)?;
    let head: Head = serde_json::from_slice(bytes).map_err(|err| at_path(bytes, &err))?;
    let version = head.ignition.and_then(|ignition| ignition.version);
    let version = version.ok_or_else(|| not_a_version("missing".to_owned()))?;
    let minor = (0..=MAX_MINOR).find(|minor| version == format!("3.{minor}.0"));
    let minor = minor.ok_or_else(|| {
        // Another text may be a secret in the wrong place.
        let number = version.strip_suffix("-experimental").unwrap_or(&version);
        let is_number = number.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit());
        not_a_version(if is_number { shown(&version) } else { "another text".to_owned() })
    })?;
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
    let mut findings = Findings::new(minor);
    for path in &later {
        findings.warning(&cut(path), UNKNOWN_KEY);
    }
    unknown_keys(&raw, &config, "$", &mut findings)?;
    Ok(Parsed { version, config, findings })
}

/// Parses the config with the types of the newest version, which include those of all earlier ones.
fn typed(bytes: &[u8]) -> Result<Value, Refusal> {
    let config: v3_6::Config = serde_json::from_slice(bytes).map_err(|err| at_path(bytes, &err))?;
    serde_json::to_value(&config).map_err(|err| at_path(bytes, &err))
}

/// Lists the keys that the version does not know; a key with the value null has no meaning. Refuses a list in place of an
/// object: serde accepts one as the values of the fields in their order.
fn unknown_keys(
    raw: &Value,
    typed: &Value,
    path: &str,
    findings: &mut Findings,
) -> Result<(), Refusal> {
    match (raw, typed) {
        (Value::Object(raw), Value::Object(typed)) => {
            for (key, value) in raw.iter().filter(|(_, value)| !value.is_null()) {
                let below = format!("{path}.{key}");
                match typed.get(key) {
                    Some(typed) => unknown_keys(value, typed, &below, findings)?,
                    None => findings.warning(&cut(&below), UNKNOWN_KEY),
                }
            }
        }
        (Value::Array(raw), Value::Array(typed)) => {
            for (index, (raw, typed)) in raw.iter().zip(typed).enumerate() {
                unknown_keys(raw, typed, &format!("{path}.{index}"), findings)?;
            }
        }
        (Value::Array(_), Value::Object(_)) => {
            return Err(Refusal::new(Code::Invalid, path, "a list", "an object"));
        }
        _ => {}
    }
    Ok(())
}

fn not_a_version(found: String) -> Refusal {
    Refusal::new(Code::Version, "$.ignition.version", found, EXPECTED_VERSION)
}

/// Names formats that are often sent instead of a config. The rest is not quoted: it may contain a secret.
fn refuse_other_formats(bytes: &[u8]) -> Result<(), Refusal> {
    const FORMATS: [(&[u8], &str); 7] = [
        (b"\x1f\x8b", "compressed with gzip"),
        (b"\xef\xbb\xbf", "text with a byte order mark"),
        (b"<", "an HTML or XML document"),
        (b"#cloud-config", "a cloud-init config"),
        (b"variant:", "a Butane config, which butane must translate first"),
        (b"[", "a list"),
        (b"", "not a JSON object"),
    ];
    let found = match bytes.trim_ascii_start() {
        [] => Some("empty"),
        [b'{', ..] => None,
        text => FORMATS.iter().find(|(start, _)| text.starts_with(start)).map(|(_, name)| *name),
    };
    found.map_or(Ok(()), |found| Err(Refusal::new(Code::Invalid, "$", found, EXPECTED_CONFIG)))
}

/// Turns serde's `invalid type: string "x", expected i64 at line 1 column 7` into found and expected.
fn at_path(bytes: &[u8], err: &serde_json::Error) -> Refusal {
    let path = path_at(bytes, err.line(), err.column());
    let whole = err.to_string();
    let place = format!(" at line {} column {}", err.line(), err.column());
    let text = whole.strip_suffix(&place).unwrap_or(&whole);
    let field = |start: &str| text.strip_prefix(start)?.strip_suffix('`');
    let (path, found, expected) = if let Some(field) = field("missing field `") {
        (format!("{path}.{field}"), "missing".to_owned(), "a value".to_owned())
    } else if let Some(field) = field("duplicate field `") {
        let is_named = path.ends_with(&format!(".{field}"));
        let path = if is_named { path } else { format!("{path}.{field}") };
        (path, "repeated".to_owned(), "it once".to_owned())
    } else if let Some((found, expected)) =
        text.rsplit_once(", expected ").filter(|_| err.is_data())
    {
        (path, kind_in_words(found).to_owned(), rust_type_in_words(expected))
    } else {
        // serde's own text is left out: for a value of the wrong form it may quote a secret.
        let why = match err.classify() {
            Category::Eof => "an early end",
            Category::Data => "a value of the wrong form",
            _ if text.starts_with("trailing characters") => "text after its end",
            Category::Syntax | Category::Io => "a syntax error",
        };
        (path, format!("malformed{place}: {why}"), "JSON".to_owned())
    };
    let is_version = err.is_data()
        && ["$.ignition", "$.ignition.version"].contains(&path.as_str())
        && found != "repeated";
    let code = if is_version { Code::Version } else { Code::Invalid };
    let expected = if is_version { EXPECTED_VERSION.to_owned() } else { expected };
    Refusal::new(code, &cut(&path), found, expected)
}

/// The kind of value that serde found. Never the value that it quotes: this is logged and posted, and a value of the
/// wrong kind may still be a password.
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
    let after = |start: &str| found.strip_prefix(start);
    let found = after("invalid type: ").or_else(|| after("invalid value: ")).unwrap_or_default();
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
