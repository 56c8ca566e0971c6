//! Settings of a port: queues, descriptors, offloads, Wake on LAN, energy saving, error correction,
//! receive side scaling (`Documentation/networking/ethtool-netlink.rst`).

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use formats::data;
use formats::netlink as wire;

/// Current and maximum numbers of queues of a port. A kind that the port does not have is absent.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Queues {
    /// Queues that only receive.
    pub n_rx: Option<u32>,
    /// Queues that only send.
    pub n_tx: Option<u32>,
    /// Queues that do both.
    pub n_combined: Option<u32>,
    /// Maximum number of queues that only receive.
    pub max_rx: Option<u32>,
    /// Maximum number of queues that only send.
    pub max_tx: Option<u32>,
    /// Maximum number of queues that do both.
    pub max_combined: Option<u32>,
}

/// Current and maximum numbers of descriptors in each ring of a port.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Rings {
    /// Descriptors for receiving.
    pub n_rx_descriptors: Option<u32>,
    /// Descriptors for sending.
    pub n_tx_descriptors: Option<u32>,
    /// Maximum number of descriptors for receiving.
    pub max_rx_descriptors: Option<u32>,
    /// Maximum number of descriptors for sending.
    pub max_tx_descriptors: Option<u32>,
}

/// Wake on LAN.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WakeOnLan {
    /// Events that the port supports for waking the machine: `phy`, `unicast`, `multicast`, `broadcast`, `arp`, `magic`,
    /// `secure_on`, `filter`.
    pub supported: Vec<String>,
    /// Events that wake it now; empty if none does.
    pub enabled: Vec<String>,
}

/// Energy Efficient Ethernet (IEEE 802.3, clause 78).
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Eee {
    /// True if the port offers it.
    pub is_enabled: Option<bool>,
    /// True if both sides agreed on it.
    pub is_active: Option<bool>,
}

/// Forward error correction. Both ends of a link of 25 Gbit/s and more must have the same.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Fec {
    /// Permitted encodings: `none`, `rs`, `base_r`, `ll_rs`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub configured: Vec<String>,
    /// True if the port chooses the encoding automatically.
    pub is_automatic: Option<bool>,
    /// Encoding in use; `None` while the link is down.
    pub active: Option<String>,
}

/// Receive side scaling: how packets are distributed over queues.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Rss {
    /// `toeplitz`, `xor` or `crc32`.
    pub hash_function: Option<String>,
    /// Number of entries in the table that maps a hash to a queue.
    pub n_table_entries: Option<u32>,
    /// Number of distinct queues in that table; Linux 6.12.
    pub n_queues: Option<u32>,
}

/// `ETHTOOL_A_WOL_MODES`: the mask contains the supported modes, the value the enabled ones.
pub(super) fn wake_on_lan(modes: wire::Attribute) -> Option<WakeOnLan> {
    let names = |part| data::names("wake_on_lan", |bit| bits_of(modes, part).contains(&bit));
    let wake = WakeOnLan { supported: names(MASK), enabled: names(VALUE) };
    (!wake.supported.is_empty()).then_some(wake)
}

/// `ETHTOOL_A_RSS_HFUNC` and `…_INDIR`. A port's own table precedes those of its contexts.
pub(super) fn apply_rss(rss: &mut Rss, attribute: wire::Attribute) {
    match attribute.kind {
        3 if rss.hash_function.is_none() => {
            rss.hash_function = attribute.u32().and_then(|bits| data::named("rss_hash", bits));
        }
        4 if rss.n_table_entries.is_none() => {
            let (entries, _) = attribute.value.as_chunks::<4>();
            let queues: BTreeSet<_> = entries.iter().collect();
            rss.n_table_entries = u32::try_from(entries.len()).ok().filter(|n| *n > 0);
            rss.n_queues = u32::try_from(queues.len()).ok().filter(|n| *n > 0);
        }
        _ => {}
    }
}

/// `struct ethtool_rxfh`: the size of the table is its third word, the function its seventeenth byte.
pub(super) fn rss_of_head(answer: &[u8]) -> Option<Rss> {
    let n_table_entries = wire::u32_at(answer, 8).filter(|n| *n > 0);
    let hash_function = answer.get(16).and_then(|bits| data::named("rss_hash", *bits));
    n_table_entries.map(|_| Rss { hash_function, n_table_entries, n_queues: None })
}

