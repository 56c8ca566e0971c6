//! Writes YAML for people: literal blocks for text with several lines, comments from the template's `why`, and quotes
//! wherever a plain word could be parsed as something other than text.
//!
//! YAML 1.1 (go-yaml, which Butane uses) and YAML 1.2 parse the output alike.

use std::fmt::Write as _;

use formats::text::wrapped;
use serde_json::{Map, Value};

/// Longest comment line, in characters.
const WIDTH: usize = 96;

/// Writes a document whose top is a map.
pub(super) fn document(value: &Value) -> String {
    let mut out = String::new();
    if let Value::Object(fields) = value {
        write_fields(fields, 0, false, &mut out);
    }
    out
}

/// Writes the fields of a map; if `is_inline`, the first one follows the dash.
fn write_fields(fields: &Map<String, Value>, indent: usize, is_inline: bool, out: &mut String) {
    let fields = fields.iter().filter(|(key, _)| *key != "why");
    for (i, (key, value)) in fields.enumerate() {
        let pad = if i > 0 || !is_inline { " ".repeat(indent) } else { String::new() };
        out.extend([&pad, key, ":"]);
        match value {
            Value::Object(fields) => {
                out.push('\n');
                write_fields(fields, indent + 2, false, out);
            }
            Value::Array(members) => {
                out.push('\n');
                for member in members {
                    write_member(member, indent + 2, out);
                }
            }
            // Butane reads the leading zero as octal.
            Value::String(octal) if key == "mode" => out.extend([" ", octal, "\n"]),
            scalar => {
                out.push(' ');
                write_scalar(scalar, indent + 2, out);
            }
        }
    }
}

fn write_member(member: &Value, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    if let Some(why) = member.get("why").and_then(Value::as_str) {
        out.push_str(&wrapped(why.trim_end(), &format!("{pad}# "), WIDTH));
    }
    out.extend([&pad, "- "]);
    match member {
        Value::Object(fields) => write_fields(fields, indent + 2, true, out),
        scalar => write_scalar(scalar, indent + 2, out),
    }
}

fn write_scalar(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::String(text) if is_block(text) => {
            out.push_str("|\n");
            for line in text.lines() {
                let pad = if line.is_empty() { String::new() } else { " ".repeat(indent) };
                out.extend([&pad, line, "\n"]);
            }
        }
        Value::String(text) if is_plain(text) => out.extend([text, "\n"]),
        Value::String(text) => {
            write_quoted(text, out);
            out.push('\n');
        }
        other => out.extend([&other.to_string(), "\n"]),
    }
}

/// True if a literal block preserves `text` exactly.
fn is_block(text: &str) -> bool {
    let is_safe = |c: char| c == '\n' || is_printable(c);
    text.trim_end_matches('\n').contains('\n')
        && text.ends_with('\n')
        && !text.ends_with("\n\n")
        && !text.starts_with([' ', '\n'])
        && !text
            .lines()
            .any(|line| line.starts_with('\t') || line.trim().is_empty() && !line.is_empty())
        && text.chars().all(is_safe)
}

/// True if every YAML version parses the word as a string.
fn is_plain(text: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b"/._@-".contains(&b);
    let starts_well = text.starts_with('/') || text.contains(['/', '@', '-']);
    let is_version = text.split('.').count() == 3;
    let is_bare = ["fcos", "gzip", "core", "root"].contains(&text);
    !text.is_empty()
        && text.bytes().all(is_word)
        && !text.starts_with(['-', '@', '.'])
        && (is_bare
            || is_version
            || (starts_well && !text.starts_with(|c: char| c.is_ascii_digit())))
}

/// True if the character is printable in YAML 1.1 and 1.2 and a line break in neither.
fn is_printable(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn write_quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if is_printable(c) => out.push(c),
            c => drop(write!(out, "\\U{:08X}", u32::from(c))),
        }
    }
    out.push('"');
}
