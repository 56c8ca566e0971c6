//! ATA: SMART status and attributes (SFF-8035i, ACS-4 §7.48), and the wear of a solid state drive
//! (ACS-4 §9.5.10).

use super::Health;
use crate::bytes::le16;

/// Answers to CHECK POWER MODE from a disk in standby: two kinds of standby, and writes held by its non-volatile cache
/// (ACS-4 table 206).
const STANDBY: [u8; 3] = [0x00, 0x01, 0x40];
/// Bits of the status register: the command was refused, the device is broken (ACS-4 §6.2).
const FAILED: u8 = 0x21;

/// True if the answer to CHECK POWER MODE says that the disk is not in standby.
pub fn is_up(sense: &[u8]) -> bool {
    registers(sense).is_some_and(|[count, ..]| !STANDBY.contains(&count))
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

/// The verdict of SMART RETURN STATUS: the disk leaves 4Fh and C2h as they are, or turns them into F4h and 2Ch if it will
/// fail.
pub fn verdict(sense: &[u8]) -> Option<bool> {
    match registers(sense)? {
        [_, 0x4f, 0xc2] => Some(true),
        [_, 0xf4, 0x2c] => Some(false),
        _ => None,
    }
}

/// Thirty attributes of twelve bytes: number, flags, value, worst value, six raw bytes. `None` unless the bytes of the
/// page add up to zero.
pub fn attributes(page: &[u8]) -> Option<Health> {
    let is_summed = page.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)) == 0;
    let records = page.get(2..362).unwrap_or_default().chunks_exact(12);
    let raw = |id: u8, n_bytes: usize| {
        let record = records.clone().find(|record| record[0] == id)?;
        Some(record[5..5 + n_bytes].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    // Some disks keep other counts in the upper bytes of 5, 9 and the temperatures.
    let temperature = raw(194, 1).or_else(|| raw(190, 1)).and_then(|raw| u8::try_from(raw).ok());
    (page.len() == 512 && is_summed).then(|| Health {
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
    })
}

/// Reads the wear, if the disk lists the log of statistics in its directory and the page in the log. `read` asks for a
/// page of a log.
pub fn wear(read: &dyn Fn(u8, u8) -> Option<Vec<u8>>) -> Option<u8> {
    const STATISTICS: u8 = 0x04;
    const SOLID_STATE: u8 = 0x07;
    let directory = read(0, 0)?;
    if le16(&directory, 0) != 1 || le16(&directory, 2 * usize::from(STATISTICS)) == 0 {
        return None;
    }
    let list = read(STATISTICS, 0)?;
    let n_pages = usize::from(*list.get(8)?);
    let has_page = list.get(9..9 + n_pages)?.contains(&SOLID_STATE);
    if has_page { used_percent(&read(STATISTICS, SOLID_STATE)?) } else { None }
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
    use crate::testing::{sense, smart_page};

    #[test]
    fn vendor_bytes_of_attributes_are_ignored() {
        let found = attributes(&smart_page(&[
            (5, [8, 0, 0xff, 0, 0, 0]),
            (9, [0x10, 0x27, 0, 0x55, 0, 0]),
            (194, [36, 0, 20, 0, 45, 0]),
            (197, [2, 0, 0, 0, 0, 0]),
        ]));
        let health = found.unwrap();
        assert_eq!(health.reallocated_sectors, Some(8));
        assert_eq!(health.power_on_hours, Some(10_000));
        assert_eq!(health.temperature_celsius, Some(36));
        assert_eq!(health.pending_sectors, Some(2));
        assert_eq!(health.uncorrectable_sectors, None);
    }

    #[test]
    fn damaged_page_is_ignored() {
        let mut damaged = smart_page(&[(5, [8; 6])]);
        damaged[100] ^= 1;
        for bad in [&damaged[..], &[], &[0; 100]] {
            assert_eq!(attributes(bad), None);
        }
    }

    #[test]
    fn registers_come_in_both_forms_of_sense_data() {
        let fixed = [0x70, 0, 1, 0, 0x50, 0, 0xff, 10, 0, 0, 0xf4, 0x2c, 0, 0x1d];
        assert_eq!(verdict(&fixed), Some(false));
        assert_eq!(verdict(&sense(0xff, 0x4f, 0xc2)), Some(true));
        assert_eq!(verdict(&sense(0, 0, 0)), None);
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
}