/// `ETHTOOL_A_PRIVFLAGS_FLAGS`, bit by bit with names. Two drivers use one of them for the firmware's
/// LLDP agent: i40e and older ice `disable-fw-lldp`, newer ice `fw-lldp-agent`.
pub(super) fn has_firmware_lldp_agent(flags: wire::Attribute) -> Option<bool> {
    const BITS: u16 = 3;
    wire::attributes(wire::find(flags.value, BITS)?.value).find_map(|bit| {
        let is_set = wire::find(bit.value, 3).is_some();
        match wire::find(bit.value, 2)?.text()?.as_str() {
            "disable-fw-lldp" => Some(!is_set),
            "fw-lldp-agent" => Some(is_set),
            _ => None,
        }
    })
}

/// Parts of a compact bit set: `ETHTOOL_A_BITSET_VALUE` and `…_MASK`.
pub(super) const VALUE: u16 = 4;
pub(super) const MASK: u16 = 5;

/// A kernel has about a hundred link modes and fewer than a hundred features.
const LIMIT_BITS: u32 = 1024;

/// The numbers of the set bits in one part of a compact bit set, which consists of 32-bit words.
pub(super) fn bits_of(bitset: wire::Attribute, part: u16) -> Vec<u32> {
    let part = wire::find(bitset.value, part);
    let (words, _) = part.map_or(&[][..], |part| part.value).as_chunks::<4>();
    let words = words.iter().map(|word| u32::from_ne_bytes(*word)).zip(0..LIMIT_BITS / 32);
    let bits = words.flat_map(|(word, n)| (0..32).map(move |bit| (word >> bit & 1, 32 * n + bit)));
    bits.filter(|(is_set, _)| *is_set == 1).map(|(_, bit)| bit).collect()
}

