//! Windows of a device in the address space: `resource`
//! (`Documentation/PCI/sysfs-pci.rst`). Reading it does not touch the device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Attributes;
use crate::machine::{Machine, quote};

/// One base address register (PCI Local Bus Specification 3.0, 6.2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bar {
    /// Number of the register, 0 to 5.
    pub index: u8,
    /// Its address space.
    pub kind: BarKind,
    /// Size of the window, in bytes.
    pub size_bytes: u64,
    /// True if reads have no side effects, as with memory.
    pub is_prefetchable: bool,
}

/// The address space of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BarKind {
    /// I/O ports.
    Io,
    /// Memory below 4 GiB.
    Memory32,
    /// Memory anywhere.
    Memory64,
}

/// Line of the expansion ROM, after the six registers (`PCI_ROM_RESOURCE`).
const ROM: usize = 6;
// Flags of `include/linux/ioport.h`.
const IO: u64 = 0x100;
const MEMORY: u64 = 0x200;
const PREFETCH: u64 = 0x2000;
const MEMORY_64: u64 = 0x10_0000;

/// Reads the registers that a device uses, and the size of its ROM's window.
pub(super) fn read(machine: &Machine, attributes: &Attributes) -> (Vec<Bar>, Option<u64>) {
    let Some(path) = attributes.at("resource") else { return (Vec::new(), None) };
    let text = machine.text(&path).unwrap_or_default();
    let (mut bars, mut rom_bytes) = (Vec::new(), None);
    for (line, index) in text.lines().take(ROM + 1).zip(0_u8..) {
        let Some((size_bytes, flags)) = parse(line) else {
            machine.problem(&path, quote(line), "first and last address and flags, hexadecimal");
            return (Vec::new(), None);
        };
        if size_bytes == 0 {
            continue;
        }
        if usize::from(index) == ROM {
            rom_bytes = Some(size_bytes);
        } else if let Some(kind) = kind(flags) {
            let is_prefetchable = flags & PREFETCH != 0;
            bars.push(Bar { index, kind, size_bytes, is_prefetchable });
        }
    }
    (bars, rom_bytes)
}

fn kind(flags: u64) -> Option<BarKind> {
    match flags {
        _ if flags & IO != 0 => Some(BarKind::Io),
        _ if flags & MEMORY_64 != 0 => Some(BarKind::Memory64),
        _ if flags & MEMORY != 0 => Some(BarKind::Memory32),
        _ => None,
    }
}

/// Size and flags of a line; an unused window has the size 0.
fn parse(line: &str) -> Option<(u64, u64)> {
    let mut words =
        line.split(' ').map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let (first, last, flags) = (words.next()??, words.next()??, words.next()??);
    if words.next().is_some() {
        return None;
    }
    match last.checked_sub(first)? {
        0 => Some((0, flags)),
        more => Some((more.checked_add(1)?, flags)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    fn attributes() -> Attributes<'static> {
        Attributes { path: "sys/x", names: vec!["resource".to_owned()] }
    }

    #[test]
    fn registers_have_sizes_and_kinds_and_the_seventh_line_is_the_rom() {
        let empty = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
        let text = format!(
            "0x000000c000000000 0x000000c7ffffffff 0x000000000014220c\n{empty}\
             0x00000000f0000000 0x00000000f0003fff 0x0000000000040200\n\
             0x0000000000001000 0x00000000000010ff 0x0000000000040101\n{empty}{empty}\
             0x00000000f1000000 0x00000000f103ffff 0x0000000000046200\n\
             0x00000000a0000000 0x00000000a0ffffff 0x0000000000140204\n"
        );
        let machine = tree(&[("sys/x/resource", &text)]);
        let (bars, rom_bytes) = read(&machine, &attributes());
        let seen: Vec<_> = bars.iter().map(|bar| (bar.index, bar.kind, bar.size_bytes)).collect();
        let expected = [
            (0, BarKind::Memory64, 32 << 30),
            (2, BarKind::Memory32, 16 << 10),
            (3, BarKind::Io, 256),
        ];
        assert_eq!(seen, expected);
        assert!(bars[0].is_prefetchable && !bars[1].is_prefetchable);
        assert_eq!(rom_bytes, Some(256 << 10));
    }

    #[test]
    fn truncated_or_malformed_file_is_a_problem_and_gives_no_sizes() {
        for text in ["0x00 0x", "x", "0x10 0x0f 0x200", "0x0 0xffffffffffffffff 0x200", "1 2 3 4"] {
            let machine = tree(&[("sys/x/resource", text)]);
            assert_eq!(read(&machine, &attributes()), (Vec::new(), None), "{text}");
            assert_eq!(machine.problems().len(), 1, "{text}");
        }
    }
}
