//! Rows for machines that are other than expected: the agent compares a report with the expectations in a file or an
//! instruction.

use super::super::Severity::{Critical, Warning};
use super::row_table;

/// Source of expectations.
const SOURCE: &str = "The report, compared with the file of `--expect` or with `expect` in the VIM's instruction; see \
                      docs/expectations.md.";

row_table! {
    EXPECTATION_MISSING = "expectation.missing" Critical or Warning of "any" {
        meaning: "The machine has fewer parts of a kind than expected. It is a warning if the expectations say \
                  severity: warning.",
        source: SOURCE,
        advice: "Insert the part, or correct the expectation.",
        false_alarms: "A part fulfils one expectation only, and as many expectations as possible are fulfilled, so \
                       the order of the entries does not matter.",
    };
    EXPECTATION_MISMATCH = "expectation.mismatch" Critical or Warning of "any" {
        meaning: "A part has another value than expected, such as another size, firmware version or neighbour. It \
                  is a warning if the expectations say severity: warning.",
        source: SOURCE,
        advice: "Replace, update or recable the part, or correct the expectation.",
        false_alarms: "Of the parts that fulfil no expectation, the one that is nearest is named. An exact size may \
                       differ by 1 %.",
    };
    EXPECTATION_UNKNOWN = "expectation.unknown" Warning or Critical of "any" {
        meaning: "The report does not contain a value that is expected, so nobody can say whether the machine has \
                  it. It is critical if the expectations say severity: critical.",
        source: SOURCE,
        advice: "Look for the reason among the problems of the report. Neighbours need a link, and with --expect also \
                 --lldp-wait.",
        false_alarms: "A value that is not known is never treated as met, nor as other than expected.",
    };
    EXPECTATION_SURPLUS = "expectation.surplus" Warning or Critical of "any" {
        meaning: "The machine has more parts of a kind than expected. It is critical if the expectations say \
                  severity: critical.",
        source: SOURCE,
        advice: "Remove the part, or correct the expectation.",
        false_alarms: "A part that no expectation fits is ignored unless the expectations say others: report.",
    };
}
