//! `disks`: every disk, its eligibility for an install, and the one that would be chosen. Nothing is written.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use probes::block::Disk;
use probes::collect::Options;
use serde::Serialize;
use serde_json::{Value, json};
use serde_with::skip_serializing_none;

use super::job::policy;
use crate::act::hints::from_option;
use crate::act::install::{choose, min_bytes};
use crate::act::preflight::check_use;
use crate::act::readable::Unreadable;
use crate::act::say::{Say, Words};
use crate::act::selection::{Selection, with};
use crate::act::{Decision, Failure, Finding, Outcome, Site, Undecided, Wanted, decide};
use crate::act::{DiskChoice, ExistingDataPolicy, Order, existing_data};
use crate::api::{Action, parse_instruction};
use crate::bounded;
use crate::cli::DisksOptions;
use crate::engines::offline::{check_device, check_patterns};
use crate::engines::{offline, vim};
use crate::exit_status::ExitStatus;
use crate::report::report;
use crate::text::{self, wrapped};
use crate::{clean, output};

/// Maximum length of an instruction.
const MAX_INSTRUCTION_BYTES: u64 = 8 << 20;
/// The longest model or serial number in a column, and the narrowest last column.
const MAX_COLUMN: usize = 28;
const MIN_LAST: usize = 30;

/// The disk that would be written, or the reason for none.
#[skip_serializing_none]
#[derive(Debug, Default, Serialize)]
struct Shown {
    device: Option<String>,
    serial: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    because: Vec<String>,
    existing_data: Option<ExistingDataPolicy>,
    /// The intended disk, which must not be written.
    refused_device: Option<String>,
    code: Option<String>,
    message: Option<String>,
    advice: Option<String>,
}

/// Lists the disks and shows the choice.
///
/// # Errors
/// If hints or instruction are refused, or if the machine cannot be read.
pub(super) fn disks(options: &DisksOptions) -> anyhow::Result<ExitStatus> {
    check_patterns(&options.block)?;
    let order = wanted(options)?;
    let source = Arc::new(super::open(options.root.as_deref())?);
    let report = report(&source, &Options::default());
    let block = report.inventory.block.ok_or_else(|| anyhow!("the disks could not be read"))?;
    let site = Site {
        blocking: policy(&options.block),
        protect: options.protect.clone(),
        ..Site::default()
    };
    let judge = if source.is_live() { judge_live } else { judge_captured };
    let decision = judge(&site, &order, &block.disks, &report.findings);
    let words: Words = if options.instruction.is_some() { vim::words } else { offline::words };
    if let Err((_, failure)) = &decision
        && failure.code == crate::api::Code::InstructionInvalid
    {
        bail!("{}", failure.message.in_words(words));
    }
    let is_chosen = decision.is_ok();
    let decision = shown(decision, words);
    let entries: Vec<Value> = block.disks.iter().map(entry).collect();
    super::show(options.format, &json!({"disks": entries, "decision": decision}), |_| {
        page(&block.disks, &decision, output::width())
    })?;
    Ok(if is_chosen { ExitStatus::Done } else { ExitStatus::Findings })
}

/// The choice with its reasons and its policy, or why there is none, with the disk that was meant.
type Judged = Result<(Disk, Vec<Say>, ExistingDataPolicy), (Option<Box<Disk>>, Failure)>;

/// Chooses and judges as an install on this machine does until it looks at the image. Blocks all over the disk are read.
fn judge_live(site: &Site, order: &Order, disks: &[Disk], findings: &[Finding]) -> Judged {
    let selection = Selection {
        system: &site.system,
        reported: disks,
        order,
        protect: &site.protect,
        min_bytes: min_bytes(order, site),
    };
    let findings = |unreadable: Option<&Unreadable>| {
        let unreadable = unreadable.map(|unreadable| unreadable.finding.clone());
        findings.iter().cloned().chain(unreadable).collect()
    };
    let mut outcome = Outcome::default();
    // The system that gets another config may be the running one.
    let free = |disk: &Disk| {
        if order.reignite { Ok(()) } else { check_use(disk, &site.system, &[]) }
    };
    let chosen = choose(site, &selection, disks, &[], &findings, &mut outcome)
        .and_then(|chosen| free(chosen.target.disk()).map(|()| chosen));
    match chosen {
        Ok(chosen) => decided(selection.decide(&with(disks, chosen.target.disk()))),
        Err(failure) => Err((outcome.disk, failure)),
    }
}

/// The same for a captured machine, whose disks cannot be read any more.
fn judge_captured(site: &Site, order: &Order, disks: &[Disk], findings: &[Finding]) -> Judged {
    let wanted = Wanted { order, protect: &site.protect, min_bytes: None };
    let decision = decided(decide(disks, &wanted, &|_| None))?;
    let checked = site.blocking.of(order).and_then(|policy| policy.check(findings));
    checked.map_err(|failure| (Some(Box::new(decision.0.clone())), failure)).map(|()| decision)
}

