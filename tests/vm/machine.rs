//! The guests' hardware, written down once: QEMU's arguments and what the report must say are both derived from it.

use std::path::Path;

use anyhow::{Context, Result};

use crate::ipmi;
use crate::smbios;

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
    /// Distances from a node to another, and back unless the way back is listed too; a node to itself is 10.
    pub(crate) distances: Vec<(usize, usize, u64)>,
    /// What the firmware's tables say about maker and product; QEMU's own where absent.
    pub(crate) product: Option<Product>,
    /// Memory slots; QEMU's own description where empty.
    pub(crate) slots: Vec<Slot>,
    /// Disks, in the order in which they are plugged.
    pub(crate) disks: Vec<Disk>,
    /// Network ports; the first one reaches the host.
    pub(crate) ports: Vec<Port>,
    /// An IPMI management controller behind a KCS port.
    pub(crate) bmc: Option<Bmc>,
    /// A TPM 2 (swtpm).
    pub(crate) has_tpm: bool,
    /// An Intel 6300ESB watchdog.
    pub(crate) has_watchdog: bool,
    /// Volatile memory of a CXL type 3 device in MiB.
    pub(crate) cxl_memory_mib: Option<u64>,
}

/// What a management controller says of itself (IPMI 2.0 §20.1).
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

/// What SMBIOS types 0, 1, 2 and 3 say.
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

/// A disk.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    /// Name of its image in the test's folder, without `.raw`; also QEMU's name for it.
    pub(crate) id: &'static str,
    pub(crate) size_bytes: u64,
    /// Logical and physical block size.
    pub(crate) sector_bytes: u64,
    pub(crate) kind: DiskKind,
}

/// How a disk is attached.
#[derive(Debug, Clone)]
pub(crate) enum DiskKind {
    /// virtio-blk.
    Virtio { serial: &'static str },
    /// A SCSI disk behind `n_paths` virtio-scsi controllers; `rotation` in turns a minute, 1 for a solid-state disk.
    Scsi {
        serial: &'static str,
        wwn: u64,
        vendor: &'static str,
        product: &'static str,
        rotation: u32,
        n_paths: usize,
    },
    /// A drive behind a MegaRAID controller of its own, as a volume or passed through.
    Raid {
        serial: &'static str,
        wwn: u64,
        vendor: &'static str,
        product: &'static str,
        /// Serial number of the controller.
        controller: &'static str,
        is_passed_through: bool,
    },
    /// A SATA disk of the chipset's AHCI controller.
    Sata { serial: &'static str, wwn: u64, model: &'static str, port: u32 },
    /// A namespace of an `NVMe` subsystem, whose controllers are plugged with its first namespace.
    Nvme(Namespace),
    /// A USB stick behind an xHCI controller.
    Usb { serial: &'static str },
    /// An SD card behind an SDHCI controller.
    SdCard,
    /// An NVDIMM.
    Nvdimm,
}

/// A namespace and the subsystem that it belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Namespace {
    /// Name of the subsystem and of its first controller.
    pub(crate) controller: &'static str,
    /// Of all controllers of the subsystem.
    pub(crate) serial: &'static str,
    pub(crate) n_controllers: usize,
    pub(crate) id: u32,
}

impl Disk {
    /// The serial number that the guest sees, if it sees one.
    pub(crate) fn serial(&self) -> Option<&'static str> {
        match self.kind {
            DiskKind::Virtio { serial }
            | DiskKind::Scsi { serial, .. }
            | DiskKind::Raid { serial, .. }
            | DiskKind::Sata { serial, .. }
            | DiskKind::Usb { serial }
            | DiskKind::Nvme(Namespace { serial, .. }) => Some(serial),
            DiskKind::SdCard | DiskKind::Nvdimm => None,
        }
    }
}

