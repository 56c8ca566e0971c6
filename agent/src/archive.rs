//! Archives of logs for servers.

use std::io;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, Header};

/// Packs files, by name, into a `tar.gz`.
///
/// # Errors
/// A name is too long for the format.
pub fn tar_gz(files: &[(&str, &[u8])]) -> io::Result<Vec<u8>> {
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for (name, bytes) in files {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, *bytes)?;
    }
    archive.into_inner()?.finish()
}
