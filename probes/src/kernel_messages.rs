//! Records of the kernel log (`Documentation/ABI/testing/dev-kmsg`), and which of them mean a fault:
//! `data/kernel-log.txt`.
//!
//! Pure, so that the live log is filtered while it is read: neither a report nor a capture contains any
//! other message.

use std::sync::LazyLock;

use formats::data;
use formats::pattern::matches;

use crate::pci_address::is_pci_address;

/// Messages that mean a fault; see the file.
const PATTERNS: &str = include_str!("../data/kernel-log.txt");

/// A message that means a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    /// The code of the finding, e.g. `disk.kernel_errors`.
    pub(crate) code: &'static str,
    /// The part as the message names it, e.g. `sda`, `0000:3b:00.0`, `3` for a CPU.
    pub(crate) subject: Option<&'a str>,
    /// The message.
    pub(crate) text: &'a str,
}

/// Reads a record of `/dev/kmsg`: `PRIORITY,SEQUENCE,TIME,FLAGS;TEXT`, then lines that begin with a blank.
/// `None` for messages of other programs, and for those without a meaning here.
pub(crate) fn message(record: &str) -> Option<Message<'_>> {
    let text = kernel_text(record)?;
    let row = ROWS.iter().find(|row| row.fits(text)).filter(|row| row.code != QUOTE)?;
    Some(Message { code: row.code, subject: subject_of(text, row.subject), text })
}

/// The first line of a record of the kernel itself.
pub(crate) fn kernel_text(record: &str) -> Option<&str> {
    let (prefix, text) = record.split_once(';')?;
    let priority: u32 = prefix.split(',').next()?.trim().parse().ok()?;
    // The facility is above the three bits of the level; programs that write to the log have another.
    text.lines().next().filter(|_| priority < 8)
}

/// The code of messages that quote what somebody else wrote, which may look like an error.
const QUOTE: &str = "quote";

/// A line of the file.
struct Row {
    code: &'static str,
    subject: &'static str,
    /// Its pieces as a pattern.
    wanted: String,
    /// A word with a colon may come before it.
    may_follow_function: bool,
    unwanted: Vec<&'static str>,
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| data::rows(PATTERNS).filter_map(row).collect());

fn row(line: &'static str) -> Option<Row> {
    let [code, subject, pieces] = data::cells(line)?;
    let mut parts = pieces.split('!').map(str::trim);
    let wanted: Vec<&str> = parts.next()?.split('*').map(str::trim).collect();
    let wanted = wanted.join("*");
    Some(Row {
        code,
        subject,
        wanted: match wanted.strip_prefix(['^', '~']) {
            Some(start) => format!("{start}*"),
            None => format!("*{wanted}*"),
        },
        may_follow_function: wanted.starts_with('~'),
        unwanted: parts.collect(),
    })
}

impl Row {
    fn fits(&self, text: &str) -> bool {
        let text =
            if self.subject == DEVICE { of_device(text).map(|(_, text)| text) } else { Some(text) };
        text.is_some_and(|text| self.is_in(text))
    }

    fn is_in(&self, text: &str) -> bool {
        let function = text.split_once(": ").filter(|(name, _)| !name.contains(' '));
        let rest = function.filter(|_| self.may_follow_function).map(|(_, rest)| rest);
        let fits = |text: &str| matches(&self.wanted, text);
        (fits(text) || rest.is_some_and(fits))
            && !self.unwanted.iter().any(|piece| text.contains(piece))
    }
}

/// The subject of messages that begin with the driver and the address of a PCI device, as `pci_err()` writes them.
const DEVICE: &str = "device";

/// The address and the rest of such a message. Anywhere else an address may be part of a name.
fn of_device(text: &str) -> Option<(&str, &str)> {
    let (_driver, rest) = text.split_once(' ')?;
    let (place, message) = rest.split_once(": ")?;
    // Messages of a network port have its name after the address.
    let address = place.split(' ').next()?;
    is_pci_address(address).then_some((address, message))
}

fn trimmed(word: &str) -> &str {
    word.trim_end_matches(['.', ':', '-'])
}

fn subject_of<'a>(text: &'a str, place: &str) -> Option<&'a str> {
    let is_part = |c: char| c.is_alphanumeric() || "._-:#".contains(c);
    let word = |text: &'a str| {
        let text = text.trim_start_matches([' ', '#', ':']);
        let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
        let word = trimmed(text.get(..end).unwrap_or_default());
        (!word.is_empty()).then_some(word)
    };
    match place {
        "-" => None,
        DEVICE => of_device(text).map(|(address, _)| address),
        "pci" => text.split(|c: char| !is_part(c)).map(trimmed).find(|word| is_pci_address(word)),
        // The port stands in front: `ata1.00: failed command: …`.
        "failed command" => word(text),
        // Driver and address come before the name, the state of a port that goes may come after it.
        ": NETDEV" => {
            let before = text.split(place).next()?.split(" (").next()?;
            word(before.rsplit(' ').next()?)
        }
        // The name includes the end of what introduces it.
        "nvme nvme" => word(text.get(text.find("nvme nvme")? + 5..)?),
        _ => {
            let after = |place: &str| text.get(text.find(place)? + place.len()..);
            // Labels of the firmware have several words.
            let Some(place) = place.strip_prefix("label ") else { return word(after(place)?) };
            let label = after(place)?.split(" (").next()?.trim();
            (!label.is_empty()).then_some(label)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_faults_name_their_part_and_those_of_healthy_machines_are_ignored() {
        for row in data::rows(include_str!("../data/kernel-log-samples.txt")) {
            let [code, subject, text] = data::cells(row).unwrap();
            let record = format!("3,812,5140900,-;{text}\n SUBSYSTEM=x\n");
            let found = message(&record).map(|m| (m.code, m.subject.unwrap_or("-")));
            assert_eq!(found.unwrap_or(("-", "-")), (code, subject), "{text}");
        }
        assert_eq!(message("12,1,1,-;I/O error, dev sda, sector 5\n"), None, "of a program");
        assert_eq!(message("I/O error, dev sda"), None);
    }

    #[test]
    fn every_pattern_has_a_known_code_and_a_piece() {
        assert_eq!(ROWS.len(), data::rows(PATTERNS).count());
        for Row { code, subject, wanted, .. } in ROWS.iter().filter(|row| row.code != QUOTE) {
            assert!(crate::findings::row(code).is_some(), "{code}");
            assert!(!subject.is_empty() && wanted.len() > 10, "{wanted}");
        }
    }
}
