//! Counters of Advanced Error Reporting: `aer_dev_{correctable,nonfatal,fatal}`
//! (`Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats`), since Linux 4.19.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Attributes;
use crate::machine::{Machine, quote};

/// Errors that the kernel has counted since boot.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Aer {
    /// Errors that the link corrected.
    pub n_correctable: Option<u64>,
    /// Errors that lost a transaction.
    pub n_nonfatal: Option<u64>,
    /// Errors that lost the link.
    pub n_fatal: Option<u64>,
    /// The kinds of errors that occurred, by the kernel's name, e.g. `BadTLP`; kinds with count 0 are omitted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<String, u64>,
}

/// Reads the counters of a device; `None` if the kernel has none.
pub(super) fn read(machine: &Machine, attributes: &Attributes) -> Option<Aer> {
    let mut kinds = BTreeMap::new();
    let mut total = |name: &str| -> Option<u64> {
        let path = attributes.at(name)?;
        let (text, _) = machine.text_with_end(&path)?;
        let parsed = parse(&text, &mut kinds);
        parsed
            .map_err(|found| machine.problem(&path, found, "a count of each kind and a total"))
            .ok()
    };
    let n_correctable = total("aer_dev_correctable");
    let (n_nonfatal, n_fatal) = (total("aer_dev_nonfatal"), total("aer_dev_fatal"));
    let aer = Aer { n_correctable, n_nonfatal, n_fatal, kinds };
    (aer != Aer::default()).then_some(aer)
}

/// Lines `NAME COUNT`, the last of them `TOTAL_ERR_… COUNT`; without that line the sum of the rest. The
/// total counts messages, each with one or more kinds, so the two may differ, but not if the total is 0.
///
/// # Errors
/// What was found: a line without a count, a total of 0 next to errors, or nothing.
fn parse(text: &str, kinds: &mut BTreeMap<String, u64>) -> Result<u64, String> {
    let (mut total, mut sum, mut bad) = (None, 0_u64, None);
    for line in text.lines() {
        let fields = line.trim().rsplit_once(' ');
        let Some((name, Ok(count))) = fields.map(|(name, n)| (name, n.parse::<u64>())) else {
            bad = bad.or(Some(line));
            continue;
        };
        if name.starts_with("TOTAL_ERR_") {
            total = Some(count);
            continue;
        }
        sum = sum.saturating_add(count);
        if count > 0 {
            let kind = kinds.entry(name.to_owned()).or_insert(0);
            *kind = kind.saturating_add(count);
        }
    }
    match (bad, total) {
        (Some(line), _) => Err(quote(line)),
        (None, _) if text.is_empty() => Err("an empty file".to_owned()),
        (None, Some(0)) if sum > 0 => Err(format!("a total of 0 next to {sum} errors")),
        (None, total) => Ok(total.unwrap_or(sum)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_and_the_kinds_that_occurred_are_read() {
        let mut kinds = BTreeMap::new();
        let text = "RxErr 0\nBadTLP 2\nBadDLLP 1\nTOTAL_ERR_COR 3\n";
        assert_eq!(parse(text, &mut kinds), Ok(3));
        assert_eq!(kinds.len(), 2);
        assert_eq!(parse("BadTLP 2", &mut kinds), Ok(2));
    }

    #[test]
    fn count_that_is_missing_or_contradictory_is_an_error() {
        let too_large = "DLP 0\nTOTAL_ERR_FATAL 99999999999999999999\n";
        for text in ["", "nothing", "BadTLP 2\nBad", too_large, "DLP 3\nTOTAL_ERR_FATAL 0\n"] {
            let mut kinds = BTreeMap::new();
            assert!(parse(text, &mut kinds).is_err(), "{text}");
        }
    }
}
