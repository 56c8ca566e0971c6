//! PCI devices: `/sys/bus/pci/devices/` (`Documentation/ABI/testing/sysfs-bus-pci`), or, if a
//! tree lacks it, `/sys/devices/pci*` or `/proc/bus/pci`.
//!
//! Each device needs few opens: a listing shows which attributes exist, and `uevent` has class, ids and
//! driver in one read, without touching the device. `config` has the same ids, but reading it wakes a
//! sleeping device and returns `ffff` for a virtual function, so it comes last.
//! Nothing here needs root.

mod aer;
mod bars;
mod find;
mod ids;
mod link;
mod names;
mod slots;
mod vpd;

pub use crate::pci_address::Address;
pub use aer::Aer;
pub use bars::{Bar, BarKind};
pub use formats::pci::Vpd;
pub use link::Link;
pub(crate) use link::lower_ends;
pub use slots::name_slots;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ancestors;
use crate::machine::Machine;
use crate::pci_address::is_pci_address;

/// PCI devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Pci {
    /// Number of devices; `None` if the source has no information on PCI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_devices: Option<usize>,
    /// The devices, by address.
    pub devices: Vec<PciDevice>,
}

/// One function of a PCI device.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PciDevice {
    /// `DDDD:BB:DD.F`, e.g. `0000:3b:00.0`; the domain may be longer than four digits.
    pub address: String,
    /// Class and subclass, four hexadecimal digits, e.g. `0200`.
    pub class: Option<String>,
    /// Programming interface, two hexadecimal digits.
    pub prog_if: Option<String>,
    /// Four hexadecimal digits, e.g. `8086`.
    pub vendor_id: Option<String>,
    /// Four hexadecimal digits.
    pub device_id: Option<String>,
    /// Four hexadecimal digits; `None` if the device has no subsystem, like most bridges.
    pub subsystem_vendor_id: Option<String>,
    /// Four hexadecimal digits; `None` as for the subsystem's vendor.
    pub subsystem_device_id: Option<String>,
    /// Two hexadecimal digits.
    pub revision: Option<String>,
    /// Name of the class in pci.ids, e.g. `Ethernet controller`.
    pub class_name: Option<String>,
    /// Name of the vendor in pci.ids.
    pub vendor_name: Option<String>,
    /// Name of the device in pci.ids.
    pub device_name: Option<String>,
    /// Name of the subsystem in pci.ids.
    pub subsystem_name: Option<String>,
    /// The kernel driver that is bound, e.g. `ixgbe`.
    pub driver: Option<String>,
    /// NUMA node; `None` if the kernel says -1.
    pub numa_node: Option<u32>,
    /// Number of the IOMMU group; `None` without an IOMMU.
    pub iommu_group: Option<u32>,
    /// Name of the physical slot, from the firmware or the hot-plug driver.
    pub slot: Option<String>,
    /// The firmware's name of an on-board device, e.g. `Onboard LAN 1`.
    pub label: Option<String>,
    /// Address of the bridge above; `None` at a root bus.
    pub parent: Option<String>,
    /// Of a virtual function: the address of its physical function.
    pub physical_function: Option<String>,
    /// Of a physical function: number of enabled virtual functions.
    pub n_vfs: Option<u32>,
    /// Of a physical function: most virtual functions that it supports.
    pub max_vfs: Option<u32>,
    /// PCI Express link; `None` for conventional PCI.
    pub link: Option<Link>,
    /// Base address registers in use, by index (`resource`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<Bar>,
    /// Size of the expansion ROM's window, in bytes; `None` without one.
    pub rom_bytes: Option<u64>,
    /// Vital Product Data; only with `--vpd`.
    pub vpd: Option<Vpd>,
    /// Power state, e.g. `D0`, `D3hot`. Since Linux 5.8.
    pub power_state: Option<String>,
    /// Advanced Error Reporting counters since boot; `None` if the kernel has none.
    pub aer: Option<Aer>,
}

