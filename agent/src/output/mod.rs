//! What goes to standard output, and when it is coloured.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use crate::cli::Color;

/// Writes `text` to standard output.
///
/// # Errors
/// If it cannot be written. A closed pipe (`inspect | head`) is no error.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// `value` as indented JSON with a newline at its end.
///
/// # Errors
/// If a value has no JSON form; no type of this crate has such a value.
pub fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// `value` as a tree of JSON, by way of the text: each further serialiser of the report's types
/// would make the program larger by 0.2 MB.
///
/// # Errors
/// If a value has no JSON form; no type of this crate has such a value.
pub fn tree(value: &impl Serialize) -> anyhow::Result<serde_json::Value> {
    Ok(serde_json::from_str(&json(value)?)?)
}

/// `value` as YAML.
///
/// # Errors
/// If a value has no YAML form; no type of this crate has such a value.
pub fn yaml(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_yaml_ng::to_string(&tree(value)?)?)
}

/// Whether standard output is coloured: as asked for, else on a terminal without `NO_COLOR`.
#[must_use]
pub fn is_colored(color: Color) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
    }
}
