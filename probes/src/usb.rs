//! USB devices: `/sys/bus/usb/devices/` (`Documentation/ABI/testing/sysfs-bus-usb`). Root hubs are
//! also devices. Names come from the device's strings; nothing here needs root.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ancestors;
use crate::machine::Machine;
use crate::udev;

const BUS: &str = "sys/bus/usb/devices";

/// One USB device.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UsbDevice {
    /// Kernel name from bus and ports, e.g. `1-1.4`; `usb1` for a root hub.
    pub name: String,
    /// Number of the bus.
    pub bus: Option<u32>,
    /// Number on the bus; it changes when the device is reconnected.
    pub device_number: Option<u32>,
    /// Ports from the root hub to the device, e.g. `1.4`; `None` for a root hub.
    pub port_path: Option<String>,
    /// Name of the hub above; `None` for a root hub.
    pub parent: Option<String>,
    /// PCI address of the controller.
    pub pci_address: Option<String>,
    /// Four hexadecimal digits, e.g. `1d6b`.
    pub vendor_id: Option<String>,
    /// Four hexadecimal digits.
    pub product_id: Option<String>,
    /// Release number of the device, four binary-coded decimal digits, e.g. `0600`.
    pub revision: Option<String>,
    /// The device's own string.
    pub manufacturer: Option<String>,
    /// The device's own string.
    pub product: Option<String>,
    /// The device's own string.
    pub serial: Option<String>,
    /// Speed in kbit/s: 1500, 12000, 480000, 5000000, …
    pub speed_kbit_s: Option<u64>,
    /// Class, two hexadecimal digits; `00` means that each interface has its own.
    pub class: Option<String>,
    /// Classes of the interfaces, two hexadecimal digits each, e.g. `08` for storage; sorted.
    pub interface_classes: Vec<String>,
    /// Drivers of the interfaces, e.g. `usb-storage`; sorted.
    pub drivers: Vec<String>,
    /// True if it is the root hub of a controller.
    pub is_root_hub: bool,
}

/// Reads the USB devices, by name.
pub fn usb(machine: &Machine) -> Vec<UsbDevice> {
    let names = machine.list(BUS);
    let (interfaces, devices): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| name.contains(':'));
    let devices = devices.into_iter().filter(|name| is_device_name(name));
    let mut devices: Vec<UsbDevice> = devices.map(|name| device(machine, name)).collect();
    for name in interfaces {
        let owner = name.split_once(':').map_or("", |(owner, _)| owner);
        // The interface of a root hub is called `1-0:1.0`.
        let root = owner.strip_suffix("-0").map(|bus| format!("usb{bus}"));
        let owner = root.as_deref().unwrap_or(owner);
        if let Some(device) = devices.iter_mut().find(|device| device.name == owner) {
            add_interface(machine, name, device);
        }
    }
    for device in &mut devices {
        for list in [&mut device.interface_classes, &mut device.drivers] {
            list.sort();
            list.dedup();
        }
    }
    devices
}

fn is_device_name(name: &str) -> bool {
    let is_root = name.strip_prefix("usb").is_some_and(|bus| bus.parse::<u32>().is_ok());
    is_root || name.split_once('-').is_some_and(|(bus, _)| bus.parse::<u32>().is_ok())
}

/// The kernel's `PRODUCT=1d6b/2/404`, `TYPE=9/0/1`, `BUSNUM=001`, `DEVNUM=002` (`usb_dev_uevent`,
/// `drivers/usb/core/usb.c`), and the attributes for what they lack.
fn device(machine: &Machine, name: &str) -> UsbDevice {
    let path = format!("{BUS}/{name}");
    let text = |attribute: &str| machine.text(&format!("{path}/{attribute}"));
    let uevent = udev::variables(machine, &format!("{path}/uevent"));
    let ids = uevent.get("PRODUCT").map_or("", String::as_str).split('/');
    let mut ids = ids.map(|id| u16::from_str_radix(id, 16).ok().map(|id| format!("{id:04x}")));
    let mut id = |attribute: &str| {
        let attribute = || machine.parse(&format!("{path}/{attribute}"), parse_id);
        ids.next().flatten().or_else(attribute)
    };
    let number = |variable: &str, attribute: &str| {
        let number = uevent.get(variable).and_then(|text| text.parse().ok());
        number.or_else(|| machine.number(&format!("{path}/{attribute}")))
    };
    let class = || text("bDeviceClass").filter(|class| class.len() == 2);
    UsbDevice {
        name: name.to_owned(),
        vendor_id: id("idVendor"),
        product_id: id("idProduct"),
        revision: id("bcdDevice"),
        bus: number("BUSNUM", "busnum"),
        device_number: number("DEVNUM", "devnum"),
        class: uevent.get("TYPE").and_then(|triple| class_of(triple)).or_else(class),
        manufacturer: text("manufacturer"),
        product: text("product"),
        serial: text("serial"),
        speed_kbit_s: machine.parse(&format!("{path}/speed"), parse_speed).flatten(),
        is_root_hub: name.starts_with("usb"),
        port_path: name.split_once('-').map(|(_, ports)| ports.to_owned()),
        parent: parent(name),
        pci_address: ancestors::pci_address(&machine.device_path(&path)),
        ..UsbDevice::default()
    }
}

