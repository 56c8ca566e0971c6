//! DHCP leases as the clients store them: systemd-networkd in `/run/systemd/netif/leases`,
//! `NetworkManager` in `/var/lib/NetworkManager` and `/run/NetworkManager/devices`, dhclient in
//! folders that depend on the distribution (`dhclient.leases(5)`). The kernel knows nothing of leases. And how `DHCPv6`
//! servers know this machine (RFC 8415, section 11): only systemd-networkd stores that, in `/run/systemd/netif/links`.

use std::collections::BTreeSet;

use formats::dhcp::{self, Lease};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Names;
use super::address::Address;
use crate::machine::{Machine, quote};

const NETWORKD: &str = "run/systemd/netif/leases";
const NETWORKD_LINKS: &str = "run/systemd/netif/links";
const NETWORK_MANAGER: &str = "var/lib/NetworkManager";
const NETWORK_MANAGER_DEVICES: &str = "run/NetworkManager/devices";
const DHCLIENT: [&str; 2] = ["var/lib/dhclient", "var/lib/dhcp"];
/// The largest number of files that are read from one folder.
const LIMIT_FILES: usize = 256;

/// A lease of an address.
#[serde_with::skip_serializing_none]
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(default)]
pub struct DhcpLease {
    /// Name of the interface.
    pub interface: String,
    /// The leased address. `DHCPv6` addresses come only from dhclient, the only client that stores them.
    pub address: String,
    /// The server that leased it (option 54); only older versions of `NetworkManager` store it.
    pub server: Option<String>,
    /// The server for the next step of a network boot (`siaddr`).
    pub next_server: Option<String>,
    /// The routers that the server named (option 3).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routers: Vec<String>,
    /// Duration of the lease in s (option 51; the valid lifetime in `DHCPv6`).
    pub lease_s: Option<u32>,
    /// `systemd-networkd`, `NetworkManager` or `dhclient`.
    pub client: String,
    /// The file that contains the lease.
    pub source: String,
}

/// The leases of addresses that the machine has now, by interface. A file left over from an expired
/// lease is skipped.
pub(super) fn leases(machine: &Machine, names: &Names, addresses: &[Address]) -> Vec<DhcpLease> {
    let mut all = networkd(machine, names);
    all.extend(network_manager(machine, names));
    all.extend(DHCLIENT.iter().flat_map(|dir| dhclient_folder(machine, dir)));
    let current: BTreeSet<(&str, &str)> = addresses
        .iter()
        .filter_map(|known| Some((known.interface.as_str(), known.address.split('/').next()?)))
        .collect();
    all.retain(|lease| current.contains(&(lease.interface.as_str(), lease.address.as_str())));
    all.sort_by(|a, b| crate::natural::compare(&a.interface, &b.interface).then_with(|| a.cmp(b)));
    all.dedup_by(|b, a| a.interface == b.interface && a.address == b.address);
    all
}

fn files(machine: &Machine, dir: &str) -> impl Iterator<Item = (String, String)> {
    let names = machine.list(dir).into_iter().take(LIMIT_FILES);
    names.map(move |name| (format!("{dir}/{name}"), name))
}

fn networkd(machine: &Machine, names: &Names) -> Vec<DhcpLease> {
    let lease = |(path, index): (String, String)| {
        let interface = names.get(&index.parse().ok()?)?.clone();
        let lease = dhcp::key_values(&machine.text(&path)?)?;
        Some(named(lease, interface, "systemd-networkd", &path))
    };
    files(machine, NETWORKD).filter_map(lease).collect()
}

/// `internal-<uuid>-<interface>.lease` from its internal client, `dhclient-…` and `dhclient6-…` from
/// dhclient.
fn network_manager(machine: &Machine, names: &Names) -> Vec<DhcpLease> {
    let mut all = Vec::new();
    for (path, name) in files(machine, NETWORK_MANAGER) {
        let Some(name) = name.strip_suffix(".lease") else { continue };
        if let Some(interface) = name.strip_prefix("internal-").and_then(after_uuid) {
            let lease = machine.text(&path).and_then(|text| dhcp::key_values(&text));
            let next_server = next_server(machine, interface, names);
            all.extend(lease.map(|lease| {
                let next_server = lease.next_server.clone().or(next_server);
                let lease = Lease { next_server, ..lease };
                named(lease, interface.to_owned(), "NetworkManager", &path)
            }));
        } else if name.starts_with("dhclient") {
            all.extend(dhclient_file(machine, &path));
        }
    }
    all
}

