//! Network ports without a link, with a slow one, with another port's address, or with firmware that hides LLDP frames.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Observation, Severity, hypervisor, of_each, pci, raise};
use crate::collect::Inventory;
use crate::identity::suspicion;
use crate::network::Interface;
use crate::parts::{self, PartId, PartKind};

/// The physical ports, those of BMCs and virtual functions excepted.
pub(crate) fn physical(inventory: &Inventory) -> impl Iterator<Item = &Interface> {
    let all = inventory.network.iter().flat_map(|network| &network.interfaces);
    all.filter(|nic| nic.kind.as_deref() == Some("physical") && nic.vf_of.is_none())
        .filter(|nic| !nic.is_bmc_usb && !nic.is_representor)
}

/// Ports that are up without a link, unless they are unused: a live image sets all ports up.
pub(super) fn no_carrier(inventory: &Inventory) -> Vec<Finding> {
    let card = |nic: &Interface| Some(pci::card(nic.pci_address.as_deref()?).to_owned());
    let with_link = physical(inventory).filter(|nic| nic.has_carrier == Some(true));
    let in_use: BTreeSet<String> = with_link.filter_map(card).collect();
    let is_unused = |nic: &Interface| {
        nic.master.is_none()
            && (nic.link_down_reason.as_deref() == Some("no cable")
                || card(nic).is_some_and(|card| in_use.contains(&card)))
    };
    of_each(physical(inventory), "nic.no_carrier", parts::port, |nic| {
        let is_down = nic.has_carrier == Some(false) && !is_unused(nic);
        is_down.then(|| "the port is up but has no link".to_owned())
    })
}

/// Cards with the same permanent address. The ports of one card may share theirs, and so may a virtual function and the
/// paravirtual port of a guest.
pub(super) fn duplicate_mac(inventory: &Inventory) -> Vec<Finding> {
    let mut by_mac: BTreeMap<&str, Vec<(&str, &Interface)>> = BTreeMap::new();
    for nic in physical(inventory).filter(|_| hypervisor(inventory).is_none()) {
        if let (Some(mac), Some(address)) = (&nic.permanent_mac, &nic.pci_address)
            && nic.master.is_none()
            && is_from_a_vendor(mac)
        {
            by_mac.entry(mac).or_default().push((pci::card(address), nic));
        }
    }
    let finding = |(mac, mut ports): (&str, Vec<(&str, &Interface)>)| {
        ports.sort_by_key(|(card, nic)| (*card, &nic.name));
        ports.dedup_by_key(|(card, _)| *card);
        let names: Vec<String> =
            ports.iter().map(|(_, nic)| parts::port(nic).to_string()).collect();
        let evidence = format!("all report the permanent MAC {mac}");
        let parts = PartId::called(PartKind::Other, names.join(", "));
        (names.len() > 1).then(|| raise("nic.duplicate_mac", Some(parts), evidence))
    };
    by_mac.into_iter().filter_map(finding).collect()
}

/// True if an address is globally unique: bit 1 of its first byte marks an address that software chose.
fn is_from_a_vendor(mac: &str) -> bool {
    let is_local = mac.as_bytes().get(1).is_none_or(|digit| b"2367abefABEF".contains(digit));
    !is_local && suspicion(mac).is_none()
}

/// Links that run below the highest speed of the port or cannot send and receive at the same time, and modules beyond
/// their own alarm thresholds. Without a link there may be no cable, or no light at its other end.
pub(super) fn links(inventory: &Inventory) -> Vec<Finding> {
    let checks: [Observation<Interface>; 3] =
        [("nic.speed", slow), ("nic.half_duplex", half_duplex), ("nic.module_alarm", module_alarm)];
    let of = |(code, observed)| of_each(physical(inventory), code, parts::port, observed);
    checks.into_iter().flat_map(of).collect()
}

fn slow(nic: &Interface) -> Option<String> {
    let (speed, max) = (nic.speed_mbit_s?, nic.max_speed_mbit_s?);
    let evidence = format!("the link runs at {speed} Mbit/s; the port supports {max} Mbit/s");
    (speed > 0 && speed < max).then_some(evidence)
}

fn half_duplex(nic: &Interface) -> Option<String> {
    let speed = nic.speed_mbit_s.filter(|speed| *speed > 0)?;
    let is_half = nic.duplex.as_deref() == Some("half") && nic.has_carrier == Some(true);
    is_half.then(|| format!("the link runs at {speed} Mbit/s half duplex"))
}

fn module_alarm(nic: &Interface) -> Option<String> {
    let alarms = &nic.module.as_ref()?.alarms;
    let is_alarmed = !alarms.is_empty() && nic.has_carrier == Some(true);
    is_alarmed.then(|| format!("the module reports {}", alarms.join(", ")))
}

/// Firmware that handles LLDP itself consumes the switch's frames. That matters only if it is why a
/// port with a link received none.
pub(super) fn firmware_lldp(inventory: &Inventory) -> Vec<Finding> {
    let ports = physical(inventory).filter(|nic| nic.has_firmware_lldp_agent == Some(true));
    ports.map(hidden_lldp).collect()
}

fn hidden_lldp(nic: &Interface) -> Finding {
    // `None` if nobody listened: then nothing is known to be missing.
    let received_nothing = nic.lldp.as_ref().is_some_and(Vec::is_empty);
    let is_lost = received_nothing && nic.has_carrier == Some(true);
    let evidence = if is_lost {
        "the card's firmware handles LLDP, and the port received no LLDP frame"
    } else {
        "the card's firmware handles LLDP"
    };
    let finding = raise("nic.firmware_lldp", Some(parts::port(nic)), evidence);
    let flag = match nic.driver.as_deref() {
        Some("i40e") => Some("disable-fw-lldp on"),
        Some("ice") => Some("fw-lldp-agent off"),
        _ => None,
    };
    let command = flag.map(|flag| {
        format!("To see the switch port: ethtool --set-priv-flags {} {flag}", nic.name)
    });
    Finding {
        severity: if is_lost { Severity::Warning } else { Severity::Info },
        advice: command.unwrap_or(finding.advice),
        ..finding
    }
}
