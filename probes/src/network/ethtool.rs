//! Drivers' reports about their ports: connector, modes, speed and firmware
//! (`Documentation/networking/ethtool-netlink.rst`, `uapi/linux/ethtool.h`).

use std::collections::BTreeMap;

use super::interface::Interface;
use super::settings;
use crate::data;
use crate::machine::Machine;
use crate::sys::Question as _;
use crate::sys::netlink::{self, EthtoolDump};
use crate::sys::port::{PortFact, PortQuestion};
use formats::netlink as wire;

/// Facts that ethtool reports about one port; absent if the driver does not report them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct EthtoolPort {
    /// State and settings.
    pub(super) facts: Interface,
    pub(super) connector: Option<String>,
    /// Numbers of the features that are on.
    pub(super) offloads: Vec<u32>,
}

/// Queries all ports at once. The key is the interface's name.
pub(super) fn ports(machine: &Machine) -> BTreeMap<String, EthtoolPort> {
    let mut ports = BTreeMap::new();
    for (dump, apply) in [
        (EthtoolDump::LinkInfo, apply_link_info as Apply),
        (EthtoolDump::LinkModes, apply_link_modes),
        (EthtoolDump::LinkState, apply_link_state),
        (EthtoolDump::Wol, settings::apply_wake_on_lan),
        (EthtoolDump::Features, settings::apply_features),
        (EthtoolDump::PrivFlags, settings::apply_private_flags),
        (EthtoolDump::Rings, settings::apply_rings),
        (EthtoolDump::Channels, settings::apply_channels),
        (EthtoolDump::Eee, settings::apply_eee),
        (EthtoolDump::TsInfo, settings::apply_timestamping),
        (EthtoolDump::Fec, settings::apply_fec),
        (EthtoolDump::Rss, settings::apply_rss),
    ] {
        if let Some(answer) = machine.ask(&dump) {
            note_failures(machine, dump, &answer);
            parse(&answer, apply, &mut ports);
        }
    }
    ports
}

/// Records a problem for every port that failed, and for a dump that ended early as a result.
fn note_failures(machine: &Machine, dump: EthtoolDump, answer: &[u8]) {
    for (port, error) in netlink::ethtool::failures(answer) {
        let found = match port {
            Some(port) => format!("{port}: {error}"),
            None => format!("the list ended early: {error}"),
        };
        machine.problem(&dump.name(), found, "an answer for every port");
    }
}

type Apply = fn(&mut EthtoolPort, wire::Attribute);

/// Reads a dump: every message consists of a generic header, `ETHTOOL_A_…_HEADER` and the attributes
/// that `apply` understands.
fn parse(dump: &[u8], apply: Apply, ports: &mut BTreeMap<String, EthtoolPort>) {
    for message in wire::messages(dump).filter(|message| message.kind >= 16) {
        let Some(name) = netlink::ethtool::port_name(message) else { continue };
        let port = ports.entry(name).or_default();
        wire::attributes(message.body(4)).for_each(|attribute| apply(port, attribute));
    }
}

/// `ETHTOOL_A_LINKINFO_PORT`.
fn apply_link_info(port: &mut EthtoolPort, attribute: wire::Attribute) {
    if attribute.kind == 2 {
        port.connector = attribute.u8().and_then(|code| data::named("connector", code));
    }
}

fn apply_link_modes(port: &mut EthtoolPort, attribute: wire::Attribute) {
    let facts = &mut port.facts;
    match attribute.kind {
        2 => facts.is_autonegotiating = attribute.u8().map(|autoneg| autoneg != 0),
        // The mask contains the supported modes, the value the advertised ones.
        3 => facts.max_speed_mbit_s = fastest_mbit_s(&settings::bits_of(attribute, settings::MASK)),
        5 => facts.speed_mbit_s = attribute.u32().filter(|speed| is_known_speed(i64::from(*speed))),
        6 => facts.duplex = attribute.u8().and_then(|code| data::named("duplex", code)),
        _ => {}
    }
}

/// The speed of the fastest of these modes; `None` if none has a speed.
fn fastest_mbit_s(modes: &[u32]) -> Option<u32> {
    let supported = data::codes("link_mode_mbit_s").filter(|(bit, _)| modes.contains(bit));
    supported.filter_map(|(_, speed)| speed.parse().ok()).max()
}

/// `ETHTOOL_A_LINKSTATE_LINK` and `…_EXT_STATE`, the latter since Linux 5.8.
fn apply_link_state(port: &mut EthtoolPort, attribute: wire::Attribute) {
    let name = |code| data::named("link_down_reason", code);
    match attribute.kind {
        2 => port.facts.has_carrier = attribute.u8().map(|link| link != 0),
        5 => port.facts.link_down_reason = attribute.u8().and_then(name),
        _ => {}
    }
}

/// True if the card's firmware handles DCBX, and therefore LLDP, on the port (`DCB_CAP_DCBX_HOST` and `…_LLD_MANAGED`).
/// `None` if the driver does not report it.
pub(super) fn is_dcbx_in_firmware(machine: &Machine, interface: &str) -> Option<bool> {
    const DCB_ATTR_DCBX: u16 = 14;
    let answer = machine.ask(&PortQuestion { interface, fact: PortFact::Dcbx })?;
    let message = wire::messages(&answer).next()?;
    match wire::find(message.body(4), DCB_ATTR_DCBX)?.u8()? & 3 {
        1 => Some(false),
        2 => Some(true),
        _ => None,
    }
}

