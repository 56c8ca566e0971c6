//! Network state in nmstate's YAML, as far as a node needs it to reach its VIM, as profiles of `NetworkManager`.
//!
//! Sources: nmstate's `Interface`, `BondConfig`, `VlanConfig`, `DnsState` and `Routes` (nmstate.io, state API);
//! `NetworkManager`'s nm-settings-keyfile(5). What is not listed here is refused, never dropped.

mod fields;
mod global;
mod packet;

use std::collections::BTreeMap;
use std::fmt::Write as _;

pub use packet::packet_network;
use serde_json::{Map, Value};

use super::LiveError;
use super::checks::refuse;
use crate::text::shown;
use fields::{flag, known, line, list, needed, number, object, scalar, text, wrong};

/// A profile of `NetworkManager`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyfile {
    /// Name of the file, e.g. `bond0.nmconnection`.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// What the other parts of the document say about one interface.
#[derive(Debug, Default)]
struct Context {
    bond: Option<String>,
    /// Lines of the sections `[ipv4]` and `[ipv6]`.
    lines: [String; 2],
    n_routes: [usize; 2],
}

/// Converts nmstate's YAML: Ethernet ports, bonds and VLANs with addresses, routes and name servers.
///
/// # Errors
/// [`LiveError`] with the path of the first key or value that cannot be converted.
pub fn keyfiles(text: &str) -> Result<Vec<Keyfile>, LiveError> {
    if formats::text::nesting(text) > formats::text::MAX_NESTING {
        return refuse("network", "a document that nests deeper than nmstate's", "nmstate's YAML");
    }
    // This type, other than that of JSON, refuses keys that occur twice.
    let document: Result<yaml_serde::Value, _> = yaml_serde::from_str(text);
    match document.map(serde_json::to_value) {
        Ok(Ok(document)) => profiles(&document),
        Ok(Err(error)) => refuse("network", error.to_string(), "keys that are text"),
        Err(error) => not_yaml(&error, text),
    }
}

fn not_yaml<T>(error: &yaml_serde::Error, text: &str) -> Result<T, LiveError> {
    if let Some(key) = formats::text::repeated_key(&error.to_string()) {
        return refuse("network", format!("a document with {key} twice"), "each key once");
    }
    let at = error.location().map(|at| at.line());
    match formats::text::wrong_line(text, at) {
        Some((line, found)) => {
            let found = format!("not YAML in line {line}: {found}");
            refuse("network", found, "lines such as KEY: VALUE")
        }
        // Such as a text of only a tab.
        None => refuse("network", "not YAML", "lines such as KEY: VALUE"),
    }
}

/// Converts the parsed document.
fn profiles(document: &Value) -> Result<Vec<Keyfile>, LiveError> {
    let top = object(document, "the document")?;
    known(top, "", &["interfaces", "routes", "dns-resolver"])?;
    let interfaces = list(top.get("interfaces"), "interfaces")?;
    let mut contexts: BTreeMap<String, Context> = BTreeMap::new();
    let mut by_name = BTreeMap::new();
    for (index, interface) in interfaces.iter().enumerate() {
        let at = format!("interfaces.{index}");
        let interface = object(interface, &at)?;
        let name = needed(interface, "name", &at)?;
        if !is_interface_name(&name) {
            return wrong(&format!("{at}.name"), &name.into(), "a name of at most 15 characters");
        }
        // People know the interface by its name, not by its position.
        let at = format!("{at} ({name})");
        for port in ports(interface, &at)? {
            let entry = contexts.entry(port.clone()).or_default();
            if entry.bond.replace(name.clone()).is_some() {
                return wrong(&at, &port.into(), "a port of one bond only");
            }
        }
        contexts.entry(name.clone()).or_default();
        if by_name.insert(name.clone(), (interface, at.clone())).is_some() {
            return wrong(
                &format!("{at}.name"),
                &name.into(),
                "a name that no other interface has",
            );
        }
    }
    global::routes(top, &mut contexts, &by_name)?;
    global::name_servers(top, &mut contexts, &by_name)?;
    if contexts.is_empty() {
        return refuse("network", "a document without interfaces", "at least one interface");
    }
    // Ports that only their bond names have no entry of their own.
    let bare = Map::new();
    let port = (&bare, String::new());
    contexts
        .iter()
        .map(|(name, context)| {
            let (interface, at) = by_name.get(name).unwrap_or(&port);
            profile(name, interface, at, context, &by_name)
        })
        .collect()
}

