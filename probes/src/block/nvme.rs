//! NVMe controllers and the paths of their namespaces: `/sys/class/nvme`
//! (`drivers/nvme/host/sysfs.c`, `multipath.c`).
//!
//! With native multipath a namespace has a head `nvme0n1`, which belongs to its subsystem, and a hidden
//! path `nvme0c3n1` per controller. The first number is the subsystem's, so the controller is found
//! through the link `device`, not through the name.

use formats::text::padded;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ancestors;
use crate::machine::Machine;

use super::disk::{Disk, DiskPath, shared_by_all};
use super::kernel_name::{head_of_path, is_nvme_controller, is_nvme_namespace};
use super::listing::{BlockDevice, Listing};

/// One NVMe controller.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NvmeController {
    /// Kernel name, e.g. `nvme0`.
    pub name: String,
    /// Model number.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Firmware revision.
    pub firmware: Option<String>,
    /// `pcie`, `tcp`, `rdma`, `fc`, `loop`, …
    pub transport: Option<String>,
    /// PCI address, or the address of the target for a network transport.
    pub address: Option<String>,
    /// NVMe qualified name of the subsystem.
    pub subsystem_nqn: Option<String>,
    /// Identifier within the subsystem (CNTLID).
    pub controller_id: Option<u32>,
    /// `live`, `connecting`, `dead`, …
    pub state: Option<String>,
    /// NUMA node; `None` if the kernel does not know it.
    pub numa_node: Option<u32>,
    /// Namespaces that are reached through it, by the names of their disks.
    pub namespaces: Vec<String>,
}

/// Lists the controllers.
pub(super) fn controllers(machine: &Machine) -> Vec<NvmeController> {
    let names = machine.list("sys/class/nvme");
    names.into_iter().map(|name| controller(machine, name)).collect()
}

fn controller(machine: &Machine, name: String) -> NvmeController {
    let link = format!("sys/class/nvme/{name}");
    let path = machine.device_path(&link);
    let text = |name: &str| padded(machine.text(&format!("{path}/{name}"))?.as_bytes());
    let namespace =
        |name: String| head_of_path(&name).or_else(|| is_nvme_namespace(&name).then_some(name));
    let mut namespaces: Vec<String> =
        machine.list(&path).into_iter().filter_map(namespace).collect();
    namespaces.sort_by(|a, b| crate::natural::compare(a, b));
    namespaces.dedup();
    NvmeController {
        model: text("model"),
        serial: text("serial"),
        firmware: text("firmware_rev"),
        transport: text("transport"),
        address: text("address").or_else(|| ancestors::pci_address(&path)),
        subsystem_nqn: text("subsysnqn"),
        controller_id: machine.number(&format!("{path}/cntlid")),
        state: text("state"),
        numa_node: ancestors::numa_node(machine, &path),
        namespaces,
        name,
    }
}

/// One NVMe subsystem, which groups controllers and namespaces.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NvmeSubsystem {
    /// Kernel name, e.g. `nvme-subsys0`.
    pub name: String,
    /// NVMe qualified name.
    pub nqn: Option<String>,
    /// The kernel's choice among paths: `numa`, `round-robin` or `queue-depth`.
    pub io_policy: Option<String>,
    /// Its controllers, by name in natural order.
    pub controllers: Vec<String>,
    /// Namespaces with a multipath head, by the names of their disks.
    pub namespaces: Vec<String>,
}

/// Lists the subsystems: `/sys/class/nvme-subsystem`, with a link to each controller.
pub(super) fn subsystems(machine: &Machine) -> Vec<NvmeSubsystem> {
    let class = "sys/class/nvme-subsystem";
    let subsystem = |name: String| {
        let path = machine.device_path(&format!("{class}/{name}"));
        let children = machine.list(&path);
        NvmeSubsystem {
            nqn: machine.text(&format!("{path}/subsysnqn")),
            io_policy: machine.text(&format!("{path}/iopolicy")),
            controllers: children.iter().filter(|name| is_nvme_controller(name)).cloned().collect(),
            namespaces: children.iter().filter(|name| is_nvme_namespace(name)).cloned().collect(),
            name,
        }
    };
    machine.list(class).into_iter().map(subsystem).collect()
}

