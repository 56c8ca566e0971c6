//! The controller's sensors: the records of its repository (IPMI 2.0, chapter 33), and a reading of
//! each (35.14).

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ask::{Controller, follow};
use super::names;
use super::record::{self, Record, THRESHOLD};
use crate::machine::Machine;
use crate::sys::ipmi::IpmiCommand;

/// A command takes some ms on a quick controller and some tens of them on a slow one.
const BUDGET: Duration = Duration::from_secs(6);
/// A large machine has about 400.
const LIMIT_RECORDS: usize = 1000;
const LIMIT_SENSORS: usize = 1500;
/// The BMC's own address; sensors of other controllers behind it are listed and not read.
const BMC_ADDRESS: u8 = 0x20;
/// Parts of so many bytes fit through every system interface.
const PART_BYTES: u8 = 16;
const HEADER_BYTES: usize = 5;

/// A sensor of the management controller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BmcSensor {
    /// Its number, unique within its controller and logical unit.
    pub number: u8,
    /// Address of the controller that has it; `None` where the BMC itself, 32.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<u8>,
    /// Its name, e.g. `Inlet Temp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it measures or watches, e.g. `temperature`, `power supply` (table 42-3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The part that it is at, e.g. `processor 1` (table 43-13).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<String>,
    /// Unit of the numbers below, e.g. `°C`, `rpm`, `V`, `W`, `%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// What it measured, in thousandths of `unit`; `None` where it is no number, not scanned or not
    /// available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reading_milli: Option<i64>,
    /// Thresholds in thousandths of `unit`, as its record has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower_critical_milli: Option<i64>,
    /// As `lower_critical_milli`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower_non_critical_milli: Option<i64>,
    /// As `lower_critical_milli`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper_non_critical_milli: Option<i64>,
    /// As `lower_critical_milli`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper_critical_milli: Option<i64>,
    /// `ok`, `non-critical`, `critical` or `non-recoverable`: the gravest threshold that the
    /// reading is beyond.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The states that a sensor without thresholds is in, e.g. `present`, `failure predicted`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<String>,
    /// Whether one of `states` calls for attention by its meaning.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub calls_for_attention: bool,
}

/// Reads the records and, of the BMC's own sensors, what they say; in the order of the records.
pub(super) fn sensors(machine: &Machine) -> (Vec<BmcSensor>, Vec<Record>) {
    let controller = Controller::new(machine, BUDGET);
    let records = records(&controller);
    let readable: Vec<&Record> = records.iter().filter(|record| record.is_readable).collect();
    let n_own = readable.iter().filter(|record| record.owner == BMC_ADDRESS).count();
    let mut n_read = 0;
    let mut sensors = Vec::new();
    let mut is_silent = false;
    for record in readable {
        let mut sensor = describe(record);
        if record.owner == BMC_ADDRESS && !is_silent {
            let command = IpmiCommand::SensorReading { lun: record.lun, number: record.number };
            let answer = controller.answer(command);
            is_silent = answer.is_none();
            if let Some(answer) = answer {
                n_read += 1;
                // Where the sensor is known and cannot be read now, there is another code.
                if answer.code == 0 {
                    apply_reading(record, &answer.data, &mut sensor);
                }
            }
        }
        sensors.push(sensor);
    }
    if n_read < n_own {
        tell(machine, "ipmi/sensor", "", n_read, n_own);
    }
    (sensors, records)
}

/// That time or answers ended before the list did; `which` says which part was read, if that is
/// known. The words are the same in a replay.
pub(super) fn tell(machine: &Machine, path: &str, which: &str, n_read: usize, n_all: usize) {
    let found = format!("{which}{n_read} of {n_all} read");
    machine.problem(path, found, "all of them within the time given to the controller");
}

fn records(controller: &Controller) -> Vec<Record> {
    let Some(info) = controller.data(IpmiCommand::SensorRecordsInfo) else { return Vec::new() };
    let n_records = info.get(1..).and_then(<[u8]>::first_chunk::<2>);
    let n_records = n_records.map(|bytes| usize::from(u16::from_le_bytes(*bytes)));
    if n_records == Some(0) {
        return Vec::new();
    }
    let (mut records, mut n_read) = (Vec::new(), 0);
    let mut reader = Reader { controller, is_whole: true };
    let is_complete = follow(0, LIMIT_RECORDS, |id| {
        let (next, bytes) = reader.read(id)?;
        n_read += 1;
        records.extend(record::parse(&bytes));
        Some(next)
    });
    records.truncate(LIMIT_SENSORS);
    if !is_complete {
        tell(controller.machine, "ipmi/sdr", "", n_read, n_records.unwrap_or_default().max(n_read));
    }
    records
}

/// Reads records whole, or in parts once the controller has refused a whole one.
struct Reader<'a> {
    controller: &'a Controller<'a>,
    is_whole: bool,
}

