//! A machine with every server feature that QEMU offers: two sockets, a node with memory only, every kind of disk.

use crate::disk::{Disk, DiskKind, Namespace};
use crate::machine::{Bmc, Dimm, Machine, Node, Port, Product, Slot};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

impl Machine {
    /// A two-socket server with every feature that QEMU offers.
    pub(crate) fn rich() -> Self {
        Self {
            cpu: "Nehalem,model-id=Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz",
            n_sockets: 2,
            n_cores: 2,
            n_threads: 2,
            nodes: vec![
                Node { memory_mib: 512, cpus: "0-3" },
                Node { memory_mib: 384, cpus: "4-7" },
                Node { memory_mib: 256, cpus: "" },
            ],
            distances: vec![(0, 1, 21), (0, 2, 17), (1, 2, 28)],
            product: Some(rich_product()),
            slots: rich_slots(),
            disks: rich_disks(),
            ports: vec![
                Port {
                    model: "virtio-net-pci",
                    driver: "virtio_net",
                    mac: "52:54:00:aa:00:01",
                    reaches_host: true,
                    n_vfs: 0,
                },
                Port {
                    model: "e1000e",
                    driver: "e1000e",
                    mac: "b8:ce:f6:00:00:01",
                    reaches_host: false,
                    n_vfs: 0,
                },
                Port {
                    model: "igb",
                    driver: "igb",
                    mac: "b8:ce:f6:00:00:02",
                    reaches_host: false,
                    n_vfs: 0,
                },
            ],
            bmc: Some(Bmc {
                guid: "01020304-0506-0708-090a-0b0c0d0e0f10",
                manufacturer_id: 674,
                product_id: 256,
                firmware: (7, 20),
            }),
            has_tpm: true,
            has_uefi: false,
            has_watchdog: false,
            cxl_memory_mib: None,
            forwards: Vec::new(),
            more: Vec::new(),
        }
    }
}

/// Strings of a well-known server.
fn rich_product() -> Product {
    Product {
        vendor: "Dell Inc.",
        name: "PowerEdge R650",
        family: "PowerEdge",
        sku: "SKU=0912;ModelName=PowerEdge R650",
        serial: "7XJ4KZ3",
        uuid: "4c4c4544-0058-4a10-8034-b7c04f4b5a33",
        bios_vendor: "Dell Inc.",
        bios_version: "2.19.1",
        bios_date: "06/06/2024",
        board: "0PYXKY",
        board_serial: ".7XJ4KZ3.CNFCP0012345.",
        chassis_serial: "CH-7XJ4KZ3",
        asset_tag: "ASSET-42",
    }
}

/// Eight slots, one empty, one with a DIMM of another vendor, size and speed.
fn rich_slots() -> Vec<Slot> {
    let samsung = |serial| Dimm {
        size_mib: 16384,
        speed_mt_s: 3200,
        manufacturer: "Samsung",
        serial,
        part_number: "M393A2K43DB3-CWE",
    };
    let micron = Dimm {
        size_mib: 8192,
        speed_mt_s: 2933,
        manufacturer: "Micron",
        serial: "S0000007",
        part_number: "18ASF1G72PZ",
    };
    vec![
        Slot { locator: "DIMM_A1", bank: "NODE 0", dimm: Some(samsung("S0000000")) },
        Slot { locator: "DIMM_A2", bank: "NODE 0", dimm: Some(samsung("S0000001")) },
        Slot { locator: "DIMM_A3", bank: "NODE 0", dimm: Some(samsung("S0000002")) },
        Slot { locator: "DIMM_A4", bank: "NODE 0", dimm: Some(samsung("S0000003")) },
        Slot { locator: "DIMM_B1", bank: "NODE 1", dimm: Some(samsung("S0000004")) },
        Slot { locator: "DIMM_B2", bank: "NODE 1", dimm: None },
        Slot { locator: "DIMM_B3", bank: "NODE 1", dimm: Some(samsung("S0000006")) },
        Slot { locator: "DIMM_B4", bank: "NODE 1", dimm: Some(micron) },
    ]
}

/// Every kind of disk, with both block sizes.
fn rich_disks() -> Vec<Disk> {
    let nvme = |id| {
        let (controller, serial) = ("nvme-a", "S64GNE0R123456");
        DiskKind::Nvme(Namespace { controller, serial, n_controllers: 1, id })
    };
    vec![
        Disk { id: "nvme-a-1", size_bytes: 2 * GIB, sector_bytes: 512, kind: nvme(1) },
        Disk { id: "nvme-a-2", size_bytes: GIB, sector_bytes: 4096, kind: nvme(2) },
        Disk {
            id: "virtio-4kn",
            size_bytes: 640 * MIB,
            sector_bytes: 4096,
            kind: DiskKind::Virtio { serial: "VB4K" },
        },
        Disk {
            id: "scsi-hdd",
            size_bytes: 4 * GIB,
            sector_bytes: 512,
            kind: DiskKind::Scsi {
                serial: "Z1Z0ABCD",
                wwn: 0x5000_c500_15ea_71ac,
                vendor: "SEAGATE",
                product: "ST4000NM0023",
                rotation: 7200,
                n_paths: 1,
            },
        },
        Disk {
            id: "scsi-ssd",
            size_bytes: 3 * GIB,
            sector_bytes: 512,
            kind: DiskKind::Scsi {
                serial: "SSDSER1",
                wwn: 0x5002_538e_0000_0001,
                vendor: "SAMSUNG",
                product: "MZILS1T9",
                rotation: 1,
                n_paths: 1,
            },
        },
        Disk {
            id: "sata-ssd",
            size_bytes: 512 * MIB,
            sector_bytes: 512,
            kind: DiskKind::Sata {
                serial: "SATASER",
                wwn: 0x5002_538e_4012_3456,
                model: "Samsung SSD 860",
                port: 1,
            },
        },
    ]
}