impl Disk {
    /// The devices that it hangs on; disks of one controller name the same.
    fn controllers(&self) -> Vec<String> {
        match &self.kind {
            DiskKind::Virtio { .. } | DiskKind::Sata { .. } | DiskKind::Nvdimm => Vec::new(),
            DiskKind::Usb { .. } => vec!["qemu-xhci,id=xhci".to_owned()],
            DiskKind::SdCard => vec!["sdhci-pci,id=sdhci".to_owned()],
            // In a slot of its own choice: in the next one it would move igb, whose virtual functions take the
            // slot 16 behind it, which the chipset may have.
            DiskKind::Raid { controller, is_passed_through, .. } => {
                let (jbod, slot) = if *is_passed_through { ("on", 0x19) } else { ("off", 0x18) };
                vec![format!(
                    "megasas-gen2,id=raid-{controller},addr={slot:#x},hba_serial={controller},use_jbod={jbod}"
                )]
            }
            DiskKind::Scsi { n_paths, .. } => {
                (0..*n_paths).map(|path| format!("virtio-scsi-pci,id=scsi{path}")).collect()
            }
            DiskKind::Nvme(Namespace { controller, serial, n_controllers, .. }) => {
                let subsystem = format!("nvme-subsys,id=subsystem-{controller},nqn={controller}");
                let of = |number: usize| {
                    let id = if number == 0 { String::new() } else { format!("-{number}") };
                    format!(
                        "nvme,id={controller}{id},serial={serial},subsys=subsystem-{controller}"
                    )
                };
                std::iter::once(subsystem).chain((0..*n_controllers).map(of)).collect()
            }
        }
    }

    /// The disk itself, once for each path to it.
    fn devices(&self) -> Vec<String> {
        let (id, sector) = (self.id, self.sector_bytes);
        let blocks = format!("logical_block_size={sector},physical_block_size={sector}");
        vec![match &self.kind {
            DiskKind::Virtio { serial } => {
                format!("virtio-blk-pci,drive={id},serial={serial},{blocks}")
            }
            DiskKind::Scsi { serial, wwn, vendor, product, rotation, n_paths } => {
                let of = |path: usize| {
                    format!(
                        "scsi-hd,drive={},bus=scsi{path}.0,serial={serial},device_id={serial},wwn={wwn:#018x},\
                         vendor={vendor},product={product},rotation_rate={rotation},{blocks},share-rw={}",
                        self.drive(path),
                        if *n_paths > 1 { "on" } else { "off" },
                    )
                };
                return (0..*n_paths).map(of).collect();
            }
            DiskKind::Raid { serial, wwn, vendor, product, controller, .. } => format!(
                "scsi-hd,drive={id},bus=raid-{controller}.0,scsi-id=0,serial={serial},device_id={serial},\
                 wwn={wwn:#018x},vendor={vendor},product={product},rotation_rate=10500,{blocks}"
            ),
            DiskKind::Sata { serial, wwn, model, port } => format!(
                "ide-hd,drive={id},bus=ide.{port},serial={serial},wwn={wwn:#018x},model={model},rotation_rate=1"
            ),
            DiskKind::Nvme(namespace) => namespace.device(id, &blocks),
            DiskKind::Usb { serial } => {
                format!("usb-storage,bus=xhci.0,drive={id},serial={serial},removable=on")
            }
            DiskKind::SdCard => format!("sd-card,drive={id}"),
            DiskKind::Nvdimm => format!("nvdimm,id=nvdimm-{id},memdev={id}"),
        }]
    }

    /// How often QEMU opens its file: once for each path.
    fn n_drives(&self) -> usize {
        match self.kind {
            DiskKind::Scsi { n_paths, .. } => n_paths,
            DiskKind::Nvdimm => 0,
            _ => 1,
        }
    }

    /// QEMU's name of the file as opened for a path.
    fn drive(&self, path: usize) -> String {
        if path == 0 { self.id.to_owned() } else { format!("{}-{path}", self.id) }
    }
}

impl Namespace {
    /// Attached to every controller of its subsystem.
    fn device(&self, drive: &str, blocks: &str) -> String {
        // Linux takes no EUI-64 and no NGUID of QEMU's controllers, because older ones gave all the same.
        let Namespace { controller, id, .. } = self;
        format!("nvme-ns,drive={drive},bus={controller},nsid={id},{blocks}")
    }
}

/// A network port.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    /// QEMU's device, as `e1000e`.
    pub(crate) model: &'static str,
    /// The driver that Linux binds to it.
    pub(crate) driver: &'static str,
    pub(crate) mac: &'static str,
    /// Whether it reaches the host; the others are on networks with nobody else.
    pub(crate) reaches_host: bool,
    /// Virtual functions that the test turns on in the guest; a port with any stands behind a root port, which passes ARI on.
    pub(crate) n_vfs: u32,
}

