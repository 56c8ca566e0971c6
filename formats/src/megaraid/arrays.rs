//! Drives of an array: the answer to `MR_DCMD_CFG_READ`, a header of 32 bytes, arrays of 288, volumes of 256 and spares
//! of 40 bytes (`struct mfi_config_data` in FreeBSD, illumos and QEMU).

use std::collections::BTreeMap;

use crate::bytes::{array, le16};

const HEADER_BYTES: usize = 32;
const ARRAY_BYTES: usize = 288;
const N_DRIVES: usize = 8;
const NUMBER: usize = 10;
const DRIVES: usize = 32;
const DRIVE_BYTES: usize = 8;
const MISSING: u16 = 0xffff;

/// The members of an array by device id; `None` for one that is missing.
pub type Members = Vec<Option<u16>>;

/// Length of the whole configuration.
pub fn n_bytes(answer: &[u8]) -> Option<usize> {
    usize::try_from(array(answer, 0).map(u32::from_le_bytes)?).ok()
}

/// The members of each array by its number; `None` if the answer does not have the expected form.
pub fn arrays(answer: &[u8]) -> Option<BTreeMap<u16, Members>> {
    let header = answer.get(..HEADER_BYTES)?;
    let n_arrays = usize::from(le16(header, 4));
    // QEMU reports the length of all arrays, controllers that of one. Any other length means another
    // structure.
    let stated = usize::from(le16(header, 6));
    if n_arrays > 0 && stated != ARRAY_BYTES && stated != n_arrays * ARRAY_BYTES {
        return None;
    }
    let all = answer.get(HEADER_BYTES..HEADER_BYTES + n_arrays * ARRAY_BYTES)?;
    let arrays = all.chunks_exact(ARRAY_BYTES);
    arrays.map(|array| Some((le16(array, NUMBER), members(array)?))).collect()
}

fn members(array: &[u8]) -> Option<Members> {
    let rows = array.get(DRIVES..)?.get(..usize::from(array[N_DRIVES]) * DRIVE_BYTES)?;
    let ids = rows.chunks_exact(DRIVE_BYTES).map(|row| le16(row, 0));
    Some(ids.map(|id| (id != MISSING).then_some(id)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(stated: u16, arrays: &[(u16, &[u16])]) -> Vec<u8> {
        let mut all = vec![0; HEADER_BYTES + arrays.len() * ARRAY_BYTES];
        all[4] = u8::try_from(arrays.len()).unwrap();
        all[6..8].copy_from_slice(&stated.to_le_bytes());
        for (array, (number, drives)) in all[HEADER_BYTES..].chunks_mut(ARRAY_BYTES).zip(arrays) {
            array[N_DRIVES] = u8::try_from(drives.len()).unwrap();
            array[NUMBER..NUMBER + 2].copy_from_slice(&number.to_le_bytes());
            for (row, drive) in array[DRIVES..].chunks_mut(DRIVE_BYTES).zip(*drives) {
                row[..2].copy_from_slice(&drive.to_le_bytes());
            }
        }
        all
    }

    #[test]
    fn array_lists_its_drives_and_missing_members() {
        for stated in [288, 576] {
            let answer = configuration(stated, &[(0, &[8, 9]), (3, &[10, 0xffff])]);
            let arrays = arrays(&answer).unwrap();
            assert_eq!(arrays[&0], [Some(8), Some(9)]);
            assert_eq!(arrays[&3], [Some(10), None]);
        }
    }

    #[test]
    fn arrays_of_unexpected_length_are_not_guessed() {
        assert_eq!(arrays(&configuration(544, &[(0, &[8])])), None);
        let mut answer = configuration(288, &[(0, &[8])]);
        answer[4] = 2;
        assert_eq!(arrays(&answer), None);
        answer[4] = 1;
        answer[HEADER_BYTES + N_DRIVES] = 33;
        assert_eq!(arrays(&answer), None);
        assert_eq!(arrays(&[]), None);
    }
}
