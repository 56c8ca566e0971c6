//! Errors that the firmware handles first and reports to the kernel, which logs each as several lines with one number,
//! such as `{3}[Hardware Error]:   section_type: memory error` (`drivers/acpi/apei/ghes.c`, `drivers/firmware/efi/cper.c`).
//!
//! The severity and the part are on different lines, so the lines are joined before they are judged. Lines without a
//! number are those of table BERT, which is read itself.

use std::collections::BTreeMap;

use crate::kernel_messages::{Message, kernel_text};
use crate::pci_address::is_pci_address;

const MARK: &str = "[Hardware Error]:";
/// Prefixes of the lines that are kept: severity, unit and part. Others contain addresses of memory and serial numbers.
const KEPT: [&str; 10] = [
    "event severity: ",
    "Error ",
    "fru_text: ",
    "section_type: ",
    "node:",
    "card:",
    "module:",
    "error_type: ",
    LOCATION,
    DEVICE,
];
const LOCATION: &str = "DIMM location: ";
const DEVICE: &str = "device_id: ";
/// The most lines of one error that are kept: one of each kind.
const MOST_LINES: usize = 8;

/// The number of the report and the text, if the record is a line of one that is kept.
pub(crate) fn line(record: &str) -> Option<(&str, &str)> {
    let (number, text) = kernel_text(record)?.split_once(MARK)?;
    let inner = number.strip_prefix('{')?.strip_suffix('}')?;
    let text = text.trim();
    let is_kept = inner.bytes().all(|byte| byte.is_ascii_digit())
        && KEPT.iter().any(|start| text.starts_with(start));
    is_kept.then_some((number, text))
}

/// One error of a report.
#[derive(Debug, Default)]
pub(crate) struct FirmwareReport<'a> {
    severity: &'a str,
    kind: &'a str,
    unit: Option<&'a str>,
    part: Option<&'a str>,
    /// The lines, joined.
    text: String,
    n_lines: usize,
}

/// The errors in the log, in the order in which they end.
pub(crate) fn reports(log: &str) -> Vec<FirmwareReport<'_>> {
    let mut open: BTreeMap<&str, FirmwareReport> = BTreeMap::new();
    let mut found = Vec::new();
    for (number, text) in log.lines().filter_map(line) {
        let report = open.entry(number).or_default();
        let severity = match text.strip_prefix("Error ") {
            Some(rest) => rest.split_once(", type: ").map(|(_, severity)| severity),
            None => text.strip_prefix("event severity: "),
        };
        if let Some(severity) = severity {
            found.push(std::mem::take(report));
            report.severity = severity;
        }
        report.add(text);
    }
    found.extend(open.into_values());
    found
}

impl<'a> FirmwareReport<'a> {
    fn add(&mut self, line: &'a str) {
        if let Some(kind) = line.strip_prefix("section_type: ") {
            self.kind = kind;
        } else if let Some(unit) = line.strip_prefix("fru_text: ") {
            self.unit = Some(unit.trim()).filter(|unit| !unit.is_empty());
        } else if let Some(part) = line.strip_prefix(LOCATION) {
            self.part = Some(part).filter(|part| !part.starts_with("not present"));
        } else if let Some(address) = line.strip_prefix(DEVICE) {
            self.part = Some(address).filter(|address| is_pci_address(address));
        }
        if self.n_lines < MOST_LINES {
            self.text.push_str(if self.n_lines == 0 { MARK } else { ";" });
            self.text.push(' ');
            self.text.push_str(line);
            self.n_lines += 1;
        }
    }

