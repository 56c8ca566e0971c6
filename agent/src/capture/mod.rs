//! `capture`: writes what was read to a `tar.zst` that `--root` replays.
//!
//! The report that was made of the same reads lies in it as `report.json`. The finished file is
//! replayed once, and where that gives another report, it is said.

mod difference;
mod tree;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use probes::collect::Options;
use probes::machine::{Recorded, Source};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::output;
use crate::report::{Report, report};

/// Name of the report in the archive. No replay reads it.
const REPORT: &str = "report.json";

/// Writes `recorded` and the `report` that was made of it to `output`, and replays the file: returns
/// where the two reports differ, times apart.
///
/// # Errors
/// If the file cannot be written, or cannot be read back.
pub fn write(
    recorded: &Recorded,
    report: &Report,
    options: &Options,
    output: &Path,
) -> anyhow::Result<Vec<String>> {
    let json = output::json(report)?;
    let tar = tree::pack(recorded, &[(REPORT, json.as_bytes())]).context("packing the capture")?;
    let packed = compress_to_vec(tar.as_slice(), CompressionLevel::Fastest);
    std::fs::write(output, packed).with_context(|| format!("writing {}", output.display()))?;
    Ok(difference::differences(report, &replay(output, options)?))
}

/// The report of a captured machine.
fn replay(file: &Path, options: &Options) -> anyhow::Result<Report> {
    let source =
        Source::captured(file).with_context(|| format!("reading back {}", file.display()))?;
    Ok(report(&Arc::new(source), options))
}
