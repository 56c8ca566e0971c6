//! The part of nmstate's document that can be converted. Other keys are refused, never dropped.
//!
//! Source: nmstate's `Interface`, `BondConfig`, `VlanConfig`, `VxlanConfig`, `DnsState` and `Routes` (nmstate.io, state API).

use std::net::IpAddr;

use serde::Deserialize;
use serde::de::IgnoredAny;
use yaml_serde::{Mapping, Value};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a map", rename_all = "kebab-case")]
pub(super) struct State {
    pub(super) interfaces: Vec<Interface>,
    pub(super) routes: Routes,
    pub(super) dns_resolver: Resolver,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a map", rename_all = "kebab-case")]
pub(super) struct Interface {
    pub(super) name: String,
    #[serde(default, rename = "type")]
    pub(super) kind: Kind,
    /// Only checked.
    #[serde(default, rename = "state")]
    _state: Up,
    /// For people.
    #[serde(default, rename = "description")]
    _description: Option<IgnoredAny>,
    #[serde(default)]
    pub(super) identifier: Identifier,
    pub(super) mac_address: Option<String>,
    pub(super) mtu: Option<u16>,
    pub(super) ipv4: Option<Ip>,
    pub(super) ipv6: Option<Ip>,
    pub(super) link_aggregation: Option<Bond>,
    pub(super) vlan: Option<Vlan>,
    pub(super) vxlan: Option<Vxlan>,
}

impl Interface {
    /// Its addresses of each family, and the name of the family.
    pub(super) fn families(&self) -> [(&'static str, Option<&Ip>); 2] {
        [("ipv4", self.ipv4.as_ref()), ("ipv6", self.ipv6.as_ref())]
    }
}

/// Other types need a keyfile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    #[default]
    Ethernet,
    Bond,
    Vlan,
    Vxlan,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ethernet => "ethernet",
            Self::Bond => "bond",
            Self::Vlan => "vlan",
            Self::Vxlan => "vxlan",
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Up {
    #[default]
    Up,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Identifier {
    #[default]
    Name,
    MacAddress,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a map")]
pub(super) struct Bond {
    /// Its name or its number.
    pub(super) mode: Value,
    /// A type that refuses keys that occur twice.
    #[serde(default)]
    pub(super) options: Mapping,
    /// `slaves` is the name in older versions of nmstate.
    #[serde(default, alias = "slaves")]
    pub(super) port: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a map", rename_all = "kebab-case")]
pub(super) struct Vlan {
    pub(super) base_iface: String,
    pub(super) id: u16,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a map", rename_all = "kebab-case")]
pub(super) struct Vxlan {
    pub(super) base_iface: String,
    pub(super) id: u32,
    pub(super) remote: IpAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) destination_port: Option<u16>,
}

#[expect(clippy::struct_excessive_bools, reason = "nmstate's own keys")]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a map", rename_all = "kebab-case")]
pub(super) struct Ip {
    #[serde(default = "yes")]
    pub(super) enabled: bool,
    #[serde(default)]
    pub(super) dhcp: bool,
    #[serde(default)]
    pub(super) autoconf: bool,
    #[serde(default)]
    pub(super) address: Vec<Address>,
    #[serde(default = "yes")]
    pub(super) auto_dns: bool,
    #[serde(default = "yes")]
    pub(super) auto_gateway: bool,
    #[serde(default = "yes")]
    pub(super) auto_routes: bool,
}

const fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a map", rename_all = "kebab-case")]
pub(super) struct Address {
    pub(super) ip: IpAddr,
    pub(super) prefix_length: u8,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a map")]
pub(super) struct Routes {
    pub(super) config: Vec<Route>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a map", rename_all = "kebab-case")]
pub(super) struct Route {
    /// `ADDRESS/PREFIX`, or an address alone.
    pub(super) destination: String,
    #[serde(default)]
    pub(super) next_hop_address: String,
    pub(super) next_hop_interface: String,
    pub(super) metric: Option<u32>,
    pub(super) table_id: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a map")]
pub(super) struct Resolver {
    pub(super) config: Servers,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a map")]
pub(super) struct Servers {
    pub(super) server: Vec<IpAddr>,
    pub(super) search: Vec<String>,
}
