//! PCI addresses, and their order.

use std::fmt;
use std::ops::RangeInclusive;

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
    pub fn parse(text: &str) -> Option<Address> {
        let (place, function) = text.rsplit_once('.')?;
        let (domain, rest) = place.split_once(':')?;
        let (bus, device) = rest.split_once(':')?;
        let number = |digits: &str, n_digits: RangeInclusive<usize>| {
            let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let is_number = is_hex && n_digits.contains(&digits.len());
            u32::from_str_radix(digits, 16).ok().filter(|_| is_number)
        };
        let byte = |digits, n_digits| u8::try_from(number(digits, n_digits..=n_digits)?).ok();
        Some(Address {
            domain: number(domain, 4..=8)?,
            bus: byte(bus, 2)?,
            device: byte(device, 2)?,
            function: byte(function, 1)?,
        })
    }

    /// The address without its function, as slots are named: `0000:3b:00`.
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
pub fn is_pci_address(text: &str) -> bool {
    Address::parse(text).is_some()
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
