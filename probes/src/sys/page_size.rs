//! The size of the kernel's base page: `sysconf(_SC_PAGESIZE)`, which the kernel passes to every
//! process in its auxiliary vector (`AT_PAGESZ`, `uapi/linux/auxvec.h`).
//!
//! The whole vector is not recorded: it also contains addresses of this process (`AT_RANDOM`,
//! `AT_PHDR`) that differ from run to run, and its word size is that of the recorded machine.

use std::io;

use nix::unistd::{SysconfVar, sysconf};

use super::Fixed;

/// Asks for the size of a base page in bytes, e.g. `4096`.
pub const PAGE_SIZE: Fixed = Fixed { name: "page_size", ask };

fn ask() -> io::Result<Vec<u8>> {
    let bytes = sysconf(SysconfVar::PAGE_SIZE)?.ok_or(io::ErrorKind::NotFound)?;
    Ok(format!("{bytes}\n").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Question as _;

    #[test]
    fn running_kernel_reports_the_page_size_of_its_auxiliary_vector() {
        const AT_PAGESZ: usize = 6;
        let auxv = std::fs::read("/proc/self/auxv").unwrap();
        let words: Vec<usize> = auxv
            .chunks_exact(size_of::<usize>())
            .map(|bytes| usize::from_ne_bytes(bytes.try_into().unwrap()))
            .collect();
        let entry = words.chunks_exact(2).find(|pair| pair[0] == AT_PAGESZ).unwrap();
        assert_eq!(PAGE_SIZE.ask_live().unwrap(), format!("{}\n", entry[1]).into_bytes());
    }
}
