//! The management controller (BMC): its identity and its network addresses.
//!
//! From three sources: SMBIOS (types 38 and 42), the kernel's IPMI driver in sysfs
//! (`/sys/devices/platform/ipmi_bmc.*`), and the controller itself through `/dev/ipmi0`, which needs
//! root. No kernel module is loaded for it.

mod ask;
mod event_log;
mod fru;
mod ipmi;
mod log;
mod repository;
mod sensors;
mod tables;

pub use formats::ipmi::{BmcEvent, BmcSensor, EventLogInfo};
pub use fru::Fru;
pub use ipmi::LanChannel;
pub use tables::Redfish;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::smbios;

/// The management controller.
#[serde_with::skip_serializing_none]
#[serde_with::apply(Vec => #[serde(skip_serializing_if = "Vec::is_empty")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Bmc {
    /// Its IPv4 address, of the first LAN channel that has one.
    pub ipv4: Option<String>,
    /// Its IPv6 address, of the first LAN channel that has one; link-local only if it has no other.
    pub ipv6: Option<String>,
    /// MAC address of the first LAN channel that has one.
    pub mac: Option<String>,
    /// Version of its firmware, e.g. `2.88`, as Get Device ID gives it.
    pub firmware: Option<String>,
    /// Auxiliary firmware revision, whose meaning depends on the manufacturer: 4 bytes in hexadecimal.
    pub auxiliary_firmware: Option<String>,
    /// Version of IPMI, e.g. `2.0`.
    pub ipmi_version: Option<String>,
    /// The manufacturer's IANA number, e.g. 674 for Dell.
    pub manufacturer_id: Option<u32>,
    /// The manufacturer's product number.
    pub product_id: Option<u32>,
    /// The manufacturer's number for the controller.
    pub device_id: Option<u32>,
    /// GUID of the controller as the kernel writes it; `None` where all zeros.
    pub guid: Option<String>,
    /// The interface between the host and the controller: `kcs`, `smic`, `bt` or `ssif` (SMBIOS type 38).
    pub interface: Option<String>,
    /// Its LAN channels, by number.
    pub lan_channels: Vec<LanChannel>,
    /// Its Redfish service as the host can reach it (SMBIOS type 42).
    pub redfish: Option<Redfish>,
    /// The machine's UUID as the controller reports it: 16 bytes in hexadecimal, in the order received,
    /// which depends on the manufacturer (Get System GUID).
    pub system_guid_raw_hex: Option<String>,
    /// Its sensors with their readings, in the order of its records.
    pub sensors: Vec<BmcSensor>,
    /// Replaceable parts with part and serial numbers, by device number.
    pub frus: Vec<Fru>,
    /// Its System Event Log as a whole.
    pub event_log_info: Option<EventLogInfo>,
    /// The last entries of the System Event Log, at most 512, oldest first. If a slow
    /// controller does not return all of them, the oldest are missing and a problem is reported.
    pub event_log: Vec<BmcEvent>,
    /// True if the kernel's devices are unknown, as in a capture of the SMBIOS table alone: then nobody
    /// could have asked the controller. Not reported.
    #[serde(skip)]
    pub is_unexamined: bool,
}

/// Sensors, event log and parts, which may take seconds to read; the other facts are absent.
#[derive(Debug, Default)]
pub struct Telemetry(Bmc);

impl Telemetry {
    /// Adds the telemetry to the controller's other data.
    pub fn apply(self, bmc: &mut Option<Bmc>) {
        if self.0 != Bmc::default() {
            let bmc = bmc.get_or_insert_default();
            let Bmc { sensors, frus, event_log_info, event_log, .. } = self.0;
            *bmc = Bmc { sensors, frus, event_log_info, event_log, ..std::mem::take(bmc) };
        }
    }
}

/// Reads sensors, event log and parts, each within its time limit. It is separate from [`bmc`] so that
/// a slow controller does not lose its address as well.
pub fn telemetry(machine: &Machine) -> Telemetry {
    let (sensors, repository) = sensors::sensors(machine);
    let (event_log_info, event_log) = event_log::event_log(machine, &repository.records);
    let frus = fru::frus(machine, &repository.locators);
    Telemetry(Bmc { sensors, frus, event_log_info, event_log, ..Bmc::default() })
}

