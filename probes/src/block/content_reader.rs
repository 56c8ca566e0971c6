//! Reads the content of one disk: its partition table, and the first and last few KiB of the disk and each partition:
//! at most 44 KiB of each, in addition to the table itself and the metadata of LVM.
//!
//! Unreadable parts are reported: a part that was not read is not an empty one.

use nix::errno::Errno;

use crate::machine::{Machine, Unanswered};
use crate::sys::disk::{DiskBytes, DiskHandle};

use super::content::Content;
use super::listing::BlockDevice;
use super::obstacle::{Obstacle, ObstacleKind};
use super::partition::{entry_of, unlisted};
use super::partition_table::{self, Entry, Found};
use formats::signature::{self, Filesystem};

/// Most partitions of a disk that are read: as many as the kernel has of one (`DISK_MAX_PARTS`, `include/linux/blkdev.h`).
const MAX_PARTITIONS: usize = 256;
/// Read errors that the disk causes: `ENODATA` is a medium error, `EILSEQ` a failure of data protection (`blk_errors`
/// in `block/blk-core.c`). A lost path or a reservation is not the disk's fault.
const READ_ERRORS: [Errno; 4] = [Errno::EIO, Errno::ENODATA, Errno::EILSEQ, Errno::ETIMEDOUT];
/// What belongs to the end of a disk: the backup of its table, and metadata of arrays and pools.
const END_BYTES: u64 = 1 << 20;
/// Anything shorter cannot contain a signature.
const MIN_BYTES: u64 = 4096;

/// The disk that is read.
struct Place<'a> {
    machine: &'a Machine,
    device: &'a BlockDevice,
    disk: &'a DiskHandle,
}

/// Reads `device` through `disk`.
pub(super) fn read(machine: &Machine, device: &BlockDevice, disk: &DiskHandle) -> Content {
    let place = Place { machine, device, disk };
    let mut content = Content::default();
    let mut whole = Volume::new(&place, 0);
    let Some(first) = whole.read(0, 4096) else {
        content.is_denied = whole.is_denied();
        content.failure = whole.failure.map(|failure| failure.why);
        return content;
    };
    content.is_read = true;
    content.has_bytes = first.iter().any(|byte| *byte != 0);
    let mut found = with_table(device, &mut whole, |at| partition_table::table(&first, at));
    content.filesystem =
        signature::detect(&first, device.size_bytes, &mut |at, n| whole.read(at, n));
    if is_blank(device, &found, content.filesystem.as_ref()) {
        found = with_table(device, &mut whole, partition_table::backup_alone);
    }
    content.has_bytes |= whole.has_data;
    if let Some(problem) = &found.problem {
        machine.problem(&format!("dev/{}", device.node()), problem, "a valid partition table");
    }
    content.is_denied |= whole.is_denied();
    content.unread.extend(whole.failure.map(|failure| failure.describe(&device.name)));
    if found.is_lost() && device.partitions.is_empty() {
        let why = "its partition table is damaged, so the content of its partitions is unknown";
        content.unread.push(ObstacleKind::DamagedTable.because(why));
    }
    content.table = found.table;
    place.partitions(&mut content);
    place.lost_partitions(&mut content);
    content
}

