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
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut bytes = Vec::new();
    file.take(max_bytes + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("reading {}", path.display()))?;
    ensure!(bytes.len() as u64 <= max_bytes, "{} is larger than {max_bytes} bytes", path.display());
    Ok(bytes)
}
