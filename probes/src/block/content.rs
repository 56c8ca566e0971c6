//! Reads the first and last few KiB of the disks and their partitions and then asks for their health,
//! each disk on its own thread, so that one that hangs costs no other. At most about 40 KiB are read
//! of a disk and of each of its first partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::guard;
use crate::machine::Machine;
use crate::sys::Question as _;
use crate::sys::disk::{DiskBytes, DiskHandle};

use super::bay::{self, DiskBay};
use super::health::{self, Asked, Health};
use super::partition_table::{Table, table};
use super::scan::{Listed, Scan};
use super::security::DiskSecurity;
use super::signature::{self, Filesystem};
use super::tcg::DiskTcg;

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
    /// What it says of its own health.
    pub health: Option<Health>,
    /// How it can be erased, as far as its controller was asked.
    pub security: Option<DiskSecurity>,
    /// Which TCG standards it follows, and whether it is locked by them.
    pub tcg: Option<DiskTcg>,
    /// Where it sticks.
    pub bay: Option<DiskBay>,
}

/// How one disk is asked for more than its content.
#[derive(Debug, Clone, Default)]
pub(super) struct Asking {
    /// For its health.
    pub way: health::Way,
    /// The bay whose lights the enclosure is asked for.
    pub bay: Option<DiskBay>,
}

impl Content {
    /// Where the partition with the number begins, as the table has it.
    fn start_of(&self, number: u32) -> Option<u64> {
        let mut entries = self.table.as_ref()?.entries.iter();
        entries.find(|entry| entry.number == number).map(|entry| entry.start_bytes)
    }
}

/// What one disk's thread sends: first its content, then its health, so that a disk that hangs when
/// it is asked for the second has lost only that.
enum Part {
    Content(Content),
    Asked(Asked, Option<DiskBay>),
    Ended,
    Broken(guard::Panic),
}

type Send<'a> = &'a dyn Fn(Part);

/// Reads the disks that can hold something, by name. `asking` says how each is asked for more.
pub(super) fn read_all(
    machine: &Machine,
    scan: &Scan,
    asking: &BTreeMap<String, Asking>,
) -> BTreeMap<String, Content> {
    read_with(machine, scan, asking, DEADLINE, read_both)
}

fn read_both(machine: &Machine, device: &Listed, asking: &Asking, send: Send<'_>) {
    let disk = DiskHandle::new(&device.node());
    let content = read(machine, device, &disk);
    // A disk that cannot even be read is not asked for its health.
    let ask = if content.failure.is_some() { health::read_locks } else { health::read };
    send(Part::Content(content));
    let asked = ask(machine, &disk, &asking.way);
    let bay = asking.bay.as_ref().and_then(|bay| bay::ask(machine, bay));
    send(Part::Asked(asked, bay));
}

