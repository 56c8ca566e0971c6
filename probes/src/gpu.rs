//! Graphics cards and accelerators: PCI devices by class and id, so that a card is seen without a
//! driver, as in a live image; memory and what else a driver says where there is one.

mod driver;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kfd::{self, ComputeNode};
use crate::machine::Machine;
use crate::pci::{BarKind, Pci, PciDevice};

/// Which ids and classes are what; see the file.
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

/// What a card is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CardKind {
    /// Graphics or general computing.
    Gpu,
    /// Computing without graphics: AI accelerators, FPGA cards.
    Accelerator,
    /// The display of a management controller, which computes nothing.
    BmcDisplay,
    /// A switch between GPUs, such as NVIDIA's `NVSwitch`.
    Switch,
}

/// One card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Card {
    /// PCI address.
    pub address: String,
    /// What it is for.
    pub kind: CardKind,
    /// PCI vendor, four hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor_id: Option<String>,
    /// PCI device, four hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// Name of the vendor in pci.ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor_name: Option<String>,
    /// Name in pci.ids, e.g. `GH100 [H100 SXM5 80GB]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The kernel driver that is bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// NUMA node; `None` where the kernel says -1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// Memory of the card, as its driver says: amdgpu, Intel's xe (with what the firmware keeps for
    /// itself) and Intel's own i915; `None` without a driver that does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Largest window into the card's memory, in bytes; the memory has at least this size unless
    /// the card shows registers alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_bar_bytes: Option<u64>,
    /// Names of its devices in `/dev/dri` and `/dev/accel`, e.g. `card0`, `renderD128`, `accel0`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_nodes: Vec<String>,
    /// The driver's name of the model (`/proc/driver/nvidia/gpus/*/information`, amdgpu's
    /// `product_name`, `device_type` of habanalabs).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// NVIDIA's UUID of the card, e.g. `GPU-5a1c…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// What the driver says of the state of an accelerator of Habana Labs, e.g. `operational`,
    /// `in reset`, `disabled` (`status`, `Documentation/ABI/testing/sysfs-driver-habanalabs`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Number of the place on the baseboard where an accelerator of Habana Labs sits (`module_id`,
    /// since Linux 6.8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module_number: Option<u32>,
    /// Serial number as amdgpu says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Version of the video BIOS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub video_bios: Option<String>,
    /// Firmware that NVIDIA's driver loaded into the card, or that of habanalabs' processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// Types of virtual GPUs that the driver can make (`mdev_supported_types`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mdev_types: Vec<String>,
    /// How many virtual functions are turned on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_vfs: Option<u32>,
    /// How many virtual functions the card can have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_vfs: Option<u32>,
    /// Of a virtual function: the address of the card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_function: Option<String>,
    /// NVIDIA's Multi-Instance GPUs that someone set up
    /// (`/proc/driver/nvidia/capabilities/gpuN/mig`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_mig_instances: Option<usize>,
    /// How amdgpu splits the card's compute units, e.g. `SPX`, `CPX`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_partition: Option<String>,
    /// How amdgpu splits the card's memory, e.g. `NPS1`, `NPS4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_partition: Option<String>,
}

/// Finds graphics cards and accelerators among the PCI devices.
#[must_use]
pub fn gpu(machine: &Machine, pci: &Pci) -> Gpu {
    let compute_nodes = kfd::compute_nodes(machine);
    let (rules, drivers) = (rules(), driver::Drivers::read(machine));
    let cards = pci.devices.iter().filter_map(|device| {
        // A driver that registers an accelerator says what the device is.
        let by_driver = || drivers.is_accelerator(&device.address).then_some(CardKind::Accelerator);
        let mut card = card(device, kind(&rules, device).or_else(by_driver)?);
        card.memory_bytes = memory_bytes(machine, device, &compute_nodes);
        drivers.fill(machine, &mut card);
        Some(card)
    });
    Gpu { cards: cards.collect(), compute_nodes }
}

/// What the PCI bus says of a card.
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
        memory_bytes: None,
        largest_bar_bytes: memory.map(|bar| bar.size_bytes).max(),
        device_nodes: Vec::new(),
        model: None,
        uuid: None,
        status: None,
        module_number: None,
        serial: None,
        video_bios: None,
        firmware: None,
        mdev_types: Vec::new(),
        n_vfs: device.n_vfs,
        max_vfs: device.max_vfs,
        physical_function: device.physical_function.clone(),
        n_mig_instances: None,
        compute_partition: None,
        memory_partition: None,
    }
}

