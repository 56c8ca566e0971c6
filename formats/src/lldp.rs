//! LLDP frames and their parts (IEEE 802.1AB-2016, clause 8), and the list of frames that a listener
//! keeps. Anyone on the wire can send a frame, so nothing in it is trusted.
//!
//! What neighbours write says whose network this is, whatever it looks like: free texts, names of VLANs
//! (IEEE 802.1Q-2022 annex D), the inventory of LLDP-MED (ANSI/TIA-1057 §10.2.6).

pub mod neighbour;

use crate::{Encoding, Field, Kind};

/// The Ethernet type of LLDP.
pub const ETHERTYPE: u16 = 0x88cc;
/// IEEE 802.1Q tags before the type.
const ETHERTYPE_TAGS: [u16; 2] = [0x8100, 0x88a8];

/// The group whose extensions IEEE 802.1Q and 802.1AX define.
pub const IEEE_802_1: [u8; 3] = [0x00, 0x80, 0xc2];
/// The group whose extensions IEEE 802.3 defines.
pub const IEEE_802_3: [u8; 3] = [0x00, 0x12, 0x0f];
/// LLDP-MED.
const MED: [u8; 3] = [0x00, 0x12, 0xbb];

/// The end of an LLDPDU.
pub const END: u8 = 0;
/// Chassis ID.
pub const CHASSIS_ID: u8 = 1;
/// Port ID.
pub const PORT_ID: u8 = 2;
/// Time to live.
pub const TTL: u8 = 3;
/// Port description.
pub const PORT_DESCRIPTION: u8 = 4;
/// System name.
pub const SYSTEM_NAME: u8 = 5;
/// System description.
pub const SYSTEM_DESCRIPTION: u8 = 6;
/// System capabilities.
pub const CAPABILITIES: u8 = 7;
/// Management address.
pub const MANAGEMENT_ADDRESS: u8 = 8;
/// An extension: the group in three bytes, its subtype in one, the content.
pub const ORGANIZATION: u8 = 127;

/// A part of a listener's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    /// The port was listened on.
    Listened(&'a str),
    /// The port received this Ethernet frame.
    Frame(&'a str, &'a [u8]),
    /// The port could not be listened on: `errno`.
    Failed(&'a str, i32),
}

const LISTENED: u8 = 0;
const FRAME: u8 = 1;
const FAILED: u8 = 2;

/// Appends a record: its kind, the lengths of name and content (1 and 2 bytes), name and content.
pub fn push(answer: &mut Vec<u8>, record: Record) {
    let errno;
    let (kind, name, content): (u8, &str, &[u8]) = match record {
        Record::Listened(name) => (LISTENED, name, &[]),
        Record::Frame(name, frame) => (FRAME, name, frame),
        Record::Failed(name, code) => {
            errno = code.to_be_bytes();
            (FAILED, name, &errno)
        }
    };
    let (Ok(name_len), Ok(len)) = (u8::try_from(name.len()), u16::try_from(content.len())) else {
        return;
    };
    answer.extend([kind, name_len]);
    answer.extend(len.to_be_bytes());
    answer.extend(name.as_bytes());
    answer.extend(content);
}

/// Walks the records of an answer; ends at the first one that makes no sense.
pub fn records(answer: &[u8]) -> impl Iterator<Item = Record<'_>> {
    let mut rest = answer;
    std::iter::from_fn(move || {
        let (&[kind, name_len, high, low], body) = rest.split_first_chunk::<4>()?;
        let (name, body) = body.split_at_checked(usize::from(name_len))?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let (content, behind) = body.split_at_checked(length)?;
        let name = std::str::from_utf8(name).ok()?;
        rest = behind;
        match kind {
            LISTENED => Some(Record::Listened(name)),
            FRAME => Some(Record::Frame(name, content)),
            FAILED => Some(Record::Failed(name, i32::from_be_bytes(content.try_into().ok()?))),
            _ => None,
        }
    })
}

/// An Ethernet frame that carries an LLDPDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The address it came from.
    pub source: &'a [u8],
    /// The bytes after the Ethernet header.
    pub lldpdu: &'a [u8],
}

