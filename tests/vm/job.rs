//! The whole job, and the disks of other tests of it.
//!
//! It boots: it shows every step as a user has it, with Ignition's first boot of the live system.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::unistd::{Whence, lseek};
use sha2::{Digest as _, Sha256};

use crate::artifacts::test_folder;
use crate::install::whole_job;
use crate::narrator::Narrator;

const BLOCK_BYTES: usize = 4096;

#[test]
fn a_bare_machine_becomes_an_installed_one_with_the_ignition_that_the_vim_returned() -> Result<()> {
    whole_job("job_whole", &mut Narrator::silent())
}

/// A disk with something on it that an install would destroy; returns its digest.
pub(crate) fn write_old_disk(disk: &Path, size_bytes: u64) -> Result<Vec<u8>> {
    File::create(disk)?.set_len(size_bytes)?;
    let status = Command::new("mkfs.ext4")
        .args(["-q", "-L", "precious"])
        .arg(disk)
        .status()
        .context("running mkfs.ext4")?;
    ensure!(status.success(), "mkfs.ext4: {status}");
    digest(disk)
}

/// SHA-256 of the blocks of a sparse file that contain something, each with its place: reading 3 GiB of holes takes 14 s.
pub(crate) fn digest(path: &Path) -> Result<Vec<u8>> {
    let mut file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut digest = Sha256::new();
    let mut end = 0;
    loop {
        let start = match lseek(&file, end, Whence::SeekData) {
            Err(Errno::ENXIO) => return Ok(digest.finalize().to_vec()),
            start => start?,
        };
        end = lseek(&file, start, Whence::SeekHole)?;
        file.seek(SeekFrom::Start(start.try_into()?))?;
        let mut data = vec![0; (end - start).try_into()?];
        file.read_exact(&mut data)?;
        for (at, block) in (start..).step_by(BLOCK_BYTES).zip(data.chunks(BLOCK_BYTES)) {
            if block.iter().any(|byte| *byte != 0) {
                digest.update(at.to_le_bytes());
                digest.update(block);
            }
        }
    }
}

#[test]
fn digest_changes_with_content_and_place_but_not_with_holes() -> Result<()> {
    let path = test_folder("job_digest")?.join("disk");
    let of = |parts: &[(u64, &[u8])]| {
        let mut file = File::create(&path)?;
        file.set_len(1 << 30)?;
        for (at, bytes) in parts {
            file.seek(SeekFrom::Start(*at))?;
            file.write_all(bytes)?;
        }
        digest(&path)
    };
    let one = of(&[(1 << 20, b"x")])?;
    ensure!(one == of(&[(1 << 20, b"x"), (1 << 29, &[0; 8192])])?, "zeros are as holes");
    ensure!(one != of(&[(1 << 20, b"y")])?, "other content");
    ensure!(one != of(&[(1 << 21, b"x")])?, "another place");
    ensure!(one != of(&[(1 << 20, b"x"), ((1 << 30) - 1, b"x")])?, "one byte more, at the end");
    Ok(())
}
