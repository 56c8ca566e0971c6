//! Machines that complement [`Machine::rich`]: one with the kinds of disk and port that it lacks, one with many small NUMA nodes.

use crate::disk::{Disk, DiskKind, GIB, MIB, Namespace};
use crate::machine::{Bmc, Dimm, Machine, Node, Port, Product, Slot};

impl Machine {
    /// A storage server: disks with two paths, NVDIMM, USB, SD; ports with virtual functions; CXL memory; a watchdog.
    pub(crate) fn crowded() -> Self {
        let mut plain = Machine::plain(1024, crowded_disks());
        plain.ports[0].mac = "52:54:00:bb:00:01";
        plain.ports.push(Port { n_vfs: 3, ..Port::isolated("igb", "3c:ec:ef:11:22:30") });
        plain.ports.push(Port::isolated("igb", "3c:ec:ef:11:22:40"));
        plain.ports.push(Port::isolated("e1000e", "3c:ec:ef:11:22:50"));
        Self {
            cpu: "Nehalem,model-id=Intel(R) Xeon(R) CPU E5-2620 v4 @ 2.10GHz",
            product: Some(crowded_product()),
            slots: crowded_slots(),
            bmc: Some(Bmc {
                guid: "a0b1c2d3-e4f5-0617-2839-4a5b6c7d8e9f",
                manufacturer_id: 10876,
                product_id: 2352,
                firmware: (1, 73),
            }),
            has_watchdog: true,
            cxl_memory_mib: Some(256),
            ..plain
        }
    }

    /// Eight nodes with one logical CPU each and one with memory only; distances differ by direction.
    pub(crate) fn many_nodes() -> Self {
        const CPUS: [&str; 9] = ["0", "1", "2", "3", "4", "5", "6", "7", ""];
        let n_nodes = CPUS.len();
        let nodes =
            CPUS.map(|cpus| Node { memory_mib: if cpus.is_empty() { 64 } else { 96 }, cpus });
        let pairs = (0..n_nodes).flat_map(|from| (0..n_nodes).map(move |to| (from, to)));
        let distances = pairs
            .filter(|(from, to)| from != to)
            .map(|(from, to)| (from, to, 11 + (from * n_nodes + to) as u64))
            .collect();
        Self { n_sockets: 8, n_cores: 1, nodes: nodes.into(), distances, ..Machine::bare(0) }
    }
}

/// Strings of another vendor.
fn crowded_product() -> Product {
    Product {
        vendor: "Supermicro",
        name: "SSG-6029P-E1CR12L",
        family: "SMC X11",
        sku: "091715D9",
        serial: "S417092X1B00123",
        uuid: "00000000-0000-0000-0000-3cecef112230",
        bios_vendor: "American Megatrends Inc.",
        bios_version: "3.9",
        bios_date: "05/14/2023",
        board: "X11DPH-T",
        board_serial: "OM19AS047219",
        chassis_serial: "C8170LI03N50077",
        asset_tag: "RACK7-U12",
    }
}

/// Two DIMMs of four.
fn crowded_slots() -> Vec<Slot> {
    let dimm = |serial| Dimm {
        size_mib: 32256,
        speed_mt_s: 2666,
        manufacturer: "SK Hynix",
        serial,
        part_number: "HMA84GR7AFR4N-VK",
    };
    let slot = |locator, dimm| Slot { locator, bank: "P0_Node0_Channel0_Dimm0", dimm };
    vec![
        slot("P1-DIMMA1", Some(dimm("2D8F1A01"))),
        slot("P1-DIMMA2", None),
        slot("P1-DIMMB1", Some(dimm("2D8F1A02"))),
        slot("P1-DIMMB2", None),
    ]
}

/// Two `NVMe` subsystems, one with two controllers; SCSI with two paths; and disks without a serial number.
fn crowded_disks() -> Vec<Disk> {
    let disk = Disk::new;
    let shared =
        Namespace { controller: "nvme-b", serial: "PHLJ9123001X1P0FGN", n_controllers: 2, id: 1 };
    let single =
        Namespace { controller: "nvme-c", serial: "2145335E0C44", n_controllers: 1, id: 1 };
    let of = |id| DiskKind::Nvme(Namespace { id, ..shared });
    let hgst = ["HGST", "HUH721010AL5200"];
    let shared_lun = DiskKind::scsi("2TJ6A1BC", 0x5000_cca2_6c1d_aa34, hgst, 7200, 2);
    let native = DiskKind::scsi("7PKX9ZZC", 0x5000_cca2_6c1d_bb58, hgst, 1, 1);
    let (wwn, model) = (0x5000_c500_a4b3_c2d1, "ST2000NX0253");
    let sata = DiskKind::Sata { serial: "ZC1A2B3C", wwn, model, port: 2 };
    let raid = |serial, wwn, controller, is_passed_through| DiskKind::Raid {
        serial,
        wwn,
        vendor: "SEAGATE",
        product: "ST1200MM0099",
        controller,
        is_passed_through,
    };
    let volume = raid("WFK0A1B2", 0x5000_c500_b1c2_d3e4, "SV83405129", false);
    let passed_through = raid("WFK0C3D4", 0x5000_c500_b1c2_e5f8, "SV83405230", true);
    vec![
        disk("nvme-b-1", GIB, 512, of(1)),
        disk("nvme-b-2", 2 * GIB, 4096, of(2)),
        disk("nvme-b-3", 512 * MIB, 512, of(7)),
        disk("nvme-c-1", 768 * MIB, 512, DiskKind::Nvme(single)),
        disk("scsi-lun", 3 * GIB, 512, shared_lun),
        disk("scsi-4kn", 4 * GIB, 4096, native),
        disk("sata-hdd", 384 * MIB, 512, sata),
        disk("raid-0", 192 * MIB, 512, volume),
        disk("raid-1", 224 * MIB, 512, passed_through),
        disk("usb-stick", 256 * MIB, 512, DiskKind::Usb { serial: "4C530001230405116" }),
        disk("sd-card", 128 * MIB, 512, DiskKind::SdCard),
        disk("nvdimm", 256 * MIB, 512, DiskKind::Nvdimm),
        disk("virtio", 320 * MIB, 512, DiskKind::Virtio { serial: "VIRT-0042" }),
    ]
}