/// Searches for a partition table with `search`.
fn with_table(
    device: &BlockDevice,
    whole: &mut Volume<'_>,
    search: impl FnOnce(&mut partition_table::Place<'_>) -> Found,
) -> Found {
    let block_bytes = device.logical_block_bytes.unwrap_or(512);
    let read = &mut |at: u64, n: usize| whole.read(at, n);
    search(&mut partition_table::Place { block_bytes, size_bytes: device.size_bytes, read })
}

/// True if the disk seems empty, or udev reports a GPT that was not found. Only then is the last block read, which may
/// still contain the backup of a GPT.
fn is_blank(device: &BlockDevice, found: &Found, filesystem: Option<&Filesystem>) -> bool {
    let is_claimed = device.udev.property("ID_PART_TABLE_TYPE") == Some("gpt");
    let is_empty = filesystem.is_none() && device.partitions.is_empty();
    found == &Found::default() && (is_claimed || is_empty)
}

impl Place<'_> {
    /// Reads the partitions that the kernel has.
    fn partitions(&self, content: &mut Content) {
        let partitions = &self.device.partitions;
        if partitions.len() > MAX_PARTITIONS {
            let found = format!("{} partitions", partitions.len());
            let expected = format!("at most {MAX_PARTITIONS}; the content of others is not read");
            let unread = format!("only {MAX_PARTITIONS} of its {found} were read");
            content.unread.push(ObstacleKind::ManyPartitions.because(unread));
            self.machine.problem(&self.device.path, found, expected);
        }
        for node in partitions.iter().take(MAX_PARTITIONS) {
            let entry = content.table.as_ref().and_then(|table| entry_of(table, node));
            // An extended partition only contains others. The kernel exposes its first one or two blocks,
            // which at 4096 bytes a block is enough to resemble the start of a file system
            // (`parse_extended`, `block/partitions/msdos.c`).
            if entry.is_some_and(|entry| entry.is_extended) {
                continue;
            }
            // The kernel does not report the start of a partition of a multipath device; the table does.
            let start = node.start_bytes.or_else(|| entry.map(|entry| entry.start_bytes));
            let (Some(start_bytes), Some(size_bytes)) = (start, node.size_bytes) else {
                let unread = format!("the location of {} is unknown", node.name);
                content.unread.push(ObstacleKind::Unknown.because(unread));
                continue;
            };
            if let Some(found) = self.part(content, &node.name, start_bytes, size_bytes) {
                content.partitions.insert(node.name.clone(), found);
            }
        }
    }

    /// Reads the partitions that are in the table but not in the kernel: from a backup table, which the kernel does not
    /// look for; from a GPT without its boot record; from a table that was written after the kernel read it.
    fn lost_partitions(&self, content: &mut Content) {
        let lost: Vec<Entry> = unlisted(self.device, content.table.as_ref()).cloned().collect();
        if lost.len() > MAX_PARTITIONS {
            let first = format!("only {MAX_PARTITIONS} of the {} partitions", lost.len());
            let unread = format!("{first} that only its table lists were read");
            content.unread.push(ObstacleKind::ManyPartitions.because(unread));
        }
        for Entry { number, start_bytes, size_bytes, .. } in lost.into_iter().take(MAX_PARTITIONS) {
            let name = format!("partition {number}");
            if let Some(found) = self.part(content, &name, start_bytes, size_bytes) {
                content.lost_partitions.insert(number, found);
            }
        }
    }

    /// Reads a partition, and adds what of it cannot be read to `content`.
    fn part(&self, content: &mut Content, name: &str, start: u64, size: u64) -> Option<Filesystem> {
        let mut volume = Volume::new(self, start);
        let found = volume.detect(size);
        content.is_denied |= volume.is_denied();
        content.unread.extend(volume.failure.map(|failure| failure.describe(name)));
        found
    }
}

/// A disk or a part of it.
struct Volume<'a> {
    place: &'a Place<'a>,
    start_bytes: u64,
    /// The first read that failed.
    failure: Option<Failure>,
    /// True if a part was read that is neither zeros nor the ones of erased flash.
    has_data: bool,
}

struct Failure {
    offset_bytes: u64,
    /// True if it lies at the end of the disk.
    is_at_end: bool,
    why: Unanswered,
}

/// True if the disk caused it, and not a missing right or an incomplete capture.
pub(super) fn is_fault(why: &Unanswered) -> bool {
    why.errno.is_some_and(is_read_fault)
}

