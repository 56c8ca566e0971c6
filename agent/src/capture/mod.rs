//! `capture`: writes everything that was read to a `tar.zst` that `--root` replays.
//!
//! The report from the same reads is in it as `report.json`. The finished file is
//! replayed once; if the replay gives a different report, `capture` says so.

mod anonymize;
mod difference;
mod leaks;
mod tree;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use probes::collect::Options;
use probes::machine::{Archive, Recorded, Source};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::Value;

use crate::output;
use crate::output::draft::{Draft, PRIVATE};
use crate::report::{Report, report};
use crate::signals::Stop;
use leaks::{Identifiers, Leak};

/// Name of the report in the archive. Replays do not read it.
const REPORT: &str = "report.json";

/// Writes `recorded` and its `report` to `file`, and replays the file: returns the differences between the two reports,
/// except for times. If a signal arrives, no file is left.
///
/// An anonymous file lacks the identifiers of this machine, its disks, its network and its owner. It contains the report of
/// the replay; returned are also the places where that describes another machine, apart from names.
///
/// # Errors
/// If the file cannot be written, or cannot be read back. For an anonymous one also if there are no random numbers, or if an
/// identifier of the original report is left anywhere: then nothing is written.
pub fn write(
    recorded: &Recorded,
    report: &Report,
    options: &Options,
    file: &Path,
    is_anonymous: bool,
    stop: &Stop,
) -> anyhow::Result<Vec<String>> {
    let put = |recorded: &Recorded, report: &str| {
        let packed = packed(recorded, &[(REPORT, report.as_bytes())])?;
        let draft = Draft::new(file, PRIVATE, &packed)?;
        let path = draft.path();
        let source =
            Source::captured(path).with_context(|| format!("reading back {}", path.display()))?;
        let differing = difference::differences(report, &replay(source, options)?)?;
        ensure!(!stop.is_stopped(), "ended by a signal; no capture was written");
        draft.keep()?;
        anyhow::Ok(differing)
    };
    let report = output::json(report)?;
    if !is_anonymous {
        return put(recorded, &report);
    }
    let original = output::tree(&report)?;
    let identifiers = Identifiers::of(&original, recorded);
    let recorded = anonymize::anonymize(recorded, &original)?;
    let packed = packed(&recorded, &[])?;
    let archive = Archive::unpack(packed.as_slice()).context("unpacking the capture")?;
    let anonymous = replay(Source::unpacked(archive), options)?;
    refuse_leaks(&identifiers.left_in(&recorded, &anonymous)?)?;
    let mut differing = put(&recorded, &anonymous)?;
    differing.extend(difference::other_shapes(&report, &anonymous)?);
    Ok(differing)
}

/// Reports each leak's kind and place, never its value: the message may be passed on.
fn refuse_leaks(leaks: &[Leak]) -> anyhow::Result<()> {
    const LISTED: usize = 5;
    if leaks.is_empty() {
        return Ok(());
    }
    let list = |leak: &Leak| format!("{} in {}", leak.key, leak.path);
    let mut text = leaks.iter().take(LISTED).map(list).collect::<Vec<String>>().join(", ");
    if let Some(n_more) = leaks.len().checked_sub(LISTED).filter(|n| *n > 0) {
        text = format!("{text} and {n_more} more");
    }
    bail!(
        "the anonymized capture still contains identifiers ({text}); nothing was written; please report this bug"
    )
}

fn packed(recorded: &Recorded, more: &[(&str, &[u8])]) -> anyhow::Result<Vec<u8>> {
    let tar = tree::pack(recorded, more).context("packing the capture")?;
    Ok(compress_to_vec(tar.as_slice(), CompressionLevel::Fastest))
}

/// Returns a captured machine's report as JSON.
fn replay(source: Source, options: &Options) -> anyhow::Result<String> {
    output::json(&report(&Arc::new(source), options))
}

/// Visits every text in a report with the key that says what it is: its own key, that of the list that contains it, or,
/// in the list of identifiers, the kind of the identifier. The label of a RAID member is called `md_name`.
fn each_text<'r>(key: &'r str, value: &'r Value, visit: &mut dyn FnMut(&'r str, &'r str)) {
    match value {
        Value::String(text) => visit(key, text),
        Value::Array(list) => list.iter().for_each(|value| each_text(key, value, visit)),
        Value::Object(keys) => {
            let text = |key: &str| keys.get(key).and_then(Value::as_str);
            if let (Some(kind), Some(value)) = (text("kind"), text("value")) {
                visit(kind, value);
            }
            if text("kind") == Some("linux_raid_member") {
                visit("md_name", text("label").unwrap_or_default());
            }
            keys.iter().for_each(|(key, value)| each_text(key, value, visit));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A capture of these files.
    pub(super) fn recorded(files: &[(&str, &[u8])]) -> Recorded {
        let files = files.iter().map(|(path, content)| ((*path).to_owned(), content.to_vec()));
        Recorded { files: files.collect(), ..Recorded::default() }
    }

    #[test]
    fn a_capture_with_an_identifier_left_is_refused_by_kind_and_file_without_the_value() {
        assert!(refuse_leaks(&[]).is_ok());
        let leak = |n: usize| Leak { key: "serial".to_owned(), path: format!("sys/{n}") };
        let all: Vec<Leak> = (0..7).map(leak).collect();
        let error = refuse_leaks(&all).unwrap_err().to_string();
        assert!(error.contains("serial in sys/0, ") && error.contains(" and 2 more"), "{error}");
        assert!(error.contains("nothing was written"), "{error}");
    }

    #[test]
    fn what_the_anonymizer_cannot_replace_is_found_and_no_file_is_written() {
        // A serial number in letters of both cases, in a file whose form nothing here knows.
        let tree = [
            ("sys/class/dmi/id/product_serial", "AbCdEf-12345x\n"),
            ("sys/class/dmi/id/product_name", "Server\n"),
            ("etc/os-release", "NAME=aBcDeF-12345X\n"),
        ];
        let mut archive = Archive::default();
        for (path, content) in tree {
            archive.set(path, Some(probes::machine::Node::File(content.as_bytes().into())));
        }
        let source = Arc::new(Source::unpacked(archive).recording());
        let options = Options::default();
        let original = report(&source, &options);
        let recorded = source.recorded();
        assert!(recorded.files.contains_key("etc/os-release"));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("leak.tar.zst");
        let error = write(&recorded, &original, &options, &file, true, &Stop::default());
        let error = error.unwrap_err().to_string();
        assert!(error.contains("serial in etc/os-release"), "{error}");
        assert!(!error.to_lowercase().contains("abcdef"), "{error}");
        let left = std::fs::read_dir(folder.path()).unwrap();
        assert_eq!(left.count(), 0, "neither the file nor a part of it");
    }
}
