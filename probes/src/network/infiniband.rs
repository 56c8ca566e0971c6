//! RDMA devices: `/sys/class/infiniband` (`Documentation/ABI/stable/sysfs-class-infiniband`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parent;
use crate::machine::Machine;

/// An RDMA device: InfiniBand, Omni-Path, RoCE or iWARP.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct InfinibandDevice {
    /// The kernel's name, e.g. `mlx5_0`.
    pub name: String,
    /// Firmware version, e.g. `20.31.1014`.
    pub firmware: Option<String>,
    /// The manufacturer's name for the board, e.g. `MT_0000000223`.
    pub board_id: Option<String>,
    /// The chip, e.g. `MT4123`.
    pub hca_type: Option<String>,
    /// The manufacturer's number for the hardware revision.
    pub hardware_revision: Option<String>,
    /// GUID of the node as the kernel writes it, `0a7f:bc12:45ef:d23b`; `None` where all zeros.
    pub node_guid: Option<String>,
    /// GUID that all nodes of one machine may share.
    pub system_image_guid: Option<String>,
    /// The node's own description, often the host name and the device.
    pub node_description: Option<String>,
    /// Driver of the underlying device.
    pub driver: Option<String>,
    /// PCI address of the underlying device.
    pub pci_address: Option<String>,
    /// NUMA node of the underlying device; `None` if the firmware does not report it.
    pub numa_node: Option<u32>,
    /// Network interfaces of the same device, in natural order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<String>,
    /// Its ports, by number.
    pub ports: Vec<InfinibandPort>,
}

/// A port of an RDMA device.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct InfinibandPort {
    /// Its number, from 1.
    pub number: u32,
    /// Logical state as the kernel writes it, e.g. `4: ACTIVE`.
    pub state: Option<String>,
    /// State of the link as the kernel writes it, e.g. `5: LinkUp`.
    pub physical_state: Option<String>,
    /// Rate as the kernel writes it, e.g. `100 Gb/sec (4X EDR)`.
    pub rate: Option<String>,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: Option<String>,
    /// First GID, `fe80:0000:0000:0000:…`; `None` where all zeros.
    pub gid: Option<String>,
}

/// Lists all RDMA devices.
pub(super) fn devices(machine: &Machine) -> Vec<InfinibandDevice> {
    const CLASS: &str = "sys/class/infiniband";
    machine.list(CLASS).into_iter().map(|name| device(machine, name)).collect()
}

fn device(machine: &Machine, name: String) -> InfinibandDevice {
    let dir = format!("sys/class/infiniband/{name}");
    let text = |file: &str| machine.text(&format!("{dir}/{file}")).map(|t| t.trim().to_owned());
    let parent = parent::parent(machine, &machine.device_path(&dir)).unwrap_or_default();
    let interfaces = match parent.path.as_str() {
        "" => Vec::new(),
        path => machine.list(&format!("{path}/net")),
    };
    InfinibandDevice {
        firmware: text("fw_ver"),
        board_id: text("board_id"),
        hca_type: text("hca_type"),
        hardware_revision: text("hw_rev"),
        node_guid: text("node_guid").filter(|guid| is_known(guid)),
        system_image_guid: text("sys_image_guid").filter(|guid| is_known(guid)),
        node_description: text("node_desc"),
        driver: parent.driver,
        pci_address: parent.pci_address,
        numa_node: parent.numa_node,
        interfaces,
        ports: ports(machine, &format!("{dir}/ports")),
        name,
    }
}

fn ports(machine: &Machine, dir: &str) -> Vec<InfinibandPort> {
    let numbers = machine.list(dir).into_iter().filter_map(|name| name.parse().ok());
    numbers.map(|number| port(machine, &format!("{dir}/{number}"), number)).collect()
}

fn port(machine: &Machine, dir: &str, number: u32) -> InfinibandPort {
    let text = |file: &str| machine.text(&format!("{dir}/{file}")).map(|t| t.trim().to_owned());
    InfinibandPort {
        number,
        state: text("state"),
        physical_state: text("phys_state"),
        rate: text("rate"),
        link_layer: text("link_layer"),
        gid: text("gids/0").filter(|gid| is_known(gid)),
    }
}

/// True if a GUID or GID identifies something: it is not all zeros, nor only the prefix `fe80` of a GID.
fn is_known(id: &str) -> bool {
    id.strip_prefix("fe80").unwrap_or(id).bytes().any(|byte| !matches!(byte, b'0' | b':'))
}
