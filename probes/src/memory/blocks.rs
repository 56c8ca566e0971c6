//! Memory blocks: `/sys/devices/system/memory` (`Documentation/ABI/testing/sysfs-devices-memory`).
//!
//! Kernels and architectures without memory hot-plug have no blocks; some Arm kernels have blocks
//! and no size. A terabyte has some 8000 blocks, so they are read only on request.

use crate::machine::Machine;

const DIR: &str = "sys/devices/system/memory";

/// Sums over the blocks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    pub(super) online_bytes: u64,
    pub(super) offline_bytes: u64,
}

/// Reads the blocks; `None` where there are none or their size is not known.
pub(super) fn blocks(machine: &Machine) -> Option<Blocks> {
    let block_bytes = machine.parse(&format!("{DIR}/block_size_bytes"), |text| {
        let size = u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
        size.filter(|size| *size > 0).ok_or("the size of a block in hexadecimal")
    })?;
    let (mut n_online, mut n_offline) = (0_u64, 0_u64);
    for name in machine.list(DIR) {
        if name.strip_prefix("memory").is_none_or(|number| number.parse::<u64>().is_err()) {
            continue;
        }
        match machine.parse(&format!("{DIR}/{name}/state"), parse_state) {
            Some(true) => n_online += 1,
            Some(false) => n_offline += 1,
            // A block of which nothing is known makes both sums unknown.
            None => return None,
        }
    }
    let bytes = |n: u64| n.checked_mul(block_bytes);
    Some(Blocks { online_bytes: bytes(n_online)?, offline_bytes: bytes(n_offline)? })
}

/// Whether the block is online; one that is going offline still is.
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

    const FILES: [(&str, &str); 5] = [
        ("sys/devices/system/memory/block_size_bytes", "8000000"),
        ("sys/devices/system/memory/memory0/state", "online"),
        ("sys/devices/system/memory/memory32/state", "online"),
        ("sys/devices/system/memory/memory33/state", "offline"),
        ("sys/devices/system/memory/probe", ""),
    ];

    #[test]
    fn online_and_offline_blocks_are_told_apart_and_read_only_on_request() {
        let machine = tree(&FILES);
        assert_eq!(memory(&machine).online_blocks_bytes, None);
        let machine = machine.with_extras(Extras { memory_blocks: true, ..Extras::default() });
        let memory = memory(&machine);
        assert_eq!(memory.online_blocks_bytes, Some(256 << 20));
        assert_eq!(memory.offline_blocks_bytes, Some(128 << 20));
    }

    #[test]
    fn blocks_without_a_size_and_states_that_are_none_make_no_number() {
        assert_eq!(blocks(&tree(&FILES[1..])), None);
        let machine = tree(&[FILES[0], ("sys/devices/system/memory/memory0/state", "asleep")]);
        assert_eq!(blocks(&machine), None);
        assert_eq!(machine.problems().len(), 1);
    }
}
