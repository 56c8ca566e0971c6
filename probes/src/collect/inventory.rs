//! The known facts about a machine, section by section.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::block::Block;
use crate::bmc::Bmc;
use crate::cpu::Cpu;
use crate::devices::Devices;
use crate::dmi::{Baseboard, Bios, Chassis, Product};
use crate::firmware::Firmware;
use crate::gpu::Gpu;
use crate::memory::Memory;
use crate::network::{LocalAddresses, Network};
use crate::os::Os;
use crate::pci::Pci;
use crate::smbios::SmbiosTable;
use crate::topology::Topology;

/// Everything that is known about a machine. A section that was not collected is absent.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Inventory {
    /// Logical CPUs, cores and packages.
    pub cpu: Option<Cpu>,
    /// Totals and DIMMs.
    pub memory: Option<Memory>,
    /// NUMA nodes and caches.
    pub topology: Option<Topology>,
    /// Disks, their controllers and their content.
    pub block: Option<Block>,
    /// Network interfaces and InfiniBand devices.
    pub network: Option<Network>,
    /// Addresses, routes and name servers.
    pub local_addresses: Option<LocalAddresses>,
    /// PCI devices.
    pub pci: Option<Pci>,
    /// USB, serial ports, watchdogs, TPM and sensors.
    pub devices: Option<Devices>,
    /// Graphics cards and accelerators.
    pub gpu: Option<Gpu>,
    /// The enclosure.
    pub chassis: Option<Chassis>,
    /// The main board.
    pub baseboard: Option<Baseboard>,
    /// The machine as a product.
    pub product: Option<Product>,
    /// The firmware's vendor, version and date.
    pub bios: Option<Bios>,
    /// The firmware and its boot of the machine.
    pub firmware: Option<Firmware>,
    /// The management controller.
    pub bmc: Option<Bmc>,
    /// The raw SMBIOS table.
    pub smbios: Option<SmbiosTable>,
    /// The running kernel and distribution.
    pub os: Option<Os>,
}

impl Inventory {
    /// Drops each section that is not one of `sections`; an empty list keeps all of them.
    pub fn keep_only(&mut self, sections: &[String]) {
        let drops = |name: &str| !sections.is_empty() && sections.iter().all(|s| s != name);
        macro_rules! drop_unwanted {
            ($($section:ident)*) => {
                $(if drops(stringify!($section)) {
                    self.$section = None;
                })*
            };
        }
        drop_unwanted!(cpu memory topology block network local_addresses pci devices gpu chassis);
        drop_unwanted!(baseboard product bios firmware bmc smbios os);
    }
}
