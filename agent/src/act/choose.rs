//! Finds the disk that an order means: the one that it names, the one that its hints match, or the only one.
//!
//! The choice is made over all disks, whether an install may use them or not. A disk that an install may not use now
//! may still be the one that is meant, so another one never takes its place. Only disks that no order can mean
//! are left out: those with a structural obstacle, and those that are too small for the image.

use std::collections::BTreeSet;

use formats::wwn;
use probes::block::{Disk, ObstacleKind};

use super::choice::{Undecided, Wanted};
use super::hints::Hints;
use super::{Code, DiskChoice, Failure, IfSeveral, Term, describe, existing, list, say};

/// The disk that an order means.
#[derive(Debug, Clone)]
pub(super) struct Picked<'d> {
    /// The disk; not checked yet for use by an install.
    pub disk: &'d Disk,
    /// The reason for the choice, as text.
    pub because: String,
    /// The form in which the order describes it.
    pub description: Description,
    /// True if the order names it by its place, which disks of one identity do not share.
    pub is_by_place: bool,
}

/// The form in which an order describes a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Description {
    /// By its identity or its place: serial number, WWN, a link by id or by path.
    Identity,
    /// By other attributes, or by a name that another disk may have at the next boot.
    Attributes,
    /// Not at all, or only by a rule for several disks.
    Absent,
}

/// Finds the disk that is meant.
///
/// # Errors
/// `DISK_NONE`, `DISK_AMBIGUOUS`, `DISK_NOT_ELIGIBLE` or `DISK_TOO_SMALL` (nothing but disks that no order can
/// mean), or `INSTRUCTION_INVALID` (hints that cannot be understood).
pub(super) fn pick<'d>(
    disks: &'d [Disk],
    wanted: &Wanted<'_>,
    resolve: &dyn Fn(&str) -> Option<String>,
) -> Result<Picked<'d>, Undecided<'d>> {
    let default = DiskChoice::default();
    let choice = wanted.order.disk.as_ref().unwrap_or(&default);
    let min_bytes = wanted.min_bytes();
    if let Some(device) = &choice.device {
        let disk = by_device(disks, device, resolve)?;
        if structural(disk, min_bytes).is_some() {
            let failure = impossible(&[disk], min_bytes);
            return Err(Undecided { disk: Some(disk), failure });
        }
        if wanted.order.reignite && !existing::is_coreos(disk) {
            return Err(Undecided { disk: Some(disk), failure: without_system(&[disk]) });
        }
        let is_stable = is_stable_path(device);
        let description = if is_stable { Description::Identity } else { Description::Attributes };
        let because = format!("it is {device}");
        return Ok(Picked { disk, because, description, is_by_place: is_place(device) });
    }
    let hints = choice.hints.as_ref().map(Hints::parse).transpose();
    let hints = hints.map_err(|message| Failure::new(Code::InstructionInvalid, message))?;
    let is_match = |disk: &&Disk| hints.as_ref().is_none_or(|hints| hints.matches(disk));
    let matching: Vec<&Disk> = disks.iter().filter(is_match).collect();
    let has_system = |disk: &Disk| !wanted.order.reignite || existing::is_coreos(disk);
    let is_plausible = |disk: &&Disk| structural(disk, min_bytes).is_none() && has_system(disk);
    let plausible: Vec<&Disk> = matching.iter().copied().filter(is_plausible).collect();
    if plausible.is_empty() {
        let failure = match matching[..] {
            [] => none(disks),
            _ if wanted.order.reignite => without_system(&matching),
            _ => impossible(&matching, min_bytes),
        };
        return Err(failure.into());
    }
    let claim = if hints.is_some() { "match the hints" } else { "could be meant" };
    let (disk, rule) = one_of(&plausible, choice.if_several, claim)?;
    let because = match (hints.is_some(), rule) {
        (true, None) => "it is the only disk that matches the hints".to_owned(),
        (true, Some(rule)) => format!("it is the {rule} of the disks that match the hints"),
        (false, None) => "it is the only disk that could be meant".to_owned(),
        (false, Some(rule)) => format!("it is the {rule} disk"),
    };
    // A hint that fits several disks identifies none, even if only one of them can be meant or has the other attributes:
    // the namespaces of an NVMe drive share its serial number.
    let is_other = |other: &&Disk| {
        let name = Some(disk.name.as_str());
        !(other.name == disk.name || other.unit() == name || other.part_of.as_deref() == name)
    };
    let others: Vec<&Disk> = disks.iter().filter(is_other).collect();
    let description = match &hints {
        None => Description::Absent,
        Some(hints) if hints.identify(disk, &others) => Description::Identity,
        Some(_) => Description::Attributes,
    };
    let is_by_place = hints.is_some_and(|hints| hints.have_place());
    Ok(Picked { disk, because, description, is_by_place })
}

/// True if a path below `/dev` leads to one disk whatever the order in which the drivers find disks. A kernel name such
/// as `/dev/sda` and a sequence number are given anew at each boot, and a label moves with what contains it, as do the
/// names of mappings, arrays and physical volumes.
pub(crate) fn is_stable_path(path: &str) -> bool {
    let moves =
        |id: &str| ["dm-name-", "md-name-", "lvm-pv-uuid-"].iter().any(|kind| id.starts_with(kind));
    let id = path.strip_prefix("/dev/disk/by-id/");
    is_place(path) || id.is_some_and(|id| !id.contains('/') && !moves(id))
}

