//! The page of the text report: headings, indented lines, colour, no hidden characters.

use std::fmt::Display;

use formats::text::is_visible;

/// Width of the rule above each section, as in the VIM document's report.
const RULE: usize = 73;

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";

/// The highlight of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// Not at all.
    Plain,
    /// Less important than the rest.
    Quiet,
    /// Needs attention.
    Warning,
    /// Is broken.
    Critical,
}

/// Text that grows line by line.
#[derive(Debug)]
pub(super) struct Page {
    text: String,
    is_colored: bool,
}

impl Page {
    pub(super) fn new(is_colored: bool) -> Page {
        Page { text: String::new(), is_colored }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Starts a section: a rule with the heading below.
    pub(super) fn section(&mut self, heading: &str) {
        self.styled(DIM, &"#".repeat(RULE));
        self.styled(BOLD, heading);
    }

    /// A section with its facts in the heading; `below` writes the rest. A section without any fact is
    /// left out.
    pub(super) fn facts(&mut self, name: &str, facts: &str, below: impl FnOnce(&mut Page)) {
        let start = self.text.len();
        self.section(&format!("{name}{facts}"));
        let end = self.text.len();
        below(self);
        if facts.is_empty() && self.text.len() == end {
            self.text.truncate(start);
        }
    }

    /// A line, indented by `indent` blanks.
    pub(super) fn line(&mut self, indent: usize, text: &str) {
        self.toned(Tone::Plain, indent, text);
    }

    /// A highlighted line.
    pub(super) fn toned(&mut self, tone: Tone, indent: usize, text: &str) {
        let text = format!("{:indent$}{text}", "");
        match tone {
            Tone::Plain => self.styled("", &text),
            Tone::Quiet => self.styled(DIM, &text),
            Tone::Warning => self.styled(YELLOW, &text),
            Tone::Critical => self.styled(RED, &text),
        }
    }

    /// Plain lines.
    pub(super) fn lines(&mut self, indent: usize, lines: impl IntoIterator<Item = String>) {
        lines.into_iter().for_each(|text| self.line(indent, &text));
    }

    /// Writes each of these parts with `write`.
    pub(super) fn each<'a, T: 'a>(
        &mut self,
        parts: impl IntoIterator<Item = &'a T>,
        write: impl Fn(&mut Page, &'a T),
    ) {
        parts.into_iter().for_each(|part| write(self, part));
    }

    /// Prints words in rows of six, like the CPU capabilities in the VIM document.
    pub(super) fn words(&mut self, indent: usize, name: &str, words: &[String]) {
        let next = " ".repeat(name.len() + 3);
        for (index, row) in words.chunks(6).enumerate() {
            let begin = if index == 0 { format!("{name}: [") } else { next.clone() };
            let end = if (index + 1) * 6 >= words.len() { "]" } else { "" };
            self.line(indent, &format!("{begin}{}{end}", row.join(" ")));
        }
    }

    /// Adds a line. Hidden characters are escaped: a device's name must not control the terminal, or read as another.
    fn styled(&mut self, style: &str, text: &str) {
        let is_styled = self.is_colored && !style.is_empty();
        if is_styled {
            self.text.push_str(style);
        }
        for character in text.chars() {
            if is_visible(character) {
                self.text.push(character);
            } else {
                self.text.extend(character.escape_default());
            }
        }
        if is_styled {
            self.text.push_str(PLAIN);
        }
        self.text.push('\n');
    }
}

/// ` name=value` if there is a value.
pub(super) fn pair<T: Display + ?Sized>(name: &str, value: Option<&T>) -> String {
    value.map(|value| format!(" {name}={value}")).unwrap_or_default()
}

/// ` name=value` for each of these fields of a part that is known; a field has its own name unless another precedes it.
macro_rules! pairs {
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
    ($part:expr; $($($name:literal)? $field:ident),+) => {
        [$($crate::text::page::pair(pairs!(@name $field $($name)?), $part.$field.as_ref())),+].concat()
    };
}
pub(super) use pairs;

/// `start` and the value, if there is one.
pub(super) fn with(start: &str, value: Option<impl Display>) -> String {
    value.map(|value| format!("{start}{value}")).unwrap_or_default()
}

/// The texts with commas between them; `None` if there are none.
pub(super) fn joined(texts: &[String]) -> Option<String> {
    (!texts.is_empty()).then(|| texts.join(","))
}

/// `3 errors` for each of these counts that is known and not 0.
pub(super) fn nonzero(counts: &[(Option<u64>, &str)]) -> Vec<String> {
    let known = counts.iter().filter_map(|(n, what)| Some((n.filter(|n| *n > 0)?, what)));
    known.map(|(n, what)| format!("{n} {what}")).collect()
}

/// `name (part, part)`, or the name alone without a known part.
pub(super) fn heading(name: &str, parts: impl IntoIterator<Item = String>) -> String {
    let parts: Vec<String> = parts.into_iter().collect();
    if parts.is_empty() { name.to_owned() } else { format!("{name} ({})", parts.join(", ")) }
}

/// `1 core`, `2 cores`.
pub(super) fn counted(n: usize, one: &str) -> String {
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
pub(super) mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::Value;

    use super::*;

    /// The text that `write` puts on a page without colours.
    pub(in crate::text) fn text_of(write: impl FnOnce(&mut Page)) -> String {
        let mut page = Page::new(false);
        write(&mut page);
        page.into_text()
    }

    /// The text that `write` makes of a part of a report, given as JSON.
    pub(in crate::text) fn shown<T: DeserializeOwned>(
        write: impl FnOnce(&mut Page, &T),
        part: Value,
    ) -> String {
        text_of(|page| write(page, &serde_json::from_value(part).unwrap()))
    }

    #[test]
    fn value_cannot_control_the_terminal_or_read_as_another() {
        let mut page = Page::new(true);
        page.line(1, "serial=\x1b[2Jx\r\ny \u{202e}321\u{200b}");
        assert_eq!(page.into_text(), " serial=\\u{1b}[2Jx\\r\\ny \\u{202e}321\\u{200b}\n");
    }

    #[test]
    fn words_come_in_rows_of_six_and_none_is_lost() {
        let words: Vec<String> = (1..=7).map(|n| format!("w{n}")).collect();
        let text = text_of(|page| page.words(2, "capabilities", &words));
        assert_eq!(text, "  capabilities: [w1 w2 w3 w4 w5 w6\n                 w7]\n");
    }
}
