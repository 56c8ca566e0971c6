//! Compares reports: the [`difference`] between two, the [`expectation`] for a machine and its [`draft`] from a good
//! one, the [`cohort`] of like machines, [`failing`] part numbers.
//!
//! A report is a JSON value; [`machine`] extracts the parts by the table of [`kinds`]. Nothing here does any
//! I/O, so the agent and the lab VIM share it.

#![forbid(unsafe_code)]

use std::fmt::Write as _;

use formats::text::is_visible;

pub mod cohort;
pub mod difference;
pub mod draft;
pub mod expectation;
pub mod failing;
pub mod kinds;
pub mod machine;
pub mod quantity;

mod condition;
mod matching;

/// Escapes hidden characters in a line for people, since a device's name must not control the terminal, or
/// read as another.
pub fn line(text: &str) -> String {
    let escaped = text.trim_end().chars().map(|character| {
        if is_visible(character) {
            character.to_string()
        } else {
            character.escape_default().to_string()
        }
    });
    escaped.chain(["\n".to_owned()]).collect()
}

/// JSON with each hidden character as its escape, so that a terminal neither obeys it nor shows other characters in
/// another order.
pub fn escaped_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    // JSON itself has no hidden character but the ends of lines, and most lines are plain: they are copied whole.
    for line in json.split_inclusive('\n') {
        if line.bytes().all(|byte| matches!(byte, b'\n' | b' '..=b'~')) {
            text.push_str(line);
            continue;
        }
        for character in line.chars() {
            if character == '\n' || is_visible(character) {
                text.push(character);
                continue;
            }
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a String does not fail.
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    }
    text
}

/// `1 report`, `2 reports`.
fn counted(n: usize, one: &str) -> String {
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    #[test]
    fn line_cannot_control_the_terminal_or_read_as_another() {
        assert_eq!(
            super::line("serial \x1b[2J\u{202e}3\u{200b}21\n"),
            "serial \\u{1b}[2J\\u{202e}3\\u{200b}21\n"
        );
    }

    #[test]
    fn hidden_characters_are_escaped_in_json_and_its_value_stays() {
        let value =
            serde_json::json!({"a\u{202e}b": "x\u{9b}31m\u{200b}\u{e0041}\u{7f}\n\u{fc}\u{1f980}"});
        let text = super::escaped_json(&format!("{value:#}\n"));
        let expected = "{\n  \"a\\u202eb\": \"x\\u009b31m\\u200b\\udb40\\udc41\\u007f\\n\u{fc}\u{1f980}\"\n}\n";
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