/// True if a path below `/dev` leads to the disk at one place.
pub(super) fn is_place(path: &str) -> bool {
    path.strip_prefix("/dev/disk/by-path/").is_some_and(|place| !place.contains('/'))
}

/// The reason why no order can mean a disk; `None` if one can.
pub(super) fn structural(disk: &Disk, min_bytes: Option<u64>) -> Option<String> {
    let is_structural = |kind: ObstacleKind| kind == ObstacleKind::Structural;
    let obstacle = disk.obstacles.iter().find(|obstacle| is_structural(obstacle.kind));
    obstacle.map(|obstacle| obstacle.text.clone()).or_else(|| too_small(disk, min_bytes))
}

fn too_small(disk: &Disk, min_bytes: Option<u64>) -> Option<String> {
    let least = min_bytes.filter(|least| disk.size_bytes.is_some_and(|found| found < *least))?;
    Some(format!("smaller than the image of {least} bytes"))
}

/// The paths of a disk: its device file, and the links to it that do not change.
pub(super) fn names(disk: &Disk) -> impl Iterator<Item = &String> {
    std::iter::once(&disk.device).chain(places(disk)).chain(&disk.by_id)
}

/// The paths of a disk by its place; udev has two for a SATA disk.
pub(super) fn places(disk: &Disk) -> impl Iterator<Item = &String> {
    disk.by_path.iter().chain(&disk.other_paths)
}

/// The world-wide names of a disk.
pub(super) fn wwns(disk: &Disk) -> impl Iterator<Item = &String> {
    [&disk.wwn, &disk.eui64, &disk.nguid].into_iter().flatten()
}

/// True if this is the whole of one of the disk's world-wide names.
pub(super) fn has_wwn(disk: &Disk, wanted: &str) -> bool {
    wwns(disk).any(|found| wwn::is_equal(found, wanted))
}

/// True if two disks may be paths to one LUN without multipath: they have the same identity.
pub(super) fn is_twin(disk: &Disk, other: &Disk) -> bool {
    let is_shared = |disk: &Disk| {
        disk.obstacles.iter().any(|obstacle| obstacle.kind == ObstacleKind::SharedIdentity)
    };
    let unit = |disk: &Disk| (disk.serial.clone(), disk.size_bytes);
    let has_same_serial = disk.serial.is_some() && unit(disk) == unit(other);
    has_same_serial && is_shared(disk) && is_shared(other)
        || wwns(disk).any(|wwn| has_wwn(other, wwn))
}

/// The disk that a path below `/dev` names.
fn by_device<'d>(
    disks: &'d [Disk],
    device: &str,
    resolve: &dyn Fn(&str) -> Option<String>,
) -> Result<&'d Disk, Failure> {
    let is_safe = device.starts_with("/dev/")
        && !device.split('/').any(|part| part == "..")
        && !device.chars().any(|c| c.is_whitespace() || c.is_control());
    if !is_safe {
        let what = say![Term::Device, " has another form, expected a path below /dev"];
        return Err(Failure::new(Code::InstructionInvalid, what));
    }
    let named = |path: &str| -> Vec<&Disk> {
        disks.iter().filter(|disk| names(disk).any(|name| name == path)).collect()
    };
    let mut found = named(device);
    if found.is_empty()
        && let Some(target) = resolve(device)
    {
        found = named(&target);
    }
    // A LUN and its paths share their names; the LUN is meant.
    let heads: Vec<&str> = found.iter().map(|disk| disk.name.as_str()).collect();
    found.retain(|disk| disk.unit().is_none_or(|head| !heads.contains(&head)));
    match found[..] {
        [disk] => Ok(disk),
        [] => Err(built_on_disks(disks, device, resolve).unwrap_or_else(|| {
            Failure::new(Code::DiskNone, format!("there is no disk {device}; {}", seen(disks)))
                .advise("correct the path or insert the missing disk; `run-coreos-installer disks` lists the disks")
        })),
        _ => Err(ambiguous(&found, &format!("are named {device}"))),
    }
}

/// The reason why an array or a mapping is not a target.
fn built_on_disks(
    disks: &[Disk],
    device: &str,
    resolve: &dyn Fn(&str) -> Option<String>,
) -> Option<Failure> {
    let target = resolve(device).unwrap_or_else(|| device.to_owned());
    let name = target.strip_prefix("/dev/")?;
    let is_it = |holder: &String| holder == name;
    let holds = |disk: &&Disk| {
        let of_partitions = disk.partitions.iter().flat_map(|part| &part.holders);
        disk.holders.iter().chain(of_partitions).any(is_it)
    };
    let below: Vec<&str> = disks.iter().filter(holds).map(|disk| disk.name.as_str()).collect();
    if below.is_empty() {
        return None;
    }
    let what = format!(
        "{device} is built on {}: of such devices only multipath devices and RAID 1 volumes of Intel VROC can be \
         installed on",
        below.join(", ")
    );
    Some(Failure::new(Code::DiskNotEligible, what).advise(
        "name one of these disks; to mirror the system, let the Ignition config do it (Butane: boot_device.mirror)",
    ))
}

