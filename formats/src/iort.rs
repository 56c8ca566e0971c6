//! The ACPI table IORT of Arm machines (Arm DEN 0049): what translates the memory accesses of devices.

use crate::bytes::array;

/// Length of the header of every ACPI table.
const HEADER_BYTES: usize = 36;

/// True if the IORT of an Arm machine has an SMMU; other nodes describe interrupt routing (Arm DEN 0049, tables 2 to 4:
/// number of nodes and offset of the first, then type and length of each).
pub fn has_smmu(table: &[u8]) -> bool {
    let number = |at: usize| array(table, at).map(u32::from_le_bytes);
    let mut n_left = number(HEADER_BYTES).unwrap_or_default();
    let first = number(HEADER_BYTES + 4).and_then(|at| usize::try_from(at).ok());
    let mut rest = first.and_then(|at| table.get(at..)).unwrap_or_default();
    while let (1.., Some(&[kind, low, high])) = (n_left, rest.first_chunk::<3>()) {
        if matches!(kind, 3 | 4) {
            return true;
        }
        n_left -= 1;
        rest = rest.get(usize::from(u16::from_le_bytes([low, high])).max(3)..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IORT with nodes of these types, of 8 bytes each.
    fn iort(types: &[u8]) -> Vec<u8> {
        let mut table = vec![0; 36];
        table.extend(u32::try_from(types.len()).unwrap().to_le_bytes());
        table.extend([48, 0, 0, 0, 0, 0, 0, 0]);
        table.extend(types.iter().flat_map(|kind| [*kind, 8, 0, 0, 0, 0, 0, 0]));
        table
    }

    #[test]
    fn only_nodes_of_an_smmu_count_whatever_is_damaged() {
        assert!(!has_smmu(&iort(&[0, 2])));
        assert!(has_smmu(&iort(&[0, 2, 4])) && has_smmu(&iort(&[3])));
        let whole = iort(&[0, 1, 2]);
        (0..whole.len()).for_each(|length| assert!(!has_smmu(&whole[..length])));
        let mut endless = whole;
        endless[36..40].fill(0xff);
        assert!(!has_smmu(&endless));
    }
}
