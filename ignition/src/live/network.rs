//! Network state in nmstate's YAML, as far as a node needs it to reach its VIM, as profiles of `NetworkManager`.
//!
//! The crate `nmstate` makes the same profiles, but enlarges the program by 1.3 MiB, and brings `serde_yaml` on a library
//! that is no longer maintained.
//!
//! Source: `NetworkManager`'s nm-settings-keyfile(5).

mod global;
mod packet;
mod state;

use std::collections::BTreeMap;
use std::fmt::Write as _;

pub use packet::packet_network;
use yaml_serde::Value;

use super::LiveError;
use super::checks::refuse;
use crate::text::shown;
use state::{Bond, Identifier, Interface, Ip, Kind, State, Vlan, Vxlan};

/// A profile of `NetworkManager`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Keyfile {
    /// Name of the file, e.g. `bond0.nmconnection`.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Statements about one interface in the other parts of the document.
#[derive(Debug, Default)]
struct Context<'a> {
    bond: Option<&'a str>,
    /// Lines of the sections `[ipv4]` and `[ipv6]`.
    lines: [String; 2],
    n_routes: [usize; 2],
}

type Contexts<'a> = BTreeMap<&'a str, Context<'a>>;
type Interfaces<'a> = BTreeMap<&'a str, &'a Interface>;

fn line(out: &mut String, key: &str, value: &str) {
    let _ = writeln!(out, "{key}={value}");
}

fn wrong<T>(at: &str, found: &str, expected: &str) -> Result<T, LiveError> {
    refuse("network", format!("{} at {at}", shown(found)), expected)
}

/// Converts nmstate's YAML: Ethernet ports, bonds, VLANs and VXLANs with addresses, routes and name servers.
///
/// # Errors
/// [`LiveError`] with the first key or value that cannot be converted.
pub fn keyfiles(text: &str) -> Result<Vec<Keyfile>, LiveError> {
    if formats::text::nesting(text) > formats::text::MAX_NESTING {
        return refuse("network", "a document that nests deeper than nmstate's", "nmstate's YAML");
    }
    match (yaml_serde::from_str(text), yaml_serde::from_str::<Value>(text)) {
        (Ok(state), _) => profiles(&state),
        (Err(error), Ok(_)) => {
            let message = error.to_string();
            let (found, expected) =
                message.rsplit_once(", expected ").unwrap_or((&message, "nmstate's form"));
            let numbers = [("u8 ", "0 to 255 "), ("u16 ", "0 to 65535 "), ("u32 ", "a number ")];
            let expected = numbers
                .iter()
                .fold(expected.to_owned(), |text, (rust, words)| text.replacen(rust, words, 1));
            refuse(
                "network",
                format!("a document that cannot be converted: {found}"),
                format!("{expected}; give a NetworkManager keyfile for other settings"),
            )
        }
        (_, Err(error)) => not_yaml(&error, text),
    }
}

fn not_yaml<T>(error: &yaml_serde::Error, text: &str) -> Result<T, LiveError> {
    if let Some(key) = formats::text::repeated_key(&error.to_string()) {
        return refuse("network", format!("a document with {key} twice"), "each key once");
    }
    match formats::text::wrong_line(text, error.location().map(|at| at.line())) {
        Some((line, found)) => {
            let found = format!("not YAML in line {line}: {found}");
            refuse("network", found, "lines such as KEY: VALUE")
        }
        // Such as a text of only a tab.
        None => refuse("network", "not YAML", "lines such as KEY: VALUE"),
    }
}

fn profiles(state: &State) -> Result<Vec<Keyfile>, LiveError> {
    let mut contexts = Contexts::new();
    let mut by_name = Interfaces::new();
    for interface in &state.interfaces {
        let name = interface.name.as_str();
        let bond = interface.link_aggregation.as_ref();
        let ports = bond.map_or(&[][..], |bond| &bond.port);
        for name in ports.iter().map(String::as_str).chain([name]) {
            if !is_interface_name(name) {
                return wrong("interfaces", name, "a name of at most 15 characters");
            }
        }
        for port in ports {
            if contexts.entry(port).or_default().bond.replace(name).is_some() {
                return wrong(&format!("the ports of {name}"), port, "a port of one bond only");
            }
        }
        contexts.entry(name).or_default();
        if by_name.insert(name, interface).is_some() {
            return wrong("interfaces", name, "a name that no other interface has");
        }
    }
    global::routes(&state.routes, &mut contexts, &by_name)?;
    global::name_servers(&state.dns_resolver.config, &mut contexts, &by_name)?;
    if contexts.is_empty() {
        return refuse("network", "a document without interfaces", "at least one interface");
    }
    contexts.iter().map(|(name, context)| profile(name, context, &by_name)).collect()
}