/// The interface's name, which follows a UUID of 36 characters and a dash.
fn after_uuid(name: &str) -> Option<&str> {
    let (uuid, rest) = name.split_at_checked(36)?;
    let is_uuid = uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    rest.strip_prefix('-').filter(|name| is_uuid && !name.is_empty())
}

/// `next-server` in the state file that `NetworkManager` keeps for a device.
fn next_server(machine: &Machine, interface: &str, names: &Names) -> Option<String> {
    let (index, _) = names.iter().find(|(_, name)| *name == interface)?;
    let text = machine.text(&format!("{NETWORK_MANAGER_DEVICES}/{index}"))?;
    dhcp::next_server(&text)
}

fn dhclient_folder(machine: &Machine, dir: &str) -> Vec<DhcpLease> {
    let all = files(machine, dir)
        .filter(|(_, name)| name.starts_with("dhclient") && name.contains(".lease"));
    all.flat_map(|(path, _)| dhclient_file(machine, &path)).collect()
}

fn dhclient_file(machine: &Machine, path: &str) -> Vec<DhcpLease> {
    let text = machine.text(path).unwrap_or_default();
    let leases = dhcp::dhclient(&text).into_values().chain(dhcp::dhclient6(&text));
    leases.map(|lease| named(lease.clone(), lease.interface, "dhclient", path)).collect()
}

fn named(lease: Lease, interface: String, client: &str, path: &str) -> DhcpLease {
    DhcpLease {
        interface,
        address: lease.address,
        server: lease.server,
        next_server: lease.next_server,
        routers: lease.routers,
        lease_s: lease.lease_s,
        client: client.to_owned(),
        source: format!("/{path}"),
    }
}

/// The identity of an interface of this machine at a `DHCPv6` server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Dhcp6Client {
    /// Name of the interface.
    pub interface: String,
    /// The client's DHCP Unique Identifier in hexadecimal digits (RFC 8415, section 11). A reservation
    /// on the server refers to it.
    pub duid: String,
    /// `systemd-networkd`.
    pub client: String,
    /// The file that contains it.
    pub source: String,
}

