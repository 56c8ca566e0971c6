//! The text of a QR code: the machine, then its worst faults with code, part and place, then advice.

use probes::faults::{Fault, Suspect};
use probes::findings::{Finding, Severity};

use crate::clean;
use crate::machine_name::machine_name;
use crate::report::Report;

/// The longest line, in characters. A code on a usual terminal holds about 130 bytes.
const MAX_LINE_CHARS: usize = 120;
/// The longest single value within a line.
const MAX_VALUE_CHARS: usize = 40;
/// The same in the shortest text.
const MAX_SHORT_CHARS: usize = 90;
/// Lengths for the only line of the shortest texts; the smallest code has 17 bytes, and an ellipsis has 3.
const LEAST_CHARS: [usize; 4] = [48, 32, 24, 15];
/// Maximum number of faults to list; more are only counted.
const MAX_ENTRIES: usize = 50;

/// The text for a machine without faults.
const SOUND: &str = "no critical finding, no warning";

/// The lines of a QR code. The first ones are always there; the others are cut where the code would not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The machine, and the event to report.
    head: Vec<String>,
    /// The lines for each fault.
    entries: Vec<Vec<String>>,
    /// Number of lines of the head that name the machine: the person who reads the code is probably next to it.
    n_machine: usize,
    /// Number of faults without an entry.
    n_more: usize,
    /// Number of leading entries that are not faults. If there are any, every entry may be cut.
    n_reasons: usize,
}

impl Summary {
    /// Summarises the faults of the machine in `report`.
    pub fn of(report: &Report) -> Self {
        let machine = machine_name(report.machine.as_ref(), &report.node_id);
        let findings: Vec<&Finding> = report.findings.iter().filter(|f| is_fault(f)).collect();
        Self::new(&machine, None, &findings, &report.faults, report.problems.len())
    }

    /// Lists the worst of the sorted `findings` first, after the `machine` and `what` happened to it.
    ///
    /// A finding that is a sign of one of the `faults` names that fault's part. Each fault is named once.
    pub fn new(
        machine: &str,
        what: Option<&str>,
        findings: &[&Finding],
        faults: &[Fault],
        n_unread: usize,
    ) -> Self {
        let mut named: Vec<&Fault> = Vec::new();
        let mut entries = Vec::new();
        for finding in findings {
            let fault = faults.iter().find(|fault| fault.is_shown_by(finding));
            if fault.is_some_and(|fault| named.iter().any(|known| std::ptr::eq(*known, fault))) {
                continue;
            }
            named.extend(fault);
            entries.push(entry(finding, fault));
        }
        let unread = format!("{n_unread} values were unreadable; faults may be missed");
        let n_machine = machine.lines().count();
        let mut head: Vec<String> = machine.lines().chain(what).map(line).collect();
        if entries.is_empty() {
            head.push(SOUND.to_owned());
            head.extend((n_unread > 0).then_some(unread));
        } else if n_unread > 0 {
            entries.push(vec![unread]);
        }
        let n_more = entries.len().saturating_sub(MAX_ENTRIES);
        entries.truncate(MAX_ENTRIES);
        Self { head, entries, n_machine, n_more, n_reasons: 0 }
    }

    /// Adds details of the event before the faults. The line that reports a sound machine is dropped.
    pub fn because(mut self, reason: &[String]) -> Self {
        if !reason.is_empty() {
            self.head.retain(|line| line != SOUND);
            self.entries.insert(0, reason.iter().map(|text| line(text)).collect());
            self.n_reasons = 1;
        }
        self
    }

    /// Returns the whole text first, then shorter ones, cut at a fault line, then at a machine line. The last ones have
    /// only the worst fault, then its part, and in the end only the machine.
    pub(super) fn texts(&self) -> impl Iterator<Item = String> {
        let n_lines = self.entries.iter().map(Vec::len).sum::<usize>();
        let n_least = if self.n_reasons == 0 { n_lines.min(1) } else { 0 };
        let of_faults = (n_least..=n_lines).rev().map(|n_lines| self.text(0, n_lines));
        let of_machine = (1..=self.n_machine).map(move |n_cut| self.text(n_cut, n_least));
        let last = self.text(self.n_machine, n_least);
        let last = last.lines().map(|text| clean::text(text, MAX_SHORT_CHARS)).collect::<Vec<_>>();
        of_faults.chain(of_machine).chain([last.join("\n")]).chain(self.least())
    }

