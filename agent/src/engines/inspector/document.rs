//! The document that ironic-python-agent of OSP 13 posts to the inspector: as for Ironic, with these differences.
//!
//! - LLDP is in the interface; `lldp_raw` came with a later release (`plugins/lldp_basic.py`).
//! - An unknown architecture or memory is absent: null becomes the architecture `None` (`plugins/standard.py`).
//! - `data` has the facts of `hardware-detect`, from which the hook `extra_hardware` makes `extra` for rules.
//! - `logs` is an archive in base64, which the inspector keeps if it refuses the data.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::extra::{self, interfaces};
use crate::archive::tar_gz;
use crate::export;
use crate::report::Report;

/// The machine's facts as the inspector expects them, with the last lines of the log.
pub fn document(report: &Report, log: &str) -> Value {
    let mut document = export::ironic(report);
    document["data"] = extra::items(&report.inventory, &document);
    let lldp = document.as_object_mut().and_then(|keys| keys.remove("lldp_raw"));
    let interfaces = document.pointer_mut("/inventory/interfaces").and_then(Value::as_array_mut);
    for interface in interfaces.into_iter().flatten() {
        let name = interface["name"].as_str().unwrap_or_default();
        if let Some(frames) = lldp.as_ref().and_then(|lldp| lldp.get(name)).cloned() {
            interface["lldp"] = frames;
        }
    }
    for section in ["cpu", "memory"] {
        if let Some(Value::Object(keys)) = document["inventory"].get_mut(section) {
            keys.retain(|_, value| !value.is_null());
        }
    }
    if let Ok(logs) = tar_gz(&[("run-coreos-installer.log", log.as_bytes())]) {
        document["logs"] = STANDARD.encode(logs).into();
    }
    document
}

/// True if any port has an address.
pub(super) fn has_address(document: &Value) -> bool {
    interfaces(document)
        .any(|port| port["ipv4_address"].is_string() || port["ipv6_address"].is_string())
}

/// Describes the properties by which the inspector finds the node.
pub(super) fn identity(document: &Value) -> String {
    let macs: Vec<&str> =
        interfaces(document).filter_map(|port| port["mac_address"].as_str()).collect();
    let bmc = ["bmc_address", "bmc_v6address"].map(|key| document["inventory"][key].as_str());
    let bmc: Vec<&str> = bmc.into_iter().flatten().collect();
    let mut words = format!("a port with one of these MACs: {}", macs.join(", "));
    if !bmc.is_empty() {
        words = format!("{words}; or its BMC at {}", bmc.join(" or "));
    }
    words
}

#[cfg(test)]
mod tests {
    use probes::block::{Block, Disk};
    use probes::collect::Inventory;
    use probes::cpu::Cpu;
    use probes::memory::Memory;
    use probes::network::{Interface, LldpNeighbour, Network};
    use serde_json::json;

    use super::*;
    use crate::check::tests::report_with;

    fn of(inventory: Inventory) -> Value {
        let mut document = document(&Report { inventory, ..report_with(Vec::new()) }, "");
        let logs = document["logs"].take();
        assert!(logs.as_str().is_some_and(|logs| STANDARD.decode(logs).is_ok()));
        document.as_object_mut().unwrap().remove("logs");
        document
    }

    fn machine() -> Inventory {
        let port = Interface {
            name: "eth0".into(),
            kind: Some("physical".into()),
            current_mac: Some("02:00:00:00:00:01".into()),
            ..Interface::default()
        };
        Inventory {
            cpu: Some(Cpu::default()),
            memory: Some(Memory::default()),
            block: Some(Block::default()),
            network: Some(Network { interfaces: vec![port], ..Network::default() }),
            ..Inventory::default()
        }
    }

    #[test]
    fn unknown_facts_are_absent_and_the_sections_that_hooks_read_are_there() {
        let expected = json!({
            "inventory": {
                "interfaces": [{"name": "eth0", "mac_address": "02:00:00:00:00:01"}],
                "cpu": {}, "memory": {},
            },
            "data": [
                ["disk", "logical", "count", 0],
                ["network", "eth0", "serial", "02:00:00:00:00:01"],
            ],
        });
        let found = of(machine());
        assert_eq!(found, expected);
        assert!(!has_address(&found));
    }

    #[test]
    fn lost_section_is_an_error_with_which_the_inspector_refuses_the_data() {
        let error = of(Inventory { block: None, ..machine() })["error"].to_string();
        assert!(error.contains("block"), "{error}");
    }

    #[test]
    fn neighbour_is_in_its_port() {
        let mut machine = machine();
        let neighbour = LldpNeighbour {
            lldpdu_hex: "0207040200000000aa0403073235060200780000".into(),
            ..LldpNeighbour::default()
        };
        machine.network.as_mut().unwrap().interfaces[0].lldp = Some(vec![neighbour]);
        let found = of(machine);
        let expected = json!([[1, "040200000000aa"], [2, "073235"], [3, "0078"]]);
        assert_eq!(found["inventory"]["interfaces"][0]["lldp"], expected);
        assert_eq!(found.get("lldp_raw"), None);
    }

    #[test]
    fn disk_is_listed_once_with_its_identifiers() {
        let mut machine = machine();
        let disk = Disk {
            name: "sda".into(),
            device: "/dev/sda".into(),
            size_bytes: Some(480_103_981_056),
            rotational: Some(false),
            by_id: vec!["/dev/disk/by-id/wwn-0x5000c500a1b2c3d4".into()],
            ..Disk::default()
        };
        machine.block.as_mut().unwrap().disks.push(disk);
        let expected = json!([
            ["disk", "logical", "count", 1],
            ["disk", "sda", "size", 480],
            ["disk", "sda", "rotational", 0],
            ["disk", "sda", "wwn-id", "wwn-0x5000c500a1b2c3d4"],
            ["network", "eth0", "serial", "02:00:00:00:00:01"],
        ]);
        assert_eq!(of(machine)["data"], expected);
    }
}
