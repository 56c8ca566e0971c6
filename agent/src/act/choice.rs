//! The choice of the disk to write, as a pure function of the disks, the order and the policy, so that it can be
//! repeated on new facts and shown without writing anything.
//!
//! The first step finds the disk that is meant, out of all disks; the second checks that it may be written. Anything
//! unclear is refused.

mod overrule;

use probes::block::{Disk, Obstacle};

use self::overrule::Overrides;
use super::choose::{Description, has_wwn, pick};
use super::saved::Saved;
use super::{
    Code, ExistingDataPolicy, Expect, Failure, Order, Override, ProtectMissing, Say, Term,
    describe, disarm, existing, protect, say, spanning,
};

pub(super) use self::overrule::warnings as label_warnings;

/// The inputs of a decision, apart from the disks.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The order.
    pub order: &'a Order,
    /// Disks that are never written, by the configuration.
    pub protect: &'a [String],
    /// The size of the image, if it is known apart from the order.
    pub min_bytes: Option<u64>,
}

impl Wanted<'_> {
    /// The size that the disk must have, if it is known.
    pub(super) fn min_bytes(&self) -> Option<u64> {
        let said = self.order.image.as_ref().and_then(|image| image.uncompressed_bytes);
        said.max(self.min_bytes)
    }
}

/// The disk that is written, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision<'d> {
    /// The disk.
    pub disk: &'d Disk,
    /// The reasons why it is this one and may be written.
    pub because: Vec<Say>,
    /// The existing data that may be overwritten.
    pub policy: ExistingDataPolicy,
}

/// Why no disk is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Undecided<'d> {
    /// The disk that was meant, if that is clear.
    pub disk: Option<&'d Disk>,
    /// Why it is not written.
    pub failure: Failure,
}

impl From<Failure> for Undecided<'_> {
    fn from(failure: Failure) -> Self {
        Self { disk: None, failure }
    }
}

/// Decides which disk is written.
///
/// `resolve` follows a path below `/dev` to its device file, if the disks do not have the path.
///
/// # Errors
/// `DISK_NONE`, `DISK_AMBIGUOUS`, `DISK_NOT_ELIGIBLE`, `DISK_TOO_SMALL`, `DISK_CHANGED` (not the expected one),
/// `PROTECTED`, `EXISTING_DATA`, `BOOT_LABEL`, `SAVED_PARTITION`, or `INSTRUCTION_INVALID` (hints or patterns that
/// cannot be understood).
pub fn decide<'d>(
    disks: &'d [Disk],
    wanted: &Wanted<'_>,
    resolve: &dyn Fn(&str) -> Option<String>,
) -> Result<Decision<'d>, Undecided<'d>> {
    let order = wanted.order;
    let picked = pick(disks, wanted, resolve)?;
    let disk = picked.disk;
    let lists = [wanted.protect, &order.protect];
    let protected = |disk| protect::check(disk, disks, lists, resolve);
    let judge = || -> Result<Vec<Say>, Failure> {
        if let Some(expect) = &order.expect {
            check_expected(disk, expect)?;
        }
        protected(disk)?;
        if order.protect_missing == Some(ProtectMissing::Refuse) {
            protect::check_missing(disks, lists, resolve)?;
        }
        if disk.is_on_fabric && picked.description != Description::Identity {
            return Err(unidentified(disk));
        }
        if order.reignite {
            // No data is overwritten, and the system may be the running one.
            return Ok(vec![picked.because.clone().into()]);
        }
        let overrides = Overrides::of(order, &picked);
        let obstacles = overrides.left(disk, disks);
        check_obstacles(disk, &obstacles, overrides.advice(&obstacles, disk, disks))?;
        let saved = Saved::parse(&order.save_partlabel, &order.save_partindex)?;
        let why = existing::check(
            disk,
            order.existing_data,
            picked.description,
            &saved,
            order.is_unfinished(disk),
        )?;
        spanning::check(disk, disks, &saved, &order.given_up)?;
        overrides.check_labels(disk, disks, &saved)?;
        if overrides.has(Override::DisarmBootLabel) {
            disarm::places(disk, disks).try_for_each(|(other, _)| protected(other))?;
        }
        saved.check(disk)?;
        Ok(vec![picked.because.clone().into(), why])
    };
    match judge() {
        Ok(because) => Ok(Decision {
            disk,
            because,
            policy: existing::policy(order.existing_data, picked.description),
        }),
        Err(failure) => Err(Undecided { disk: Some(disk), failure }),
    }
}

