//! Serial ports: `/sys/class/tty/` (`Documentation/ABI/testing/sysfs-tty`). The kernel creates more
//! `ttyS` nodes than there are ports; those without a UART have type 0. Needs root.

use formats::data;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ancestors;
use crate::machine::Machine;

const CLASS: &str = "sys/class/tty";

/// One serial port.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SerialPort {
    /// Kernel name, e.g. `ttyS0`, `ttyAMA0`, `ttyUSB0`.
    pub name: String,
    /// Name of the UART's type, e.g. `16550A`; `None` for USB and for types without a name here.
    pub uart: Option<String>,
    /// I/O port, e.g. `0x3F8`, as the kernel writes it; `None` if the UART is in memory.
    pub io_port: Option<String>,
    /// Address in memory, as the kernel writes it; `None` if the UART has an I/O port.
    pub memory_address: Option<String>,
    /// Interrupt; `None` if it is polled.
    pub irq: Option<u32>,
    /// True if the kernel writes its console there; `None` before Linux 5.10.
    pub is_console: Option<bool>,
    /// The kernel driver, e.g. `serial8250`, `ftdi_sio`.
    pub driver: Option<String>,
    /// PCI address of its device.
    pub pci_address: Option<String>,
}

/// Reads the serial ports, by name.
pub fn serial_ports(machine: &Machine) -> Vec<SerialPort> {
    let names = machine.list(CLASS);
    names.iter().filter(|name| may_be_serial(name)).filter_map(|name| port(machine, name)).collect()
}

/// Leaves out the virtual consoles `tty`, `tty0` to `tty63` without opening them.
fn may_be_serial(name: &str) -> bool {
    name.strip_prefix("tty").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
}

fn port(machine: &Machine, name: &str) -> Option<SerialPort> {
    let path = format!("{CLASS}/{name}");
    let text = |attribute: &str| machine.text(&format!("{path}/{attribute}"));
    let kind = machine.number::<u32>(&format!("{path}/type"));
    let is_usb = name.starts_with("ttyUSB") || name.starts_with("ttyACM");
    if !(kind.is_some_and(|kind| kind != 0) || (kind.is_none() && is_usb)) {
        return None;
    }
    let resolved = machine.device_path(&path);
    let is_address = |text: &String| text.trim_start_matches("0x").bytes().any(|b| b != b'0');
    Some(SerialPort {
        name: name.to_owned(),
        uart: kind.and_then(|kind| data::named("uart", kind)),
        io_port: text("port").filter(is_address),
        memory_address: text("iomem_base").filter(is_address),
        irq: machine.number(&format!("{path}/irq")).filter(|irq| *irq != 0),
        is_console: machine.flag(&format!("{path}/console")),
        driver: driver(machine, &resolved),
        pci_address: ancestors::pci_address(&resolved),
    })
}

/// The driver of the nearest parent; since Linux 6.5 two layers of the serial core, `port` and `ctrl`,
/// lie between port and device.
fn driver(machine: &Machine, resolved: &str) -> Option<String> {
    let above = ancestors::above(resolved).skip(2).take(4);
    above
        .filter_map(|path| machine.link_name(&format!("{path}/driver")))
        .find(|name| name != "port" && name != "ctrl")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tree, tree_in};

    #[test]
    fn driver_is_that_of_the_device_and_not_of_the_serial_core() {
        let pnp = "sys/devices/pnp0/00:04";
        let machine = tree(&[
            ("sys/class/tty/ttyS0", "-> ../../devices/pnp0/00:04/00:04:0/00:04:0.0/tty/ttyS0"),
            (&format!("{pnp}/00:04:0/00:04:0.0/tty/ttyS0/type"), "4\n"),
            (&format!("{pnp}/00:04:0/00:04:0.0/driver"), "-> ../../bus/serial-base/drivers/port"),
            (&format!("{pnp}/00:04:0/driver"), "-> ../../bus/serial-base/drivers/ctrl"),
            (&format!("{pnp}/driver"), "-> ../../../bus/pnp/drivers/serial"),
        ]);
        assert_eq!(serial_ports(&machine)[0].driver.as_deref(), Some("serial"));
    }

    #[test]
    fn only_ports_with_a_uart_are_listed() {
        let machine = tree_in(&[
            ("sys/class/tty/tty0", &[("dev", "4:0")]),
            ("sys/class/tty/ttyS0", &[("type", "4"), ("port", "0x3F8"), ("iomem_base", "0x0")]),
            ("sys/class/tty", &[("ttyS0/irq", "4"), ("ttyS0/console", "Y"), ("ttyS1/type", "0")]),
            ("sys/class/tty", &[("ttyS2/type", "x"), ("ttyUSB0/dev", "188:0")]),
        ]);
        let ports = serial_ports(&machine);
        assert_eq!(ports.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["ttyS0", "ttyUSB0"]);
        assert_eq!(ports[0].uart.as_deref(), Some("16550A"));
        assert_eq!(ports[0].io_port.as_deref(), Some("0x3F8"));
        assert_eq!(ports[0].memory_address, None);
        assert_eq!((ports[0].irq, ports[0].is_console), (Some(4), Some(true)));
    }
}