/// True if a disk that cannot be read with this `errno` is broken itself: not if a right is missing, another host has
/// reserved it, or the path to it is lost.
pub fn is_read_fault(errno: i32) -> bool {
    READ_ERRORS.contains(&Errno::from_raw(errno))
}

impl Failure {
    fn describe(&self, name: &str) -> Obstacle {
        let kind = if self.is_at_end { ObstacleKind::UnreadableEnd } else { ObstacleKind::Unknown };
        let Self { offset_bytes, why, .. } = self;
        kind.because(format!("{name} cannot be read at byte {offset_bytes}: {}", why.why))
    }
}

impl<'a> Volume<'a> {
    fn new(place: &'a Place<'a>, start_bytes: u64) -> Volume<'a> {
        Volume { place, start_bytes, failure: None, has_data: false }
    }

    fn read(&mut self, offset_bytes: u64, n_bytes: usize) -> Option<Vec<u8>> {
        let at = self.start_bytes.checked_add(offset_bytes)?;
        let Place { machine, device, disk } = self.place;
        let why = match machine.ask_or_why(&DiskBytes { disk, offset_bytes: at, n_bytes }) {
            Ok(bytes) if bytes.len() == n_bytes => {
                let is_only = |wanted: u8| bytes.iter().all(|byte| *byte == wanted);
                self.has_data |= !is_only(0) && !is_only(0xff);
                return Some(bytes);
            }
            Ok(bytes) => {
                let end = at.checked_add(n_bytes as u64)?;
                let is_there = device.size_bytes.is_none_or(|end_bytes| end <= end_bytes);
                let why = format!("only {} of {n_bytes} bytes", bytes.len());
                is_there.then_some(Unanswered { why, ..Unanswered::default() })
            }
            Err(why) => why,
        };
        let is_at_end = device.size_bytes.is_some_and(|size| at.saturating_add(END_BYTES) >= size);
        let failure = why.map(|why| Failure { offset_bytes, is_at_end, why });
        // An order may overrule the end alone, so another place counts more.
        let is_only_end = self.failure.as_ref().is_some_and(|known| known.is_at_end);
        if self.failure.is_none() || is_only_end && failure.as_ref().is_some_and(|f| !f.is_at_end) {
            self.failure = failure;
        }
        None
    }

    fn is_denied(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.why.is_denied)
    }

    fn detect(&mut self, size_bytes: u64) -> Option<Filesystem> {
        if size_bytes < MIN_BYTES {
            return None;
        }
        let first = self.read(0, 4096)?;
        signature::detect(&first, Some(size_bytes), &mut |at, n| self.read(at, n))
    }
}

#[cfg(test)]
mod tests {
    use formats::gpt::{Partition, build::build};
    use formats::guid::Guid;

    use crate::block::Disk;
    use crate::machine::Machine;
    use crate::testing::{tree_from_bytes, tree_of_bytes};

    /// A disk of 1 MiB with these files below its directory, and answers for all that is asked.
    fn machine(bytes: &[u8], files: &[(String, String)], errors: &str) -> Machine {
        assert_eq!(bytes.len(), 1 << 20);
        let mut all: Vec<(String, &[u8])> = vec![
            ("sys/block/sda/size".to_owned(), b"2048\n"),
            ("proc/self/mountinfo".to_owned(), b"1 0 0:1 / / rw - tmpfs none rw\n"),
            ("proc/swaps".to_owned(), b"Filename\n"),
            ("kernel/errors".to_owned(), errors.as_bytes()),
        ];
        let files = files.iter();
        all.extend(files.map(|(path, text)| (format!("sys/block/sda/{path}"), text.as_bytes())));
        let places = (0..bytes.len()).step_by(4096);
        let places = places.flat_map(|at| [(at, 4096), (at, 8192), (at, 12_288)]);
        for (at, n) in places.chain([(2047 * 512, 512), (2015 * 512, 16_384)]) {
            if let Some(part) = bytes.get(at..at + n) {
                all.push((format!("kernel/disk/sda/{at}-{n}"), part));
            }
        }
        tree_from_bytes(&all)
    }