type Interfaces<'a> = BTreeMap<String, (&'a Map<String, Value>, String)>;

fn profile(
    name: &str,
    interface: &Map<String, Value>,
    at: &str,
    context: &Context,
    all: &Interfaces<'_>,
) -> Result<Keyfile, LiveError> {
    let keys = ["name", "type", "state", "identifier", "mac-address", "mtu", "ipv4", "ipv6"];
    let more = ["description", "link-aggregation", "vlan"];
    known(interface, at, &[&keys[..], &more].concat())?;
    if let Some(state) = interface.get("state").filter(|state| *state != "up") {
        return wrong(&format!("{at}.state"), state, "up");
    }
    let kind = text(interface, "type", at)?.unwrap_or_else(|| "ethernet".to_owned());
    if !["ethernet", "bond", "vlan"].contains(&kind.as_str()) {
        let expected = "ethernet, bond or vlan; give a NetworkManager keyfile for other types";
        return wrong(&format!("{at}.type"), &kind.into(), expected);
    }
    for (of, key) in [("bond", "link-aggregation"), ("vlan", "vlan")] {
        if of != kind && interface.contains_key(key) {
            return refuse("network", format!("{at}.{key} with type {kind}"), format!("type {of}"));
        }
    }
    let mut out = format!("[connection]\nid={name}\ntype={kind}\n");
    let is_by_mac = match text(interface, "identifier", at)?.as_deref() {
        None | Some("name") => false,
        Some("mac-address") => true,
        Some(other) => {
            return wrong(&format!("{at}.identifier"), &other.into(), "name or mac-address");
        }
    };
    if !is_by_mac {
        line(&mut out, "interface-name", name);
    }
    if let Some(bond) = &context.bond {
        // A port has no settings of its own above the link, so what is given for it would be lost.
        for (family, lines) in ["ipv4", "ipv6"].into_iter().zip(&context.lines) {
            if !lines.is_empty() || interface.get(family).is_some_and(|ip| ip["enabled"] != false) {
                let found = format!("{family} of {name}, a port of {bond}");
                return refuse("network", found, "addresses, routes and name servers on the bond");
            }
        }
        // The names before NetworkManager 1.44, which newer versions accept too.
        line(&mut out, "master", bond);
        line(&mut out, "slave-type", "bond");
    }
    ethernet(interface, at, is_by_mac, &mut out)?;
    if kind == "bond" {
        bond(interface, at, &mut out)?;
    }
    if kind == "vlan" {
        vlan(interface, at, all, &mut out)?;
    }
    if context.bond.is_none() {
        for (family, lines) in ["ipv4", "ipv6"].into_iter().zip(&context.lines) {
            let is_enabled = ip(interface, at, family, &mut out)?;
            if !is_enabled && !lines.is_empty() {
                let found = format!("routes or name servers of {name} without {family}");
                return refuse(
                    "network",
                    found,
                    format!("{family} of {name} with addresses or DHCP"),
                );
            }
            out.push_str(lines);
        }
    }
    Ok(Keyfile { name: format!("{name}.nmconnection"), text: out })
}

fn ethernet(
    interface: &Map<String, Value>,
    at: &str,
    is_by_mac: bool,
    out: &mut String,
) -> Result<(), LiveError> {
    let mac = text(interface, "mac-address", at)?;
    let mtu = number(interface, "mtu", at, 65535)?;
    if is_by_mac && mac.is_none() {
        return refuse("network", format!("{at} without mac-address"), "one, as identifier says");
    }
    if mac.is_none() && mtu.is_none() {
        return Ok(());
    }
    out.push_str("\n[ethernet]\n");
    if let Some(mac) = mac {
        if !is_mac(&mac) {
            return wrong(&format!("{at}.mac-address"), &mac.into(), "six bytes, as 52:54:00:…");
        }
        // Without the identifier the key sets the address instead of selecting the port.
        line(out, if is_by_mac { "mac-address" } else { "cloned-mac-address" }, &mac);
    }
    if let Some(mtu) = mtu {
        line(out, "mtu", &mtu.to_string());
    }
    Ok(())
}

