//! What neighbours say in LLDP frames (IEEE 802.1AB-2016 §8): free texts, names of VLANs, the inventory
//! of LLDP-MED (ANSI/TIA-1057 §10.2.6). They say whose network this is, whatever they look like.

use super::fields;
use super::pseudonym::Pseudonyms;

const FRAMES: &str = "kernel/lldp/frames";
/// A record of the answer that holds a frame.
const FRAME: u8 = 1;
const ETHERTYPE_LLDP: [u8; 2] = [0x88, 0xcc];
const ETHERTYPE_TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
/// Groups whose parts are read field by field.
const IEEE_802_1: [u8; 3] = [0x00, 0x80, 0xc2];
const IEEE_802_3: [u8; 3] = [0x00, 0x12, 0x0f];
const MED: [u8; 3] = [0x00, 0x12, 0xbb];

/// What kinds of ids stand for: texts that people chose, those assigned locally (7) among them, and a network's
/// address (§8.5.2, §8.5.3). Names of interfaces are the same on every switch of a model.
struct Kinds {
    texts: &'static [u8],
    address: u8,
}

const CHASSIS: Kinds = Kinds { texts: &[1, 2, 3, 7], address: 5 };
const PORT: Kinds = Kinds { texts: &[1, 2, 6, 7], address: 4 };

/// Replaces the texts in the answer at `path`, each by one as long.
pub(super) fn rewrite(path: &str, content: &mut [u8], names: &mut Pseudonyms) {
    let mut rest = if path == FRAMES { content } else { &mut [] };
    // A kind, the length of the port's name, that of the content in two bytes, name, content.
    while let Some([kind, name_length, high, low]) = rest.first_chunk::<4>().copied() {
        let start = 4 + usize::from(name_length);
        let end = start + usize::from(u16::from_be_bytes([high, low]));
        let Some((record, behind)) = rest.split_at_mut_checked(end) else { return };
        if kind == FRAME {
            in_frame(&mut record[start..], names);
        }
        rest = behind;
    }
}

fn in_frame(frame: &mut [u8], names: &mut Pseudonyms) {
    let Some(mut rest) = frame.get_mut(12..) else { return };
    while let Some(tag) = rest.first_chunk::<2>().copied() {
        let is_tag = ETHERTYPE_TAGS.contains(&tag);
        let n_bytes = if is_tag { 4 } else { 2 };
        let Some(behind) = rest.get_mut(n_bytes..) else { return };
        rest = behind;
        match tag {
            ETHERTYPE_LLDP => return in_parts(rest, names),
            _ if is_tag => {}
            _ => return,
        }
    }
}

fn in_parts(parts: &mut [u8], names: &mut Pseudonyms) {
    let mut port_id = Vec::new();
    let mut rest = parts;
    while let Some(head) = rest.first_chunk::<2>().copied() {
        let (kind, length) = (head[0] >> 1, usize::from(u16::from_be_bytes(head) & 0x1ff));
        let Some((part, behind)) = rest.split_at_mut_checked(2 + length) else { return };
        let value = &mut part[2..];
        match kind {
            0 => return,
            1 => in_id(value, &CHASSIS, names),
            2 => {
                in_id(value, &PORT, names);
                port_id = value.get(1..).unwrap_or_default().to_vec();
            }
            // A port that describes itself by its id goes on to do so.
            4 if value == port_id => {}
            4..=6 => put_text(value, names),
            127 => in_organization(value, names),
            _ => {}
        }
        rest = behind;
    }
}

fn in_id(value: &mut [u8], kinds: &Kinds, names: &mut Pseudonyms) {
    let Some((kind, id)) = value.split_first_mut() else { return };
    if kinds.texts.contains(kind) {
        put_text(id, names);
    } else if *kind == kinds.address {
        // Behind IANA's number of the family.
        let bytes = id.get_mut(1..).unwrap_or_default();
        let put = fields::ip(bytes).map(|ip| fields::to_bytes(names.address(ip)));
        if let Some(put) = put.filter(|put| put.len() == bytes.len()) {
            bytes.copy_from_slice(&put);
        }
    }
}

fn in_organization(value: &mut [u8], names: &mut Pseudonyms) {
    let Some((head, content)) = value.split_first_chunk_mut::<4>() else { return };
    let [a, b, c, subtype] = *head;
    match ([a, b, c], subtype) {
        // The number of the VLAN and the length of its name.
        (IEEE_802_1, 3) => content.get_mut(3..).into_iter().for_each(|n| put_text(n, names)),
        (MED, 5..=11) => put_text(content, names),
        (IEEE_802_1 | IEEE_802_3, _) | (MED, 1 | 2 | 4) => {}
        // A place on earth, or what makers say of their switches, as of its serial number.
        _ => put_bytes(content, names),
    }
}

/// One character may have several bytes; of those that are no letter or digit each stays.
fn put_text(bytes: &mut [u8], names: &mut Pseudonyms) {
    let put = match std::str::from_utf8(bytes) {
        Ok(text) => names.text(text).into_bytes(),
        Err(_) => return put_bytes(bytes, names),
    };
    if put.len() == bytes.len() {
        bytes.copy_from_slice(&put);
    }
}

fn put_bytes(bytes: &mut [u8], names: &mut Pseudonyms) {
    let put = names.bytes(bytes);
    if put.len() == bytes.len() {
        bytes.copy_from_slice(&put);
    }
}
