//! `USB (…)`, TPM, watchdogs, serial ports and sensors.

use probes::devices::Devices;
use probes::sensors::Sensor;
use probes::usb::UsbDevice;

use super::page::{Page, Tone, counted, pair};
use super::unit;

pub(super) fn devices(page: &mut Page, devices: &Devices) {
    let n_usb = devices.usb.iter().filter(|usb| !usb.is_root_hub).count();
    page.section(&format!("USB ({})", counted(n_usb, "device")));
    for entry in devices.usb.iter().filter(|usb| !usb.is_root_hub) {
        usb(page, entry);
    }
    page.facts("devices", &[], |page| others(page, devices));
}

fn others(page: &mut Page, devices: &Devices) {
    if let Some(tpm) = &devices.tpm {
        let version = tpm.version.as_deref();
        let line = format!(
            "tpm{}{}{}{}",
            pair("version", version),
            pair("manufacturer", tpm.manufacturer.as_deref()),
            pair("firmware", tpm.firmware.as_deref()),
            pair("banks", Some(tpm.pcr_banks.join(",")).filter(|b| !b.is_empty()).as_deref()),
        );
        page.line(1, &line);
    }
    for watchdog in &devices.watchdogs {
        page.line(
            1,
            &format!(
                "watchdog {}{}{}",
                watchdog.name,
                pair("identity", watchdog.identity.as_deref()),
                if watchdog.caused_last_reset == Some(true) {
                    " caused the last reset"
                } else {
                    ""
                }
            ),
        );
    }
    for port in &devices.serial_ports {
        page.line(1, &format!("serial port {}", port.name));
    }
    for supply in &devices.power_supplies {
        let charge = supply.charge_percent.map(|percent| format!("{percent}%"));
        let line = format!(
            "power supply {}{}{}{}",
            supply.name,
            pair("type", supply.kind.as_deref()),
            pair("status", supply.status.as_deref()),
            pair("charge", charge.as_deref()),
        );
        page.line(1, &line);
    }
    for entry in &devices.sensors {
        sensor(page, entry);
    }
}

fn usb(page: &mut Page, usb: &UsbDevice) {
    let id = [&usb.vendor_id, &usb.product_id].map(|id| id.as_deref().unwrap_or("????"));
    let speed = usb.speed_kbit_s.map(unit::usb_speed);
    let line = format!(
        "{} {}:{}{}{}{}{}",
        usb.name,
        id[0],
        id[1],
        pair("vendor", usb.manufacturer.as_deref()),
        pair("product", usb.product.as_deref()),
        pair("serial", usb.serial.as_deref()),
        pair("speed", speed.as_deref()),
    );
    page.line(1, &line);
}

/// One line for each sensor that has a reading.
fn sensor(page: &mut Page, sensor: &Sensor) {
    let milli = |value: Option<i64>, unit: &str| value.map(|v| unit::measured(v, unit));
    let value = milli(sensor.temperature_millicelsius, "°C")
        .or_else(|| sensor.fan_rpm.map(|rpm| format!("{rpm} rpm")))
        .or_else(|| milli(sensor.voltage_millivolts, "V"))
        .or_else(|| milli(sensor.current_milliamperes, "A"))
        .or_else(|| milli(sensor.power_milliwatts, "W"))
        .or_else(|| milli(sensor.humidity_millipercent, "%"));
    let name = sensor.label.as_deref().unwrap_or(&sensor.name);
    if let Some(value) = value {
        page.toned(Tone::Quiet, 1, &format!("sensor {} {name}: {value}", sensor.chip));
    }
}
