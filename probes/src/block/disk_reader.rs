//! Reads one disk: size, blocks, place and identity, from its directory in sysfs and from udev.

use formats::text::is_number;

use crate::ancestors;
use crate::machine::Machine;

use super::content::Content;
use super::controller::controller;
use super::disk::{Disk, UnlistedPartition};
use super::filesystem;
use super::health;
use super::identity::identity;
use super::listing::BlockDevice;
use super::partition::{self, View};
use super::queue;
use super::sysfs_path::hctl;
use super::target;
use super::transport::transport;

/// Reads the disk; eligibility is judged after all disks have been read.
pub(super) fn read(view: &View) -> Disk {
    let View { machine, device, content, .. } = *view;
    let transport = transport(machine, device);
    let answers = content.map(|content| content.answers.clone()).unwrap_or_default();
    let identity = identity(machine, device, transport.as_deref());
    let controller = controller(machine, device, identity.model.as_deref());
    let known = Disk {
        transport: of_volume(transport, controller.is_raid_volume),
        security: identity.security.or(answers.security),
        controller_driver: controller.driver,
        vmd_address: controller.vmd_address,
        is_raid_volume: controller.is_raid_volume,
        raid_level: controller.raid_level,
        bay: answers.bay,
        tcg: answers.tcg,
        health: health::of_files(machine, device, answers.health),
        ..identity
    };
    with_attributes(machine, device, with_place(machine, device, with_contents(view, known)))
}

/// A volume does not have the transport of the drives in it.
fn of_volume(transport: Option<String>, is_raid_volume: Option<bool>) -> Option<String> {
    match transport.as_deref() {
        Some("sas" | "scsi") if is_raid_volume == Some(true) => Some("raid".to_owned()),
        _ => transport,
    }
}

/// Adds the content of the disk, its uses, and its own reports about itself.
fn with_contents(view: &View, disk: Disk) -> Disk {
    let View { machine, device, content, graph } = *view;
    let filesystem = content.and_then(|content| content.filesystem.clone());
    let table = content.and_then(|content| content.table.as_ref());
    let has_bytes = content.is_some_and(|content| content.has_bytes);
    let filesystem = filesystem::compared(machine, &device.path, filesystem, &device.udev);
    let is_recognised = table.is_some() || filesystem.is_some() || !device.partitions.is_empty();
    Disk {
        unlisted: content.map(|content| unlisted(device, content)).unwrap_or_default(),
        has_unknown_content: has_bytes && !is_recognised,
        partition_table: table
            .map(|table| table.kind.to_owned())
            .or_else(|| device.udev.property("ID_PART_TABLE_TYPE").map(str::to_owned)),
        filesystem,
        mounted_at: graph.usage.mounts_of(&device.name),
        is_swap: graph.usage.is_swap(&device.name),
        holders: graph.holders_of(&device.name),
        partitions: partition::partitions(view),
        ..disk
    }
}

/// The partitions that only the table lists.
fn unlisted(device: &BlockDevice, content: &Content) -> Vec<UnlistedPartition> {
    let described = partition::unlisted(device, content.table.as_ref()).map(|entry| {
        let filesystem = content.lost_partitions.get(&entry.number).cloned();
        UnlistedPartition { number: entry.number, label: entry.label.clone(), filesystem }
    });
    described.collect()
}

/// Adds names, numbers and places.
fn with_place(machine: &Machine, device: &BlockDevice, disk: Disk) -> Disk {
    let path = &device.path;
    let is_nvme = device.name.starts_with("nvme");
    Disk {
        name: device.name.clone(),
        device: format!("/dev/{}", device.node()),
        device_number: device.device_number.clone(),
        diskseq: device.number(machine, "diskseq"),
        hctl: hctl(path).map(str::to_owned).or_else(|| linked_hctl(machine, device)),
        by_path: links(device, "disk/by-path/").next(),
        other_paths: links(device, "disk/by-path/").skip(1).collect(),
        by_id: links(device, "disk/by-id/").collect(),
        pci_address: ancestors::pci_address(path),
        numa_node: ancestors::numa_node(machine, path),
        target: target::target(machine, path),
        link_mbit_s: sata_link(machine, path),
        namespace_id: if is_nvme { device.number(machine, "nsid") } else { None },
        ..disk
    }
}

