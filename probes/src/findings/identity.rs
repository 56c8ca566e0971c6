//! Identity: serial numbers and UUIDs that tell no machine from another.

use super::{Finding, Severity};
use crate::collect::Inventory;
use crate::identity::{Identifier, identity};

/// Identifiers that a maker left unset or gave to many machines.
pub(super) fn suspicious(inventory: &Inventory) -> Vec<Finding> {
    identity(inventory).into_iter().filter_map(finding).collect()
}

fn finding(identifier: Identifier) -> Option<Finding> {
    let why = identifier.suspicious?;
    // A port that the BMC lends is the same on every machine; it is marked, and nothing is wrong.
    if why == "usb bmc" {
        return None;
    }
    Some(Finding {
        code: format!("identity.{}", why.replace(' ', "_")),
        severity: Severity::Info,
        component: "identity".to_owned(),
        locator: Some(identifier.kind),
        evidence: format!("\"{}\" {}", identifier.value.escape_debug(), said(&why)),
        advice: "know this machine by another identifier, or set this one with the maker's tool"
            .to_owned(),
    })
}

/// The reason as the end of a sentence.
fn said(why: &str) -> String {
    match why {
        "zero" => "is all zeros, which means that none was set".to_owned(),
        why => format!("is a {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dmi::Product;
    use crate::network::{Interface, Network};

    #[test]
    fn a_placeholder_serial_is_found_and_a_real_one_is_not() {
        let with = |serial: &str| Inventory {
            product: Some(Product { serial: Some(serial.to_owned()), ..Product::default() }),
            ..Inventory::default()
        };
        let found = suspicious(&with("To be filled by O.E.M."));
        assert_eq!(found[0].code, "identity.placeholder");
        assert_eq!(found[0].locator.as_deref(), Some("product_serial"));
        assert!(suspicious(&with("7XJ4KZ3")).is_empty());
    }
    #[test]
    fn the_mac_of_a_port_that_the_bmc_lends_is_marked_and_is_no_finding() {
        let with = |is_bmc_usb| {
            let port = Interface {
                kind: Some("physical".to_owned()),
                permanent_mac: Some("00:00:00:00:00:00".to_owned()),
                is_bmc_usb,
                ..Interface::default()
            };
            let network = Some(Network { interfaces: vec![port], ..Network::default() });
            let inventory = Inventory { network, ..Inventory::default() };
            (identity(&inventory).remove(0).suspicious, suspicious(&inventory).len())
        };
        assert_eq!(with(true), (Some("usb bmc".to_owned()), 0));
        assert_eq!(with(false), (Some("zero".to_owned()), 1));
    }
}