/// Reads the PCI devices.
pub fn pci(machine: &Machine) -> Pci {
    let Some(places) = find::places(machine) else { return Pci::default() };
    let slots = slots::by_address(machine);
    let mut devices: Vec<PciDevice> =
        places.iter().map(|place| device(machine, place, &slots)).collect();
    link::set_possible(&mut devices);
    if machine.extras().vpd {
        vpd::fill(machine, &mut devices);
    }
    let mut pci = Pci { n_devices: Some(devices.len()), devices };
    if slots.is_empty() {
        name_slots(&mut pci, &slots::firmware_names(machine));
    }
    pci
}

/// The attributes of a device in sysfs.
struct Attributes<'p> {
    /// The device's directory.
    path: &'p str,
    /// The names in it; if the listing failed, any attribute may exist.
    names: Vec<String>,
}

impl Attributes<'_> {
    /// The path of the attribute `name`; `None` if the device does not have it.
    fn at(&self, name: &str) -> Option<String> {
        let may_have = self.names.is_empty() || self.names.iter().any(|known| known == name);
        may_have.then(|| [self.path, "/", name].concat())
    }
}

fn device(machine: &Machine, place: &find::Place, slots: &BTreeMap<String, String>) -> PciDevice {
    let path = place.path.as_str();
    let is_sysfs = path.starts_with("sys/");
    let names = if is_sysfs { machine.names(path) } else { Vec::new() };
    let attributes = Attributes { path, names };
    let address = place.address.to_string();
    let (ids, driver) = ids::read(machine, place, &attributes);
    if ids.vendor.is_none() && ids.class.is_none() {
        machine.problem(path, "neither vendor nor class", "what the device is");
    }
    let mut device = PciDevice { address, driver, ..PciDevice::default() };
    ids::write(&ids, &mut device);
    names::set(&ids, &mut device);
    let function_less = place.address.without_function();
    device.slot = slots.get(&function_less).cloned();
    if is_sysfs {
        set_relations(machine, &attributes, &mut device);
        device.link = link::read(machine, &attributes);
        device.aer = aer::read(machine, &attributes);
        (device.bars, device.rom_bytes) = bars::read(machine, &attributes);
    }
    device
}

