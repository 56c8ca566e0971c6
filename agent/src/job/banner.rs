//! The console banner of a blocked node: the faulty part and its place in letters that are readable from the rack's
//! aisle, and below them the details. 80 columns, plain ASCII: a kernel console shows nothing else reliably.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use nix::fcntl::OFlag;
use probes::findings::Finding;
use probes::guard;
use probes::parts::Detail;
use tracing::debug;

use super::qr::screen;
use crate::act::blocking::part;
use crate::clean;
use crate::clock::Clock;
use crate::qr::{Summary, draw};

/// Letters in a line: each is 5 columns wide and has one to its right.
const LETTERS_PER_LINE: usize = 13;
/// Lines of large letters. With three findings the text has at most 40 lines; a screen of 25 shows its end.
const MAX_LARGE_LINES: usize = 3;
/// Findings whose details are shown.
const MAX_DETAILS: usize = 3;
/// The longest detail, in characters.
const MAX_DETAIL_CHARS: usize = 160;
const COLUMNS: usize = 80;
/// Time limit for the end of the job to wait for the console.
const SHOW_LIMIT: Duration = Duration::from_secs(5);
/// Stack of the thread that writes; a serial console may take long.
const STACK_BYTES: usize = 256 << 10;

/// A letter a line, with its rows.
const FONT: &str = include_str!("font.txt");

/// The text for these findings, worst first, on the node `node_id`.
pub(super) fn text(blocking: &[&Finding], node_id: &str) -> String {
    let Some(worst) = blocking.first() else { return String::new() };
    let rule = "=".repeat(COLUMNS);
    let mut text = format!("\n{rule}\n{}", large(&format!("{} {}", worst.component, place(worst))));
    for finding in blocking.iter().take(MAX_DETAILS) {
        let part = part(finding);
        let line = format!("{part}: {} ({})", finding.evidence, finding.code);
        text.push_str(&wrapped(&line, COLUMNS));
        text.push_str(&wrapped(&finding.advice, COLUMNS));
    }
    if let Some(n_more) = blocking.len().checked_sub(MAX_DETAILS).filter(|n| *n > 0) {
        text.push_str(&wrapped(&format!("and {n_more} more"), COLUMNS));
    }
    text.push_str(&wrapped(
        &format!("node {node_id}: nothing is installed; no disk was touched"),
        COLUMNS,
    ));
    text + &rule + "\n"
}

/// Writes to the console, at most one text at a time: an operator may have stopped the terminal's output to read it.
#[derive(Debug, Default)]
pub(super) struct Display {
    writing: Option<Receiver<Result<(), guard::Panic>>>,
}

impl Display {
    /// Writes `text` to `file`, a terminal, and the QR code of `summary` below it, unless the text before is not written yet.
    pub(super) fn show(&mut self, text: String, summary: Option<Summary>, file: PathBuf) {
        let before = self.writing.as_ref().map(Receiver::try_recv);
        if !matches!(before, Some(Err(TryRecvError::Empty))) {
            self.writing = show(text, summary, file);
        }
    }

    /// Waits until the text is written, but not for ever.
    pub(super) fn wait(&self, clock: &dyn Clock) {
        if let Some(writing) = &self.writing {
            clock.receive(writing, SHOW_LIMIT).ok();
        }
    }
}

/// Writes them on a thread of its own: a serial console that never accepts them must not stop the job.
fn show(
    text: String,
    summary: Option<Summary>,
    file: PathBuf,
) -> Option<Receiver<Result<(), guard::Panic>>> {
    let write = move || {
        let opened = OpenOptions::new()
            .append(true)
            .custom_flags((OFlag::O_NOCTTY | OFlag::O_CLOEXEC).bits())
            .open(&file);
        let written = opened.and_then(|mut file| {
            let code =
                summary.map(|summary| draw(&summary, &screen(&file)).unwrap_or_else(too_small));
            // A terminal in raw mode needs the carriage returns; others ignore them.
            let text = (text + &code.unwrap_or_default()).replace('\n', "\r\n");
            file.write_all(text.as_bytes())
        });
        if let Err(error) = written {
            debug!("writing to {}: {error}", file.display());
        }
    };
    guard::ask("banner", STACK_BYTES, write).ok()
}

