//! The id under which assisted-service knows a host. assisted-installer-agent derives it in the same way
//! (`src/scanners/machine_uuid_scanner.go`), so a host keeps its id whichever of the two registers it.

use formats::guid;
use md5::{Digest as _, Md5};
use probes::collect::Inventory;
use probes::identity::Identifier;

/// The id of a machine with these identifiers: the MD5 of the board's serial number, else the SMBIOS UUID, else the
/// MD5 of the lowest MAC. Identifiers that cannot be trusted are skipped. A machine without any gets the MD5 of its boot,
/// which `node_id` contains, and `port`, the lowest MAC that a port has now; the boot alone is shared by hosts that share a
/// kernel. Without either it is random: the fixed id that the other agent uses then would be the same for all such machines.
pub(super) fn host_id(identity: &[Identifier], node_id: &str, port: Option<&str>) -> String {
    let trusted = |kind: &str| {
        let mut matching = identity.iter().filter(|i| i.kind == kind && i.suspicious.is_none());
        matching.next().map(|identifier| identifier.value.as_str())
    };
    trusted("baseboard_serial")
        .map(of_text)
        .or_else(|| trusted("smbios_uuid").and_then(guid::parse).map(|bytes| guid::uuid(&bytes)))
        .or_else(|| trusted("permanent_mac").map(|mac| of_text(&mac.to_ascii_lowercase())))
        .or_else(|| {
            let boot = node_id.strip_prefix("boot-").filter(|boot| guid::parse(boot).is_some())?;
            Some(of_text(&format!("{boot} {}", port?.to_ascii_lowercase())))
        })
        .unwrap_or_else(crate::random::uuid)
}

/// The lowest MAC that a port has now, whatever its kind.
pub(super) fn lowest_mac(inventory: &Inventory) -> Option<String> {
    let ports = inventory.network.iter().flat_map(|network| &network.interfaces);
    let macs = ports.filter_map(|port| port.current_mac.clone());
    macs.filter(|mac| mac.bytes().any(|byte| byte != b'0' && byte != b':')).min()
}

/// The MD5 of a text in UUID form.
fn of_text(text: &str) -> String {
    guid::uuid(&Md5::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identifier(kind: &str, value: &str, suspicious: Option<&str>) -> Identifier {
        let suspicious = suspicious.map(str::to_owned);
        Identifier { kind: kind.to_owned(), value: value.to_owned(), suspicious }
    }

    #[test]
    fn serial_of_the_board_comes_before_the_uuid_and_the_mac() {
        let serial = identifier("baseboard_serial", "SERIAL-01", None);
        let uuid = identifier("smbios_uuid", "4C4C4544-0058-4A10-8034-B7C04F4B5A33", None);
        let mac = identifier("permanent_mac", "02:00:00:00:00:0A", None);
        let all = [mac.clone(), uuid.clone(), serial];
        // printf SERIAL-01 | md5sum
        assert_eq!(host_id(&all, "x", None), "e5387aec-762c-b557-c089-49cd0c39c1ec");
        assert_eq!(
            host_id(&[mac.clone(), uuid], "x", None),
            "4c4c4544-0058-4a10-8034-b7c04f4b5a33"
        );
        // printf 02:00:00:00:00:0a | md5sum
        assert_eq!(host_id(&[mac], "x", None), "68daecdd-4e62-4637-83c5-1f5cca3a7303");
    }

    #[test]
    fn identifier_that_many_machines_share_names_no_host() {
        let serial = identifier("baseboard_serial", "Default string", Some("placeholder"));
        let boot = "boot-0f6a9f4c-2c1d-4b57-9a3e-2f0d8a7b6c5d";
        let of_port = |mac: &str| host_id(std::slice::from_ref(&serial), boot, Some(mac));
        assert_eq!(of_port("02:00:00:00:00:0A"), of_port("02:00:00:00:00:0a"));
        // One kernel, two hosts in containers.
        assert_ne!(of_port("02:00:00:00:00:0a"), of_port("02:00:00:00:00:0b"));
        assert_ne!(host_id(&[], "capture-1", None), host_id(&[], "capture-1", None));
    }
}
