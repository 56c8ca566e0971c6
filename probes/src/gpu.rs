//! Graphics cards and accelerators: PCI devices by class and id, so that a card without a driver is
//! found, as in a live image; memory and other facts if a driver reports them.

mod driver;

use formats::data;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kfd::{self, ComputeNode};
use crate::machine::Machine;
use crate::pci::{BarKind, Pci, PciDevice};

/// Kinds of cards by ids and classes; see the file.
const RULES: &str = include_str!("../data/gpus.txt");

/// Graphics cards and accelerators.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Gpu {
    /// The cards, by PCI address.
    pub cards: Vec<Card>,
    /// GPU nodes of AMD's compute driver, partitions included, by id.
    pub compute_nodes: Vec<ComputeNode>,
}

/// Purpose of a card.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CardKind {
    /// Graphics or general-purpose computing.
    #[default]
    Gpu,
    /// Computing without graphics, e.g. AI accelerators and FPGA cards.
    Accelerator,
    /// The display of a management controller, without compute units.
    BmcDisplay,
    /// A switch between GPUs, such as NVIDIA's `NVSwitch`.
    Switch,
}

/// One card.
#[serde_with::skip_serializing_none]
#[serde_with::apply(Vec => #[serde(default, skip_serializing_if = "Vec::is_empty")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Card {
    /// PCI address.
    pub address: String,
    /// Its purpose.
    pub kind: CardKind,
    /// PCI vendor, four hexadecimal digits.
    pub vendor_id: Option<String>,
    /// PCI device, four hexadecimal digits.
    pub device_id: Option<String>,
    /// Name of the vendor in pci.ids.
    pub vendor_name: Option<String>,
    /// Name in pci.ids, e.g. `GH100 [H100 SXM5 80GB]`.
    pub name: Option<String>,
    /// The kernel driver that is bound.
    pub driver: Option<String>,
    /// NUMA node; `None` if the kernel reports -1.
    pub numa_node: Option<u32>,
    /// Memory of the card as its driver reports it: amdgpu, Intel's xe (including memory reserved by the
    /// firmware) and Intel's out-of-tree i915; `None` without such a driver.
    pub memory_bytes: Option<u64>,
    /// Largest window into the card's memory in bytes; the memory is at least this large unless the card
    /// exposes only registers.
    pub largest_bar_bytes: Option<u64>,
    /// Names of its devices in `/dev/dri` and `/dev/accel`, e.g. `card0`, `renderD128`, `accel0`.
    pub device_nodes: Vec<String>,
    /// The driver's name of the model (`/proc/driver/nvidia/gpus/*/information`, amdgpu's
    /// `product_name`, `device_type` of habanalabs).
    pub model: Option<String>,
    /// NVIDIA's UUID of the card, e.g. `GPU-5a1c…`.
    pub uuid: Option<String>,
    /// State of a Habana Labs accelerator as its driver reports it, e.g. `operational`,
    /// `in reset`, `disabled` (`status`, `Documentation/ABI/testing/sysfs-driver-habanalabs`).
    pub status: Option<String>,
    /// Position of a Habana Labs accelerator on the baseboard (`module_id`, since Linux 6.8).
    pub module_number: Option<u32>,
    /// Serial number as amdgpu reports it.
    pub serial: Option<String>,
    /// Version of the video BIOS.
    pub video_bios: Option<String>,
    /// Version of the firmware that NVIDIA's driver loaded, or of the processor of a Habana Labs card.
    pub firmware: Option<String>,
    /// Types of virtual GPUs that the driver can make (`mdev_supported_types`).
    pub mdev_types: Vec<String>,
    /// Number of virtual functions that are enabled.
    pub n_vfs: Option<u32>,
    /// Largest number of virtual functions of the card.
    pub max_vfs: Option<u32>,
    /// For a virtual function: the address of the card.
    pub physical_function: Option<String>,
    /// Configured Multi-Instance GPUs of an NVIDIA card
    /// (`/proc/driver/nvidia/capabilities/gpuN/mig`).
    pub n_mig_instances: Option<usize>,
    /// Partition mode of the card's compute units by amdgpu, e.g. `SPX`, `CPX`.
    pub compute_partition: Option<String>,
    /// Partition mode of the card's memory by amdgpu, e.g. `NPS1`, `NPS4`.
    pub memory_partition: Option<String>,
}

/// Finds graphics cards and accelerators among the PCI devices.
pub fn gpu(machine: &Machine, pci: &Pci) -> Gpu {
    let compute_nodes = kfd::compute_nodes(machine);
    let drivers = driver::Drivers::read(machine);
    let cards = pci.devices.iter().filter_map(|device| {
        // A driver that registers an accelerator shows what the device is.
        let by_driver = || drivers.is_accelerator(&device.address).then_some(CardKind::Accelerator);
        let mut card = card(device, kind(device).or_else(by_driver)?);
        card.memory_bytes = memory_bytes(machine, device, &compute_nodes);
        drivers.fill(machine, &mut card);
        Some(card)
    });
    Gpu { cards: cards.collect(), compute_nodes }
}

