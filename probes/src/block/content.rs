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
use super::scan::{Listed, Scan};
use super::signature::{self, Filesystem};

/// How long all disks together may take; a healthy disk takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(5);
/// Most disks that are read at once; more are left to udev.
const MAX_DISKS: usize = 512;
/// Enough for the buffers of one read, which lie on the heap.
const STACK_BYTES: usize = 256 << 10;
/// Most partitions of a disk that are read.
const MAX_PARTITIONS: usize = 32;

/// What was read from one disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// Whether its first bytes were read.
    pub is_read: bool,
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
    read_with(machine, scan, DEADLINE, read)
}

/// Reads each disk with `read` on a thread of its own. One that does not answer in time is left
/// behind with its thread; the kernel ends the read when it gives up on the disk.
fn read_with(
    machine: &Machine,
    scan: &Scan,
    deadline: Duration,
    read: fn(&Machine, &Listed) -> Content,
) -> BTreeMap<String, Content> {
    let (send, answers) = mpsc::channel();
    let mut waiting: Vec<&Listed> = Vec::new();
    let mut contents = BTreeMap::new();
    for device in scan.disks.iter().filter(|device| is_readable(device)).take(MAX_DISKS) {
        let (view, own, send) = (machine.clone(), device.clone(), send.clone());
        let work = move || {
            let content = read(&view, &own);
            send.send((own.name, content)).ok();
        };
        match thread::Builder::new().name("disk".to_owned()).stack_size(STACK_BYTES).spawn(work) {
            Ok(_) => waiting.push(device),
            Err(error) => fail(machine, device, error.to_string(), &mut contents),
        }
    }
    drop(send);
    let until = Instant::now() + deadline;
    let rest = || until.saturating_duration_since(Instant::now());
    while let Ok((name, content)) = answers.recv_timeout(rest()) {
        contents.insert(name, content);
    }
    for device in waiting {
        if !contents.contains_key(&device.name) {
            let failure = format!("no answer within {} ms", deadline.as_millis());
            fail(machine, device, failure, &mut contents);
        }
    }
    contents
}

fn fail(
    machine: &Machine,
    device: &Listed,
    failure: String,
    contents: &mut BTreeMap<String, Content>,
) {
    machine.problem(&format!("dev/{}", device.node()), failure.clone(), "its first 4096 bytes");
    let content = Content { failure: Some(failure), ..Content::default() };
    contents.insert(device.name.clone(), content);
}

/// Drives that may have no medium, boot areas of an eMMC and empty disks are not read.
fn is_readable(device: &Listed) -> bool {
    let is_drive = ["sr", "fd", "scd"].iter().any(|prefix| device.name.starts_with(prefix));
    !is_drive
        && super::eligibility::emmc_parent(&device.name).is_none()
        && device.size_bytes != Some(0)
}

fn read(machine: &Machine, device: &Listed) -> Content {
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
    content.is_read = true;
    let block_bytes =
        machine.number(&format!("{}/queue/logical_block_size", device.path)).unwrap_or(512);
    match table(&first, block_bytes, &mut ask) {
        Ok(table) => content.table = table,
        Err(found) => {
            machine.problem(&format!("dev/{}", device.node()), found, "a sound partition table");
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
    use super::*;
    use crate::testing::{tree, tree_of_bytes};

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

    #[test]
    fn a_disk_that_hangs_or_breaks_its_reader_costs_no_other_disk() {
        let machine = tree(&[
            ("sys/block/sda/size", "2048\n"),
            ("sys/block/sdb/size", "2048\n"),
            ("sys/block/sdc/size", "2048\n"),
        ]);
        let scan = super::super::scan::scan(&machine);
        let started = Instant::now();
        let contents = read_with(&machine, &scan, Duration::from_millis(200), |_, device| {
            match device.name.as_str() {
                "sda" => thread::sleep(Duration::from_mins(10)),
                "sdb" => panic!("out of cheese"),
                _ => {}
            }
            Content { is_read: true, ..Content::default() }
        });
        assert!(started.elapsed() < Duration::from_secs(30));
        assert!(contents["sdc"].is_read);
        for name in ["sda", "sdb"] {
            assert_eq!(contents[name].failure.as_deref(), Some("no answer within 200 ms"));
        }
        let paths: Vec<String> = machine.problems().into_iter().map(|p| p.path).collect();
        assert_eq!(paths, ["/dev/sda", "/dev/sdb"]);
    }
}
