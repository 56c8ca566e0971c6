//! The step `connectivity-check`: finds the other hosts that respond, to ARP in the same network (layer 2) and to pings
//! (layer 3).
//!
//! IPv6 neighbours are checked by pings only, because no file lists the kernel's entries for them. The MTU of the path
//! is not measured.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};

use super::addresses::{Address, addresses};
use super::ping::Target;
use super::step::Step;
use super::tasks::Around;
use super::{arp, ping};
use crate::export::known;
use crate::http::Client;

/// Most hosts of a step, and most pairs of a port and an address.
const MAX_HOSTS: usize = 256;
const MAX_PAIRS: usize = 1024;
/// Time to wait for ARP. The kernel takes as long to notice that a neighbour that it knew is gone: five seconds until
/// it asks again, and three questions a second apart.
const WAIT: Duration = Duration::from_millis(9400);

/// Another host.
struct Remote {
    id: String,
    macs: Vec<String>,
    ips: Vec<IpAddr>,
}

/// Checks every address of every host through every port with an address of its family.
pub(super) fn check(step: &Step, around: &Around) -> Result<Value, String> {
    let Client { clock, stop, .. } = around.api.client.as_ref();
    let request = step.json(0)?;
    let hosts = request.as_array().ok_or("its argument is no list of hosts")?;
    let hosts: Vec<Remote> = hosts
        .iter()
        .filter_map(remote)
        .filter(|remote| remote.id != around.api.host_id)
        .take(MAX_HOSTS)
        .collect();
    let own = addresses();
    let ips = || hosts.iter().flat_map(|host| &host.ips);
    let neighbours: Vec<(&Address, IpAddr)> = ips()
        .flat_map(|ip| own.iter().filter(|own| own.has_neighbour(*ip)).map(|own| (own, *ip)))
        .filter(|(_, ip)| ip.is_ipv4())
        .take(MAX_PAIRS)
        .collect();
    let targets: BTreeSet<Target> = ips()
        .flat_map(|ip| {
            let of_family = own.iter().filter(|own| own.ip.is_ipv4() == ip.is_ipv4());
            of_family.map(|own| (own.nic.clone(), *ip))
        })
        .collect();
    let targets: Vec<Target> = targets.into_iter().take(MAX_PAIRS).collect();
    let echoes = ping::ping(&targets, clock.as_ref(), stop);
    let asked: Vec<Target> = neighbours.iter().map(|(own, ip)| (own.nic.clone(), *ip)).collect();
    let wait = if asked.is_empty() { Duration::ZERO } else { WAIT };
    let answers = arp::ask(&asked, wait, clock.as_ref(), stop)?;
    let reports: Vec<Value> =
        hosts.iter().map(|host| report(host, &neighbours, &answers, &echoes)).collect();
    Ok(json!({"remote_hosts": reports}))
}

fn remote(value: &Value) -> Option<Remote> {
    let nics = value.get("nics").and_then(Value::as_array);
    let nics: Vec<&Value> = nics.into_iter().flatten().collect();
    let macs = nics.iter().filter_map(|nic| nic.get("mac")?.as_str());
    let ips = nics.iter().filter_map(|nic| nic.get("ip_addresses")?.as_array()).flatten();
    Some(Remote {
        id: value.get("host_id")?.as_str()?.to_owned(),
        macs: macs.map(str::to_ascii_lowercase).collect(),
        ips: ips.filter_map(|ip| ip.as_str()?.parse().ok()).collect(),
    })
}

/// Reports the known facts of the way to a host. A layer is absent if nothing is known of it.
fn report(
    host: &Remote,
    neighbours: &[(&Address, IpAddr)],
    answers: &arp::Answers,
    echoes: &BTreeMap<Target, ping::Echo>,
) -> Value {
    let l2: Vec<Value> = neighbours
        .iter()
        .filter(|(_, ip)| host.ips.contains(ip))
        .filter_map(|(own, ip)| {
            let mac = answers.get(&(own.nic.clone(), *ip))?;
            Some(json!({
                "outgoing_nic": own.nic,
                "outgoing_ip_address": own.ip.to_string(),
                "remote_ip_address": ip.to_string(),
                // Another machine with this address is no way to the host.
                "successful": mac.as_ref().is_some_and(|mac| host.macs.contains(mac)),
                "remote_mac": mac,
            }))
        })
        .collect();
    let l3 = echoes.iter().filter(|((_, ip), _)| host.ips.contains(ip));
    let l3: Vec<Value> = l3.map(|((nic, ip), echo)| layer_3(nic, *ip, echo)).collect();
    known(json!({"host_id": host.id, "l2_connectivity": l2, "l3_connectivity": l3}))
}

fn layer_3(nic: &str, ip: IpAddr, echo: &ping::Echo) -> Value {
    json!({
        "outgoing_nic": nic,
        "remote_ip_address": ip.to_string(),
        "successful": echo.n_received > 0,
        "packet_loss_percentage": echo.loss_percent(),
        "average_rtt_ms": echo.average_ms(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_that_another_machine_has_is_no_connection_to_the_host() {
        let ip: IpAddr = "192.0.2.9".parse().unwrap();
        let own = Address {
            nic: "eno1".into(),
            ip: "192.0.2.7".parse().unwrap(),
            prefix: 24,
            has_carrier: true,
        };
        let host = remote(&json!({"host_id": "h", "nics": [
            {"name": "a", "mac": "02:00:00:00:00:0A", "ip_addresses": ["192.0.2.9", "odd"]},
        ]}))
        .unwrap();
        let of = |mac: Option<&str>| {
            let key = ("eno1".to_owned(), "192.0.2.9".parse().unwrap());
            let answers = BTreeMap::from([(key, mac.map(str::to_owned))]);
            report(&host, &[(&own, ip)], &answers, &BTreeMap::new())["l2_connectivity"][0].clone()
        };
        assert_eq!(of(Some("02:00:00:00:00:0a"))["successful"], true);
        let other = of(Some("02:00:00:00:00:0b"));
        assert_eq!(
            (&other["successful"], &other["remote_mac"]),
            (&json!(false), &json!("02:00:00:00:00:0b"))
        );
        assert_eq!(of(None)["remote_mac"], Value::Null);
        let nothing = report(&host, &[(&own, ip)], &BTreeMap::new(), &BTreeMap::new());
        assert_eq!(nothing, json!({"host_id": "h"}));
    }

    #[test]
    fn host_that_does_not_respond_has_no_time_of_a_response() {
        let entry = layer_3("eno1", "192.0.2.9".parse().unwrap(), &ping::Echo::default());
        assert_eq!(entry["successful"], false);
        assert_eq!(entry["packet_loss_percentage"], 100.0);
        assert!(known(entry).get("average_rtt_ms").is_none());
    }
}
