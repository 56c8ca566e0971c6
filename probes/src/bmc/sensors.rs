//! The sensors of the controller and its satellite controllers: their records, and a reading for each (IPMI 2.0,
//! 35.14).

use std::collections::BTreeSet;
use std::time::Duration;

use formats::ipmi::record::{BMC, Record};
use formats::ipmi::{self, BmcSensor};

use super::ask::{Answer, Controller, incomplete};
use super::repository::{Repository, repository};
use crate::machine::Machine;
use crate::sys::ipmi::{IpmiCommand, Target};

/// A command takes a few ms on a fast controller and tens of ms on a slow one.
const BUDGET: Duration = Duration::from_secs(6);

/// Reads the records and the readings of their sensors, in the order of the records.
pub(super) fn sensors(machine: &Machine) -> (Vec<BmcSensor>, Repository) {
    let controller = Controller::new(machine, BUDGET);
    let repository = repository(&controller);
    let readable: Vec<&Record> = repository.records.iter().filter(|r| r.is_readable).collect();
    let mut sensors: Vec<BmcSensor> = readable.iter().map(|record| ipmi::sensor(record)).collect();
    let targets: Vec<Option<Target>> = readable.iter().map(|record| target(record)).collect();
    // The BMC's own sensors come first: the others are slow and may be absent.
    let owners: BTreeSet<Target> = targets.iter().copied().flatten().collect();
    for owner in owners {
        let (mut n_read, mut n_all, mut is_silent) = (0, 0, false);
        let of_owner = readable.iter().zip(&targets).zip(&mut sensors);
        for ((record, _), sensor) in of_owner.filter(|((_, of), _)| **of == Some(owner)) {
            n_all += 1;
            let answer = if is_silent { None } else { reading(&controller, owner, record) };
            // A controller that does not respond costs its timeout only once.
            is_silent = answer.is_none();
            let Some(answer) = answer.filter(|answer| !answer.is_failure()) else { continue };
            n_read += 1;
            // A known sensor that cannot be read now has another completion code.
            if answer.code == 0 {
                ipmi::apply_reading(record, &answer.data, sensor);
            }
        }
        if n_read < n_all {
            incomplete(machine, &format!("ipmi/{}", owner.folder()), "", n_read, n_all);
        }
    }
    (sensors, repository)
}

/// The controller to query for the sensor; `None` for sensors that belong to software.
fn target(record: &Record) -> Option<Target> {
    match record.owner {
        BMC => Some(Target::Bmc),
        // The lowest bit says that it is no address on a bus.
        address if address & 1 == 1 => None,
        address => Some(Target::Satellite { channel: record.channel, address }),
    }
}

