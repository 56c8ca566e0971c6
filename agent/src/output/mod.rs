//! Standard output: text, JSON, YAML, and when it is coloured.

pub(crate) mod draft;

use std::io::{self, Write as _};

use anyhow::Context as _;
use serde::Serialize;

use crate::cli::Color;
use crate::terminal;

/// Writes `text` to standard output.
///
/// # Errors
/// If it cannot be written. A closed pipe (`inspect | head`) is not an error.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// `value` as indented JSON with a newline at its end. Hidden characters are escaped.
///
/// # Errors
/// If a value has no JSON form; no type of this crate has such a value.
pub fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(compare::escaped_json(&(serde_json::to_string_pretty(value)? + "\n")))
}

/// The values of a JSON text.
///
/// # Errors
/// If it is not JSON.
pub fn tree(json: &str) -> anyhow::Result<serde_json::Value> {
    serde_json::from_str(json).context("reading JSON that this program wrote")
}

/// `value` as YAML; as its subset JSON if a hidden character must be escaped, which the writer of YAML does not do.
///
/// # Errors
/// If a value has no YAML form; no type of this crate has such a value.
pub fn yaml(value: &impl Serialize) -> anyhow::Result<String> {
    // By way of the text: a second serialiser of the report's types would add 0.2 MB to the program.
    let json = json(value)?;
    let yaml = yaml_serde::to_string(&tree(&json)?)?;
    Ok(if compare::escaped_json(&yaml) == yaml { yaml } else { json })
}

/// The width that prose is wrapped at: the terminal's, or that of `COLUMNS`, or 80.
pub fn width() -> usize {
    let terminal = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0.into());
    let variable = || std::env::var("COLUMNS").ok()?.parse().ok();
    // A narrower column of text has hardly a word in each line.
    terminal.or_else(variable).unwrap_or(80_usize).clamp(60, 200)
}

/// Whether standard output is coloured: as requested, by default if it may be.
pub fn is_colored(color: Color) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => terminal::may_be_colored(&io::stdout()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped_in_json_and_yaml() {
        let value = serde_json::json!({"serial": "x\u{202e}321", "name": "é"});
        for text in [json(&value).unwrap(), yaml(&value).unwrap()] {
            assert!(text.contains("x\\u202e321"), "{text}");
            assert_eq!(yaml_serde::from_str::<serde_json::Value>(&text).unwrap(), value);
        }
        assert_eq!(yaml(&serde_json::json!({"name": "é"})).unwrap(), "name: é\n");
    }
}