/// One line of the rules; `None` stands for `*`.
#[derive(Debug)]
struct Rule {
    vendor: Option<&'static str>,
    device: Option<&'static str>,
    class: &'static str,
    kind: CardKind,
}

/// The rules in their order.
fn rules() -> Vec<Rule> {
    let rule = |line: &'static str| {
        let mut fields = line.split('#').next()?.split_ascii_whitespace();
        let mut field = || fields.next().map(|field| Some(field).filter(|field| *field != "*"));
        let (vendor, device, class) = (field()?, field()?, field()?.unwrap_or_default());
        Some(Rule { vendor, device, class, kind: parse_kind(fields.next()?)? })
    };
    RULES.lines().filter_map(rule).collect()
}

/// What `device` is by the first rule that fits; `None` if it is neither card nor accelerator.
fn kind(rules: &[Rule], device: &PciDevice) -> Option<CardKind> {
    let class = device.class.as_deref()?;
    let fits = |rule: Option<&str>, id: Option<&str>| rule.is_none() || rule == id;
    let rule = rules.iter().find(|rule| {
        fits(rule.vendor, device.vendor_id.as_deref())
            && fits(rule.device, device.device_id.as_deref())
            && class.starts_with(rule.class)
    });
    rule.map(|rule| rule.kind)
}

fn parse_kind(word: &str) -> Option<CardKind> {
    match word {
        "gpu" => Some(CardKind::Gpu),
        "accelerator" => Some(CardKind::Accelerator),
        "bmc_display" => Some(CardKind::BmcDisplay),
        "switch" => Some(CardKind::Switch),
        _ => None,
    }
}

/// `mem_info_vram_total` of amdgpu (`Documentation/gpu/amdgpu/driver-misc.rst`), else the memory
/// banks of the compute node. BARs are no measure: they may show a window of the memory only.
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
        let lines = RULES.lines().map(|line| line.split('#').next().unwrap_or_default());
        for line in lines.filter(|line| !line.trim().is_empty()) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(fields.len(), 4, "{line}");
            assert!(fields[2] == "*" || fields[2].len() <= 4, "class and subclass: {line}");
            assert!(parse_kind(fields[3]).is_some(), "{line}");
        }
    }

    #[test]
    fn cards_are_told_from_displays_of_management_controllers_and_from_bridges() {
        let rules = rules();
        let kind = |device: &PciDevice| super::kind(&rules, device);
        assert_eq!(kind(&device("0300", "1a03", "2000")), Some(CardKind::BmcDisplay));
        assert_eq!(kind(&device("0604", "1a03", "1150")), None);
        assert_eq!(kind(&device("0300", "102b", "0536")), Some(CardKind::BmcDisplay));
        assert_eq!(kind(&device("0302", "10de", "2330")), Some(CardKind::Gpu));
        assert_eq!(kind(&device("1200", "1002", "74a1")), Some(CardKind::Gpu));
        assert_eq!(kind(&device("1200", "1da3", "1020")), Some(CardKind::Accelerator));
        assert_eq!(kind(&device("0880", "1d0f", "7364")), Some(CardKind::Accelerator));
        assert_eq!(kind(&device("0380", "1234", "1111")), Some(CardKind::Gpu));
        assert_eq!(kind(&device("0680", "10de", "22a3")), Some(CardKind::Switch));
        assert_eq!(
            kind(&device("0680", "10de", "0269")),
            None,
            "the Ethernet port of an old board"
        );
        assert_eq!(kind(&device("0200", "8086", "1572")), None);
        assert_eq!(kind(&PciDevice::default()), None);
    }

    #[test]
    fn a_card_without_a_driver_is_listed_with_its_windows_and_without_a_memory_size() {
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
    fn memory_is_what_the_driver_says() {
        let machine =
            tree(&[("sys/bus/pci/devices/0000:81:00.0/mem_info_vram_total", "68702699520\n")]);
        let card =
            PciDevice { driver: Some("amdgpu".to_owned()), ..device("0380", "1002", "740f") };
        let pci = Pci { n_devices: Some(1), devices: vec![card] };
        assert_eq!(gpu(&machine, &pci).cards[0].memory_bytes, Some(68_702_699_520));
    }
}