    fn disk(machine: &Machine) -> Disk {
        crate::block::block(machine).disks.remove(0)
    }

    fn partition(number: usize, start: usize, n_sectors: usize) -> [(String, String); 3] {
        let values = [("partition", number), ("start", start), ("size", n_sectors)];
        values.map(|(name, value)| (format!("sda{number}/{name}"), format!("{value}\n")))
    }

    /// Adds the label of an LVM member at sector 64.
    fn add_member(bytes: &mut [u8]) {
        bytes[65 * 512..65 * 512 + 8].copy_from_slice(b"LABELONE");
        bytes[65 * 512 + 24..65 * 512 + 32].copy_from_slice(b"LVM2 001");
    }

    /// A disk whose backup table alone is left: one partition from sector 64 on, an LVM member.
    fn with_backup() -> Vec<u8> {
        let partition = Partition {
            number: 1,
            type_guid: Guid([7; 16]),
            guid: Guid([9; 16]),
            first_block: 64,
            n_blocks: 64,
            ..Partition::default()
        };
        let table = build(&[partition], Guid([1; 16]), 2048, 512).unwrap();
        let mut bytes = vec![0; (1 << 20) - table.end.len()];
        bytes.extend(table.end);
        add_member(&mut bytes);
        bytes
    }

    #[test]
    fn blank_disk_is_eligible_without_problems() {
        let machine = machine(&vec![0; 1 << 20], &[], "");
        let disk = disk(&machine);
        assert!(disk.eligible && disk.partition_table.is_none(), "{disk:?}");
        assert_eq!(machine.problems(), []);
    }

