//! Bytes for tests: netlink messages (`uapi/linux/netlink.h`), SMBIOS structures (DSP0134), and damaged
//! input of every kind.

/// A message of type `kind` with `payload`.
pub(crate) fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len() + 16).unwrap();
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend([0; 10]);
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// An attribute of type `kind` with `value`, padded.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).unwrap();
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Feeds every prefix of `good` and of noise to `parse`, which must not panic.
pub(crate) fn survives_any_bytes(good: &[u8], parse: impl Fn(&[u8])) {
    for end in 0..=good.len() {
        parse(&good[..end]);
    }
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    for _ in 0..2000 {
        let mut bytes = good.to_vec();
        for _ in 0..=noise() % 8 {
            let at = (usize::from(noise()) << 8 | usize::from(noise())) % bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(at) {
                *byte = noise();
            }
        }
        parse(&bytes);
    }
    let random: Vec<u8> = (0..4096).map(|_| noise()).collect();
    for start in 0..random.len() {
        parse(&random[start..]);
    }
}

/// An SMBIOS structure of the type `kind` with `fields` after its header, and its strings.
pub(crate) fn structure(kind: u8, fields: &[u8], strings: &[&[u8]]) -> Vec<u8> {
    let length = u8::try_from(fields.len() + 4).unwrap();
    let mut bytes = vec![kind, length, 7, 0];
    bytes.extend(fields);
    for string in strings {
        bytes.extend(*string);
        bytes.push(0);
    }
    bytes.extend(if strings.is_empty() { vec![0, 0] } else { vec![0] });
    bytes
}