/// The parent of `1-1.4` is `1-1`, and that of `1-1` is `usb1`.
fn parent(name: &str) -> Option<String> {
    let (bus, ports) = name.split_once('-')?;
    Some(match ports.rsplit_once('.') {
        Some((above, _)) => format!("{bus}-{above}"),
        None => format!("usb{bus}"),
    })
}

fn add_interface(machine: &Machine, name: &str, device: &mut UsbDevice) {
    let path = format!("{BUS}/{name}");
    let uevent = udev::variables(machine, &format!("{path}/uevent"));
    let class = uevent.get("INTERFACE").and_then(|triple| class_of(triple)).or_else(|| {
        machine.text(&format!("{path}/bInterfaceClass")).filter(|class| class.len() == 2)
    });
    device.interface_classes.extend(class);
    let driver = uevent.get("DRIVER").cloned();
    device.drivers.extend(driver.or_else(|| machine.link_name(&format!("{path}/driver"))));
}

/// The class in a triple of class, subclass and protocol, in decimal digits.
fn class_of(triple: &str) -> Option<String> {
    triple.split('/').next()?.parse::<u8>().ok().map(|class| format!("{class:02x}"))
}

fn parse_id(text: &str) -> Result<String, &'static str> {
    let is_id = text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| text.to_ascii_lowercase()).ok_or("4 hexadecimal digits")
}

/// Mbit/s, with a fraction for the slowest: `1.5`, `12`, `480`, `20000`; `unknown` for some.
fn parse_speed(text: &str) -> Result<Option<u64>, &'static str> {
    let expected = "a speed in Mbit/s";
    if text == "unknown" {
        return Ok(None);
    }
    let (whole, tenth) = text.split_once('.').unwrap_or((text, "0"));
    let whole: u64 = whole.parse().map_err(|_| expected)?;
    let tenth: u64 = tenth.parse().ok().filter(|tenth| *tenth < 10).ok_or(expected)?;
    let speed = whole.checked_mul(1000).and_then(|speed| speed.checked_add(tenth * 100));
    speed.map(Some).ok_or(expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::has;
    use crate::testing::tree;
    use serde_json::json;

    #[test]
    fn device_has_ids_a_port_and_the_drivers_of_its_interfaces() {
        let stick = "sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.4";
        let machine = tree(&[
            ("sys/bus/usb/devices/1-1.4", &format!("-> ../../../../{stick}")),
            ("sys/bus/usb/devices/1-1.4:1.0/uevent", "DRIVER=usb-storage\nINTERFACE=8/6/80\n"),
            ("sys/bus/usb/devices/1-0:1.0/uevent", "DRIVER=hub\nINTERFACE=9/0/0\n"),
            ("sys/bus/usb/devices/usb1/idVendor", "1d6b\n"),
            ("sys/bus/usb/devices/usb1/idProduct", "0002\n"),
            (&format!("{stick}/uevent"), "PRODUCT=781/5567/100\nTYPE=0/0/0\nBUSNUM=001\nDEVNUM=00"),
            (&format!("{stick}/speed"), "480\n"),
            (&format!("{stick}/serial"), "4C530001\n"),
        ]);
        let devices = usb(&machine);
        assert_eq!(devices.len(), 2);
        let (stick, root) = (&devices[0], &devices[1]);
        has(root, &json!({"name": "usb1", "is_root_hub": true, "drivers": ["hub"]}));
        has(root, &json!({"vendor_id": "1d6b"}));
        has(stick, &json!({"vendor_id": "0781", "parent": "1-1", "port_path": "1.4", "bus": 1}));
        has(stick, &json!({"pci_address": "0000:00:14.0", "device_number": null}));
        has(stick, &json!({"speed_kbit_s": 480_000, "interface_classes": ["08"]}));
    }

    #[test]
    fn machine_without_a_usb_bus_has_no_devices_and_no_problem() {
        let machine = tree(&[("proc/version", "x")]);
        assert!(usb(&machine).is_empty() && machine.problems().is_empty());
    }

    #[test]
    fn speeds_are_whole_numbers_of_kbit_s() {
        assert_eq!(parse_speed("1.5"), Ok(Some(1500)));
        assert_eq!(parse_speed("20000"), Ok(Some(20_000_000)));
        assert_eq!(parse_speed("unknown"), Ok(None));
        assert!(parse_speed("fast").is_err());
        assert!(parse_speed("99999999999999999999").is_err());
        assert!(parse_speed("18446744073709551.9").is_err(), "the largest number in kbit/s");
    }
}
