//! LLDP neighbours of every physical port (IEEE 802.1AB-2016).
//!
//! Switches send a frame about every 30 s, so the program listens only on request (`--lldp-wait`)
//! and in parallel with everything else. It stops as soon as every port with a link has received a
//! frame and every other port has had time to get a link.

mod frame;

use std::collections::BTreeMap;
use std::time::Duration;

use nix::errno::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ports::physical_ports;
use crate::machine::Machine;
use crate::sys::lldp::{ListenPort, LldpFrames};
use formats::lldp::{Record, records};

/// The largest number of neighbours reported for one port; a hub could connect any number.
const LIMIT_NEIGHBOURS: usize = 16;
/// The largest number of ports reported, which is also the largest number listened on.
const LIMIT_PORTS: usize = 512;

/// A neighbour of a port, as it describes itself. What it does not send is absent.
#[serde_with::skip_serializing_none]
#[serde_with::apply(Vec => #[serde(skip_serializing_if = "Vec::is_empty")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LldpNeighbour {
    /// Identifies the device, in the form that `chassis_id_kind` names: a MAC or address as text, other
    /// kinds as the neighbour sends them (TLV 1, 8.5.2).
    pub chassis_id: String,
    /// `mac`, `network_address`, `interface_name`, `interface_alias`, `chassis_component`,
    /// `port_component` or `local`; the number of a kind that the standard reserves.
    pub chassis_id_kind: String,
    /// The port of the device into which this machine is plugged (TLV 2, 8.5.3).
    pub port_id: String,
    /// Like `chassis_id_kind`; also `agent_circuit_id`.
    pub port_id_kind: String,
    /// Time for which the information is valid, in s (TLV 3, 8.5.4).
    pub ttl_s: Option<u16>,
    /// The switch's description of the port, often set by an operator (TLV 4).
    pub port_description: Option<String>,
    /// Host name of the switch (TLV 5). It is not unique.
    pub system_name: Option<String>,
    /// Manufacturer, model and software version of the switch as free text (TLV 6).
    pub system_description: Option<String>,
    /// Functions that the device supports: `bridge`, `router`, `station_only`, … (TLV 7, table 8-4).
    pub capabilities: Vec<String>,
    /// The enabled ones of these.
    pub enabled_capabilities: Vec<String>,
    /// Management addresses of the switch (TLV 8, 8.5.9).
    pub management_addresses: Vec<LldpManagementAddress>,
    /// The VLAN of untagged frames; `None` if the switch sends 0, which means none or unknown
    /// (IEEE 802.1Q-2022, D.2.1).
    pub port_vlan_id: Option<u16>,
    /// VLANs by protocol (D.2.2).
    pub protocol_vlan_ids: Vec<u16>,
    /// The VLANs that the switch names, by number (D.2.3).
    pub vlans: Vec<LldpVlan>,
    /// The VLAN in which the switch is managed (D.2.6).
    pub management_vlan_id: Option<u16>,
    /// The switch's bundle for the port (IEEE 802.1AX-2020, F.1; on older switches
    /// IEEE 802.3-2012, 79.3.3).
    pub link_aggregation: Option<LldpLinkAggregation>,
    /// Largest frame that the switch accepts, in bytes, including header and checksum (IEEE 802.3-2022,
    /// 79.3.4). A switch with MTU 9000 reports 9018 or more.
    pub max_frame_bytes: Option<u16>,
    /// Autonegotiation of the switch's port (IEEE 802.3-2022, 79.3.1).
    pub mac_phy: Option<LldpMacPhy>,
    /// All other parts, in the order of the frame.
    pub other_tlvs: Vec<LldpTlv>,
    /// Source MAC of the frame, which is that of the switch's port.
    pub source_mac: Option<String>,
    /// The whole frame after the Ethernet header, in hexadecimal.
    pub lldpdu_hex: String,
}

/// An address under which a neighbour is managed.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LldpManagementAddress {
    /// The address as text; in hexadecimal if its family is neither IP nor MAC.
    pub address: String,
    /// `ipv4`, `ipv6`, `mac`, or the number that IANA gave the family.
    pub family: String,
    /// Number of the interface that has it; `None` if the neighbour sends none.
    pub interface_number: Option<u32>,
}

/// A VLAN that a neighbour names.
#[serde_with::skip_serializing_none]
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(default)]
pub struct LldpVlan {
    /// Its number.
    pub id: u16,
    /// Its name.
    pub name: Option<String>,
}

/// Link aggregation of a neighbour's port.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LldpLinkAggregation {
    /// True if the port can be part of a bundle.
    pub is_capable: bool,
    /// True if it is part of one now.
    pub is_enabled: bool,
    /// Number of the bundle; `None` if the port is in none.
    pub port_number: Option<u32>,
}