/// Fills in the relations to other devices: parent, IOMMU group, NUMA node, virtual functions.
fn set_relations(machine: &Machine, attributes: &Attributes, device: &mut PciDevice) {
    let at = |name: &str| attributes.at(name);
    device.parent = attributes.path.rsplit_once('/').and_then(|(up, _)| ancestors::pci_address(up));
    if device.driver.is_none() {
        device.driver = at("driver").and_then(|path| machine.link_name(&path));
    }
    let group = at("iommu_group").and_then(|path| machine.link_name(&path));
    device.iommu_group = group.and_then(|group| group.parse().ok());
    let node = at("numa_node").and_then(|path| machine.number::<i64>(&path));
    device.numa_node = node.and_then(|node| u32::try_from(node).ok());
    device.label = at("label").and_then(|path| machine.text(&path));
    let state = at("power_state").and_then(|path| machine.text(&path));
    let is_state = |state: &String| ["D0", "D1", "D2", "D3hot", "D3cold"].contains(&state.as_str());
    device.power_state = state.filter(is_state);
    let function = at("physfn").and_then(|path| machine.link_name(&path));
    device.physical_function = function.filter(|address| is_pci_address(address));
    device.max_vfs = at("sriov_totalvfs").and_then(|path| machine.number(&path));
    if device.max_vfs.is_some() {
        device.n_vfs = at("sriov_numvfs").and_then(|path| machine.number(&path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{has, problems, tree};
    use serde_json::json;

    const NIC: &str = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0";

    fn machine() -> Machine {
        let at = |name: &str| format!("{NIC}/{name}");
        let resource = "0x00000000d0000000 0x00000000d07fffff 0x000000000014220c\n\
                        0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
        tree(&[
            (
                "sys/bus/pci/devices/0000:3b:00.0",
                "-> ../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0",
            ),
            ("sys/bus/pci/devices/10000:e1:00.0", "-> ../../../devices/pci10000:e0/10000:e1:00.0"),
            ("sys/bus/pci/devices/0000:3a:00.0", "-> ../../../devices/pci0000:3a/0000:3a:00.0"),
            ("sys/devices/pci0000:3a/0000:3a:00.0/class", "0x060400\n"),
            ("sys/devices/pci0000:3a/0000:3a:00.0/max_link_speed", "16.0 GT/s PCIe\n"),
            ("sys/devices/pci0000:3a/0000:3a:00.0/max_link_width", "4\n"),
            ("sys/devices/pci0000:3a/0000:3a:00.0/numa_node", "-1\n"),
            ("sys/bus/pci/slots/3/address", "0000:3b:00\n"),
            (
                &at("uevent"),
                "DRIVER=ixgbe\nPCI_CLASS=20000\nPCI_ID=8086:10FB\nPCI_SUBSYS_ID=8086:000C\n",
            ),
            (&at("revision"), "0x01\n"),
            (&at("numa_node"), "0\n"),
            (&at("iommu_group"), "-> ../../../../kernel/iommu_groups/41"),
            (&at("current_link_speed"), "2.5 GT/s PCIe\n"),
            (&at("current_link_width"), "1\n"),
            (&at("max_link_speed"), "5.0 GT/s PCIe\n"),
            (&at("max_link_width"), "8\n"),
            (&at("resource"), resource),
            (&at("sriov_totalvfs"), "63\n"),
            (&at("sriov_numvfs"), "0\n"),
            (&at("aer_dev_correctable"), "RxErr 3\nBadTLP 0\nTOTAL_ERR_COR 3\n"),
        ])
    }

    #[test]
    fn subsystem_known_only_from_the_module_alias_is_reported() {
        let at = |name: &str| format!("sys/devices/pci0000:3a/0000:3a:00.0/{name}");
        let machine = tree(&[
            ("sys/bus/pci/devices/0000:3a:00.0", "-> ../../../devices/pci0000:3a/0000:3a:00.0"),
            (&at("class"), "0x020000\n"),
            (&at("vendor"), "0x8086\n"),
            (&at("device"), "0x158b\n"),
            (&at("modalias"), "pci:v00008086d0000158Bsv00008086sd00000009bc02sc00i00\n"),
        ]);
        let subsystem = json!({"subsystem_vendor_id": "8086", "subsystem_device_id": "0009"});
        has(&pci(&machine).devices[0], &subsystem);
    }

    #[test]
    fn device_has_its_ids_place_and_link_and_an_unreadable_one_stays_in_the_list_by_address() {
        let machine = machine();
        let pci = pci(&machine);
        let addresses: Vec<&str> = pci.devices.iter().map(|d| d.address.as_str()).collect();
        assert_eq!(addresses, ["0000:3a:00.0", "0000:3b:00.0", "10000:e1:00.0"]);
        assert_eq!(pci.n_devices, Some(3));
        let missing = "/sys/devices/pci10000:e0/10000:e1:00.0: neither vendor nor class";
        assert_eq!(problems(&machine), [missing]);
        assert_eq!(pci.devices[2].vendor_id, None);
        let nic = &pci.devices[1];
        has(nic, &json!({"class": "0200", "prog_if": "00", "vendor_id": "8086"}));
        has(nic, &json!({"subsystem_device_id": "000c", "revision": "01", "driver": "ixgbe"}));
        has(nic, &json!({"subsystem_name": "Ethernet Server Adapter X520-2", "slot": "3"}));
        has(nic, &json!({"numa_node": 0, "iommu_group": 41, "parent": "0000:3a:00.0"}));
        has(nic, &json!({"n_vfs": 0, "max_vfs": 63, "rom_bytes": null, "device_id": "10fb"}));
        has(&nic.link, &json!({"current_gt_s_x10": 25, "max_gt_s_x10": 50}));
        has(&nic.link, &json!({"possible_gt_s_x10": 50, "possible_width": 4}));
        has(&nic.aer, &json!({"n_correctable": 3}));
        assert_eq!(nic.bars.len(), 1);
        assert_eq!((nic.bars[0].kind, nic.bars[0].size_bytes), (BarKind::Memory64, 8 << 20));
        assert_eq!(pci.devices[0].numa_node, None, "-1 is no node");
    }

    #[test]
    fn source_without_pci_leaves_the_count_unknown() {
        assert_eq!(pci(&tree(&[("proc/cpuinfo", "x\n")])), Pci::default());
    }
}
