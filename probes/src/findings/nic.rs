//! NICs: none with a link, or a link below what the port can do.

use super::{Finding, Severity};
use crate::collect::Inventory;
use crate::network::Interface;

fn physical(inventory: &Inventory) -> impl Iterator<Item = &Interface> {
    let all = inventory.network.iter().flat_map(|network| &network.interfaces);
    all.filter(|nic| nic.kind.as_deref() == Some("physical") && nic.vf_of.is_none())
        .filter(|nic| !nic.is_bmc_usb && !nic.is_representor)
}

fn locator(nic: &Interface) -> String {
    match &nic.pci_address {
        Some(address) => format!("{} ({address})", nic.name),
        None => nic.name.clone(),
    }
}

/// Ports without carrier: worth knowing, since a cable may be missing.
pub(super) fn no_carrier(inventory: &Inventory) -> Vec<Finding> {
    let down = physical(inventory).filter(|nic| nic.has_carrier == Some(false));
    down.map(|nic| Finding {
        code: "nic.no_carrier".to_owned(),
        severity: Severity::Info,
        component: "nic".to_owned(),
        locator: Some(locator(nic)),
        evidence: "the port is up and has no link".to_owned(),
        advice: "if a cable should be there, check it, the module and the switch port".to_owned(),
    })
    .collect()
}

/// A link that runs below the highest speed that the port supports.
pub(super) fn slow(inventory: &Inventory) -> Vec<Finding> {
    let slow = |nic: &Interface| {
        let (speed, max) = (nic.speed_mbit_s?, nic.max_speed_mbit_s?);
        (speed > 0 && speed < max).then(|| Finding {
            code: "nic.speed".to_owned(),
            severity: Severity::Info,
            component: "nic".to_owned(),
            locator: Some(locator(nic)),
            evidence: format!("the link runs at {speed} Mbit/s, the port can do {max}"),
            advice: "compare with the switch port; a bad cable or module lowers the speed"
                .to_owned(),
        })
    };
    physical(inventory).filter_map(slow).collect()
}

/// Firmware that speaks LLDP by itself takes the frames of the switch. It is only worth knowing, unless
/// it is why a port with a link heard nothing.
pub(super) fn firmware_lldp(inventory: &Inventory) -> Vec<Finding> {
    let eating = physical(inventory).filter(|nic| nic.has_firmware_lldp_agent == Some(true));
    eating
        .map(|nic| {
            let heard_nothing = nic.lldp.as_ref().is_some_and(Vec::is_empty);
            let is_lost = heard_nothing && nic.has_carrier == Some(true);
            let evidence = if is_lost {
                "the card's firmware speaks LLDP, and the port heard no switch"
            } else {
                "the card's firmware speaks LLDP"
            };
            let advice = match nic.driver.as_deref() {
                Some("i40e") => "ethtool --set-priv-flags PORT disable-fw-lldp on",
                Some("ice") => "ethtool --set-priv-flags PORT fw-lldp-agent off",
                _ => "turn LLDP or DCBX off in the setup of the card",
            };
            Finding {
                code: "nic.firmware_lldp".to_owned(),
                severity: if is_lost { Severity::Warning } else { Severity::Info },
                component: "nic".to_owned(),
                locator: Some(locator(nic)),
                evidence: evidence.to_owned(),
                advice: format!("to see the switch port: {}", advice.replace("PORT", &nic.name)),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Network;

    fn inventory(nic: Interface) -> Inventory {
        let network = Network { interfaces: vec![nic], ..Network::default() };
        Inventory { network: Some(network), ..Inventory::default() }
    }

    fn nic() -> Interface {
        Interface {
            name: "eno1".to_owned(),
            kind: Some("physical".to_owned()),
            ..Interface::default()
        }
    }

    #[test]
    fn a_port_whose_carrier_is_not_known_is_no_finding() {
        assert!(no_carrier(&inventory(nic())).is_empty());
        let down = Interface { has_carrier: Some(false), ..nic() };
        assert_eq!(no_carrier(&inventory(down)).len(), 1);
    }

    #[test]
    fn firmware_that_eats_lldp_frames_is_a_warning_only_where_a_neighbour_is_missed() {
        let silent = Interface {
            driver: Some("i40e".to_owned()),
            has_carrier: Some(true),
            has_firmware_lldp_agent: Some(true),
            lldp: Some(Vec::new()),
            ..nic()
        };
        let severity =
            |nic: Interface| firmware_lldp(&inventory(nic)).first().map(|finding| finding.severity);
        let advice = &firmware_lldp(&inventory(silent.clone()))[0].advice;
        assert!(advice.contains("--set-priv-flags eno1 disable-fw-lldp on"), "{advice}");
        let not_listened = Interface { lldp: None, ..silent.clone() };
        let no_link = Interface { has_carrier: Some(false), ..silent.clone() };
        let off = Interface { has_firmware_lldp_agent: Some(false), ..silent.clone() };
        assert_eq!(severity(silent), Some(Severity::Warning));
        assert_eq!(severity(not_listened), Some(Severity::Info));
        assert_eq!(severity(no_link), Some(Severity::Info));
        assert_eq!((severity(off), severity(nic())), (None, None));
    }

    #[test]
    fn a_link_below_the_ports_maximum_is_found() {
        let with = |speed| Interface {
            speed_mbit_s: Some(speed),
            max_speed_mbit_s: Some(25_000),
            ..nic()
        };
        assert_eq!(slow(&inventory(with(10_000))).len(), 1);
        assert!(slow(&inventory(with(25_000))).is_empty());
    }
}
