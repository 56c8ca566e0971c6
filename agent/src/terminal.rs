//! What a terminal shows.

use std::ffi::OsString;
use std::io::IsTerminal;

/// Whether a stream may be coloured: a terminal that shows colours, without `NO_COLOR`.
pub fn may_be_colored(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && environment_allows_colors(|name| std::env::var_os(name))
}

fn environment_allows_colors(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    variable("NO_COLOR").is_none() && variable("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumb_terminals_and_no_color_get_no_colours() {
        for (name, value, expected) in [
            ("TERM", "dumb", false),
            ("TERM", "xterm", true),
            ("NO_COLOR", "", false),
            ("LANG", "C", true),
        ] {
            let variable = |asked: &str| (asked == name).then(|| OsString::from(value));
            assert_eq!(environment_allows_colors(variable), expected, "{name}={value}");
        }
    }
}
