//! `DHCPv6` clients, as far as their state is readable: dhclient stores `lease6` blocks in its files,
//! systemd-networkd only the identifier by which the server knows the machine.

use std::collections::BTreeMap;

use formats::dhcp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::dhcp::LIMIT_FILES;
use crate::machine::{Machine, quote};

const LINKS: &str = "run/systemd/netif/links";

/// How a `DHCPv6` server knows an interface of this machine.
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
pub(super) fn clients(machine: &Machine, names: &BTreeMap<u32, String>) -> Vec<Dhcp6Client> {
    let client = |index: String| {
        let interface = names.get(&index.parse().ok()?)?.clone();
        let path = format!("{LINKS}/{index}");
        let text = machine.text(&path)?;
        let value = dhcp::client_duid(&text)?;
        let client = "systemd-networkd".to_owned();
        let Some(duid) = dhcp::duid(value) else {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

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
        let names = BTreeMap::from([(2, "eno1".to_owned()), (3, "eno2".to_owned())]);
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
        assert!(clients(&machine, &BTreeMap::from([(2, "eno1".to_owned())])).is_empty());
        assert_eq!(machine.problems().len(), 1);
    }
}
