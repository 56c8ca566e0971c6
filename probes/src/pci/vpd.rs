//! Vital Product Data: part and serial number of a card (PCI Local Bus Specification 3.0, appendix I;
//! `vpd` in `Documentation/ABI/testing/sysfs-bus-pci`).
//!
//! The kernel reads it word by word through a register and waits for the device each time; some devices take seconds or
//! never answer. So it is read only on request, each device on its own thread, and a device that does not answer in
//! time is given up.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PciDevice;
use crate::guard;
use crate::machine::Machine;
use formats::text::padded;

/// Time limit for one device.
const DEADLINE: Duration = Duration::from_secs(2);
/// Time limit for all devices; below the deadline of the collector.
const BUDGET: Duration = Duration::from_secs(10);

/// The facts that a card reports about itself.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Vpd {
    /// Name of the product.
    pub name: Option<String>,
    /// Part number (`PN`).
    pub part_number: Option<String>,
    /// Serial number (`SN`).
    pub serial: Option<String>,
    /// Engineering change level (`EC`).
    pub engineering_change: Option<String>,
    /// Manufacturer ID (`MN`).
    pub manufacturer_id: Option<String>,
}

/// Fills in the data of the devices that have some.
pub(super) fn fill(machine: &Machine, devices: &mut [PciDevice]) {
    let start = Instant::now();
    for device in devices {
        let path = format!("sys/bus/pci/devices/{}/vpd", device.address);
        let rest = BUDGET.saturating_sub(start.elapsed());
        if rest.is_zero() {
            let expected = format!("the data of all devices within {} s", BUDGET.as_secs());
            machine.problem(&path, "not read, time ran out", expected);
            return;
        }
        let (inner, name) = (machine.clone(), path.clone());
        match guard::within(DEADLINE.min(rest), "vpd", 256 << 10, move || inner.bytes(&name)) {
            Ok(bytes) => device.vpd = bytes.as_deref().and_then(parse),
            Err(_) => machine.problem(&path, "no answer in time", "Vital Product Data within 2 s"),
        }
    }
}

/// Large resources follow each other: 82h the name, 90h fields to read, 91h fields to write. A
/// resource that exceeds the data ends it.
fn parse(bytes: &[u8]) -> Option<Vpd> {
    let mut vpd = Vpd::default();
    let mut rest = bytes;
    while let [tag @ (0x82 | 0x90 | 0x91), low, high, tail @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, *high]));
        let Some((body, next)) = tail.split_at_checked(len) else { break };
        match tag {
            0x82 => vpd.name = padded(body),
            0x90 => fields(body, &mut vpd),
            _ => {}
        }
        rest = next;
    }
    (vpd != Vpd::default()).then_some(vpd)
}

/// Fields of two letters, a length and that number of bytes.
fn fields(mut rest: &[u8], vpd: &mut Vpd) {
    while let [first, second, len, tail @ ..] = rest {
        let Some((value, next)) = tail.split_at_checked(usize::from(*len)) else { return };
        match [*first, *second] {
            [b'P', b'N'] => vpd.part_number = padded(value),
            [b'S', b'N'] => vpd.serial = padded(value),
            [b'E', b'C'] => vpd.engineering_change = padded(value),
            [b'M', b'N'] => vpd.manufacturer_id = padded(value),
            _ => {}
        }
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Extras;
    use crate::testing::tree_of_bytes;

    const GOOD: &[u8] = b"\x82\x05\0Card \x90\x0f\0PN\x04P123SN\x05\0A\xff7 \x78";

    #[test]
    fn name_part_and_serial_are_read_and_other_bytes_escaped() {
        let vpd = parse(GOOD).unwrap();
        assert_eq!(vpd.name.as_deref(), Some("Card"));
        assert_eq!(vpd.part_number.as_deref(), Some("P123"));
        assert_eq!(vpd.serial.as_deref(), Some("A\\xff7"));
    }

    #[test]
    fn truncated_or_empty_data_gives_no_wrong_fields() {
        for length in 0..GOOD.len() {
            let vpd = parse(&GOOD[..length]);
            assert!(vpd.is_none_or(|vpd| vpd.serial.is_none_or(|s| s == "A\\xff7")), "{length}");
        }
        for bytes in [&[0xff; 64][..], &[0; 64], &[0x90, 0xff, 0xff], &[0x82, 0, 0, 0x90, 3, 0, 1]]
        {
            assert_eq!(parse(bytes), None);
        }
    }

    #[test]
    fn vital_product_data_is_read_only_on_request() {
        let machine = tree_of_bytes(&[
            ("sys/bus/pci/devices/0000:3b:00.0/vendor", b"0x15b3\n"),
            ("sys/bus/pci/devices/0000:3b:00.0/vpd", GOOD),
        ]);
        assert_eq!(crate::pci::pci(&machine).devices[0].vpd, None);
        let machine = machine.with_extras(Extras { vpd: true, ..Extras::default() });
        let vpd = crate::pci::pci(&machine).devices[0].vpd.clone();
        assert_eq!(vpd.and_then(|vpd| vpd.part_number).as_deref(), Some("P123"));
    }
}
