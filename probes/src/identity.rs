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
    let found = found.into_iter().filter_map(|(kind, value)| Some(identifier(kind, value?)));
    let bmc = inventory.bmc.as_ref().and_then(|bmc| bmc.mac.clone());
    found.chain(macs(inventory)).chain(bmc.map(|mac| identifier("bmc_mac", mac))).collect()
}

fn identifier(kind: &str, value: String) -> Identifier {
    let suspicious = suspicion(&value).map(str::to_owned);
    Identifier { kind: kind.to_owned(), value, suspicious }
}

/// The permanent MACs of physical ports. Virtual functions have none.
fn macs(inventory: &Inventory) -> Vec<Identifier> {
    let interfaces = inventory.network.iter().flat_map(|network| &network.interfaces);
    let ports = interfaces.filter(|nic| nic.kind.as_deref() == Some("physical"));
    let mut macs: Vec<Identifier> = ports
        .filter(|nic| nic.vf_of.is_none() && !nic.is_representor)
        .filter_map(|nic| {
            let mut mac = identifier("permanent_mac", nic.permanent_mac.clone()?);
            if nic.is_bmc_usb {
                mac.suspicious = Some("usb bmc".to_owned());
            }
            Some(mac)
        })
        .collect();
    macs.sort_by(|a, b| a.value.cmp(&b.value));
    macs.dedup();
    macs
}

/// The UUID of a table where the firmware set none: all zeros, or all ones.
fn unset_uuid(product: &dmi::Product) -> Option<String> {
    let raw = product.uuid_raw_hex.as_ref()?;
    let is_all = |digit: &&str| raw.len() == 32 && *raw == digit.repeat(32);
    let digit = ["0", "f"].into_iter().find(is_all)?;
    Some([8, 4, 4, 4, 12].map(|n| digit.repeat(n)).join("-"))
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
    use serde_json::json;

    use super::*;

    #[test]
    fn each_suspicious_identifier_has_a_reason() {
        let port = |mac: &str, is_bmc_usb| json!({"kind": "physical", "permanent_mac": mac, "is_bmc_usb": is_bmc_usb});
        let inventory = json!({
            "product": {"uuid": "03000200-0400-0500-0006-000700080009", "serial": "To be filled by O.E.M."},
            "baseboard": {"serial": "..CN481."},
            "bmc": {"mac": "02:00:00:00:00:09"},
            "network": {"interfaces": [port("02:00:00:00:00:01", true), port("00:00:00:00:00:00", false)]},
        });
        let found = identity(&serde_json::from_value(inventory).unwrap());
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.kind.as_str(), one.value.as_str(), one.suspicious.as_deref()))
            .collect();
        let expected = [
            ("smbios_uuid", "03000200-0400-0500-0006-000700080009", Some("known duplicate")),
            ("product_serial", "To be filled by O.E.M.", Some("placeholder")),
            ("baseboard_serial", "..CN481.", None),
            ("permanent_mac", "00:00:00:00:00:00", Some("zero")),
            ("permanent_mac", "02:00:00:00:00:01", Some("usb bmc")),
            ("bmc_mac", "02:00:00:00:00:09", None),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn uuid_that_the_firmware_did_not_set_is_reported_as_suspicious() {
        let unset = json!({"product": {"uuid_raw_hex": "0".repeat(32)}});
        let found = identity(&serde_json::from_value(unset).unwrap());
        assert_eq!(found[0].value, "00000000-0000-0000-0000-000000000000");
        assert_eq!(found[0].suspicious.as_deref(), Some("zero"));
        assert!(identity(&Inventory::default()).is_empty());
    }
}
