//! Takes down what is active on the chosen disk and only there, where the policy allows to overwrite it: swap areas,
//! mappings of device-mapper (LVM, encryption), md arrays. Nothing is unmounted, and no other disk is touched.
//!
//! No program is run. Members of pools that are not active, such as those of ZFS, are only labels; they need nothing.

mod activation;
mod kernel;

use std::thread::sleep;
use std::time::Duration;

use probes::block::{ActiveKind, CurrentStack, Disk, ObstacleKind, current_stack};
use tracing::info;

use super::busy::check_not_busy;
use super::{Failure, System, describe};
use crate::api::Code;

pub(super) use kernel::perform;

/// One step of a take-down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Ends the use of a device as swap space.
    SwapOff {
        /// Its path.
        path: String,
    },
    /// Removes a mapping of device-mapper.
    RemoveMapping {
        /// Kernel name, for messages.
        name: String,
        /// Major and minor number.
        number: String,
        /// UUID, if it has one.
        uuid: Option<String>,
    },
    /// Stops an md array.
    StopArray {
        /// Its path.
        path: String,
    },
}

/// More steps than these are no plausible stack of devices.
const MAX_STEPS: usize = 64;
/// How often a busy device is tried: udev opens each device shortly after each change.
const MAX_TRIES: u32 = 15;
const TRY_AGAIN: Duration = Duration::from_millis(200);

/// Whether anything has to be taken down, by the facts at the choice. The choice itself allowed it.
#[must_use]
pub fn is_needed(disk: &Disk) -> bool {
    disk.obstacles.iter().any(|obstacle| obstacle.kind == ObstacleKind::Active)
}

/// Checks that everything that is active on the disk can be taken down and concerns no other disk.
///
/// # Errors
/// `DISK_BUSY`, with what prevents it.
pub fn check(disk: &Disk, system: &System) -> Result<(), Failure> {
    next(disk, system).map(|_| ())
}

/// Takes everything down and checks that it is gone. Returns each step in words.
///
/// # Errors
/// `DISK_BUSY`: something concerns another disk, cannot be taken down, or is still there.
pub fn take_down(disk: &Disk, system: &System) -> Result<Vec<String>, Failure> {
    let mut done = Vec::new();
    // The kernel is asked again after each step: removing one device may remove or reveal others.
    while let Some(step) = next(disk, system)? {
        if done.len() == MAX_STEPS {
            return Err(busy(disk, &format!("something is still active after {MAX_STEPS} steps")));
        }
        carry_out(&step, system).map_err(|why| busy(disk, &format!("{}: {why}", step.doing())))?;
        info!("{} on {}", step.doing(), disk.device);
        done.push(step.doing());
    }
    check_not_busy(disk, system)?;
    Ok(done)
}

/// The next step; `None` if nothing is active.
fn next(disk: &Disk, system: &System) -> Result<Option<Step>, Failure> {
    let number = disk.device_number.clone().unwrap_or_default();
    let stack = system.ask(move |machine| current_stack(machine, &number));
    let stack = stack
        .and_then(|stack| stack)
        .map_err(|why| busy(disk, &format!("what is active on it cannot be determined: {why}")))?;
    step_of(&stack).map_err(|why| busy(disk, &why))
}

/// The first step for a stack, if each of its devices can be taken down.
fn step_of(stack: &CurrentStack) -> Result<Option<Step>, String> {
    let obstacles: Vec<&str> =
        stack.mounts.iter().chain(&stack.shared).map(String::as_str).collect();
    if !obstacles.is_empty() {
        return Err(obstacles.join("; "));
    }
    let is_other = |kind: &ActiveKind| *kind == ActiveKind::Other;
    if let Some(other) = stack.devices.iter().find(|device| is_other(&device.kind)) {
        return Err(format!("it is held by {}, which cannot be taken down", other.name));
    }
    let path = |name: &str| format!("/dev/{}", name.replace('!', "/"));
    if let Some(name) = stack.swaps.first() {
        return Ok(Some(Step::SwapOff { path: path(name) }));
    }
    Ok(stack.devices.first().map(|device| match &device.kind {
        ActiveKind::Mapping(uuid) => Step::RemoveMapping {
            name: device.name.clone(),
            number: device.number.clone(),
            uuid: uuid.clone(),
        },
        ActiveKind::Array | ActiveKind::Other => Step::StopArray { path: path(&device.name) },
    }))
}

fn carry_out(step: &Step, system: &System) -> Result<(), String> {
    for _ in 1..MAX_TRIES {
        match system.take_down(step) {
            Err(why) if why.contains("busy") => sleep(TRY_AGAIN),
            outcome => return outcome,
        }
    }
    system.take_down(step)
}

impl Step {
    /// The step in words.
    fn doing(&self) -> String {
        match self {
            Self::SwapOff { path } => format!("ending the use of {path} as swap space"),
            Self::RemoveMapping { name, .. } => format!("removing the mapping {name}"),
            Self::StopArray { path } => format!("stopping the array {path}"),
        }
    }
}

fn busy(disk: &Disk, why: &str) -> Failure {
    let what = format!("what is active on {} cannot be taken down: {why}", describe(disk));
    Failure::new(Code::DiskBusy, what).advise(
        "unmount it, remove the other disk from the array or volume group, or choose another disk",
    )
}

#[cfg(test)]
mod tests;
