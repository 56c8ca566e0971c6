//! The memory of a pluggable module or cable in a port: SFP (SFF-8472), QSFP (SFF-8636), QSFP-DD and OSFP (CMIS 5.2).
//!
//! The bytes of one page say which others there are, so the parser asks its caller for each.

mod alarms;
mod cmis;
mod fields;
mod qsfp;
mod sfp;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::data;

const HALF_BYTES: u8 = 128;
const ADDRESS: u8 = 0x50;

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
    /// Measurements beyond the module's own alarm thresholds, e.g. `receive power too low` or
    /// `receive power of lane 2 too low`. A port without a cable receives none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<String>,
}

/// The memory of a module: a lower half of 128 bytes that is always visible, and an upper half that shows one of many
/// pages.
pub trait Memory {
    /// A piece of the memory at one of its addresses; `None` if it is not whole.
    fn read(&self, address: u8, page: u8, offset: u8, length: u8) -> Option<Vec<u8>>;

    /// Records what was found in place of what was expected.
    fn problem(&self, found: String, expected: String);
}

/// The upper half with `page` selected. Its first byte is byte 128 in the specifications.
fn upper(memory: &dyn Memory, page: u8) -> Option<Vec<u8>> {
    memory.read(ADDRESS, page, HALF_BYTES, HALF_BYTES)
}

/// Records a problem if the checksum over `bytes` differs from `sum`.
fn check(memory: &dyn Memory, bytes: &[u8], sum: Option<u8>) {
    let found = bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    if let Some(expected) = sum.filter(|sum| *sum != found) {
        memory.problem(
            format!("a checksum of {found:#04x}"),
            format!("{expected:#04x}, as stored in the module; its data may be wrong"),
        );
    }
}

/// Reads a module; `None` for one of another layout, and for an empty cage, which reads as zeros or ones.
pub fn read(memory: &dyn Memory) -> Option<Module> {
    let lower = memory.read(ADDRESS, 0, 0, HALF_BYTES)?;
    let identifier = *lower.first()?;
    let module = match identifier {
        0x02 | 0x03 | 0x0b => sfp::parse(memory, &lower),
        0x0c | 0x0d | 0x11 => qsfp::parse(memory, &lower),
        0x18..=0x1b | 0x1e..=0x25 => cmis::parse(memory, &lower),
        _ => return None,
    };
    Some(Module { identifier, kind: data::named("module", identifier), ..module })
}

#[cfg(test)]
mod tests;
