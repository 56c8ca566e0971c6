//! Identifiers of a machine, and which of them look wrong.
//!
//! Every identifier is reported, with the reason not to trust it if there is one; the reader decides.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::collect::Inventory;
use crate::dmi;

/// One identifier of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identifier {
    /// Its kind: `smbios_uuid`, `product_serial`, `baseboard_serial`, `chassis_serial`,
    /// `permanent_mac`, `bmc_mac`.
    pub kind: String,
    /// The value as found.
    pub value: String,
    /// Why it should not be trusted: `placeholder`, `zero`, `known duplicate`, `usb bmc`.
    pub suspicious: Option<String>,
}

/// The identifiers in `inventory`: the UUID, the serial numbers of product, baseboard and chassis, the permanent MACs
/// of the ports, lowest first, and the management controller's MAC.
#[must_use]
pub fn identity(inventory: &Inventory) -> Vec<Identifier> {
    let product = inventory.product.as_ref();
    let uuid = product.and_then(|product| product.uuid.clone().or_else(|| unset_uuid(product)));
    let baseboard = inventory.baseboard.as_ref();
    let chassis = inventory.chassis.as_ref();
    let found = [
        ("smbios_uuid", uuid),
        ("product_serial", product.and_then(|product| product.serial.clone())),
        ("baseboard_serial", baseboard.and_then(|board| board.serial.clone())),
        ("chassis_serial", chassis.and_then(|chassis| chassis.serial.clone())),
    ];
    let found = found.into_iter().filter_map(|(kind, value)| Some((kind, value?)));
    let named = found.map(|(kind, value)| Identifier {
        kind: kind.to_owned(),
        suspicious: suspicion(&value).map(str::to_owned),
        value,
    });
    let bmc = inventory.bmc.as_ref().and_then(|bmc| bmc.mac.clone());
    let bmc = bmc.map(|value| Identifier {
        kind: "bmc_mac".to_owned(),
        suspicious: suspicion(&value).map(str::to_owned),
        value,
    });
    named.chain(macs(inventory)).chain(bmc).collect()
}

/// The permanent MACs of physical ports. Virtual functions have none.
fn macs(inventory: &Inventory) -> Vec<Identifier> {
    let interfaces = inventory.network.iter().flat_map(|network| &network.interfaces);
    let ports = interfaces.filter(|nic| nic.kind.as_deref() == Some("physical"));
    let mut macs: Vec<Identifier> = ports
        .filter(|nic| nic.vf_of.is_none() && !nic.is_representor)
        .filter_map(|nic| {
            let value = nic.permanent_mac.clone()?;
            let why = if nic.is_bmc_usb { Some("usb bmc") } else { suspicion(&value) };
            let suspicious = why.map(str::to_owned);
            Some(Identifier { kind: "permanent_mac".to_owned(), value, suspicious })
        })
        .collect();
    macs.sort_by(|a, b| a.value.cmp(&b.value));
    macs.dedup();
    macs
}

/// The UUID of a table where the firmware set none: all zeros, or all ones.
fn unset_uuid(product: &dmi::Product) -> Option<String> {
    let raw = product.uuid_raw_hex.as_ref()?;
    let is_unset = ['0', 'f'].iter().any(|digit| raw.chars().all(|c| c == *digit));
    let part = |from: usize, to: usize| raw.get(from..to);
    is_unset.then_some(())?;
    Some([part(0, 8)?, part(8, 12)?, part(12, 16)?, part(16, 20)?, part(20, 32)?].join("-"))
}

/// Reason not to trust a value.
pub(crate) fn suspicion(value: &str) -> Option<&'static str> {
    let mut digits = value.chars().filter(char::is_ascii_alphanumeric).peekable();
    if digits.peek().is_some() && digits.all(|digit| digit == '0') {
        Some("zero")
    } else if dmi::is_known_duplicate(value) {
        Some("known duplicate")
    } else if dmi::is_placeholder(value) {
        Some("placeholder")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dmi::{Baseboard, Product};

    #[test]
    fn each_suspicious_identifier_has_a_reason() {
        let product = Product {
            uuid: Some("03000200-0400-0500-0006-000700080009".to_owned()),
            serial: Some("To be filled by O.E.M.".to_owned()),
            ..Product::default()
        };
        let baseboard = Baseboard { serial: Some("..CN481.".to_owned()), ..Baseboard::default() };
        let inventory = Inventory {
            product: Some(product),
            baseboard: Some(baseboard),
            ..Inventory::default()
        };
        let found: Vec<_> = identity(&inventory)
            .into_iter()
            .map(|identifier| (identifier.kind, identifier.suspicious))
            .collect();
        let expected = [
            ("smbios_uuid", Some("known duplicate")),
            ("product_serial", Some("placeholder")),
            ("baseboard_serial", None),
        ];
        let expected: Vec<_> =
            expected.map(|(kind, why)| (kind.to_owned(), why.map(str::to_owned))).into();
        assert_eq!(found, expected);
    }

    #[test]
    fn mac_of_the_management_controller_is_an_identifier() {
        let bmc =
            crate::bmc::Bmc { mac: Some("02:00:00:00:00:09".to_owned()), ..Default::default() };
        let found = identity(&Inventory { bmc: Some(bmc), ..Inventory::default() });
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].kind.as_str(), found[0].value.as_str()),
            ("bmc_mac", "02:00:00:00:00:09")
        );
        assert_eq!(found[0].suspicious, None);
    }

    #[test]
    fn uuid_that_the_firmware_did_not_set_is_reported_as_suspicious() {
        let product = Product { uuid_raw_hex: Some("0".repeat(32)), ..Product::default() };
        let inventory = Inventory { product: Some(product), ..Inventory::default() };
        let found = identity(&inventory);
        assert_eq!(found[0].value, "00000000-0000-0000-0000-000000000000");
        assert_eq!(found[0].suspicious.as_deref(), Some("zero"));
        assert!(identity(&Inventory::default()).is_empty());
    }
}