/// The ports of a bond; `slaves` is the name in older versions of nmstate.
fn ports(interface: &Map<String, Value>, at: &str) -> Result<Vec<String>, LiveError> {
    let Some(bond) = interface.get("link-aggregation") else { return Ok(Vec::new()) };
    let at = format!("{at}.link-aggregation");
    let bond = object(bond, &at)?;
    if bond.contains_key("port") && bond.contains_key("slaves") {
        return refuse("network", format!("{at} with port and slaves"), "one of the two");
    }
    let members = list(bond.get("port").or_else(|| bond.get("slaves")), &format!("{at}.port"))?;
    members
        .iter()
        .map(|member| match member.as_str().filter(|name| is_interface_name(name)) {
            Some(name) => Ok(name.to_owned()),
            None => wrong(&format!("{at}.port"), member, "names of interfaces"),
        })
        .collect()
}

fn bond(interface: &Map<String, Value>, at: &str, out: &mut String) -> Result<(), LiveError> {
    let at = format!("{at}.link-aggregation");
    let empty = Value::Null;
    let bond = object(interface.get("link-aggregation").unwrap_or(&empty), &at)?;
    known(bond, &at, &["mode", "options", "port", "slaves"])?;
    out.push_str("\n[bond]\n");
    line(out, "mode", &needed(bond, "mode", &at)?);
    if let Some(options) = bond.get("options") {
        for (key, value) in object(options, &format!("{at}.options"))? {
            let at = format!("{at}.options.{key}");
            let is_name = key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
            if !is_name || key.is_empty() || key == "mode" {
                return refuse(
                    "network",
                    shown(&at),
                    "the name of an option of the bond, other than its mode",
                );
            }
            line(out, key, &scalar(value, &at)?);
        }
    }
    Ok(())
}

fn vlan(
    interface: &Map<String, Value>,
    at: &str,
    all: &Interfaces<'_>,
    out: &mut String,
) -> Result<(), LiveError> {
    let at = format!("{at}.vlan");
    let empty = Value::Null;
    let vlan = object(interface.get("vlan").unwrap_or(&empty), &at)?;
    known(vlan, &at, &["base-iface", "id"])?;
    let parent = needed(vlan, "base-iface", &at)?;
    if !all.contains_key(&parent) {
        return wrong(&format!("{at}.base-iface"), &parent.into(), "an interface of this document");
    }
    if all.get(&parent).is_some_and(|(parent, _)| parent.contains_key("identifier")) {
        let expected = "an interface that its name identifies";
        return wrong(&format!("{at}.base-iface"), &parent.into(), expected);
    }
    let Some(id) = number(vlan, "id", &at, 4094)? else {
        return refuse("network", format!("{at} without id"), "the id of the VLAN");
    };
    out.push_str("\n[vlan]\n");
    line(out, "id", &id.to_string());
    line(out, "parent", &parent);
    Ok(())
}

/// Writes the section `[ipv4]` or `[ipv6]`, and returns whether the interface has addresses of that family. Without an entry
/// it has none.
fn ip(
    interface: &Map<String, Value>,
    at: &str,
    family: &str,
    out: &mut String,
) -> Result<bool, LiveError> {
    let at = format!("{at}.{family}");
    let _ = write!(out, "\n[{family}]\n");
    let Some(entry) = interface.get(family) else {
        line(out, "method", "disabled");
        return Ok(false);
    };
    let ip = object(entry, &at)?;
    let keys =
        ["enabled", "dhcp", "autoconf", "address", "auto-dns", "auto-gateway", "auto-routes"];
    known(ip, &at, &keys)?;
    let addresses = list(ip.get("address"), &format!("{at}.address"))?;
    let is = |key: &str| flag(ip, key, &at);
    let (dhcp, autoconf) = (is("dhcp")?.unwrap_or(false), is("autoconf")?.unwrap_or(false));
    let is_enabled = is("enabled")?.unwrap_or(true);
    let method = match family {
        _ if !is_enabled => "disabled",
        "ipv6" if dhcp && !autoconf => "dhcp",
        _ if dhcp || autoconf => "auto",
        _ if !addresses.is_empty() => "manual",
        "ipv6" => "link-local",
        _ => "disabled",
    };
    line(out, "method", method);
    if method == "disabled" {
        return Ok(false);
    }
    for (index, address) in addresses.iter().enumerate() {
        let at = format!("{at}.address.{index}");
        let address = object(address, &at)?;
        known(address, &at, &["ip", "prefix-length"])?;
        let ip = needed(address, "ip", &at)?;
        if family_of(&ip) != Some(family) {
            return wrong(&format!("{at}.ip"), &ip.into(), &format!("an address of {family}"));
        }
        let longest = if family == "ipv4" { 32 } else { 128 };
        let Some(prefix) = number(address, "prefix-length", &at, longest)? else {
            return refuse("network", format!("{at} without prefix-length"), "its length");
        };
        line(out, &format!("address{}", index + 1), &format!("{ip}/{prefix}"));
    }
    for (key, theirs) in [
        ("auto-dns", "ignore-auto-dns"),
        ("auto-routes", "ignore-auto-routes"),
        ("auto-gateway", "never-default"),
    ] {
        if is(key)? == Some(false) {
            line(out, theirs, "true");
        }
    }
    Ok(true)
}

