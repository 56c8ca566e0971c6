//! PCI addresses, and their order.

use std::fmt;

/// Domain, bus, device and function; ordered by number, not by text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Domain; Intel VMD and some hypervisors use more than 16 bits.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device, 0 to 31.
    pub device: u8,
    /// Function, 0 to 7.
    pub function: u8,
}

impl Address {
    /// Reads `DDDD:BB:DD.F`; `None` if `text` is something else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Address> {
        if !is_pci_address(text) {
            return None;
        }
        let (domain, rest) = text.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        let byte = |digits| u8::from_str_radix(digits, 16).ok();
        let domain = u32::from_str_radix(domain, 16).ok()?;
        Some(Address { domain, bus: byte(bus)?, device: byte(device)?, function: byte(function)? })
    }

    /// The address without its function, as slots are named: `0000:3b:00`.
    #[must_use]
    pub fn without_function(self) -> String {
        format!("{:04x}:{:02x}:{:02x}", self.domain, self.bus, self.device)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:x}", self.without_function(), self.function)
    }
}

/// True if `text` is a PCI address `DDDD:BB:DD.F`; the domain may be longer than four digits.
#[must_use]
pub fn is_pci_address(text: &str) -> bool {
    let hex = |part: &str, len: std::ops::RangeInclusive<usize>| {
        len.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let Some((rest, function)) = text.rsplit_once('.') else { return false };
    let mut parts = rest.split(':');
    let (Some(domain), Some(bus), Some(device), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    hex(domain, 4..=8) && hex(bus, 2..=2) && hex(device, 2..=2) && hex(function, 1..=1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_written_and_ordered_by_number() {
        for text in ["0000:3b:00.0", "10000:01:1f.7", "fffffff0:00:00.0"] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        assert!(Address::parse("ffff:00:00.0") < Address::parse("10000:00:00.0"));
        assert_eq!(Address::parse("0000:3b:00"), None);
        assert!(is_pci_address("10000:01:00.0"));
        assert!(!is_pci_address("pci0000:00"));
        assert!(!is_pci_address("1:0:0:0"));
    }
}
