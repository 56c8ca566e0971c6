//! A volume in the words of the firmware: an entry of `struct MR_LD_LIST`
//! (`drivers/scsi/megaraid/megaraid_sas.h`) and `struct mfi_ld_info`, 384 bytes (FreeBSD `mfireg.h`,
//! illumos `mfi_ld.h`, QEMU `mfi.h`, which agree).

use crate::machine::Machine;

use super::bytes::{text_at, u16_at, u32_at, u64_at};
use super::{RaidVolume, naa};

/// Volumes in a list.
const LIMIT_VOLUMES: usize = 64;
/// Spans of a volume.
const LIMIT_SPANS: u8 = 8;

/// Length of the structure.
pub(super) const N_BYTES: usize = 384;

const TARGET: usize = 0;
const NAME: usize = 4;
const PRIMARY_LEVEL: usize = 32;
const SECONDARY_LEVEL: usize = 34;
const SPAN_DEPTH: usize = 37;
const STATE: usize = 38;
const SPANS: usize = 64;
const SPAN_BYTES: usize = 24;
const ARRAY_IN_SPAN: usize = 16;
const PAGE_83: usize = 304;

/// A volume as the list has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listed {
    pub id: u8,
    pub state: u8,
    pub n_blocks: u64,
}

/// The volumes in the answer to `MR_DCMD_LD_GET_LIST`.
pub(super) fn list(answer: &[u8]) -> Option<Vec<Listed>> {
    let n_volumes = usize::try_from(u32_at(answer, 0)?).ok()?.min(LIMIT_VOLUMES);
    let entry = |at: usize| {
        let entry = answer.get(8 + at * 16..)?;
        Some(Listed { id: *entry.first()?, state: *entry.get(4)?, n_blocks: u64_at(entry, 8)? })
    };
    (0..n_volumes).map(entry).collect()
}

/// What the list alone says of a volume.
pub(super) fn of_list(machine: &Machine, path: &str, listed: Listed) -> RaidVolume {
    RaidVolume { id: listed.id, state: state(machine, path, listed.state), ..RaidVolume::default() }
}

/// The volume that `info` describes, and the numbers of its arrays.
pub(super) fn parse(
    machine: &Machine,
    path: &str,
    listed: Listed,
    info: &[u8],
) -> Option<(RaidVolume, Vec<u16>)> {
    let target = *info.get(TARGET)?;
    if target != listed.id {
        let expected = format!("the requested volume {}", listed.id);
        machine.problem(path, format!("volume {target}"), expected);
        return None;
    }
    let n_spans = info.get(SPAN_DEPTH)?.clamp(&1, &LIMIT_SPANS);
    let array_of = |span: u8| u16_at(info, SPANS + usize::from(span) * SPAN_BYTES + ARRAY_IN_SPAN);
    let arrays: Option<Vec<u16>> = (0..*n_spans).map(array_of).collect();
    let volume = RaidVolume {
        id: listed.id,
        name: text_at(info, NAME, 16),
        state: state(machine, path, *info.get(STATE)?),
        raid_level: level(*info.get(PRIMARY_LEVEL)?, *info.get(SECONDARY_LEVEL)?, *n_spans),
        wwn: info.get(PAGE_83..PAGE_83 + 64).and_then(naa),
        ..RaidVolume::default()
    };
    Some((volume, arrays?))
}

fn state(machine: &Machine, path: &str, code: u8) -> Option<String> {
    let name = match code {
        0 => "offline",
        1 => "partially degraded",
        2 => "degraded",
        3 => "optimal",
        _ => {
            machine.problem(path, format!("volume state {code}"), "a number from 0 to 3");
            return None;
        }
    };
    Some(name.to_owned())
}

/// The primary RAID level of DDF. The firmware says of a volume with several spans only that it has
/// them, or gives it a secondary level too.
fn level(primary: u8, secondary: u8, n_spans: u8) -> Option<String> {
    let name = match primary {
        0x00 => "0",
        0x01 => "1",
        0x03 => "3",
        0x04 => "4",
        0x05 => "5",
        0x06 => "6",
        0x11 => "1E",
        0x15 => "5E",
        0x25 => "5EE",
        0x0f => return Some("JBOD".to_owned()),
        0x1f => return Some("concatenation".to_owned()),
        _ => return None,
    };
    let is_spanned = n_spans > 1 || secondary != 0;
    Some(format!("RAID {name}{}", if is_spanned { "0" } else { "" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirror_of_several_spans_is_raid_10_even_if_firmware_says_raid_1() {
        let level = |primary, secondary, n_spans| level(primary, secondary, n_spans).unwrap();
        assert_eq!(level(1, 0, 1), "RAID 1");
        assert_eq!(level(1, 0, 2), "RAID 10");
        assert_eq!(level(1, 3, 1), "RAID 10");
        assert_eq!((level(5, 0, 1), level(6, 0, 3)), ("RAID 5".into(), "RAID 60".into()));
        assert_eq!(super::level(0x99, 0, 1), None);
    }

    #[test]
    fn list_shorter_than_its_count_is_refused() {
        let mut answer = vec![0; 8 + 2 * 16];
        (answer[0], answer[24], answer[28]) = (2, 5, 3);
        let both = list(&answer).unwrap();
        assert_eq!((both[1].id, both[1].state, both.len()), (5, 3, 2));
        answer[0] = 3;
        assert_eq!(list(&answer), None);
        assert_eq!(list(&[]), None);
        answer.resize(8 + 64 * 16, 0);
        answer[..4].fill(0xff);
        assert_eq!(list(&answer).unwrap().len(), 64);
    }
}
