//! PCI Express links: current speed and width, the maximum of the device, and the maximum of both ends.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Attributes, PciDevice};
use crate::machine::Machine;

/// The link of a device. Speeds are in tenths of GT/s: 25 is 2.5 GT/s, 160 is 16 GT/s.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Link {
    /// Speed now; `None` while the link is down. An idle device may lower it.
    pub current_gt_s_x10: Option<u32>,
    /// Lanes now; `None` while the link is down.
    pub current_width: Option<u32>,
    /// Highest speed of the device.
    pub max_gt_s_x10: Option<u32>,
    /// Most lanes of the device.
    pub max_width: Option<u32>,
    /// Highest speed that both ends support; `None` if the other end is unknown.
    pub possible_gt_s_x10: Option<u32>,
    /// Most lanes that both ends have; `None` if the other end is unknown.
    pub possible_width: Option<u32>,
    /// True if the state of the link reads as all ones, as it does if the device has no power or no longer responds.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reads_all_ones: bool,
}

/// The number of lanes in a register of all ones (`PCI_EXP_LNKSTA_NLW`, `uapi/linux/pci_regs.h`).
const ALL_ONES: u32 = 63;

/// Reads the link of a device; `None` for a device without one.
pub(super) fn read(machine: &Machine, attributes: &Attributes) -> Option<Link> {
    let at = |name: &str| attributes.at(name);
    let speed = |name: &str| at(name).and_then(|path| machine.parse(&path, parse_speed)).flatten();
    let width = |name: &str| at(name).and_then(|path| machine.parse(&path, parse_width)).flatten();
    let is_known = |width: &u32| *width != ALL_ONES;
    let current_width = width("current_link_width");
    let link = Link {
        current_gt_s_x10: speed("current_link_speed"),
        current_width: current_width.filter(is_known),
        max_gt_s_x10: speed("max_link_speed"),
        max_width: width("max_link_width").filter(is_known),
        reads_all_ones: current_width == Some(ALL_ONES),
        ..Link::default()
    };
    (link != Link::default()).then_some(link)
}

/// `8.0 GT/s PCIe`, `8 GT/s`, or `Unknown` without a link.
fn parse_speed(text: &str) -> Result<Option<u32>, &'static str> {
    if text.to_ascii_lowercase().starts_with("unknown") {
        return Ok(None);
    }
    let expected = "a speed in GT/s, or Unknown";
    let number = text.split_once(" GT/s").ok_or(expected)?.0;
    let (whole, tenth) = number.split_once('.').unwrap_or((number, "0"));
    let (whole, tenth): (u32, u32) =
        (whole.parse().map_err(|_| expected)?, tenth.parse().map_err(|_| expected)?);
    let speed = whole.checked_mul(10).filter(|_| tenth < 10);
    let speed = speed.and_then(|speed| speed.checked_add(tenth)).ok_or(expected)?;
    Ok(Some(speed).filter(|speed| *speed > 0))
}

/// A number of lanes or [`ALL_ONES`]; 0 means no link, 255 unknown (`enum pcie_link_width`).
fn parse_width(text: &str) -> Result<Option<u32>, &'static str> {
    match text.parse() {
        Ok(width @ (1 | 2 | 4 | 8 | 12 | 16 | 32 | ALL_ONES)) => Ok(Some(width)),
        Ok(0 | 255) => Ok(None),
        _ => Err("a number of lanes that a link can have"),
    }
}

/// Fills in the possible speed and width of each link: the lower of both ends.
pub(super) fn set_possible(devices: &mut [PciDevice]) {
    let mut ends: BTreeMap<&str, &PciDevice> = BTreeMap::new();
    let mut below: BTreeMap<&str, &PciDevice> = BTreeMap::new();
    for device in devices.iter().filter(|device| device.link.is_some()) {
        ends.insert(&device.address, device);
        if let Some(parent) = &device.parent {
            below.entry(parent).or_insert(device);
        }
    }
    let possible = |device: &PciDevice| {
        let other = if faces_down(device, &ends) {
            below.get(device.address.as_str())
        } else {
            device.parent.as_deref().and_then(|parent| ends.get(parent))
        };
        let (own, other) = (device.link.as_ref()?, other?.link.as_ref()?);
        let speed = lower(own.max_gt_s_x10, other.max_gt_s_x10);
        Some((speed, lower(own.max_width, other.max_width)))
    };
    let possible: Vec<Option<(Option<u32>, Option<u32>)>> = devices.iter().map(possible).collect();
    for (device, possible) in devices.iter_mut().zip(possible) {
        if let (Some(link), Some(possible)) = (device.link.as_mut(), possible) {
            (link.possible_gt_s_x10, link.possible_width) = possible;
        }
    }
}