impl Machine {
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
                model: "virtio-net-pci",
                driver: "virtio_net",
                mac: "52:54:00:aa:00:01",
                reaches_host: true,
                n_vfs: 0,
            }],
            bmc: None,
            has_tpm: false,
            has_watchdog: false,
            cxl_memory_mib: None,
        }
    }

    /// A virtio disk to install on.
    pub(crate) fn target_disk() -> Disk {
        Disk {
            id: "target",
            size_bytes: 3 << 30,
            sector_bytes: 512,
            kind: DiskKind::Virtio { serial: "TARGET-0" },
        }
    }

    /// Main memory of all nodes.
    pub(crate) fn memory_mib(&self) -> u64 {
        self.nodes.iter().map(|node| node.memory_mib).sum()
    }

    /// QEMU's arguments for this hardware; makes disks that are not there yet and SMBIOS files in `folder`.
    pub(crate) fn arguments(&self, folder: &Path) -> Result<Vec<String>> {
        let n_cpus = self.n_sockets * self.n_cores * self.n_threads;
        let smp = format!(
            "{n_cpus},sockets={},cores={},threads={}",
            self.n_sockets, self.n_cores, self.n_threads
        );
        let mut args = Vec::new();
        option(&mut args, "-cpu", self.cpu);
        self.memory_arguments(&mut args);
        option(&mut args, "-smp", &smp);
        self.numa_arguments(&mut args);
        self.smbios_arguments(&mut args, folder)?;
        self.disk_arguments(&mut args, folder)?;
        self.port_arguments(&mut args);
        if let Some(bmc) = &self.bmc {
            let records = folder.join("sensor-records");
            std::fs::write(&records, ipmi::sensor_records()).context("writing sensor records")?;
            let memories = folder.join("fru-memories");
            std::fs::write(&memories, ipmi::fru_memories()).context("writing FRU memories")?;
            let device = format!(
                "{},sdrfile={},fruareasize={},frudatafile={}",
                bmc.device(),
                records.display(),
                ipmi::FRU_BYTES,
                memories.display()
            );
            option(&mut args, "-device", &device);
            option(&mut args, "-device", "isa-ipmi-kcs,bmc=bmc0,ioport=0xca2");
        }
        if self.has_watchdog {
            option(&mut args, "-device", "i6300esb");
        }
        self.cxl_arguments(&mut args);
        Ok(args)
    }

    /// Main memory, with room for an NVDIMM.
    fn memory_arguments(&self, args: &mut Vec<String>) {
        let mib = self.memory_mib();
        if self.disks.iter().any(|disk| matches!(disk.kind, DiskKind::Nvdimm)) {
            option(args, "-machine", "nvdimm=on");
            option(args, "-m", &format!("{mib}M,slots=2,maxmem=16G"));
        } else {
            option(args, "-m", &mib.to_string());
        }
    }

    /// A CXL type 3 device with volatile memory. QEMU hangs later devices without a bus onto the CXL bus, so this comes last.
    fn cxl_arguments(&self, args: &mut Vec<String>) {
        let Some(mib) = self.cxl_memory_mib else { return };
        option(args, "-machine", "cxl=on,cxl-fmw.0.targets.0=cxl.1,cxl-fmw.0.size=4G");
        option(args, "-object", &format!("memory-backend-ram,id=cxl-memory,size={mib}M"));
        option(args, "-device", "pxb-cxl,bus_nr=12,bus=pcie.0,id=cxl.1");
        option(args, "-device", "cxl-rp,port=0,bus=cxl.1,id=cxl-root,chassis=100,slot=100");
        option(
            args,
            "-device",
            "cxl-type3,bus=cxl-root,volatile-memdev=cxl-memory,id=cxl0,sn=0x4358",
        );
    }

    /// Memory of each node, its CPUs, and the distances.
    fn numa_arguments(&self, args: &mut Vec<String>) {
        if self.nodes.len() < 2 {
            return;
        }
        for (id, node) in self.nodes.iter().enumerate() {
            option(
                args,
                "-object",
                &format!("memory-backend-ram,id=ram{id},size={}M", node.memory_mib),
            );
            let cpus =
                if node.cpus.is_empty() { String::new() } else { format!(",cpus={}", node.cpus) };
            option(args, "-numa", &format!("node,nodeid={id}{cpus},memdev=ram{id}"));
        }
        for (from, to, distance) in &self.distances {
            option(args, "-numa", &format!("dist,src={from},dst={to},val={distance}"));
        }
    }

    /// Types 0 to 3 by keys; types 16 and 17 as raw tables, since QEMU's keys give all DIMMs the same strings.
    fn smbios_arguments(&self, args: &mut Vec<String>, folder: &Path) -> Result<()> {
        if let Some(p) = &self.product {
            for keys in [
                format!(
                    "type=0,vendor={},version={},date={},release=2.19",
                    p.bios_vendor, p.bios_version, p.bios_date
                ),
                format!(
                    "type=1,manufacturer={},product={},version=1.0,serial={},uuid={},sku={},family={}",
                    p.vendor, p.name, p.serial, p.uuid, p.sku, p.family
                ),
                format!(
                    "type=2,manufacturer={},product={},serial={},asset={}",
                    p.vendor, p.board, p.board_serial, p.asset_tag
                ),
                format!(
                    "type=3,manufacturer={},serial={},asset={}",
                    p.vendor, p.chassis_serial, p.asset_tag
                ),
            ] {
                option(args, "-smbios", &keys);
            }
        }
        for (at, table) in smbios::memory_tables(&self.slots).iter().enumerate() {
            let path = folder.join(format!("smbios-{at}.bin"));
            std::fs::write(&path, table).with_context(|| format!("writing {}", path.display()))?;
            option(args, "-smbios", &format!("file={}", path.display()));
        }
        Ok(())
    }

    /// Each disk with its backing file (sparse, made here unless there), and controllers where the first needs one.
    fn disk_arguments(&self, args: &mut Vec<String>, folder: &Path) -> Result<()> {
        let mut plugged = Vec::new();
        for disk in &self.disks {
            let path = folder.join(format!("{}.raw", disk.id));
            if !path.exists() {
                std::fs::File::create(&path)?.set_len(disk.size_bytes)?;
            }
            if matches!(disk.kind, DiskKind::Nvdimm) {
                let memory = format!(
                    "memory-backend-file,id={},share=on,mem-path={},size={}",
                    disk.id,
                    path.display(),
                    disk.size_bytes
                );
                option(args, "-object", &memory);
            }
            let n_drives = disk.n_drives();
            // Two paths open one file, which QEMU's lock would forbid.
            let locking = if n_drives > 1 { ",file.locking=off" } else { "" };
            for number in 0..n_drives {
                let (id, file) = (disk.drive(number), path.display());
                let drive = format!("if=none,id={id},file={file},format=raw,cache=unsafe{locking}");
                option(args, "-drive", &drive);
            }
            for controller in disk.controllers() {
                if !plugged.contains(&controller) {
                    option(args, "-device", &controller);
                    plugged.push(controller);
                }
            }
            for device in disk.devices() {
                option(args, "-device", &device);
            }
        }
        Ok(())
    }

    /// Network ports, straight on the root complex: behind a root port virtio-net has been seen to fail at power-on.
    fn port_arguments(&self, args: &mut Vec<String>) {
        for (at, port) in self.ports.iter().enumerate() {
            let net = if port.reaches_host {
                String::new()
            } else {
                format!(",net=10.0.{}.0/24,restrict=on", at + 2)
            };
            option(args, "-netdev", &format!("user,id=net{at}{net}"));
            let mut bus = String::new();
            if port.n_vfs > 0 {
                let slot = at + 1;
                let root = format!("pcie-root-port,id=root{at},chassis={slot},slot={slot}");
                option(args, "-device", &root);
                bus = format!(",bus=root{at}");
            }
            let Port { model, mac, .. } = port;
            let device = format!("{model},id=port{at},netdev=net{at},mac={mac},romfile={bus}");
            option(args, "-device", &device);
        }
    }
}

impl Bmc {
    /// QEMU's own controller.
    fn device(&self) -> String {
        let Bmc { guid, manufacturer_id, product_id, firmware: (major, minor) } = self;
        // The minor version is binary coded decimal (IPMI 2.0 table 20-2).
        let minor = minor / 10 * 16 + minor % 10;
        format!(
            "ipmi-bmc-sim,id=bmc0,guid={guid},mfg_id={manufacturer_id},product_id={product_id},\
             fwrev1={major},fwrev2={minor}"
        )
    }
}

/// Adds an option and its value.
fn option(args: &mut Vec<String>, name: &str, value: &str) {
    args.extend([name.to_owned(), value.to_owned()]);
}
