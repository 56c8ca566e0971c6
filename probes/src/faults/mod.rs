//! Faults: findings about the same part joined into one diagnosis, with the parts that may have caused
//! it, how certain that is, and the evidence of each source.
//!
//! The model is a fault manager's list of suspects, as that of illumos (`fmadm faulty`): a fault has a
//! class, suspects with a certainty that adds up to at most 100 %, and for each suspect the unit that a
//! technician replaces and the label by which it is found. `rules` says which findings are signs of a
//! fault; `parts` finds the part that a finding names.

mod parts;
mod rules;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::collect::Inventory;
use crate::findings::{Finding, FindingCode, Severity};
use crate::parts::PartId;
use parts::Parts;
use rules::Rule;
pub use rules::codes_of;

/// Something broken, the parts that may be the cause, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// The kind of fault, e.g. `memory.dimm.uncorrectable`.
    pub class: String,
    /// The worst severity of its findings.
    pub severity: Severity,
    /// The parts that may be the cause, the most likely one first; empty if no part is known. At most 100: their
    /// certainties add up to at most 100 %.
    pub suspects: Vec<Suspect>,
    /// The observations of each source.
    pub evidence: Vec<Evidence>,
    /// The next step for people.
    pub advice: String,
}

impl Fault {
    /// True if `finding` is among its evidence.
    pub fn is_shown_by(&self, finding: &Finding) -> bool {
        self.evidence.iter().any(|evidence| evidence.is_of(finding))
    }
}

impl Evidence {
    /// True if `finding` reports it.
    pub fn is_of(&self, finding: &Finding) -> bool {
        self.finding == finding.code
            && self.locator == finding.locator
            && self.observed == finding.evidence
    }
}

/// A part that may be the cause of a fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Suspect {
    /// Kind and name of the part, e.g. `DIMM P1-DIMMA1`, `disk sda`, `NIC eno1`.
    pub part: String,
    /// Its place, as printed on the board, bay or slot, e.g. `P1-DIMMA1`, `bay 3`, `slot 4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The unit to replace, as its own label identifies it; absent if nothing of it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fru: Option<ReplaceableUnit>,
    /// Certainty that this part is the cause, 1 to 99.
    #[schemars(range(min = 1, max = 99))]
    pub certainty_percent: u8,
}

/// The text that is printed on a replaceable unit.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReplaceableUnit {
    /// Manufacturer.
    pub manufacturer: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Part number, by which a replacement is ordered.
    pub part_number: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
}

/// The observation of one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The source, e.g. `EDAC`, `SMART`, `system event log`, `kernel log`.
    pub source: String,
    /// The finding that reports it.
    pub finding: FindingCode,
    /// The subject of that finding; absent if it is about the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub locator: Option<PartId>,
    /// The observation, with figures.
    pub observed: String,
    /// The first message of the kernel log about the part; absent for other sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
}

/// A finding as a sign of a fault: its rule, and how certain it makes each part.
struct Sign<'a> {
    finding: &'a Finding,
    rule: &'static Rule,
    /// Indices of parts, each with a certainty in percent.
    suspects: Vec<(usize, u8)>,
    /// The same by part: a machine can have thousands, and each sign is compared with each case.
    certainties: BTreeMap<usize, u8>,
}

/// A fault while it is put together.
struct Case<'a> {
    group: &'static str,
    suspects: Vec<(usize, u8)>,
    signs: Vec<Sign<'a>>,
}

