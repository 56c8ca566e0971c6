//! Obstacles that an order may overrule. Each has a word of its own, which counts only on a disk that the order identifies
//! and whose existing data may all be overwritten.

use probes::block::{Disk, Obstacle, ObstacleKind};

use crate::act::choose::{Description, Picked};
use crate::act::disarm;
use crate::act::labels;
use crate::act::saved::Saved;
use crate::act::{ExistingDataPolicy, Failure, Order, Override, Say, Term, describe, others, say};

/// The overrides of an order, for the disk that it means.
#[derive(Debug, Clone, Copy)]
pub(super) struct Overrides<'a> {
    words: &'a [Override],
    is_identified: bool,
    /// True if the order itself forbids to overwrite any data.
    is_wipe_forbidden: bool,
    /// True if the order names the disk by its place.
    is_by_place: bool,
}

impl<'a> Overrides<'a> {
    pub(super) fn of(order: &'a Order, picked: &Picked<'_>) -> Self {
        let policy = order.existing_data.unwrap_or(ExistingDataPolicy::Wipe);
        Self {
            words: &order.overrides,
            is_identified: picked.description == Description::Identity,
            is_wipe_forbidden: policy != ExistingDataPolicy::Wipe,
            is_by_place: picked.is_by_place,
        }
    }

    /// True if a word is given and counts.
    pub(super) fn has(&self, word: Override) -> bool {
        let is_clear = word != Override::SameSerial || self.is_by_place;
        let counts = self.is_identified && !self.is_wipe_forbidden && is_clear;
        counts && self.words.contains(&word)
    }

    /// Returns the obstacles that neither these overrides nor a policy for existing data overrules.
    pub(super) fn left<'d>(&self, disk: &'d Disk, disks: &[Disk]) -> Vec<&'d Obstacle> {
        let is_left = |obstacle: &&Obstacle| {
            let is_allowed = || word_for(obstacle, disk, disks).is_some_and(|word| self.has(word));
            !is_of_policy(obstacle) && !is_allowed()
        };
        disk.obstacles.iter().filter(is_left).collect()
    }

    /// Advice on overruling all of these obstacles; `None` if one of them cannot be overruled.
    pub(super) fn advice(&self, left: &[&Obstacle], disk: &Disk, disks: &[Disk]) -> Option<Say> {
        let words = left.iter().map(|obstacle| word_for(obstacle, disk, disks));
        let mut words: Vec<Override> = words.collect::<Option<_>>()?;
        words.dedup();
        if words.is_empty() { None } else { Some(self.advise(&words)) }
    }

    /// Advice on the steps that make these words count; those that are already taken are left out.
    fn advise(&self, words: &[Override]) -> Say {
        let is_place_missing = words.contains(&Override::SameSerial) && !self.is_by_place;
        let mut steps: Vec<Say> = Vec::new();
        if is_place_missing {
            steps.push("name the disk by its /dev/disk/by-path".into());
        } else if !self.is_identified {
            let how = "identify the disk by serial, WWN, /dev/disk/by-id or /dev/disk/by-path";
            steps.push(how.into());
        }
        if self.is_wipe_forbidden {
            steps.push(Term::SetWipe.into());
        }
        let missing = words.iter().filter(|word| !self.words.contains(word));
        let missing: Vec<String> = missing.map(ToString::to_string).collect();
        if !missing.is_empty() {
            steps.push(say![Term::AddOverride, missing.join(",")]);
        }
        let steps = steps.into_iter().reduce(|all, next| say![all, ", and ", next]);
        say!["to allow it, ", steps.unwrap_or_default()]
    }

    /// Checks the labels on other disks, except for those that may stay or are renamed.
    ///
    /// # Errors
    /// `BOOT_LABEL` with every place that is left, and the override that would help.
    pub(super) fn check_labels(
        &self,
        target: &Disk,
        disks: &[Disk],
        saved: &Saved,
    ) -> Result<(), Failure> {
        // What is kept on the target itself cannot be overruled.
        labels::check(target, std::slice::from_ref(target), saved)?;
        if self.has(Override::BootLabelElsewhere) {
            return Ok(());
        }
        let is_disarming = self.has(Override::DisarmBootLabel);
        let renamed = is_disarming.then(|| disarm::renamed(target, disks));
        labels::check(target, renamed.as_deref().unwrap_or(disks), saved).map_err(|failure| {
            let words: &[Override] = if is_disarming || !disarm::is_enough(target, disks) {
                &[Override::BootLabelElsewhere]
            } else {
                &[Override::DisarmBootLabel]
            };
            let base = failure.advice.clone().unwrap_or_default();
            failure.advise(base.and("; ").and(self.advise(words)))
        })
    }
}

/// True if the policy for existing data decides about an obstacle.
pub(super) fn is_of_policy(obstacle: &Obstacle) -> bool {
    matches!(obstacle.kind, ObstacleKind::Content | ObstacleKind::Active)
}

/// Returns the word that allows an obstacle; `None` if there is none.
fn word_for(obstacle: &Obstacle, disk: &Disk, disks: &[Disk]) -> Option<Override> {
    match obstacle.kind {
        ObstacleKind::Removable => Some(Override::Removable),
        ObstacleKind::DamagedTable => Some(Override::DamagedTable),
        ObstacleKind::ManyPartitions => Some(Override::ManyPartitions),
        ObstacleKind::LiveImage => Some(Override::LeftoverLiveMedium),
        ObstacleKind::UnreadableEnd => Some(Override::UnreadableEnd),
        // A second path to one LUN would write what the first one has mounted.
        ObstacleKind::SharedIdentity => {
            (!is_twin_in_use(disk, disks)).then_some(Override::SameSerial)
        }
        _ => None,
    }
}

/// True if a disk that may be the same one, as far as identity and size go, is in use.
fn is_twin_in_use(disk: &Disk, disks: &[Disk]) -> bool {
    let is_used =
        |obstacle: &Obstacle| matches!(obstacle.kind, ObstacleKind::Mounted | ObstacleKind::Active);
    let is_twin = |other: &&Disk| {
        let has_shared =
            other.obstacles.iter().any(|obstacle| obstacle.kind == ObstacleKind::SharedIdentity);
        has_shared && other.size_bytes == disk.size_bytes
    };
    others(disks, disk).filter(is_twin).any(|other| other.obstacles.iter().any(is_used))
}

/// Warnings about the labels on other disks that an order lets stay.
pub(crate) fn warnings(order: &Order, target: &Disk, disks: &[Disk]) -> Vec<String> {
    if !order.overrides.contains(&Override::BootLabelElsewhere) {
        return Vec::new();
    }
    let found = labels::check(target, disks, &Saved::default()).err();
    let warning = |failure: Failure| {
        let place = describe(target);
        format!("override boot_label_elsewhere lets {place} be installed: {}", failure.message)
    };
    found.map(warning).into_iter().collect()
}
