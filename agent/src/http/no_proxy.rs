//! Addresses and networks in `no_proxy`, e.g. `10.0.0.0/8`, `fd00::/8`, `192.0.2.1`, as Go and Python read them.
//!
//! The HTTP library compares names only. A host that is given as an address is compared here; a name is never looked up for
//! this.

use std::net::IpAddr;

/// Addresses that are reached without the proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Networks(Vec<(IpAddr, u32)>);

impl Networks {
    /// The addresses and networks among the entries of `no_proxy`.
    pub(super) fn of<'a>(entries: impl IntoIterator<Item = &'a str>) -> Self {
        Self(entries.into_iter().filter_map(network).collect())
    }

    /// True if this host of an address, which may be in brackets, is one of them.
    pub(super) fn contain_host(&self, host: &str) -> bool {
        host.trim_matches(['[', ']']).parse().is_ok_and(|address| self.contains(address))
    }

    fn contains(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, true),
            IpAddr::V6(address) => (address.to_bits(), false),
        };
        let (host, is_v4) = bits(address.to_canonical());
        self.0.iter().any(|(network, n_bits)| {
            let (network, is_network_v4) = bits(*network);
            // With no bits at all every address of this version belongs to the network.
            let differing = (host ^ network).checked_shr(128 - n_bits).unwrap_or_default();
            is_v4 == is_network_v4 && differing == 0
        })
    }
}

/// Parses an entry; `None` if it is a name, or malformed.
fn network(entry: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = match entry.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u32>().ok()?)),
        None => (entry, None),
    };
    let address: IpAddr = address.trim_matches(['[', ']']).parse().ok()?;
    let n_bits = if address.is_ipv4() { 32 } else { 128 };
    Some((address, length.unwrap_or(n_bits))).filter(|(_, length)| *length <= n_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_compared_with_networks_of_their_version() {
        let list = [
            "10.0.0.0/8",
            "192.0.2.1",
            "fd00::/8",
            "[::1]",
            "198.51.100.0/25",
            "name",
            "10.0.0.0/33",
        ];
        let networks = Networks::of(list);
        assert_eq!(networks.0.len(), 5);
        for (address, is_direct) in [
            ("10.255.0.1", true),
            ("11.0.0.1", false),
            ("192.0.2.1", true),
            ("192.0.2.2", false),
            ("198.51.100.127", true),
            ("198.51.100.128", false),
            ("fd12::1", true),
            ("fe80::1", false),
            ("::1", true),
            ("::ffff:10.1.2.3", true),
            ("a00::", false),
        ] {
            assert_eq!(networks.contains(address.parse().unwrap()), is_direct, "{address}");
        }
        assert!(Networks::of(["0.0.0.0/0"]).contains("203.0.113.9".parse().unwrap()));
        assert!(!Networks::of(["0.0.0.0/0"]).contains("::1".parse().unwrap()));
    }
}