/// Splits a frame at its Ethernet header; `None` of a frame of another type.
pub fn frame(bytes: &[u8]) -> Option<Frame<'_>> {
    let source = bytes.get(6..12)?;
    let mut rest = bytes.get(12..)?;
    loop {
        let (ethertype, behind) = rest.split_first_chunk::<2>()?;
        match u16::from_be_bytes(*ethertype) {
            ETHERTYPE => return Some(Frame { source, lldpdu: behind }),
            tag if ETHERTYPE_TAGS.contains(&tag) => rest = behind.get(2..)?,
            _ => return None,
        }
    }
}

/// A part of an LLDPDU: type, length and value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Its type; [`ORGANIZATION`] for extensions.
    pub kind: u8,
    /// Its value.
    pub value: &'a [u8],
}

/// Walks the parts of an LLDPDU up to its end.
#[derive(Debug, Clone)]
pub struct Tlvs<'a> {
    rest: &'a [u8],
    /// The fault at which the walk ended; `None` before that, and after a good end.
    pub complaint: Option<&'static str>,
}

/// The parts of an LLDPDU. What follows a damaged part is lost.
pub fn tlvs(lldpdu: &[u8]) -> Tlvs<'_> {
    Tlvs { rest: lldpdu, complaint: None }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Tlv<'a>;

    fn next(&mut self) -> Option<Tlv<'a>> {
        let Some((head, behind)) = self.rest.split_first_chunk::<2>() else {
            // The end part may be left out where the frame is full (8.5.1).
            if !std::mem::take(&mut self.rest).is_empty() {
                self.complaint = Some("a byte after the last part");
            }
            return None;
        };
        let kind = head[0] >> 1;
        let length = usize::from(u16::from_be_bytes(*head) & 0x1ff);
        // Bytes after the end only fill the frame up to Ethernet's 60.
        let whole = if kind == END { None } else { behind.split_at_checked(length) };
        let Some((value, rest)) = whole else {
            self.rest = &[];
            if kind != END {
                self.complaint = Some("a part that is longer than the frame");
            }
            return None;
        };
        self.rest = rest;
        Some(Tlv { kind, value })
    }
}

/// Kinds of ids by their content: texts that people chose, those assigned locally (7) among them, MACs, and network
/// addresses (8.5.2, 8.5.3). Names of interfaces are the same on every switch of a model.
struct Ids {
    texts: &'static [u8],
    mac: u8,
    address: u8,
}

const CHASSIS: Ids = Ids { texts: &[1, 2, 3, 7], mac: 4, address: 5 };
const PORT: Ids = Ids { texts: &[1, 2, 6, 7], mac: 3, address: 4 };

/// A value that reveals something.
type Found<'a> = (&'a [u8], Kind, Encoding);

/// Lists the places in a listener's answer that reveal something.
pub fn fields(answer: &[u8]) -> Vec<Field> {
    let mut found = Vec::new();
    for record in records(answer) {
        let Record::Frame(_, bytes) = record else { continue };
        let Some(frame) = frame(bytes) else { continue };
        found.push((frame.source, Kind::Mac, Encoding::Bytes));
        found.extend(in_lldpdu(frame.lldpdu));
    }
    let field = |(value, kind, encoding)| Field::within(answer, value, kind, encoding);
    found.into_iter().map(field).collect()
}

fn in_lldpdu(lldpdu: &[u8]) -> Vec<Found<'_>> {
    let mut found = Vec::new();
    let mut port_name: &[u8] = &[];
    for Tlv { kind, value } in tlvs(lldpdu) {
        match kind {
            CHASSIS_ID => found.extend(id(value, &CHASSIS)),
            PORT_ID => match id(value, &PORT) {
                Some(id) => found.push(id),
                None => port_name = value.get(1..).unwrap_or_default(),
            },
            // A port that describes itself by the name of its interface continues to do so.
            PORT_DESCRIPTION if value == port_name => {}
            PORT_DESCRIPTION..=SYSTEM_DESCRIPTION => {
                found.push((value, Kind::FreeText, Encoding::Text));
            }
            ORGANIZATION => found.extend(extension(value)),
            _ => {}
        }
    }
    found
}

fn id<'a>(value: &'a [u8], ids: &Ids) -> Option<Found<'a>> {
    let (kind, id) = value.split_first()?;
    match *kind {
        kind if ids.texts.contains(&kind) => Some((id, Kind::FreeText, Encoding::Text)),
        kind if kind == ids.mac && id.len() == 6 => Some((id, Kind::Mac, Encoding::Bytes)),
        // After IANA's number of the family.
        kind if kind == ids.address => Some((id.get(1..)?, Kind::Address, Encoding::Bytes)),
        _ => None,
    }
}

