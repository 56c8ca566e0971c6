//! The step `verify-vips`: whether another machine has an address that the cluster is to get.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use super::addresses::addresses;
use super::step::Step;
use super::tasks::{Around, ask_each};
use crate::clock::Clock;

/// Most addresses of one step: two of each family.
const MAX_VIPS: usize = 16;
/// The port of the service "discard" (RFC 863).
const DISCARD: u16 = 9;
/// Time limit for a connection. The kernel asks three times for a neighbour, a second apart.
const CONNECT: Duration = Duration::from_secs(8);
const LIMIT: Duration = Duration::from_secs(20);

/// Asks for every address at the same time.
pub(super) fn verify(step: &Step, around: &Around) -> Result<Value, String> {
    let request = step.json(0)?;
    let vips = request.as_array().ok_or("its argument is no list of addresses")?;
    let address = |vip: &Value| vip.get("vip")?.as_str().map(str::to_owned);
    let names = vips.iter().filter_map(address).take(MAX_VIPS).collect();
    let answers = ask_each(names, "vip", LIMIT, &around.api.client.clock, is_taken);
    let verified = vips.iter().take(MAX_VIPS).map(|vip| {
        let answer = answers.iter().find(|(name, _)| address(vip).as_ref() == Some(name));
        let verification = match answer.and_then(|(_, taken)| taken.flatten()) {
            Some(true) => "failed",
            Some(false) => "succeeded",
            None => "unverified",
        };
        json!({"vip": vip.get("vip"), "vip_type": vip.get("vip_type"), "verification": verification})
    });
    Ok(verified.collect())
}

/// True if a machine has the address; `None` if that is unknown.
fn is_taken(name: &str, _: &dyn Clock) -> Option<bool> {
    let ip: IpAddr = name.parse().ok()?;
    let is_near = addresses().iter().any(|own| own.has_carrier && own.has_neighbour(ip));
    verdict(TcpStream::connect_timeout(&SocketAddr::new(ip, DISCARD), CONNECT).map(drop), is_near)
}

/// The meaning of a connection to an address, which is in a network of this host if `is_near`. The kernel gives up with
/// `EHOSTUNREACH` if no machine responds to ARP or neighbour discovery, which no firewall stops.
fn verdict(connected: io::Result<()>, is_near: bool) -> Option<bool> {
    match connected.map_err(|error| error.kind()) {
        Ok(()) | Err(ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset) => Some(true),
        Err(ErrorKind::HostUnreachable) if is_near => Some(false),
        // It was found, and drops what it does not know.
        Err(ErrorKind::TimedOut) if is_near => Some(true),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_only_for_an_address_in_a_network_of_this_host() {
        for (kind, near, far) in [
            (ErrorKind::ConnectionRefused, Some(true), Some(true)),
            (ErrorKind::HostUnreachable, Some(false), None),
            (ErrorKind::TimedOut, Some(true), None),
            (ErrorKind::NetworkUnreachable, None, None),
        ] {
            let found = [true, false].map(|is_near| verdict(Err(kind.into()), is_near));
            assert_eq!(found, [near, far], "{kind:?}");
        }
        assert_eq!(verdict(Ok(()), false), Some(true));
    }
}
