//! Vital Product Data: part and serial number of a card (`vpd` in `Documentation/ABI/testing/sysfs-bus-pci`).
//!
//! The kernel reads it word by word through a register and waits for the device each time; some devices take seconds or
//! never answer. So it is read only on request, each device on its own thread, and a device that does not answer in
//! time is given up.

use std::time::{Duration, Instant};

use formats::pci;

use super::PciDevice;
use crate::guard;
use crate::machine::Machine;

/// Time limit for one device.
const DEADLINE: Duration = Duration::from_secs(2);
/// Time limit for all devices; below the deadline of the collector.
const BUDGET: Duration = Duration::from_secs(10);

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
            Ok(bytes) => device.vpd = bytes.as_deref().and_then(pci::vpd),
            Err(_) => machine.problem(&path, "no answer in time", "Vital Product Data within 2 s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::machine::Extras;
    use crate::testing::tree_of_bytes;

    const GOOD: &[u8] = b"\x82\x05\0Card \x90\x0f\0PN\x04P123SN\x05\0A\xff7 \x78";

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
