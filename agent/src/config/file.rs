//! The configuration file: a flat YAML mapping of option names to text, numbers, booleans or lists of those.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use anyhow::{anyhow, bail};
use formats::text;
use yaml_serde::Value as Yaml;

use super::option_name;
use super::unknown::line_of;

/// Largest configuration file.
const LIMIT_BYTES: u64 = 1 << 20;

/// The text of a configuration file.
pub(super) fn read(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(LIMIT_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LIMIT_BYTES {
        return Err(std::io::Error::other(format!("it is larger than {LIMIT_BYTES} bytes")));
    }
    String::from_utf8(bytes)
        .map_err(|_| std::io::Error::other("it contains bytes that are not UTF-8 text"))
}

/// Parses the configuration file: a flat YAML mapping of option names to text, numbers, booleans
/// or lists of those. `name` is the file's, for messages.
///
/// # Errors
/// If the text is not such a mapping.
pub fn parse_file(text: &str, name: &str) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    if text::nesting(text) > text::MAX_NESTING {
        bail!(
            "the configuration file {name} nests deeper than any option, expected lines of the form OPTION: VALUE"
        );
    }
    let document: Yaml =
        yaml_serde::from_str(text).map_err(|error| yaml_error(&error, text, name))?;
    let entries = match document {
        Yaml::Null => return Ok(BTreeMap::new()),
        Yaml::Mapping(entries) => entries,
        other => bail!(
            "the configuration file {name} holds {}, expected lines of the form OPTION: VALUE",
            kind(&other)
        ),
    };
    let mut options = BTreeMap::new();
    for (key, value) in entries {
        let Yaml::String(key) = key else {
            bail!(
                "the configuration file {name} holds {} as a key, expected the name of an option",
                kind(&key)
            );
        };
        let values = match &value {
            Yaml::Sequence(items) => items.iter().map(scalar).collect(),
            one => scalar(one).map(|one| vec![one]),
        };
        let Some(values) = values else {
            bail!(
                "{}the configuration file {name} holds {} for \"{}\", expected one value or a list of values",
                line_of(text, &option_name(&key))
                    .map_or_else(String::new, |line| format!("line {line} of ")),
                kind(&value),
                key.escape_debug()
            );
        };
        if options.insert(option_name(&key), values).is_some() {
            bail!("the configuration file {name} sets {} twice, expected once", option_name(&key));
        }
    }
    Ok(options)
}

/// The error for text that is not YAML: the line, its key and what was expected.
fn yaml_error(error: &yaml_serde::Error, text: &str, name: &str) -> anyhow::Error {
    if let Some(key) = text::repeated_key(&error.to_string()) {
        return anyhow!("the configuration file {name} sets {key} twice, expected once");
    }
    let at = error.location().map(|location| location.line());
    match text::wrong_line(text, at) {
        Some((line, found)) => anyhow!(
            "line {line} of the configuration file {name} is not YAML: {found}, expected OPTION: VALUE"
        ),
        None => anyhow!("the configuration file {name} is not YAML, expected lines OPTION: VALUE"),
    }
}

/// What a YAML value is, in words.
fn kind(value: &Yaml) -> &'static str {
    match value {
        Yaml::Null => "no value",
        Yaml::Bool(_) => "true or false",
        Yaml::Number(_) => "a number",
        Yaml::String(_) => "plain text",
        Yaml::Sequence(items) if items.iter().any(|item| scalar(item).is_none()) => {
            "a list with something other than text, numbers and true or false"
        }
        Yaml::Sequence(_) => "a list",
        Yaml::Mapping(_) => "a mapping",
        Yaml::Tagged(_) => "a tagged value",
    }
}

fn scalar(value: &Yaml) -> Option<String> {
    match value {
        Yaml::String(text) => Some(text.clone()),
        Yaml::Number(number) => Some(number.to_string()),
        Yaml::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}
