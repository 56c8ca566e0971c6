//! Sensors on the board and in the CPUs: `/sys/class/hwmon/` (`Documentation/hwmon/sysfs-interface`).
//! The sensors of the management controller are in its section. Chips that may be slow to read are
//! left out (`data/slow_sensors.txt`).

use std::collections::BTreeSet;

use formats::data;
use formats::pattern::matches;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ancestors;
use crate::machine::Machine;
use crate::natural;

const CLASS: &str = "sys/class/hwmon";
const SLOW: &str = include_str!("../data/slow_sensors.txt");
/// A large board has about 200; two sockets of 128 cores with one sensor each have 260.
const LIMIT_SENSORS: usize = 2000;

/// One sensor. Exactly one of the values is present, in the unit of its name; a sensor that its driver
/// calls faulty has none. Thresholds have the unit of the value.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Sensor {
    /// Name of the chip, e.g. `coretemp`.
    pub chip: String,
    /// The chip's device, e.g. `coretemp.0` or `0000:00:18.3`; distinguishes chips with the same name.
    pub device: Option<String>,
    /// Kernel name on the chip, e.g. `temp1`, `fan2`.
    pub name: String,
    /// The driver's name for the measured part, e.g. `Package id 0`.
    pub label: Option<String>,
    /// Temperature in thousandths of a degree Celsius.
    pub temperature_millicelsius: Option<i64>,
    /// Critical temperature according to the chip's vendor.
    pub critical_millicelsius: Option<i64>,
    /// Highest normal temperature according to the chip's vendor.
    pub max_millicelsius: Option<i64>,
    /// Rotations per minute; 0 for a stopped fan.
    pub fan_rpm: Option<i64>,
    /// Lowest normal rotations per minute.
    pub min_rpm: Option<i64>,
    /// Voltage in mV.
    pub voltage_millivolts: Option<i64>,
    /// Lowest normal voltage.
    pub min_millivolts: Option<i64>,
    /// Highest normal voltage.
    pub max_millivolts: Option<i64>,
    /// Current in mA.
    pub current_milliamperes: Option<i64>,
    /// Power in mW.
    pub power_milliwatts: Option<i64>,
    /// Relative humidity in thousandths of a percent.
    pub humidity_millipercent: Option<i64>,
    /// True if the driver calls the sensor faulty (`*_fault`), e.g. an open diode or a missing fan.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_faulty: bool,
    /// Alarms of the chip in the driver's words: `min`, `max`, `crit`, or `alarm` for one without a kind
    /// (`*_alarm`). Chips also compare with thresholds that nobody has set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<String>,
    /// PCI address of the chip's device.
    pub pci_address: Option<String>,
}

/// Reads the sensors that respond quickly, by chip, device and name.
pub fn sensors(machine: &Machine) -> Vec<Sensor> {
    let mut sensors = Vec::new();
    for hwmon in machine.list(CLASS) {
        sensors.extend(chip(machine, &format!("{CLASS}/{hwmon}")));
        if sensors.len() > LIMIT_SENSORS {
            sensors.truncate(LIMIT_SENSORS);
            let found = format!("more than {LIMIT_SENSORS} sensors");
            machine.problem(CLASS, found, "fewer; only the first are read");
            break;
        }
    }
    // The numbers of hwmon change from boot to boot, but chip and device do not.
    sensors.sort_by(|a, b| {
        let (a_key, b_key) = ((&a.chip, &a.device), (&b.chip, &b.device));
        a_key.cmp(&b_key).then_with(|| natural::compare(&a.name, &b.name))
    });
    sensors
}

