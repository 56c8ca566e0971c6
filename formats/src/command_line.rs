//! The kernel's command line: `Documentation/admin-guide/kernel-parameters.rst`, `dracut.cmdline(7)`.
//!
//! It is split into arguments here alone. [`without_secrets`] returns the line that a report shows, [`fields`] the
//! parts that an anonymised capture replaces; which names and values are secret is declared once, for both.

mod devices;
mod redact;
mod secrets;

pub use devices::{identities, volumes};
pub use redact::{is_password_name, is_secret_name, without_secrets};
pub use secrets::fields;

/// One argument of the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument<'a> {
    /// The argument as it is written, with its quotes.
    pub written: &'a str,
    /// Its name, without quotes.
    pub name: &'a str,
    /// The text after the first `=`, without quotes around it.
    pub value: Option<&'a str>,
}

/// The arguments of the line, in order.
///
/// Double quotes hold blanks together, around an argument or around its value; within a value they
/// are part of it (`next_arg` in the kernel's `lib/cmdline.c`).
pub fn arguments(line: &str) -> impl Iterator<Item = Argument<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = line.get(at..)?;
        let start = at + (rest.len() - rest.trim_start().len());
        let rest = line.get(start..).filter(|rest| !rest.is_empty())?;
        let end = start + end_of_word(rest);
        at = end;
        let written = line.get(start..end)?;
        let inner = unquoted(written);
        let (name, value) = match inner.split_once('=') {
            Some((name, value)) if inner.len() < written.len() => (name, Some(value)),
            Some((name, value)) => (name, Some(unquoted(value))),
            None => (inner, None),
        };
        Some(Argument { written, name, value })
    })
}

/// The value of the last argument that is called `name`: a later argument overrides an earlier one.
pub fn last_value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    arguments(line).filter(|argument| argument.name == name).last()?.value
}

/// Returns the end of the first word: double quotes hold blanks together.
fn end_of_word(text: &str) -> usize {
    let mut is_quoted = false;
    for (at, character) in text.char_indices() {
        match character {
            '"' => is_quoted = !is_quoted,
            c if c.is_whitespace() && !is_quoted => return at,
            _ => {}
        }
    }
    text.len()
}

/// An argument or a value without the quotes around it; the last one may be missing at the end of the line.
fn unquoted(written: &str) -> &str {
    match written.strip_prefix('"') {
        Some(inner) => inner.strip_suffix('"').unwrap_or(inner),
        None => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_blanks_together_around_an_argument_and_around_a_value() {
        let line = " a=1  \"b=x y\" c=\"x  y\" quiet\td=a\"b e=\"open";
        let found: Vec<(&str, Option<&str>)> =
            arguments(line).map(|argument| (argument.name, argument.value)).collect();
        let expected = [
            ("a", Some("1")),
            ("b", Some("x y")),
            ("c", Some("x  y")),
            ("quiet", None),
            ("d", Some("a\"b e=\"open")),
        ];
        assert_eq!(found, expected);
        assert_eq!(arguments(line).nth(1).unwrap().written, "\"b=x y\"");
        assert_eq!(arguments("").count() + arguments(" \n").count(), 0);
        assert_eq!(arguments("\"").next().unwrap().name, "");
    }

    #[test]
    fn of_equal_names_the_last_value_counts() {
        assert_eq!(last_value("x=1 y=2 x=3", "x"), Some("3"));
        assert_eq!(last_value("x=1", "y"), None);
    }
}
