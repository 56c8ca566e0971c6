//! `USB (…)`, TPM, watchdogs, serial ports and sensors.

use probes::devices::Devices;
use probes::sensors::Sensor;
use probes::usb::UsbDevice;

use super::page::{Page, Tone, counted, joined, pair, pairs, with};
use super::unit;

pub(super) fn devices(page: &mut Page, devices: &Devices) {
    let n_usb = devices.usb.iter().filter(|usb| !usb.is_root_hub).count();
    page.section(&format!("USB ({})", counted(n_usb, "device")));
    page.each(devices.usb.iter().filter(|usb| !usb.is_root_hub), usb);
    page.facts("devices", "", |page| others(page, devices));
}

fn others(page: &mut Page, devices: &Devices) {
    if let Some(tpm) = &devices.tpm {
        let banks = with(" banks=", joined(&tpm.pcr_banks));
        page.line(1, &format!("tpm{}{banks}", pairs!(tpm; version, manufacturer, firmware)));
    }
    for watchdog in &devices.watchdogs {
        let is_cause = watchdog.caused_last_reset == Some(true);
        let reset = if is_cause { " caused the last reset" } else { "" };
        page.line(1, &format!("watchdog {}{}{reset}", watchdog.name, pairs!(watchdog; identity)));
    }
    page.lines(1, devices.serial_ports.iter().map(|port| format!("serial port {}", port.name)));
    for supply in &devices.power_supplies {
        let charge = supply.charge_percent.map(|percent| format!("{percent}%"));
        let pairs = pairs!(supply; "type" kind, status) + &with(" charge=", charge);
        page.line(1, &format!("power supply {}{pairs}", supply.name));
    }
    page.each(&devices.sensors, sensor);
}

fn usb(page: &mut Page, usb: &UsbDevice) {
    let id = [&usb.vendor_id, &usb.product_id].map(|id| id.as_deref().unwrap_or("????"));
    let speed = usb.speed_kbit_s.map(unit::usb_speed);
    let pairs = pairs!(usb; "vendor" manufacturer, product, serial);
    let speed = pair("speed", speed.as_ref());
    page.line(1, &format!("{} {}{pairs}{speed}", usb.name, id.join(":")));
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
