//! The pluggable module or cable in a port: SFP (SFF-8472), QSFP (SFF-8636), QSFP-DD and OSFP (CMIS 5.2),
//! read page by page through the driver. Needs root.
//!
//! The module's bus is slow and a broken module can block it. Each port is therefore read on its own
//! thread, so that a port that does not respond affects no other.

mod alarms;
mod cmis;
mod memory;
mod qsfp;
mod sfp;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ports::physical_ports;
use crate::data;
use crate::guard::{self, Failure};
use crate::machine::Machine;
use memory::{ADDRESS, HALF_BYTES, Memory};

/// Time limit for one port. Reading a page takes a few milliseconds.
const PORT_LIMIT: Duration = Duration::from_secs(3);
/// Time limit for all ports together, short enough to report the result before the collector's deadline.
const LIMIT: Duration = Duration::from_secs(25);
/// The largest number of ports that are read.
const LIMIT_PORTS: usize = 512;

/// A pluggable module, or a cable with its plugs. What it does not report is absent.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Module {
    /// `sfp`, `qsfp`, `qsfp+`, `qsfp28`, `qsfp-dd`, `osfp`, …; absent if this program has no name
    /// for it.
    pub kind: Option<String>,
    /// Its number in SFF-8024, table 4-1.
    pub identifier: u8,
    /// `lc`, `sc`, `mpo_1x12`, `rj45`, `copper_pigtail`, `no_separable_connector`, …
    /// (SFF-8024, table 4-3).
    pub connector: Option<String>,
    /// Manufacturer, as written in the module.
    pub vendor: Option<String>,
    /// The manufacturer's IEEE number, e.g. `00:1b:21`.
    pub vendor_oui: Option<String>,
    /// Part number.
    pub part_number: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Revision of the part.
    pub revision: Option<String>,
    /// Date of manufacture, e.g. `2021-05-07`.
    pub date: Option<String>,
    /// Nominal signalling rate of one lane, in `MBd`.
    pub nominal_rate_mbd: Option<u32>,
    /// Wavelength in nm, rounded; `None` for copper.
    pub wavelength_nm: Option<u32>,
    /// Reach in m by type of cable: `smf`, `om1` to `om5`, `copper` for twisted pairs; `cable` is the
    /// length of an attached cable. Absent if it is longer than the module can express.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reach_m: BTreeMap<String, u32>,
    /// Temperature at the time of reading, in °C, rounded.
    pub temperature_celsius: Option<i16>,
    /// What the module measures beyond its own alarm thresholds, e.g. `receive power too low` or
    /// `receive power of lane 2 too low`. A port without a cable receives none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<String>,
}

/// The modules by the name of the port.
pub type Modules = BTreeMap<String, Module>;

/// Reads the module in every physical port that has one.
pub fn modules(machine: &Machine) -> Modules {
    let ports = physical_ports(machine).into_iter().filter(|port| !port.is_usb);
    let names: Vec<String> = ports.map(|port| port.name).collect();
    if names.len() > LIMIT_PORTS {
        let found = format!("{} ports", names.len());
        let expected = format!("at most {LIMIT_PORTS}; the modules of the others are not read");
        machine.problem("ethtool", found, expected);
    }
    read_all(machine, names.into_iter().take(LIMIT_PORTS), module, Instant::now() + LIMIT)
}

type Read = fn(&Machine, &str) -> Option<Module>;

/// Reads the ports one after the other until time runs out.
fn read_all(
    machine: &Machine,
    names: impl Iterator<Item = String>,
    read: Read,
    end: Instant,
) -> Modules {
    let mut names = names.peekable();
    let mut found = Modules::new();
    while let Some(name) = names.next_if(|_| Instant::now() < end) {
        let limit = end.saturating_duration_since(Instant::now()).min(PORT_LIMIT);
        if let Some(module) = within_limit(machine, &name, limit, read) {
            found.insert(name, module);
        }
    }
    if let Some(name) = names.next() {
        let n_left = 1 + names.count();
        let text = format!("no time was left for this port, the first of {n_left}");
        machine.problem(&format!("ethtool/{name}/module"), text, "modules that answer at once");
    }
    found
}

/// Runs `read` on its own thread and waits no longer than `limit`.
fn within_limit(machine: &Machine, port: &str, limit: Duration, read: Read) -> Option<Module> {
    let (inner, name) = (machine.clone(), port.to_owned());
    let path = format!("ethtool/{port}/module");
    let module = guard::within(limit, "module", 256 << 10, move || read(&inner, &name));
    let (found, expected) = match module {
        Ok(module) => return module,
        Err(Failure::NoThread(error)) => (error.to_string(), "a thread to read it"),
        Err(Failure::Panicked(panic)) => {
            (format!("a bug in the reader: {panic}"), "no panic; please report this")
        }
        Err(Failure::Late) => {
            let found = format!("no answer after {} ms", limit.as_millis());
            (found, "the memory of the module in the port")
        }
    };
    machine.problem(&path, found, expected);
    None
}

fn module(machine: &Machine, port: &str) -> Option<Module> {
    let memory = Memory { machine, port };
    let lower = memory.read(ADDRESS, 0, 0, HALF_BYTES)?;
    let identifier = *lower.first()?;
    let mut module = match identifier {
        0x02 | 0x03 | 0x0b => sfp::parse(&memory, &lower),
        0x0c | 0x0d | 0x11 => qsfp::parse(&memory, &lower),
        0x18..=0x1b | 0x1e..=0x25 => cmis::parse(&memory, &lower),
        // Another layout, or an empty cage that reads as zeros or ones.
        _ => return None,
    };
    module.identifier = identifier;
    module.kind = data::named("module", identifier);
    Some(module)
}

#[cfg(test)]
mod tests;