/// True if some order without an override can write the disk, so that there is no need to wait for another one.
pub fn can_be_written(disk: &Disk) -> bool {
    let is_fixed = |obstacle: &&Obstacle| !overrule::is_of_policy(obstacle);
    let fixed: Vec<&Obstacle> = disk.obstacles.iter().filter(is_fixed).collect();
    check_obstacles(disk, &fixed, None).is_ok()
}

/// The failure for a disk that another host may use, and that the order does not identify.
fn unidentified(disk: &Disk) -> Failure {
    let transport = disk.transport.as_deref().unwrap_or("fabric");
    let what = format!(
        "{} is reached over a network ({transport}), where other hosts may use it, and is not identified",
        describe(disk)
    );
    Failure::new(Code::DiskNotEligible, what).advise(
        "to install on it, identify it by serial, WWN, /dev/disk/by-id or /dev/disk/by-path; otherwise insert the disk \
         that is meant",
    )
}

/// Refuses a disk with obstacles that nothing overrules. `how` is advice on overruling them.
fn check_obstacles(disk: &Disk, fixed: &[&Obstacle], how: Option<Say>) -> Result<(), Failure> {
    let mut reasons: Vec<&str> = fixed.iter().map(|obstacle| obstacle.text.as_str()).collect();
    if !disk.eligible && disk.obstacles.is_empty() {
        reasons.extend(disk.not_eligible_because.iter().map(String::as_str));
        if reasons.is_empty() {
            reasons.push("not eligible");
        }
    }
    if reasons.is_empty() {
        return Ok(());
    }
    let what = format!("{} cannot be installed on: {}", describe(disk), reasons.join(", "));
    let advice = "fix what is listed, or choose another disk; no other disk takes its place";
    let advice = how.map_or(advice.into(), |how| say![advice, "; ", how]);
    Err(Failure::new(Code::DiskNotEligible, what).advise(advice))
}

/// Checks that the chosen disk is as expected.
fn check_expected(disk: &Disk, expect: &Expect) -> Result<(), Failure> {
    let shown = |found: Option<&String>| {
        found.map_or_else(|| "not known".to_owned(), |found| format!("{found:?}"))
    };
    let mut differences = Vec::new();
    if let Some(serial) = &expect.serial
        && disk.serial.as_deref().map(str::trim) != Some(serial.trim())
    {
        let found = shown(disk.serial.as_ref());
        differences.push(format!("serial is {found}, expected {serial:?}"));
    }
    if let Some(expected) = expect.wwn.as_ref().filter(|wwn| !has_wwn(disk, wwn)) {
        differences.push(format!("WWN is {}, expected {expected:?}", shown(disk.wwn.as_ref())));
    }
    if let Some(size_bytes) = expect.size_bytes
        && disk.size_bytes != Some(size_bytes)
    {
        let found = disk.size_bytes.map(|found| format!("{found} bytes"));
        let found = found.as_deref().unwrap_or("not known");
        differences.push(format!("size is {found}, expected {size_bytes}"));
    }
    if differences.is_empty() {
        return Ok(());
    }
    let what = format!("{} is not the expected disk: {}", disk.device, differences.join("; "));
    let advice =
        say!["the disk was swapped or ", Term::Record, " is out of date; inspect the node again"];
    Err(Failure::new(Code::DiskChanged, what).advise(advice))
}

#[cfg(test)]
mod tests;