fn profile(name: &str, context: &Context<'_>, all: &Interfaces<'_>) -> Result<Keyfile, LiveError> {
    // Ports that only their bond names have no entry of their own.
    let interface = all.get(name);
    let kind = interface.map_or(Kind::Ethernet, |interface| interface.kind);
    let mut out = format!("[connection]\nid={name}\ntype={}\n", kind.name());
    let is_by_mac = interface.is_some_and(|it| it.identifier == Identifier::MacAddress);
    if !is_by_mac {
        line(&mut out, "interface-name", name);
    }
    let families = interface.map_or([("ipv4", None), ("ipv6", None)], |it| it.families());
    if let Some(bond) = context.bond {
        // A port has no settings of its own above the link, so what is given for it would be lost.
        for ((family, ip), lines) in families.iter().zip(&context.lines) {
            if !lines.is_empty() || ip.is_some_and(|ip| ip.enabled) {
                let found = format!("{family} of {name}, a port of {bond}");
                return refuse("network", found, "addresses, routes and name servers on the bond");
            }
        }
        // The names before NetworkManager 1.44, which newer versions accept too.
        line(&mut out, "master", bond);
        line(&mut out, "slave-type", "bond");
    }
    if let Some(interface) = interface {
        ethernet(interface, is_by_mac, &mut out)?;
        match (kind, &interface.link_aggregation, &interface.vlan, &interface.vxlan) {
            (Kind::Ethernet, None, None, None) => {}
            (Kind::Bond, Some(bond), None, None) => self::bond(name, bond, &mut out)?,
            (Kind::Vlan, None, Some(vlan), None) => self::vlan(name, vlan, all, &mut out)?,
            (Kind::Vxlan, None, None, Some(vxlan)) => self::vxlan(name, vxlan, all, &mut out)?,
            _ => {
                let found = format!("{name} with type {}", kind.name());
                let expected =
                    "link-aggregation with type bond only, vlan and vxlan with these types only";
                return refuse("network", found, expected);
            }
        }
    }
    if context.bond.is_none() {
        for ((family, entry), lines) in families.into_iter().zip(&context.lines) {
            let is_enabled = ip(name, entry, family, &mut out)?;
            if !is_enabled && !lines.is_empty() {
                let found = format!("routes or name servers of {name} without {family}");
                let expected = format!("{family} of {name} with addresses or DHCP");
                return refuse("network", found, expected);
            }
            out.push_str(lines);
        }
    }
    Ok(Keyfile { name: format!("{name}.nmconnection"), text: out })
}

fn ethernet(interface: &Interface, is_by_mac: bool, out: &mut String) -> Result<(), LiveError> {
    let name = &interface.name;
    if is_by_mac && interface.mac_address.is_none() {
        let found = format!("{name} without mac-address");
        return refuse("network", found, "one, as identifier says");
    }
    if interface.mac_address.is_some() || interface.mtu.is_some() {
        out.push_str("\n[ethernet]\n");
    }
    if let Some(mac) = &interface.mac_address {
        if !is_mac(mac) {
            return wrong(&format!("mac-address of {name}"), mac, "six bytes, as 52:54:00:…");
        }
        // Without the identifier the key sets the address instead of selecting the port.
        line(out, if is_by_mac { "mac-address" } else { "cloned-mac-address" }, mac);
    }
    if let Some(mtu) = interface.mtu {
        line(out, "mtu", &mtu.to_string());
    }
    Ok(())
}

