//! The parts of nmstate's document that concern no single interface, routes and name servers, as lines of the profile
//! to which they belong.
//!
//! Sources: nmstate's `RouteEntry` and `DnsClientState` (nmstate.io, state API); nm-settings-keyfile(5).

use std::net::IpAddr;

use super::state::{Routes, Servers};
use super::{Contexts, Interfaces, LiveError, line, refuse, wrong};

pub(super) fn routes<'a>(
    routes: &'a Routes,
    contexts: &mut Contexts<'a>,
    all: &Interfaces<'_>,
) -> Result<(), LiveError> {
    for (index, route) in routes.config.iter().enumerate() {
        let at = format!("routes.config.{index}");
        let Some(is_ipv6) = is_ipv6_network(&route.destination) else {
            return wrong(&format!("{at}.destination"), &route.destination, "a network");
        };
        let next = &route.next_hop_address;
        let is_next = next.parse().is_ok_and(|next: IpAddr| next.is_ipv6() == is_ipv6);
        if !next.is_empty() && !is_next {
            let expected = "an address of the destination's family";
            return wrong(&format!("{at}.next-hop-address"), next, expected);
        }
        let interface = route.next_hop_interface.as_str();
        if !all.contains_key(interface) {
            return wrong(&format!("{at}.next-hop-interface"), interface, "an interface");
        }
        let context = contexts.entry(interface).or_default();
        let family = usize::from(is_ipv6);
        context.n_routes[family] += 1;
        let key = format!("route{}", context.n_routes[family]);
        let metric = route.metric.map_or_else(String::new, |metric| format!(",{metric}"));
        let value = format!("{},{next}{metric}", route.destination);
        let lines = &mut context.lines[family];
        line(lines, &key, value.trim_end_matches(','));
        if let Some(table) = route.table_id {
            line(lines, &format!("{key}_options"), &format!("table={table}"));
        }
    }
    Ok(())
}

/// True if `ADDRESS/PREFIX`, or an address alone, is IPv6; `None` if it is not a network.
fn is_ipv6_network(network: &str) -> Option<bool> {
    let (address, prefix) = network.split_once('/').unwrap_or((network, "0"));
    let is_ipv6 = address.parse::<IpAddr>().ok()?.is_ipv6();
    let most = if is_ipv6 { 128 } else { 32 };
    (prefix.parse::<u8>().ok()? <= most).then_some(is_ipv6)
}

/// Name servers belong to an interface: that with the default route of their family, or the first with addresses.
pub(super) fn name_servers(
    servers: &Servers,
    contexts: &mut Contexts<'_>,
    all: &Interfaces<'_>,
) -> Result<(), LiveError> {
    // Each ends with a semicolon.
    let joined = |texts: &[String]| texts.join(";") + ";";
    if let Some(bad) = servers.search.iter().find(|name| !super::is_one_line(name)) {
        return wrong("dns-resolver.config.search", bad, "text on one line");
    }
    let mut search = Some(&servers.search[..]).filter(|search| !search.is_empty());
    for (index, family) in ["ipv4", "ipv6"].into_iter().enumerate() {
        let of_family =
            servers.server.iter().filter(|server| usize::from(server.is_ipv6()) == index);
        let of_family: Vec<String> = of_family.map(ToString::to_string).collect();
        if of_family.is_empty() {
            continue;
        }
        let is_up = |name: &&&str| {
            all.get(**name).and_then(|all| all.families()[index].1).is_some_and(|ip| ip.enabled)
        };
        let default = if index == 0 { "=0.0.0.0/0," } else { "=::/0," };
        let by_route = contexts.iter().find(|(_, c)| c.lines[index].contains(default));
        let chosen =
            by_route.map(|(name, _)| *name).or_else(|| contexts.keys().find(is_up).copied());
        let Some(context) = chosen.and_then(|name| contexts.get_mut(name)) else {
            let found = format!("name servers without {family}");
            return refuse("network", found, "an interface with it");
        };
        line(&mut context.lines[index], "dns", &joined(&of_family));
        if let Some(search) = search.take() {
            line(&mut context.lines[index], "dns-search", &joined(search));
        }
    }
    match search {
        Some(_) => refuse("network", "dns-resolver.config.search without server", "a server too"),
        None => Ok(()),
    }
}
