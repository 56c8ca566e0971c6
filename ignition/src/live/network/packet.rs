//! Metadata of Packet, later Equinix Metal, as profiles: a bond of the ports with public, private and IPv6 addresses.
//!
//! Source: the service's `/metadata` document (`network.bonding`, `.interfaces`, `.addresses`), as Afterburn's provider
//! `packet` uses it: the default route goes through the public gateway, and 10.0.0.0/8 through the private one.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::{Keyfile, LiveError, profiles, refuse};

/// The modes of a bond by number, as in the kernel's `uapi/linux/if_bonding.h`.
const MODES: &str =
    "balance-rr active-backup balance-xor broadcast 802.3ad balance-tlb balance-alb";

/// The most ports, and the most addresses, that a machine may have.
const MAX_ENTRIES: usize = 256;

/// Makes the profiles of a machine from its metadata, which does not name any name servers.
///
/// # Errors
/// [`LiveError`] if the metadata is of another form, or has no addresses.
pub fn packet_network(metadata: &str, name_servers: &[IpAddr]) -> Result<Vec<Keyfile>, LiveError> {
    let Ok(document) = serde_json::from_str::<Value>(metadata) else {
        return refuse("network", "metadata that is not JSON", "the document at /metadata");
    };
    let network = &document["network"];
    let list = |key: &str| network[key].as_array().map_or(&[][..], Vec::as_slice);
    bounded(network)?;
    let (ports, bonds) = ports(list("interfaces"), network)?;
    let mut interfaces = ports;
    let Some(main) = bonds.first().or(interfaces.first()).cloned() else {
        return refuse("network", "metadata without network.interfaces", "at least one");
    };
    interfaces.extend(bonds);
    let name = main["name"].as_str().unwrap_or_default().to_owned();
    let (mut ipv4, mut ipv6, mut routes) = (Vec::new(), Vec::new(), Vec::new());
    let addresses = || list("addresses").iter().filter(|address| address["enabled"] != false);
    let is_public = |address: &Value| address["public"] == true;
    for address in addresses() {
        let is_ipv4 = address["address_family"] == 4;
        let of_family = if is_ipv4 { &mut ipv4 } else { &mut ipv6 };
        of_family.push(json!({"ip": address["address"], "prefix-length": address["cidr"]}));
        let has_public =
            addresses().any(|a| a["address_family"] == address["address_family"] && is_public(a));
        let destination = match (is_ipv4, is_public(address) || !has_public) {
            (true, true) => "0.0.0.0/0",
            (true, false) => "10.0.0.0/8",
            (false, true) => "::/0",
            (false, false) => continue,
        };
        let route = json!({
            "destination": destination, "next-hop-address": address["gateway"],
            "next-hop-interface": name,
        });
        // A second public address of a family shares the gateway of the first.
        if !routes.iter().any(|other: &Value| other["destination"] == destination) {
            routes.push(route);
        }
    }
    if ipv4.is_empty() && ipv6.is_empty() {
        return refuse("network", "metadata without network.addresses", "at least one");
    }
    let families = [("ipv4", ipv4), ("ipv6", ipv6)];
    let is_usable = |server: &&IpAddr| !families[usize::from(server.is_ipv6())].1.is_empty();
    let servers: Vec<String> =
        name_servers.iter().filter(is_usable).map(ToString::to_string).collect();
    for interface in interfaces.iter_mut().filter(|interface| interface["name"] == name) {
        for (family, addresses) in &families {
            if !addresses.is_empty() {
                interface[family] = json!({"enabled": true, "address": addresses});
            }
        }
    }
    let state = json!({
        "interfaces": interfaces, "routes": {"config": routes},
        "dns-resolver": {"config": {"server": servers}},
    });
    match serde_json::from_value(state) {
        Ok(state) => profiles(&state),
        Err(error) => refuse("network", format!("metadata with {error}"), "names and addresses"),
    }
}

/// Refuses metadata with more ports or addresses than a machine has.
fn bounded(network: &Value) -> Result<(), LiveError> {
    for key in ["interfaces", "addresses"] {
        let n = network[key].as_array().map_or(0, Vec::len);
        if n > MAX_ENTRIES {
            let found = format!("metadata with {n} network.{key}");
            return refuse("network", found, format!("at most {MAX_ENTRIES}"));
        }
    }
    Ok(())
}

/// The ports, identified by their MACs, and the bonds that they form.
fn ports(interfaces: &[Value], network: &Value) -> Result<(Vec<Value>, Vec<Value>), LiveError> {
    let mut ports = Vec::new();
    let mut bonds: Vec<Value> = Vec::new();
    for interface in interfaces {
        let (name, mac) = (&interface["name"], &interface["mac"]);
        ports.push(json!({
            "name": name, "type": "ethernet", "identifier": "mac-address", "mac-address": mac,
        }));
        let Some(bond) = interface["bond"].as_str() else { continue };
        match bonds.iter_mut().find(|known| known["name"] == bond) {
            Some(known) => {
                if let Some(members) = known["link-aggregation"]["port"].as_array_mut() {
                    members.push(name.clone());
                }
            }
            None => bonds.push(json!({
                "name": bond, "type": "bond", "mac-address": mac,
                "link-aggregation": {
                    "mode": mode(network)?, "options": options(network), "port": [name],
                },
            })),
        }
    }
    Ok((ports, bonds))
}

