//! `net (…)` and this machine's addresses and routes.

use formats::module::Module;
use probes::network::{InfinibandDevice, Interface, LldpNeighbour, LocalAddresses, Network};

use super::page::{Page, Tone, counted, heading, joined, pair, pairs, with};

pub(super) fn network(page: &mut Page, network: &Network) {
    // Virtual functions and representors are counted below their port.
    let is_shown = |interface: &&Interface| interface.vf_of.is_none() && !interface.is_representor;
    let shown: Vec<&Interface> = network.interfaces.iter().filter(is_shown).collect();
    let count = (!network.interfaces.is_empty()).then(|| counted(shown.len(), "NIC"));
    page.section(&heading("net", count));
    page.each(shown, interface);
    page.each(&network.infiniband, infiniband);
}

fn interface(page: &mut Page, interface: &Interface) {
    let kind = interface.kind.as_deref().filter(|kind| *kind != "physical");
    let kind = kind.map(|kind| format!(" ({kind})")).unwrap_or_default();
    let mac = interface.permanent_mac.as_ref().or(interface.current_mac.as_ref());
    let carrier = match interface.has_carrier {
        Some(true) => " link=up",
        Some(false) => " link=down",
        // The kernel reports no carrier for a port that is down, with a cable or without.
        None if interface.is_up == Some(false) => " link=off",
        None => "",
    };
    let mbit_s = |speed: Option<u32>| speed.map(|speed| format!("{speed}Mbit/s"));
    let max = interface.max_speed_mbit_s.filter(|max| Some(*max) != interface.speed_mbit_s);
    let half = interface.duplex.as_deref().filter(|duplex| *duplex == "half");
    let line = format!(
        "{}{kind}{}{carrier}{}{}{}{}{}{}{}{}",
        interface.name,
        pair("mac", mac),
        with(" reason=", interface.link_down_reason.as_ref().map(|reason| format!("'{reason}'"))),
        with(" speed=", mbit_s(interface.speed_mbit_s)),
        with(" max=", mbit_s(max)),
        pair("duplex", half),
        with(" mtu=", interface.mtu.filter(|mtu| *mtu != 1500)),
        pairs!(
            interface; driver, firmware, "pci" pci_address, "node" numa_node, "mode" bond_mode, master
        ),
        if interface.is_boot_interface == Some(true) { " boot=true" } else { "" },
        if interface.is_bmc_usb { " bmc=true" } else { "" },
    );
    page.line(1, &line);
    page.each(interface.lldp.iter().flatten(), lldp);
    if interface.lldp.as_ref().is_some_and(Vec::is_empty) {
        let is_consumed = interface.has_firmware_lldp_agent == Some(true);
        let why = if is_consumed { ": the card's firmware consumes LLDP frames" } else { "" };
        page.toned(Tone::Quiet, 2, &format!("no LLDP neighbour{why}"));
    }
    page.each(&interface.module, module);
    if let Some(n_vfs) = interface.n_vfs.filter(|n| *n > 0) {
        let number = usize::try_from(n_vfs).unwrap_or(usize::MAX);
        page.toned(Tone::Quiet, 2, &counted(number, "virtual function"));
    }
}

/// Data to compare with the cabling plan: switch, port, VLAN.
fn lldp(page: &mut Page, neighbour: &LldpNeighbour) {
    let switch = neighbour.system_name.as_deref().unwrap_or(&neighbour.chassis_id);
    let pairs = pairs!(neighbour; "description" port_description, "vlan" port_vlan_id);
    let management = neighbour.management_addresses.first().map(|address| &address.address);
    let management = pair("management", management);
    page.line(2, &format!("switch={switch} port={}{pairs}{management}", neighbour.port_id));
}

/// Label text for ordering a replacement.
fn module(page: &mut Page, module: &Module) {
    let reach = module.reach_m.iter().map(|(cable, metres)| format!("{cable}:{metres}m"));
    let reach = with(" reach=", joined(&reach.collect::<Vec<_>>()));
    let wavelength = with(" wavelength=", module.wavelength_nm.map(|nm| format!("{nm}nm")));
    let kind = module.kind.as_deref().unwrap_or("other");
    let pairs = pairs!(module; vendor, "part" part_number, serial);
    page.line(2, &format!("module={kind}{pairs}{wavelength}{reach}"));
}

fn infiniband(page: &mut Page, device: &InfinibandDevice) {
    let pairs = pairs!(device; "guid" node_guid, firmware);
    page.line(1, &format!("{} (infiniband){pairs}", device.name));
    let ports = device.ports.iter();
    page.lines(2, ports.map(|port| format!("port {}{}", port.number, pairs!(port; state, rate))));
}

pub(super) fn local_addresses(page: &mut Page, local: &LocalAddresses) {
    page.section(&format!("local addresses ({})", local.addresses.len()));
    for address in &local.addresses {
        let scope = pairs!(address; scope);
        let lease = local.dhcp_leases.iter().find(|lease| {
            lease.interface == address.interface
                && address.address.split('/').next() == Some(lease.address.as_str())
        });
        let dhcp = match lease.map(|lease| lease.server.as_deref()) {
            None => String::new(),
            Some(server) => pair("dhcp", Some(server.unwrap_or("true"))),
        };
        // These flags mean that the kernel does not use the address, or not for long.
        let bad = |flag: &&String| {
            matches!(flag.as_str(), "tentative" | "dadfailed" | "deprecated" | "temporary")
        };
        let flags: Vec<String> = address.flags.iter().filter(bad).cloned().collect();
        let flags = with(" flags=", joined(&flags));
        page.line(1, &format!("{} {}{scope}{dhcp}{flags}", address.interface, address.address));
    }
    let clients = local.dhcp6_clients.iter();
    page.lines(1, clients.map(|client| format!("{} dhcp6 duid={}", client.interface, client.duid)));
    for route in &local.routes {
        let gateway = with(" via ", route.gateway.as_ref());
        page.line(1, &format!("route {}{gateway} dev {}", route.destination, route.interface));
    }
    page.lines(1, local.dns.iter().map(|server| format!("name server {}", server.address)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::page::tests::shown;
    use serde_json::json;

    #[test]
    fn a_port_that_is_off_differs_from_one_without_link_or_without_neighbour() {
        for (port, expected) in [
            (json!({"name": "eno1", "is_up": false}), " eno1 link=off\n"),
            (json!({"name": "eno1", "is_up": true, "has_carrier": false}), " eno1 link=down\n"),
            (json!({"name": "eno1", "lldp": []}), " eno1\n  no LLDP neighbour\n"),
            (json!({"name": "eno1"}), " eno1\n"),
        ] {
            assert_eq!(shown(interface, port), expected);
        }
    }
}