fn too_small() -> String {
    "the QR code of --console-qr does not fit this console\n".to_owned()
}

/// Returns the place of the part: the bay of a disk, otherwise the name of the part.
fn place(finding: &Finding) -> String {
    let part = finding.locator.as_ref();
    part.map(|part| part.bay().map_or(part.name.clone(), Detail::to_string)).unwrap_or_default()
}

/// `text` in large letters, its words on lines of their own where they fit.
fn large(text: &str) -> String {
    let text = text.to_ascii_uppercase();
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for word in text.split_whitespace() {
        let letters: Vec<u8> = word.bytes().filter(|letter| rows_of(*letter).is_some()).collect();
        match lines.last_mut() {
            Some(line) if line.len() + 1 + letters.len() <= LETTERS_PER_LINE => {
                line.push(b' ');
                line.extend(letters);
            }
            _ => lines.extend(letters.chunks(LETTERS_PER_LINE).map(<[u8]>::to_vec)),
        }
    }
    let mut large = String::new();
    for line in lines.iter().take(MAX_LARGE_LINES) {
        for row in 0..5 {
            let row: String = line.iter().map(|letter| drawn(*letter, row)).collect();
            large.push_str(row.trim_end());
            large.push('\n');
        }
        large.push('\n');
    }
    large
}

fn rows_of(letter: u8) -> Option<&'static str> {
    FONT.lines().find_map(|line| line.strip_prefix(char::from(letter))?.strip_prefix(' '))
}

/// A row of a letter, and the column to its right.
fn drawn(letter: u8, row: usize) -> String {
    let row = rows_of(letter).and_then(|rows| rows.split(' ').nth(row));
    format!("{:6}", row.unwrap_or_default().replace('.', " "))
}

/// Splits text that may come from firmware into lines of at most `columns` characters.
pub(super) fn wrapped(text: &str, columns: usize) -> String {
    let text = clean::text(text, MAX_DETAIL_CHARS);
    // A console would break a longer word anywhere.
    let letters: Vec<char> = text.chars().collect();
    let words = letters.split(|letter| *letter == ' ').flat_map(|word| word.chunks(columns));
    let words: Vec<String> = words.map(|word| word.iter().collect()).collect();
    crate::text::wrapped(&words.join(" "), 0, columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use probes::parts::PartId;

    fn finding(part: Option<PartId>) -> Finding {
        let row = probes::findings::row("memory.ecc.uncorrectable").unwrap();
        row.finding(part, "5 errors")
    }

    #[test]
    fn large_letters_are_made_of_blocks() {
        let expected =
            ["#####  ###", "  #   #   #", "  #   #####", "  #   #   #", "  #   #   #", ""];
        assert_eq!(large("tåa").lines().collect::<Vec<_>>(), expected);
        assert!(large("t a").starts_with("#####        ###\n"));
    }

    #[test]
    fn part_and_place_come_first_and_the_text_has_at_most_forty_lines() {
        let details = [Detail::Serial("Z1".to_owned()), Detail::Bay("3".to_owned())];
        let bay = finding(Some(PartId::from("sda").with(details)));
        assert_eq!(place(&bay), "bay 3");
        assert_eq!(place(&finding(Some("slot 4 (0000:3b:00.0)".into()))), "slot 4");
        assert_eq!(place(&finding(None)), "");
        let long = finding(Some("DIMM_SLOT".repeat(9).into()));
        for blocking in [vec![&bay], vec![&long; 9]] {
            let text = text(&blocking, "mac-02");
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            assert!(text.lines().count() <= 40, "{text}");
            let words = ["(memory.ecc.uncorrectable)", "node mac-02"];
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
        let text = text(&[&bay], "mac-02");
        let start = format!("\n{}\n{}", "=".repeat(80), large("MEMORY BAY 3"));
        assert!(text.starts_with(&start), "{text}");
        assert!(text.contains("sda (serial Z1, bay 3): 5 errors"), "{text}");
    }

    #[test]
    fn control_characters_of_firmware_do_not_reach_the_console() {
        let text = text(&[&finding(Some("A1\u{1b}[2J".into()))], "n");
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
}