/// The clients of systemd-networkd, by interface (`DHCP6_CLIENT_DUID` in its state file of each link).
pub(super) fn clients(machine: &Machine, names: &Names) -> Vec<Dhcp6Client> {
    let client = |index: String| {
        let interface = names.get(&index.parse().ok()?)?.clone();
        let path = format!("{NETWORKD_LINKS}/{index}");
        let text = machine.text(&path)?;
        let value = dhcp::client_duid(&text)?;
        let client = "systemd-networkd".to_owned();
        let Some(duid) = dhcp::duid(value) else {
            machine.problem(&path, quote(value), "a kind of DUID, a colon and hexadecimal digits");
            return None;
        };
        Some(Dhcp6Client { interface, duid, client, source: format!("/{path}") })
    };
    let indexes = machine.list(NETWORKD_LINKS).into_iter().take(LIMIT_FILES);
    let mut all: Vec<Dhcp6Client> = indexes.filter_map(client).collect();
    all.sort_by(|a, b| crate::natural::compare(&a.interface, &b.interface));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{has, tree, tree_in};
    use serde_json::json;

    const UUID: &str = "9ca56c00-391a-4117-9d80-0aaf6a4ae647";

    fn address(interface: &str, address: &str) -> Address {
        Address {
            interface: interface.to_owned(),
            address: address.to_owned(),
            family: "ipv4".to_owned(),
            ..Address::default()
        }
    }

    fn names() -> Names {
        Names::from([(2, "eno1".to_owned()), (3, "eno2".to_owned())])
    }

    #[test]
    fn every_clients_leases_are_read() {
        let networkd = "# This is private data. Do not parse.\nADDRESS=192.0.2.10\n\
                        ROUTER=192.0.2.1 192.0.2.2\nSERVER_ADDRESS=192.0.2.3\nLIFETIME=86400\n";
        let dhclient = "lease {\n  interface \"eno2\";\n  fixed-address 192.0.2.7;\n}\nlease {\n  \
                        interface \"eno2\";\n  fixed-address 192.0.2.20;\n  option \
                        dhcp-server-identifier 192.0.2.4;\n  option routers 192.0.2.1,192.0.2.2;\n  \
                        option dhcp-lease-time 600;\n}\n";
        let machine = tree_in(&[
            ("run/systemd/netif/leases", &[("2", networkd), ("77", networkd)]),
            ("var/lib/dhclient", &[("dhclient-eno2.leases", dhclient)]),
        ]);
        let addresses = [address("eno1", "192.0.2.10/24"), address("eno2", "192.0.2.20/24")];
        let leases = leases(&machine, &names(), &addresses);
        assert_eq!(leases.len(), 2);
        let routers = ["192.0.2.1", "192.0.2.2"];
        has(&leases[0], &json!({"interface": "eno1", "client": "systemd-networkd"}));
        has(&leases[0], &json!({"server": "192.0.2.3", "lease_s": 86_400, "routers": routers}));
        has(&leases[1], &json!({"address": "192.0.2.20", "client": "dhclient", "lease_s": 600}));
        has(&leases[1], &json!({"server": "192.0.2.4", "routers": routers}));
        assert!(machine.problems().is_empty());
    }

    #[test]
    fn lease_file_of_another_address_is_skipped() {
        let file = format!("var/lib/NetworkManager/internal-{UUID}-eno1.lease");
        let state = "[device]\nmanaged=true\nnext-server=192.0.2.5\n";
        let machine =
            tree(&[(&file, "ADDRESS=192.0.2.10\n"), ("run/NetworkManager/devices/2", state)]);
        let found = |interface, known| leases(&machine, &names(), &[address(interface, known)]);
        assert_eq!(found("eno1", "192.0.2.99/24"), []);
        assert_eq!(found("eno2", "192.0.2.10/24"), []);
        let leases = found("eno1", "192.0.2.10/24");
        let source = format!("/{file}");
        // NetworkManager keeps the next server in the device's state.
        has(&leases[0], &json!({"source": source, "server": null, "next_server": "192.0.2.5"}));
    }

    #[test]
    fn file_name_without_uuid_names_no_interface() {
        for name in ["", "é", UUID, "9ca56c00-391a-4117-9d80-0aaf6a4ae64é-x"] {
            assert_eq!(after_uuid(name), None, "{name}");
        }
    }

    #[test]
    fn networkd_state_contains_the_duid() {
        let machine = tree(&[
            (
                "run/systemd/netif/links/2",
                "OPER_STATE=routable\nDHCP6_CLIENT_IAID=0x1\nDHCP6_CLIENT_DUID=DUID-EN/Vendor:0000ab11D25a\n",
            ),
            ("run/systemd/netif/links/3", "DHCP6_CLIENT_DUID=\n"),
            ("run/systemd/netif/links/9", "DHCP6_CLIENT_DUID=DUID-LL:00030001020000000001\n"),
        ]);
        let names = Names::from([(2, "eno1".to_owned()), (3, "eno2".to_owned())]);
        let clients = clients(&machine, &names);
        assert_eq!(clients.len(), 1);
        assert_eq!(
            (clients[0].interface.as_str(), clients[0].duid.as_str()),
            ("eno1", "00020000ab11d25a")
        );
        assert!(machine.problems().is_empty(), "{:?}", machine.problems());
    }

    #[test]
    fn malformed_duid_is_a_problem() {
        let machine = tree(&[("run/systemd/netif/links/2", "DHCP6_CLIENT_DUID=0500:00ab\n")]);
        assert!(clients(&machine, &Names::from([(2, "eno1".to_owned())])).is_empty());
        assert_eq!(machine.problems().len(), 1);
    }
}
