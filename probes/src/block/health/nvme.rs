//! NVMe: log page 02h (NVM Express Base Specification 2.0, figure 207) and the temperatures of
//! Identify Controller (figure 275).

use formats::bytes::{le16, le64};

use crate::block::controller::is_volume_model;
use crate::block::security;
use crate::machine::Machine;
use crate::sys::nvme::{NvmePage, NvmeQuestion};
use formats::text::to_nul as text;

use super::{Answers, Health, locks};

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

pub(super) fn read(machine: &Machine, controller: &str, is_readable: bool) -> Answers {
    let question = |page: NvmePage| NvmeQuestion { controller: controller.to_owned(), page };
    let log = if is_readable { machine.ask(&question(NvmePage::Health)) } else { None };
    let mut health = log.and_then(|log| match parse(&log) {
        Ok(health) => Some(health),
        Err(found) => {
            let path = format!("kernel/nvme/{controller}/health");
            machine.problem(&path, found, "a health log of 512 bytes that the controller fills");
            None
        }
    });
    let identify = machine.ask(&question(NvmePage::Identify)).unwrap_or_default();
    if let Some(health) = &mut health {
        health.warning_temperature_celsius = celsius(le16(&identify, 266));
        health.critical_temperature_celsius = celsius(le16(&identify, 268));
    }
    let security = security::of_nvme(&identify);
    let has = security.as_ref().is_some_and(|known| known.has_trusted_commands == Some(true));
    // Some controllers present their drives as a volume.
    let model = identify.get(24..64).and_then(text).unwrap_or_default();
    let is_asked = has && !is_volume_model(&model);
    let tcg = if is_asked { locks::of_nvme(machine, controller) } else { None };
    Answers { health, security, tcg, bay: None }
}

/// `Err` is the reason that the log is invalid. Cloud drives answer with zeros, which are not facts.
fn parse(log: &[u8]) -> Result<Health, String> {
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
    use crate::testing::disk_at;

    fn log() -> Vec<u8> {
        let mut log = vec![0; 512];
        log[1..3].copy_from_slice(&310_u16.to_le_bytes());
        (log[3], log[4], log[5]) = (100, 10, 3);
        for (at, value) in [(32, 2_u64), (48, 3), (112, 7), (128, 9000), (144, 5), (160, 0)] {
            log[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        log
    }

    #[test]
    fn log_of_a_healthy_drive_is_read() {
        let health = parse(&log()).unwrap();
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
        let mut log = log();
        (log[0], log[1], log[2], log[3]) = (0b10_0101, 0, 0, 255);
        log[32..48].fill(0xff);
        let health = parse(&log).unwrap();
        assert_eq!(
            health.critical_warnings,
            ["spare low", "reliability degraded", "persistent memory read-only"]
        );
        assert_eq!(health.is_passed, Some(false));
        assert_eq!((health.temperature_celsius, health.available_spare_percent), (None, None));
        assert_eq!(health.data_read_bytes, None);
        assert_eq!(parse(&log[..511]), Err("511 bytes".to_owned()));
    }

    #[test]
    fn log_of_zeros_as_in_clouds_is_a_problem_and_no_fact() {
        let mut of_cloud = vec![0; 512];
        assert!(parse(&of_cloud).is_err());
        of_cloud[1..3].copy_from_slice(&310_u16.to_le_bytes());
        assert!(parse(&of_cloud).is_err(), "a temperature alone makes no log");
        let path = "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1";
        let machine = disk_at(path, &[("kernel/nvme/nvme0/health", [0_u8; 512])]);
        assert_eq!(crate::block::block(&machine).disks[0].health, None);
        assert_eq!(machine.problems()[0].found, "nothing but zeros");
    }

    #[test]
    fn namespace_has_the_health_of_its_controller() {
        let mut identify = vec![0; 4096];
        identify[266..268].copy_from_slice(&343_u16.to_le_bytes());
        let path = "pci0000:00/0000:01:00.0/nvme/nvme1/nvme3n1";
        let files = [("kernel/nvme/nvme1/health", log()), ("kernel/nvme/nvme1/identify", identify)];
        let health = crate::block::block(&disk_at(path, &files)).disks.remove(0).health.unwrap();
        assert_eq!((health.power_cycles, health.critical_temperature_celsius), (Some(7), None));
        assert_eq!(health.warning_temperature_celsius, Some(70));
    }
}
