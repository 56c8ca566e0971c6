//! Leases of the DHCP clients: the key-value files of systemd-networkd and `NetworkManager`, and dhclient's blocks
//! (`dhclient.leases(5)`), for `DHCPv4` and `DHCPv6` (RFC 2131, RFC 8415).

mod secrets;

pub use secrets::fields;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Maximum number of leases in a file. No server gives more addresses, so further ones are not leases.
const LIMIT_LEASES: usize = 1024;

/// A lease of an address. What the file does not say is empty or absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lease {
    /// Name of the interface; the files of keys and values do not name it.
    pub interface: String,
    /// The address that was leased.
    pub address: String,
    /// The server that leased it (option 54).
    pub server: Option<String>,
    /// The server for the next step of a network boot (`siaddr`).
    pub next_server: Option<String>,
    /// The routers that it named (option 3).
    pub routers: Vec<String>,
    /// For how long it was leased, in s (option 51; the valid lifetime of `DHCPv6`).
    pub lease_s: Option<u32>,
}

/// `ADDRESS=192.0.2.10`, a line each.
pub fn key_values(text: &str) -> Option<Lease> {
    let value = |key: &str| {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs.filter(|(name, _)| *name == key).map(|(_, value)| value.trim()).next()
    };
    Some(Lease {
        address: ipv4(value("ADDRESS")?)?,
        server: value("SERVER_ADDRESS").and_then(ipv4),
        next_server: value("NEXT_SERVER").and_then(ipv4),
        routers: value("ROUTER").unwrap_or_default().split_whitespace().filter_map(ipv4).collect(),
        lease_s: value("LIFETIME").and_then(|text| text.parse().ok()),
        ..Lease::default()
    })
}

/// `next-server=` in the state that `NetworkManager` keeps of a device.
pub fn next_server(text: &str) -> Option<String> {
    text.lines().find_map(|line| ipv4(line.strip_prefix("next-server=")?))
}

/// Blocks `lease { interface "eth0"; fixed-address 192.0.2.10; option … ; }`; the last of an interface
/// is the one in force.
pub fn dhclient(text: &str) -> BTreeMap<String, Lease> {
    let mut all = BTreeMap::new();
    let mut lease = Lease::default();
    for line in text.lines().map(|line| line.trim().trim_end_matches(';')) {
        let value = |key: &str| line.strip_prefix(key).map(|rest| rest.trim().trim_matches('"'));
        if line.starts_with("lease ") {
            lease = Lease::default();
        } else if line == "}" {
            let done = std::mem::take(&mut lease);
            if !done.interface.is_empty() && !done.address.is_empty() {
                all.insert(done.interface.clone(), done);
            }
        } else if let Some(name) = value("interface ") {
            name.clone_into(&mut lease.interface);
        } else if let Some(address) = value("fixed-address ").and_then(ipv4) {
            lease.address = address;
        } else if let Some(server) = value("option dhcp-server-identifier ") {
            lease.server = ipv4(server);
        } else if let Some(routers) = value("option routers ") {
            lease.routers = routers.split(',').filter_map(ipv4).collect();
        } else if let Some(time) = value("option dhcp-lease-time ") {
            lease.lease_s = time.parse().ok();
        }
    }
    all
}

/// Blocks `lease6 { interface "eth0"; ia-na … { iaaddr 2001:db8::1 { max-life 7200; } } }` of dhclient.
/// Of equal addresses of an interface the last is the one in force.
pub fn dhclient6(text: &str) -> Vec<Lease> {
    let mut all: BTreeMap<(String, String), Option<u32>> = BTreeMap::new();
    let (mut depth, mut in_lease, mut interface, mut address) = (0_u32, false, "", None);
    for line in text.lines().map(str::trim) {
        let line = line.trim_end_matches(';');
        let value = |key: &str| line.strip_prefix(key).map(str::trim);
        if depth == 0 {
            in_lease = line.starts_with("lease6 ");
            (interface, address) = ("", None);
        }
        if let Some(name) = value("interface ").filter(|_| in_lease) {
            interface = name.trim_matches('"');
        } else if let Some(text) = value("iaaddr ").filter(|_| in_lease) {
            let text = text.trim_end_matches('{').trim();
            address = text.parse::<Ipv6Addr>().ok().filter(|address| !address.is_unspecified());
            let room = all.len() < LIMIT_LEASES;
            if let Some(address) = address.filter(|_| room && !interface.is_empty()) {
                all.insert((interface.to_owned(), address.to_string()), None);
            }
        } else if let (Some(life), Some(address)) = (value("max-life "), address) {
            let key = (interface.to_owned(), address.to_string());
            if let Some(lease) = all.get_mut(&key) {
                *lease = life.parse().ok();
            }
        }
        if line.ends_with('{') {
            depth = depth.saturating_add(1);
        } else if line == "}" {
            depth = depth.saturating_sub(1);
        }
    }
    let lease =
        |((interface, address), lease_s)| Lease { interface, address, lease_s, ..Lease::default() };
    all.into_iter().map(lease).collect()
}

/// The value of `DHCP6_CLIENT_DUID=` in systemd-networkd's state of a link.
pub fn client_duid(text: &str) -> Option<&str> {
    let value = text.lines().find_map(|line| line.strip_prefix("DHCP6_CLIENT_DUID="))?;
    Some(value.trim()).filter(|value| !value.is_empty())
}

/// `DUID-LLT:00012b…`: systemd names the kind and leaves its two bytes out of the digits. Older versions
/// append two zero bytes, which are removed from kinds of known length.
pub fn duid(text: &str) -> Option<String> {
    /// Name, the two bytes of the kind, and the start and number of digits of those with known length: with an Ethernet
    /// MAC, made by systemd, UUIDs.
    const KINDS: [(&str, &str, &str, usize); 4] = [
        ("DUID-LLT", "0001", "0001", 24),
        ("DUID-EN/Vendor", "0002", "0000ab11", 24),
        ("DUID-LL", "0003", "0001", 16),
        ("UUID", "0004", "", 32),
    ];
    let (name, digits) = text.split_once(':')?;
    let (_, kind, start, n_digits) = KINDS.iter().find(|(known, ..)| *known == name)?;
    let digits = digits.to_lowercase();
    let is_too_long = digits.starts_with(start) && digits.len() == n_digits + 4;
    let digits = digits.strip_suffix("0000").filter(|_| is_too_long).unwrap_or(&digits);
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    // After the kind, 1 to 128 bytes.
    let is_duid = is_hex && digits.len().is_multiple_of(2) && (2..=256).contains(&digits.len());
    is_duid.then(|| format!("{kind}{digits}"))
}

/// An address that names a host.
fn ipv4(text: &str) -> Option<String> {
    let address: Ipv4Addr = text.trim().parse().ok()?;
    (!address.is_unspecified()).then(|| address.to_string())
}

#[cfg(test)]
mod tests;
