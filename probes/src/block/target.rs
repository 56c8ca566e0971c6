//! The target that a disk or LUN is reached at: the SAS address, the port of a Fibre Channel array, the
//! iSCSI target (`drivers/scsi/scsi_transport_{sas,fc,iscsi}.c`). It identifies the device, not the path.

use formats::wwn::is_blank;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

use super::sysfs_path::numbered_part;

/// The far end of the path to a disk.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiskTarget {
    /// SAS address, world-wide name of the array's Fibre Channel port, or name of the iSCSI target.
    pub name: String,
    /// Address and port of an iSCSI portal, e.g. `192.0.2.5:3260` or `[2001:db8::5]:3260`.
    pub portal: Option<String>,
}

/// Reads the target above the disk at `path`.
pub(super) fn target(machine: &Machine, path: &str) -> Option<DiskTarget> {
    let part = |prefix: &str| numbered_part(path, prefix);
    let named = |attribute: String| {
        let name = machine.text(&attribute)?.trim().to_owned();
        (!is_blank(&name)).then_some(DiskTarget { name, portal: None })
    };
    if let Some(device) = part("end_device-") {
        return named(format!("sys/class/sas_device/{device}/sas_address"));
    }
    if let Some(port) = part("rport-") {
        return named(format!("sys/class/fc_remote_ports/{port}/port_name"));
    }
    let session = part("session")?;
    let target = named(format!("sys/class/iscsi_session/{session}/targetname"))?;
    Some(DiskTarget { portal: portal(machine, session.strip_prefix("session")?), ..target })
}

/// The portal of the first connection of an iSCSI session.
fn portal(machine: &Machine, session: &str) -> Option<String> {
    let connection = format!("sys/class/iscsi_connection/connection{session}:0");
    let address = machine.text(&format!("{connection}/persistent_address"))?;
    let port: Option<u16> = machine.number(&format!("{connection}/persistent_port"));
    let address = if address.contains(':') { format!("[{address}]") } else { address };
    Some(port.map_or(address.clone(), |port| format!("{address}:{port}")))
}

/// The bay that a SAS expander names: `bay_identifier`.
pub(super) fn sas_bay(machine: &Machine, path: &str) -> Option<u32> {
    let device = path.split('/').rev().find(|part| part.starts_with("end_device-"))?;
    machine.number(&format!("sys/class/sas_device/{device}/bay_identifier"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn sas_fibre_channel_and_iscsi_luns_have_a_target() {
        let machine = tree(&[
            ("sys/class/sas_device/end_device-0:0/sas_address", "0x5000c500a1b2c3d5\n"),
            ("sys/class/sas_device/end_device-0:0/bay_identifier", "4\n"),
            ("sys/class/fc_remote_ports/rport-1:0-2/port_name", "0x500507680b21ac71\n"),
            ("sys/class/iscsi_session/session3/targetname", "iqn.2003-01.org.example:disk\n"),
            ("sys/class/iscsi_connection/connection3:0/persistent_address", "2001:db8::5\n"),
            ("sys/class/iscsi_connection/connection3:0/persistent_port", "3260\n"),
        ]);
        let name = |path: &str| target(&machine, path).map(|target| target.name);
        let sas = "sys/devices/x/host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0/block/sda";
        assert_eq!(name(sas).as_deref(), Some("0x5000c500a1b2c3d5"));
        assert_eq!(sas_bay(&machine, sas), Some(4));
        let fc = "sys/devices/x/host1/rport-1:0-2/target1:0:2/1:0:2:0/block/sdb";
        assert_eq!(name(fc).as_deref(), Some("0x500507680b21ac71"));
        let iscsi = "sys/devices/platform/host2/session3/target2:0:0/2:0:0:1/block/sdc";
        let found = target(&machine, iscsi).unwrap();
        assert_eq!(found.name, "iqn.2003-01.org.example:disk");
        assert_eq!(found.portal.as_deref(), Some("[2001:db8::5]:3260"));
        assert_eq!(target(&machine, "sys/block/sda"), None);
    }
}
