//! The step `domain-resolution`: looks names up as every program of the live system does (`getaddrinfo(3)`).

use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::time::Duration;

use serde_json::{Value, json};

use super::step::Step;
use super::tasks::{Around, ask_each};
use crate::clock::Clock;

/// Most names of one step, and the longest one in bytes (RFC 1035 §2.3.4).
const MAX_NAMES: usize = 64;
const MAX_NAME_BYTES: usize = 253;
/// Time limit for all look-ups together.
const LIMIT: Duration = Duration::from_secs(40);

/// Looks up every name at the same time. Aliases are unknown, since the C library reports none, so `cnames` is absent.
pub(super) fn resolve(step: &Step, around: &Around) -> Result<Value, String> {
    let request = step.json(0)?;
    let domains = request.get("domains").and_then(Value::as_array).ok_or("it names no domains")?;
    let names: Vec<String> = domains
        .iter()
        .filter_map(|domain| Some(domain.get("domain_name")?.as_str()?.to_owned()))
        .filter(|name| name.len() <= MAX_NAME_BYTES)
        .take(MAX_NAMES)
        .collect();
    let mut resolutions = Vec::new();
    let clock = &around.api.client.clock;
    for (name, found) in ask_each(names, "resolve", LIMIT, clock, addresses) {
        // A name whose look-up does not end is absent: whether it has an address is unknown.
        let Some(found) = found else { continue };
        let of_family = |is_v4: bool| -> Vec<String> {
            found.iter().filter(|ip| ip.is_ipv4() == is_v4).map(ToString::to_string).collect()
        };
        resolutions.push(json!({
            "domain_name": name,
            "ipv4_addresses": of_family(true),
            "ipv6_addresses": of_family(false),
        }));
    }
    Ok(json!({"resolutions": resolutions}))
}

fn addresses(name: &str, _: &dyn Clock) -> BTreeSet<IpAddr> {
    let found = (name, 0).to_socket_addrs().into_iter().flatten();
    found.map(|address| address.ip()).collect()
}
