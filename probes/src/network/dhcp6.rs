//! What `DHCPv6` gave the machine, as far as a client keeps it where others can read it: dhclient in blocks
//! `lease6` of its files, systemd-networkd only the number by which the server knows the machine.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::dhcp::{DhcpLease, LIMIT_FILES};
use crate::machine::{Machine, quote};

const LINKS: &str = "run/systemd/netif/links";
/// An address in a file that has more of them than any server gives is no lease.
const LIMIT_LEASES: usize = 1024;

/// How a `DHCPv6` server knows an interface of this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Dhcp6Client {
    /// Name of the interface.
    pub interface: String,
    /// The DHCP Unique Identifier of the client in hexadecimal digits (RFC 8415, section 11), which
    /// reservations on the server name.
    pub duid: String,
    /// `systemd-networkd`.
    pub client: String,
    /// The file that says so.
    pub source: String,
}

/// The clients of systemd-networkd, by interface (`DHCP6_CLIENT_DUID` in its state of each link).
pub(super) fn clients(machine: &Machine, names: &BTreeMap<u32, String>) -> Vec<Dhcp6Client> {
    let client = |index: String| {
        let interface = names.get(&index.parse().ok()?)?.clone();
        let path = format!("{LINKS}/{index}");
        let text = machine.text(&path)?;
        let value = text.lines().find_map(|line| line.strip_prefix("DHCP6_CLIENT_DUID="))?;
        let value = Some(value.trim()).filter(|value| !value.is_empty())?;
        let client = "systemd-networkd".to_owned();
        let Some(duid) = duid(value) else {
            machine.problem(&path, quote(value), "a kind of DUID, a colon and hexadecimal digits");
            return None;
        };
        Some(Dhcp6Client { interface, duid, client, source: format!("/{path}") })
    };
    let indexes = machine.list(LINKS).into_iter().take(LIMIT_FILES);
    let mut all: Vec<Dhcp6Client> = indexes.filter_map(client).collect();
    all.sort_by(|a, b| crate::natural::compare(&a.interface, &b.interface));
    all
}

/// `DUID-LLT:00012b…`: systemd names the kind and leaves its two bytes out of the digits. Older versions
/// write two bytes of nothing behind them, which those whose length is known do not have.
fn duid(text: &str) -> Option<String> {
    /// Name, the two bytes of the kind, and how those of known length begin and how many digits they have:
    /// with a MAC of Ethernet, of systemd's own making, UUIDs.
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
    // At least one byte and 128 at most behind the kind.
    let is_duid = is_hex && digits.len().is_multiple_of(2) && (2..=256).contains(&digits.len());
    is_duid.then(|| format!("{kind}{digits}"))
}

/// Blocks `lease6 { interface "eth0"; ia-na … { iaaddr 2001:db8::1 { max-life 7200; } } }` of dhclient.
/// Of equal addresses of an interface the last is the one in force.
pub(super) fn parse_dhclient(text: &str) -> Vec<DhcpLease> {
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
    let lease = |((interface, address), lease_s)| DhcpLease {
        interface,
        address,
        lease_s,
        ..DhcpLease::default()
    };
    all.into_iter().map(lease).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    const LEASES: &str = "default-duid \"\\000\\003\";\nlease {\n  interface \"eno1\";\n  \
        fixed-address 192.0.2.7;\n}\nlease6 {\n  interface \"eno1\";\n  ia-na 20:da:42:4e {\n    \
        starts 1389279341;\n    iaaddr 2001:db8::100 {\n      starts 1;\n      preferred-life 7200;\n      \
        max-life 7500;\n    }\n    iaaddr 2001:0DB8::0101 {\n      max-life x;\n    }\n  }\n  option \
        dhcp6.client-id 0:3:0:1:2:0:0:0:0:1;\n}\n";

    #[test]
    fn each_address_of_a_lease6_block_is_one_lease() {
        let leases = parse_dhclient(LEASES);
        let found: Vec<_> = leases
            .iter()
            .map(|lease| (lease.interface.as_str(), lease.address.as_str(), lease.lease_s))
            .collect();
        let expected = [("eno1", "2001:db8::100", Some(7500)), ("eno1", "2001:db8::101", None)];
        assert_eq!(found, expected);
        for text in ["", "}}}", "lease6 {\niaaddr 2001:db8::1 {\n", "iaaddr 2001:db8::1 {", "{{{"] {
            assert!(parse_dhclient(text).is_empty(), "{text}");
        }
        assert!(parse_dhclient("lease6 {\ninterface \"a\";\niaaddr :: {\n").is_empty());
    }

    #[test]
    fn networkd_says_by_which_number_the_server_knows_the_machine() {
        let machine = tree(&[
            (
                "run/systemd/netif/links/2",
                "OPER_STATE=routable\nDHCP6_CLIENT_IAID=0x1\nDHCP6_CLIENT_DUID=DUID-EN/Vendor:0000ab11D25a\n",
            ),
            ("run/systemd/netif/links/3", "DHCP6_CLIENT_DUID=\n"),
            ("run/systemd/netif/links/9", "DHCP6_CLIENT_DUID=DUID-LL:00030001020000000001\n"),
        ]);
        let names = BTreeMap::from([(2, "eno1".to_owned()), (3, "eno2".to_owned())]);
        let clients = clients(&machine, &names);
        assert_eq!(clients.len(), 1);
        assert_eq!(
            (clients[0].interface.as_str(), clients[0].duid.as_str()),
            ("eno1", "00020000ab11d25a")
        );
        assert!(machine.problems().is_empty(), "{:?}", machine.problems());
        let too_long = format!("DUID-LL:{}", "0".repeat(258));
        for text in ["", "DUID-LL:", "DUID-LL:abc", "DUID-LL:00zz11", "0003:0001", &too_long] {
            assert_eq!(duid(text), None, "{text}");
        }
    }

    #[test]
    fn a_duid_begins_with_its_kind_as_the_server_sees_it_and_old_versions_add_nothing_to_it() {
        let kinds = ["DUID-LLT:00012b", "DUID-EN/Vendor:00000009", "DUID-LL:0001", "UUID:0a0b"];
        let found = kinds.map(|text| duid(text).unwrap_or_default());
        assert_eq!(found, ["000100012b", "000200000009", "00030001", "00040a0b"]);
        let mac = "DUID-LL:0001020000000001";
        assert_eq!(duid(mac).as_deref(), Some("00030001020000000001"));
        assert_eq!(duid(&format!("{mac}0000")), duid(mac));
        let others = "DUID-EN/Vendor:000000090123456789abcdef0000";
        assert_eq!(duid(others).as_deref(), Some("0002000000090123456789abcdef0000"));
    }

    #[test]
    fn a_duid_of_an_unknown_form_is_a_problem() {
        let machine = tree(&[("run/systemd/netif/links/2", "DHCP6_CLIENT_DUID=0500:00ab\n")]);
        assert!(clients(&machine, &BTreeMap::from([(2, "eno1".to_owned())])).is_empty());
        assert_eq!(machine.problems().len(), 1);
    }
}
