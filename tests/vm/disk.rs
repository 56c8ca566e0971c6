//! The guests' disks: how each is attached, and QEMU's devices for it.

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
    /// A namespace of an `NVMe` subsystem, whose controllers are added with its first namespace.
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

/// Units of sizes.
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

impl DiskKind {
    /// A SCSI disk: serial number, WWN, vendor and product, turns a minute, paths.
    pub(crate) fn scsi(
        serial: &'static str,
        wwn: u64,
        [vendor, product]: [&'static str; 2],
        rotation: u32,
        n_paths: usize,
    ) -> Self {
        Self::Scsi { serial, wwn, vendor, product, rotation, n_paths }
    }
}

impl Disk {
    pub(crate) fn new(
        id: &'static str,
        size_bytes: u64,
        sector_bytes: u64,
        kind: DiskKind,
    ) -> Self {
        Self { id, size_bytes, sector_bytes, kind }
    }

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

    /// The controllers that it is attached to; disks of one controller name the same.
    pub(crate) fn controllers(&self) -> Vec<String> {
        match &self.kind {
            DiskKind::Virtio { .. } | DiskKind::Sata { .. } | DiskKind::Nvdimm => Vec::new(),
            DiskKind::Usb { .. } => vec!["qemu-xhci,id=xhci".to_owned()],
            DiskKind::SdCard => vec!["sdhci-pci,id=sdhci".to_owned()],
            // In a fixed slot: in the next free one it would move igb, whose virtual functions use the
            // slot 16 further on, which the chipset may occupy.
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
    pub(crate) fn devices(&self) -> Vec<String> {
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
            // No EUI-64 or NGUID: Linux ignores those of QEMU's controllers, because older ones all had the same.
            DiskKind::Nvme(Namespace { controller, id: nsid, .. }) => {
                format!("nvme-ns,drive={id},bus={controller},nsid={nsid},{blocks}")
            }
            DiskKind::Usb { serial } => {
                format!("usb-storage,bus=xhci.0,drive={id},serial={serial},removable=on")
            }
            DiskKind::SdCard => format!("sd-card,drive={id}"),
            DiskKind::Nvdimm => format!("nvdimm,id=nvdimm-{id},memdev={id}"),
        }]
    }

    /// How often QEMU opens its file: once for each path.
    pub(crate) fn n_drives(&self) -> usize {
        match self.kind {
            DiskKind::Scsi { n_paths, .. } => n_paths,
            DiskKind::Nvdimm => 0,
            _ => 1,
        }
    }

    /// QEMU's name of the file as opened for a path.
    pub(crate) fn drive(&self, path: usize) -> String {
        if path == 0 { self.id.to_owned() } else { format!("{}-{path}", self.id) }
    }
}
