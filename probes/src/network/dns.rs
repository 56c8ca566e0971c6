//! Name servers: the C library's `resolv.conf(5)`, or the files of systemd-resolved and
//! `NetworkManager` if the former only names a stub on the machine itself.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// The C library's file, and the files that contain the real servers if it names a stub.
const RESOLV_CONF: &str = "etc/resolv.conf";
const UPSTREAM_FILES: [&str; 3] = [
    "run/systemd/resolve/resolv.conf",
    "run/NetworkManager/no-stub-resolv.conf",
    "run/NetworkManager/resolv.conf",
];

/// A name server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NameServer {
    /// Its address; an IPv6 link-local one with its interface, `fe80::1%eno1`.
    pub address: String,
    /// The file that names it.
    pub source: String,
}

/// The name servers in query order, and the search domains.
pub(super) fn resolver(machine: &Machine) -> (Vec<NameServer>, Vec<String>) {
    let (mut servers, mut domains) = file(machine, RESOLV_CONF);
    let is_stub = |server: &NameServer| {
        server.address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    if servers.iter().all(is_stub) {
        let files = UPSTREAM_FILES.iter().map(|path| file(machine, path));
        let upstream = files.into_iter().find(|(servers, _)| !servers.iter().all(is_stub));
        if let Some((real, real_domains)) = upstream {
            servers = real;
            if domains.is_empty() {
                domains = real_domains;
            }
        }
    }
    (servers, domains)
}

fn file(machine: &Machine, path: &str) -> (Vec<NameServer>, Vec<String>) {
    let text = machine.text(path).unwrap_or_default();
    let (addresses, domains) = parse(&text);
    let server = |address| NameServer { address, source: format!("/{path}") };
    (addresses.into_iter().map(server).collect(), domains)
}

/// The `nameserver ADDRESS` lines with a valid address, and the last `search` or `domain` line.
fn parse(text: &str) -> (Vec<String>, Vec<String>) {
    let (mut addresses, mut domains) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => {
                let address = words.next().filter(|address| is_address(address));
                addresses.extend(address.map(str::to_owned));
            }
            Some("search" | "domain") => {
                let words = words.take_while(|word| !word.starts_with(['#', ';']));
                domains = words.filter(|word| *word != ".").map(str::to_owned).collect();
            }
            _ => {}
        }
    }
    (addresses, domains)
}

fn is_address(text: &str) -> bool {
    let (address, zone) = text.split_once('%').unwrap_or((text, "x"));
    address.parse::<IpAddr>().is_ok() && !zone.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn servers_keep_their_order_and_invalid_lines_are_skipped() {
        let text = "# made by hand\nsearch example.org . # end\nnameserver 192.0.2.53\nnameserver\n\
                    nameserver fe80::1%eno1\nnameserver x\noptions edns0\n;nameserver 192.0.2.1";
        let (addresses, domains) = parse(text);
        assert_eq!(addresses, ["192.0.2.53", "fe80::1%eno1"]);
        assert_eq!(domains, ["example.org"]);
    }

    #[test]
    fn upstream_servers_replace_a_stub() {
        let machine = tree(&[
            ("etc/resolv.conf", "-> ../run/systemd/resolve/stub-resolv.conf"),
            ("run/systemd/resolve/stub-resolv.conf", "nameserver 127.0.0.53\nsearch lab.example\n"),
            ("run/systemd/resolve/resolv.conf", "nameserver 192.0.2.53\n"),
        ]);
        let (servers, domains) = resolver(&machine);
        assert_eq!(servers.len(), 1);
        assert_eq!(servers[0].address, "192.0.2.53");
        assert_eq!(servers[0].source, "/run/systemd/resolve/resolv.conf");
        assert_eq!(domains, ["lab.example"]);
    }
}
