//! `capture`: writes what was read to a `tar.zst` that `--root` replays.
//!
//! The report that was made of the same reads lies in it as `report.json`. The finished file is
//! replayed once, and where that gives another report, it is said.

mod anonymize;
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
    pack(recorded, &[(REPORT, json.as_bytes())], output)?;
    Ok(difference::differences(report, &replay(output, options)?))
}

/// As [`write()`], without what names this machine, its disks, its network and its owner. The report in
/// the file is that of the replay; returned is where it tells of another machine, apart from names.
///
/// # Errors
/// As [`write()`], or if there are no random numbers.
pub fn write_anonymized(
    recorded: &Recorded,
    report: &Report,
    options: &Options,
    output: &Path,
) -> anyhow::Result<Vec<String>> {
    let recorded = anonymize::anonymize(recorded, report)?;
    pack(&recorded, &[], output)?;
    let anonymous = replay(output, options)?;
    let mut differing = write(&recorded, &anonymous, options, output)?;
    differing.extend(difference::other_shapes(report, &anonymous));
    Ok(differing)
}

fn pack(recorded: &Recorded, more: &[(&str, &[u8])], output: &Path) -> anyhow::Result<()> {
    let tar = tree::pack(recorded, more).context("packing the capture")?;
    let packed = compress_to_vec(tar.as_slice(), CompressionLevel::Fastest);
    std::fs::write(output, packed).with_context(|| format!("writing {}", output.display()))
}

/// The report of a captured machine.
fn replay(file: &Path, options: &Options) -> anyhow::Result<Report> {
    let source =
        Source::captured(file).with_context(|| format!("reading back {}", file.display()))?;
    Ok(report(&Arc::new(source), options))
}
