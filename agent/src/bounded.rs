//! Reads with a size limit, so that no input can exhaust memory.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context as _, ensure};

/// Reads a whole file of at most `max_bytes`.
///
/// # Errors
/// The file cannot be opened or read, or is larger.
pub fn read_file(path: &Path, max_bytes: u64) -> anyhow::Result<Vec<u8>> {
    let name = path.display().to_string();
    read(File::open(path).with_context(|| format!("opening {name}"))?, &name, max_bytes)
}

/// Reads all of an input called `name`, at most `max_bytes`.
///
/// # Errors
/// It cannot be read, or is larger.
pub fn read(input: impl Read, name: &str, max_bytes: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = input.take(max_bytes + 1).read_to_end(&mut bytes);
    read.with_context(|| format!("reading {name}"))?;
    ensure!(bytes.len() as u64 <= max_bytes, "{name} is larger than {max_bytes} bytes");
    Ok(bytes)
}
