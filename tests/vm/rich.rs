//! A machine with every server feature that QEMU offers: two sockets, a node with memory only, every kind of disk.

use crate::disk::{Disk, DiskKind, GIB, MIB, Namespace};
use crate::machine::{Bmc, Dimm, Machine, Node, Port, Product, Slot};

impl Machine {
    /// A two-socket server with every feature that QEMU offers.
    pub(crate) fn rich() -> Self {
        let mut plain = Machine::plain(0, rich_disks());
        plain.ports.push(Port::isolated("e1000e", "b8:ce:f6:00:00:01"));
        plain.ports.push(Port::isolated("igb", "b8:ce:f6:00:00:02"));
        Self {
            cpu: "Nehalem,model-id=Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz",
            n_sockets: 2,
            n_threads: 2,
            nodes: vec![
                Node { memory_mib: 512, cpus: "0-3" },
                Node { memory_mib: 384, cpus: "4-7" },
                Node { memory_mib: 256, cpus: "" },
            ],
            distances: vec![(0, 1, 21), (0, 2, 17), (1, 2, 28)],
            product: Some(Product {
                serial: "7XJ4KZ3",
                uuid: "4c4c4544-0058-4a10-8034-b7c04f4b5a33",
                board_serial: ".7XJ4KZ3.CNFCP0012345.",
                chassis_serial: "CH-7XJ4KZ3",
                asset_tag: "ASSET-42",
                ..Product::POWEREDGE
            }),
            slots: rich_slots(),
            bmc: Some(Bmc {
                guid: "01020304-0506-0708-090a-0b0c0d0e0f10",
                manufacturer_id: 674,
                product_id: 256,
                firmware: (7, 20),
            }),
            has_tpm: true,
            ..plain
        }
    }
}

impl Product {
    /// Strings of a well-known server, without those of one machine.
    pub(crate) const POWEREDGE: Self = Self {
        vendor: "Dell Inc.",
        name: "PowerEdge R650",
        family: "PowerEdge",
        sku: "SKU=0912;ModelName=PowerEdge R650",
        serial: "",
        uuid: "",
        bios_vendor: "Dell Inc.",
        bios_version: "2.19.1",
        bios_date: "06/06/2024",
        board: "0PYXKY",
        board_serial: "",
        chassis_serial: "",
        asset_tag: "",
    };
}

/// Eight slots, one empty, one with a DIMM of another vendor, size and speed.
fn rich_slots() -> Vec<Slot> {
    let samsung = |serial| Some(Dimm { size_mib: 16384, serial, ..Dimm::SAMSUNG });
    let micron = Some(Dimm { size_mib: 8192, serial: "S0000007", ..Dimm::MICRON });
    vec![
        Slot { locator: "DIMM_A1", bank: "NODE 0", dimm: samsung("S0000000") },
        Slot { locator: "DIMM_A2", bank: "NODE 0", dimm: samsung("S0000001") },
        Slot { locator: "DIMM_A3", bank: "NODE 0", dimm: samsung("S0000002") },
        Slot { locator: "DIMM_A4", bank: "NODE 0", dimm: samsung("S0000003") },
        Slot { locator: "DIMM_B1", bank: "NODE 1", dimm: samsung("S0000004") },
        Slot { locator: "DIMM_B2", bank: "NODE 1", dimm: None },
        Slot { locator: "DIMM_B3", bank: "NODE 1", dimm: samsung("S0000006") },
        Slot { locator: "DIMM_B4", bank: "NODE 1", dimm: micron },
    ]
}

/// Every kind of disk, with both block sizes.
fn rich_disks() -> Vec<Disk> {
    let nvme = |id| {
        let (controller, serial) = ("nvme-a", "S64GNE0R123456");
        DiskKind::Nvme(Namespace { controller, serial, n_controllers: 1, id })
    };
    let (seagate, samsung) = (["SEAGATE", "ST4000NM0023"], ["SAMSUNG", "MZILS1T9"]);
    let hdd = DiskKind::scsi("Z1Z0ABCD", 0x5000_c500_15ea_71ac, seagate, 7200, 1);
    let ssd = DiskKind::scsi("SSDSER1", 0x5002_538e_0000_0001, samsung, 1, 1);
    let (wwn, model) = (0x5002_538e_4012_3456, "Samsung SSD 860");
    let sata = DiskKind::Sata { serial: "SATASER", wwn, model, port: 1 };
    vec![
        Disk::new("nvme-a-1", 2 * GIB, 512, nvme(1)),
        Disk::new("nvme-a-2", GIB, 4096, nvme(2)),
        Disk::new("virtio-4kn", 640 * MIB, 4096, DiskKind::Virtio { serial: "VB4K" }),
        Disk::new("scsi-hdd", 4 * GIB, 512, hdd),
        Disk::new("scsi-ssd", 3 * GIB, 512, ssd),
        Disk::new("sata-ssd", 512 * MIB, 512, sata),
    ]
}
