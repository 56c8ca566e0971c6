//! Drivers' reports about their ports: connector, modes, speed, settings and firmware
//! (`Documentation/networking/ethtool-netlink.rst`, `uapi/linux/ethtool.h`).

use std::collections::BTreeMap;

use super::interface::Interface;
use super::settings::{self, MASK, VALUE};
use crate::machine::Machine;
use crate::sys::Question as _;
use crate::sys::netlink::{self, EthtoolDump};
use crate::sys::port::{PortFact, PortQuestion};
use formats::data;
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

pub(super) const DUMPS: [EthtoolDump; 12] = [
    EthtoolDump::LinkInfo,
    EthtoolDump::LinkModes,
    EthtoolDump::LinkState,
    EthtoolDump::Wol,
    EthtoolDump::Features,
    EthtoolDump::PrivFlags,
    EthtoolDump::Rings,
    EthtoolDump::Channels,
    EthtoolDump::Eee,
    EthtoolDump::TsInfo,
    EthtoolDump::Fec,
    EthtoolDump::Rss,
];

/// Queries all ports at once. The key is the interface's name.
pub(super) fn ports(machine: &Machine) -> BTreeMap<String, EthtoolPort> {
    let mut ports = BTreeMap::new();
    for dump in DUMPS {
        if let Some(answer) = machine.ask(&dump) {
            note_failures(machine, dump, &answer);
            parse(&answer, dump, &mut ports);
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

/// Reads the answer to `dump`: every message consists of a generic header, `ETHTOOL_A_…_HEADER` and attributes.
fn parse(answer: &[u8], dump: EthtoolDump, ports: &mut BTreeMap<String, EthtoolPort>) {
    for message in wire::messages(answer).filter(|message| message.kind >= 16) {
        let Some(name) = netlink::ethtool::port_name(message) else { continue };
        let port = ports.entry(name).or_default();
        wire::attributes(message.body(4)).for_each(|attribute| apply(dump, attribute, port));
    }
}

/// Applies one attribute of the answer to `dump`, `ETHTOOL_A_…` (`uapi/linux/ethtool_netlink.h`).
pub(super) fn apply(dump: EthtoolDump, attribute: wire::Attribute, port: &mut EthtoolPort) {
    let facts = &mut port.facts;
    let number = attribute.u32();
    let flag = attribute.u8().map(|flag| flag != 0);
    let named = |table| attribute.u8().and_then(|code| data::named(table, code));
    let bits = |part| settings::bits_of(attribute, part);
    match (dump, attribute.kind) {
        (EthtoolDump::LinkInfo, 2) => port.connector = named("connector"),
        (EthtoolDump::LinkModes, 2) => facts.is_autonegotiating = flag,
        // The mask contains the supported modes, the value the advertised ones.
        (EthtoolDump::LinkModes, 3) => facts.max_speed_mbit_s = fastest_mbit_s(&bits(MASK)),
        (EthtoolDump::LinkModes, 5) => {
            facts.speed_mbit_s = number.filter(|speed| is_known_speed(i64::from(*speed)));
        }
        (EthtoolDump::LinkModes, 6) => facts.duplex = named("duplex"),
        (EthtoolDump::LinkState, 2) => facts.has_carrier = flag,
        // Since Linux 5.8.
        (EthtoolDump::LinkState, 5) => facts.link_down_reason = named("link_down_reason"),
        (EthtoolDump::Wol, 2) => facts.wake_on_lan = settings::wake_on_lan(attribute),
        // These bits have names only in the answer to `FEATURE_NAMES`.
        (EthtoolDump::Features, 4) => port.offloads = bits(VALUE),
        (EthtoolDump::PrivFlags, 2) => {
            facts.has_firmware_lldp_agent = settings::has_firmware_lldp_agent(attribute);
        }
        (EthtoolDump::Rings, 2) => facts.rings.get_or_insert_default().max_rx_descriptors = number,
        (EthtoolDump::Rings, 5) => facts.rings.get_or_insert_default().max_tx_descriptors = number,
        (EthtoolDump::Rings, 6) => facts.rings.get_or_insert_default().n_rx_descriptors = number,
        (EthtoolDump::Rings, 9) => facts.rings.get_or_insert_default().n_tx_descriptors = number,
        // The kernel omits the kinds of queues that a port does not support.
        (EthtoolDump::Channels, 2) => facts.queues.get_or_insert_default().max_rx = number,
        (EthtoolDump::Channels, 3) => facts.queues.get_or_insert_default().max_tx = number,
        (EthtoolDump::Channels, 5) => facts.queues.get_or_insert_default().max_combined = number,
        (EthtoolDump::Channels, 6) => facts.queues.get_or_insert_default().n_rx = number,
        (EthtoolDump::Channels, 7) => facts.queues.get_or_insert_default().n_tx = number,
        (EthtoolDump::Channels, 9) => facts.queues.get_or_insert_default().n_combined = number,
        (EthtoolDump::Eee, 4) => facts.eee.get_or_insert_default().is_active = flag,
        (EthtoolDump::Eee, 5) => facts.eee.get_or_insert_default().is_enabled = flag,
        // The port's own clock comes first; newer kernels also list the clocks of its PHY. -1 means that there is none.
        (EthtoolDump::TsInfo, 5) if facts.ptp_clock_index.is_none() => {
            facts.ptp_clock_index = number.filter(|index| i32::try_from(*index).is_ok());
        }
        (EthtoolDump::Fec, 2) => {
            let configured = data::names("fec", |bit| bits(VALUE).contains(&bit));
            facts.fec.get_or_insert_default().configured = configured;
        }
        (EthtoolDump::Fec, 3) => facts.fec.get_or_insert_default().is_automatic = flag,
        (EthtoolDump::Fec, 4) => {
            let name = number.and_then(|bit| data::named("fec", bit));
            facts.fec.get_or_insert_default().active = name;
        }
        (EthtoolDump::Rss, _) => settings::apply_rss(facts.rss.get_or_insert_default(), attribute),
        _ => {}
    }
}

/// The speed of the fastest of these modes; `None` if none has a speed.
fn fastest_mbit_s(modes: &[u32]) -> Option<u32> {
    let supported = data::codes("link_mode_mbit_s").filter(|(bit, _)| modes.contains(bit));
    supported.filter_map(|(_, speed)| speed.parse().ok()).max()
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

/// Driver, version and firmware version of `interface` (`ETHTOOL_GDRVINFO`).
pub(super) fn driver(machine: &Machine, interface: &str) -> [Option<String>; 3] {
    let answer = machine.ask(&PortQuestion { interface, fact: PortFact::Driver });
    parse_driver(&answer.unwrap_or_default())
}

/// `struct ethtool_drvinfo`: command, then three fields of 32 bytes each.
fn parse_driver(answer: &[u8]) -> [Option<String>; 3] {
    [4, 36, 68].map(|at| {
        let bytes = answer.get(at..)?;
        let text = formats::text::to_nul(&bytes[..bytes.len().min(32)])?;
        (!["N/A", "n/a", "NA", "None", "-"].contains(&text.as_str())).then_some(text)
    })
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
        parse(&modes(), EthtoolDump::LinkModes, &mut ports);
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
        assert_eq!(driver, [Some("ixgbe".to_owned()), Some("6.1.0".to_owned()), None]);
        assert_eq!(parse_driver(&answer[..3]), [None, None, None]);
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
        for dump in DUMPS {
            survives_any_bytes(&modes(), |bytes| parse(bytes, dump, &mut BTreeMap::new()));
        }
        survives_any_bytes(&[b'x'; 196], |bytes| drop(parse_driver(bytes)));
    }
}
