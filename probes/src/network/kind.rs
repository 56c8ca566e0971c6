//! What sort of interface it is: a port of the machine, or made in software.

use super::link::Link;
use crate::machine::Machine;

/// What is known of an interface before its kind is.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    pub(super) name: &'a str,
    /// Where its class link leads.
    pub(super) path: &'a str,
    /// Whether it belongs to a device.
    pub(super) has_device: bool,
    pub(super) link: Option<&'a Link>,
}

/// The kind: `physical` and `wireless` for ports, else the kernel's word (`bond`, `vlan`, `bridge`,
/// `veth`, `tun`, `dummy`, …), or `virtual` where only that is known. `None` where not even that is.
pub(super) fn kind(machine: &Machine, evidence: &Evidence) -> Option<String> {
    let dir = format!("sys/class/net/{}", evidence.name);
    let device_type = machine.text(&format!("{dir}/uevent")).and_then(|text| {
        text.lines().find_map(|line| line.strip_prefix("DEVTYPE=")).map(str::to_owned)
    });
    let told = evidence.link.and_then(|link| link.kind.clone());
    if evidence.has_device {
        return Some(match (device_type.as_deref(), told.as_deref()) {
            (Some("wlan"), _) => "wireless".to_owned(),
            (Some("wwan"), _) => "wwan".to_owned(),
            // A partition of an InfiniBand port (P_Key) is a link on a link of the same device.
            (_, Some("ipoib")) if evidence.link.is_some_and(|l| l.lower_index.is_some()) => {
                "ipoib".to_owned()
            }
            _ if machine.link(&format!("{dir}/phy80211")).is_some() => "wireless".to_owned(),
            _ => "physical".to_owned(),
        });
    }
    told.or_else(|| match device_type?.as_str() {
        "wlan" => Some("wireless".to_owned()),
        other => Some(other.to_owned()),
    })
    .or_else(|| from_files(machine, &dir, evidence.name))
    .or_else(|| evidence.path.starts_with("sys/devices/virtual/").then(|| "virtual".to_owned()))
}

/// The files that drivers of software links add.
fn from_files(machine: &Machine, dir: &str, name: &str) -> Option<String> {
    let kind = if machine.is_dir(&format!("{dir}/bonding")) {
        "bond"
    } else if machine.is_dir(&format!("{dir}/bridge")) {
        "bridge"
    } else if machine.text(&format!("{dir}/tun_flags")).is_some() {
        "tun"
    } else if machine.text(&format!("proc/net/vlan/{name}")).is_some() {
        "vlan"
    } else {
        return None;
    };
    Some(kind.to_owned())
}
