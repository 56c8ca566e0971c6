//! Disks for the tests of this folder.

use formats::gpt::Partition as Entry;
use formats::guid::Guid;
use probes::block::{Disk, Filesystem, Partition};

/// A disk that an order may write, with every kind of name.
pub(super) fn disk(name: &str, size_bytes: u64) -> Disk {
    Disk {
        name: name.into(),
        device: format!("/dev/{name}"),
        size_bytes: Some(size_bytes),
        serial: Some(format!("SERIAL-{name}")),
        wwn: Some(format!("0x5000c500a1b2{:04x}", name.bytes().map(u32::from).sum::<u32>())),
        by_id: vec![format!("/dev/disk/by-id/ata-{name}")],
        by_path: Some(format!("/dev/disk/by-path/pci-{name}")),
        eligible: true,
        ..Disk::default()
    }
}

/// A partition of a disk, with a label and a file system of this kind; empty for none.
pub(super) fn partition(disk: &str, number: u32, label: &str, kind: &str) -> Partition {
    Partition {
        name: format!("{disk}{number}"),
        number: Some(number),
        label: (!label.is_empty()).then(|| label.into()),
        filesystem: (!kind.is_empty()).then(|| filesystem(kind, None)),
        ..Partition::default()
    }
}

/// An entry of a GUID partition table with blocks of 512 bytes.
pub(super) fn gpt_partition(number: u32, name: &str, first_block: u64, n_blocks: u64) -> Entry {
    Entry {
        number,
        type_guid: Guid([1; 16]),
        guid: Guid([2; 16]),
        attributes: 0,
        name: name.into(),
        first_block,
        n_blocks,
        start_bytes: first_block * 512,
        size_bytes: n_blocks * 512,
    }
}

/// A file system of this kind.
pub(super) fn filesystem(kind: &str, label: Option<&str>) -> Filesystem {
    Filesystem { kind: kind.into(), label: label.map(str::to_owned), ..Filesystem::default() }
}

/// Texts as orders have them.
pub(super) fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