/// The controller of a namespace without a multipath head: the device above it, whatever the numbers in
/// its name.
fn parent_controller(machine: &Machine, device: &BlockDevice) -> Option<String> {
    let above = device.path.rsplit('/').nth(1).filter(|name| is_nvme_controller(name));
    above.map(str::to_owned).or_else(|| machine.link_name(&device.at("device")?))
}

/// The NVMe controllers and the devices listed, to which the namespaces are joined.
pub(super) struct Controllers<'a> {
    pub machine: &'a Machine,
    pub listing: &'a Listing,
    pub all: &'a [NvmeController],
}

impl<'a> Controllers<'a> {
    /// The hidden paths of the namespace `device`: those that the links in its `multipath` name (since
    /// Linux 6.15), else those whose name says so and whose controller is of the same subsystem.
    fn paths_of(&self, device: &BlockDevice) -> Vec<&'a BlockDevice> {
        let hidden = self.listing.hidden_paths.iter();
        if device.children.iter().any(|child| child == "multipath") {
            let names = device.list(self.machine, "multipath");
            return hidden.filter(|path| names.contains(&path.name)).collect();
        }
        let is_path = |path: &&BlockDevice| head_of_path(&path.name).as_ref() == Some(&device.name);
        hidden.filter(is_path).collect()
    }

    /// The controller that answers questions about `device`: one that is not dead.
    pub(super) fn of(&self, device: &BlockDevice) -> Option<String> {
        if !device.name.starts_with("nvme") {
            return None;
        }
        let mut paths = self.paths_of(device);
        if paths.is_empty() {
            paths.push(device);
        }
        let names = paths.into_iter().filter_map(|path| parent_controller(self.machine, path));
        let is_dead = |name: &String| {
            let state = self.known(Some(name)).and_then(|known| known.state.as_deref());
            state.is_some_and(|state| state != "live")
        };
        names.filter(|name| is_nvme_controller(name)).find(|name| !is_dead(name))
    }

    /// The controller of this name.
    fn known(&self, name: Option<&String>) -> Option<&'a NvmeController> {
        self.all.iter().find(|controller| Some(&controller.name) == name)
    }

    /// Adds the paths of a namespace, and the places of their controllers.
    pub(super) fn join(&self, disk: &mut Disk, device: &BlockDevice) {
        if !disk.name.starts_with("nvme") {
            return;
        }
        disk.paths = self.paths_of(device).into_iter().map(|hidden| self.path(hidden)).collect();
        if disk.paths.is_empty() {
            if !device.path.contains("/nvme-subsystem/") {
                let own = parent_controller(self.machine, device);
                disk.state = self.known(own.as_ref()).and_then(|known| known.state.clone());
            }
            return;
        }
        let live = disk.paths.iter().find(|path| path.state.as_deref() == Some("live"));
        disk.state = live.or(disk.paths.first()).and_then(|path| path.state.clone());
        disk.pci_address = shared_by_all(&disk.paths, |path| path.pci_address.clone());
        disk.numa_node = shared_by_all(&disk.paths, |path| path.numa_node);
        // udev names such a namespace after the path that it saw last.
        let is_far = |path: &DiskPath| {
            let found = self.known(path.controller.as_ref());
            found.and_then(|c| c.transport.as_deref()).is_some_and(|transport| transport != "pcie")
        };
        if disk.paths.len() > 1 || disk.paths.iter().any(is_far) {
            disk.by_path = None;
            disk.other_paths.clear();
        }
    }

    fn path(&self, hidden: &BlockDevice) -> DiskPath {
        let controller = parent_controller(self.machine, hidden);
        let found = self.known(controller.as_ref());
        DiskPath {
            name: hidden.name.clone(),
            state: found.and_then(|controller| controller.state.clone()),
            ana_state: hidden.text(self.machine, "ana_state"),
            pci_address: ancestors::pci_address(&hidden.path),
            numa_node: match found {
                Some(controller) => controller.numa_node,
                None => ancestors::numa_node(self.machine, &hidden.path),
            },
            controller,
            ..DiskPath::default()
        }
    }
}