fn bond(name: &str, bond: &Bond, out: &mut String) -> Result<(), LiveError> {
    out.push_str("\n[bond]\n");
    let text = |key: &str, value: &Value| match value {
        Value::String(text) if is_one_line(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(u8::from(*flag).to_string()),
        _ => {
            let found = format!("{key} of {name} of another form");
            refuse("network", found, "text on one line, or a number")
        }
    };
    line(out, "mode", &text("mode", &bond.mode)?);
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
    for (key, value) in &bond.options {
        let key = key.as_str().unwrap_or("a key");
        if key.is_empty() || key == "mode" || !key.bytes().all(is_part) {
            let found = format!("{} in the options of {name}", shown(key));
            let expected = "the name of an option of the bond, other than its mode";
            return refuse("network", found, expected);
        }
        line(out, key, &text(key, value)?);
    }
    Ok(())
}

fn vlan(name: &str, vlan: &Vlan, all: &Interfaces<'_>, out: &mut String) -> Result<(), LiveError> {
    if vlan.id > 4094 {
        return wrong(&format!("vlan.id of {name}"), &vlan.id.to_string(), "0 to 4094");
    }
    out.push_str("\n[vlan]\n");
    line(out, "id", &vlan.id.to_string());
    parent(&format!("vlan.base-iface of {name}"), &vlan.base_iface, all, out)
}

/// `NetworkManager` drops an id that is too large without a word, and its port is 8472 unless one is given.
fn vxlan(
    name: &str,
    vxlan: &Vxlan,
    all: &Interfaces<'_>,
    out: &mut String,
) -> Result<(), LiveError> {
    if vxlan.id >= 1 << 24 {
        return wrong(&format!("vxlan.id of {name}"), &vxlan.id.to_string(), "0 to 16777215");
    }
    out.push_str("\n[vxlan]\n");
    line(out, "id", &vxlan.id.to_string());
    parent(&format!("vxlan.base-iface of {name}"), &vxlan.base_iface, all, out)?;
    line(out, "remote", &vxlan.remote.to_string());
    if let Some(local) = vxlan.local {
        if local.is_ipv6() != vxlan.remote.is_ipv6() {
            let at = format!("vxlan.local of {name}");
            return wrong(&at, &local.to_string(), "an address of the family of vxlan.remote");
        }
        line(out, "local", &local.to_string());
    }
    if let Some(port) = vxlan.destination_port {
        line(out, "destination-port", &port.to_string());
    }
    Ok(())
}

/// Writes the interface below another one, which must be in the document, so that its name is known to be right.
fn parent(at: &str, name: &str, all: &Interfaces<'_>, out: &mut String) -> Result<(), LiveError> {
    match all.get(name) {
        None => return wrong(at, name, "an interface of this document"),
        Some(found) if found.identifier != Identifier::Name => {
            return wrong(at, name, "an interface that its name identifies");
        }
        Some(_) => line(out, "parent", name),
    }
    Ok(())
}

/// Writes the section `[ipv4]` or `[ipv6]`, and returns whether the interface has addresses of that family. Without an entry
/// it has none.
fn ip(name: &str, ip: Option<&Ip>, family: &str, out: &mut String) -> Result<bool, LiveError> {
    let is_ipv6 = family == "ipv6";
    let _ = write!(out, "\n[{family}]\n");
    let Some(ip) = ip.filter(|ip| ip.enabled) else {
        line(out, "method", "disabled");
        return Ok(false);
    };
    let method = match (is_ipv6, ip.dhcp, ip.autoconf) {
        (true, true, false) => "dhcp",
        (_, true, _) | (_, _, true) => "auto",
        _ if !ip.address.is_empty() => "manual",
        (true, ..) => "link-local",
        _ => "disabled",
    };
    line(out, "method", method);
    for (index, address) in ip.address.iter().enumerate() {
        let text = format!("{}/{}", address.ip, address.prefix_length);
        let longest = if is_ipv6 { 128 } else { 32 };
        if address.ip.is_ipv6() != is_ipv6 || address.prefix_length > longest {
            let what = format!("{family}.address of {name}");
            return wrong(&what, &text, "an address of its family");
        }
        line(out, &format!("address{}", index + 1), &text);
    }
    if method == "disabled" {
        return Ok(false);
    }
    for (is_used, key) in [
        (ip.auto_dns, "ignore-auto-dns"),
        (ip.auto_routes, "ignore-auto-routes"),
        (ip.auto_gateway, "never-default"),
    ] {
        if !is_used {
            line(out, key, "true");
        }
    }
    Ok(true)
}

fn is_mac(text: &str) -> bool {
    let is_byte = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
    text.split(':').count() == 6 && text.split(':').all(is_byte)
}

fn is_one_line(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_control)
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
    use crate::skipped::skipped;
    use crate::tools;

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
        let expected = [
            "[connection]\nid=bond0\ntype=bond\ninterface-name=bond0\n\n[ethernet]\nmtu=9000\n\n\
             [bond]\nmode=802.3ad\nmiimon=100\n\n[ipv4]\nmethod=disabled\n\n[ipv6]\nmethod=disabled\n",
            "[connection]\nid=bond0.100\ntype=vlan\ninterface-name=bond0.100\n\n[vlan]\nid=100\n\
             parent=bond0\n\n[ipv4]\nmethod=manual\naddress1=192.0.2.5/24\n\
             route1=0.0.0.0/0,192.0.2.1,50\ndns=192.0.2.53;\ndns-search=lab.example;\n\n\
             [ipv6]\nmethod=auto\nignore-auto-dns=true\n",
            "[connection]\nid=eno1\ntype=ethernet\nmaster=bond0\nslave-type=bond\n\n[ethernet]\n\
             mac-address=52:54:00:aa:00:01\n",
            "[connection]\nid=eno2\ntype=ethernet\ninterface-name=eno2\nmaster=bond0\nslave-type=bond\n",
        ];
        assert_eq!(texts, expected);
    }

    /// The tunnel of the VIM document, section 1.3, at the node.
    const VXLAN: &str = "\
interfaces:
- {name: mgmt0, ipv6: {enabled: true, address: [{ip: '2602:807:900e:141:0:1866:dae6:4674', prefix-length: 64}]}}
- name: vxlan42
  type: vxlan
  vxlan:
    {base-iface: mgmt0, id: 42, remote: '2602:807:9000:8::10b', local: '2602:807:900e:141:0:1866:dae6:4674', destination-port: 4789}
  ipv6: {enabled: true, address: [{ip: 'fd02:9a04::2', prefix-length: 64}]}
