//! The step `free-network-addresses`: finds the addresses of a network for which no host responds.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use serde_json::{Value, json};

use super::addresses::{Address, addresses};
use super::arp;
use super::ping::Target;
use super::step::Step;
use super::tasks::Around;
use crate::clean;
use crate::clock::Clock;
use crate::http::Client;
use crate::signals::Stop;

/// The shortest prefix of a network that is searched; the service asks for no larger network.
const MIN_PREFIX: u32 = 22;
/// Maximum number of addresses in all networks of one step.
const MAX_ADDRESSES: usize = 2048;
/// Number of addresses that are asked for at once: the kernel begins to forget entries when it has more (`gc_thresh1`).
const BATCH: usize = 120;
/// The kernel asks three times, a second apart.
const WAIT: Duration = Duration::from_millis(3400);

/// Searches every network of the step that this host is in. One that it is not in, or only by a port without a carrier, is
/// absent from the output.
pub(super) fn search(step: &Step, around: &Around) -> Result<Value, String> {
    let Client { clock, stop, .. } = around.api.client.as_ref();
    search_networks(&step.json(0)?, clock.as_ref(), stop)
}

fn search_networks(request: &Value, clock: &dyn Clock, stop: &Stop) -> Result<Value, String> {
    let list = request.as_array().ok_or("its argument is no list of networks")?;
    let own = addresses();
    let mut n_left = MAX_ADDRESSES;
    let (mut found, mut cut_off) = (Vec::new(), None);
    for text in list.iter().filter_map(Value::as_str) {
        let network = parse(text)?;
        let in_network = own.iter().filter(|own| is_in(own, network));
        let Some(port) = in_network.min_by_key(|own| !own.has_carrier) else { continue };
        // Nobody can respond through a port without a carrier: every address would look free.
        if !port.has_carrier {
            cut_off = Some(format!("the port {} in {text} has no carrier", port.nic));
            continue;
        }
        let hosts: Vec<Target> = hosts(network)
            .map(|ip| (port.nic.clone(), IpAddr::V4(ip)))
            .filter(|(_, ip)| !own.iter().any(|own| own.ip == *ip))
            .collect();
        n_left = n_left.checked_sub(hosts.len()).ok_or_else(|| {
            format!("the networks have more than {MAX_ADDRESSES} addresses together")
        })?;
        let mut free = Vec::new();
        for hosts in hosts.chunks(BATCH) {
            let answers = arp::ask(hosts, WAIT, clock, stop)?;
            let silent = answers.into_iter().filter(|(_, mac)| mac.is_none());
            free.extend(silent.map(|((_, ip), _)| ip.to_string()));
        }
        found.push(json!({"network": text, "free_addresses": free}));
    }
    if found.is_empty() {
        let none = || "this host has no address in any of the networks".to_owned();
        return Err(cut_off.unwrap_or_else(none));
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
        let expected = format!("e.g. 192.0.2.0/24, with a prefix of at least {MIN_PREFIX}");
        clean::unexpected("a network", text, 64, &expected)
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
    use std::process::Command;

    use super::*;
    use crate::clock::RealClock;
    use crate::namespace;

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

    /// Runs in a network namespace of its own, with a cable to `peer`, which has two addresses.
    #[test]
    fn only_addresses_that_nobody_has_are_free_and_none_is_without_a_carrier() {
        const NAME: &str = "assisted::free_addresses::tests::only_addresses_that_nobody_has_are_free_and_none_is_without_a_carrier";
        const SCRIPT: &str = "mount -t sysfs sysfs /sys && mount -t tmpfs tmpfs /run && ip netns add peer && \
            ip link add rci0 type veth peer name rci1 netns peer && \
            ip -n peer address add 192.0.2.2/29 dev rci1 && ip -n peer address add 192.0.2.5/29 dev rci1 && \
            ip -n peer link set rci1 up && ip address add 192.0.2.1/29 dev rci0 && ip link set rci0 up";
        if !namespace::enter(NAME, SCRIPT) {
            return;
        }
        let request = json!(["198.51.100.0/24", "192.0.2.0/29"]);
        let search = || search_networks(&request, &RealClock, &Stop::default());
        // The kernel says a little later that a carrier has come or gone.
        let wait_for_carrier = |expected: bool| {
            let is_as_expected = || addresses().iter().any(|own| own.has_carrier == expected);
            (0..100).any(|_| {
                std::thread::sleep(Duration::from_millis(50));
                is_as_expected()
            })
        };
        assert!(wait_for_carrier(true));
        assert_eq!(
            search(),
            Ok(json!([{
                "network": "192.0.2.0/29",
                "free_addresses": ["192.0.2.3", "192.0.2.4", "192.0.2.6"],
            }]))
        );
        let peer_down = ["-n", "peer", "link", "set", "rci1", "down"];
        assert!(Command::new("ip").args(peer_down).status().unwrap().success());
        assert!(wait_for_carrier(false));
        let no_carrier = "the port rci0 in 192.0.2.0/29 has no carrier";
        assert_eq!(search(), Err(no_carrier.into()));
    }
}