/// Adds the kernel's attributes of the disk.
fn with_attributes(machine: &Machine, device: &BlockDevice, disk: Disk) -> Disk {
    let format = device.text(machine, "integrity/format");
    let hctl = disk.hctl.as_ref();
    let is_read_only = device.flag(machine, "ro");
    Disk {
        size_bytes: device.size_bytes,
        rotational: device.flag(machine, "queue/rotational"),
        integrity_format: format.filter(|format| !["none", "nop"].contains(&format.as_str())),
        protection_type: hctl.and_then(|hctl| protection_type(machine, device, hctl)),
        logical_block_bytes: device.logical_block_bytes,
        physical_block_bytes: device.block_bytes(machine, "queue/physical_block_size"),
        coreos_image: device.logical_block_bytes.and_then(coreos_image).map(str::to_owned),
        is_removable: device.flag(machine, "removable"),
        is_read_only,
        is_write_protected: is_read_only == Some(true) && is_virtio_read_only(machine, device),
        hidden: device.is_hidden,
        state: device.text(machine, "device/state"),
        zoned: device.text(machine, "queue/zoned").filter(|zoned| zoned != "none"),
        queue: queue::read(machine, device),
        ..disk
    }
}

/// In trees whose entries are not links, the disk's `device` link still contains the address.
fn linked_hctl(machine: &Machine, device: &BlockDevice) -> Option<String> {
    if device.path.starts_with("sys/devices/") {
        return None;
    }
    let target = machine.link(&device.at("device")?)?;
    hctl(&target).map(str::to_owned)
}

fn links<'a>(device: &'a BlockDevice, prefix: &'a str) -> impl Iterator<Item = String> + 'a {
    let links = device.udev.links.iter().filter(move |link| link.starts_with(prefix));
    links.map(|link| format!("/dev/{link}"))
}

/// The artifact of the CoreOS stream metadata that fits the logical block size.
fn coreos_image(logical_block_bytes: u32) -> Option<&'static str> {
    match logical_block_bytes {
        512 => Some("metal"),
        4096 => Some("metal4k"),
        _ => None,
    }
}

/// The kernel writes 0 for a disk without protection.
fn protection_type(machine: &Machine, device: &BlockDevice, hctl: &str) -> Option<u32> {
    let attribute = format!("device/scsi_disk/{hctl}/protection_type");
    device.number::<u32>(machine, &attribute).filter(|kind| *kind != 0)
}

/// True if a virtio disk refuses writes: bit 5 of its features, `VIRTIO_BLK_F_RO` (`uapi/linux/virtio_blk.h`).
fn is_virtio_read_only(machine: &Machine, device: &BlockDevice) -> bool {
    let features = device.name.starts_with("vd").then(|| device.text(machine, "device/features"));
    features.flatten().is_some_and(|features| features.as_bytes().get(5) == Some(&b'1'))
}

/// The speed of the SATA link above the disk at `path`: `6.0 Gbps`, or `<unknown>`.
fn sata_link(machine: &Machine, path: &str) -> Option<u32> {
    let is_port = |part: &&str| part.strip_prefix("ata").is_some_and(is_number);
    let port = path.split('/').find(is_port)?;
    let above = &path[..path.find(&format!("/{port}/"))?];
    let link = port.replacen("ata", "link", 1);
    let attribute = format!("{above}/{port}/{link}/ata_link/{link}/sata_spd");
    machine.parse(&attribute, parse_sata_speed).flatten()
}

fn parse_sata_speed(text: &str) -> Result<Option<u32>, &'static str> {
    match text {
        "<unknown>" => Ok(None),
        "1.5 Gbps" => Ok(Some(1500)),
        "3.0 Gbps" => Ok(Some(3000)),
        "6.0 Gbps" => Ok(Some(6000)),
        _ => Err("1.5, 3.0 or 6.0 Gbps, or <unknown>"),
    }
}