impl Reader<'_> {
    /// The number of the next record, and the bytes of this one.
    fn read(&mut self, id: u16) -> Option<(u16, Vec<u8>)> {
        if self.is_whole {
            let command =
                IpmiCommand::SensorRecord { id, offset: 0, n_bytes: 0xff, reservation: 0 };
            let answer = self.controller.answer(command)?;
            let found = (answer.code == 0).then(|| split(answer.data)).flatten();
            if let Some((next, bytes)) = found.filter(|(_, bytes)| is_whole(bytes)) {
                return Some((next, bytes));
            }
            self.is_whole = false;
        }
        self.read_parts(id)
    }

    fn read_parts(&self, id: u16) -> Option<(u16, Vec<u8>)> {
        let reservation = self.controller.data(IpmiCommand::ReserveSensorRecords)?;
        let reservation = u16::from_le_bytes(*reservation.first_chunk::<2>()?);
        let part = |offset: usize, n_bytes: usize| {
            let offset = u8::try_from(offset).ok()?;
            let n_bytes = u8::try_from(n_bytes).ok()?;
            let command = IpmiCommand::SensorRecord { id, offset, n_bytes, reservation };
            split(self.controller.data(command)?)
        };
        let (next, mut bytes) = part(0, HEADER_BYTES)?;
        let end = HEADER_BYTES + usize::from(*bytes.get(4)?);
        while bytes.len() < end {
            let (_, more) = part(bytes.len(), usize::from(PART_BYTES).min(end - bytes.len()))?;
            if more.is_empty() {
                return None;
            }
            bytes.extend(more);
        }
        Some((next, bytes))
    }
}

fn is_whole(record: &[u8]) -> bool {
    record.get(4).is_some_and(|length| record.len() >= HEADER_BYTES + usize::from(*length))
}

fn split(mut data: Vec<u8>) -> Option<(u16, Vec<u8>)> {
    let next = u16::from_le_bytes(*data.first_chunk::<2>()?);
    Some((next, data.split_off(2)))
}

/// What the record alone says.
fn describe(record: &Record) -> BmcSensor {
    let entity = names::entity(record.entity);
    let entity = entity.map(|name| format!("{name} {}", record.entity_instance));
    let [lower_non_critical, lower_critical, _, upper_non_critical, upper_critical, _] =
        record.thresholds.map(|raw| record.scale?.thousandths(raw?));
    BmcSensor {
        number: record.number,
        owner: Some(record.owner).filter(|owner| *owner != BMC_ADDRESS),
        name: record.name.clone(),
        kind: names::sensor_kind(record.kind).map(str::to_owned),
        entity,
        unit: record.scale.map(|scale| scale.unit.to_owned()),
        lower_critical_milli: lower_critical,
        lower_non_critical_milli: lower_non_critical,
        upper_non_critical_milli: upper_non_critical,
        upper_critical_milli: upper_critical,
        ..BmcSensor::default()
    }
}

/// Reading, flags, then one or two bytes of states. A sensor that is not scanned, or whose reading
/// the controller calls unavailable, says nothing.
fn apply_reading(record: &Record, data: &[u8], sensor: &mut BmcSensor) {
    let Some(&[raw, flags]) = data.first_chunk::<2>() else { return };
    let (is_scanned, is_unavailable) = (flags & 0x40 != 0, flags & 0x20 != 0);
    if !is_scanned || is_unavailable {
        return;
    }
    sensor.reading_milli = record.scale.and_then(|scale| scale.thousandths(raw));
    let low = data.get(2).copied();
    if record.event_type == THRESHOLD {
        sensor.status = low.map(|bits| status(bits).to_owned());
        return;
    }
    // The highest bit of the second byte is no state.
    let high = data.get(3).copied().unwrap_or_default() & 0x7f;
    let bits = u16::from_le_bytes([low.unwrap_or_default(), high]);
    for offset in (0..15_u8).filter(|offset| bits & (1 << offset) != 0) {
        let known = names::state(record.kind, record.event_type, offset);
        let name = known.map_or_else(|| format!("state {offset}"), |(name, _)| name.to_owned());
        sensor.calls_for_attention |= known.is_some_and(|(_, is_bad)| is_bad);
        sensor.states.push(name);
    }
}

