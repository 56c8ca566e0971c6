//! Controllers of the driver `megaraid_sas`: the list (`/sys/bus/pci/drivers/megaraid_sas`), and
//! the answers of their firmware.

use formats::megaraid::arrays::{self, Members};
use formats::megaraid::{self, DRIVE_BYTES, ListedVolume, VOLUME_BYTES, naa};
use formats::raid::{RaidController, RaidDrive, RaidVolume};
use formats::vpd;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::block::disk::Disk;
use crate::machine::Machine;
use crate::pci_address::is_pci_address;
use crate::sys::megaraid::{DrivePage, MegaraidCommand, MegaraidNode, MegaraidQuestion};

use super::host;

pub(super) const DRIVER: &str = "megaraid_sas";
/// After this no drive is asked directly: the collector has 20 s.
pub(super) const PAGES_LIMIT: Duration = Duration::from_secs(8);
/// Targets in a channel of the SCSI host, and the channels before those of volumes
/// (`MEGASAS_MAX_DEV_PER_CHANNEL`, `MEGASAS_MAX_PD_CHANNELS`).
const TARGETS: u32 = 128;
const DRIVE_CHANNELS: u32 = 2;

/// Reads the controllers, by PCI address. Their drives are asked directly for at most `pages_limit`.
pub(super) fn controllers(machine: &Machine, pages_limit: Duration) -> Vec<RaidController> {
    let bound = machine.list(&format!("sys/bus/pci/drivers/{DRIVER}"));
    let (node, pages_end) = (MegaraidNode::default(), Instant::now() + pages_limit);
    let addresses = bound.into_iter().filter(|name| is_pci_address(name));
    addresses.map(|address| controller(machine, &node, address, pages_end)).collect()
}

/// A controller whose firmware answers.
struct Firmware<'a> {
    machine: &'a Machine,
    node: &'a MegaraidNode,
    host: u16,
    /// Until when drives are asked directly.
    pages_end: Instant,
    /// True if a drive was not asked because time ran out.
    is_late: Cell<bool>,
}

impl Firmware<'_> {
    fn ask(&self, command: MegaraidCommand) -> Option<Vec<u8>> {
        self.machine.ask(&MegaraidQuestion { node: self.node, host: self.host, command })
    }

    /// Asks for a structure of `n_bytes` bytes; a shorter one is a problem and gives `None`.
    fn structure(&self, command: MegaraidCommand, what: &str, n_bytes: usize) -> Option<Vec<u8>> {
        let answer = self.ask(command)?;
        if answer.len() < n_bytes {
            self.problem(what, format!("{} bytes", answer.len()), format!("{n_bytes} bytes"));
            return None;
        }
        Some(answer)
    }

    /// Asks the drive itself, which may take as long as the timeout of the command.
    fn page(&self, target: u8, page: DrivePage) -> Option<Vec<u8>> {
        if Instant::now() >= self.pages_end {
            self.is_late.set(true);
            return None;
        }
        self.ask(MegaraidCommand::DrivePage(target, page))
    }

    /// Records a problem with the answer to `what`.
    fn problem(&self, what: &str, found: impl Into<String>, expected: impl Into<String>) {
        let path = format!("kernel/megaraid/host{}/{what}", self.host);
        self.machine.problem(&path, found, expected);
    }
}

fn controller(
    machine: &Machine,
    node: &MegaraidNode,
    address: String,
    pages_end: Instant,
) -> RaidController {
    let host = host(machine, &address).filter(|host| is_running(machine, *host));
    let known =
        RaidController { pci_address: address, driver: DRIVER.to_owned(), ..Default::default() };
    let Some(host) = host else { return known };
    let firmware = Firmware { machine, node, host, pages_end, is_late: Cell::new(false) };
    // A controller that does not answer this is asked nothing else.
    let Some(info) = firmware.ask(MegaraidCommand::Controller) else { return known };
    let drives = drives(&firmware);
    let volumes = volumes(&firmware, drives.as_deref().unwrap_or_default());
    let RaidController { pci_address, driver, .. } = known;
    RaidController { pci_address, driver, drives, volumes, ..megaraid::controller(&info) }
}

