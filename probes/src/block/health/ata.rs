//! ATA: SMART status and attributes (SFF-8035i, ACS-4 §7.48), and the wear of a solid state drive
//! (ACS-4 §9.5.10). A disk in standby is not asked further, since that would start its motor.

use formats::ata_identify::Identify;
use formats::bytes::le16;

use crate::machine::Machine;
use crate::sys::disk::DiskHandle;
use crate::sys::scsi::{ScsiCommand, ScsiQuestion};

use super::{Answers, Health, locks};

/// Answers to CHECK POWER MODE from a disk in standby: two kinds of standby, and writes held by its non-volatile cache
/// (ACS-4 table 206).
const STANDBY: [u8; 3] = [0x00, 0x01, 0x40];
/// Bits of the status register: the command was refused, the device is broken (ACS-4 §6.2).
const FAILED: u8 = 0x21;

pub(super) fn read(
    machine: &Machine,
    disk: &DiskHandle,
    identify: Identify,
    is_readable: bool,
) -> Answers {
    // An unsupported command would make the kernel read the disk's error log and repeat the other commands in flight.
    let has_health = is_readable && (identify.has_smart() || identify.has_wear_log());
    let has_locks = identify.has_trusted_commands() == Some(true);
    if !(has_health || has_locks) || !is_up(machine, disk) {
        return Answers::default();
    }
    let tcg = if has_locks { locks::of_disk(machine, disk, locks::ATA) } else { None };
    let health = if has_health { health(machine, disk, identify) } else { None };
    Answers { health, tcg, ..Answers::default() }
}

/// True if the disk reports that it is not in standby.
fn is_up(machine: &Machine, disk: &DiskHandle) -> bool {
    let answer = machine.ask(&ScsiQuestion { disk, command: ScsiCommand::AtaPowerMode });
    let power = answer.as_deref().and_then(registers);
    power.is_some_and(|[count, ..]| !STANDBY.contains(&count))
}

fn health(machine: &Machine, disk: &DiskHandle, identify: Identify) -> Option<Health> {
    let ask = |command: ScsiCommand| machine.ask(&ScsiQuestion { disk, command });
    let mut health = Health::default();
    if identify.has_smart() {
        let data = ask(ScsiCommand::AtaSmartData).filter(|data| is_summed(data));
        health = data.as_deref().map(attributes).unwrap_or_default();
        let status = ask(ScsiCommand::AtaSmartStatus).as_deref().and_then(registers);
        health.is_passed = status.and_then(verdict);
    }
    if identify.has_wear_log() {
        health.used_percent = wear(&ask);
    }
    (health != Health::default()).then_some(health)
}

/// The wear, if the disk lists the log of statistics in its directory and the page in the log.
fn wear(ask: &dyn Fn(ScsiCommand) -> Option<Vec<u8>>) -> Option<u8> {
    const STATISTICS: u8 = 0x04;
    const SOLID_STATE: u8 = 0x07;
    let read = |log: u8, page: u8| ask(ScsiCommand::AtaLog { log, page });
    let directory = read(0, 0)?;
    if le16(&directory, 0) != 1 || le16(&directory, 2 * usize::from(STATISTICS)) == 0 {
        return None;
    }
    let list = read(STATISTICS, 0)?;
    let n_pages = usize::from(*list.get(8)?);
    let has_page = list.get(9..9 + n_pages)?.contains(&SOLID_STATE);
    if has_page { used_percent(&read(STATISTICS, SOLID_STATE)?) } else { None }
}

/// The registers of an ATA disk at the end of a command, as sense data carry them (SAT-4 §12.2.2.6): the sector count, and
/// the middle and high LBA.
fn registers(sense: &[u8]) -> Option<[u8; 3]> {
    let at = |index: usize| sense.get(index).copied();
    let [count, lba_mid, lba_high, status] = match at(0)? & 0x7f {
        0x72 if at(8)? == 0x09 => [13, 17, 19, 21],
        0x70 => [6, 10, 11, 4],
        _ => return None,
    };
    // Of a command that failed the registers are what was sent.
    let is_done = at(status)? & FAILED == 0;
    is_done.then_some([at(count)?, at(lba_mid)?, at(lba_high)?])
}