fn decided(decision: Result<Decision<'_>, Undecided<'_>>) -> Judged {
    decision
        .map(|Decision { disk, because, policy }| (disk.clone(), because, policy))
        .map_err(|Undecided { disk, failure }| (disk.cloned().map(Box::new), failure))
}

/// Returns the instruction that the options form; without any it asks for no particular disk.
fn wanted(options: &DisksOptions) -> anyhow::Result<Order> {
    if let Some(path) = &options.instruction {
        return instruction(path);
    }
    if let Some(device) = &options.disk {
        check_device(device)?;
    }
    let hints = Some(&options.hints).filter(|hints| !hints.is_empty());
    let hints =
        hints.map(|hints| from_option(hints)).transpose().map_err(|error| anyhow!(error))?;
    let disk = (options.disk.is_some() || hints.is_some()).then(|| DiskChoice {
        device: options.disk.clone(),
        hints,
        ..DiskChoice::default()
    });
    let existing_data = offline::known(options.data.existing_data.as_deref());
    let overrides = offline::overrides(&options.data);
    Ok(Order { disk, existing_data, overrides, ..Order::default() })
}

fn instruction(path: &Path) -> anyhow::Result<Order> {
    let name = path.display();
    let bytes = bounded::read_file(path, MAX_INSTRUCTION_BYTES).context("--instruction")?;
    let parsed = parse_instruction(&bytes)
        .map_err(|refusal| anyhow!("--instruction {name}: {}", refusal.message))?;
    if let Some(node_id) = &parsed.node_id {
        tracing::warn!(
            "--instruction {name} is for node {node_id}; other nodes refuse it, which is not tried here"
        );
    }
    match (parsed.action, parsed.install) {
        (action @ (Action::Install | Action::Reignite), Some(install)) => {
            Ok(Order { reignite: action == Action::Reignite, ..Order::from(install) })
        }
        (action, _) => bail!(
            "--instruction {name}: its action is {action}, which writes no disk; expected install"
        ),
    }
}

/// The disk in the command's JSON output, without what is unknown.
fn entry(disk: &Disk) -> Value {
    let mut entry = json!({
        "device": disk.device,
        "model": disk.model,
        "serial": disk.serial,
        "wwn": disk.wwn,
        "size_bytes": disk.size_bytes,
        "eligible": disk.eligible,
        "not_eligible_because": disk.not_eligible_because,
        "existing_data": existing_data(disk),
    });
    entry.as_object_mut().iter_mut().for_each(|entry| entry.retain(|_, value| !value.is_null()));
    entry
}

fn shown(decision: Judged, words: Words) -> Shown {
    match decision {
        Ok((disk, because, policy)) => Shown {
            device: Some(disk.device),
            serial: disk.serial,
            because: because.iter().map(|reason| reason.in_words(words)).collect(),
            existing_data: Some(policy),
            ..Shown::default()
        },
        Err((disk, failure)) => Shown {
            message: Some(failure.message.in_words(words)),
            code: Some(failure.code.to_string()),
            advice: failure.advice.map(|advice| advice.in_words(words)),
            refused_device: disk.map(|disk| disk.device),
            ..Shown::default()
        },
    }
}

/// The list in aligned columns, and the choice below it.
fn page(disks: &[Disk], decision: &Shown, width: usize) -> String {
    let heading = ["DEVICE", "SIZE", "MODEL", "SERIAL"].map(str::to_owned);
    let short = |text: &Option<String>| {
        let text =
            text.as_ref().map_or_else(|| "-".to_owned(), |text| clean::text(text.trim(), 200));
        match text.char_indices().nth(MAX_COLUMN) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text,
        }
    };
    let rows: Vec<[String; 4]> = std::iter::once(heading)
        .chain(disks.iter().map(|disk| {
            let size = disk.size_bytes.map_or_else(|| "-".to_owned(), text::disk_size);
            [disk.device.clone(), size, short(&disk.model), short(&disk.serial)]
        }))
        .collect();
    let column = |index: usize| rows.iter().map(|row| row[index].chars().count()).max();
    let widths = [0, 1, 2, 3].map(|index| column(index).unwrap_or_default());
    let judged = disks.iter().map(judgement);
    let judged: Vec<String> = std::iter::once("ELIGIBLE".to_owned()).chain(judged).collect();
    let longest = judged.iter().map(|judgement| judgement.chars().count()).max();
    let least = MIN_LAST.min(longest.unwrap_or_default());
    let mut page = String::new();
    for (row, judgement) in rows.iter().zip(&judged) {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}  "));
        page.push_str(&columns(&cells.collect::<String>(), judgement, least, width));
    }
    if disks.is_empty() {
        "This machine has no disk.\n".clone_into(&mut page);
    }
    page + "\n" + &verdict(decision, width)
}

/// A row: its cells and, from there on, the wrapped judgement; it goes below if fewer than `least` characters are left.
fn columns(cells: &str, judgement: &str, least: usize, width: usize) -> String {
    let indent = cells.chars().count();
    if indent + least <= width {
        let judgement = wrapped(judgement, indent, width);
        return format!("{cells}{}", judgement.trim_start());
    }
    format!("{}\n{}", cells.trim_end(), wrapped(judgement, 4, width))
}

