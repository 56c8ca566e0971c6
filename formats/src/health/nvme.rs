//! NVMe: log page 02h (NVM Express Base Specification 2.0, figure 207) and the temperatures of
//! Identify Controller (figure 275).

use super::Health;
use crate::bytes::{le16, le64};

/// Meaning of the bits of the first byte.
const WARNINGS: [&str; 6] = [
    "spare low",
    "temperature",
    "reliability degraded",
    "read-only",
    "backup failed",
    "persistent memory read-only",
];
/// Those by which a disk says that it fails: all but the temperature, which may pass.
const FAILING: u8 = 0b0011_1101;
/// A data unit is a thousand times 512 bytes.
const DATA_UNIT_BYTES: u64 = 512_000;

/// Parses the health log, with the limits of the temperature in Identify Controller; these are absent if `identify` is
/// truncated.
///
/// # Errors
/// The reason that the log is invalid. Cloud drives answer with zeros, which are not facts.
pub fn parse(log: &[u8], identify: &[u8]) -> Result<Health, String> {
    let log = log.get(..512).ok_or_else(|| format!("{} bytes", log.len()))?;
    let is_temperature = |at: usize| matches!(at, 1 | 2);
    if log.iter().enumerate().all(|(at, byte)| *byte == 0 || is_temperature(at)) {
        return Err("nothing but zeros".to_owned());
    }
    let warnings = log[0];
    let bits = WARNINGS.iter().enumerate().filter(|(bit, _)| warnings >> bit & 1 == 1);
    // Counts have 16 bytes; what does not fit into 8 is no count that a disk reaches.
    let count = |at: usize| (le64(log, at + 8) == 0).then(|| le64(log, at));
    let bytes = |at: usize| count(at)?.checked_mul(DATA_UNIT_BYTES);
    Ok(Health {
        is_passed: Some(warnings & FAILING == 0),
        critical_warnings: bits.map(|(_, name)| (*name).to_owned()).collect(),
        temperature_celsius: celsius(le16(log, 1)),
        warning_temperature_celsius: celsius(le16(identify, 266)),
        critical_temperature_celsius: celsius(le16(identify, 268)),
        available_spare_percent: Some(log[3]).filter(|percent| *percent <= 100),
        spare_threshold_percent: Some(log[4]).filter(|percent| *percent <= 100),
        used_percent: Some(log[5]),
        data_read_bytes: bytes(32),
        data_written_bytes: bytes(48),
        power_cycles: count(112),
        power_on_hours: count(128),
        unsafe_shutdowns: count(144),
        media_errors: count(160),
        ..Health::default()
    })
}

/// Kelvin, 0 for not known.
fn celsius(kelvin: u16) -> Option<i32> {
    (kelvin != 0).then(|| i32::from(kelvin) - 273)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::nvme_log;

    #[test]
    fn log_of_a_healthy_drive_is_read() {
        let health = parse(&nvme_log(), &[]).unwrap();
        assert_eq!((health.is_passed, health.critical_warnings.len()), (Some(true), 0));
        assert_eq!(health.temperature_celsius, Some(37));
        assert_eq!((health.available_spare_percent, health.used_percent), (Some(100), Some(3)));
        assert_eq!(health.data_read_bytes, Some(1_024_000));
        assert_eq!(health.data_written_bytes, Some(1_536_000));
        assert_eq!((health.power_on_hours, health.unsafe_shutdowns), (Some(9000), Some(5)));
        assert_eq!(health.media_errors, Some(0));
    }

    #[test]
    fn every_warning_is_named_and_what_is_not_known_stays_absent() {
        let mut log = nvme_log();
        (log[0], log[1], log[2], log[3]) = (0b10_0101, 0, 0, 255);
        log[32..48].fill(0xff);
        let health = parse(&log, &[]).unwrap();
        assert_eq!(
            health.critical_warnings,
            ["spare low", "reliability degraded", "persistent memory read-only"]
        );
        assert_eq!(health.is_passed, Some(false));
        assert_eq!((health.temperature_celsius, health.available_spare_percent), (None, None));
        assert_eq!(health.data_read_bytes, None);
        assert_eq!(parse(&log[..511], &[]), Err("511 bytes".to_owned()));
    }

    #[test]
    fn log_of_zeros_has_no_facts_even_with_a_temperature() {
        let mut of_cloud = vec![0; 512];
        assert!(parse(&of_cloud, &[]).is_err());
        of_cloud[1..3].copy_from_slice(&310_u16.to_le_bytes());
        assert!(parse(&of_cloud, &[]).is_err(), "a temperature alone makes no log");
    }
}
