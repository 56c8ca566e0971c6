//! Bytes for tests: netlink messages (`uapi/linux/netlink.h`), SMBIOS structures (DSP0134), reports of ATA disks
//! (ACS-4) and self-encrypting ones (TCG), records of management controllers (IPMI), LLDP frames, health of disks, and
//! damaged input of every kind.

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

/// Asserts that `value` has these facts in the report, by key or path (`disks/0/name`); null means that it lacks one.
#[track_caller]
pub(crate) fn has(value: &impl serde::Serialize, facts: &serde_json::Value) {
    let value = serde_json::to_value(value).unwrap();
    for (key, fact) in facts.as_object().unwrap() {
        let found = value.pointer(&format!("/{key}")).unwrap_or(&serde_json::Value::Null);
        assert_eq!(found, fact, "{key} of {value:#}");
    }
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

/// An area of an FRU memory: of `head`, whose second byte will be the length, and fields of 8-bit text.
pub(crate) fn area(head: &[u8], fields: &[&[u8]]) -> Vec<u8> {
    let mut bytes = head.to_vec();
    for field in fields {
        bytes.push(0xc0 | u8::try_from(field.len()).unwrap());
        bytes.extend(*field);
    }
    bytes.push(0xc1);
    sealed(bytes)
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize((bytes.len() + 1).next_multiple_of(8), 0);
    bytes[1] = u8::try_from(bytes.len() / 8).unwrap();
    seal(&mut bytes);
    bytes
}

/// Makes the sum of the bytes 0.
pub(crate) fn seal(bytes: &mut [u8]) {
    let (last, rest) = bytes.split_last_mut().unwrap();
    *last = rest.iter().fold(0_u8, |sum, byte| sum.wrapping_sub(*byte));
}

/// The record of a power supply in an FRU memory.
pub(crate) fn supply_record(body: &[u8], format: u8) -> Vec<u8> {
    let mut sum = [body, &[0]].concat();
    seal(&mut sum);
    let length = u8::try_from(body.len()).unwrap();
    let mut header = vec![0, format, length, *sum.last().unwrap(), 0];
    seal(&mut header);
    [header.as_slice(), body].concat()
}

/// An IPMI record with its name and length.
pub(crate) fn named(mut bytes: Vec<u8>, name: &[u8]) -> Vec<u8> {
    bytes.push(0xc0 | u8::try_from(name.len()).unwrap());
    bytes.extend(name);
    bytes[4] = u8::try_from(bytes.len() - 5).unwrap();
    bytes
}

/// A full IPMI record of the sensor `number`: a threshold sensor with the line `m`, `b`, exponents.
pub(crate) fn full_record(number: u8, kind: u8, unit: u8, line: [u8; 6], name: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number, 0, 0x51, 1, 0, 0x20, 0, number, 3, 1, 0x7f, 0x04];
    bytes.extend([kind, 1, 0, 0, 0, 0, 0x12, 0, 0, unit, 0, 0]);
    bytes.extend(line);
    bytes.extend([0, 0, 0, 0, 0, 0, 0, 95, 0, 0, 5, 0, 0, 0, 0, 0, 0]);
    named(bytes, name)
}

/// A compact IPMI record of `n_sensors` sensors from `number` on, whose states their kind defines.
pub(crate) fn compact_record(number: u8, kind: u8, n_sensors: u8, name: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number, 0, 0x51, 2, 0, 0x20, 0, number, 10, 1, 0x7f, 0];
    bytes.extend([kind, 0x6f, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0]);
    bytes.extend([n_sensors, 0x81, 0, 0, 0, 0, 0, 0]);
    named(bytes, name)
}

/// A part of an LLDP frame: 7 bits of type, 9 of length, the value.
pub(crate) fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    let head = u16::from(kind) << 9 | u16::try_from(value.len()).unwrap();
    [&head.to_be_bytes(), value].concat()
}

/// The part of an LLDP frame that extends it.
pub(crate) fn organization(oui: [u8; 3], subtype: u8, content: &[u8]) -> Vec<u8> {
    tlv(127, &[&oui[..], &[subtype], content].concat())
}