/// The disk leaves 4Fh and C2h as they are, or turns them into F4h and 2Ch if it will fail.
fn verdict(registers: [u8; 3]) -> Option<bool> {
    match registers {
        [_, 0x4f, 0xc2] => Some(true),
        [_, 0xf4, 0x2c] => Some(false),
        _ => None,
    }
}

/// The bytes of the page add up to zero.
fn is_summed(page: &[u8]) -> bool {
    page.len() == 512 && page.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)) == 0
}

/// Thirty attributes of twelve bytes: number, flags, value, worst value, six raw bytes.
fn attributes(page: &[u8]) -> Health {
    let records = page.get(2..362).unwrap_or_default().chunks_exact(12);
    let raw = |id: u8, n_bytes: usize| {
        let record = records.clone().find(|record| record[0] == id)?;
        Some(record[5..5 + n_bytes].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    // Some disks keep other counts in the upper bytes of 5, 9 and the temperatures.
    let temperature = raw(194, 1).or_else(|| raw(190, 1)).and_then(|raw| u8::try_from(raw).ok());
    Health {
        reallocated_sectors: raw(5, 2),
        power_on_hours: raw(9, 3),
        power_cycles: raw(12, 4),
        temperature_celsius: temperature
            .map(|raw| i32::from(i8::from_ne_bytes([raw])))
            .filter(|celsius| *celsius != 0),
        pending_sectors: raw(197, 4),
        uncorrectable_sectors: raw(198, 4),
        interface_crc_errors: raw(199, 4),
        ..Health::default()
    }
}

/// Percentage Used Endurance Indicator: bit 63 says that it is supported, bit 62 that it is valid.
fn used_percent(page: &[u8]) -> Option<u8> {
    let is_page = le16(page, 0) == 1 && page.get(2) == Some(&7);
    let flags = page.get(15)?;
    (is_page && flags >> 6 == 0b11).then(|| page[8])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SATA, disk_at};

    fn page(attributes: &[(u8, [u8; 6])]) -> Vec<u8> {
        let mut page = vec![0; 512];
        for (index, (id, raw)) in attributes.iter().enumerate() {
            let at = 2 + 12 * index;
            page[at] = *id;
            page[at + 5..at + 11].copy_from_slice(raw);
        }
        page[511] = page.iter().fold(0_u8, |sum, byte| sum.wrapping_sub(*byte));
        page
    }

    fn sense(count: u8, mid: u8, high: u8) -> Vec<u8> {
        let mut sense = vec![0; 22];
        (sense[0], sense[7], sense[8], sense[9]) = (0x72, 14, 0x09, 12);
        (sense[13], sense[17], sense[19]) = (count, mid, high);
        sense
    }

    #[test]
    fn vendor_bytes_of_attributes_are_ignored() {
        let health = attributes(&page(&[
            (5, [8, 0, 0xff, 0, 0, 0]),
            (9, [0x10, 0x27, 0, 0x55, 0, 0]),
            (194, [36, 0, 20, 0, 45, 0]),
            (197, [2, 0, 0, 0, 0, 0]),
        ]));
        assert_eq!(health.reallocated_sectors, Some(8));
        assert_eq!(health.power_on_hours, Some(10_000));
        assert_eq!(health.temperature_celsius, Some(36));
        assert_eq!(health.pending_sectors, Some(2));
        assert_eq!(health.uncorrectable_sectors, None);
    }

    #[test]
    fn damaged_page_is_ignored() {
        let mut damaged = page(&[(5, [8; 6])]);
        damaged[100] ^= 1;
        assert!(!is_summed(&damaged) && !is_summed(&[]) && !is_summed(&[0; 100]));
        assert!(is_summed(&page(&[(5, [8; 6])])));
        assert_eq!(attributes(&[]), Health::default());
    }

    #[test]
    fn registers_come_in_both_forms_of_sense_data() {
        let fixed = [0x70, 0, 1, 0, 0x50, 0, 0xff, 10, 0, 0, 0xf4, 0x2c, 0, 0x1d];
        assert_eq!(registers(&fixed).and_then(verdict), Some(false));
        assert_eq!(registers(&sense(0xff, 0x4f, 0xc2)).and_then(verdict), Some(true));
        assert_eq!(registers(&sense(0, 0, 0)).and_then(verdict), None);
        let mut aborted = sense(0xff, 0x4f, 0xc2);
        aborted[21] = 0x51;
        assert_eq!(registers(&aborted), None, "the registers are what was sent");
        for broken in [&[][..], &[0x72], &[0x72; 12], &[0x71; 22]] {
            assert_eq!(registers(broken), None);
        }
    }

    #[test]
    fn wear_counts_only_if_the_drive_marks_it_valid() {
        let mut page = vec![0; 512];
        (page[0], page[2], page[8], page[15]) = (1, 7, 42, 0xc0);
        assert_eq!(used_percent(&page), Some(42));
        page[15] = 0x80;
        assert_eq!(used_percent(&page), None);
        assert_eq!(used_percent(&[]), None);
    }

    /// The health of a SATA disk with these words and answers.
    fn health(words: &[(usize, u16)], answers: &[(&str, Vec<u8>)]) -> Option<Health> {
        let identify = crate::testing::bytes::identify_page(words, &[(27, "X")]);
        let mut files = vec![("device/vpd_pg89".to_owned(), &identify)];
        let path = |name: &str| format!("kernel/scsi/sda/{name}");
        files.extend(answers.iter().map(|(name, answer)| (path(name), answer)));
        crate::block::block(&disk_at(SATA, &files)).disks.remove(0).health
    }

    const SMART: [(usize, u16); 2] = [(82, 1), (85, 1)];

    fn answers(power: u8) -> Vec<(&'static str, Vec<u8>)> {
        vec![
            ("ata-power-mode", sense(power, 0, 0)),
            ("ata-smart-status", sense(0, 0xf4, 0x2c)),
            ("ata-smart-data", page(&[(5, [1, 0, 0, 0, 0, 0])])),
        ]
    }

    #[test]
    fn failing_disk_is_reported_and_disk_in_standby_is_not_started() {
        let failing = health(&SMART, &answers(0xff)).unwrap();
        assert_eq!((failing.is_passed, failing.reallocated_sectors), (Some(false), Some(1)));
        assert_eq!(health(&SMART, &answers(0)), None);
    }

    #[test]
    fn disk_is_not_asked_for_what_it_does_not_claim_to_have() {
        assert_eq!(health(&[], &answers(0xff)), None);
        assert_eq!(health(&[(82, 1)], &answers(0xff)), None);
        let (mut directory, mut list, mut wear) = (vec![0; 512], vec![0; 512], vec![0; 512]);
        (directory[0], directory[8]) = (1, 8);
        (list[8], list[9], list[10]) = (2, 0, 7);
        (wear[0], wear[2], wear[8], wear[15]) = (1, 7, 42, 0xc0);
        let mut all = answers(0xff);
        all.extend([("ata-log-00-00", directory), ("ata-log-04-00", list)]);
        all.push(("ata-log-04-07", wear));
        let used = |words: &[(usize, u16)], all: &[_]| {
            health(&[&SMART, words].concat(), all).unwrap().used_percent
        };
        assert_eq!(used(&[(84, 0x4020), (217, 1)], &all), Some(42));
        assert_eq!(used(&[(84, 0x4020), (217, 7200)], &all), None);
        assert_eq!(used(&[(84, 0x0020), (217, 1)], &all), None);
        all[3].1[8] = 0;
        assert_eq!(used(&[(84, 0x4020), (217, 1)], &all), None);
        all[3].1[8] = 8;
        all[4].1[10] = 1;
        assert_eq!(used(&[(84, 0x4020), (217, 1)], &all), None);
    }
}
