//! `capture`: writes what was read to a `tar.zst` that `--root` replays.
//!
//! The report that was made of the same reads lies in it as `report.json`. The finished file is
//! replayed once, and where that gives another report, it is said.

mod anonymize;
mod difference;
mod draft;
mod tree;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use probes::collect::Options;
use probes::machine::{Recorded, Source};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::output;
use crate::report::{Report, report};
use crate::signals::Stop;
use draft::Draft;

/// Name of the report in the archive. No replay reads it.
const REPORT: &str = "report.json";

/// Writes `recorded` and the `report` that was made of it to `file`, and replays the file: returns
/// where the two reports differ, times apart. Told to end, it leaves no file.
///
/// # Errors
/// If the file cannot be written, or cannot be read back.
pub fn write(
    recorded: &Recorded,
    report: &Report,
    options: &Options,
    file: &Path,
    stop: &Stop,
) -> anyhow::Result<Vec<String>> {
    let mut draft = Draft::new(file)?;
    let differing = put(&mut draft, recorded, &output::json(report)?, options)?;
    keep(draft, stop)?;
    Ok(differing)
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
    file: &Path,
    stop: &Stop,
) -> anyhow::Result<Vec<String>> {
    let mut draft = Draft::new(file)?;
    let report = output::json(report)?;
    let recorded = anonymize::anonymize(recorded, &output::tree(&report)?)?;
    pack(&recorded, &[], &mut draft)?;
    let anonymous = replay(draft.path(), options)?;
    let mut differing = put(&mut draft, &recorded, &anonymous, options)?;
    differing.extend(difference::other_shapes(&report, &anonymous)?);
    keep(draft, stop)?;
    Ok(differing)
}

/// Writes all of it into `draft` and replays that.
fn put(
    draft: &mut Draft,
    recorded: &Recorded,
    report: &str,
    options: &Options,
) -> anyhow::Result<Vec<String>> {
    pack(recorded, &[(REPORT, report.as_bytes())], draft)?;
    difference::differences(report, &replay(draft.path(), options)?)
}

fn keep(draft: Draft, stop: &Stop) -> anyhow::Result<()> {
    ensure!(!stop.is_stopped(), "told to end; no capture was written");
    draft.keep()
}

fn pack(recorded: &Recorded, more: &[(&str, &[u8])], draft: &mut Draft) -> anyhow::Result<()> {
    let tar = tree::pack(recorded, more).context("packing the capture")?;
    draft.write(&compress_to_vec(tar.as_slice(), CompressionLevel::Fastest))
}

/// The report of a captured machine as JSON.
fn replay(file: &Path, options: &Options) -> anyhow::Result<String> {
    let source =
        Source::captured(file).with_context(|| format!("reading back {}", file.display()))?;
    output::json(&report(&Arc::new(source), options))
}
