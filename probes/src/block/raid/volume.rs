//! A volume in the words of the firmware ([`formats::megaraid::Volume`]).

use formats::megaraid::{self, ListedVolume};

use crate::machine::Machine;

use super::{RaidVolume, naa};

/// A volume with the facts that the list alone contains.
pub(super) fn of_list(machine: &Machine, path: &str, listed: ListedVolume) -> RaidVolume {
    RaidVolume { id: listed.id, state: state(machine, path, listed.state), ..RaidVolume::default() }
}

/// The volume that `info` describes, and the numbers of its arrays.
pub(super) fn parse(
    machine: &Machine,
    path: &str,
    listed: ListedVolume,
    info: &[u8],
) -> Option<(RaidVolume, Vec<u16>)> {
    let found = megaraid::volume(info)?;
    if found.target != listed.id {
        let expected = format!("the requested volume {}", listed.id);
        machine.problem(path, format!("volume {}", found.target), expected);
        return None;
    }
    let volume = RaidVolume {
        id: listed.id,
        name: found.name,
        state: state(machine, path, found.state),
        raid_level: level(found.primary_level, found.secondary_level, found.n_spans),
        wwn: naa(found.page_83),
        ..RaidVolume::default()
    };
    Some((volume, found.arrays?))
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

/// The primary RAID level of DDF. For a volume with several spans the firmware only reports that it has them, or gives
/// it a secondary level too.
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
}