routes:
  config: [{destination: 'fd02:9a01::/64', next-hop-address: 'fd02:9a04::1', next-hop-interface: vxlan42}]
";

    #[test]
    fn tunnel_of_the_vim_document_becomes_a_profile_that_network_manager_reads() {
        let found = keyfiles(VXLAN).unwrap();
        let profile = &found[1];
        let section = "[vxlan]\nid=42\nparent=mgmt0\nremote=2602:807:9000:8::10b\n\
                       local=2602:807:900e:141:0:1866:dae6:4674\ndestination-port=4789\n";
        let expected = format!(
            "[connection]\nid=vxlan42\ntype=vxlan\ninterface-name=vxlan42\n\n{section}\n\
             [ipv4]\nmethod=disabled\n\n[ipv6]\nmethod=manual\naddress1=fd02:9a04::2/64\n\
             route1=fd02:9a01::/64,fd02:9a04::1\n"
        );
        assert_eq!((&*profile.name, &profile.text), ("vxlan42.nmconnection", &expected));
        if std::process::Command::new("nmcli").arg("--version").output().is_err() {
            return skipped("nmcli is missing");
        }
        // It drops a key that it does not understand.
        let args = ["--offline", "connection", "modify", "connection.autoconnect", "yes"];
        let output = tools::run("nmcli", &args, expected.as_bytes()).unwrap();
        let written = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        for line in expected.lines().filter(|line| !line.is_empty()) {
            assert!(written.lines().any(|found| found == line), "{line} is lost: {written}");
        }
    }

    /// Documents on one line each, and how the error begins after a tab.
    const REFUSED: &str = include_str!("network/refused.txt");

    #[test]
    fn what_cannot_be_converted_would_be_lost_or_contradicts_itself_is_refused() {
        let others = [
            (
                "interfaces:\n- name: a\n  mtu: [9000\n",
                "not YAML in line 3: \"mtu\": a quotation mark",
            ),
            ("\t", "not YAML, expected lines such as KEY: VALUE"),
        ];
        let lines = REFUSED.lines().map(|line| line.split_once('\t').unwrap());
        for (text, expected) in lines.chain(others) {
            let error = keyfiles(text).unwrap_err().to_string();
            let error = error.replace("a document that cannot be converted:", "CANNOT");
            assert!(error.starts_with(&format!("network is {expected}")), "{text}\n{error}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_before_it_costs_time() {
        let error = keyfiles(&format!("interfaces: {}", "[".repeat(400_000))).unwrap_err();
        assert!(error.to_string().contains("nests deeper"), "{error}");
    }
}
