//! Link-layer addresses: 6 bytes on Ethernet, 8 on IEEE 1394 and Fibre Channel, 20 on InfiniBand.

/// Lengths of addresses that identify a port. The 4 or 16 bytes of a tunnel are its IP address.
const LENGTHS: [usize; 3] = [6, 8, 20];

/// Parses an address as sysfs writes it, `aa:bb:…` in hexadecimal. `Ok(None)` if it identifies
/// no port: all zeros, all ones, or a tunnel's IP address.
///
/// # Errors
/// The expected form, if the text is not an address.
pub fn parse(text: &str) -> Result<Option<String>, &'static str> {
    let byte = |part: &str| match part.len() {
        1 | 2 => u8::from_str_radix(part, 16).ok().filter(|_| !part.starts_with('+')),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = text.trim().split([':', '-']).map(byte).collect();
    bytes.map(|bytes| of_bytes(&bytes)).ok_or("a MAC address: bytes in hexadecimal between colons")
}

/// Formats an address; `None` if it identifies no port.
pub fn of_bytes(bytes: &[u8]) -> Option<String> {
    let is_known = LENGTHS.contains(&bytes.len())
        && bytes.iter().any(|byte| *byte != 0)
        && bytes.iter().any(|byte| *byte != 0xff);
    let parts = bytes.iter().map(|byte| format!("{byte:02x}"));
    is_known.then(|| parts.collect::<Vec<_>>().join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_any_length_are_lower_case() {
        assert_eq!(parse("02:00:00:AA:bb:0C"), Ok(Some("02:00:00:aa:bb:0c".to_owned())));
        let infiniband = "80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:a1:b2:c3";
        assert_eq!(parse(infiniband), Ok(Some(infiniband.to_owned())));
    }

    #[test]
    fn address_of_no_port_is_absent_and_malformed_is_an_error() {
        for none in ["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "00:00:00:00", "0a:00:02:0f"] {
            assert_eq!(parse(none), Ok(None), "{none}");
        }
        for bad in ["", "eth0", "02:00:00:00:00:gg", "02::00", "+2:00:00:00:00:01", "020000000001"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