/// While the host recovers, the driver delays every question.
fn is_running(machine: &Machine, host: u16) -> bool {
    let path = format!("sys/class/scsi_host/host{host}/state");
    match machine.text(&path) {
        Some(state) if state != "running" => {
            let expected = "\"running\"; the controller was not asked for its drives";
            machine.problem(&path, crate::machine::quote(&state), expected);
            false
        }
        _ => true,
    }
}

fn drives(firmware: &Firmware) -> Option<Vec<RaidDrive>> {
    let answer = firmware.ask(MegaraidCommand::Drives)?;
    let Some(listed) = megaraid::drives(&answer) else {
        let n_bytes = answer.len();
        let found = format!("{n_bytes} bytes that end before the drives that they announce");
        firmware.problem("drives", found, "a list of at most 256 drives");
        return None;
    };
    // A list that repeats a drive describes it once.
    let listed: BTreeMap<u16, RaidDrive> =
        listed.into_iter().filter_map(|drive| Some((drive.device_id?, drive))).collect();
    let described = listed.into_iter().filter_map(|(id, drive)| one_drive(firmware, id, drive));
    let mut drives: Vec<RaidDrive> = described.collect();
    drives.sort_by_key(|drive| (drive.enclosure, drive.slot, drive.device_id));
    if firmware.is_late.get() {
        let found = "drives that were not asked directly, because time ran out";
        firmware.problem("drives", found, "an answer from each within milliseconds");
    }
    Some(drives)
}

/// The drive that the list has as `listed`; `None` if it is not a drive.
fn one_drive(firmware: &Firmware, id: u16, listed: RaidDrive) -> Option<RaidDrive> {
    let what = format!("drive-{id}");
    let info = firmware.structure(MegaraidCommand::Drive(id), &what, DRIVE_BYTES);
    let Some((drive, scsi_kind, state)) = info.and_then(|info| megaraid::drive(&info)) else {
        return Some(listed);
    };
    if drive.device_id != Some(id) {
        let found = format!("drive {:?}", drive.device_id);
        firmware.problem(&what, found, format!("the requested drive {id}"));
        return None;
    }
    // Others are enclosures and the like.
    if scsi_kind != 0 {
        return None;
    }
    if drive.state.is_none() {
        firmware.problem(&what, format!("drive state {state:#04x}"), "a known state");
    }
    // A failed drive may block the controller, and the number of a drive in a SCSI command has one
    // byte.
    let is_lost = ["failed", "unconfigured bad"].iter().any(|s| drive.state.as_deref() == Some(s));
    match u8::try_from(id) {
        Ok(target) if !is_lost => Some(with_pages(firmware, target, drive)),
        _ => Some(drive),
    }
}

/// Adds the drive's own data, unless the controller already has it.
fn with_pages(firmware: &Firmware, target: u8, drive: RaidDrive) -> RaidDrive {
    let page = |page| firmware.page(target, page);
    let mut drive = drive;
    if drive.model.is_none()
        && let Some(data) = page(DrivePage::Standard)
    {
        let RaidDrive { vendor, model, firmware, serial, .. } = megaraid::inquiry(&data);
        drive = RaidDrive { vendor, model, firmware, serial, ..drive };
    }
    if drive.wwn.is_none() {
        drive.wwn = page(DrivePage::Identification).and_then(|page| naa(&page));
    }
    let serial = page(DrivePage::UnitSerial).and_then(|page| vpd::unit_serial(&page));
    drive.serial = serial.or(drive.serial);
    if let Some(page) = page(DrivePage::Characteristics) {
        drive.rotation_rpm = vpd::rotation_rpm(&page);
        drive.rotational = vpd::is_rotational(&page);
    }
    drive
}

fn volumes(firmware: &Firmware, drives: &[RaidDrive]) -> Option<Vec<RaidVolume>> {
    let answer = firmware.ask(MegaraidCommand::Volumes)?;
    let Some(listed) = megaraid::volumes(&answer) else {
        let n_bytes = answer.len();
        let found = format!("{n_bytes} bytes that end before the volumes that they announce");
        firmware.problem("volumes", found, "a list of at most 64 volumes");
        return None;
    };
    if listed.is_empty() {
        return Some(Vec::new());
    }
    let n_volumes = megaraid::n_volumes(&answer).unwrap_or_default();
    if n_volumes != listed.len() {
        let found = format!("{n_volumes} volumes");
        firmware.problem("volumes", found, "at most 64; the others are not read");
    }
    let arrays = arrays(firmware);
    let mut volumes: Vec<RaidVolume> =
        listed.into_iter().map(|listed| one_volume(firmware, listed, &arrays, drives)).collect();
    volumes.sort_by_key(|volume| volume.id);
    volumes.dedup_by_key(|volume| volume.id);
    Some(volumes)
}