/// True if a speed is known. The kernel uses -1 for an unknown speed; some versions report it as an unsigned number of
/// 16 or 32 bits.
pub(super) fn is_known_speed(mbit_s: i64) -> bool {
    mbit_s > 0 && mbit_s != i64::from(u16::MAX) && mbit_s < i64::from(i32::MAX)
}

/// The answer to `ETHTOOL_GDRVINFO`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Driver {
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
    pub(super) firmware: Option<String>,
}

/// Reads the driver of `interface`, its version and its firmware version.
pub(super) fn driver(machine: &Machine, interface: &str) -> Driver {
    let question = PortQuestion { interface, fact: PortFact::Driver };
    machine.ask(&question).map(|answer| parse_driver(&answer)).unwrap_or_default()
}

/// `struct ethtool_drvinfo`: command, then 32 bytes each of driver, version and firmware version.
fn parse_driver(answer: &[u8]) -> Driver {
    let field = |index: usize| {
        let bytes = answer.get(4 + 32 * index..)?;
        let text = formats::text::to_nul(&bytes[..bytes.len().min(32)])?;
        (!["N/A", "n/a", "NA", "None", "-"].contains(&text.as_str())).then_some(text)
    };
    Driver { name: field(0), version: field(1), firmware: field(2) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes::{attribute, message, survives_any_bytes};
    use crate::testing::problems;

    fn modes() -> Vec<u8> {
        let header = attribute(0x8001, &attribute(2, b"eno1\0"));
        // 10000baseT (12) and 1000baseT/Full (5) supported, the latter advertised.
        let bits = [
            attribute(4, &(1_u32 << 5).to_ne_bytes()),
            attribute(5, &(1_u32 << 12 | 1 << 5).to_ne_bytes()),
        ];
        let body = [
            vec![4, 1, 0, 0],
            header,
            attribute(2, &[1]),
            attribute(0x8003, &bits.concat()),
            attribute(5, &u32::MAX.to_ne_bytes()),
            attribute(6, &[0xff]),
        ];
        message(20, &body.concat())
    }

    #[test]
    fn max_speed_is_the_fastest_mode_and_unknown_speed_is_absent() {
        let mut ports = BTreeMap::new();
        parse(&modes(), apply_link_modes, &mut ports);
        let port = ports["eno1"].facts.clone();
        assert_eq!(port.max_speed_mbit_s, Some(10_000));
        assert_eq!((port.speed_mbit_s, port.duplex), (None, None));
        assert_eq!(port.is_autonegotiating, Some(true));
        assert_eq!(fastest_mbit_s(&[5, 6, 13, 36]), Some(100_000));
        assert_eq!(fastest_mbit_s(&[47, 48, 42]), Some(10_000));
        assert_eq!((fastest_mbit_s(&[6, 7, 49, 74]), fastest_mbit_s(&[])), (None, None));
    }

    #[test]
    fn dump_cut_by_a_faulty_port_keeps_the_other_ports() {
        let error = [&(-19_i32).to_ne_bytes()[..], b"eno2"].concat();
        let answer = [modes(), message(2, &error), message(3, &(-19_i32).to_ne_bytes())].concat();
        let file = "kernel/genetlink/ethtool/linkmodes";
        let machine = crate::testing::tree_of_bytes(&[(file, &answer)]);
        let ports = ports(&machine);
        assert_eq!(ports.keys().collect::<Vec<_>>(), ["eno1"]);
        let [one, list] = &problems(&machine)[..] else { panic!("{:?}", machine.problems()) };
        assert!(one.starts_with("/genetlink/ethtool/linkmodes: eno2: No such device"), "{one}");
        assert!(list.contains("/linkmodes: the list ended early: "), "{list}");
    }

    #[test]
    fn unknown_firmware_is_absent() {
        let mut answer = vec![3, 0, 0, 0];
        for (text, end) in [("ixgbe", 36), ("6.1.0", 68), ("N/A", 100)] {
            answer.extend(text.as_bytes());
            answer.resize(end, 0);
        }
        let driver = parse_driver(&answer);
        assert_eq!(driver.name.as_deref(), Some("ixgbe"));
        assert_eq!((driver.version.as_deref(), driver.firmware), (Some("6.1.0"), None));
        assert_eq!(parse_driver(&answer[..3]), Driver::default());
    }

    #[test]
    fn every_form_of_unknown_speed_is_recognised() {
        for unknown in [-1, 0, 65_535, 4_294_967_295] {
            assert!(!is_known_speed(unknown), "{unknown}");
        }
        assert!(is_known_speed(10) && is_known_speed(1_600_000));
    }

    #[test]
    fn no_bytes_make_the_parsers_panic() {
        for apply in [apply_link_info as Apply, apply_link_modes, apply_link_state] {
            survives_any_bytes(&modes(), |bytes| parse(bytes, apply, &mut BTreeMap::new()));
        }
        survives_any_bytes(&[b'x'; 196], |bytes| drop(parse_driver(bytes)));
    }
}