fn extension(value: &[u8]) -> Option<Found<'_>> {
    let (&[a, b, c, subtype], content) = value.split_first_chunk::<4>()?;
    match ([a, b, c], subtype) {
        // The number of the VLAN and the length of its name.
        (IEEE_802_1, 3) if content.len() > 3 => {
            Some((&content[3..], Kind::FreeText, Encoding::Text))
        }
        (MED, 5..=11) => Some((content, Kind::FreeText, Encoding::Text)),
        (IEEE_802_1 | IEEE_802_3, _) | (MED, 1 | 2 | 4) => None,
        // A location, or what makers say of their switches, such as its serial number.
        _ => Some((content, Kind::FreeText, Encoding::Bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::tests::assert_fields;
    use crate::testing::survives_any_bytes;

    fn part(kind: u8, value: &[u8]) -> Vec<u8> {
        [&[kind << 1, u8::try_from(value.len()).unwrap()][..], value].concat()
    }

    fn ethernet(lldpdu: &[u8]) -> Vec<u8> {
        [&[1; 6][..], &[2; 6], &[0x81, 0, 0, 9, 0x88, 0xcc], lldpdu].concat()
    }

    #[test]
    fn records_come_back_as_they_were_written() {
        let all = [
            Record::Failed("eno3", 19),
            Record::Listened("eno1"),
            Record::Frame("eno1", &[1, 2, 3]),
            Record::Listened("eno2"),
        ];
        let mut bytes = Vec::new();
        for record in all {
            push(&mut bytes, record);
        }
        assert_eq!(records(&bytes).collect::<Vec<_>>(), all);
        survives_any_bytes(&bytes, |bytes| records(bytes).for_each(drop));
    }

    #[test]
    fn a_tag_hides_no_frame_and_damage_ends_the_parts_with_a_complaint() {
        let lldpdu = [part(4, b"abc"), vec![0, 0], vec![9; 40]].concat();
        let bytes = ethernet(&lldpdu);
        let found = frame(&bytes).unwrap();
        assert_eq!((found.source, found.lldpdu), (&[2; 6][..], &lldpdu[..]));
        let mut parts = tlvs(found.lldpdu);
        assert_eq!(parts.next(), Some(Tlv { kind: 4, value: b"abc" }));
        assert_eq!((parts.next(), parts.complaint), (None, None));
        for (bad, complaint) in [(&lldpdu[..4], "a part that"), (&[9][..], "a byte after")] {
            let mut parts = tlvs(bad);
            assert_eq!(parts.by_ref().count(), 0);
            assert!(parts.complaint.unwrap().starts_with(complaint));
        }
        assert_eq!(frame(&[0; 60]), None);
    }

    #[test]
    fn texts_addresses_and_macs_are_found_and_numbers_are_not() {
        let parts = [
            part(1, b"\x04\x0c\x42\xa1\xde\xad\xbe"),
            part(1, b"\x05\x01\x0a\x4d\x03\x09"),
            part(2, b"\x07uplink-4"),
            part(4, b"uplink-4"),
            part(5, b"leaf-12"),
            part(127, b"\x00\x80\xc2\x03\x00\x07\x07payroll"),
            part(127, b"\x00\x80\xc2\x01\x00\x07"),
            part(127, b"\x00\x90\x69\x01ABCD"),
        ];
        let frame = ethernet(&parts.concat());
        let mut answer = Vec::new();
        push(&mut answer, Record::Listened("eno1"));
        push(&mut answer, Record::Frame("eno1", &frame));
        let expected: [(Kind, &[u8]); 8] = [
            (Kind::Mac, &[2; 6]),
            (Kind::Mac, b"\x0c\x42\xa1\xde\xad\xbe"),
            (Kind::Address, &[10, 77, 3, 9]),
            (Kind::FreeText, b"uplink-4"),
            (Kind::FreeText, b"uplink-4"),
            (Kind::FreeText, b"leaf-12"),
            (Kind::FreeText, b"payroll"),
            (Kind::FreeText, b"ABCD"),
        ];
        assert_fields(&fields(&answer), &answer, &expected);
        survives_any_bytes(&answer, |bytes| drop(fields(bytes)));
    }
}
