//! The guests' hardware, described once: both QEMU's arguments and the expected report are derived from it.

use crate::disk::{Disk, DiskKind};

/// A whole machine.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    /// QEMU's CPU model with its properties, as `qemu64`.
    pub(crate) cpu: &'static str,
    /// CPU sockets.
    pub(crate) n_sockets: u32,
    /// Cores of each socket.
    pub(crate) n_cores: u32,
    /// Threads of each core.
    pub(crate) n_threads: u32,
    /// Main memory in MiB by NUMA node; one entry means no NUMA.
    pub(crate) nodes: Vec<Node>,
    /// Distances from a node to another, in both directions unless the other direction is listed too; a node to itself is 10.
    pub(crate) distances: Vec<(usize, usize, u64)>,
    /// Vendor and product in the firmware's tables; QEMU's defaults if absent.
    pub(crate) product: Option<Product>,
    /// Memory slots; QEMU's defaults if empty.
    pub(crate) slots: Vec<Slot>,
    /// Disks, in the order in which they are added.
    pub(crate) disks: Vec<Disk>,
    /// Network ports; the first one reaches the host.
    pub(crate) ports: Vec<Port>,
    /// An IPMI management controller behind a KCS port.
    pub(crate) bmc: Option<Bmc>,
    /// A TPM 2 (swtpm).
    pub(crate) has_tpm: bool,
    /// UEFI firmware (OVMF) instead of BIOS.
    pub(crate) has_uefi: bool,
    /// An Intel 6300ESB watchdog.
    pub(crate) has_watchdog: bool,
    /// Volatile memory of a CXL type 3 device in MiB.
    pub(crate) cxl_memory_mib: Option<u64>,
    /// What QEMU connects with the first port's network, as `guestfwd=…` and `hostfwd=…`.
    pub(crate) forwards: Vec<String>,
    /// More of QEMU's arguments, for hardware that a single test has.
    pub(crate) more: Vec<String>,
}

/// Identity of a management controller (IPMI 2.0 §20.1).
#[derive(Debug, Clone)]
pub(crate) struct Bmc {
    pub(crate) guid: &'static str,
    pub(crate) manufacturer_id: u32,
    pub(crate) product_id: u16,
    /// Major and minor, each below 100.
    pub(crate) firmware: (u8, u8),
}

/// A NUMA node.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// Memory in MiB.
    pub(crate) memory_mib: u64,
    /// Its logical CPUs, as `0-3`; empty for a node that has memory only.
    pub(crate) cpus: &'static str,
}

/// SMBIOS types 0, 1, 2 and 3.
#[derive(Debug, Clone)]
pub(crate) struct Product {
    pub(crate) vendor: &'static str,
    pub(crate) name: &'static str,
    pub(crate) family: &'static str,
    pub(crate) sku: &'static str,
    pub(crate) serial: &'static str,
    pub(crate) uuid: &'static str,
    pub(crate) bios_vendor: &'static str,
    pub(crate) bios_version: &'static str,
    pub(crate) bios_date: &'static str,
    pub(crate) board: &'static str,
    pub(crate) board_serial: &'static str,
    pub(crate) chassis_serial: &'static str,
    pub(crate) asset_tag: &'static str,
}

/// A memory slot and the DIMM in it, if there is one.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub(crate) locator: &'static str,
    pub(crate) bank: &'static str,
    pub(crate) dimm: Option<Dimm>,
}

/// A DIMM, as SMBIOS type 17 describes it.
#[derive(Debug, Clone)]
pub(crate) struct Dimm {
    pub(crate) size_mib: u16,
    pub(crate) speed_mt_s: u16,
    pub(crate) manufacturer: &'static str,
    pub(crate) serial: &'static str,
    pub(crate) part_number: &'static str,
}

impl Dimm {
    /// DIMMs of two vendors, whose size and serial number a machine chooses.
    pub(crate) const SAMSUNG: Self = Self {
        size_mib: 0,
        speed_mt_s: 3200,
        manufacturer: "Samsung",
        serial: "",
        part_number: "M393A2K43DB3-CWE",
    };
    pub(crate) const MICRON: Self = Self {
        speed_mt_s: 2933,
        manufacturer: "Micron",
        part_number: "18ASF1G72PZ",
        ..Self::SAMSUNG
    };
}

/// A network port.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    /// QEMU's device, as `e1000e`.
    pub(crate) model: &'static str,
    pub(crate) mac: &'static str,
    /// Whether it reaches the host; the others are on isolated networks.
    pub(crate) reaches_host: bool,
    /// Virtual functions that the test enables in the guest; a port with any is behind a root port, which forwards ARI.
    pub(crate) n_vfs: u32,
}

impl Port {
    /// One on an isolated network.
    pub(crate) fn isolated(model: &'static str, mac: &'static str) -> Self {
        Self { model, mac, reaches_host: false, n_vfs: 0 }
    }

    /// The driver that Linux binds to it.
    pub(crate) fn driver(&self) -> &'static str {
        if self.model == "virtio-net-pci" { "virtio_net" } else { self.model }
    }
}

impl Machine {
    /// A plain virtual machine with the target disk alone.
    pub(crate) fn bare(memory_mib: u64) -> Self {
        Self::plain(memory_mib, vec![Self::target_disk()])
    }

    /// A plain virtual machine with one virtio network port and these disks.
    pub(crate) fn plain(memory_mib: u64, disks: Vec<Disk>) -> Self {
        Self {
            cpu: "qemu64",
            n_sockets: 1,
            n_cores: 2,
            n_threads: 1,
            nodes: vec![Node { memory_mib, cpus: "0-1" }],
            distances: Vec::new(),
            product: None,
            slots: Vec::new(),
            disks,
            ports: vec![Port {
                reaches_host: true,
                ..Port::isolated("virtio-net-pci", "52:54:00:aa:00:01")
            }],
            bmc: None,
            has_tpm: false,
            has_uefi: false,
            has_watchdog: false,
            cxl_memory_mib: None,
            forwards: Vec::new(),
            more: Vec::new(),
        }
    }

    /// A virtio disk to install on.
    pub(crate) fn target_disk() -> Disk {
        Disk::new("target", 3 << 30, 512, DiskKind::Virtio { serial: "TARGET-0" })
    }

    /// Main memory of all nodes.
    pub(crate) fn memory_mib(&self) -> u64 {
        self.nodes.iter().map(|node| node.memory_mib).sum()
    }
}
