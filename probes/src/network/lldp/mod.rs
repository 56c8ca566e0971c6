//! LLDP neighbours of every physical port (IEEE 802.1AB-2016).
//!
//! Switches send a frame about every 30 s, so the program listens only on request (`--lldp-wait`)
//! and in parallel with everything else. It stops as soon as every port with a link has received a
//! frame and every other port has had time to get a link.

use std::collections::BTreeMap;
use std::time::Duration;

use formats::lldp::neighbour::{self, LldpNeighbour};
use formats::lldp::{Record, records};
use nix::errno::Errno;

use super::ports::physical_ports;
use crate::machine::Machine;
use crate::sys::lldp::{ListenPort, LldpFrames};

/// The largest number of neighbours reported for one port; a hub could connect any number.
const LIMIT_NEIGHBOURS: usize = 16;
/// The largest number of ports reported, which is also the largest number listened on.
const LIMIT_PORTS: usize = 512;

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
    let (neighbour, complaint) = neighbour::parse(bytes);
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
