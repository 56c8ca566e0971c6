//! Serial numbers and UUIDs that do not distinguish machines.

use super::Finding;
use super::table::{IDENTITY_KNOWN_DUPLICATE, IDENTITY_PLACEHOLDER, IDENTITY_ZERO};
use crate::collect::Inventory;
use crate::identity::{Identifier, identity};
use crate::parts::{PartId, PartKind};

/// Identifiers that a vendor left unset or shipped on many machines.
pub(super) fn suspicious(inventory: &Inventory) -> Vec<Finding> {
    identity(inventory).into_iter().filter_map(finding).collect()
}

fn finding(identifier: Identifier) -> Option<Finding> {
    let (row, reason) = match identifier.suspicious?.as_str() {
        "placeholder" => (&IDENTITY_PLACEHOLDER, "is a placeholder"),
        "zero" => (&IDENTITY_ZERO, "is all zeros, so it was never set"),
        "known duplicate" => (&IDENTITY_KNOWN_DUPLICATE, "is known to occur on many machines"),
        // The USB port of a BMC has the same address on every machine: nothing is wrong.
        _ => return None,
    };
    let evidence = format!("\"{}\" {reason}", identifier.value.escape_debug());
    Some(row.finding(Some(PartId::new(PartKind::Identifier, identifier.kind)), evidence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Interface, Network};

    #[test]
    fn mac_of_a_bmc_usb_port_is_suspicious_but_no_finding() {
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