/// Names of the feature bits, by number, from the answer to `ETHTOOL_MSG_STRSET_GET`.
pub(super) fn feature_names(answer: &[u8]) -> BTreeMap<u32, String> {
    let nested = |bytes, kinds: [u16; 3]| {
        kinds.into_iter().try_fold(bytes, |bytes, kind| Some(wire::find(bytes, kind)?.value))
    };
    let message = wire::messages(answer).next();
    let strings = message.and_then(|message| nested(message.body(4), [2, 1, 3]));
    let named = |string: wire::Attribute| {
        Some((wire::find(string.value, 1)?.u32()?, wire::find(string.value, 2)?.text()?))
    };
    wire::attributes(strings.unwrap_or_default()).filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Interface;
    use crate::network::ethtool::{DUMPS, EthtoolPort, apply};
    use crate::sys::netlink::EthtoolDump;
    use crate::testing::bytes::{attribute, message, survives_any_bytes};

    /// The facts in these attributes of the answer to `dump`.
    fn port(dump: EthtoolDump, attributes: &[Vec<u8>]) -> Interface {
        let mut port = EthtoolPort::default();
        wire::attributes(&attributes.concat()).for_each(|a| apply(dump, a, &mut port));
        port.facts
    }

    fn u32s(kind: u16, values: &[u32]) -> Vec<u8> {
        attribute(kind, &values.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<u8>>())
    }

    #[test]
    fn unsupported_queues_are_absent_and_disabled_ones_are_zero() {
        let queues = port(
            EthtoolDump::Channels,
            &[u32s(2, &[8]), u32s(5, &[63]), u32s(6, &[0]), u32s(9, &[40])],
        )
        .queues
        .unwrap();
        assert_eq!((queues.n_combined, queues.max_combined), (Some(40), Some(63)));
        assert_eq!((queues.n_rx, queues.n_tx, queues.max_tx), (Some(0), None, None));
        let rings = port(EthtoolDump::Rings, &[u32s(2, &[4096]), u32s(6, &[512])]).rings.unwrap();
        assert_eq!((rings.n_rx_descriptors, rings.max_rx_descriptors), (Some(512), Some(4096)));
        assert_eq!(rings.n_tx_descriptors, None);
    }

    #[test]
    fn enabled_wake_modes_differ_from_supported_ones() {
        let set =
            |value: u32, mask: u32| attribute(2, &[u32s(4, &[value]), u32s(5, &[mask])].concat());
        let wake = port(EthtoolDump::Wol, &[set(0x20, 0x2f)]).wake_on_lan.unwrap();
        assert_eq!(wake.enabled, ["magic"]);
        assert_eq!(wake.supported, ["phy", "unicast", "multicast", "broadcast", "magic"]);
        assert_eq!(port(EthtoolDump::Wol, &[set(0, 0)]).wake_on_lan, None);
    }

    #[test]
    fn error_correction_is_found_in_any_word() {
        let configured = attribute(2, &u32s(4, &[0, 1 << 18, 1 << 10]));
        let fec =
            port(EthtoolDump::Fec, &[configured, attribute(3, &[1]), u32s(4, &[51])]).fec.unwrap();
        assert_eq!(fec.configured, ["rs", "ll_rs"]);
        assert_eq!((fec.active.as_deref(), fec.is_automatic), (Some("base_r"), Some(true)));
        assert_eq!(port(EthtoolDump::Fec, &[u32s(4, &[0])]).fec.unwrap().active, None);
    }

    #[test]
    fn clock_of_minus_one_and_unknown_hash_are_absent() {
        let clock = |clocks: &[u32]| {
            let clocks: Vec<Vec<u8>> = clocks.iter().map(|clock| u32s(5, &[*clock])).collect();
            port(EthtoolDump::TsInfo, &clocks).ptp_clock_index
        };
        assert_eq!((clock(&[2]), clock(&[u32::MAX])), (Some(2), None));
        assert_eq!((clock(&[2, 3]), clock(&[u32::MAX, 3])), (Some(2), Some(3)), "its own is first");
        let rss = port(EthtoolDump::Rss, &[u32s(3, &[64]), u32s(4, &[0, 1, 0, 1])]).rss.unwrap();
        assert_eq!(rss.hash_function, None);
        assert_eq!((rss.n_table_entries, rss.n_queues), (Some(4), Some(2)));
        let rss =
            port(EthtoolDump::Rss, &[u32s(4, &[0, 1]), u32s(2, &[1]), u32s(4, &[5])]).rss.unwrap();
        assert_eq!(rss.n_table_entries, Some(2));
    }

    #[test]
    fn huge_bit_set_is_truncated() {
        let set = attribute(4, &attribute(VALUE, &vec![0xff; 60_000]));
        let mut port = EthtoolPort::default();
        wire::attributes(&set).for_each(|set| apply(EthtoolDump::Features, set, &mut port));
        assert_eq!(u32::try_from(port.offloads.len()), Ok(LIMIT_BITS));
    }

    #[test]
    fn table_size_comes_from_the_ioctl_on_older_kernels() {
        let mut head = vec![0; 24];
        head[8..12].copy_from_slice(&128_u32.to_ne_bytes());
        head[16] = 1;
        let expected = Rss { n_table_entries: Some(128), ..Rss::default() };
        let hash_function = Some("toeplitz".to_owned());
        assert_eq!(rss_of_head(&head), Some(Rss { hash_function, ..expected }));
        assert_eq!(rss_of_head(&[0; 24]), None);
        survives_any_bytes(&head, |bytes| drop(rss_of_head(bytes)));
    }

    fn flags(named: &[(&str, bool)]) -> Vec<u8> {
        let bit = |(name, is_set): &(&str, bool)| {
            let set = if *is_set { attribute(3, &[]) } else { Vec::new() };
            attribute(1, &[attribute(2, &[name.as_bytes(), &[0]].concat()), set].concat())
        };
        let bits: Vec<u8> = named.iter().flat_map(bit).collect();
        attribute(2, &attribute(3, &bits))
    }

    #[test]
    fn private_flags_of_two_drivers_reveal_a_firmware_lldp_agent() {
        let agent = |named| port(EthtoolDump::PrivFlags, &[flags(named)]).has_firmware_lldp_agent;
        assert_eq!(agent(&[("MFP", true), ("disable-fw-lldp", false)]), Some(true));
        assert_eq!(agent(&[("disable-fw-lldp", true)]), Some(false));
        assert_eq!(agent(&[("fw-lldp-agent", true)]), Some(true));
        assert_eq!(agent(&[("link-down-on-close", true)]), None);
    }

    #[test]
    fn features_have_this_kernels_names() {
        let string = |index: u32, name: &[u8]| {
            attribute(1, &[u32s(1, &[index]), attribute(2, name)].concat())
        };
        let strings = [string(2, b"tx-checksum\0"), string(0, b"highdma\0"), string(1, b"\0")];
        let set = attribute(1, &[u32s(1, &[4]), attribute(3, &strings.concat())].concat());
        let answer = message(20, &[vec![1, 1, 0, 0], attribute(2, &set)].concat());
        let names = feature_names(&answer);
        assert_eq!(names, BTreeMap::from([(0, "highdma".into()), (2, "tx-checksum".into())]));
        survives_any_bytes(&answer, |bytes| drop(feature_names(bytes)));
    }

    #[test]
    fn no_bytes_make_the_parsers_panic() {
        let good = [flags(&[("a", true)]), u32s(3, &[1]), u32s(4, &[1, 2]), u32s(5, &[3])].concat();
        for dump in DUMPS {
            survives_any_bytes(&good, |bytes| {
                let mut port = EthtoolPort::default();
                wire::attributes(bytes).for_each(|a| apply(dump, a, &mut port));
            });
        }
    }
}
