//! The sensors of the guest's management controller, as records of its repository (IPMI 2.0, 43.1 and 43.2). QEMU's
//! controller lists them all, and has a reading only for the first sensor of each compact one.

/// A full record of a temperature, and a compact one that two power supplies share.
pub(crate) fn sensor_records() -> Vec<u8> {
    [record(1, 1, &inlet()), record(2, 2, &power_supplies())].concat()
}

/// Number of the record, version of the format, its kind, length of what follows.
fn record(id: u8, kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u8::try_from(body.len()).unwrap_or(u8::MAX);
    [&[id, 0, 0x51, kind, length], body].concat()
}

/// Sensor 3 at the air inlet: thresholds 5 and 47 raw, a step of 1 °C from 23 °C on.
fn inlet() -> Vec<u8> {
    let mut body = vec![0x20, 0, 3, 0x37, 1, 0x7f, 0x04, 0x01, 0x01];
    body.extend([0, 0, 0, 0, 0x10, 0]);
    body.extend([0, 1, 0, 0, 1, 0, 23, 0, 0, 0]);
    body.extend([0, 0, 0, 0, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    body.push(0xc0 | 0x0a);
    body.extend(b"Inlet Temp");
    body
}

/// Sensors 6 and 7, named PS1 and PS2.
fn power_supplies() -> Vec<u8> {
    let mut body = vec![0x20, 0, 6, 0x0a, 1, 0x7f, 0, 0x08, 0x6f];
    body.extend([0, 0, 0, 0, 0, 0, 0xc0, 0, 0]);
    body.extend([2, 0x81, 0, 0, 0, 0, 0, 0]);
    body.push(0xc0 | 2);
    body.extend(b"PS");
    body
}
