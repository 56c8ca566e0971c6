//! Serial numbers and UUIDs that do not distinguish machines.

use super::{Finding, raise};
use crate::collect::Inventory;
use crate::identity::{Identifier, identity};
use crate::parts::{PartId, PartKind};

/// Identifiers that a vendor left unset or shipped on many machines.
pub(super) fn suspicious(inventory: &Inventory) -> Vec<Finding> {
    identity(inventory).into_iter().filter_map(finding).collect()
}

fn finding(identifier: Identifier) -> Option<Finding> {
    let (code, reason) = match identifier.suspicious?.as_str() {
        "placeholder" => ("identity.placeholder", "is a placeholder"),
        "zero" => ("identity.zero", "is all zeros, so it was never set"),
        "known duplicate" => ("identity.known_duplicate", "is known to occur on many machines"),
        // The USB port of a BMC has the same address on every machine: nothing is wrong.
        _ => return None,
    };
    let evidence = format!("\"{}\" {reason}", identifier.value.escape_debug());
    Some(raise(code, Some(PartId::new(PartKind::Identifier, identifier.kind)), evidence))
}
