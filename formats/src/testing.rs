//! Bytes for tests: netlink messages (`uapi/linux/netlink.h`), SMBIOS structures (DSP0134), reports of ATA disks
//! (ACS-4) and self-encrypting ones (TCG), and damaged input of every kind.

/// Reads of `bytes` at an offset, as of a disk.
pub(crate) fn reader(bytes: &[u8]) -> impl FnMut(u64, usize) -> Option<Vec<u8>> {
    move |at, n| bytes.get(usize::try_from(at).ok()?..)?.get(..n).map(<[u8]>::to_vec)
}

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

/// VPD page 89h of an ATA disk with the given words and texts.
pub(crate) fn identify_page(words: &[(usize, u16)], texts: &[(usize, &str)]) -> Vec<u8> {
    let mut page = vec![0; 60 + 512];
    (page[1], page[2], page[3]) = (0x89, 2, 0x38);
    for (index, word) in words {
        page[60 + 2 * index..][..2].copy_from_slice(&word.to_le_bytes());
    }
    for (index, text) in texts {
        for (at, byte) in text.bytes().enumerate() {
            page[60 + 2 * index + (at ^ 1)] = byte;
        }
    }
    page
}

/// An answer to Level 0 Discovery of TCG with the given features, as codes and data.
pub(crate) fn tcg_answer(features: &[(u16, &[u8])]) -> Vec<u8> {
    let mut answer = vec![0; 48];
    for (code, data) in features {
        answer.extend(code.to_be_bytes());
        answer.extend([0x10, u8::try_from(data.len()).unwrap()]);
        answer.extend(*data);
    }
    let n_bytes = u32::try_from(answer.len() - 4).unwrap();
    answer[..4].copy_from_slice(&n_bytes.to_be_bytes());
    answer.resize(answer.len().max(512), 0);
    answer
}

/// An answer of an Opal 2 disk whose locking feature has these flags.
pub(crate) fn opal(flags: u8) -> Vec<u8> {
    let mut locking = [0; 12];
    locking[0] = flags;
    tcg_answer(&[(0x0001, &[0x11; 12]), (0x0002, &locking), (0x0203, &[0; 16])])
}

/// An answer to protocol 00h.
pub(crate) fn protocols(list: &[u8]) -> Vec<u8> {
    let mut answer = vec![0; 512];
    answer[7] = u8::try_from(list.len()).unwrap();
    answer[8..8 + list.len()].copy_from_slice(list);
    answer
}
