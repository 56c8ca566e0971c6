//! IPv4 addresses: two that share their first bits share as many afterwards, so addresses stay in
//! their networks, whatever their size, and routes still lead to them.
//!
//! The first byte becomes one of the reserved block `240.0.0.0/4` (RFC 1112 §4), which is unassigned. Below it, each
//! node of the bit tree keeps its two sides or swaps them, depending on the key. Where a known network
//! begins, the paths along its zeros and along its ones stay, so its network address and its broadcast
//! address keep their meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// The usual prefix length of a network whose size is unknown.
const USUAL_BITS: u32 = 24;
const FIRST_BITS: u32 = 8;

/// Replaces addresses.
#[derive(Debug, Clone, Default)]
pub(super) struct Mapping {
    /// The first bytes so far, each with its replacement.
    first: BTreeMap<u8, u8>,
    /// Known networks: first address and prefix length in bits.
    networks: BTreeSet<(u32, u32)>,
}

impl Mapping {
    pub(super) fn new(networks: &BTreeSet<(Ipv4Addr, u8)>) -> Mapping {
        let known = |(address, n_bits): &(Ipv4Addr, u8)| {
            let n_bits = u32::from(*n_bits);
            (FIRST_BITS..32).contains(&n_bits).then(|| (prefix(address.to_bits(), n_bits), n_bits))
        };
        Mapping { first: BTreeMap::new(), networks: networks.iter().filter_map(known).collect() }
    }

    /// Replaces an address; `random` gives a byte for a name, always the same.
    pub(super) fn replace(&mut self, address: Ipv4Addr, random: &dyn Fn(&str) -> u8) -> Ipv4Addr {
        let bits = address.to_bits();
        let [first, ..] = address.octets();
        let mut out = u32::from(self.first_byte(first, random)) << 24;
        for at in FIRST_BITS..32 {
            let before = prefix(bits, at);
            let bit = bits >> (31 - at) & 1;
            let is_turned =
                !self.stays(before, at) && random(&format!("{before:08x}/{at}")) & 1 == 1;
            out |= (bit ^ u32::from(is_turned)) << (31 - at);
        }
        Ipv4Addr::from_bits(out)
    }

    /// Returns true if the node below the first `n_bits` of `before` lies on the path of zeros or ones of a
    /// network.
    fn stays(&self, before: u32, n_bits: u32) -> bool {
        let is_on_edge = |of: u32| {
            let own = before & !mask(of) & mask(n_bits);
            own == 0 || own == !mask(of) & mask(n_bits)
        };
        let is_known =
            |of: u32| of == USUAL_BITS || self.networks.contains(&(prefix(before, of), of));
        (FIRST_BITS..=n_bits).any(|of| is_on_edge(of) && is_known(of))
    }

    /// Draws one of the 15 reserved bytes while there is one, then one that no address has had.
    fn first_byte(&mut self, first: u8, random: &dyn Fn(&str) -> u8) -> u8 {
        if let Some(known) = self.first.get(&first) {
            return *known;
        }
        let start = usize::from(random(&format!("first {first}")));
        let reserved: Vec<u8> = (240..=254).collect();
        let others: Vec<u8> = (1..=223).filter(|byte| ![127, 169].contains(byte)).collect();
        let is_free = |byte: &u8| self.first.values().all(|taken| taken != byte);
        let of = |all: &[u8]| {
            let turned = (0..all.len()).filter_map(|at| all.get((start + at) % all.len()));
            turned.copied().find(is_free)
        };
        let put = of(&reserved).or_else(|| of(&others)).unwrap_or(240);
        self.first.insert(first, put);
        put
    }
}

/// Returns the first `n_bits` of `bits`, followed by zeros.
fn prefix(bits: u32, n_bits: u32) -> u32 {
    bits & mask(n_bits)
}

fn mask(n_bits: u32) -> u32 {
    u32::MAX.checked_shl(32 - n_bits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Derives a byte from every character of the name.
    fn random(name: &str) -> u8 {
        let hash = name.bytes().fold(7_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(16_777_619).rotate_left(5)
        });
        hash.to_le_bytes()[2]
    }

    fn common(one: Ipv4Addr, other: Ipv4Addr) -> u32 {
        (one.to_bits() ^ other.to_bits()).leading_zeros()
    }

    #[test]
    fn two_addresses_share_as_many_bits_as_before() {
        let networks = [([10, 42, 128, 64].into(), 26), ([10, 0, 0, 0].into(), 16)].into();
        let mut mapping = Mapping::new(&networks);
        let mut addresses: Vec<Ipv4Addr> = (0..400_u32)
            .map(|n| {
                Ipv4Addr::from_bits(0x0a00_0000 | n.wrapping_mul(2_654_435_761) >> 8 >> (n % 24))
            })
            .collect();
        addresses.extend([Ipv4Addr::new(10, 42, 128, 65), Ipv4Addr::new(10, 0, 200, 1)]);
        let put: Vec<Ipv4Addr> =
            addresses.iter().map(|address| mapping.replace(*address, &random)).collect();
        for (one, of_one) in addresses.iter().zip(&put) {
            for (other, of_other) in addresses.iter().zip(&put) {
                assert_eq!(common(*one, *other), common(*of_one, *of_other), "{one} {other}");
            }
        }
        assert!(put.iter().all(|address| address.octets()[0] >= 240));
    }

    #[test]
    fn the_first_and_last_address_of_a_network_stay_that() {
        let networks = [
            ([10, 42, 128, 64].into(), 26_u8),
            ([10, 77, 0, 0].into(), 16),
            ([172, 16, 0, 0].into(), 12),
            ([10, 99, 6, 0].into(), 23),
        ];
        let mut mapping = Mapping::new(&networks.into());
        for (address, n_bits) in networks {
            let hosts = !mask(u32::from(n_bits));
            let zeros = mapping.replace(address, &random);
            let ones = mapping.replace(Ipv4Addr::from_bits(address.to_bits() | hosts), &random);
            assert_eq!(zeros.to_bits() & hosts, 0, "{address}/{n_bits}: {zeros}");
            assert_eq!(ones.to_bits() & hosts, hosts, "{address}/{n_bits}: {ones}");
            assert_ne!(zeros, address);
        }
        // Nobody said a size.
        let host = mapping.replace([192, 168, 5, 0].into(), &random);
        assert_eq!(host.octets()[3], 0);
        assert_ne!(host.octets()[..3], [192, 168, 5]);
    }

    #[test]
    fn networks_of_every_first_byte_stay_apart() {
        let mut mapping = Mapping::default();
        let put: BTreeSet<Ipv4Addr> =
            (1..=223).map(|first| mapping.replace([first, 1, 2, 3].into(), &random)).collect();
        assert_eq!(put.len(), 223);
    }
}
