//! The addresses of this host by port (`getifaddrs(3)`).

use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use crate::job::console::ip_of;

/// An address of a port that is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) nic: String,
    pub(super) ip: IpAddr,
    /// Prefix length of its network, in bits.
    pub(super) prefix: u32,
    /// True if the port has a carrier, as far as its driver reports (`IFF_RUNNING`).
    pub(super) has_carrier: bool,
}

impl Address {
    /// True if `ip` is in the same network.
    pub(super) fn has_neighbour(&self, ip: IpAddr) -> bool {
        let (differing, n_bits) = match (self.ip, ip) {
            (IpAddr::V4(own), IpAddr::V4(ip)) => (u128::from(own.to_bits() ^ ip.to_bits()), 32),
            (IpAddr::V6(own), IpAddr::V6(ip)) => (own.to_bits() ^ ip.to_bits(), 128),
            _ => return false,
        };
        // No network has a prefix that is longer than its addresses.
        let n_host_bits = u32::checked_sub(n_bits, self.prefix);
        n_host_bits.is_some_and(|n| differing.checked_shr(n).unwrap_or_default() == 0)
    }
}

/// The addresses of every port but the loopback.
pub(super) fn addresses() -> Vec<Address> {
    let Ok(all) = getifaddrs() else { return Vec::new() };
    all.filter(|interface| {
        interface.flags.contains(InterfaceFlags::IFF_UP)
            && !interface.flags.contains(InterfaceFlags::IFF_LOOPBACK)
    })
    .filter_map(|interface| {
        Some(Address {
            ip: ip_of(interface.address.as_ref()?)?,
            prefix: prefix_of(ip_of(interface.netmask.as_ref()?)?),
            has_carrier: interface.flags.contains(InterfaceFlags::IFF_RUNNING),
            nic: interface.interface_name,
        })
    })
    .collect()
}

fn prefix_of(mask: IpAddr) -> u32 {
    match mask {
        IpAddr::V4(mask) => mask.to_bits().leading_ones(),
        IpAddr::V6(mask) => mask.to_bits().leading_ones(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_the_bits_of_the_prefix_and_the_family() {
        let own = |ip: &str, prefix| Address {
            nic: "e".into(),
            ip: ip.parse().unwrap(),
            prefix,
            has_carrier: true,
        };
        for (address, ip, expected) in [
            (own("192.0.2.7", 24), "192.0.2.200", true),
            (own("192.0.2.7", 25), "192.0.2.200", false),
            (own("192.0.2.7", 0), "203.0.113.1", true),
            (own("192.0.2.7", 33), "192.0.2.7", false),
            (own("2001:db8::1", 64), "2001:db8::2", true),
            (own("2001:db8::1", 64), "2001:db8:0:1::2", false),
            (own("::1", 0), "192.0.2.7", false),
        ] {
            assert_eq!(address.has_neighbour(ip.parse().unwrap()), expected, "{address:?} {ip}");
        }
    }

    #[test]
    fn prefix_is_the_number_of_leading_ones() {
        assert_eq!(prefix_of("255.255.252.0".parse().unwrap()), 22);
        assert_eq!(prefix_of("ffff:ffff:ffff:ffff::".parse().unwrap()), 64);
    }
}