/// Joins the findings of `inventory` into faults, worst first. Findings that are not a sign of a fault, such as an
/// identifier that was never set, are left out.
pub fn faults(inventory: &Inventory, findings: &[Finding]) -> Vec<Fault> {
    let mut parts = Parts::new(inventory);
    let sign = |finding| {
        let rule = rules::rule(finding)?;
        let suspects = rule.suspects(finding, &mut parts);
        let certainties = suspects.iter().copied().collect();
        Some(Sign { finding, rule, suspects, certainties })
    };
    let mut signs: Vec<Sign> = findings.iter().filter_map(sign).collect();
    // What names one part comes first, so that vaguer signs can support it. Notices come last: they
    // support a fault and never make one.
    signs.sort_by_key(|sign| (sign.finding.severity == Severity::Info, sign.suspects.len()));
    let mut cases: Vec<Case> = Vec::new();
    for sign in signs {
        let shared = |case: &&mut Case| case.group == sign.rule.group && case.shares(&sign);
        let mut known = cases.iter_mut().filter(shared);
        match (known.next(), known.next()) {
            (Some(case), None) => case.support(sign),
            _ if sign.finding.severity == Severity::Info => {}
            _ => {
                let (group, suspects) = (sign.rule.group, sign.suspects.clone());
                cases.push(Case { group, suspects, signs: vec![sign] });
            }
        }
    }
    let mut faults: Vec<Fault> = cases.into_iter().filter_map(|case| case.fault(&parts)).collect();
    faults.sort_by_key(|fault| Reverse(fault.severity));
    faults
}

impl<'a> Case<'a> {
    fn shares(&self, sign: &Sign) -> bool {
        self.suspects.iter().any(|(part, _)| sign.certainties.contains_key(part))
    }

    /// Adds another sign. It makes the suspects that it shares more certain and adds none: facts about one part reveal
    /// nothing new about the others that the sign may mean.
    fn support(&mut self, sign: Sign<'a>) {
        for (part, certainty) in &mut self.suspects {
            let more = sign.certainties.get(part);
            *certainty = more.map_or(*certainty, |more| combine(*certainty, *more));
        }
        self.signs.push(sign);
    }

    fn fault(mut self, parts: &Parts) -> Option<Fault> {
        self.suspects.sort_by_key(|(_, certainty)| Reverse(*certainty));
        let (known, certainties): (Vec<usize>, Vec<u8>) = self.suspects.iter().copied().unzip();
        let suspects = known.into_iter().zip(limited(&certainties));
        let suspects = suspects.filter_map(|(part, certainty)| parts.suspect(part, certainty));
        // The worst sign names the fault; of equally bad ones the most certain.
        let weight = |sign: &&Sign| (sign.finding.severity, sign.rule.certainty);
        let main = self.signs.iter().rev().max_by_key(weight)?;
        let evidence = self.signs.iter().map(|sign| Evidence {
            source: sign.rule.source.to_owned(),
            finding: sign.finding.code.clone(),
            locator: sign.finding.locator.clone(),
            observed: sign.finding.evidence.clone(),
            raw: sign.finding.raw.clone(),
        });
        Some(Fault {
            class: main.rule.class.to_owned(),
            severity: main.finding.severity,
            suspects: suspects.collect(),
            evidence: evidence.collect(),
            advice: main.finding.advice.clone(),
        })
    }
}

/// Certainties in falling order so that they add up to at most 100 %, each of them 1 to 99 %.
fn limited(certainties: &[u8]) -> Vec<u8> {
    let sum: u32 = certainties.iter().map(|certainty| u32::from(*certainty)).sum();
    // Independent causes: all signs together never make more than 100 %.
    let scaled = |certainty: &u8| match sum {
        0..=100 => *certainty,
        _ => u8::try_from(u32::from(*certainty) * 100 / sum).unwrap_or(99),
    };
    let mut all: Vec<u8> = certainties.iter().take(100).map(|c| scaled(c).clamp(1, 99)).collect();
    // Rounding up to 1 % takes from the others, the last of the largest ones first, which keeps the order.
    while all.iter().map(|certainty| u32::from(*certainty)).sum::<u32>() > 100
        && let Some(largest) = all.iter_mut().max()
    {
        *largest -= 1;
    }
    all
}

/// The certainty from two independent signs of the same cause.
fn combine(a: u8, b: u8) -> u8 {
    let doubt = u16::from(100 - a.min(100)) * u16::from(100 - b.min(100)) / 100;
    u8::try_from(100 - doubt).unwrap_or(99).min(99)
}

#[cfg(test)]
mod tests;
