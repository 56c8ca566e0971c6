//! The step `free-network-addresses`: which addresses of a network nobody responds for.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use serde_json::{Value, json};

use super::addresses::{Address, addresses};
use super::arp;
use super::step::Step;
use super::tasks::Around;
use crate::clean;

/// The shortest prefix of a network that is searched; the service asks for no larger network.
const MIN_PREFIX: u32 = 22;
/// Most addresses of all networks of one step.
const MAX_ADDRESSES: usize = 2048;
/// How many addresses are asked for at once: the kernel begins to forget entries when it has more (`gc_thresh1`).
const BATCH: usize = 120;
/// The kernel asks three times, a second apart.
const WAIT: Duration = Duration::from_millis(3400);

/// Searches every network of the step that this host is in. A network that it is not in is absent from the output.
pub(super) fn search(step: &Step, _: &Around) -> Result<Value, String> {
    let request = step.json(0)?;
    let list = request.as_array().ok_or("its argument is no list of networks")?;
    let own = addresses();
    let mut n_left = MAX_ADDRESSES;
    let mut found = Vec::new();
    for text in list.iter().filter_map(Value::as_str) {
        let network = parse(text)?;
        let Some(nic) = own.iter().find(|own| is_in(own, network)).map(|own| &own.nic) else {
            continue;
        };
        let hosts: Vec<arp::Neighbour> = hosts(network)
            .filter(|ip| !own.iter().any(|own| own.ip == IpAddr::V4(*ip)))
            .map(|ip| (nic.clone(), ip))
            .collect();
        n_left = n_left.checked_sub(hosts.len()).ok_or_else(|| {
            format!("the networks have more than {MAX_ADDRESSES} addresses together")
        })?;
        let mut free = Vec::new();
        for hosts in hosts.chunks(BATCH) {
            let silent = arp::ask(hosts, WAIT)?.into_iter().filter(|(_, mac)| mac.is_none());
            free.extend(silent.map(|((_, ip), _)| ip.to_string()));
        }
        found.push(json!({"network": text, "free_addresses": free}));
    }
    if found.is_empty() {
        return Err("this host has no address in any of the networks".into());
    }
    Ok(Value::Array(found))
}

/// The first address and the prefix of a network.
fn parse(text: &str) -> Result<(Ipv4Addr, u32), String> {
    let parsed = || {
        let (ip, prefix) = text.split_once('/')?;
        let (ip, prefix) = (ip.parse::<Ipv4Addr>().ok()?, prefix.parse::<u32>().ok()?);
        let n_host_bits = 32_u32.checked_sub(prefix).filter(|_| prefix >= MIN_PREFIX)?;
        let mask = u32::MAX.checked_shl(n_host_bits)?;
        Some((Ipv4Addr::from_bits(ip.to_bits() & mask), prefix))
    };
    parsed().ok_or_else(|| {
        format!("a network is {text}, expected e.g. 192.0.2.0/24, with a prefix of at least {MIN_PREFIX}", text = clean::quoted(text, 64))
    })
}

fn is_in(own: &Address, (first, prefix): (Ipv4Addr, u32)) -> bool {
    own.prefix == prefix && own.has_neighbour(IpAddr::V4(first))
}

/// The addresses between the first one, which names the network, and the last one, which is for broadcasts.
fn hosts((first, prefix): (Ipv4Addr, u32)) -> impl Iterator<Item = Ipv4Addr> {
    let n_all = 1_u32.checked_shl(32 - prefix).unwrap_or_default();
    (1..n_all.saturating_sub(1)).map(move |n| Ipv4Addr::from_bits(first.to_bits() + n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_larger_than_the_service_asks_for_is_refused() {
        assert_eq!(parse("192.0.2.7/24").unwrap(), ("192.0.2.0".parse().unwrap(), 24));
        assert_eq!(hosts(parse("10.0.0.0/22").unwrap()).count(), 1022);
        for text in ["10.0.0.0/21", "10.0.0.0/0", "10.0.0.0/33", "2001:db8::/64", "10.0.0.0", ""] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(hosts(parse("10.0.0.1/32").unwrap()).count(), 0);
        let ends: Vec<Ipv4Addr> = hosts(parse("192.0.2.0/30").unwrap()).collect();
        assert_eq!(ends, [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)]);
    }
}