fn is_mac(text: &str) -> bool {
    let is_byte = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
    text.split(':').count() == 6 && text.split(':').all(is_byte)
}

fn family_of(address: &str) -> Option<&'static str> {
    match address.parse().ok()? {
        std::net::IpAddr::V4(_) => Some("ipv4"),
        std::net::IpAddr::V6(_) => Some("ipv6"),
    }
}

/// The kernel's limit is 15 bytes (`IFNAMSIZ`); `NetworkManager` uses the name as a file's.
fn is_interface_name(name: &str) -> bool {
    (1..16).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-@".contains(&b))
        && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOND: &str = "\
interfaces:
- name: bond0
  type: bond
  state: up
  mtu: 9000
  link-aggregation:
    mode: 802.3ad
    options: {miimon: '100'}
    port: [eno1, eno2]
- name: eno1
  type: ethernet
  identifier: mac-address
  mac-address: 52:54:00:aa:00:01
- name: bond0.100
  type: vlan
  vlan: {base-iface: bond0, id: 100}
  ipv4:
    enabled: true
    dhcp: false
    address: [{ip: 192.0.2.5, prefix-length: 24}]
  ipv6: {enabled: true, dhcp: true, autoconf: true, auto-dns: false}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: bond0.100, metric: 50}
dns-resolver:
  config: {server: [192.0.2.53], search: [lab.example]}
