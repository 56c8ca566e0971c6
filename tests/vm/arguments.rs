//! QEMU's arguments for the hardware of a guest.

use std::path::Path;

use anyhow::{Context, Result};

use crate::artifacts::{Artifact, artifact};
use crate::disk::DiskKind;
use crate::ipmi;
use crate::machine::{Bmc, Machine, Port};
use crate::smbios;

impl Machine {
    /// QEMU's arguments for this hardware; creates missing disks and SMBIOS files in `folder`.
    pub(crate) fn arguments(&self, folder: &Path) -> Result<Vec<String>> {
        let n_cpus = self.n_sockets * self.n_cores * self.n_threads;
        let smp = format!(
            "{n_cpus},sockets={},cores={},threads={}",
            self.n_sockets, self.n_cores, self.n_threads
        );
        let mut args = Vec::new();
        if self.has_uefi {
            firmware_arguments(&mut args, folder)?;
        }
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
        args.extend_from_slice(&self.more);
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

    /// A CXL type 3 device with volatile memory. QEMU attaches later devices without a bus to the CXL bus, so this comes last.
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

    /// Each disk with its backing file (sparse, created here if missing), and controllers where the first needs one.
    pub(crate) fn disk_arguments(&self, args: &mut Vec<String>, folder: &Path) -> Result<()> {
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

    /// Network ports, directly on the root complex: behind a root port, virtio-net sometimes failed at power-on.
    fn port_arguments(&self, args: &mut Vec<String>) {
        for (at, port) in self.ports.iter().enumerate() {
            let net = match (at, port.reaches_host) {
                (0, true) if !self.forwards.is_empty() => format!(",{}", self.forwards.join(",")),
                (_, true) => String::new(),
                (_, false) => format!(",net=10.0.{}.0/24,restrict=on", at + 2),
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

/// OVMF with variables of the guest's own, which later boots from the same folder keep.
fn firmware_arguments(args: &mut Vec<String>, folder: &Path) -> Result<()> {
    let variables = folder.join("uefi-variables.fd");
    if !variables.exists() {
        std::fs::copy(artifact(Artifact::OVMF_VARIABLES)?, &variables)
            .context("copying the firmware's variables")?;
    }
    let code = artifact(Artifact::OVMF_CODE)?.display().to_string();
    option(args, "-drive", &format!("if=pflash,format=raw,readonly=on,file={code}"));
    option(args, "-drive", &format!("if=pflash,format=raw,file={}", variables.display()));
    Ok(())
}

/// A virtio disk whose image, `NAME.raw` in this folder, is made now, and whose `sector` cannot be read; `device` has
/// its serial number.
pub(crate) fn damaged_disk(
    folder: &Path,
    (name, size_bytes, sector): (&str, u64, Option<u64>),
    device: &str,
) -> Result<Vec<String>> {
    let image = folder.join(format!("{name}.raw"));
    std::fs::File::create(&image)?.set_len(size_bytes)?;
    let fault = sector.map_or(String::new(), |sector| {
        format!(
            ",inject-error.0.event=none,inject-error.0.iotype=read,inject-error.0.errno=5,inject-error.0.sector={sector}"
        )
    });
    let image = image.display();
    let file =
        format!("driver=blkdebug,node-name={name},image.driver=file,image.filename={image}{fault}");
    let mut args = Vec::new();
    option(&mut args, "-blockdev", &file);
    option(&mut args, "-device", &format!("virtio-blk-pci,drive={name},{device}"));
    Ok(args)
}

/// Adds an option and its value.
pub(crate) fn option(args: &mut Vec<String>, name: &str, value: &str) {
    args.extend([name.to_owned(), value.to_owned()]);
}

/// Arguments without blanks in them.
pub(crate) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