/// Describes the disk's eligibility for an install, and its content.
fn judgement(disk: &Disk) -> String {
    if !disk.eligible {
        let why = disk.not_eligible_because.join("; ");
        let why = if why.is_empty() { "unknown".to_owned() } else { clean::text(&why, 2000) };
        return format!("no: {why}");
    }
    let found = existing_data(disk);
    let names = found.iter().take(8).map(|data| format!("{} {}", data.name, data.what));
    let names: Vec<String> = names.map(|name| clean::text(&name, 200)).collect();
    if names.is_empty() {
        return "yes, blank".to_owned();
    }
    format!("yes, contains {}", names.join("; "))
}

fn verdict(decision: &Shown, width: usize) -> String {
    let paragraph = |text: &str| wrapped(&clean::text(text, 4000), 2, width);
    if let Some(device) = &decision.device {
        let serial = decision.serial.as_ref().map(|serial| format!(" (serial {serial})"));
        let serial = clean::text(&serial.unwrap_or_default(), 200);
        let because: String =
            decision.because.iter().map(|reason| paragraph(&format!("- {reason}"))).collect();
        return format!("Would be written: {device}{serial}\n{because}");
    }
    let code = decision.code.as_deref().unwrap_or_default();
    let message = decision.message.as_deref().map(paragraph).unwrap_or_default();
    let advice = decision.advice.as_ref();
    let advice = advice.map(|advice| paragraph(&format!("Advice: {advice}")));
    format!("Nothing would be written: {code}\n{message}{}", advice.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser as _;

    #[test]
    fn page_has_aligned_columns_and_the_reasons_wrapped_in_the_last() {
        let reason = "in use: sdb1 is mounted at /data and held by something with a long name";
        let disk = |device: &str, reasons: &[&str]| -> Disk {
            let disk = json!({
                "device": device, "model": "MODEL", "size_bytes": 960_197_124_096_u64,
                "eligible": reasons.is_empty(), "not_eligible_because": reasons,
            });
            serde_json::from_value(disk).unwrap()
        };
        let decision = Shown { code: Some("DISK_NONE".into()), ..Shown::default() };
        let all = [disk("/dev/nvme0n1", &[]), disk("/dev/sdb", &[reason])];
        assert_eq!(
            page(&all, &decision, 80),
            "DEVICE        SIZE   MODEL  SERIAL  ELIGIBLE\n\
             /dev/nvme0n1  960GB  MODEL  -       yes, blank\n\
             /dev/sdb      960GB  MODEL  -       no: in use: sdb1 is mounted at /data and\n\
             \x20                                   held by something with a long name\n\
             \nNothing would be written: DISK_NONE\n"
        );
        assert!(page(&all, &decision, 60).lines().all(|line| line.chars().count() <= 60));
        // Short judgements fit where long ones would be wrapped to a few words a line.
        assert!(page(&all[..1], &decision, 50).contains("-       yes, blank\n"));
    }

    #[test]
    fn disks_refuses_what_a_finding_blocks_as_install_does() {
        let disk = json!({"name": "sda", "device": "/dev/sda", "eligible": true});
        let disks: Vec<Disk> = vec![serde_json::from_value(disk).unwrap()];
        let dying = probes::findings::row("disk.health.failing").unwrap();
        let findings = [dying.finding(Some("sda".into()), "it says so itself")];
        let judged = |site: &Site| judge_captured(site, &Order::default(), &disks, &findings);
        let (disk, failure) = judged(&Site::default()).unwrap_err();
        assert_eq!(disk.unwrap().name, "sda");
        let failure = failure.to_string();
        assert!(failure.starts_with("FINDINGS: the machine is faulty: sda"), "{failure}");
        let except = vec!["disk.health.failing".to_owned()];
        let blocking = crate::act::blocking::Policy { except, ..Default::default() };
        assert!(judged(&Site { blocking, ..Site::default() }).is_ok());
    }

    #[test]
    fn hints_are_read_as_pairs_or_json_and_bad_ones_are_refused() {
        let of = |hints: &[&str]| {
            let hints = hints.iter().flat_map(|hint| ["--hints", hint]);
            let words = ["x", "disks"].into_iter().chain(hints);
            let Some(Command::Disks(options)) = Cli::parse_from(words).command else { panic!() };
            wanted(&options)
        };
        let hints = |texts: &[&str]| of(texts).unwrap().disk.unwrap().hints.unwrap();
        let found = hints(&["size=>= 200", r#"{"rotational": false}"#]);
        let expected = json!({"size": ">= 200", "rotational": false});
        assert_eq!(Value::Object(found), expected);
        assert!(of(&[]).unwrap().disk.is_none());
        for bad in [&["serial"][..], &["=x"], &["{"], &["a=1", "a=2"]] {
            assert!(of(bad).is_err(), "{bad:?}");
        }
    }
}