";

    #[test]
    fn bond_with_vlan_and_static_address_becomes_four_profiles() {
        let found = keyfiles(BOND).unwrap();
        let names: Vec<&str> = found.iter().map(|keyfile| keyfile.name.as_str()).collect();
        let expected = ["bond0", "bond0.100", "eno1", "eno2"].map(|n| format!("{n}.nmconnection"));
        assert_eq!(names, expected);
        let texts: Vec<&str> = found.iter().map(|keyfile| keyfile.text.as_str()).collect();
        assert_eq!(
            texts[0],
            "[connection]\nid=bond0\ntype=bond\ninterface-name=bond0\n\n[ethernet]\nmtu=9000\n\n\
             [bond]\nmode=802.3ad\nmiimon=100\n\n[ipv4]\nmethod=disabled\n\n[ipv6]\nmethod=disabled\n"
        );
        assert_eq!(
            texts[1],
            "[connection]\nid=bond0.100\ntype=vlan\ninterface-name=bond0.100\n\n[vlan]\nid=100\n\
             parent=bond0\n\n[ipv4]\nmethod=manual\naddress1=192.0.2.5/24\n\
             route1=0.0.0.0/0,192.0.2.1,50\ndns=192.0.2.53;\ndns-search=lab.example;\n\n\
             [ipv6]\nmethod=auto\nignore-auto-dns=true\n"
        );
        assert_eq!(
            texts[2],
            "[connection]\nid=eno1\ntype=ethernet\nmaster=bond0\nslave-type=bond\n\n[ethernet]\n\
             mac-address=52:54:00:aa:00:01\n"
        );
        assert_eq!(
            texts[3],
            "[connection]\nid=eno2\ntype=ethernet\ninterface-name=eno2\nmaster=bond0\nslave-type=bond\n"
        );
    }

    #[test]
    fn what_cannot_be_converted_is_refused_with_its_path() {
        for (text, expected) in [
            (
                "interfaces: [{name: br0, type: linux-bridge}]",
                "\"linux-bridge\" at interfaces.0 (br0).type",
            ),
            ("interfaces: [{name: a, wait-ip: any}]", "unknown key \"interfaces.0 (a).wait-ip\""),
            ("interfaces: [{name: a, state: absent}]", "\"absent\" at interfaces.0 (a).state"),
            ("interfaces: [{name: ../etc}]", "\"../etc\" at interfaces.0.name"),
            ("interfaces: [{name: a}, {name: a}]", "\"a\" at interfaces.1 (a).name"),
            ("interfaces: [{name: a, mtu: -1}]", "\"-1\" at interfaces.0 (a).mtu"),
            (
                "interfaces: [{name: a, identifier: pci-address}]",
                "\"pci-address\" at interfaces.0 (a).identifier",
            ),
            (
                "interfaces: [{name: b, type: bond, link-aggregation: {mode: '1', port: [a]}}, {name: a, ipv4: {dhcp: true}}]",
                "ipv4 of a, a port of b",
            ),
            (
                "{interfaces: [{name: a}], routes: {config: [{destination: 10.0.0.0/99, next-hop-interface: a}]}}",
                "\"10.0.0.0/99\" at routes.config.0.destination",
            ),
            (
                "interfaces: [{name: a, ipv4: {address: [{ip: '::1', prefix-length: 64}]}}]",
                "\"::1\" at interfaces.0 (a).ipv4.address.0.ip",
            ),
            (
                "interfaces: [{name: a, ipv4: {dhcp: maybe}}]",
                "\"maybe\" at interfaces.0 (a).ipv4.dhcp",
            ),
            (
                "interfaces: [{name: b, type: bond, link-aggregation: {mode: \"x\\ny\"}}]",
                "\"x\\ny\" at interfaces.0 (b).link-aggregation.mode",
            ),
            (
                "routes: {config: [{destination: '::/0', next-hop-interface: eth9}]}",
                "\"eth9\" at routes.config.0.next-hop-interface",
            ),
            ("dns-resolver: {config: {server: [192.0.2.1]}}", "name servers without ipv4"),
            ("hostname: {}", "unknown key \"hostname\""),
            ("{}", "a document without interfaces"),
            (
                "interfaces:\n- name: a\n  mtu: [9000\n",
                "not YAML in line 3: \"mtu\": a quotation mark or bracket",
            ),
            (
                "interfaces: []\ninterfaces: []",
                "a document with key \"interfaces\" twice, expected",
            ),
            ("\t", "not YAML, expected lines such as KEY: VALUE"),
            ("- a", "\"[\\\"a\\\"]\" at the document"),
        ] {
            let error = keyfiles(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("network is {expected}")), "{text}\n{error}");
        }
    }

    #[test]
    fn what_would_be_lost_or_contradicts_itself_is_refused() {
        for (text, expected) in [
            (
                "interfaces: [{name: a, ipv4: {dhcp: true, dhcp: false}}]",
                "a document with key \"dhcp\" in interfaces[0].ipv4 twice, expected each key once",
            ),
            (
                "interfaces: [{name: a, mac-address: ':::::'}]",
                "\":::::\" at interfaces.0 (a).mac-address",
            ),
            (
                "interfaces: [{name: b, type: bond, link-aggregation: {mode: '1', port: [a], slaves: [c]}}]",
                "interfaces.0 (b).link-aggregation with port and slaves",
            ),
            (
                "interfaces: [{name: b, type: bond, link-aggregation: {mode: '1', options: {mode: '4'}}}]",
                "\"interfaces.0 (b).link-aggregation.options.mode\"",
            ),
            (
                "interfaces: [{name: b, type: bond, link-aggregation: {mode: '1', options: {'[ipv4': ']'}}}]",
                "\"interfaces.0 (b).link-aggregation.options.[ipv4\"",
            ),
            (
                "{interfaces: [{name: a}], routes: {config: [{destination: 10.0.0.0/8, next-hop-interface: a}]}}",
                "routes or name servers of a without ipv4",
            ),
            (
                "interfaces: [{name: v, type: vlan, vlan: {base-iface: eth7, id: 1}}]",
                "\"eth7\" at interfaces.0 (v).vlan.base-iface",
            ),
        ] {
            let error = keyfiles(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("network is {expected}")), "{text}\n{error}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_before_it_costs_time() {
        let error = keyfiles(&format!("interfaces: {}", "[".repeat(400_000))).unwrap_err();
        assert!(error.to_string().contains("nests deeper"), "{error}");
    }
}
