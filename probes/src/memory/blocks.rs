//! Memory blocks: `/sys/devices/system/memory` (`Documentation/ABI/testing/sysfs-devices-memory`).
//!
//! Kernels and architectures without memory hot-plug have no blocks; some Arm kernels have blocks but
//! report no size. A terabyte has about 8000 blocks, so they are read only on request.

use std::collections::BTreeMap;

use super::Memory;
use crate::machine::Machine;

const DIR: &str = "sys/devices/system/memory";

/// Fills the sums over the blocks unless there are none, or their size is unknown.
pub(super) fn fill(memory: &mut Memory, machine: &Machine) -> Option<()> {
    let block_bytes = machine.parse(&format!("{DIR}/block_size_bytes"), |text| {
        let size = u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
        size.filter(|size| *size > 0).ok_or("the size of a block in hexadecimal")
    })?;
    let (mut online_bytes, mut offline_bytes) = (0_u64, 0_u64);
    let mut bytes_by_zone = BTreeMap::<String, u64>::new();
    for name in machine.names(DIR) {
        if name.strip_prefix("memory").is_none_or(|number| number.parse::<u64>().is_err()) {
            continue;
        }
        let add = |sum: &mut u64| sum.checked_add(block_bytes).map(|more| *sum = more);
        // A block in an unknown state makes both sums unknown.
        if machine.parse(&format!("{DIR}/{name}/state"), parse_state)? {
            add(&mut online_bytes)?;
            if let Some(zone) = zone(machine, &name) {
                add(bytes_by_zone.entry(zone).or_default())?;
            }
        } else {
            add(&mut offline_bytes)?;
        }
    }
    memory.online_blocks_bytes = Some(online_bytes);
    memory.offline_blocks_bytes = Some(offline_bytes);
    memory.online_blocks_bytes_by_zone = bytes_by_zone;
    Some(())
}

/// The zone of an online block, e.g. `Normal`, `Movable` (`valid_zones`, since Linux 3.18); `None` for one
/// that spans several.
fn zone(machine: &Machine, name: &str) -> Option<String> {
    let text = machine.text(&format!("{DIR}/{name}/valid_zones"))?;
    let zone = text.split_whitespace().next().filter(|zone| *zone != "none")?;
    // A kernel has about five zones; a name consists of letters and digits.
    let is_name = zone.len() <= 16 && zone.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_name.then(|| zone.to_owned())
}

/// True if the block is online; a block that is going offline still counts as online.
fn parse_state(text: &str) -> Result<bool, &'static str> {
    match text {
        "online" | "going-offline" => Ok(true),
        "offline" => Ok(false),
        _ => Err("online, offline or going-offline"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Extras;
    use crate::memory::memory;
    use crate::testing::tree;

    const FILES: [(&str, &str); 8] = [
        ("sys/devices/system/memory/block_size_bytes", "8000000"),
        ("sys/devices/system/memory/memory0/state", "online"),
        ("sys/devices/system/memory/memory32/state", "online"),
        ("sys/devices/system/memory/memory33/state", "offline"),
        ("sys/devices/system/memory/probe", ""),
        ("sys/devices/system/memory/memory0/valid_zones", "none\n"),
        ("sys/devices/system/memory/memory32/valid_zones", "Movable\n"),
        ("sys/devices/system/memory/memory33/valid_zones", "Normal Movable\n"),
    ];

    #[test]
    fn online_and_offline_blocks_are_distinguished_and_read_only_on_request() {
        let machine = tree(&FILES);
        assert_eq!(memory(&machine).online_blocks_bytes, None);
        let machine = machine.with_extras(Extras { memory_blocks: true, ..Extras::default() });
        let memory = memory(&machine);
        assert_eq!(memory.online_blocks_bytes, Some(256 << 20));
        assert_eq!(memory.offline_blocks_bytes, Some(128 << 20));
        // One block spans several zones, and an offline one could go into either.
        let zones = BTreeMap::from([("Movable".to_owned(), 128 << 20)]);
        assert_eq!(memory.online_blocks_bytes_by_zone, zones);
    }

    #[test]
    fn blocks_without_a_size_or_with_an_invalid_state_give_no_sum() {
        let sums = |machine: &Machine| {
            let mut memory = Memory::default();
            (fill(&mut memory, machine), memory)
        };
        assert_eq!(sums(&tree(&FILES[1..])), (None, Memory::default()));
        let machine = tree(&[FILES[0], ("sys/devices/system/memory/memory0/state", "asleep")]);
        assert_eq!(sums(&machine), (None, Memory::default()));
        assert_eq!(machine.problems().len(), 1);
    }
}