    #[test]
    fn disk_with_a_backup_table_alone_is_not_empty_and_its_members_are_found() {
        let machine = machine(&with_backup(), &[], "");
        let disk = disk(&machine);
        assert_eq!(disk.partition_table.as_deref(), Some("gpt"));
        assert!(disk.not_eligible_because[0].contains("only the backup table has"), "{disk:?}");
        assert!(disk.not_eligible_because[0].ends_with("LVM2_member"));
        let problems = machine.problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].found, "nothing at LBA 1, and a sound backup at LBA 2047");
    }

    #[test]
    fn backup_without_members_leaves_the_disk_eligible() {
        let mut bytes = with_backup();
        bytes[65 * 512..66 * 512].fill(0);
        let disk = disk(&machine(&bytes, &[], ""));
        assert!(disk.eligible && disk.partition_table.is_some(), "{disk:?}");
    }

    #[test]
    fn damaged_table_without_backup_is_not_an_empty_disk() {
        let mut bytes = vec![0; 1 << 20];
        (bytes[510], bytes[511], bytes[446 + 4]) = (0x55, 0xaa, 0xee);
        let machine = machine(&bytes, &[], "");
        let disk = disk(&machine);
        assert!(disk.not_eligible_because[0].contains("partition table is damaged"), "{disk:?}");
        assert!(machine.problems()[0].found.ends_with("no backup at LBA 2047"));
    }

    #[test]
    fn unreadable_partition_or_end_does_not_count_as_empty() {
        let files = partition(1, 64, 64);
        let reasons = |errors: &str| {
            let machine = machine(&vec![0; 1 << 20], &files, errors);
            let disk = disk(&machine);
            assert_eq!(machine.problems().len(), 1, "{:?}", machine.problems());
            disk.not_eligible_because.join("; ")
        };
        let found = reasons("5 kernel/disk/sda/32768-4096\n");
        // The same bytes are also read as part of the whole disk.
        assert!(found.contains("sda1 cannot be read at byte 0: "), "{found}");
        let found = reasons("5 kernel/disk/sda/1036288-12288\n");
        assert!(found.starts_with("sda cannot be read at byte 1036288: "), "{found}");
    }

    #[test]
    fn short_read_within_the_disk_does_not_count_as_empty() {
        let whole = machine(&vec![0; 1 << 20], &[], "");
        assert!(disk(&whole).eligible);
        let size: &[u8] = b"2048\n";
        let (first, second) = (vec![0; 4096], vec![0; 100]);
        let of = |first: &[u8]| {
            let files = [
                ("sys/block/sda/size", size),
                ("proc/self/mountinfo", b"1 0 0:1 / / rw - tmpfs none rw\n"),
                ("kernel/disk/sda/0-4096", first),
                ("kernel/disk/sda/4096-4096", &second),
            ];
            disk(&tree_of_bytes(&files)).not_eligible_because
        };
        assert_eq!(of(&first), ["sda cannot be read at byte 4096: only 100 of 4096 bytes"]);
        assert_eq!(of(&second), ["its first bytes cannot be read: only 100 of 4096 bytes"]);
    }

    /// A disk whose table has one partition of this kind from sector 64 on, and an LVM member there.
    fn with_member(kind: u8) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 20];
        (bytes[510], bytes[511]) = (0x55, 0xaa);
        (bytes[446 + 4], bytes[446 + 8], bytes[446 + 12]) = (kind, 64, 64);
        add_member(&mut bytes);
        bytes
    }

    #[test]
    fn member_on_a_partition_unknown_to_the_kernel_is_found() {
        let disk = disk(&machine(&with_member(0x8e), &[], ""));
        assert_eq!(
            disk.not_eligible_because,
            ["partition 1, which the kernel does not have, is a member of an array or pool: \
                 LVM2_member"]
        );
    }

    #[test]
    fn partition_is_read_even_if_an_extended_one_elsewhere_has_its_number() {
        let mut bytes = with_member(5);
        bytes[446 + 8] = 128;
        let disk = disk(&machine(&bytes, &partition(1, 64, 64), ""));
        let filesystem = disk.partitions[0].filesystem.as_ref();
        assert_eq!(filesystem.map(|found| found.kind.as_str()), Some("LVM2_member"));
        assert!(!disk.eligible);
    }

    #[test]
    fn every_partition_is_read_and_more_than_a_disk_can_have_make_it_ineligible() {
        let of = |n: usize| {
            let files: Vec<_> = (1..=n).flat_map(|number| partition(number, 64, 64)).collect();
            let mut bytes = vec![0; 1 << 20];
            bytes[64 * 512..64 * 512 + 4].copy_from_slice(b"XFSB");
            let machine = machine(&bytes, &files, "");
            (disk(&machine), machine.problems())
        };
        let (disk, problems) = of(40);
        assert_eq!(problems, []);
        let last = disk.partitions[39].filesystem.as_ref();
        assert_eq!(last.map(|found| found.kind.as_str()), Some("xfs"));
        let (disk, problems) = of(260);
        assert_eq!(disk.not_eligible_because, ["only 256 of its 260 partitions were read"]);
        assert_eq!(problems[0].found, "260 partitions");
    }

    #[test]
    fn first_block_of_an_extended_partition_on_a_4kn_disk_is_not_a_file_system() {
        let mut bytes = vec![0; 1 << 20];
        (bytes[510], bytes[511]) = (0x55, 0xaa);
        for (at, value) in [(446 + 4, 5), (446 + 8, 16), (446 + 12, 8)] {
            bytes[at] = value;
        }
        // What an older file system left there.
        bytes[16 * 4096 + 4086..17 * 4096].copy_from_slice(b"SWAPSPACE2");
        let mut files = partition(1, 128, 8).to_vec();
        files.push(("queue/logical_block_size".to_owned(), "4096\n".to_owned()));
        let disk = disk(&machine(&bytes, &files, ""));
        assert_eq!(disk.partition_table.as_deref(), Some("dos"));
        assert_eq!(disk.partitions[0].filesystem, None);
    }
}
