//! A terminal's size and capabilities: `ioctl_tty(2)`, `locale(7)`, and the usual variables.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::fd::AsFd;

/// Columns and rows of a terminal with unknown size, such as a serial line.
const USUAL: (usize, usize) = (80, 25);

/// The screen that shows a QR code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// Columns.
    pub columns: usize,
    /// Rows that the code may fill.
    pub rows: usize,
    /// True if it shows characters other than ASCII.
    pub is_utf8: bool,
    /// True if it obeys escape sequences for colours.
    pub is_colored: bool,
}

impl Screen {
    /// Measures the screen of `stream`. `COLUMNS` and `LINES` apply without a terminal. One row is left to the prompt.
    pub fn of(stream: &(impl AsFd + IsTerminal), is_colored: bool) -> Self {
        let variable = |name: &str| std::env::var_os(name);
        let terminal = terminal_size::terminal_size_of(stream.as_fd());
        let size = terminal.map(|(columns, rows)| (columns.0.into(), rows.0.into()));
        let (columns, rows) = size.unwrap_or_else(|| size_in(variable));
        Self { columns, rows: rows.saturating_sub(1), is_utf8: shows_utf8(variable), is_colored }
    }
}

fn size_in(variable: impl Fn(&str) -> Option<OsString>) -> (usize, usize) {
    let number = |name: &str| variable(name)?.to_str()?.parse().ok();
    (number("COLUMNS").unwrap_or(USUAL.0), number("LINES").unwrap_or(USUAL.1))
}

/// Returns true if the locale uses UTF-8 or is unset: services have none, and today's terminals show UTF-8.
fn shows_utf8(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    if variable("TERM").is_some_and(|term| term == "dumb") {
        return false;
    }
    let chosen = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable);
    let mut locales = chosen.map(|value| value.to_string_lossy().to_ascii_lowercase());
    let locale = locales.find(|value| !value.is_empty());
    locale.is_none_or(|value| value.contains("utf-8") || value.contains("utf8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locale_without_utf8_and_dumb_terminal_get_ascii() {
        for (variables, expected) in [
            (&[][..], true),
            (&[("LANG", "C.UTF-8")], true),
            (&[("LANG", "de_DE.utf8")], true),
            (&[("LANG", "C")], false),
            (&[("LC_ALL", ""), ("LANG", "en_US.UTF-8")], true),
            (&[("LC_ALL", "POSIX"), ("LANG", "en_US.UTF-8")], false),
            (&[("TERM", "dumb"), ("LANG", "en_US.UTF-8")], false),
        ] {
            let value = |asked: &str| {
                let found = variables.iter().find(|(name, _)| *name == asked);
                found.map(|(_, value)| OsString::from(value))
            };
            assert_eq!(shows_utf8(value), expected, "{variables:?}");
        }
    }

    #[test]
    fn unknown_size_is_that_of_the_variables_or_the_usual_one() {
        assert_eq!(size_in(|_| None), (80, 25));
        let value = |name: &str| (name == "LINES").then(|| OsString::from("50"));
        assert_eq!(size_in(value), (80, 50));
        assert_eq!(size_in(|_| Some("-1".into())), (80, 25));
    }
}
