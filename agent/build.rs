//! Packs the `OpenAPI` document, which few users print: it is 325 kB of the binary as text, and 37 kB packed.

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::DeflateEncoder;

const DOCUMENT: &str = "vim-api-v1.openapi.json";

fn main() -> Result<(), Box<dyn Error>> {
    writeln!(std::io::stdout(), "cargo::rerun-if-changed={DOCUMENT}")?;
    writeln!(std::io::stdout(), "cargo::rerun-if-changed=build.rs")?;
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&compact(&std::fs::read(DOCUMENT)?))?;
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    std::fs::write(folder.join("openapi.deflate"), packed.finish()?)?;
    Ok(())
}

/// The JSON text without white space between its tokens.
fn compact(json: &[u8]) -> Vec<u8> {
    let (mut is_in_string, mut is_escaped) = (false, false);
    let mut kept = Vec::new();
    for &byte in json {
        if is_in_string || !byte.is_ascii_whitespace() {
            kept.push(byte);
        }
        is_in_string ^= byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
    }
    kept
}
