//! Findings that are signs of a fault, the cause that each suggests, and its certainty: `data/faults.txt`.

use std::sync::LazyLock;

use formats::data;

use super::parts::Parts;
use crate::findings::Finding;

/// The cause that one code suggests, as the file explains.
#[derive(Debug)]
pub(super) struct Rule {
    code: &'static str,
    pub(super) class: &'static str,
    pub(super) source: &'static str,
    pub(super) group: &'static str,
    pub(super) certainty: u8,
    suspects: &'static str,
}

static RULES: LazyLock<Vec<Rule>> =
    LazyLock::new(|| data::rows(FILE).filter_map(Rule::parse).collect());
const FILE: &str = include_str!("../../data/faults.txt");

/// The rule of a finding; `None` if it is not a sign of a fault.
pub(super) fn rule(finding: &Finding) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.code == finding.code.as_str())
}

/// The codes of the findings from which a fault of `class` is concluded; none if the class does not exist.
pub fn codes_of(class: &str) -> impl Iterator<Item = &'static str> {
    RULES.iter().filter(move |rule| rule.class == class).map(|rule| rule.code)
}

impl Rule {
    fn parse(row: &'static str) -> Option<Rule> {
        let [code, class, source, group, certainty, suspects] = data::cells(row)?;
        Some(Rule { code, class, source, group, certainty: certainty.parse().ok()?, suspects })
    }

    /// The parts that `finding` makes suspect.
    pub(super) fn suspects(&self, finding: &Finding, parts: &mut Parts) -> Vec<(usize, u8)> {
        match self.suspects {
            "named" => shared(parts.named(finding), self.certainty),
            "dimms" => shared(parts.dimms(finding), self.certainty),
            "processors" => shared(parts.processors(), self.certainty),
            "card and slot" => {
                let slot = parts.slot_of(finding);
                weighed(parts.named(finding), slot, self.certainty)
            }
            "port and module" => {
                let module = parts.module_of(finding);
                let card = parts.named(finding);
                match module {
                    Some(module) => weighed(vec![module], card.first().copied(), self.certainty),
                    // Most likely the cable or the switch port, and neither is known here.
                    None => shared(card, self.certainty / 2),
                }
            }
            // `nothing`, or the name of a part.
            other => {
                let only = other.strip_prefix("= ").map(|name| parts.other(name, None));
                shared(only.into_iter().collect(), self.certainty)
            }
        }
    }
}

/// Equal shares for parts that nothing distinguishes.
fn shared(parts: Vec<usize>, certainty: u8) -> Vec<(usize, u8)> {
    let n = u8::try_from(parts.len()).unwrap_or(u8::MAX).max(1);
    parts.into_iter().map(|part| (part, (certainty / n).max(1))).collect()
}

/// Two thirds for the most likely parts, one third for the other part.
fn weighed(likely: Vec<usize>, other: Option<usize>, certainty: u8) -> Vec<(usize, u8)> {
    let Some(other) = other.filter(|part| !likely.contains(part)) else {
        return shared(likely, certainty);
    };
    let third = certainty / 3;
    let mut all = shared(likely, certainty - third);
    all.push((other, third));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::rows;

    #[test]
    fn every_rule_is_read_and_names_a_known_code_once() {
        assert_eq!(RULES.len(), data::rows(FILE).count());
        let suspects =
            ["named", "dimms", "processors", "card and slot", "port and module", "nothing"];
        for (at, rule) in RULES.iter().enumerate() {
            assert!(["broken", "heat", "link", "setup"].contains(&rule.group), "{}", rule.code);
            assert!(suspects.contains(&rule.suspects) || rule.suspects.starts_with("= "));
            assert!(rows().any(|row| row.code == rule.code), "{}", rule.code);
            assert!(RULES[..at].iter().all(|other| other.code != rule.code), "{}", rule.code);
            assert!((1..100).contains(&rule.certainty), "{}", rule.code);
        }
    }

    #[test]
    fn every_warning_is_a_sign_of_a_fault_or_says_nothing_about_a_part() {
        use crate::findings::Severity;
        let no_fault = [
            "disk.duplicate_identity",
            "disk.locked",
            "disk.none_eligible",
            "disk.raid_drive_foreign",
            "bmc.event_log.full",
            "nic.duplicate_mac",
            "os.clock_skew",
            "nic.firmware_lldp",
        ];
        // An expectation says what the owner wants, not what is broken.
        let of_hardware = rows().filter(|row| !row.code.starts_with("expectation."));
        for row in of_hardware.filter(|row| row.severities().any(|s| s >= Severity::Warning)) {
            let is_sign = RULES.iter().any(|rule| rule.code == row.code);
            assert_ne!(is_sign, no_fault.contains(&row.code), "{}", row.code);
        }
    }
}