fn chip(machine: &Machine, path: &str) -> Vec<Sensor> {
    // Before Linux 4.x some drivers kept the attributes at the device.
    let inner = format!("{path}/device");
    let chip_at = |path| Some((path, machine.text(&format!("{path}/name"))?));
    let is_slow = |chip: &str| data::rows(SLOW).any(|name| matches(name, chip));
    let found = chip_at(path).or_else(|| chip_at(&inner)).filter(|(_, name)| !is_slow(name));
    let Some((path, name)) = found else { return Vec::new() };
    let resolved = machine.device_path(path);
    let common = Sensor {
        chip: name,
        device: machine.link_name(&format!("{path}/device")),
        pci_address: ancestors::pci_address(&resolved),
        ..Sensor::default()
    };
    let names = machine.list(path);
    let suffixes = ["_input", "_average", "_fault"];
    let has = |name: String| names.contains(&name).then(|| format!("{path}/{name}"));
    let inputs =
        names.iter().filter_map(|name| suffixes.iter().find_map(|end| name.strip_suffix(end)));
    let inputs: BTreeSet<&str> = inputs.collect();
    inputs.into_iter().filter_map(|name| sensor(machine, name, &common, &has)).collect()
}

/// The path of a file of the chip, if it has that file.
type Has<'a> = dyn Fn(String) -> Option<String> + 'a;

fn sensor(machine: &Machine, name: &str, common: &Sensor, has: &Has<'_>) -> Option<Sensor> {
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if !matches!(kind, "temp" | "fan" | "in" | "curr" | "power" | "humidity") {
        return None;
    }
    let read = |end: &str| has(format!("{name}_{end}")).and_then(|path| machine.number(&path));
    let mut sensor = Sensor { name: name.to_owned(), ..common.clone() };
    sensor.label = has(format!("{name}_label")).and_then(|path| machine.text(&path));
    sensor.is_faulty = read("fault") == Some(1);
    if sensor.is_faulty {
        // The value of a faulty sensor is meaningless, and so are its thresholds and alarms.
        return Some(sensor);
    }
    let input = has(format!("{name}_input")).or_else(|| has(format!("{name}_average")))?;
    let value = machine.number::<i64>(&input)?;
    // A threshold of 0 was never set.
    let threshold = |end: &str| read(end).filter(|limit: &i64| *limit > 0);
    match kind {
        "temp" => {
            sensor.temperature_millicelsius = Some(value);
            sensor.critical_millicelsius = threshold("crit");
            sensor.max_millicelsius = threshold("max");
        }
        "fan" => (sensor.fan_rpm, sensor.min_rpm) = (Some(value), threshold("min")),
        "in" => {
            sensor.voltage_millivolts = Some(value);
            (sensor.min_millivolts, sensor.max_millivolts) = (threshold("min"), threshold("max"));
        }
        "curr" => sensor.current_milliamperes = Some(value),
        "humidity" => sensor.humidity_millipercent = Some(value),
        // The kernel reports µW.
        _ => sensor.power_milliwatts = Some(value / 1000),
    }
    let is_set = |kind: &&str| read(&format!("{kind}alarm")) == Some(1);
    let kinds = ALARMS.into_iter().filter(is_set).map(|kind| kind.trim_end_matches('_'));
    sensor.alarms =
        kinds.map(|kind| if kind.is_empty() { "alarm" } else { kind }.to_owned()).collect();
    Some(sensor)
}

