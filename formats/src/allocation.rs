//! Answers of disks about the blocks that they have allocated: Identify Namespace of NVMe (NVM Command Set
//! Specification 1.0, §4.1.5.1) and GET LBA STATUS of SCSI (SBC-4 §5.6). A block that is not allocated contains no data.

use std::ops::Range;

use crate::bytes::{array, le64};

/// The number of allocated blocks of a namespace; `None` if it does not count them. Only a namespace with thin provisioning
/// (NSFEAT, bit 0) must do so.
pub fn utilization(namespace: &[u8]) -> Option<u64> {
    let [n_blocks, capacity, utilization] = [0, 8, 16].map(|at| le64(namespace, at));
    let is_thin = namespace.get(24).is_some_and(|features| features & 1 != 0);
    (is_thin && n_blocks > 0 && utilization < capacity).then_some(utilization)
}

/// The ranges of blocks that an answer to GET LBA STATUS lists, each with true if it is not allocated.
pub fn extents(answer: &[u8]) -> impl Iterator<Item = (Range<u64>, bool)> {
    // The length counts from the fifth byte on.
    let n_bytes = array(answer, 0).map(u32::from_be_bytes).unwrap_or_default();
    let end = usize::try_from(n_bytes).unwrap_or_default().saturating_add(4).min(answer.len());
    let descriptors = answer.get(8..end).unwrap_or_default().chunks_exact(16);
    descriptors.filter_map(|descriptor| {
        let first = array(descriptor, 0).map(u64::from_be_bytes)?;
        let n_blocks = array(descriptor, 8).map(u32::from_be_bytes)?;
        Some((first..first.saturating_add(n_blocks.into()), descriptor.get(12)? & 0x0f == 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_namespace_with_thin_provisioning_counts_its_blocks() {
        let of = |numbers: [u64; 3], features: u8| {
            [&numbers.map(u64::to_le_bytes).concat()[..], &[features]].concat()
        };
        let namespace = |numbers| of(numbers, 1);
        assert_eq!(utilization(&of([8, 8, 0], 0)), None);
        assert_eq!(utilization(&namespace([8, 8, 8])), None);
        assert_eq!(utilization(&namespace([8, 8, 3])), Some(3));
        assert_eq!(utilization(&namespace([8, 8, 0])), Some(0));
        assert_eq!(utilization(&[0; 4096]), None);
        assert_eq!(utilization(&[]), None);
    }

    #[test]
    fn extents_end_with_the_length_or_with_the_answer() {
        let descriptor = |first: u64, n: u32, status: u8| {
            [&first.to_be_bytes()[..], &n.to_be_bytes(), &[status, 0, 0, 0]].concat()
        };
        let of = |n_bytes: u8, parts: &[Vec<u8>]| -> Vec<(Range<u64>, bool)> {
            let answer = [&[0, 0, 0, n_bytes, 0, 0, 0, 0], &parts.concat()[..]].concat();
            extents(&answer).collect()
        };
        let parts = [descriptor(0, 7, 1), descriptor(7, 9, 0x10)];
        assert_eq!(of(36, &parts), [(0..7, true), (7..16, false)]);
        assert_eq!(of(20, &parts), [(0..7, true)]);
        assert_eq!(of(255, &parts[..1]), [(0..7, true)]);
        assert_eq!(of(0, &parts), []);
        assert_eq!(extents(&[0, 0]).count(), 0);
    }
}
