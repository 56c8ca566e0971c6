//! The kernel's table of IPv4 routes as a tree: `/proc/net/fib_trie` (`fib_trie_seq_show` in `net/ipv4/fib_trie.c`).
//!
//! `+-- 10.1.84.0/26 2 0 2` is a node, `|-- 10.1.84.0` a leaf, and `/32 host LOCAL` below it one of its routes.

use std::net::Ipv4Addr;

use crate::{Field, Kind};

/// Every address in the tree.
pub fn fields(text: &str) -> Vec<Field> {
    let in_line = |line: &str| {
        let (_, rest) = line.split_once("|-- ").or_else(|| line.split_once("+-- "))?;
        let address = rest.split(|c: char| c == '/' || c.is_whitespace()).next()?;
        address.parse::<Ipv4Addr>().ok()?;
        Some(Field::in_text(text, address, Kind::Address))
    };
    text.lines().filter_map(in_line).collect()
}

/// Lists the addresses of nodes and routes, with their prefix lengths.
pub fn networks(text: &str) -> Vec<([u8; 4], u8)> {
    let mut leaf = None;
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim_start();
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.trim().parse::<Ipv4Addr>().ok();
            continue;
        }
        let network = match (line.strip_prefix("+-- "), line.strip_prefix('/'), leaf) {
            (Some(node), ..) => node.split_whitespace().next().and_then(|n| n.split_once('/')),
            (_, Some(route), Some(leaf)) => {
                let bits = route.split(' ').next().and_then(|bits| bits.parse().ok());
                found.extend(bits.map(|bits| (leaf.octets(), bits)));
                None
            }
            _ => None,
        };
        let parsed = network.and_then(|(address, bits)| {
            Some((address.parse::<Ipv4Addr>().ok()?.octets(), bits.parse().ok()?))
        });
        found.extend(parsed);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::tests::assert_fields;

    const TEXT: &str = "Main:\n  +-- 10.1.84.0/26 2 0 2\n     |-- 10.1.84.0\n        /26 link UNICAST\n        \
                        /32 host LOCAL\n     |-- x\n";

    #[test]
    fn nodes_and_leaves_have_addresses() {
        assert_fields(&fields(TEXT), TEXT, &[(Kind::Address, "10.1.84.0"); 2]);
    }

    #[test]
    fn nodes_and_routes_have_sizes() {
        let address = [10, 1, 84, 0];
        assert_eq!(networks(TEXT), [(address, 26), (address, 26), (address, 32)]);
    }
}
