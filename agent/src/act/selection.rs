//! The choice of the disk on the facts of the moment: made when the order arrives, and again right before
//! each write, when it must lead to the same disk.

use ignition::Erased;
use probes::block::{Disk, Filesystem, Obstacle, ObstacleKind};

use super::blank::{self, NoData};
use super::existing::COREOS;
use super::identity::changed;
use super::proof::earlier;
use super::target::Target;
use super::{
    Code, Decision, ExistingDataPolicy, Failure, Order, Say, System, Term, Undecided, Wanted,
    decide, describe, existing, first_boot, remains, say,
};
use crate::act::array_metadata::describe as describe_remains;

/// The inputs of a choice.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'a> {
    /// The system whose disk is written.
    pub system: &'a System,
    /// The disks of the report, for a system that cannot collect their facts again.
    pub reported: &'a [Disk],
    /// The order.
    pub order: &'a Order,
    /// Disks that the configuration protects.
    pub protect: &'a [String],
    /// The size of the image, if it is known before the choice.
    pub min_bytes: Option<u64>,
}

impl Selection<'_> {
    /// Chooses one of these disks, whose facts were just collected, and holds it. It is searched where these facts show
    /// nothing. If something is there, the choice is made again with it.
    ///
    /// # Errors
    /// As [`decide`] and [`Target::hold`], with the disk if it is clear which one is meant; `EXISTING_DATA` if the policy
    /// requires a blank disk, and it is only known where no data are.
    pub fn target(&self, disks: &[Disk]) -> Result<Target, (Option<Box<Disk>>, Failure)> {
        let held = self.hold(disks)?;
        let disk = held.target.disk();
        let (changed, where_found) = match search(&held, self.order.is_unfinished(disk)) {
            Ok(Searched::Nothing(seen)) => return Ok(held.chosen(seen)),
            Ok(Searched::Content(changed, where_found)) => (changed, where_found),
            Err(failure) => return Err((Some(Box::new(disk.clone())), failure)),
        };
        let disks = with(disks, &changed);
        tracing::info!("{} is not what it seemed: {where_found}", describe(disk));
        let held = self.hold(&disks).map_err(|(disk, failure)| {
            let message = say![failure.message, "; ", where_found];
            (disk, Failure { message, ..failure })
        })?;
        Ok(held.chosen(None))
    }

    fn hold(&self, disks: &[Disk]) -> Result<Held, (Option<Box<Disk>>, Failure)> {
        let with_disk = |disk: Option<&Disk>| disk.map(|disk| Box::new(disk.clone()));
        let decision =
            self.decide(disks).map_err(|Undecided { disk, failure }| (with_disk(disk), failure))?;
        let Decision { disk, because, policy } = decision;
        let target =
            Target::hold(disk, self.system).map_err(|failure| (with_disk(Some(disk)), failure))?;
        Ok(Held { target, because, policy })
    }

    /// Chooses again on new facts, and checks that the held disk is chosen again and is unchanged.
    ///
    /// `is_written` says that an earlier attempt has begun to write the target: then the content that it had counts.
    /// Returns all disks as they are now.
    ///
    /// # Errors
    /// `DISK_CHANGED` if another disk is chosen now, none or several; as [`Target::check`].
    pub fn confirm(&self, target: &Target, is_written: bool) -> Result<Vec<Disk>, Failure> {
        target.check()?;
        let held = target.disk();
        let mut disks = self.disks()?;
        if is_written {
            for disk in disks.iter_mut().filter(|disk| is_same(disk, held)) {
                *disk = with_content_of(held, disk);
            }
        }
        let decision = self.decide(&disks).map_err(|Undecided { failure, .. }| {
            let what = say![describe(held), " was chosen, but is not any more: ", failure.message];
            Failure { message: what, ..failure }
        })?;
        let chosen = decision.disk;
        if !is_same(chosen, held) {
            let now = format!(
                " now leads to {}, but {} was chosen before",
                describe(chosen),
                describe(held)
            );
            return Err(changed(say![Term::Order, now]));
        }
        // Collecting takes a moment.
        target.check()?;
        Ok(disks)
    }

    /// Collects the facts of all disks.
    ///
    /// # Errors
    /// They could not be collected in time.
    pub fn disks(&self) -> Result<Vec<Disk>, Failure> {
        let disks = self.system.disks().map_err(|why| {
            Failure::new(Code::DiskNone, format!("collecting the facts of the disks again: {why}"))
        })?;
        Ok(disks.unwrap_or_else(|| self.reported.to_vec()))
    }

    /// Warnings about the disks around the target; the Ignition config may erase some.
    ///
    /// # Errors
    /// `PROTECTED`: it erases a protected disk.
    pub fn around(
        &self,
        target: &Disk,
        disks: &[Disk],
        erased: &[Erased],
    ) -> Result<Vec<String>, Failure> {
        let resolve = |path: &str| self.system.kernel().resolve(path);
        first_boot::of_disks(erased, target, disks, &self.wanted(), &resolve)
    }

    /// Decides as the install does, on facts that were completed by [`Selection::target`].
    ///
    /// # Errors
    /// As [`decide`].
    pub fn decide<'d>(&self, disks: &'d [Disk]) -> Result<Decision<'d>, Undecided<'d>> {
        let resolve = |path: &str| self.system.kernel().resolve(path);
        decide(disks, &self.wanted(), &resolve)
    }

    pub(super) fn wanted(&self) -> Wanted<'_> {
        let Self { order, protect, min_bytes, .. } = *self;
        Wanted { order, protect, min_bytes }
    }
}

