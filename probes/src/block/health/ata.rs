//! ATA disks: SMART, and the wear of a solid state drive. A disk in standby is not asked further, since that would start
//! its motor.

use formats::ata_identify::Identify;
use formats::health::{Health, ata};

use crate::machine::Machine;
use crate::sys::disk::DiskHandle;
use crate::sys::scsi::{ScsiCommand, ScsiQuestion};

use super::{Answers, locks};

pub(super) fn read(
    machine: &Machine,
    disk: &DiskHandle,
    identify: Identify,
    is_readable: bool,
) -> Answers {
    // An unsupported command would make the kernel read the disk's error log and repeat the other commands in flight.
    let has_health = is_readable && (identify.has_smart() || identify.has_wear_log());
    let has_locks = identify.has_trusted_commands() == Some(true);
    let ask = |command: ScsiCommand| machine.ask(&ScsiQuestion { disk, command });
    let is_up = || ask(ScsiCommand::AtaPowerMode).is_some_and(|sense| ata::is_up(&sense));
    if !(has_health || has_locks) || !is_up() {
        return Answers::default();
    }
    let tcg = if has_locks { locks::of_disk(machine, disk, locks::ATA) } else { None };
    let health = if has_health { health(&ask, identify) } else { None };
    Answers { health, tcg, ..Answers::default() }
}

fn health(ask: &dyn Fn(ScsiCommand) -> Option<Vec<u8>>, identify: Identify) -> Option<Health> {
    let mut health = Health::default();
    if identify.has_smart() {
        let page = ask(ScsiCommand::AtaSmartData);
        health = page.and_then(|page| ata::attributes(&page)).unwrap_or_default();
        let status = ask(ScsiCommand::AtaSmartStatus);
        health.is_passed = status.and_then(|sense| ata::verdict(&sense));
    }
    if identify.has_wear_log() {
        health.used_percent = ata::wear(&|log, page| ask(ScsiCommand::AtaLog { log, page }));
    }
    (health != Health::default()).then_some(health)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes::{sense, smart_page};
    use crate::testing::{SATA, disk_at};

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
            ("ata-smart-data", smart_page(&[(5, [1, 0, 0, 0, 0, 0])])),
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
