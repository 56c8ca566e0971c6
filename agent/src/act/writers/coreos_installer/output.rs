//! Classifies a failure of coreos-installer: its exit status has no classes, so its words decide.
//!
//! The texts are those of coreos-installer 0.10 to 0.27, from its sources and from runs in virtual machines.

use formats::data;

use crate::act::Code;
use crate::http::retry::is_transient;

/// The class of a failed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meaning {
    /// Stable code.
    pub(super) code: Code,
    /// True if another try can help.
    pub(super) is_transient: bool,
}

/// Texts that identify a failure.
const KNOWN: &str = include_str!("known.txt");

/// The rows of [`KNOWN`]: texts and their meaning.
fn known() -> impl Iterator<Item = (&'static str, Meaning)> {
    data::rows(KNOWN).filter_map(|row| {
        let [code, is_transient, texts] = data::cells(row)?;
        let meaning = Meaning { code: data::word(code)?, is_transient: is_transient == "yes" };
        Some((texts, meaning))
    })
}

/// Determines the meaning of a failed run's last lines.
pub(super) fn meaning(lines: &[String], exit_status: Option<i32>) -> Meaning {
    let text = error_text(lines);
    if let Some(status) = http_status(&text) {
        return Meaning { code: Code::Http(status), is_transient: is_transient(status) };
    }
    let has_all = |texts: &str| texts.split(" + ").all(|part| text.contains(part));
    if let Some((_, meaning)) = known().find(|(texts, _)| has_all(texts)) {
        return meaning;
    }
    // Exit status 2 is clap's: an option that this coreos-installer does not know.
    let is_usage = exit_status == Some(2);
    Meaning { code: Code::InstallerFailed, is_transient: !is_usage && exit_status.is_none() }
}

/// The error chain in lower case: the text after the first `Error:`, or the last lines.
fn error_text(lines: &[String]) -> String {
    let is_error = |line: &String| line.trim_start().to_ascii_lowercase().starts_with("error");
    let first = match lines.iter().position(is_error) {
        // coreos-installer lists the uses of a busy disk before the error.
        Some(at @ 1..) if lines[at - 1].contains("Partitions in use on") => at - 1,
        Some(at) => at,
        None => lines.len().saturating_sub(5),
    };
    lines[first..].join("\n").to_lowercase()
}

/// The error chain in one line: `syncing data to disk: Input/output error (os error 5)`.
pub(super) fn summary(lines: &[String]) -> String {
    let is_error = |line: &str| line.to_ascii_lowercase().starts_with("error");
    let Some(first) = lines.iter().position(|line| is_error(line)) else {
        return lines.last().map_or_else(|| "it printed nothing".into(), |line| shorten(line));
    };
    let ends_chain = |line: &str| {
        is_error(line) || line.starts_with("Resetting") || line.starts_with("Stack backtrace")
    };
    let mut parts = vec![lines[first].split_once(':').map_or("", |(_, rest)| rest).trim()];
    for line in lines[first + 1..].iter().take_while(|line| !ends_chain(line)) {
        // Causes are numbered where there are several.
        let text = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches(':');
        let text = if text.len() == line.len() { line } else { text.trim() };
        if text != "Caused by:" {
            parts.push(text);
        }
    }
    parts.retain(|part| !part.is_empty());
    shorten(&parts.join(": "))
}

fn shorten(text: &str) -> String {
    text.chars().take(500).collect()
}

/// The status in `HTTP status client error (404 File not found) for url …` or `image fetch failed: 404 …`.
fn http_status(text: &str) -> Option<u16> {
    for marker in [
        "http status client error (",
        "http status server error (",
        "image fetch failed: ",
        "http status ",
    ] {
        if let Some((_, rest)) = text.split_once(marker) {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            if let Ok(status) = digits.parse::<u16>()
                && (400..600).contains(&status)
            {
                return Some(status);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::act::advice::advice;

    fn of(text: &str) -> Meaning {
        meaning(&lines(text), Some(1))
    }

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    /// Code, `yes` if another try can help, and text of each failure.
    fn failures() -> impl Iterator<Item = (&'static str, bool, String)> {
        let rows =
            include_str!("testdata/failures.tsv").lines().filter(|row| !row.starts_with('#'));
        rows.map(|row| {
            let mut fields = row.splitn(3, '\t');
            let mut next = || fields.next().unwrap();
            (next(), next() == "yes", next().replace("\\n", "\n"))
        })
    }

    #[test]
    fn each_known_text_has_its_code() {
        assert_eq!(known().count(), data::rows(KNOWN).count());
        for (code, is_transient, text) in failures() {
            let found = of(&text);
            assert_eq!(
                (found.code.to_string(), found.is_transient),
                (code.into(), is_transient),
                "{text}"
            );
        }
    }

    #[test]
    fn every_row_of_the_table_is_reached_and_every_class_has_its_own_advice() {
        let row = |text: String| {
            let text = error_text(&lines(&text));
            known().position(|(texts, _)| texts.split(" + ").all(|part| text.contains(part)))
        };
        let reached: Vec<usize> = failures().filter_map(|(.., text)| row(text)).collect();
        for (number, (texts, Meaning { code, .. })) in known().enumerate() {
            assert!(reached.contains(&number), "{texts}");
            // The config is fetched and checked by the agent, so these two come from a changed program only.
            let is_known = [Code::IgnitionFetch, Code::IgnitionInvalid].contains(&code);
            assert!(is_known || !advice(code).to_string().starts_with("read the log"), "{code}");
        }
    }

    #[test]
    fn error_chain_fills_one_line() {
        for (text, expected) in [
            (
                "Read disk (100%)\nError: syncing data to disk\nCaused by:\nInput/output error (os error 5)\nResetting partition table\nError: install failed",
                "syncing data to disk: Input/output error (os error 5)",
            ),
            (
                "Error: fetching image URL\nCaused by:\n0: fetching 'http://h/i'\n1: HTTP status client error\nStack backtrace:\n0: <unknown>",
                "fetching image URL: fetching 'http://h/i': HTTP status client error",
            ),
            ("Error: install failed", "install failed"),
            ("killed", "killed"),
            ("", "it printed nothing"),
        ] {
            assert_eq!(summary(&lines(text)), expected);
        }
    }

    #[test]
    fn skipped_signature_is_not_the_error() {
        let text = "Signature not found; skipping verification as requested\nError: fetching 'x'\nHTTP status client error (403 Forbidden)";
        assert_eq!(of(text).code, Code::Http(403));
    }
}