/// The disks, with other facts of one of them.
pub fn with(disks: &[Disk], changed: &Disk) -> Vec<Disk> {
    let chosen = |disk: &Disk| if is_same(disk, changed) { changed.clone() } else { disk.clone() };
    disks.iter().map(chosen).collect()
}

/// A disk that was chosen by its facts and is held.
struct Held {
    target: Target,
    because: Vec<Say>,
    policy: ExistingDataPolicy,
}

impl Held {
    /// Logs the choice, with the result of a search in place of what the facts say about the content.
    fn chosen(mut self, seen: Option<NoData>) -> Target {
        if let Some((seen, reason)) = seen.zip(self.because.last_mut()) {
            *reason = seen.to_string().into();
        }
        let because: Vec<String> = self.because.iter().map(ToString::to_string).collect();
        tracing::info!("chose {}: {}", describe(self.target.disk()), because.join("; "));
        self.target
    }
}

/// The result of a search of a disk.
enum Searched {
    /// No more than its facts say; of a disk that seems blank, where no data are.
    Nothing(Option<NoData>),
    /// The facts of the disk with the content that was found, and its description.
    Content(Box<Disk>, String),
}

/// Searches the end of a disk for metadata of arrays and pools, places all over a disk that seems blank, the gaps of an earlier
/// `CoreOS`, and the start of lost volumes on a disk whose content has no known owner.
fn search(held: &Held, is_unfinished: bool) -> Result<Searched, Failure> {
    let (target, policy, disk) = (&held.target, held.policy, held.target.disk());
    let mut changed = Box::new(disk.clone());
    let is_new = |kind: &str| disk.filesystem.as_ref().is_none_or(|known| known.kind != kind);
    let mut remains = remains::before(target).into_iter();
    if let Some(first) = remains.find(|(_, kind)| is_new(kind)) {
        let what = describe_remains(&first);
        let text = format!("{} is a member of an array or pool: {what}", disk.name);
        changed.obstacles.push(ObstacleKind::Content.because(text));
        let filesystem = Filesystem { kind: first.1.into(), ..Filesystem::default() };
        changed.filesystem.get_or_insert(filesystem);
        return Ok(Searched::Content(changed, what));
    }
    let where_found = if existing::found(disk).is_empty() {
        match blank::check(target, policy) {
            Ok(seen) if policy == ExistingDataPolicy::Refuse && !seen.is_certain => {
                return Err(existing::not_known_as_blank(disk, &seen.to_string()));
            }
            Ok(seen) => return Ok(Searched::Nothing(Some(seen))),
            Err(why) => Some(why.to_string()),
        }
    } else if let Err(why) = check_earlier(target) {
        changed.existing_os.retain(|system| system != COREOS);
        return Ok(Searched::Content(changed, why));
    } else {
        let found = blank::check_areas(target, &existing::gaps(disk)).err();
        found.map(|why| why.to_string())
    };
    // A volume on the remains of a write is a part of its image.
    let may_be_lost = existing::is_unowned(disk) && !is_unfinished;
    let lost = if may_be_lost { blank::lost_volume(target) } else { None };
    Ok(match (lost, where_found) {
        (Some((at, filesystem)), _) => {
            let what = format!("{} at byte {at}, in no partition", filesystem.kind);
            changed.filesystem = Some(filesystem);
            Searched::Content(changed, what)
        }
        (None, Some(where_found)) => {
            changed.has_unknown_content = true;
            Searched::Content(changed, where_found)
        }
        (None, None) => Searched::Nothing(None),
    })
}

/// Checks that a disk that seems to contain an earlier `CoreOS` does.
fn check_earlier(target: &Target) -> Result<(), String> {
    let disk = target.disk();
    if !existing::is_coreos(disk) {
        return Ok(());
    }
    let file = target.file().map_err(|failure| failure.message.to_string());
    let stop = target.system().stop();
    file.and_then(|file| earlier::check(file, disk.partitions.clone(), stop))
        .map_err(|why| format!("it is labelled as an earlier CoreOS, but {why}"))
}

/// The facts of a disk now, with the content that it had before this job began to write it. Whether it is in use, or
/// fit for use at all, is a fact of now.
fn with_content_of(before: &Disk, now: &Disk) -> Disk {
    let is_content = |obstacle: &&Obstacle| {
        use ObstacleKind::{Content, DamagedTable, LiveImage, ManyPartitions, Unknown};
        let kinds = [Content, DamagedTable, LiveImage, ManyPartitions, Unknown];
        kinds.contains(&obstacle.kind)
    };
    let of_now = now.obstacles.iter().filter(|obstacle| !is_content(obstacle));
    let obstacles: Vec<Obstacle> =
        before.obstacles.iter().filter(is_content).chain(of_now).cloned().collect();
    Disk {
        eligible: obstacles.is_empty(),
        not_eligible_because: obstacles.iter().map(|obstacle| obstacle.text.clone()).collect(),
        obstacles,
        partition_table: before.partition_table.clone(),
        filesystem: before.filesystem.clone(),
        partitions: before.partitions.clone(),
        unlisted: before.unlisted.clone(),
        existing_os: before.existing_os.clone(),
        has_unknown_content: before.has_unknown_content,
        ..now.clone()
    }
}

/// True if two collections of facts describe one disk. Content may differ, and facts that one of them lacks.
fn is_same(one: &Disk, other: &Disk) -> bool {
    fn agree<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
        one.zip(other).is_none_or(|(one, other)| one == other)
    }
    one.name == other.name
        && one.device_number == other.device_number
        && one.size_bytes == other.size_bytes
        && agree(one.diskseq.as_ref(), other.diskseq.as_ref())
        && agree(one.serial.as_ref(), other.serial.as_ref())
        && agree(one.wwn.as_ref(), other.wwn.as_ref())
}
