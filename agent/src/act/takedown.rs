//! Takes down what is active on the chosen disk and only there, where the policy allows overwriting it: swap areas,
//! mappings of device-mapper (LVM, encryption), md arrays. Nothing is unmounted, and no other disk is touched.
//!
//! No program is run. Members of pools that are not active, such as those of ZFS, are only labels; they need nothing.

mod activation;
mod kernel;

use std::time::Duration;

use nix::errno::Errno;
use probes::block::{ActiveKind, CurrentStack, Disk, ObstacleKind, current_stack};
use tracing::info;

use super::busy::check_not_busy;
use super::{Code, Failure, System, describe};

pub(super) use activation::disable as disable_activation;
pub(super) use kernel::{checkpoint, perform, reread_table};

/// One step of a take-down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Ends the use of a device as swap space.
    SwapOff {
        /// Its path.
        path: String,
        /// Major and minor number, by which it is checked once it is open.
        number: String,
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
        /// Major and minor number, by which it is checked once it is open.
        number: String,
    },
}

/// More steps than these are not a plausible stack of devices.
const MAX_STEPS: usize = 64;
/// Maximum number of tries for a busy device.
const MAX_TRIES: u32 = 15;
const TRY_AGAIN: Duration = Duration::from_millis(200);

/// True if anything has to be taken down, by the facts at the choice. The choice itself allowed it.
pub fn is_needed(disk: &Disk) -> bool {
    disk.obstacles.iter().any(|obstacle| obstacle.kind == ObstacleKind::Active)
}

/// Checks that everything that is active on the disk can be taken down and concerns no other disk, apart from the disks and
/// partitions with the names `given_up`.
///
/// # Errors
/// `DISK_BUSY`, with what prevents it.
pub fn check(disk: &Disk, system: &System, given_up: &[String]) -> Result<(), Failure> {
    next(disk, system, given_up).map(|_| ())
}

/// Takes everything down and checks that it is gone. `done` is called with a description of each finished step.
///
/// # Errors
/// `DISK_BUSY`: something concerns another disk, cannot be taken down, or is still there. `INTERRUPTED`: a signal came
/// first.
pub fn take_down(
    disk: &Disk,
    system: &System,
    given_up: &[String],
    done: &mut dyn FnMut(String),
) -> Result<(), Failure> {
    let is_stopped = || system.stop().is_stopped();
    let (mut n_done, mut n_tries) = (0, 0);
    // The kernel is asked again before each step and each try: removing one device may remove or reveal others, and
    // while one is busy its name may come to mean another.
    while let Some(step) = next(disk, system, given_up)? {
        if n_done == MAX_STEPS {
            return Err(busy(disk, &format!("something is still active after {MAX_STEPS} steps")));
        }
        let failed = |why: String| busy(disk, &format!("{}: {why}", step.doing()));
        if !matches!(step, Step::SwapOff { .. }) {
            keep_down(system).map_err(failed)?;
        }
        if is_stopped() {
            return Err(interrupted(disk));
        }
        n_tries += 1;
        match system.take_down(&step) {
            Ok(()) => {}
            Err(_) if is_stopped() => return Err(interrupted(disk)),
            // Another program has it open: udev opens each device shortly after each change.
            Err(error)
                if error.raw_os_error() == Some(Errno::EBUSY as i32) && n_tries < MAX_TRIES =>
            {
                system.sleep(TRY_AGAIN);
                continue;
            }
            Err(error) => return Err(failed(error.to_string())),
        }
        info!("{} on {}", step.doing(), disk.device);
        n_tries = 0;
        n_done += 1;
        done(step.doing());
    }
    check_not_busy(disk, system)
}

/// Keeps the members of arrays and volume groups on the disk inactive while it is written. coreos-installer has the
/// kernel read the old partition table again, and udev then starts all that it finds, also from halves on other disks.
///
/// # Errors
/// `DISK_BUSY`: udev cannot be kept from it.
pub fn keep_inactive(disk: &Disk, system: &System) -> Result<(), Failure> {
    if !disk.volumes().any(|volume| volume.filesystem.kind.ends_with("_member")) {
        return Ok(());
    }
    keep_down(system)
        .map_err(|why| busy(disk, &format!("keeping its arrays and volume groups stopped: {why}")))
}

/// Keeps arrays and volume groups stopped, and waits until that has an effect or a signal comes.
fn keep_down(system: &System) -> Result<(), String> {
    system.sleep(system.kernel().keep_down().map_err(|error| error.to_string())?);
    Ok(())
}

/// The next step; `None` if nothing is active.
fn next(disk: &Disk, system: &System, given_up: &[String]) -> Result<Option<Step>, Failure> {
    let given_up = given_up.to_vec();
    let number = disk.device_number.clone().unwrap_or_default();
    let stack = system.ask(move |machine| current_stack(machine, &number, &given_up));
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
    let Some(device) = stack.devices.first() else { return Ok(None) };
    let (name, number) = (device.name.clone(), device.number.clone());
    match &device.kind {
        ActiveKind::Mapping(uuid) => {
            Ok(Some(Step::RemoveMapping { name, number, uuid: uuid.clone() }))
        }
        ActiveKind::Swap => Ok(Some(Step::SwapOff { path: path(&name), number })),
        ActiveKind::Array => Ok(Some(Step::StopArray { path: path(&name), number })),
        ActiveKind::Other => Err(format!("it is held by {name}, which cannot be taken down")),
    }
}

impl Step {
    /// Describes the step.
    fn doing(&self) -> String {
        match self {
            Self::SwapOff { path, .. } => format!("ending the use of {path} as swap space"),
            Self::RemoveMapping { name, .. } => format!("removing the mapping {name}"),
            Self::StopArray { path, .. } => format!("stopping the array {path}"),
        }
    }
}

fn interrupted(disk: &Disk) -> Failure {
    let disk = describe(disk);
    let what = format!(
        "the agent received a signal to stop before all that is active on {disk} was taken down"
    );
    Failure::new(Code::Interrupted, what).advise("start the service again")
}

fn busy(disk: &Disk, why: &str) -> Failure {
    let what = format!("what is active on {} cannot be taken down: {why}", describe(disk));
    Failure::new(Code::DiskBusy, what).advise(
        "unmount it, stop the array or volume group by hand (mdadm --stop, vgchange -a n), or choose another disk",
    )
}

#[cfg(test)]
mod tests;