    /// The fault that the error shows; `None` if it is not a fault, as an error that a `PCIe` link or a processor
    /// corrected.
    pub(crate) fn message(&self) -> Option<Message<'_>> {
        let (code, subject) = match (self.kind, self.severity) {
            ("memory error", "corrected" | "recoverable" | "fatal") => {
                ("memory.kernel_errors", self.part.or(self.unit))
            }
            ("PCIe error", "fatal") => ("pci.aer.fatal", self.part),
            ("PCIe error", "recoverable") => ("pci.kernel_errors", self.part),
            (kind, "recoverable" | "fatal") if kind.ends_with("processor error") => {
                ("cpu.kernel_errors", None)
            }
            _ => return None,
        };
        Some(Message { code, subject, text: &self.text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code and subject of the faults in a report with these lines.
    fn found(lines: &[&str]) -> Vec<(&'static str, Option<String>)> {
        let record = |line: &&str| format!("2,900,7000000,-;{{1}}[Hardware Error]: {line}\n");
        let log: String = lines.iter().map(record).collect();
        let reports = reports(&log);
        let found = reports.iter().filter_map(FirmwareReport::message);
        found.map(|m| (m.code, m.subject.map(str::to_owned))).collect()
    }

    #[test]
    fn memory_error_names_its_slot_or_its_unit() {
        let start = ["event severity: corrected", " Error 0, type: corrected", " fru_text: A7"];
        let with = |location: &str| {
            let lines = ["  section_type: memory error", "  node: 0 card: 1", location];
            found(&[&start[..], &lines].concat())
        };
        let code = "memory.kernel_errors";
        let slot = Some("NODE 1 DIMM_A1".to_owned());
        assert_eq!(with("  DIMM location: NODE 1 DIMM_A1 "), [(code, slot)]);
        let unit = Some("A7".to_owned());
        assert_eq!(with("  DIMM location: not present. DMI handle: 0x1100 "), [(code, unit)]);
    }

    #[test]
    fn severity_is_that_of_the_section() {
        let of = |severity: &str| {
            let section = format!(" Error 0, type: {severity}");
            let device = "  device_id: 0000:3b:00.0";
            let vendor = "  vendor_id: 0x15b3, device_id: 0x1017";
            let kind = "  section_type: PCIe error";
            found(&["event severity: fatal", &section, kind, device, vendor])
        };
        let address = Some("0000:3b:00.0".to_owned());
        assert_eq!(of("recoverable"), [("pci.kernel_errors", address.clone())]);
        assert_eq!(of("fatal"), [("pci.aer.fatal", address)]);
        assert!(of("corrected").is_empty() && of("info").is_empty() && of("x").is_empty());
    }

    #[test]
    fn each_section_of_a_report_is_an_error_of_its_own() {
        let lines = [
            "event severity: recoverable",
            " Error 0, type: recoverable",
            "  section_type: ARM processor error",
            " Error 1, type: recoverable",
            "  section_type: memory error",
            "  error_type: 3, multi-bit ECC",
        ];
        assert_eq!(found(&lines), [("cpu.kernel_errors", None), ("memory.kernel_errors", None)]);
    }

    #[test]
    fn mixed_reports_are_joined_by_their_number_and_keep_the_lines() {
        let log = "2,1,1,-;{7}[Hardware Error]: event severity: fatal\n\
            2,2,2,-;{8}[Hardware Error]: event severity: corrected\n\
            2,3,3,-;{7}[Hardware Error]:   section_type: memory error\n\
            2,4,4,-;{8}[Hardware Error]:   section_type: PCIe error\n";
        let reports = reports(log);
        let texts: Vec<&str> =
            reports.iter().filter_map(FirmwareReport::message).map(|m| m.text).collect();
        let text = "[Hardware Error]: event severity: fatal; section_type: memory error";
        assert_eq!(texts, [text]);
    }

    #[test]
    fn only_lines_with_a_number_and_a_known_start_are_kept() {
        let with = |text: &str| line(&format!("2,1,1,-;{text}")).is_some();
        assert!(with("{12}[Hardware Error]: fru_text: A7"));
        for text in [
            "[Hardware Error]: section_type: memory error",
            "{x}[Hardware Error]: section_type: memory error",
            "mce: [Hardware Error]: Machine check events logged",
            "{1}[Hardware Error]:   physical_address: 0x0000001234567000",
            "{1}[Hardware Error]:   serial number: 0x1234, 0x5678",
            "section_type: memory error",
        ] {
            assert!(!with(text), "{text}");
        }
        assert!(line("12,1,1,-;{1}[Hardware Error]: fru_text: A7").is_none(), "of a program");
    }

    #[test]
    fn endless_report_keeps_its_first_lines_only() {
        let record = "2,1,1,-;{1}[Hardware Error]: node: 0 card: 1\n";
        let log = record.repeat(1000) + "2,1,1,-;{1}[Hardware Error]: fru_text: A7\n";
        let reports = reports(&log);
        assert!(reports.len() == 1 && reports[0].text.len() < 200, "{}", reports[0].text);
        assert_eq!(reports[0].unit, Some("A7"));
    }
}
