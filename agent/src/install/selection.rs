//! The choice of the disk on the facts of the moment: made when the instruction arrives, and again right before
//! each write, when it must lead to the same disk.

use probes::block::Disk;

use super::identity::changed;
use super::target::Target;
use super::{Failure, System, choose, describe};
use crate::api::{Code, Install};

/// What a choice depends on.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'a> {
    /// The system whose disk is written.
    pub system: &'a System,
    /// The disks of the report, for a system that cannot collect their facts again.
    pub reported: &'a [Disk],
    /// The instruction.
    pub install: &'a Install,
}

impl Selection<'_> {
    /// Collects the facts of all disks, chooses one and holds it.
    ///
    /// # Errors
    /// As [`choose`] and [`Target::hold`], with the disk if one was chosen.
    pub fn target(&self) -> Result<Target, (Option<Box<Disk>>, Failure)> {
        let disks = self.disks().map_err(|failure| (None, failure))?;
        let disk = self.choose(&disks).map_err(|failure| (None, failure))?;
        Target::hold(disk, self.system).map_err(|failure| (Some(Box::new(disk.clone())), failure))
    }

    /// Chooses again on new facts, and checks that the held disk is chosen again and is unchanged.
    ///
    /// `is_written` says that an earlier attempt has begun to write the target: then its content no longer counts.
    ///
    /// # Errors
    /// `DISK_CHANGED` if another disk is chosen now, none or several; as [`Target::check`].
    pub fn confirm(&self, target: &Target, is_written: bool) -> Result<(), Failure> {
        target.check()?;
        let held = target.disk();
        let mut disks = self.disks()?;
        if is_written {
            for disk in disks.iter_mut().filter(|disk| is_same(disk, held)) {
                disk.clone_from(held);
            }
        }
        let chosen = self.choose(&disks).map_err(|failure| {
            let what =
                format!("{} was chosen, but is not any more: {}", describe(held), failure.message);
            Failure { message: what, ..failure }
        })?;
        if !is_same(chosen, held) {
            return Err(changed(format!(
                "{} was chosen, but the instruction now leads to {}",
                describe(held),
                describe(chosen)
            )));
        }
        // Collecting takes a moment.
        target.check()
    }

    fn disks(&self) -> Result<Vec<Disk>, Failure> {
        let disks = self.system.disks().map_err(|why| {
            Failure::new(Code::DiskNone, format!("collecting the facts of the disks again: {why}"))
        })?;
        Ok(disks.unwrap_or_else(|| self.reported.to_vec()))
    }

    fn choose<'d>(&self, disks: &'d [Disk]) -> Result<&'d Disk, Failure> {
        let resolve = |path: &str| self.system.kernel().resolve(path);
        choose(disks, self.install.disk.as_ref(), self.install.expect.as_ref(), &resolve)
    }
}

/// Whether two collections of facts are of one disk. Content may differ, and facts that one of them lacks.
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