/// Also `None` if the BMC reports that another controller does not respond.
fn reading(controller: &Controller, target: Target, record: &Record) -> Option<Answer> {
    // Lost arbitration, a bus error and no acknowledge of Send Message (22.7), and a time-out.
    const NOT_THERE: [u8; 4] = [0x81, 0x82, 0x83, 0xc3];
    let command = IpmiCommand::SensorReading { target, lun: record.lun, number: record.number };
    let answer = controller.ask(&command);
    answer.filter(|answer| target == Target::Bmc || !NOT_THERE.contains(&answer.code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes::{compact_record, full_record};
    use crate::testing::{has, problems, tree_from_bytes};
    use serde_json::json;

    const NONE: [&str; 0] = [];
    const INFO: &[u8] = &[0, 0x51, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    fn answer(next: u16, record: &[u8]) -> Vec<u8> {
        [&[0], next.to_le_bytes().as_slice(), record].concat()
    }

    fn temperature() -> Vec<u8> {
        full_record(1, 1, 1, [1, 0, 0, 0, 0, 0], b"CPU1 Temp")
    }

    /// The sensors of a machine with these records, each with the number of the next, and these answers.
    fn read(records: &[(u16, Vec<u8>)], answers: &[(&str, &[u8])]) -> (Vec<BmcSensor>, Machine) {
        let mut files = vec![("kernel/ipmi/sdr/info".to_owned(), INFO.to_vec())];
        let mut id = 0;
        for (next, record) in records {
            files.push((format!("kernel/ipmi/sdr/{id:04x}.0-255"), answer(*next, record)));
            id = *next;
        }
        let answers = answers.iter();
        files.extend(answers.map(|(name, bytes)| (format!("kernel/ipmi/{name}"), bytes.to_vec())));
        let machine = tree_from_bytes(&files);
        (sensors(&machine).0, machine)
    }

    #[test]
    fn sensor_has_its_reading_thresholds_and_state() {
        let records = [(2, temperature()), (0xffff, compact_record(0x60, 8, 2, b"PS"))];
        let (sensors, machine) = read(
            &records,
            &[
                ("sensor/0.01", &[0, 97, 0xc0, 0xd0]),
                ("sensor/0.60", &[0, 0, 0xc0, 0x09, 0x80]),
                ("sensor/0.61", &[0xcb]),
            ],
        );
        let cpu = &sensors[0];
        has(cpu, &json!({"reading_milli": 97_000, "unit": "°C", "entity": "processor 1"}));
        has(cpu, &json!({"upper_critical_milli": 95_000, "lower_critical_milli": 5000}));
        has(cpu, &json!({"status": "critical"}));
        assert_eq!(sensors[1].states, ["present", "input lost"]);
        assert!(sensors[1].calls_for_attention && !cpu.calls_for_attention);
        assert_eq!(sensors[2].name.as_deref(), Some("PS2"));
        assert!(sensors[2].states.is_empty(), "the controller knows no such sensor");
        assert_eq!(problems(&machine), NONE);
    }

    #[test]
    fn records_are_read_in_parts_if_whole_ones_are_refused() {
        let record = temperature();
        let part = |range: std::ops::Range<usize>| answer(0xffff, &record[range]);
        let answers: [(&str, &[u8]); 8] = [
            ("sdr/0000.0-255", &[0xca]),
            ("sdr/reservation", &[0, 5, 0]),
            ("sdr/0000.0-5", &part(0..5)),
            ("sdr/0000.5-16", &part(5..21)),
            ("sdr/0000.21-16", &part(21..37)),
            ("sdr/0000.37-16", &part(37..53)),
            ("sdr/0000.53-4", &part(53..57)),
            ("sensor/0.01", &[0, 40, 0x40, 0xc0]),
        ];
        let (sensors, _) = read(&[], &answers);
        has(&sensors[0], &json!({"name": "CPU1 Temp", "reading_milli": 40_000, "status": "ok"}));
    }

    #[test]
    fn silent_controller_loses_the_remaining_readings_with_a_problem() {
        let (sensors, machine) = read(&[(2, temperature())], &[]);
        assert_eq!((sensors.len(), sensors[0].reading_milli), (1, None));
        assert_eq!(problems(&machine), ["/ipmi/sdr: 1 of 2 read", "/ipmi/sensor: 0 of 1 read"]);
    }

    #[test]
    fn failed_readings_are_problems_and_refused_ones_are_not() {
        let answers: [(&str, &[u8]); 3] = [
            ("sensor/0.60", &[0xff]),
            ("sensor/0.61", &[0xcb]),
            ("sensor/0.62", &[0, 0, 0xc0, 0x01, 0x80]),
        ];
        let (sensors, machine) = read(&[(0xffff, compact_record(0x60, 8, 3, b"PS"))], &answers);
        assert_eq!(sensors[2].states, ["present"]);
        assert_eq!(problems(&machine), ["/ipmi/sensor: 2 of 3 read"]);
    }

    #[test]
    fn failed_repository_is_a_problem_and_absent_one_is_not() {
        let failed = |code: u8| {
            let (sensors, machine) = read(&[], &[("sdr/info", &[code])]);
            assert!(sensors.is_empty());
            problems(&machine)
        };
        assert_eq!(failed(0xff), ["/ipmi/sdr/info: completion code ff"]);
        assert_eq!(failed(0xc1), NONE);
    }

    /// Sensor `number` of the controller at `owner` on channel 6, logical unit 1.
    fn satellite(owner: u8, number: u8) -> Vec<u8> {
        let mut bytes = full_record(number, 1, 1, [1, 0, 0, 0, 0, 0], b"HSBP");
        (bytes[5], bytes[6]) = (owner, 0x61);
        bytes
    }

    #[test]
    fn silent_satellite_is_skipped_and_affects_no_other() {
        let records = [
            (1, satellite(0x2c, 1)),
            (2, satellite(0xc0, 2)),
            (3, satellite(0x2c, 3)),
            (0xffff, satellite(0x41, 4)),
        ];
        let answers: [(&str, &[u8]); 3] = [
            ("sensor/6-2c/1.01", &[0xc3]),
            ("sensor/6-2c/1.03", &[0, 40, 0xc0, 0xc0]),
            ("sensor/6-c0/1.02", &[0, 20, 0xc0, 0xc0]),
        ];
        let (sensors, machine) = read(&records, &answers);
        has(&sensors[1], &json!({"owner": 0xc0, "owner_channel": 6}));
        let readings: Vec<_> = sensors.iter().map(|sensor| sensor.reading_milli).collect();
        assert_eq!(readings, [None, Some(20_000), None, None]);
        assert_eq!(problems(&machine), ["/ipmi/sensor/6-2c: 0 of 2 read"]);
    }

    #[test]
    fn too_many_sensors_are_a_problem() {
        let next = |id: u16| if id == 100 { 0xffff } else { id + 1 };
        let records: Vec<_> =
            (0..=100).map(|id| (next(id), compact_record(0x10, 8, 15, b"PS"))).collect();
        let (sensors, machine) = read(&records, &[]);
        assert_eq!(sensors.len(), 1500);
        let expected = ["/ipmi/sdr: more than 1500 sensors", "/ipmi/sensor: 0 of 1500 read"];
        assert_eq!(problems(&machine), expected);
    }
}
