//! The kind of an interface: a port of the machine, or a link made in software
//! (`/sys/class/net/<interface>/`, `IFLA_INFO_KIND`).

use super::interface::Sources;
use super::parent;

/// The kind: `physical` or `wireless` for ports, otherwise the kernel's word (`bond`, `vlan`,
/// `bridge`, `veth`, `tun`, `dummy`, …), or `virtual` if only that is known. `None` if it is unknown.
pub(super) fn kind(sources: &Sources) -> Option<String> {
    let Sources { machine, link, .. } = sources;
    let uevent = sources.text("uevent").unwrap_or_default();
    let device_type = parent::value(&uevent, "DEVTYPE");
    let reported = link.kind.as_deref();
    if sources.parent.is_some() {
        let kind = match (device_type, reported) {
            (Some("wlan"), _) => "wireless",
            (Some("wwan"), _) => "wwan",
            // A partition of an InfiniBand port (P_Key) is a link on a link of the same device.
            (_, Some("ipoib")) if link.lower_index.is_some() => "ipoib",
            _ if machine.link(&sources.at("phy80211")).is_some() => "wireless",
            _ => "physical",
        };
        return Some(kind.to_owned());
    }
    let by_type = device_type.map(|kind| if kind == "wlan" { "wireless" } else { kind });
    let is_virtual = sources.path.starts_with("sys/devices/virtual/");
    let known = reported.or(by_type).or_else(|| from_files(sources));
    known.or(is_virtual.then_some("virtual")).map(str::to_owned)
}

/// The files that drivers of software links add.
fn from_files(sources: &Sources) -> Option<&'static str> {
    let Sources { machine, name, .. } = sources;
    if machine.is_dir(&sources.at("bonding")) {
        Some("bond")
    } else if machine.is_dir(&sources.at("bridge")) {
        Some("bridge")
    } else if sources.text("tun_flags").is_some() {
        Some("tun")
    } else {
        machine.text(&format!("proc/net/vlan/{name}")).map(|_| "vlan")
    }
}
