//! Packs the `OpenAPI` document, which few users print: it is 315 kB of the binary as text, and 45 kB packed.

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;

const DOCUMENT: &str = "vim-api-v1.openapi.json";

fn main() -> Result<(), Box<dyn Error>> {
    writeln!(std::io::stdout(), "cargo::rerun-if-changed={DOCUMENT}")?;
    writeln!(std::io::stdout(), "cargo::rerun-if-changed=build.rs")?;
    let mut packed = Vec::new();
    let document = std::fs::read(DOCUMENT)?;
    zopfli::compress(zopfli::Options::default(), zopfli::Format::Deflate, &*document, &mut packed)?;
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    std::fs::write(folder.join("openapi.packed"), packed)?;
    Ok(())
}
