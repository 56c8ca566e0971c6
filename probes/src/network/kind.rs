//! The kind of an interface: a port of the machine, or a link made in software
//! (`/sys/class/net/<interface>/`, `IFLA_INFO_KIND`).

use super::link::Link;
use crate::machine::Machine;

/// The facts from which the kind of an interface is derived.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    pub(super) name: &'a str,
    /// Target of its link in `/sys/class/net`.
    pub(super) path: &'a str,
    /// True if it belongs to a device.
    pub(super) has_device: bool,
    pub(super) link: Option<&'a Link>,
}

/// The kind: `physical` or `wireless` for ports, otherwise the kernel's word (`bond`, `vlan`,
/// `bridge`, `veth`, `tun`, `dummy`, …), or `virtual` if only that is known. `None` if it is unknown.
pub(super) fn kind(machine: &Machine, evidence: &Evidence) -> Option<String> {
    let dir = format!("sys/class/net/{}", evidence.name);
    let device_type = machine.text(&format!("{dir}/uevent")).and_then(|text| {
        text.lines().find_map(|line| line.strip_prefix("DEVTYPE=")).map(str::to_owned)
    });
    let reported = evidence.link.and_then(|link| link.kind.clone());
    if evidence.has_device {
        return Some(match (device_type.as_deref(), reported.as_deref()) {
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
    reported
        .or_else(|| match device_type?.as_str() {
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