    /// Returns one-line texts, the longest first.
    fn least(&self) -> impl Iterator<Item = String> {
        let (machine, others) = self.head.split_at(self.n_machine.min(self.head.len()));
        let fault = self.entries.first().filter(|_| self.n_reasons == 0);
        let line = fault.and_then(|entry| entry.first()).or_else(|| others.first());
        let line = line.map(String::as_str).unwrap_or_default();
        let without_severity = line.split_once(' ').map_or(line, |(_, rest)| rest);
        let part = line.split_once(": ").map_or(line, |(_, part)| part);
        let of_fault = match fault {
            Some(_) => vec![line, without_severity, part],
            None => vec![line],
        };
        let cut = LEAST_CHARS.map(|n_chars| clean::text(of_fault.last().unwrap_or(&""), n_chars));
        let texts = of_fault.into_iter().map(str::to_owned).chain(cut);
        let machine = machine.last().map(String::as_str).unwrap_or_default();
        let machine =
            [machine.to_owned(), clean::text(machine, LEAST_CHARS[LEAST_CHARS.len() - 1])];
        let texts: Vec<String> = texts.chain(machine).filter(|text| !text.is_empty()).collect();
        texts.into_iter()
    }

    /// The head without its first `n_cut` lines, and `n_lines` of the entries.
    fn text(&self, n_cut: usize, n_lines: usize) -> String {
        let mut lines: Vec<String> = self.head.iter().skip(n_cut).cloned().collect();
        let mut n_more = self.n_more;
        let mut left = n_lines;
        for (index, entry) in self.entries.iter().enumerate() {
            n_more += usize::from(left == 0 && index >= self.n_reasons);
            lines.extend(entry.iter().take(left).cloned());
            left = left.saturating_sub(entry.len());
        }
        lines.extend((n_more > 0).then(|| format!("and {n_more} more")));
        lines.join("\n")
    }
}

/// Returns true if a finding is worth a line in a small code.
pub fn is_fault(finding: &Finding) -> bool {
    finding.severity != Severity::Info
}

/// Describes the fault and its part, then the advice.
fn entry(finding: &Finding, fault: Option<&Fault>) -> Vec<String> {
    let severity = finding.severity.as_str();
    let suspects = fault.and_then(|fault| part(&fault.suspects));
    let part = suspects.unwrap_or_else(|| {
        format!("{} {}", finding.component, finding.part()).trim_end().to_owned()
    });
    let advice = finding.advice.as_str();
    vec![
        line(&format!("{severity} {}: {part}", finding.code)),
        // Its first sentence.
        line(advice.find(". ").map_or(advice, |end| &advice[..=end])),
    ]
}

/// The most likely part, its place and its serial number, and how many others may be the cause; `None` if none is known.
fn part(suspects: &[Suspect]) -> Option<String> {
    let suspect = suspects.first()?;
    let place = suspect.label.as_ref().filter(|label| !suspect.part.contains(label.as_str()));
    let place = place.map(|label| format!(" in {}", clean::text(label, MAX_VALUE_CHARS)));
    let serial = suspect.fru.as_ref().and_then(|unit| unit.serial.as_ref());
    let serial = serial.map(|serial| format!(", serial {}", clean::text(serial, MAX_VALUE_CHARS)));
    let others = match suspects.len() {
        1 => String::new(),
        n => format!(", or {} other{}", n - 1, if n == 2 { "" } else { "s" }),
    };
    let name = clean::text(&suspect.part, MAX_VALUE_CHARS);
    Some([name, place.unwrap_or_default(), serial.unwrap_or_default(), others].concat())
}

fn line(text: &str) -> String {
    clean::text(text, MAX_LINE_CHARS)
}