/// The gravest of six bits (table 35-15).
fn status(bits: u8) -> &'static str {
    match bits & 0x3f {
        bits if bits & 0b10_0100 != 0 => "non-recoverable",
        bits if bits & 0b01_0010 != 0 => "critical",
        0 => "ok",
        _ => "non-critical",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bmc::record::tests::{compact_record, full_record};
    use crate::testing::tree_of_bytes;

    const INFO: &[u8] = &[0, 0x51, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    fn answer(next: u16, record: &[u8]) -> Vec<u8> {
        [&[0], next.to_le_bytes().as_slice(), record].concat()
    }

    fn temperature() -> Vec<u8> {
        full_record(1, 1, 1, [1, 0, 0, 0, 0, 0], b"CPU1 Temp")
    }

    #[test]
    fn a_sensor_has_its_reading_its_thresholds_and_its_state() {
        let (first, second) =
            (answer(2, &temperature()), answer(0xffff, &compact_record(0x60, 8, 2, b"PS")));
        let machine = tree_of_bytes(&[
            ("kernel/ipmi/sdr/info", INFO),
            ("kernel/ipmi/sdr/0000.0-255", &first),
            ("kernel/ipmi/sdr/0002.0-255", &second),
            ("kernel/ipmi/sensor/0.01", &[0, 97, 0xc0, 0xd0]),
            ("kernel/ipmi/sensor/0.60", &[0, 0, 0xc0, 0x09, 0x80]),
            ("kernel/ipmi/sensor/0.61", &[0xcb]),
        ]);
        let (sensors, _) = sensors(&machine);
        let cpu = &sensors[0];
        assert_eq!((cpu.reading_milli, cpu.unit.as_deref()), (Some(97_000), Some("°C")));
        assert_eq!(
            (cpu.upper_critical_milli, cpu.lower_critical_milli),
            (Some(95_000), Some(5000))
        );
        assert_eq!(cpu.status.as_deref(), Some("critical"));
        assert_eq!(cpu.entity.as_deref(), Some("processor 1"));
        assert_eq!(sensors[1].states, ["present", "input lost"]);
        assert!(sensors[1].calls_for_attention && !cpu.calls_for_attention);
        assert_eq!(sensors[2].name.as_deref(), Some("PS2"));
        assert!(sensors[2].states.is_empty(), "the controller knows no such sensor");
        assert!(machine.problems().is_empty(), "{:?}", machine.problems());
    }

    #[test]
    fn a_sensor_that_is_not_scanned_or_not_available_has_no_reading_and_no_state() {
        let record = record::parse(&temperature()).remove(0);
        for flags in [0x00, 0x80, 0x60, 0xe0] {
            let mut sensor = describe(&record);
            apply_reading(&record, &[0, flags, 0xc7], &mut sensor);
            assert_eq!((sensor.reading_milli, sensor.status), (None, None), "{flags:#x}");
        }
        let mut sensor = describe(&record);
        apply_reading(&record, &[0, 0x40], &mut sensor);
        assert_eq!((sensor.reading_milli, sensor.status), (Some(0), None));
    }

    #[test]
    fn a_controller_that_gives_no_whole_records_is_asked_for_parts() {
        let record = temperature();
        let part = |range: std::ops::Range<usize>| answer(0xffff, &record[range]);
        let machine = tree_of_bytes(&[
            ("kernel/ipmi/sdr/info", INFO),
            ("kernel/ipmi/sdr/0000.0-255", &[0xca]),
            ("kernel/ipmi/sdr/reservation", &[0, 5, 0]),
            ("kernel/ipmi/sdr/0000.0-5", &part(0..5)),
            ("kernel/ipmi/sdr/0000.5-16", &part(5..21)),
            ("kernel/ipmi/sdr/0000.21-16", &part(21..37)),
            ("kernel/ipmi/sdr/0000.37-16", &part(37..53)),
            ("kernel/ipmi/sdr/0000.53-4", &part(53..57)),
            ("kernel/ipmi/sensor/0.01", &[0, 40, 0x40, 0xc0]),
        ]);
        let (sensors, _) = sensors(&machine);
        assert_eq!(sensors[0].name.as_deref(), Some("CPU1 Temp"));
        assert_eq!(
            (sensors[0].reading_milli, sensors[0].status.as_deref()),
            (Some(40_000), Some("ok"))
        );
    }

    #[test]
    fn a_controller_that_falls_silent_costs_the_rest_and_says_so() {
        let first = answer(2, &temperature());
        let machine = tree_of_bytes(&[
            ("kernel/ipmi/sdr/info", INFO),
            ("kernel/ipmi/sdr/0000.0-255", &first),
        ]);
        let (sensors, _) = sensors(&machine);
        assert_eq!((sensors.len(), sensors[0].reading_milli), (1, None));
        let problems = machine.problems();
        let found: Vec<_> = problems.iter().map(|p| (p.path.as_str(), p.found.as_str())).collect();
        assert_eq!(found, [("/ipmi/sdr", "1 of 2 read"), ("/ipmi/sensor", "0 of 1 read")]);
    }

    #[test]
    fn the_gravest_threshold_is_the_status() {
        let found = [0xc0, 0x01, 0x08, 0x03, 0x18, 0x07, 0x38].map(status);
        let expected = [
            "ok",
            "non-critical",
            "non-critical",
            "critical",
            "critical",
            "non-recoverable",
            "non-recoverable",
        ];
        assert_eq!(found, expected);
    }
}