/// An LLDP frame of these parts.
pub(crate) fn ethernet(parts: &[Vec<u8>]) -> Vec<u8> {
    let header = [1, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 0x11, 0x88, 0xcc];
    let mut frame = [&header[..], &parts.concat(), &[0, 0]].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

/// The parts that every LLDP frame has, of this port.
pub(crate) fn mandatory(port: &str) -> Vec<Vec<u8>> {
    vec![
        tlv(1, &[4, 2, 0, 0, 0, 0, 0x10]),
        tlv(2, &[&[5], port.as_bytes()].concat()),
        tlv(3, &120_u16.to_be_bytes()),
    ]
}

/// The LLDP frame of a switch in a rack.
pub(crate) fn switch() -> Vec<u8> {
    let ipv6 = [0xfd, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let mut parts = mandatory("Ethernet1/7");
    parts.extend([
        tlv(4, b"rack 12 node 7\0"),
        tlv(5, b"leaf-12.example"),
        tlv(6, b"Switch OS 4.2\r\nmodel X"),
        tlv(7, &[0, 0x14, 0, 0x04]),
        tlv(8, &[5, 1, 192, 0, 2, 1, 2, 0, 0, 0, 9, 0]),
        tlv(8, &[&[17, 2][..], &ipv6, &[1, 0, 0, 0, 0, 0]].concat()),
        organization([0, 0x80, 0xc2], 1, &100_u16.to_be_bytes()),
        organization([0, 0x80, 0xc2], 2, &[6, 0, 101]),
        organization([0, 0x80, 0xc2], 3, &[0, 200, 4, b'p', b'r', b'o', b'd']),
        organization([0, 0x80, 0xc2], 3, &[0, 100, 4, b'm', b'g', b'm', b't']),
        organization([0, 0x80, 0xc2], 6, &300_u16.to_be_bytes()),
        organization([0, 0x12, 0x0f], 3, &[1, 0, 0, 0, 0]),
        organization([0, 0x80, 0xc2], 7, &[3, 0, 0, 0, 5]),
        organization([0, 0x12, 0x0f], 1, &[3, 0x6c, 1, 0, 30]),
        organization([0, 0x12, 0x0f], 4, &9216_u16.to_be_bytes()),
        organization([0, 0x12, 0xbb], 1, &[0, 1, 2]),
        tlv(100, &[0xab]),
    ]);
    ethernet(&parts)
}

/// A page of SMART data with these attributes.
pub(crate) fn smart_page(attributes: &[(u8, [u8; 6])]) -> Vec<u8> {
    let mut page = vec![0; 512];
    for (index, (id, raw)) in attributes.iter().enumerate() {
        let at = 2 + 12 * index;
        page[at] = *id;
        page[at + 5..at + 11].copy_from_slice(raw);
    }
    page[511] = page.iter().fold(0_u8, |sum, byte| sum.wrapping_sub(*byte));
    page
}

/// Sense data with the registers of an ATA disk.
pub(crate) fn sense(count: u8, mid: u8, high: u8) -> Vec<u8> {
    let mut sense = vec![0; 22];
    (sense[0], sense[7], sense[8], sense[9]) = (0x72, 14, 0x09, 12);
    (sense[13], sense[17], sense[19]) = (count, mid, high);
    sense
}

/// The health log of an NVMe controller.
pub(crate) fn nvme_log() -> Vec<u8> {
    let mut log = vec![0; 512];
    log[1..3].copy_from_slice(&310_u16.to_le_bytes());
    (log[3], log[4], log[5]) = (100, 10, 3);
    for (at, value) in [(32, 2_u64), (48, 3), (112, 7), (128, 9000), (144, 5), (160, 0)] {
        log[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    log
}

/// A SCSI log page with these parameters.
pub(crate) fn log_page(code: u8, parameters: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (number, value) in parameters {
        body.extend(number.to_be_bytes());
        body.extend([3, u8::try_from(value.len()).unwrap()]);
        body.extend(*value);
    }
    let mut page = vec![code, 0];
    page.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
    page.extend(body);
    page.resize(512, 0);
    page
}
