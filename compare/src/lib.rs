//! Compares reports: [`difference`] of two, [`expectation`] of what a machine must have and its [`draft`] from a good
//! machine, [`cohort`] of like machines, [`failing`] part numbers.
//!
//! A report is a JSON value; [`machine`] takes the parts out of it by the table of [`kinds`]. Nothing here reads or
//! writes anything, so the agent and the lab VIM share it.

#![forbid(unsafe_code)]

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
mod pattern;

pub use pattern::is_visible;

/// A line of text for people: hidden characters are escaped, since a device's name must not control the terminal, or
/// read as another.
#[must_use]
pub fn line(text: &str) -> String {
    let mut line = String::with_capacity(text.len() + 1);
    for character in text.trim_end().chars() {
        if pattern::is_visible(character) {
            line.push(character);
        } else {
            line.extend(character.escape_default());
        }
    }
    line.push('\n');
    line
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
}
