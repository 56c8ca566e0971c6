//! Memory tables of the firmware as raw bytes (DSP0134 3.7: Type 16 Physical Memory Array, Type 17 Memory Device).

use crate::machine::Slot;

/// Handle of the one memory array.
const ARRAY: u16 = 0x1000;
/// Handle of the first memory device.
const FIRST_DEVICE: u16 = 0x1100;
/// The error handle for "no error information".
const NO_ERROR_HANDLE: u16 = 0xFFFE;

/// One table for the array, then one per slot; QEMU reads each from a file of its own. Empty without slots.
pub(crate) fn memory_tables(slots: &[Slot]) -> Vec<Vec<u8>> {
    if slots.is_empty() {
        return Vec::new();
    }
    let n_slots = u16::try_from(slots.len()).unwrap_or(u16::MAX);
    let devices = (FIRST_DEVICE..).zip(slots).map(|(handle, slot)| device(handle, slot));
    std::iter::once(array(n_slots)).chain(devices).collect()
}

/// Type 16: on the system board (3), system memory (3), multi-bit ECC (6), capacity in the 64-bit field: 256 GiB.
fn array(n_slots: u16) -> Vec<u8> {
    let mut body = vec![3, 3, 6];
    body.extend(0x8000_0000_u32.to_le_bytes());
    body.extend(NO_ERROR_HANDLE.to_le_bytes());
    body.extend(n_slots.to_le_bytes());
    body.extend((256_u64 << 30).to_le_bytes());
    table(16, ARRAY, &body, &[])
}

/// Type 17 up to offset 28h, configured voltage: a registered DDR4 DIMM of rank 2, or an empty slot.
fn device(handle: u16, slot: &Slot) -> Vec<u8> {
    let mut strings = vec![slot.locator, slot.bank];
    let dimm = slot.dimm.as_ref();
    if let Some(dimm) = dimm {
        strings.extend([dimm.manufacturer, dimm.serial, "AT-0", dimm.part_number]);
    }
    let filled = |value: u16| if dimm.is_some() { value } else { 0 };
    let speed = dimm.map_or(0, |dimm| dimm.speed_mt_s);
    let mut body = Vec::new();
    // Array, error handle, total width, data width, size in MiB.
    for word in
        [ARRAY, NO_ERROR_HANDLE, filled(72), filled(64), dimm.map_or(0, |dimm| dimm.size_mib)]
    {
        body.extend(word.to_le_bytes());
    }
    // Form factor DIMM, no set, locator, bank, DDR4 or unknown.
    body.extend([9, 0, 1, 2, if dimm.is_some() { 0x1A } else { 2 }]);
    // Synchronous and registered; rated speed.
    body.extend(filled(0x2080).to_le_bytes());
    body.extend(speed.to_le_bytes());
    // Manufacturer, serial, asset tag, part number, rank.
    body.extend(if dimm.is_some() { [3, 4, 5, 6, 2] } else { [0; 5] });
    body.extend(0_u32.to_le_bytes());
    for word in [speed, filled(1200), filled(1200), filled(1200)] {
        body.extend(word.to_le_bytes());
    }
    table(17, handle, &body, &strings)
}

/// Header (type, length, handle), body, and the strings, each with a final zero, then one more zero.
fn table(kind: u8, handle: u16, body: &[u8], strings: &[&str]) -> Vec<u8> {
    let length = u8::try_from(body.len() + 4).unwrap_or(u8::MAX);
    let mut bytes = vec![kind, length];
    bytes.extend(handle.to_le_bytes());
    bytes.extend(body);
    for string in strings {
        bytes.extend(string.bytes());
        bytes.push(0);
    }
    bytes.push(0);
    if strings.is_empty() {
        bytes.push(0);
    }
    bytes
}
