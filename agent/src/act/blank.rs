//! Checks that a disk is as blank as it seems. Its facts come from its table, its signatures and its first block; a
//! disk whose beginning was erased may be full of data all the same. So blocks all over it are read through the
//! descriptor of the chosen disk, before it counts as blank, and all of its first and last MiB: that is where
//! signatures are.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use super::spread;
use super::target::Target;
use crate::ask::ask_within;

/// Number of blocks to read.
const N_BLOCKS: u64 = 64;
const BLOCK_BYTES: usize = 4096;
/// Number of bytes to read at the beginning and at the end.
const EDGE_BYTES: u64 = 1 << 20;
/// Time limit for reading them.
const LIMIT: Duration = Duration::from_secs(30);

/// Why a disk does not count as blank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotBlank {
    /// There are data at this offset in bytes.
    Data(u64),
    /// It could not be read; the reason.
    Unread(String),
}

/// Reads blocks all over the held disk.
///
/// # Errors
/// It contains data, or could not be read.
pub(super) fn check(target: &Target) -> Result<(), NotBlank> {
    let size_bytes = target.disk().size_bytes;
    let size_bytes = size_bytes.ok_or_else(|| NotBlank::Unread("its size is unknown".into()))?;
    let file = target.file().map_err(|failure| NotBlank::Unread(failure.message.to_string()))?;
    ask_within("blank", LIMIT, target.system().stop(), move || sample(&file, size_bytes))
        .unwrap_or_else(|why| Err(NotBlank::Unread(why.to_string())))
}

fn sample(file: &File, size_bytes: u64) -> Result<(), NotBlank> {
    let block_bytes = BLOCK_BYTES as u64;
    let n_blocks = size_bytes / block_bytes;
    let n_edge = n_blocks.min(EDGE_BYTES / block_bytes);
    let edges = (0..n_edge).chain(n_blocks - n_edge..n_blocks);
    let mut block = [0; BLOCK_BYTES];
    for number in edges.chain(spread(n_blocks, N_BLOCKS)) {
        let offset = number.saturating_mul(block_bytes);
        file.read_exact_at(&mut block, offset).map_err(|error| {
            NotBlank::Unread(format!("reading {BLOCK_BYTES} bytes at {offset}: {error}"))
        })?;
        // Erased flash reads as ones on some drives.
        if block != [0x00; BLOCK_BYTES] && block != [0xff; BLOCK_BYTES] {
            return Err(NotBlank::Data(offset));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(n_bytes: u64, change: &dyn Fn(&File)) -> Result<(), NotBlank> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(n_bytes).unwrap();
        change(&file);
        sample(&file, n_bytes)
    }

    #[test]
    fn data_anywhere_on_the_disk_is_found_and_erased_flash_is_blank() {
        const SIZE: u64 = 1 << 30;
        assert_eq!(sampled(SIZE, &|_| {}), Ok(()));
        let fill = |at: u64, byte: u8, n_mib: u64| {
            move |file: &File| {
                for mib in 0..n_mib {
                    file.write_all_at(&vec![byte; 1 << 20], at + (mib << 20)).unwrap();
                }
            }
        };
        // What is as large as the distance of two blocks cannot be missed.
        let found = sampled(SIZE, &fill(500 << 20, 7, 17));
        assert!(matches!(found, Err(NotBlank::Data(at)) if at >> 20 >= 500), "{found:?}");
        let end = sampled(SIZE, &fill(SIZE - (1 << 20), 7, 1));
        assert_eq!(end, Err(NotBlank::Data(SIZE - (1 << 20))));
        assert_eq!(sampled(SIZE, &fill(500 << 20, 0xff, 17)), Ok(()));
        assert_eq!(sampled(4096, &|_| {}), Ok(()));
        // The second header of LUKS, UFS2, and the table of a GPT at the end.
        for at in [16_384, 65_536 + 1372, SIZE - 17_000] {
            let found = sampled(SIZE, &|file| file.write_all_at(b"SKUL", at).unwrap());
            assert_eq!(found, Err(NotBlank::Data(at / 4096 * 4096)));
        }
    }

    #[test]
    fn disk_that_cannot_be_read_is_not_blank() {
        let cut = sampled(1 << 20, &|file| file.set_len(1 << 19).unwrap());
        assert!(matches!(cut, Err(NotBlank::Unread(_))), "{cut:?}");
    }
}