fn mode(network: &Value) -> Result<&'static str, LiveError> {
    let mode = &network["bonding"]["mode"];
    let number = mode.as_u64().and_then(|mode| usize::try_from(mode).ok());
    match number.and_then(|number| MODES.split(' ').nth(number)) {
        Some(mode) => Ok(mode),
        None => {
            refuse("network", format!("{mode} at network.bonding.mode"), "a number from 0 to 6")
        }
    }
}

/// The values that Afterburn sets: a link is noticed in 100 ms and used after 200 ms, and LACP sends every second.
fn options(network: &Value) -> Value {
    let mut options = json!({"miimon": 100, "updelay": 200, "downdelay": 200});
    if network["bonding"]["mode"] == 4 {
        options["lacp_rate"] = "fast".into();
        options["xmit_hash_policy"] = "layer3+4".into();
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Value {
        json!({"id": "x", "network": {
            "bonding": {"mode": 4, "link_aggregation": "bonded"},
            "interfaces": [
                {"name": "eth0", "mac": "0c:c4:7a:00:00:01", "bond": "bond0"},
                {"name": "eth1", "mac": "0c:c4:7a:00:00:02", "bond": "bond0"},
            ],
            "addresses": [
                {"address_family": 4, "public": true, "enabled": true, "cidr": 31, "address": "192.0.2.3", "gateway": "192.0.2.2"},
                {"address_family": 6, "public": true, "enabled": true, "cidr": 127, "address": "2001:db8::3", "gateway": "2001:db8::2"},
                {"address_family": 4, "public": false, "enabled": true, "cidr": 31, "address": "10.99.0.3", "gateway": "10.99.0.2"},
                {"address_family": 4, "public": true, "enabled": false, "cidr": 32, "address": "192.0.2.99", "gateway": "192.0.2.98"},
            ],
        }})
    }

    #[test]
    fn bond_has_public_private_and_ipv6_addresses_and_their_routes() {
        let servers = ["192.0.2.53".parse().unwrap()];
        let found = packet_network(&metadata().to_string(), &servers).unwrap();
        let names: Vec<&str> = found.iter().map(|keyfile| keyfile.name.as_str()).collect();
        assert_eq!(names, ["bond0", "eth0", "eth1"].map(|name| format!("{name}.nmconnection")));
        assert_eq!(
            found[0].text,
            "[connection]\nid=bond0\ntype=bond\ninterface-name=bond0\n\n\
             [ethernet]\ncloned-mac-address=0c:c4:7a:00:00:01\n\n\
             [bond]\nmode=802.3ad\nmiimon=100\nupdelay=200\ndowndelay=200\nlacp_rate=fast\n\
             xmit_hash_policy=layer3+4\n\n\
             [ipv4]\nmethod=manual\naddress1=192.0.2.3/31\naddress2=10.99.0.3/31\n\
             route1=0.0.0.0/0,192.0.2.2\nroute2=10.0.0.0/8,10.99.0.2\ndns=192.0.2.53;\n\n\
             [ipv6]\nmethod=manual\naddress1=2001:db8::3/127\nroute1=::/0,2001:db8::2\n"
        );
        assert!(found[2].text.contains("master=bond0\n"), "{}", found[2].text);
        assert!(found[2].text.contains("mac-address=0c:c4:7a:00:00:02\n"), "{}", found[2].text);
        assert!(!found[2].text.contains("interface-name"), "{}", found[2].text);
    }

    #[test]
    fn machine_without_a_public_address_uses_its_private_gateway() {
        let mut metadata = metadata();
        let addresses = metadata["network"]["addresses"].as_array_mut().unwrap();
        addresses.retain(|address| address["public"] == false);
        let found = packet_network(&metadata.to_string(), &[]).unwrap();
        assert!(found[0].text.contains("route1=0.0.0.0/0,10.99.0.2\n"), "{}", found[0].text);
        assert!(found[0].text.ends_with("[ipv6]\nmethod=disabled\n"), "{}", found[0].text);
    }

    #[test]
    fn metadata_of_another_form_is_refused() {
        for text in
            ["", "{}", "[1]", "{\"network\":{\"interfaces\":[{\"name\":\"eth0\",\"mac\":\"x\"}]}}"]
        {
            assert!(packet_network(text, &[]).is_err(), "{text}");
        }
        let mut crowded = metadata();
        crowded["network"]["interfaces"] = vec![json!({"name": "a", "mac": "x"}); 257].into();
        let error = packet_network(&crowded.to_string(), &[]).unwrap_err().to_string();
        assert!(error.contains("257 network.interfaces"), "{error}");
        let mut metadata = metadata();
        metadata["network"]["bonding"]["mode"] = json!(9);
        assert!(packet_network(&metadata.to_string(), &[]).is_err());
    }
}
