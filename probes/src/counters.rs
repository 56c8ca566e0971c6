//! Error counters of links, which mean something only if they rise: a cable that was pulled out last month has left its
//! mark too. Two readings of a running machine show which links fail now.
//!
//! Sources: `/sys/class/net/*/statistics` and `carrier_down_count` (`Documentation/ABI/testing/sysfs-class-net-statistics`,
//! `sysfs-class-net`), `/sys/class/infiniband/*/ports/*/counters` (`Documentation/ABI/stable/sysfs-class-infiniband`),
//! `/sys/class/fc_host/*/statistics` (`drivers/scsi/scsi_transport_fc.c`).

use std::sync::Arc;

use crate::collect::Inventory;
use crate::findings::{Finding, nic_locators, row};
use crate::machine::{Machine, Source};

/// Frames that arrived damaged, and links that went down. Drops and overruns are not counted: a busy host has them.
const NET: [&str; 4] = [
    "statistics/rx_crc_errors",
    "statistics/rx_frame_errors",
    "statistics/tx_carrier_errors",
    "carrier_down_count",
];
const INFINIBAND: [&str; 4] =
    ["symbol_error", "link_error_recovery", "link_downed", "local_link_integrity_errors"];
const FIBRE_CHANNEL: [&str; 5] = [
    "invalid_crc_count",
    "invalid_tx_word_count",
    "loss_of_sync_count",
    "loss_of_signal_count",
    "link_failure_count",
];

/// The error counters of one link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkErrors {
    /// The link, as findings name it.
    locator: String,
    /// The code of the finding about it.
    code: &'static str,
    /// Each counter that the driver has, by the name of its file.
    counters: Vec<(&'static str, u64)>,
}

/// Reads the counters of the links in `inventory`.
#[must_use]
pub fn link_errors(source: &Arc<Source>, inventory: &Inventory) -> Vec<LinkErrors> {
    let machine = Machine::new(Arc::clone(source), "counters");
    let mut links = Vec::new();
    for (name, locator) in nic_locators(inventory) {
        links.push(link(&machine, &format!("sys/class/net/{name}"), locator, &NET));
    }
    for device in inventory.network.iter().flat_map(|network| &network.infiniband) {
        for port in &device.ports {
            let name = format!("{} port {}", device.name, port.number);
            let locator = match &device.pci_address {
                Some(address) => format!("{name} ({address})"),
                None => name,
            };
            let path =
                format!("sys/class/infiniband/{}/ports/{}/counters", device.name, port.number);
            links.push(link(&machine, &path, locator, &INFINIBAND));
        }
    }
    for host in inventory.block.iter().flat_map(|block| &block.fc_hosts) {
        let locator = match &host.port_name {
            Some(port) => format!("{} ({port})", host.name),
            None => host.name.clone(),
        };
        let path = format!("sys/class/fc_host/{}/statistics", host.name);
        let link = link(&machine, &path, locator, &FIBRE_CHANNEL);
        links.push(LinkErrors { code: "disk.link_errors", ..link });
    }
    links
}

fn link(
    machine: &Machine,
    path: &str,
    locator: String,
    names: &'static [&'static str],
) -> LinkErrors {
    let counters = names.iter().filter_map(|file| {
        let name = file.rsplit('/').next()?;
        Some((name, count(&machine.text(&format!("{path}/{file}"))?)?))
    });
    LinkErrors { locator, code: "nic.link_errors", counters: counters.collect() }
}

/// A counter in decimal, or in hexadecimal as Fibre Channel has it; all ones mean that the driver does not count it.
fn count(text: &str) -> Option<u64> {
    let value = match text.trim().strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => text.trim().parse().ok()?,
    };
    (value != u64::MAX).then_some(value)
}

/// A finding for each link with a counter that is higher in `after` than in `before`, which was read `seconds` earlier.
#[must_use]
pub fn risen(before: &[LinkErrors], after: &[LinkErrors], seconds: u64) -> Vec<Finding> {
    let compare = |link: &LinkErrors| {
        let old = before.iter().find(|old| old.locator == link.locator)?;
        let rises = link.counters.iter().filter_map(|(name, now)| {
            let (_, then) = old.counters.iter().find(|(other, _)| other == name)?;
            // A driver that was loaded again counts from 0.
            let rise = now.checked_sub(*then).filter(|rise| *rise > 0)?;
            Some(format!("{name} by {rise}"))
        });
        let rises: Vec<String> = rises.collect();
        if rises.is_empty() {
            return None;
        }
        let evidence = format!("rose within {seconds} s: {}", rises.join(", "));
        Some(row(link.code)?.finding(Some(link.locator.clone()), evidence))
    };
    after.iter().filter_map(compare).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_decimal_or_hexadecimal_and_all_ones_is_none() {
        assert_eq!(count("17\n"), Some(17));
        assert_eq!(count("0x1f"), Some(31));
        for none in ["0xffffffffffffffff", "", "-1", "0x", "many"] {
            assert_eq!(count(none), None, "{none}");
        }
    }
}
