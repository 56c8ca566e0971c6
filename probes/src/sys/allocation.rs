//! The areas that a disk itself has allocated, read through an open descriptor: the utilization of an NVMe namespace, or
//! GET LBA STATUS of a SCSI disk (SBC-4 §5.6). Most disks do not report them. Needs root.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileTypeExt as _;

use formats::allocation::{extents, utilization};

use super::{nvme, scsi};

/// Maximum number of questions to a SCSI disk; each answer lists up to 31 extents.
const MAX_QUESTIONS: usize = 64;

/// Reads the allocated areas of an open disk, in bytes; `None` if it does not report them. `namespace` is the number of an
/// NVMe namespace; other disks are asked as SCSI disks.
pub fn allocated(
    disk: &File,
    namespace: Option<u32>,
    block_bytes: u64,
    size_bytes: u64,
) -> Option<Vec<Range<u64>>> {
    if !disk.metadata().ok()?.file_type().is_block_device() {
        return None;
    }
    if let Some(nsid) = namespace {
        // Only the number of blocks is known, so only zero is an answer.
        let n_used = utilization(&nvme::identify_namespace(disk, nsid).ok()?)?;
        return (n_used == 0).then(Vec::new);
    }
    let n_blocks = size_bytes.checked_div(block_bytes)?;
    let blocks = collect(n_blocks, &mut |at| scsi::lba_status(disk, at).ok())?;
    Some(blocks.into_iter().map(|at| at.start * block_bytes..at.end * block_bytes).collect())
}

/// Collects the allocated blocks of a disk from its answers; `None` if they do not cover it.
fn collect(n_blocks: u64, ask: &mut dyn FnMut(u64) -> Option<Vec<u8>>) -> Option<Vec<Range<u64>>> {
    let (mut allocated, mut next) = (Vec::new(), 0);
    for _ in 0..MAX_QUESTIONS {
        for (blocks, is_deallocated) in extents(&ask(next)?) {
            if blocks.start > next || blocks.end <= next {
                return None;
            }
            if !is_deallocated {
                allocated.push(next..blocks.end.min(n_blocks));
            }
            next = blocks.end;
        }
        if next >= n_blocks {
            return Some(allocated);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer with one extent.
    fn answer(first: u64, n: u32, status: u8) -> Vec<u8> {
        let head = [0, 0, 0, 20, 0, 0, 0, 0];
        [&head[..], &first.to_be_bytes(), &n.to_be_bytes(), &[status, 0, 0, 0]].concat()
    }

    #[test]
    fn answers_count_only_if_they_cover_the_whole_disk() {
        let of = |answers: &[(u64, u32, u8)]| {
            let mut answers = answers.iter();
            collect(100, &mut |_| {
                answers.next().map(|(first, n, status)| answer(*first, *n, *status))
            })
        };
        assert_eq!(of(&[(0, 100, 1)]), Some(vec![]));
        assert_eq!(
            of(&[(0, 40, 1), (40, 10, 0), (50, 10, 1), (60, 90, 0)]),
            Some(vec![40..50, 60..100])
        );
        assert_eq!(of(&[(0, 40, 1)]), None, "the second question is not answered");
        assert_eq!(of(&[(8, 100, 1)]), None, "a gap");
        assert_eq!(of(&[(0, 40, 1), (0, 40, 1)]), None, "no progress");
        assert_eq!(collect(100, &mut |_| Some(vec![0; 8])), None, "no extent");
    }

    #[test]
    fn file_that_is_no_disk_is_not_asked() {
        let file = File::open("/dev/null").unwrap();
        assert_eq!(super::allocated(&file, Some(1), 512, 512), None);
        assert_eq!(super::allocated(&file, None, 512, 512), None);
    }
}