fn one_volume(
    firmware: &Firmware,
    listed: ListedVolume,
    arrays: &BTreeMap<u16, Members>,
    drives: &[RaidDrive],
) -> RaidVolume {
    let ListedVolume { id, state: listed_state, n_blocks } = listed;
    let what = format!("volume-{id}");
    let info = firmware.structure(MegaraidCommand::Volume(id), &what, VOLUME_BYTES);
    let described = info.and_then(|info| megaraid::volume(&info)).filter(|(volume, ..)| {
        if volume.id != id {
            let found = format!("volume {}", volume.id);
            firmware.problem(&what, found, format!("the requested volume {id}"));
        }
        volume.id == id
    });
    let (mut volume, state, spans) = described.unwrap_or_else(|| {
        let state = megaraid::volume_state(listed_state);
        (RaidVolume { id, state, ..RaidVolume::default() }, listed_state, Vec::new())
    });
    if volume.state.is_none() {
        firmware.problem(&what, format!("volume state {state}"), "a number from 0 to 3");
    }
    let spans: Option<Vec<&Members>> = spans.iter().map(|number| arrays.get(number)).collect();
    if let Some(spans) = spans.filter(|spans| !spans.is_empty()) {
        let members: Vec<&Option<u16>> = spans.into_iter().flatten().collect();
        volume.drives = members.iter().filter_map(|member| **member).collect();
        volume.n_missing_drives = Some(members.len() - volume.drives.len());
        volume.size_bytes = size_bytes(n_blocks, &volume.drives, drives);
    }
    volume
}

/// A volume has the block size of its drives.
fn size_bytes(n_blocks: u64, members: &[u16], drives: &[RaidDrive]) -> Option<u64> {
    let known = members.iter().map(|id| drives.iter().find(|drive| drive.device_id == Some(*id)));
    let sizes: Option<BTreeSet<u16>> =
        known.map(|drive| Some(drive?.logical_block_bytes.unwrap_or(512))).collect();
    let sizes = sizes.filter(|sizes| sizes.len() == 1)?;
    n_blocks.checked_mul(u64::from(*sizes.first()?))
}

/// The members of all arrays by number.
fn arrays(firmware: &Firmware) -> BTreeMap<u16, Members> {
    let answer = firmware.ask(MegaraidCommand::Configuration);
    let Some(mut answer) = answer else { return BTreeMap::new() };
    if arrays::n_bytes(&answer).is_some_and(|n| n > answer.len())
        && let Some(larger) = firmware.ask(MegaraidCommand::LargeConfiguration)
    {
        answer = larger;
    }
    arrays::arrays(&answer).unwrap_or_else(|| {
        let found = format!("a header of {}", formats::hex::hex(answer.iter().take(16)));
        let expected = "a header of 32 bytes and arrays of 288 bytes";
        firmware.problem("configuration", found, expected);
        BTreeMap::new()
    })
}

/// Channel and target of a disk.
fn place(disk: &Disk) -> Option<(u32, u32)> {
    let mut parts = disk.hctl.as_deref()?.split(':').skip(1);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// True if the disk is the volume with this id (`MEGASAS_DEV_INDEX`).
pub(super) fn is_volume(disk: &Disk, id: u8) -> bool {
    let id = u32::from(id);
    place(disk) == Some((DRIVE_CHANNELS + id / TARGETS, id % TARGETS))
}

/// True if the disk is the drive with this device id, passed through.
pub(super) fn is_drive(disk: &Disk, device_id: u16) -> bool {
    let id = u32::from(device_id);
    id < DRIVE_CHANNELS * TARGETS && place(disk) == Some((id / TARGETS, id % TARGETS))
}