/// Reads the management controller; `None` if no source shows that the machine has one.
pub fn bmc(machine: &Machine) -> Option<Bmc> {
    let mut bmc = Bmc::default();
    if let Some(table) = smbios::read(machine) {
        tables::fill(&table, &mut bmc);
    }
    from_sysfs(machine, &mut bmc);
    ipmi::fill(machine, &mut bmc);
    let channels = &bmc.lan_channels;
    bmc.ipv4 = channels.iter().find_map(|channel| channel.ipv4.clone());
    bmc.mac = channels.iter().find_map(|channel| channel.mac.clone());
    let mut ipv6 = channels.iter().flat_map(|channel| &channel.ipv6);
    let routed = ipv6.clone().find(|address| !address.starts_with("fe80"));
    bmc.ipv6 = routed.or(ipv6.next()).cloned();
    (bmc != Bmc::default()).then_some(bmc)
}

/// Fills in the facts that the kernel's driver read from the controller when it was loaded
/// (`Documentation/ABI/testing/sysfs-devices-platform-ipmi`).
fn from_sysfs(machine: &Machine, bmc: &mut Bmc) {
    const DEVICES: &str = "sys/bus/platform/devices";
    let names = machine.list(DEVICES);
    // A running kernel always has platform devices.
    bmc.is_unexamined = names.is_empty() && bmc.interface.is_some();
    let Some(name) = names.iter().find(|name| name.starts_with("ipmi_bmc.")) else { return };
    let path = |file: &str| format!("{DEVICES}/{name}/{file}");
    let hex = |file: &str| machine.parse(&path(file), parse_hex);
    bmc.firmware = machine.text(&path("firmware_revision")).map(|text| firmware(&text));
    let auxiliary_bytes = machine.text(&path("aux_firmware_revision"));
    bmc.auxiliary_firmware = auxiliary_bytes.and_then(|text| auxiliary(&text));
    bmc.ipmi_version = machine.text(&path("ipmi_version")).or(bmc.ipmi_version.take());
    bmc.manufacturer_id = hex("manufacturer_id").filter(|id| *id != 0);
    bmc.product_id = hex("product_id").filter(|id| *id != 0);
    bmc.device_id = machine.number(&path("device_id"));
    bmc.guid = machine.text(&path("guid")).filter(|guid| guid.bytes().any(is_not_zero));
}

/// The kernel omits the leading zero of a minor version below 10, which has two digits (`%u.%x`).
fn firmware(text: &str) -> String {
    match text.split_once('.') {
        Some((major, minor)) if minor.len() == 1 => format!("{major}.0{minor}"),
        _ => text.to_owned(),
    }
}

fn is_not_zero(byte: u8) -> bool {
    !matches!(byte, b'0' | b'-')
}

/// `0x01 0x02 0x03 0x04` as `04030201`, in the order in which the controller gave the bytes: the
/// kernel writes the last one first (`aux_firmware_rev_show`,
/// `drivers/char/ipmi/ipmi_msghandler.c`). `None` where all zeros.
fn auxiliary(text: &str) -> Option<String> {
    let words = text.split_whitespace().rev();
    let digits: String = words.map(|word| word.trim_start_matches("0x")).collect();
    digits.bytes().any(is_not_zero).then_some(digits)
}

fn parse_hex(text: &str) -> Result<u32, &'static str> {
    let digits = text.strip_prefix("0x").ok_or("a hexadecimal number with 0x")?;
    u32::from_str_radix(digits, 16).map_err(|_| "a hexadecimal number with 0x")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn machine_without_sign_of_a_bmc_has_none() {
        assert_eq!(bmc(&tree(&[("sys/bus/platform/devices/serial8250/x", "")])), None);
    }

    #[test]
    fn driver_data_is_read_from_sysfs() {
        let dir = "sys/devices/platform/ipmi_bmc.0";
        let file = |name: &str| format!("{dir}/{name}");
        let machine = tree(&[
            ("sys/bus/platform/devices/ipmi_bmc.0", "-> ../../../devices/platform/ipmi_bmc.0"),
            (&file("firmware_revision"), "2.88\n"),
            (&file("aux_firmware_revision"), "0x04 0x00 0x17 0x00\n"),
            (&file("ipmi_version"), "2.0\n"),
            (&file("manufacturer_id"), "0x0002a2\n"),
            (&file("product_id"), "0x0100\n"),
            (&file("device_id"), "32\n"),
            (&file("guid"), "00000000-0000-0000-0000-000000000000\n"),
        ]);
        let bmc = bmc(&machine).unwrap();
        assert_eq!(bmc.firmware.as_deref(), Some("2.88"));
        assert_eq!(bmc.auxiliary_firmware.as_deref(), Some("00170004"));
        assert_eq!((bmc.manufacturer_id, bmc.device_id), (Some(674), Some(32)));
        assert_eq!((bmc.guid, bmc.ipv4), (None, None));
        assert!(machine.problems().is_empty(), "{:?}", machine.problems());
    }
}