/// The facts of a card from the PCI bus.
fn card(device: &PciDevice, kind: CardKind) -> Card {
    let memory = device.bars.iter().filter(|bar| bar.kind != BarKind::Io);
    Card {
        address: device.address.clone(),
        kind,
        vendor_id: device.vendor_id.clone(),
        device_id: device.device_id.clone(),
        vendor_name: device.vendor_name.clone(),
        name: device.device_name.clone(),
        driver: device.driver.clone(),
        numa_node: device.numa_node,
        largest_bar_bytes: memory.map(|bar| bar.size_bytes).max(),
        n_vfs: device.n_vfs,
        max_vfs: device.max_vfs,
        physical_function: device.physical_function.clone(),
        ..Card::default()
    }
}

/// The kind of `device` by the first line that fits; `None` if it is neither card nor accelerator.
fn kind(device: &PciDevice) -> Option<CardKind> {
    let class = device.class.as_deref()?;
    let fits = |rule: &str, id: &Option<String>| rule == "*" || Some(rule) == id.as_deref();
    data::rows(RULES).find_map(|row| {
        let fields: Vec<&str> = row.split_ascii_whitespace().collect();
        let &[vendor, id, class_start, kind] = fields.as_slice() else { return None };
        let has_ids = fits(vendor, &device.vendor_id) && fits(id, &device.device_id);
        let is_it = has_ids && class.starts_with(class_start.trim_end_matches('*'));
        parse_kind(kind).filter(|_| is_it)
    })
}

fn parse_kind(word: &str) -> Option<CardKind> {
    serde_json::from_value(word.into()).ok()
}

/// `mem_info_vram_total` of amdgpu (`Documentation/gpu/amdgpu/driver-misc.rst`), else the memory banks of the compute
/// node. BARs are not a measure, because they may cover only a part of the memory.
fn memory_bytes(machine: &Machine, device: &PciDevice, nodes: &[ComputeNode]) -> Option<u64> {
    if device.driver.as_deref() != Some("amdgpu") {
        return None;
    }
    let path = format!("sys/bus/pci/devices/{}/mem_info_vram_total", device.address);
    let own = machine.number(&path).filter(|bytes| *bytes > 0);
    own.or_else(|| {
        let mut ours = nodes.iter().filter(|n| n.address.as_deref() == Some(&device.address));
        ours.try_fold(0_u64, |sum, node| sum.checked_add(node.memory_bytes?))
            .filter(|bytes| *bytes > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pci::Bar;
    use crate::testing::tree;

    fn device(class: &str, vendor: &str, id: &str) -> PciDevice {
        PciDevice {
            address: "0000:81:00.0".to_owned(),
            class: Some(class.to_owned()),
            vendor_id: Some(vendor.to_owned()),
            device_id: Some(id.to_owned()),
            ..PciDevice::default()
        }
    }

    #[test]
    fn every_rule_has_four_fields_and_a_known_kind() {
        for line in data::rows(RULES) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(fields.len(), 4, "{line}");
            assert!(fields[2] == "*" || fields[2].len() <= 4, "class and subclass: {line}");
            assert!(parse_kind(fields[3]).is_some(), "{line}");
        }
    }

    #[test]
    fn cards_are_distinguished_from_bmc_displays_and_bridges() {
        let (display, gpu) = (Some(CardKind::BmcDisplay), Some(CardKind::Gpu));
        for (class, vendor, id, expected) in [
            ("0300", "1a03", "2000", display),
            ("0604", "1a03", "1150", None),
            ("0300", "102b", "0536", display),
            ("0302", "10de", "2330", gpu),
            ("1200", "1002", "74a1", gpu),
            ("1200", "1da3", "1020", Some(CardKind::Accelerator)),
            ("0880", "1d0f", "7364", Some(CardKind::Accelerator)),
            ("0380", "1234", "1111", gpu),
            ("0680", "10de", "22a3", Some(CardKind::Switch)),
            // The Ethernet port of an old board.
            ("0680", "10de", "0269", None),
            ("0200", "8086", "1572", None),
        ] {
            assert_eq!(kind(&device(class, vendor, id)), expected, "{class} {vendor} {id}");
        }
        assert_eq!(kind(&PciDevice::default()), None);
    }

    #[test]
    fn card_without_a_driver_has_windows_and_no_memory_size() {
        let bar = |index, size_bytes, kind| Bar { index, kind, size_bytes, is_prefetchable: true };
        let bars = vec![
            bar(0, 16 << 20, BarKind::Memory32),
            bar(1, 128 << 30, BarKind::Memory64),
            bar(5, 128, BarKind::Io),
        ];
        let pci = Pci {
            n_devices: Some(1),
            devices: vec![PciDevice { bars, ..device("0302", "10de", "2330") }],
        };
        let cards = gpu(&tree(&[("proc/version", "x")]), &pci).cards;
        assert_eq!((cards.len(), cards[0].kind), (1, CardKind::Gpu));
        assert_eq!((cards[0].memory_bytes, cards[0].largest_bar_bytes), (None, Some(128 << 30)));
    }

    #[test]
    fn memory_comes_from_the_driver() {
        let machine =
            tree(&[("sys/bus/pci/devices/0000:81:00.0/mem_info_vram_total", "68702699520\n")]);
        let card =
            PciDevice { driver: Some("amdgpu".to_owned()), ..device("0380", "1002", "740f") };
        let pci = Pci { n_devices: Some(1), devices: vec![card] };
        assert_eq!(gpu(&machine, &pci).cards[0].memory_bytes, Some(68_702_699_520));
    }
}