/// Reads each disk with `read` on a thread of its own. One that does not answer in time is left
/// behind with its thread; the kernel ends the read when it gives up on the disk.
fn read_with(
    machine: &Machine,
    scan: &Scan,
    asking: &BTreeMap<String, Asking>,
    deadline: Duration,
    read: fn(&Machine, &Listed, &Asking, Send<'_>),
) -> BTreeMap<String, Content> {
    let (sender, answers) = mpsc::channel();
    let mut waiting: Vec<&Listed> = Vec::new();
    let mut contents = BTreeMap::new();
    let readable = scan.all().filter(|device| is_readable(device, scan));
    for device in readable.take(MAX_DISKS) {
        let (view, own, sender) = (machine.clone(), device.clone(), sender.clone());
        let asking = asking.get(&device.name).cloned().unwrap_or_default();
        let (failed, name) = (sender.clone(), device.name.clone());
        let work = move || {
            let send = |part| drop(sender.send((own.name.clone(), part)));
            read(&view, &own, &asking, &send);
            send(Part::Ended);
        };
        let on_panic = move |panic| drop(failed.send((name, Part::Broken(panic))));
        match guard::spawn("disk", STACK_BYTES, work, on_panic) {
            Ok(()) => waiting.push(device),
            Err(error) => fail(machine, device, error.to_string(), &mut contents),
        }
    }
    drop(sender);
    let until = Instant::now() + deadline;
    let rest = || until.saturating_duration_since(Instant::now());
    let (mut answered, mut broken, mut n_working) =
        (BTreeSet::new(), BTreeMap::new(), waiting.len());
    while n_working > 0
        && let Ok((name, part)) = answers.recv_timeout(rest())
    {
        match part {
            Part::Ended => n_working -= 1,
            Part::Broken(panic) => {
                n_working -= 1;
                broken.insert(name, format!("a bug in the reader: {panic}"));
            }
            Part::Content(content) => drop(contents.insert(name, content)),
            Part::Asked(found, bay) => {
                let content = contents.entry(name.clone()).or_default();
                (content.health, content.security) = (found.health, found.security);
                content.tcg = found.tcg;
                content.bay = bay;
                answered.insert(name);
            }
        }
    }
    for device in waiting {
        let failure = broken.remove(&device.name);
        let failure =
            failure.unwrap_or_else(|| format!("no answer within {} ms", deadline.as_millis()));
        if !contents.contains_key(&device.name) {
            fail(machine, device, failure, &mut contents);
        } else if !answered.contains(&device.name) {
            machine.problem(&format!("dev/{}", device.node()), failure, "its state of health");
        }
    }
    // The name of the bay is known without the enclosure's answer.
    for (name, asking) in asking.iter().filter(|(_, asking)| asking.bay.is_some()) {
        let content = contents.entry(name.clone()).or_default();
        content.bay = content.bay.take().or_else(|| asking.bay.clone());
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

/// Drives that may have no medium, boot areas of an eMMC and empty disks are not read; paths of a
/// multipath device neither, because it is read itself and a passive path answers with errors.
fn is_readable(device: &Listed, scan: &Scan) -> bool {
    let is_drive = ["sr", "fd", "scd"].iter().any(|prefix| device.name.starts_with(prefix));
    !is_drive
        && scan.head_of(&device.name).is_none()
        && super::eligibility::emmc_parent(&device.name).is_none()
        && device.size_bytes != Some(0)
}

fn read(machine: &Machine, device: &Listed, disk: &DiskHandle) -> Content {
    let mut content = Content::default();
    let question = |offset_bytes: u64, n_bytes: usize| DiskBytes { disk, offset_bytes, n_bytes };
    let mut ask = |offset_bytes: u64, n_bytes: usize| {
        machine.ask(&question(offset_bytes, n_bytes)).filter(|bytes| bytes.len() == n_bytes)
    };
    let Some(first) = ask(0, 4096) else {
        content.failure = failure(machine, &question(0, 4096));
        return content;
    };
    content.is_read = true;
    match table(&first, device.logical_block_bytes.unwrap_or(512), &mut ask) {
        Ok(table) => content.table = table,
        Err(found) => {
            machine.problem(&format!("dev/{}", device.node()), found, "a sound partition table");
        }
    }
    content.filesystem = signature::detect(&first, device.size_bytes, &mut ask);
    for node in device.partitions.iter().take(MAX_PARTITIONS) {
        // The kernel does not say where a partition of a multipath device begins; the table does.
        let start = node.start_bytes.or_else(|| content.start_of(node.number?));
        // An extended partition is two sectors long and holds only others.
        let (Some(start), Some(size @ 4096..)) = (start, node.size_bytes) else { continue };
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
fn failure(machine: &Machine, question: &DiskBytes<'_>) -> Option<String> {
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
    fn a_disk_that_hangs_costs_no_other_disk_and_one_that_hangs_when_asked_only_its_health() {
        let machine = tree(&[
            ("sys/block/sda/size", "2048\n"),
            ("sys/block/sdb/size", "2048\n"),
            ("sys/block/sdc/size", "2048\n"),
            ("sys/block/sdd/size", "2048\n"),
        ]);
        let scan = super::super::scan::scan(&machine);
        let started = Instant::now();
        let asking = BTreeMap::new();
        let deadline = Duration::from_millis(200);
        let contents = read_with(&machine, &scan, &asking, deadline, |_, device, _, send| {
            match device.name.as_str() {
                "sda" => std::thread::sleep(Duration::from_mins(10)),
                "sdb" => panic!("out of cheese"),
                _ => {}
            }
            send(Part::Content(Content { is_read: true, ..Content::default() }));
            if device.name == "sdd" {
                std::thread::sleep(Duration::from_mins(10));
            }
            send(Part::Asked(Asked::default(), None));
        });
        assert!(started.elapsed() < Duration::from_secs(30));
        assert!(contents["sdc"].is_read && contents["sdd"].is_read);
        assert_eq!(contents["sdd"].failure, None);
        assert_eq!(contents["sda"].failure.as_deref(), Some("no answer within 200 ms"));
        let broken = contents["sdb"].failure.as_deref().unwrap();
        assert!(broken.starts_with("a bug in the reader: out of cheese"), "{broken}");
        let problems = machine.problems();
        let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, ["/dev/sda", "/dev/sdb", "/dev/sdd"]);
        assert_eq!(problems[2].expected, "its state of health");
    }
}
