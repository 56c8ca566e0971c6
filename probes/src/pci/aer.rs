//! Counters of Advanced Error Reporting: `aer_dev_{correctable,nonfatal,fatal}`
//! (`Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats`), since Linux 4.19.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Attributes;
use crate::machine::Machine;

/// How many errors the kernel has counted since boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Aer {
    /// Errors that the link corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_correctable: Option<u64>,
    /// Errors that lost a transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_nonfatal: Option<u64>,
    /// Errors that lost the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_fatal: Option<u64>,
    /// The kinds of errors that occurred, by the kernel's name, e.g. `BadTLP`; kinds with count 0 are omitted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<String, u64>,
}

/// Reads the counters of a device; `None` if the kernel has none.
pub(super) fn read(machine: &Machine, attributes: &Attributes) -> Option<Aer> {
    let mut kinds = BTreeMap::new();
    let mut total =
        |name: &str| -> Option<u64> { parse(&machine.text(&attributes.at(name)?)?, &mut kinds) };
    let n_correctable = total("aer_dev_correctable");
    let (n_nonfatal, n_fatal) = (total("aer_dev_nonfatal"), total("aer_dev_fatal"));
    let aer = Aer { n_correctable, n_nonfatal, n_fatal, kinds };
    (aer != Aer::default()).then_some(aer)
}

/// Lines `NAME COUNT`, the last of them `TOTAL_ERR_… COUNT`; without that line the sum of the rest.
fn parse(text: &str, kinds: &mut BTreeMap<String, u64>) -> Option<u64> {
    let (mut total, mut sum) = (None, None);
    for line in text.lines() {
        let Some((name, count)) = line.trim().rsplit_once(' ') else { continue };
        let Ok(count) = count.parse::<u64>() else { continue };
        if name.starts_with("TOTAL_ERR_") {
            total = Some(count);
            continue;
        }
        sum = Some(sum.unwrap_or(0_u64).saturating_add(count));
        if count > 0 {
            let kind = kinds.entry(name.to_owned()).or_insert(0);
            *kind = kind.saturating_add(count);
        }
    }
    total.or(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_and_the_kinds_that_occurred_are_read() {
        let mut kinds = BTreeMap::new();
        let text = "RxErr 0\nBadTLP 2\nBadDLLP 1\nTOTAL_ERR_COR 3\n";
        assert_eq!(parse(text, &mut kinds), Some(3));
        assert_eq!(kinds.len(), 2);
        assert_eq!(parse("BadTLP 2\nBad", &mut kinds), Some(2));
        assert_eq!(parse("nothing", &mut kinds), None);
    }
}
