//! Splits the output of coreos-installer: lines that end in `\n` or `\r`, some with a percentage.
//!
//! `Read disk 164.5 MiB/230.4 MiB (71%)`, one a second; the form has changed between versions, so only
//! `(…%)` is recognised.

use std::collections::VecDeque;

use crate::secret::redact;

/// The longest line that is kept, in bytes.
const MAX_LINE_BYTES: usize = 1000;
/// Maximum number of lines that are kept.
const MAX_TAIL_LINES: usize = 60;

/// Cuts bytes into lines.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Adds bytes and returns the lines that they complete, without empty ones.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for &byte in bytes {
            if byte == b'\n' || byte == b'\r' {
                lines.extend(self.finish());
            } else if self.rest.len() < MAX_LINE_BYTES {
                self.rest.push(byte);
            }
        }
        lines
    }

    /// The line that no line end has completed.
    pub fn finish(&mut self) -> Option<String> {
        let bytes = std::mem::take(&mut self.rest);
        let text: String = String::from_utf8_lossy(&bytes)
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let text = text.trim();
        (!text.is_empty()).then(|| redact(text))
    }
}

/// The percentage in a line: `… (71%)`.
pub fn percent(line: &str) -> Option<u8> {
    let end = line.rfind("%)")?;
    let start = line[..end].rfind('(')? + 1;
    line[start..end].trim().parse().ok().filter(|percent| *percent <= 100)
}

/// The last lines of a run, with only the latest progress line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tail {
    lines: VecDeque<String>,
    last_is_progress: bool,
}

impl Tail {
    /// Adds a line; a progress line replaces the one before it.
    pub fn push(&mut self, line: String) {
        let is_progress = percent(&line).is_some() || line.contains("Read disk");
        if is_progress && self.last_is_progress {
            self.lines.pop_back();
        }
        self.last_is_progress = is_progress;
        if self.lines.len() >= MAX_TAIL_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// The lines, oldest first.
    pub fn lines(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_in_either_line_end_and_are_bounded() {
        let mut lines = Lines::default();
        assert_eq!(lines.feed(b"> Read disk 1/2 (50%)   \r> Read"), ["> Read disk 1/2 (50%)"]);
        assert_eq!(lines.feed(b" disk (51%)\r\n\n"), ["> Read disk (51%)"]);
        assert!(lines.feed(&vec![b'x'; 100_000]).is_empty());
        assert_eq!(lines.finish().unwrap().len(), MAX_LINE_BYTES);
        assert_eq!(lines.finish(), None);
        assert_eq!(lines.feed(b"a\x1b[2Kb\xff\n"), ["a [2Kb\u{fffd}"]);
    }

    #[test]
    fn a_percentage_is_found_wherever_it_stands() {
        for (line, expected) in [
            ("Read disk 164.5 MiB/230.4 MiB (71%)", Some(71)),
            ("> Read disk 1 GiB (100%)   ", Some(100)),
            ("Read disk 164.5 MiB", None),
            ("(101%)", None),
            ("(-1%)", None),
            ("(%)", None),
            ("%)", None),
        ] {
            assert_eq!(percent(line), expected, "{line}");
        }
    }

    #[test]
    fn the_tail_keeps_one_progress_line_and_few_lines() {
        let mut tail = Tail::default();
        for n in 0..50 {
            tail.push(format!("Read disk ({n}%)"));
        }
        assert_eq!(tail.lines(), ["Read disk (49%)"]);
        for n in 0..500 {
            tail.push(format!("line {n}"));
        }
        assert_eq!(tail.lines().len(), MAX_TAIL_LINES);
    }
}
