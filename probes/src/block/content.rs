//! Reads the first and last few KiB of the disks and their partitions, each disk on its own thread,
//! so that one that hangs costs no other. At most about 40 KiB are read of a disk and of each of its
//! first partitions.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::machine::Machine;
use crate::sys::Question as _;
use crate::sys::disk::DiskBytes;

use super::disk::extent;
use super::partition_table::{Table, table};
use super::scan::{Device, Scan};
use super::signature::{self, Filesystem};

/// How long all disks together may take; a healthy disk takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(5);
/// Most disks that are read at once; more are left to udev.
const MAX_DISKS: usize = 512;
/// Most partitions of a disk that are read.
const MAX_PARTITIONS: usize = 32;

/// What was read from one disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// Its partition table.
    pub table: Option<Table>,
    /// What stands on the whole disk.
    pub filesystem: Option<Filesystem>,
    /// What stands on the partitions, by their names.
    pub partitions: BTreeMap<String, Filesystem>,
    /// Why its first bytes could not be read; `None` where they were, or where the source has none.
    pub failure: Option<String>,
}

/// Reads the disks that can hold something, by name.
pub(super) fn read_all(machine: &Machine, scan: &Scan) -> BTreeMap<String, Content> {
    let (send, answers) = mpsc::channel();
    let mut waiting: Vec<&Device> = Vec::new();
    for device in scan.disks.iter().filter(|device| is_readable(device)).take(MAX_DISKS) {
        let (view, own, send) = (machine.clone(), device.clone(), send.clone());
        let work = move || {
            let content = read(&view, &own);
            send.send((own.name, content)).ok();
        };
        let builder = thread::Builder::new().name(device.name.clone()).stack_size(256 << 10);
        match builder.spawn(work) {
            Ok(_) => waiting.push(device),
            Err(error) => problem_of(machine, device, &error.to_string()),
        }
    }
    drop(send);
    let until = Instant::now() + DEADLINE;
    let mut contents = BTreeMap::new();
    while let Ok((name, content)) =
        answers.recv_timeout(until.saturating_duration_since(Instant::now()))
    {
        contents.insert(name, content);
    }
    for device in waiting
        .into_iter()
        .filter(|device| !contents.contains_key(&device.name))
        .collect::<Vec<_>>()
    {
        let failure = format!("no answer within {} s", DEADLINE.as_secs());
        problem_of(machine, device, &failure);
        contents
            .insert(device.name.clone(), Content { failure: Some(failure), ..Content::default() });
    }
    contents
}

fn problem_of(machine: &Machine, device: &Device, found: &str) {
    machine.problem(&format!("dev/{}", device.node()), found, "its first 4096 bytes");
}

/// Drives that may have no medium, boot areas of an eMMC and empty disks are not read.
fn is_readable(device: &Device) -> bool {
    let is_drive = ["sr", "fd", "scd"].iter().any(|prefix| device.name.starts_with(prefix));
    !is_drive
        && super::eligibility::emmc_parent(&device.name).is_none()
        && device.size_bytes != Some(0)
}

fn read(machine: &Machine, device: &Device) -> Content {
    let mut content = Content::default();
    let question = |offset_bytes: u64, n_bytes: usize| DiskBytes {
        device: device.node(),
        offset_bytes,
        n_bytes,
    };
    let mut ask = |offset_bytes: u64, n_bytes: usize| {
        machine.ask(&question(offset_bytes, n_bytes)).filter(|bytes| bytes.len() == n_bytes)
    };
    let Some(first) = ask(0, 4096) else {
        content.failure = failure(machine, &question(0, 4096));
        return content;
    };
    let block_bytes =
        machine.number(&format!("{}/queue/logical_block_size", device.path)).unwrap_or(512);
    match table(&first, block_bytes, &mut ask) {
        Ok(table) => content.table = table,
        Err(found) => {
            machine.problem(&format!("dev/{}", device.node()), found, "a sound partition table")
        }
    }
    content.filesystem = signature::detect(&first, device.size_bytes, &mut ask);
    for node in device.partitions.iter().take(MAX_PARTITIONS) {
        let (start, size) = extent(machine, &format!("{}/{}", device.path, node.name));
        // An extended partition is two sectors long and holds only others.
        let (Some(start), Some(size @ 4096..)) = (start, size) else { continue };
        let mut ask =
            |offset_bytes: u64, n_bytes: usize| ask(start.checked_add(offset_bytes)?, n_bytes);
        let Some(first) = ask(0, 4096) else { continue };
        if let Some(found) = signature::detect(&first, Some(size), &mut ask) {
            content.partitions.insert(node.name.clone(), found);
        }
    }
    content
}

/// Why `question` was not answered; `None` where the source has no answer to it at all.
fn failure(machine: &Machine, question: &DiskBytes) -> Option<String> {
    let path = format!("/{}", question.name());
    machine
        .problems()
        .into_iter()
        .find(|problem| problem.path.ends_with(&path))
        .map(|problem| problem.found)
}

#[cfg(test)]
mod tests {
    use crate::testing::tree_of_bytes;

    #[test]
    fn a_captured_disk_is_read_with_its_partitions() {
        let mut first = vec![0; 4096];
        (first[510], first[511], first[446 + 4]) = (0x55, 0xaa, 0x83);
        (first[446 + 8], first[446 + 12]) = (8, 1);
        let mut xfs = vec![0; 4096];
        xfs[..4].copy_from_slice(b"XFSB");
        xfs[108..112].copy_from_slice(b"root");
        let machine = tree_of_bytes(&[
            ("sys/block/sda/size", b"2048\n"),
            ("sys/block/sda/sda1/partition", b"1\n"),
            ("sys/block/sda/sda1/start", b"8\n"),
            ("sys/block/sda/sda1/size", b"1024\n"),
            ("kernel/disk/sda/0-4096", &first),
            ("kernel/disk/sda/4096-4096", &xfs),
        ]);
        let disk = &super::super::block(&machine).disks[0];
        assert_eq!(disk.partition_table.as_deref(), Some("dos"));
        assert_eq!(disk.partitions[0].type_uuid.as_deref(), Some("0x83"));
        let filesystem = disk.partitions[0].filesystem.as_ref().unwrap();
        assert_eq!((filesystem.kind.as_str(), filesystem.label.as_deref()), ("xfs", Some("root")));
    }

    #[test]
    fn a_disk_that_could_not_be_read_when_it_was_captured_says_so() {
        let machine = tree_of_bytes(&[
            ("sys/block/sda/size", b"2048\n"),
            ("kernel/errors", b"5 kernel/disk/sda/0-4096\n"),
        ]);
        let disk = &super::super::block(&machine).disks[0];
        assert!(!disk.eligible);
        assert!(disk.not_eligible_because[0].contains("cannot be read"), "{disk:?}");
    }
}
