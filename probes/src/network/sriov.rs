//! SR-IOV: the virtual functions of a port (`Documentation/ABI/testing/sysfs-bus-pci`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interface::Interface;
use crate::machine::Machine;
use crate::natural;
use crate::pci_address::is_pci_address;

/// A virtual function of a physical port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct VirtualFunction {
    /// Its PCI address.
    pub pci_address: String,
    /// The host's interfaces on it; empty if there are none or a guest uses it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<String>,
}

/// Lists the virtual functions of the PCI device at `pci_path`, by their number.
pub(super) fn functions(machine: &Machine, pci_path: &str) -> Vec<VirtualFunction> {
    let names = machine.list(pci_path);
    let links = names.iter().filter(|name| name.starts_with("virtfn"));
    links
        .filter_map(|name| machine.link_name(&format!("{pci_path}/{name}")))
        .filter(|name| is_pci_address(name))
        .map(|pci_address| VirtualFunction { pci_address, interfaces: Vec::new() })
        .collect()
}

/// The PCI address of the physical function of the virtual function at `pci_path`.
pub(super) fn physical_function(machine: &Machine, pci_path: &str) -> Option<String> {
    machine.link_name(&format!("{pci_path}/physfn")).filter(|name| is_pci_address(name))
}

/// Adds to each virtual function the names of its interfaces.
pub(super) fn join(interfaces: &mut [Interface]) {
    let owners: Vec<(String, String)> = interfaces
        .iter()
        .filter(|interface| interface.vf_of.is_some())
        .filter_map(|interface| Some((interface.pci_address.clone()?, interface.name.clone())))
        .collect();
    for function in interfaces.iter_mut().flat_map(|interface| &mut interface.vfs) {
        let names = owners.iter().filter(|(address, _)| *address == function.pci_address);
        function.interfaces = names.map(|(_, name)| name.clone()).collect();
        function.interfaces.sort_by(|a, b| natural::compare(a, b));
    }
}
