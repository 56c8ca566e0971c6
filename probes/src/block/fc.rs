//! Fibre Channel host ports: `/sys/class/fc_host` (`drivers/scsi/scsi_transport_fc.c`).

use formats::text::padded;
use formats::wwn::is_blank;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ancestors;
use crate::machine::Machine;

/// One port of a Fibre Channel adapter.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FcHost {
    /// Kernel name of the SCSI host, e.g. `host0`.
    pub name: String,
    /// World-wide name of the port, e.g. `0x1000e0071bce95f2`.
    pub port_name: Option<String>,
    /// World-wide name of the adapter.
    pub node_name: Option<String>,
    /// World-wide name of the fabric; `None` without a fabric.
    pub fabric_name: Option<String>,
    /// Link speed as the driver writes it, e.g. `16 Gbit`; `None` while there is no link.
    pub speed: Option<String>,
    /// Speeds that the port supports, as the driver writes them.
    pub supported_speeds: Option<String>,
    /// `Online`, `Linkdown`, …
    pub port_state: Option<String>,
    /// E.g. `NPort (fabric via point-to-point)`.
    pub port_type: Option<String>,
    /// The driver's own line with model and firmware.
    pub symbolic_name: Option<String>,
    /// PCI address of the adapter.
    pub pci_address: Option<String>,
}

/// Lists the ports.
pub(super) fn hosts(machine: &Machine) -> Vec<FcHost> {
    let class = "sys/class/fc_host";
    let host = |name: String| {
        let text = |attribute: &str| {
            let text = machine.text(&format!("{class}/{name}/{attribute}"))?;
            let is_known = !text.trim_start().to_ascii_lowercase().starts_with("unknown");
            padded(text.as_bytes()).filter(|_| is_known)
        };
        let wwn = |attribute: &str| text(attribute).filter(|wwn| !is_blank(wwn));
        FcHost {
            port_name: wwn("port_name"),
            node_name: wwn("node_name"),
            fabric_name: wwn("fabric_name"),
            speed: text("speed"),
            supported_speeds: text("supported_speeds"),
            port_state: text("port_state"),
            port_type: text("port_type"),
            symbolic_name: text("symbolic_name"),
            pci_address: ancestors::pci_address(&machine.device_path(&format!("{class}/{name}"))),
            name,
        }
    };
    machine.list(class).into_iter().map(host).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree_in;

    #[test]
    fn unknown_attributes_of_a_port_are_absent() {
        let machine = tree_in(&[
            ("sys/class/fc_host/host1", &[("port_name", "0x1000e0071bce95f2")]),
            ("sys/class/fc_host/host1", &[("fabric_name", "0xffffffffffffffff")]),
            ("sys/class/fc_host/host1", &[("node_name", "0x0")]),
            ("sys/class/fc_host/host1", &[("speed", "unknown"), ("port_state", "Linkdown")]),
        ]);
        let hosts = hosts(&machine);
        assert_eq!(hosts[0].port_name.as_deref(), Some("0x1000e0071bce95f2"));
        assert_eq!(
            (&hosts[0].fabric_name, &hosts[0].node_name, &hosts[0].speed),
            (&None, &None, &None)
        );
        assert_eq!(hosts[0].port_state.as_deref(), Some("Linkdown"));
    }
}