/// Autonegotiation of a neighbour's port.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LldpMacPhy {
    /// True if it can negotiate.
    pub is_autonegotiation_supported: bool,
    /// True if it does.
    pub is_autonegotiation_enabled: bool,
    /// Advertised modes: bits of `ifMauAutoNegCapAdvertisedBits` (RFC 4836), in hexadecimal.
    pub advertised_hex: String,
    /// Operating mode: number of `dot3MauType` (RFC 4836), e.g. 30 for 1000BASE-T full duplex.
    pub mau_type: Option<u16>,
}

/// A part of an LLDP frame that has no key of its own here.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LldpTlv {
    /// Type, 9 to 127.
    pub kind: u8,
    /// Owner of the extension (type 127), e.g. `0012bb` for LLDP-MED.
    pub oui: Option<String>,
    /// Number of the extension within its owner.
    pub subtype: Option<u8>,
    /// The rest of the value, in hexadecimal.
    pub hex: String,
}

/// The neighbours by port. The list is empty if no frame arrived during the wait.
pub type Neighbours = BTreeMap<String, Vec<LldpNeighbour>>;

/// Listens on every physical port for the configured time. A replay uses the frames of the capture.
pub fn neighbours(machine: &Machine) -> Neighbours {
    let wait = machine.extras().lldp_wait;
    if wait.is_zero() && machine.is_live() {
        return Neighbours::new();
    }
    let question = LldpFrames { ports: ports(machine, wait), wait };
    let answer = machine.ask(&question).unwrap_or_default();
    from_answer(machine, &answer)
}

/// The ports to listen on. A replay listens on none.
fn ports(machine: &Machine, wait: Duration) -> Vec<ListenPort> {
    if wait.is_zero() || !machine.is_live() {
        return Vec::new();
    }
    let up = physical_ports(machine).into_iter().filter(|port| port.is_up);
    up.map(|port| ListenPort { is_awaited: !port.is_usb, name: port.name, index: port.index })
        .collect()
}

fn from_answer(machine: &Machine, answer: &[u8]) -> Neighbours {
    let mut all = Neighbours::new();
    for record in records(answer) {
        let (port, frame) = match record {
            Record::Failed(port, code) => {
                failed(machine, port, code);
                continue;
            }
            Record::Listened(port) => (port, None),
            Record::Frame(port, bytes) => (port, Some(bytes)),
        };
        if all.len() >= LIMIT_PORTS && !all.contains_key(port) {
            let found = format!("more than {LIMIT_PORTS} ports");
            machine.problem("lldp/frames", found, "fewer; only the first are listed");
            continue;
        }
        let received = all.entry(port.to_owned()).or_default();
        if let Some(bytes) = frame {
            add(machine, &format!("lldp/{port}"), received, bytes);
        }
    }
    for received in all.values_mut() {
        received.sort_by(|a, b| (&a.chassis_id, &a.port_id).cmp(&(&b.chassis_id, &b.port_id)));
    }
    all
}

fn failed(machine: &Machine, port: &str, code: i32) {
    let error = Errno::from_raw(code);
    if !matches!(error, Errno::ENODEV | Errno::ENXIO | Errno::ENETDOWN) {
        machine.problem(&format!("lldp/{port}"), error.desc(), "a port that can be listened on");
    }
}

/// Adds the neighbour that a frame describes. A later frame from the same port replaces an earlier
/// one, and a TTL of 0 announces that the neighbour is shutting down (9.1.2).
fn add(machine: &Machine, path: &str, received: &mut Vec<LldpNeighbour>, bytes: &[u8]) {
    let (neighbour, complaint) = frame::parse(bytes);
    if let Some(complaint) = complaint {
        machine.problem(path, complaint, "an LLDP frame as in IEEE 802.1AB-2016, clause 8");
    }
    let Some(neighbour) = neighbour else { return };
    let key = |n: &LldpNeighbour| {
        let ids = [&n.chassis_id_kind, &n.chassis_id, &n.port_id_kind, &n.port_id];
        ids.map(String::clone)
    };
    let new = key(&neighbour);
    received.retain(|other| key(other) != new);
    if neighbour.ttl_s == Some(0) {
        return;
    }
    if received.len() < LIMIT_NEIGHBOURS {
        received.push(neighbour);
    } else {
        let found = format!("more than {LIMIT_NEIGHBOURS} neighbours");
        machine.problem(path, found, "fewer; only the first are listed");
    }
}

#[cfg(test)]
mod tests;
