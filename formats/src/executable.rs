//! The machine that a boot loader or kernel is for.
//!
//! PE: Microsoft "PE Format", Machine Types; a Linux kernel with an EFI stub is one. ELF: System V gABI, `e_machine`.

use crate::bytes::{le16, le32};

/// Length of a file's beginning that contains the headers.
pub const FIRST_BYTES: usize = 4096;

/// The architecture as Rust names it, e.g. `x86_64`, by the first bytes of a program; `None` if it is of no known form.
pub fn architecture(first: &[u8]) -> Option<&'static str> {
    let pe_at = usize::try_from(le32(first, 0x3c)).ok()?;
    let pe = first.get(pe_at..).filter(|pe| first.starts_with(b"MZ") && pe.starts_with(b"PE\0\0"));
    if let Some(pe) = pe {
        return match le16(pe, 4) {
            0x014c => Some("x86"),
            0x8664 => Some("x86_64"),
            0xaa64 => Some("aarch64"),
            0x5064 => Some("riscv64"),
            _ => None,
        };
    }
    let machine = le16(first, 18);
    let is_big_endian = first.get(5) == Some(&2);
    match if is_big_endian { machine.swap_bytes() } else { machine } {
        _ if !first.starts_with(b"\x7fELF") => None,
        3 => Some("x86"),
        21 => Some("powerpc64"),
        22 => Some("s390x"),
        62 => Some("x86_64"),
        183 => Some("aarch64"),
        _ => None,
    }
}

/// True if a program for `found` runs on a machine of the architecture `own`. A 64-bit machine may have 32-bit firmware.
pub fn runs_on(found: &str, own: &str) -> bool {
    found == own || (found == "x86" && own == "x86_64")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architecture_of_loaders_and_kernels_is_recognised() {
        let pe = |machine: u16| {
            let mut bytes = vec![0; 0x80];
            bytes[..2].copy_from_slice(b"MZ");
            bytes[0x3c] = 0x40;
            bytes[0x40..0x44].copy_from_slice(b"PE\0\0");
            bytes[0x44..0x46].copy_from_slice(&machine.to_le_bytes());
            bytes
        };
        assert_eq!(architecture(&pe(0x8664)), Some("x86_64"));
        assert_eq!(architecture(&pe(0xaa64)), Some("aarch64"));
        assert_eq!(architecture(&pe(0)), None);
        let elf = |order: u8, machine: [u8; 2]| {
            [&b"\x7fELF\x02"[..], &[order], &[0; 12], &machine].concat()
        };
        assert_eq!(architecture(&elf(1, [62, 0])), Some("x86_64"));
        assert_eq!(architecture(&elf(2, [0, 22])), Some("s390x"));
        for unknown in [&[][..], b"MZ", &[0; FIRST_BYTES]] {
            assert_eq!(architecture(unknown), None);
        }
        assert!(runs_on("x86", "x86_64") && !runs_on("aarch64", "x86_64"));
    }
}
