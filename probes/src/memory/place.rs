//! The DIMMs that an error may be in, where the label of the memory controller's driver is not a slot name.
//!
//! Intel's drivers number sockets, controllers, channels and slots (`drivers/edac/skx_common.c`, `sb_edac.c`). Boards with
//! AMI's firmware, such as Supermicro's, have the same numbers in the bank locator of SMBIOS type 17.

use super::Memory;

/// Start of the driver's label, e.g. `CPU_SrcID#0_MC#1_Chan#2_DIMM#0`.
const LABEL: &str = "CPU_SrcID#";
/// The bank locator without its numbers, e.g. `P0_Node1_Channel2_Dimm0`.
const BANK: &str = "P_Node_Channel_Dimm";

/// Socket, memory controller or node, channel, slot.
type Place = [u32; 4];

/// Indices of the DIMMs that the label in `text` may mean: one if the join is certain, those of its socket if it is not;
/// none if nothing is known.
pub(crate) fn candidates(memory: &Memory, text: &str) -> Vec<usize> {
    let populated =
        || memory.dimms.iter().enumerate().filter(|(_, dimm)| dimm.is_populated != Some(false));
    let banks: Option<Vec<(usize, Place)>> = populated()
        .map(|(index, dimm)| Some((index, of_bank(dimm.bank_locator.as_deref()?)?)))
        .collect();
    let (Some(label), Some(mut banks)) = (of_label(text), banks) else { return Vec::new() };
    // Boards whose nodes are the sockets number the channels of the whole socket, the driver those of a controller.
    let are_nodes_sockets = banks.iter().all(|(_, [socket, node, ..])| socket == node);
    banks.retain(|(_, place)| place[0] == label[0]);
    let labels = memory.ecc.iter().filter_map(|row| Some((row, of_label(row.label.as_deref()?)?)));
    let has_one_controller = labels.clone().all(|(_, place)| place[1] == 0);
    let is_meant = |place: &Place| {
        if are_nodes_sockets {
            has_one_controller && place[2..] == label[2..]
        } else {
            place[1..] == label[1..]
        }
    };
    let mut counted = labels.filter(|(_, place)| *place == label);
    let size_bytes = counted.next().and_then(|(row, _)| row.size_bytes);
    let mut meant = banks.iter().filter(|(_, place)| is_meant(place));
    if let (Some((index, _)), None) = (meant.next(), meant.next())
        // Another size means that the two number their slots differently.
        && memory.dimms.get(*index).is_some_and(|dimm| dimm.size_bytes == size_bytes)
    {
        return vec![*index];
    }
    banks.into_iter().map(|(index, _)| index).collect()
}

fn of_label(text: &str) -> Option<Place> {
    let numbers = text.get(text.find(LABEL)? + LABEL.len()..)?;
    let end = numbers.find(|c: char| c != '#' && c != '_' && !c.is_ascii_alphanumeric());
    let numbers = numbers.get(..end.unwrap_or(numbers.len()))?;
    numbers_of(numbers.split(['#', '_']))
}

fn of_bank(bank: &str) -> Option<Place> {
    let words: String = bank.chars().filter(|c| !c.is_ascii_digit()).collect();
    (words == BANK).then(|| numbers_of(bank.split(|c: char| !c.is_ascii_digit()))).flatten()
}

/// The four numbers among `words`.
fn numbers_of<'a>(words: impl Iterator<Item = &'a str>) -> Option<Place> {
    let numbers: Vec<u32> = words.filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Dimm, EccCount};

    fn memory(banks: &[&str], labels: &[&str]) -> Memory {
        let dimm = |bank: &&str| Dimm {
            bank_locator: Some((*bank).to_owned()),
            size_bytes: Some(16 << 30),
            ..Dimm::default()
        };
        let row = |label: &&str| EccCount {
            label: Some((*label).to_owned()),
            size_bytes: Some(16 << 30),
            ..EccCount::default()
        };
        Memory {
            dimms: banks.iter().map(dimm).collect(),
            ecc: labels.iter().map(row).collect(),
            ..Memory::default()
        }
    }

    const LABELS: [&str; 2] = ["CPU_SrcID#1_MC#1_Chan#2_DIMM#0", "CPU_SrcID#0_MC#0_Chan#0_DIMM#0"];
    const BANKS: [&str; 4] = [
        "P0_Node0_Channel0_Dimm0",
        "P1_Node0_Channel2_Dimm0",
        "P1_Node1_Channel2_Dimm0",
        "P1_Node1_Channel2_Dimm1",
    ];

    #[test]
    fn label_with_the_numbers_of_one_bank_means_its_dimm() {
        let memory = memory(&BANKS, &LABELS);
        let text = "3 errors since boot, counted at mc3/dimm4, driver label CPU_SrcID#1_MC#1_Chan#2_DIMM#0";
        assert_eq!(candidates(&memory, text), [2]);
        let message = "EDAC MC0: 1 CE on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0)";
        assert_eq!(candidates(&memory, message), [0]);
        assert!(candidates(&memory, "driver label mc#0csrow#0channel#0").is_empty());
        assert!(candidates(&memory, "CPU_SrcID#1_MC#1").is_empty());
    }

    #[test]
    fn uncertain_join_suspects_the_dimms_of_the_socket() {
        let mut other_size = memory(&BANKS, &LABELS);
        other_size.dimms[2].size_bytes = Some(32 << 30);
        assert_eq!(candidates(&other_size, LABELS[0]), [1, 2, 3]);
        let whole =
            ["P0_Node0_Channel0_Dimm0", "P1_Node1_Channel0_Dimm0", "P1_Node1_Channel2_Dimm0"];
        assert_eq!(candidates(&memory(&whole, &LABELS), LABELS[0]), [1, 2], "two controllers");
        let single = ["CPU_SrcID#1_Ha#0_Chan#2_DIMM#0"];
        assert_eq!(candidates(&memory(&whole, &single), single[0]), [2]);
    }

    #[test]
    fn board_with_other_bank_names_leaves_every_dimm_possible() {
        for bank in ["NODE 1", "BANK 0", "P1_Node1_Channel2_Dimm99999999999", ""] {
            let banks = [BANKS[0], bank];
            assert!(candidates(&memory(&banks, &LABELS), LABELS[0]).is_empty(), "{bank}");
        }
        let mut board = memory(&[BANKS[2], "unknown"], &LABELS);
        board.dimms[1].is_populated = Some(false);
        assert_eq!(candidates(&board, LABELS[0]), [0], "an empty slot has no errors");
    }
}
