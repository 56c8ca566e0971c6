//! Facts about one network interface that the kernel has in no list: driver and firmware, for which netlink does not have
//! a message (`uapi/linux/ethtool.h`), the agent that runs DCBX (`uapi/linux/dcbnl.h`).

use std::io;

use super::{Question, ethtool, netlink};

/// A fact about an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortFact {
    /// Its driver; the answer is a `struct ethtool_drvinfo`.
    Driver,
    /// Its distribution of packets over queues, in kernels that do not list this over netlink (before Linux 6.12); the
    /// answer is the head of a `struct ethtool_rxfh`.
    RssHead,
    /// The agent that runs DCBX, and with it LLDP; the answer is one message with `DCB_ATTR_DCBX`.
    Dcbx,
}

/// Asks for a fact about an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortQuestion<'a> {
    /// The interface's name.
    pub interface: &'a str,
    /// The fact.
    pub fact: PortFact,
}

impl Question for PortQuestion<'_> {
    fn name(&self) -> String {
        match self.fact {
            PortFact::Driver => format!("ethtool/{}/driver", self.interface),
            PortFact::RssHead => format!("ethtool/{}/rss", self.interface),
            PortFact::Dcbx => format!("rtnetlink/dcbx/{}", self.interface),
        }
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        const ETHTOOL_GDRVINFO: u32 = 3;
        const ETHTOOL_GRSSH: u32 = 0x46;
        /// Length of `struct ethtool_drvinfo`, and of `struct ethtool_rxfh` before table and key.
        const DRVINFO_BYTES: usize = 196;
        const RXFH_BYTES: usize = 24;
        let (command, n_bytes) = match self.fact {
            PortFact::Driver => (ETHTOOL_GDRVINFO, DRVINFO_BYTES),
            // With sizes of 0 the kernel returns the sizes of table and key and copies neither.
            PortFact::RssHead => (ETHTOOL_GRSSH, RXFH_BYTES),
            PortFact::Dcbx => return netlink::dcbx(self.interface),
        };
        let mut answer = ethtool::ethtool(self.interface, &[command])?;
        answer.truncate(n_bytes);
        Ok(answer)
    }
}