/// The devices at the lower end of a link: a card, a disk, the upstream port of a switch. This reports each
/// link once, although both its ends do.
pub(crate) fn lower_ends(devices: &[PciDevice]) -> Vec<&PciDevice> {
    let linked = || devices.iter().filter(|device| device.link.is_some());
    let ends = linked().map(|device| (device.address.as_str(), device)).collect();
    linked().filter(|device| !faces_down(device, &ends)).collect()
}

fn lower(a: Option<u32>, b: Option<u32>) -> Option<u32> {
    Some(a?.min(b?))
}

/// True if the link of a device is the one below it, as for root ports and the downstream ports of a switch. Upwards
/// from a device, downstream and upstream ports alternate.
fn faces_down(device: &PciDevice, ends: &BTreeMap<&str, &PciDevice>) -> bool {
    let is_bridge = device.class.as_deref() == Some("0604");
    let up = |device: &&PciDevice| -> Option<&PciDevice> {
        device.parent.as_deref().and_then(|parent| ends.get(parent).copied())
    };
    // Bounded, since parents can form a cycle in a damaged tree.
    let n_above = std::iter::successors(Some(device), up).take(256).count();
    is_bridge && n_above % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(address: &str, class: &str, parent: Option<&str>, max: (u32, u32)) -> PciDevice {
        let link = Link { max_gt_s_x10: Some(max.0), max_width: Some(max.1), ..Link::default() };
        PciDevice {
            address: address.to_owned(),
            class: Some(class.to_owned()),
            parent: parent.map(str::to_owned),
            link: Some(link),
            ..PciDevice::default()
        }
    }

    #[test]
    fn speeds_and_widths_are_read_in_the_forms_of_all_kernels() {
        assert_eq!(parse_speed("2.5 GT/s PCIe"), Ok(Some(25)));
        assert_eq!(parse_speed("8 GT/s"), Ok(Some(80)));
        assert_eq!(parse_speed("Unknown speed"), Ok(None));
        assert!(parse_speed("fast").is_err());
        assert!(parse_speed("99999999999 GT/s").is_err());
        assert!(parse_speed("429496729.9 GT/s").is_err(), "the largest number in tenths");
        assert_eq!(parse_width("16"), Ok(Some(16)));
        assert!(parse_width("3").is_err());
        assert_eq!(parse_width("0"), Ok(None));
        assert_eq!(parse_width("255"), Ok(None));
    }

    #[test]
    fn possible_link_is_the_lower_of_both_ends_even_below_a_switch() {
        let mut devices = [
            device("root", "0604", None, (160, 16)),
            device("up", "0604", Some("root"), (80, 16)),
            device("down", "0604", Some("up"), (80, 4)),
            device("nvme", "0108", Some("down"), (160, 4)),
            device("empty", "0604", None, (160, 4)),
        ];
        let lower: Vec<&str> = lower_ends(&devices).iter().map(|d| d.address.as_str()).collect();
        assert_eq!(lower, ["up", "nvme"]);
        set_possible(&mut devices);
        let possible: Vec<_> = devices
            .iter()
            .map(|d| d.link.as_ref().unwrap())
            .map(|link| (link.possible_gt_s_x10, link.possible_width))
            .collect();
        let (switch, slot) = ((Some(80), Some(16)), (Some(80), Some(4)));
        assert_eq!(possible, [switch, switch, slot, slot, (None, None)]);
    }

    #[test]
    fn parents_in_a_ring_do_not_hang() {
        let mut devices =
            [device("a", "0604", Some("b"), (25, 1)), device("b", "0604", Some("a"), (25, 1))];
        set_possible(&mut devices);
        assert!(devices[0].link.as_ref().unwrap().possible_width.is_some());
    }
}