/// The disk among those that could be meant, and the rule that decided.
fn one_of<'d>(
    disks: &[&'d Disk],
    if_several: IfSeveral,
    claim: &str,
) -> Result<(&'d Disk, Option<&'static str>), Failure> {
    if let [disk] = disks[..] {
        return Ok((disk, None));
    }
    let (best, rule, tie): (Option<Vec<&Disk>>, _, _) = match if_several {
        IfSeveral::Refuse => (None, "", ""),
        IfSeveral::First => (disks.first().map(|disk| vec![*disk]), "first", ""),
        IfSeveral::Smallest => (extreme(disks, u64::min), "smallest", "are equally large"),
        IfSeveral::Largest => (extreme(disks, u64::max), "largest", "are equally large"),
        IfSeveral::FirstByPath => (first_by_path(disks), "first by path", "have one path"),
    };
    match best.as_deref() {
        Some([disk]) => Ok((disk, Some(rule))),
        Some(several) if !several.is_empty() => Err(ambiguous(several, tie)),
        _ => Err(ambiguous(disks, claim)),
    }
}

/// The disks of the smallest or largest size. `None` if one size is unknown, because then none can be compared.
fn extreme<'d>(disks: &[&'d Disk], better: fn(u64, u64) -> u64) -> Option<Vec<&'d Disk>> {
    let sizes: Option<Vec<u64>> =
        disks.iter().map(|disk| disk.size_bytes.filter(|size| *size > 0)).collect();
    let best = sizes?.into_iter().reduce(better);
    Some(disks.iter().copied().filter(|disk| disk.size_bytes == best).collect())
}

/// The first disks in the order of their paths by place. `None` if one has none.
fn first_by_path<'d>(disks: &[&'d Disk]) -> Option<Vec<&'d Disk>> {
    let paths: Option<Vec<&str>> = disks.iter().map(|disk| disk.by_path.as_deref()).collect();
    let first = paths?.into_iter().min_by(|a, b| probes::natural::compare(a, b));
    Some(disks.iter().copied().filter(|disk| disk.by_path.as_deref() == first).collect())
}

fn none(disks: &[Disk]) -> Failure {
    let what = say!["no disk matches what ", Term::Order, " asks for; ", seen(disks)];
    Failure::new(Code::DiskNone, what).advise(
        "correct the hints or insert the missing disk; `run-coreos-installer disks` lists the disks",
    )
}

/// The failure if none of the disks that match has a system that could get another config.
fn without_system(disks: &[&Disk]) -> Failure {
    let names = list(disks.iter().map(|disk| describe(disk)), "; ");
    Failure::new(Code::DiskNone, format!("no installed CoreOS is on {names}"))
        .advise("choose another disk, or install")
}

/// The failure if no order can mean any of the disks that match.
fn impossible(disks: &[&Disk], min_bytes: Option<u64>) -> Failure {
    let is_structural = |disk: &&Disk| structural(disk, None).is_some();
    let is_too_small = !disks.iter().any(is_structural);
    let reasons = disks.iter().map(|disk| {
        let why = structural(disk, min_bytes).unwrap_or_default();
        format!("{}: {why}", describe(disk))
    });
    let code = if is_too_small { Code::DiskTooSmall } else { Code::DiskNotEligible };
    Failure::new(code, format!("no disk can be installed on: {}", list(reasons, "; ")))
        .advise("choose another disk")
}

fn ambiguous(disks: &[&Disk], claim: &str) -> Failure {
    let names = list(disks.iter().map(|disk| unclear(disk)), "; ");
    let serials: BTreeSet<&str> = disks.iter().filter_map(|disk| disk.serial.as_deref()).collect();
    // Two namespaces of a drive, and disks of makers that number none of them.
    let has_repeated = serials.len() < disks.iter().filter(|disk| disk.serial.is_some()).count();
    let advice = if has_repeated {
        "some of them have the same serial number, so identify one by WWN, /dev/disk/by-id or /dev/disk/by-path"
    } else {
        "identify one by serial, WWN, /dev/disk/by-id or /dev/disk/by-path"
    };
    Failure::new(Code::DiskAmbiguous, format!("{} disks {claim}: {names}", disks.len()))
        .advise(say![advice, Term::OrIfSeveral])
}

/// Describes the disk and the reason why an install may not use it.
fn unclear(disk: &Disk) -> String {
    let why = disk.not_eligible_because.join(", ");
    match (disk.eligible, why.is_empty()) {
        (true, _) => describe(disk),
        (false, true) => format!("{}, not eligible", describe(disk)),
        (false, false) => format!("{}, not eligible: {why}", describe(disk)),
    }
}

/// Describes the disks of the machine.
fn seen(disks: &[Disk]) -> String {
    if disks.is_empty() {
        return "the machine has no disk".into();
    }
    format!("the machine has {}", list(disks.iter().map(describe), "; "))
}