/// The alarms of a sensor, as its files name them before `alarm`.
const ALARMS: [&str; 7] = ["", "cap_", "crit_", "emergency_", "lcrit_", "max_", "min_"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{has, tree_from_bytes, tree_in};
    use serde_json::json;

    #[test]
    fn values_have_the_unit_of_their_key_and_slow_chips_are_left_out() {
        assert!(data::rows(SLOW).all(|name| !name.contains(['#', ' '])));
        let machine = tree_in(&[
            ("sys/class/hwmon/hwmon3", &[("name", "coretemp")]),
            ("sys/class/hwmon/hwmon3", &[("temp10_input", "45000"), ("temp2_input", "-5000")]),
            ("sys/class/hwmon/hwmon3", &[("temp2_label", "Package id 0")]),
            ("sys/class/hwmon/hwmon3", &[("temp2_crit", "100000")]),
            ("sys/class/hwmon/hwmon3", &[("temp3_input", "hot"), ("bogus1_input", "1")]),
            ("sys/class/hwmon/hwmon0", &[("name", "nct6775"), ("fan1_input", "1200")]),
            ("sys/class/hwmon/hwmon0", &[("fan1_fault", "0"), ("fan2_input", "0")]),
            ("sys/class/hwmon/hwmon0", &[("fan2_fault", "1"), ("power1_average", "12345678")]),
            ("sys/class/hwmon/hwmon1", &[("name", "drivetemp")]),
            ("sys/class/hwmon", &[("hwmon1/temp1_input", "30000"), ("hwmon2/uevent", "x")]),
        ]);
        let sensors = sensors(&machine);
        let names: Vec<&str> = sensors.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["temp2", "temp10", "fan1", "fan2", "power1"]);
        has(&sensors[0], &json!({"temperature_millicelsius": -5000, "label": "Package id 0"}));
        has(&sensors[0], &json!({"critical_millicelsius": 100_000}));
        has(&sensors[2], &json!({"fan_rpm": 1200}));
        has(&sensors[3], &json!({"fan_rpm": null, "is_faulty": true}));
        has(&sensors[4], &json!({"power_milliwatts": 12_345}));
        assert_eq!(machine.problems().len(), 1);
    }

    #[test]
    fn too_many_sensors_are_a_problem() {
        let found = |n_sensors: usize| {
            let path = |n| format!("sys/class/hwmon/hwmon0/in{n}_input");
            let mut files: Vec<_> = (0..n_sensors).map(|n| (path(n), "1\n")).collect();
            files.push(("sys/class/hwmon/hwmon0/name".to_owned(), "nct6775\n"));
            let machine = tree_from_bytes(&files);
            (sensors(&machine).len(), machine.problems().len())
        };
        assert_eq!((found(LIMIT_SENSORS), found(LIMIT_SENSORS + 1)), ((2000, 0), (2000, 1)));
    }

    #[test]
    fn faulty_sensor_has_no_value_no_alarm_and_no_threshold() {
        let machine = tree_in(&[
            ("sys/class/hwmon/hwmon0", &[("name", "nct6775"), ("temp1_input", "-62000")]),
            ("sys/class/hwmon/hwmon0", &[("temp1_fault", "1"), ("temp1_max", "80000")]),
            ("sys/class/hwmon/hwmon0", &[("temp1_alarm", "1"), ("temp1_label", "AUXTIN0")]),
            ("sys/class/hwmon/hwmon0", &[("fan3_fault", "1"), ("fan4_fault", "0")]),
        ]);
        let common = Sensor { chip: "nct6775".to_owned(), is_faulty: true, ..Sensor::default() };
        let temperature = Sensor {
            name: "temp1".to_owned(),
            label: Some("AUXTIN0".to_owned()),
            ..common.clone()
        };
        let fan = Sensor { name: "fan3".to_owned(), ..common };
        assert_eq!(sensors(&machine), [fan, temperature]);
    }

    #[test]
    fn sensor_has_thresholds_and_alarms_and_unset_ones_are_absent() {
        let machine = tree_in(&[
            ("sys/class/hwmon/hwmon0", &[("name", "nct6775")]),
            ("sys/class/hwmon/hwmon0", &[("fan1_input", "300"), ("fan1_min", "500")]),
            ("sys/class/hwmon/hwmon0", &[("fan1_alarm", "1"), ("humidity1_input", "41500")]),
            ("sys/class/hwmon/hwmon0", &[("in0_input", "1210"), ("in0_min", "0")]),
            ("sys/class/hwmon/hwmon0", &[("in0_max", "1320"), ("in0_max_alarm", "0")]),
            ("sys/class/hwmon/hwmon0", &[("temp1_input", "90000"), ("temp1_max", "85000")]),
            ("sys/class/hwmon/hwmon0", &[("temp1_max_alarm", "1"), ("temp1_crit_alarm", "1")]),
        ]);
        let [fan, humidity, voltage, temperature] = &sensors(&machine)[..] else { panic!() };
        has(fan, &json!({"min_rpm": 500, "alarms": ["alarm"]}));
        has(humidity, &json!({"humidity_millipercent": 41_500}));
        has(voltage, &json!({"min_millivolts": null, "max_millivolts": 1320, "alarms": null}));
        has(temperature, &json!({"max_millicelsius": 85_000, "critical_millicelsius": null}));
        has(temperature, &json!({"alarms": ["crit", "max"]}));
    }
}
