//! The sensors of the guest's management controller, as records of its repository (IPMI 2.0, 43.1 and 43.2). QEMU's
//! controller lists them all, but has a reading only for the first sensor of each compact record. And the memories of
//! its FRU devices (FRU Information Storage Definition 1.0).

/// Serial numbers of the board and of the power supply.
pub(crate) const SERIALS: [&str; 2] = ["CNBOARD0001", "CN1797200001"];
/// Size of each FRU device's memory.
pub(crate) const FRU_BYTES: usize = 256;

/// A full record of a temperature, a compact one that two power supplies share, and that of the FRU device 1.
pub(crate) fn sensor_records() -> Vec<u8> {
    let records =
        [record(1, 1, &inlet()), record(2, 2, &power_supplies()), record(3, 0x11, &located())];
    records.concat()
}

/// The FRU device of the first power supply, by name.
fn located() -> Vec<u8> {
    let mut body = vec![0x20, 1, 0x80, 0, 0, 0x10, 0, 0x0a, 1, 0, 0xc0 | 8];
    body.extend(b"PSU1_FRU");
    body
}

/// The memories of device 0, the board, and of device 1, a power supply.
pub(crate) fn fru_memories() -> Vec<u8> {
    // 2023-05-04 in minutes since 1996.
    let board =
        area(&[1, 0, 0, 0xa0, 0x65, 0xdb], &["Dell Inc.", "PowerEdge board", SERIALS[0], "0WCJNT"]);
    let product = area(&[1, 0, 0], &["DELTA", "PSU 750W", "0PJMDN", "A00", SERIALS[1]]);
    let memory = |board: &[u8], product: &[u8]| {
        let at = |area: &[u8]| u8::from(!area.is_empty());
        let mut memory = sealed(vec![1, 0, 0, at(board), at(product), 0, 0]);
        memory.extend([board, product].concat());
        memory.resize(FRU_BYTES, 0);
        memory
    };
    [memory(&board, &[]), memory(&[], &product)].concat()
}

/// A head whose second byte will be the length in units of 8, fields of 8-bit characters, the end.
fn area(head: &[u8], fields: &[&str]) -> Vec<u8> {
    let mut bytes = head.to_vec();
    for field in fields {
        bytes.push(0xc0 | u8::try_from(field.len()).unwrap_or_default());
        bytes.extend(field.bytes());
    }
    bytes.push(0xc1);
    bytes.resize((bytes.len() + 1).next_multiple_of(8) - 1, 0);
    bytes[1] = u8::try_from((bytes.len() + 1) / 8).unwrap_or_default();
    sealed(bytes)
}

/// Appends the byte that makes the sum 0.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.push(bytes.iter().fold(0, |sum, byte| sum.wrapping_sub(*byte)));
    bytes
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
