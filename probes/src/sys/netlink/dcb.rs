//! The agent that runs DCBX, and with it LLDP, on a port: `RTM_GETDCB` with `DCB_CMD_GDCBX` (`uapi/linux/dcbnl.h`).

use std::io;

use nix::sys::socket::SockProtocol;

use super::super::Question;
use super::{attribute, request};

/// Asks which agent runs DCBX on a port; the answer is one message with `DCB_ATTR_DCBX`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DcbxMode {
    /// The interface's name.
    pub interface: String,
}

impl Question for DcbxMode {
    fn name(&self) -> String {
        format!("rtnetlink/dcbx/{}", self.interface)
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        const RTM_GETDCB: u16 = 78;
        const DCB_CMD_GDCBX: u8 = 22;
        const DCB_ATTR_IFNAME: u16 = 1;
        // `struct dcbmsg`: family and command, padded to 4 bytes.
        let mut payload = vec![0, DCB_CMD_GDCBX, 0, 0];
        let name = [self.interface.as_bytes(), &[0]].concat();
        payload.extend(attribute(DCB_ATTR_IFNAME, &name));
        request(SockProtocol::NetlinkRoute, RTM_GETDCB, &payload)
    }
}
