//! The device that a network interface belongs to: its bus, ids, driver and location in `/sys/devices`.

use crate::ancestors;
use crate::machine::Machine;
use crate::pci_address::is_pci_address;
use formats::data;
use formats::text::contains_word;

/// Drivers of USB links between a host and its management controller.
const USB_LINK_DRIVERS: [&str; 6] =
    ["cdc_ether", "cdc_ncm", "cdc_eem", "cdc_subset", "rndis_host", "cdc_mbim"];

/// Vendor and product of the USB devices that management controllers present to their host.
const BMC_USB_DEVICES: &str = include_str!("../../data/bmc-usb.txt");

/// Words that identify management controllers whose ids are shared by all Linux USB gadgets.
const BMC_USB_NAMES: [&str; 6] = ["openbmc", "bmc", "idrac", "ilo", "xclarity", "host interface"];

/// The device that an interface belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Parent {
    /// Its folder below `sys/devices`.
    pub(super) path: String,
    pub(super) bus: Option<String>,
    pub(super) driver: Option<String>,
    pub(super) pci_address: Option<String>,
    pub(super) vendor_id: Option<String>,
    pub(super) device_id: Option<String>,
    pub(super) numa_node: Option<u32>,
    /// Manufacturer and product strings of a USB device.
    pub(super) usb_name: String,
}

impl Parent {
    /// The folder of the device itself or of its nearest PCI ancestor.
    pub(super) fn pci_path(&self) -> Option<&str> {
        let address = self.pci_address.as_deref()?;
        let start = self.path.rfind(&format!("/{address}"))?;
        self.path.get(..=start + address.len())
    }

    /// True if it is the USB link of a management controller.
    pub(super) fn is_bmc_usb(&self) -> bool {
        let is_link = self.driver.as_deref().is_some_and(|d| USB_LINK_DRIVERS.contains(&d));
        let name = self.usb_name.to_ascii_lowercase();
        let is_named = BMC_USB_NAMES.iter().any(|word| contains_word(&name, word));
        let is_it = |[vendor, product]: [&str; 2]| {
            self.vendor_id.as_deref() == Some(vendor)
                && (product.is_empty() || self.device_id.as_deref() == Some(product))
        };
        let is_known = data::rows(BMC_USB_DEVICES).filter_map(data::cells).any(is_it);
        self.bus.as_deref() == Some("usb") && is_link && (is_known || is_named)
    }
}

/// Finds the device of the interface whose class link leads to `interface_path`.
pub(super) fn parent(machine: &Machine, interface_path: &str) -> Option<Parent> {
    let path = device_path(machine, interface_path)?;
    let uevent = machine.text(&format!("{path}/uevent")).unwrap_or_default();
    let bus = machine.link_name(&format!("{path}/subsystem")).or_else(|| bus_by_path(&path));
    let by_uevent = || value(&uevent, "DRIVER").map(str::to_owned);
    let driver = machine.link_name(&format!("{path}/driver")).or_else(by_uevent);
    let is_usb = bus.as_deref() == Some("usb");
    let mut parent = Parent {
        numa_node: ancestors::numa_node(machine, &path),
        // A USB port has a PCI ancestor too, but that is the USB controller.
        pci_address: ancestors::pci_address(&path).filter(|_| !is_usb),
        bus,
        driver,
        path,
        ..Parent::default()
    };
    if is_usb {
        fill_usb(machine, &mut parent);
    } else {
        fill_pci(machine, &mut parent);
    }
    Some(parent)
}

/// The `device` link, or the folder above `net/<name>` if a capture lacks the link.
fn device_path(machine: &Machine, interface_path: &str) -> Option<String> {
    let link = format!("{interface_path}/device");
    let path = machine.device_path(&link);
    if path != link {
        return Some(path);
    }
    let (device, _) = interface_path.rsplit_once("/net/")?;
    let is_real = device.starts_with("sys/devices/") && !device.starts_with("sys/devices/virtual");
    is_real.then(|| device.to_owned())
}

fn bus_by_path(path: &str) -> Option<String> {
    let last = path.rsplit('/').next()?;
    let buses = [
        ("pci", is_pci_address(last)),
        ("virtio", last.starts_with("virtio")),
        ("usb", path.contains("/usb") && last.contains(':')),
        ("platform", path.starts_with("sys/devices/platform/")),
        ("vio", path.starts_with("sys/devices/vio/")),
    ];
    buses.into_iter().find(|(_, is_it)| *is_it).map(|(bus, _)| bus.to_owned())
}

/// Ids of the device itself or of its nearest PCI ancestor.
fn fill_pci(machine: &Machine, parent: &mut Parent) {
    let Some(path) = parent.pci_path().map(str::to_owned) else { return };
    let id = |file: &str| machine.parse(&format!("{path}/{file}"), parse_id);
    (parent.vendor_id, parent.device_id) = (id("vendor"), id("device"));
    if parent.vendor_id.is_none() || parent.device_id.is_none() {
        let uevent = machine.text(&format!("{path}/uevent")).unwrap_or_default();
        let ids = value(&uevent, "PCI_ID").and_then(|ids| ids.split_once(':')).unwrap_or_default();
        parent.vendor_id = parent.vendor_id.take().or(parse_id(ids.0).ok());
        parent.device_id = parent.device_id.take().or(parse_id(ids.1).ok());
    }
}

/// Ids and names of the USB device that the interface belongs to.
fn fill_usb(machine: &Machine, parent: &mut Parent) {
    let path = parent.path.clone();
    let up = |path: &str| path.rsplit_once('/').map(|(up, _)| up.to_owned());
    let device = std::iter::successors(Some(path), |path| up(path))
        .take(3)
        .take_while(|path| path.starts_with("sys/devices/"))
        .find(|path| machine.text(&format!("{path}/idVendor")).is_some());
    let Some(device) = device else { return };
    let id = |file: &str| machine.parse(&format!("{device}/{file}"), parse_id);
    (parent.vendor_id, parent.device_id) = (id("idVendor"), id("idProduct"));
    let names = ["manufacturer", "product"].map(|file| machine.text(&format!("{device}/{file}")));
    parent.usb_name = names.into_iter().flatten().collect::<Vec<_>>().join(" ");
}

/// An id of four hexadecimal digits, with or without `0x`.
pub(super) fn parse_id(text: &str) -> Result<String, &'static str> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let is_id = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| digits.to_ascii_lowercase()).ok_or("four hexadecimal digits")
}

/// The value of `key` in a `uevent` file.
pub(super) fn value<'a>(uevent: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = uevent.lines().filter_map(|line| line.split_once('='));
    let (_, value) = pairs.find(|(name, _)| *name == key)?;
    Some(value.trim()).filter(|value| !value.is_empty())
}
