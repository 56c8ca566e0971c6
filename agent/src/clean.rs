//! Text from outside (a server, a disk, another program) before it reaches a console, the kernel log or the VIM.
//!
//! This is the one place: the log passes every line through [`line()`], the VIM client every string that it posts through
//! [`text`]. Unicode's control and format characters are those of UAX #9 (bidirectional text) and UAX #44 (`Cc`, `Zl`,
//! `Zp`, and of `Cf` what is invisible).

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use formats::text::is_visible;
use serde_json::Value;

use crate::secret;

/// The longest text that is shown, in characters.
const MAX_TEXT_CHARS: usize = 4000;
/// How much of the log is kept, in bytes.
const MAX_RECENT_BYTES: usize = 512 * 1024;
/// The longest line of the log, in characters.
const MAX_LINE_CHARS: usize = 8000;

/// `text` in one line of at most `max_chars` characters, without secrets, control characters and characters that
/// change how others are shown.
pub fn text(text: &str, max_chars: usize) -> String {
    shorten(&secret::hide(text), max_chars, |c| c)
}

/// The same in quotes. A precision such as `{:.100?}` does not shorten: `Debug` ignores it.
pub fn quoted(text: &str, max_chars: usize) -> String {
    format!("{:?}", self::text(text, max_chars))
}

/// A message on text from outside that has another form than expected.
pub fn unexpected(what: &str, found: &str, max_chars: usize, expected: &str) -> String {
    format!("{what} is {}, expected {expected}", quoted(found, max_chars))
}

fn shorten(text: &str, max_chars: usize, keep: impl Fn(char) -> char) -> String {
    let mut shown: String = text
        .chars()
        // Not the marks that turn the direction of text, join or separate letters, or have no width.
        .filter(|c| is_break(*c) || is_visible(*c))
        .map(|c| if is_break(c) { ' ' } else { keep(c) })
        .take(max_chars + 1)
        .collect();
    if let Some((at, _)) = shown.char_indices().nth(max_chars) {
        let end = shown[..at].char_indices().next_back().map_or(0, |(last, _)| last);
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

/// Whether `text` can be repeated as it is: a terminal would obey no character of it, and shows each.
pub fn is_clean(text: &str) -> bool {
    text.chars().all(is_visible)
}

/// Control characters and line breaks, which become blanks.
fn is_break(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Keys whose values the agent chose itself or read from this machine. A secret is never hidden in them, because a query
/// such as `?serial=…` or `?uuid=…` may contain the same text, and the VIM must learn which node and disk this is.
const OWN_KEYS: &str = "api_version code component device disk_state finished_at model node_id outcome \
     request_digest serial severity stage started_at state wwn";

/// Cleans every string in `value` but the ids, which the VIM compares.
pub fn json(value: &mut Value) {
    match value {
        Value::String(found) => *found = text(found, MAX_TEXT_CHARS),
        Value::Array(values) => values.iter_mut().for_each(json),
        Value::Object(object) => {
            let others = object.iter_mut().filter(|(key, _)| *key != "request_id");
            others.for_each(|(key, value)| match value {
                Value::String(found) if OWN_KEYS.split(' ').any(|own| own == key) => {
                    *found = shorten(found, MAX_TEXT_CHARS, |c| c);
                }
                _ => json(value),
            });
        }
        _ => {}
    }
}

/// A line of the log without its line end. With `has_colors` the colours that the log itself adds stay.
pub fn line(line: &str, has_colors: bool) -> String {
    if !has_colors {
        return text(line, MAX_LINE_CHARS);
    }
    // Only "ESC [ digits m" sets a colour; every other use of ESC loses it.
    let mut shown = String::new();
    for (index, part) in line.split('\u{1b}').enumerate() {
        let end = part.find(|c: char| !c.is_ascii_digit() && !"[;".contains(c));
        let is_color = index > 0
            && part.starts_with('[')
            && end.is_some_and(|end| part[end..].starts_with('m'));
        if is_color {
            shown.push('\u{1b}');
        }
        shown.push_str(&text(part, MAX_LINE_CHARS));
    }
    shown
}

/// The last lines of the log.
#[derive(Debug, Clone, Default)]
pub struct RecentLog(Arc<Mutex<Recent>>);

#[derive(Debug, Default)]
struct Recent {
    text: String,
    last: Option<Instant>,
}

impl RecentLog {
    /// The lines as they were written.
    pub fn text(&self) -> String {
        self.lock().text.clone()
    }

    /// Returns when the last line was logged; `None` before the first one.
    pub(crate) fn last_line(&self) -> Option<Instant> {
        self.lock().last
    }

    fn lock(&self) -> MutexGuard<'_, Recent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, text: &str) {
        let mut recent = self.lock();
        recent.last = Some(Instant::now());
        let recent = &mut recent.text;
        recent.push_str(text);
        if recent.len() > MAX_RECENT_BYTES {
            let half = recent.len() / 2;
            let end = recent.char_indices().find(|(at, c)| *at >= half && *c == '\n');
            let end = end.map_or(recent.len(), |(at, _)| at + 1);
            drop(recent.drain(..end));
        }
    }
}

/// Standard error for the log: each event is one write. A line that cannot be written, to a full file system or a closed
/// pipe, is still kept in `recent`: a job does not end because nobody reads its log.
#[derive(Debug)]
pub(crate) struct CleanStderr {
    pub(crate) has_colors: bool,
    pub(crate) recent: RecentLog,
}

impl Write for CleanStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let cleaned = format!("{}\n", line(text.trim_end_matches('\n'), self.has_colors));
        self.recent.keep(&cleaned);
        io::stderr().write_all(cleaned.as_bytes()).ok();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_line_breaks_and_bidi_overrides_are_removed() {
        for (found, expected) in [
            ("plain äöü 日本", "plain äöü 日本"),
            ("a\r\n<3>kernel: b", "a  <3>kernel: b"),
            ("a\u{1b}[2Jb\u{7}\u{9b}c", "a [2Jb  c"),
            ("a\u{2028}b\u{85}c", "a b c"),
            ("user\u{202e}gpj.exe\u{202c}", "usergpj.exe"),
            ("z\u{200b}w\u{feff}", "zw"),
        ] {
            assert_eq!(text(found, 100), expected);
            assert_eq!(is_clean(found), found == expected);
        }
        let mut value = serde_json::json!({"a": ["x\ny"], "request_id": "r\u{202e}"});
        json(&mut value);
        assert_eq!(value, serde_json::json!({"a": ["x y"], "request_id": "r\u{202e}"}));
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        assert_eq!(text("äöüß", 4), "äöüß");
        assert_eq!(text("äöüßx", 4), "äöü…");
    }

    #[test]
    fn quoted_text_is_short_and_without_secrets() {
        let shown = quoted(&format!("http://user:password@h/{}", "x".repeat(1000)), 20);
        assert_eq!(shown, "\"http://h/xxxxxxxxxx…\"");
    }

    #[test]
    fn log_keeps_its_own_colors_and_no_other_escape_sequence() {
        let found = "\u{1b}[32m INFO\u{1b}[0m reason=\u{1b}[2J\u{1b}]0;title\u{7}x\ny";
        assert_eq!(line(found, true), "\u{1b}[32m INFO\u{1b}[0m reason=[2J]0;title x y");
        assert_eq!(line("a\nb", false), "a b");
    }
}
