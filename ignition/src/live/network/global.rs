//! The parts of nmstate's document that concern no single interface, routes and name servers, as lines of the profile
//! to which they belong.
//!
//! Sources: nmstate's `RouteEntry` and `DnsClientState` (nmstate.io, state API); nm-settings-keyfile(5).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::fields::{known, line, list, needed, number, object, scalar, text, wrong};
use super::{Context, Interfaces, LiveError, family_of, refuse};

pub(super) fn routes(
    top: &Map<String, Value>,
    contexts: &mut BTreeMap<String, Context>,
    all: &Interfaces<'_>,
) -> Result<(), LiveError> {
    let Some(routes) = top.get("routes") else { return Ok(()) };
    let routes = object(routes, "routes")?;
    known(routes, "routes", &["config"])?;
    for (index, route) in list(routes.get("config"), "routes.config")?.iter().enumerate() {
        let at = format!("routes.config.{index}");
        let route = object(route, &at)?;
        let keys = ["destination", "next-hop-address", "next-hop-interface", "metric", "table-id"];
        known(route, &at, &keys)?;
        let destination = needed(route, "destination", &at)?;
        let interface = needed(route, "next-hop-interface", &at)?;
        let Some(family) = family_of_network(&destination) else {
            return wrong(&format!("{at}.destination"), &destination.into(), "a network");
        };
        let next = text(route, "next-hop-address", &at)?.unwrap_or_default();
        if !next.is_empty() && family_of(&next) != Some(family) {
            let expected = format!("an address of {family}");
            return wrong(&format!("{at}.next-hop-address"), &next.into(), &expected);
        }
        if !all.contains_key(&interface) {
            return wrong(&format!("{at}.next-hop-interface"), &interface.into(), "an interface");
        }
        let context = contexts.entry(interface).or_default();
        let family = usize::from(family == "ipv6");
        context.n_routes[family] += 1;
        let number_of = context.n_routes[family];
        let mut value = format!("{destination},{next}");
        if let Some(metric) = number(route, "metric", &at, u64::from(u32::MAX))? {
            let _ = write!(value, ",{metric}");
        }
        let lines = &mut context.lines[family];
        line(lines, &format!("route{number_of}"), value.trim_end_matches(','));
        if let Some(table) = number(route, "table-id", &at, u64::from(u32::MAX))? {
            line(lines, &format!("route{number_of}_options"), &format!("table={table}"));
        }
    }
    Ok(())
}

/// The family of `ADDRESS/PREFIX`, or of an address alone.
fn family_of_network(network: &str) -> Option<&'static str> {
    let (address, prefix) = network.split_once('/').unwrap_or((network, "0"));
    let family = family_of(address)?;
    let most = if family == "ipv6" { 128 } else { 32 };
    (prefix.parse::<u8>().ok()? <= most).then_some(family)
}

/// Name servers belong to an interface: that with the default route of their family, or the first with addresses.
pub(super) fn name_servers(
    top: &Map<String, Value>,
    contexts: &mut BTreeMap<String, Context>,
    all: &Interfaces<'_>,
) -> Result<(), LiveError> {
    let Some(dns) = top.get("dns-resolver") else { return Ok(()) };
    let dns = object(dns, "dns-resolver")?;
    known(dns, "dns-resolver", &["config"])?;
    let empty = Value::Object(Map::new());
    let config = object(dns.get("config").unwrap_or(&empty), "dns-resolver.config")?;
    known(config, "dns-resolver.config", &["server", "search"])?;
    let texts = |key: &str| {
        let at = format!("dns-resolver.config.{key}");
        let values = list(config.get(key), &at)?;
        values.iter().map(|value| scalar(value, &at)).collect::<Result<Vec<_>, _>>()
    };
    let (servers, search) = (texts("server")?, texts("search")?);
    let mut has_search = search.is_empty();
    for (index, family) in ["ipv4", "ipv6"].into_iter().enumerate() {
        let of_family: Vec<&String> =
            servers.iter().filter(|server| family_of(server) == Some(family)).collect();
        if of_family.is_empty() {
            continue;
        }
        let is_up = |name: &String| {
            all.get(name).is_some_and(|(interface, _)| {
                interface.get(family).is_some_and(|ip| ip["enabled"] != false)
            })
        };
        let default = if index == 0 { "=0.0.0.0/0," } else { "=::/0," };
        let by_route = contexts.iter().find(|(_, c)| c.lines[index].contains(default));
        let chosen = by_route.map(|(name, _)| name.clone());
        let chosen = chosen.or_else(|| contexts.keys().find(|name| is_up(name)).cloned());
        let Some(context) = chosen.and_then(|name| contexts.get_mut(&name)) else {
            return refuse(
                "network",
                format!("name servers without {family}"),
                "an interface with it",
            );
        };
        let joined = |texts: &mut dyn Iterator<Item = &String>| {
            texts.fold(String::new(), |line, text| line + text + ";")
        };
        line(&mut context.lines[index], "dns", &joined(&mut of_family.into_iter()));
        if !has_search {
            line(&mut context.lines[index], "dns-search", &joined(&mut search.iter()));
            has_search = true;
        }
    }
    match servers.iter().find(|server| family_of(server).is_none()) {
        Some(server) => wrong("dns-resolver.config.server", &server.clone().into(), "addresses"),
        None if !has_search => {
            refuse("network", "dns-resolver.config.search without server", "a server too")
        }
        None => Ok(()),
    }
}
