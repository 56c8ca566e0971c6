//! Errors that the firmware recorded: generic error status blocks (ACPI 6.5, section 18.3.2.7.1) with sections of the
//! Common Platform Error Record (UEFI 2.10, appendix N; `linux/cper.h`), as in the boot error region of table BERT.

use crate::bytes::{array, le16, le32, le64};
use crate::guid::Guid;
use crate::{Encoding, Field, Kind};

const BLOCK_BYTES: usize = 20;
/// The head of a section; revision 3.0 added a time of eight bytes.
const HEAD_BYTES: usize = 64;
/// The most sections that are read; firmware records one or two.
const MOST_SECTIONS: usize = 64;

const MEMORY: u32 = 0xa5bc_1114;
const PCI_EXPRESS: u32 = 0xd995_e954;
const PROCESSOR: u32 = 0x9876_ccad;
const PROCESSOR_X86: u32 = 0xdc3e_a0b0;

/// One section: an error of one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// `recoverable`, `fatal`, `corrected` or `informational`.
    pub severity: &'static str,
    /// The part at fault.
    pub part: Part,
    /// The part as the firmware calls it, e.g. `DIMM_A1`.
    pub unit: Option<String>,
}

/// The part that an error concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Memory.
    Memory {
        /// Handle of the DIMM's structure in the SMBIOS table.
        handle: Option<u16>,
        /// Numbers of node, card, module, bank and device, as far as they are known.
        place: Vec<(&'static str, u16)>,
    },
    /// A PCI Express device: its segment, bus, device and function.
    Pci(Option<(u16, u8, u8, u8)>),
    /// A processor, by its APIC id.
    Processor(Option<u64>),
    /// Anything else: the GUID of the kind of section.
    Other(String),
}

/// The sections of the blocks in `region`, and whether all of them could be read. A region without an error begins with
/// zeros.
pub fn sections(region: &[u8]) -> (Vec<Section>, bool) {
    let (raw, is_whole) = split(region);
    let n_raw = raw.len();
    let known = raw.into_iter().map_while(|Raw { head, body }| {
        let severity = severity(le32(head, 16))?;
        Some(Section { severity, part: part(head, body), unit: unit(head) })
    });
    let found: Vec<Section> = known.collect();
    let is_whole = is_whole && found.len() == n_raw;
    (found, is_whole)
}

/// The identifiers in `region`: of replaceable units and serial numbers of PCI devices.
pub fn fields(region: &[u8]) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut add = |id: Option<&[u8]>, encoding| {
        fields.extend(id.map(|id| Field::within(region, id, Kind::Serial, encoding)));
    };
    for Raw { head, body } in split(region).0 {
        add(head.get(28..44), Encoding::Guid);
        let serial = body.get(40..48).filter(|_| le32(head, 0) == PCI_EXPRESS);
        add(serial, Encoding::LittleEndian);
    }
    fields
}

/// The bytes of a section.
struct Raw<'a> {
    head: &'a [u8],
    body: &'a [u8],
}

/// The sections of all blocks, and whether all of them fit into the region.
fn split(region: &[u8]) -> (Vec<Raw<'_>>, bool) {
    let mut found = Vec::new();
    let mut block = 0_usize;
    // Bits 0 to 3 say that there is an error at all, bits 4 to 13 how many sections it has.
    while region.len() >= block.saturating_add(BLOCK_BYTES) && le32(region, block) & 0xf != 0 {
        let n_sections = le32(region, block) >> 4 & 0x3ff;
        let mut at = block + BLOCK_BYTES;
        let Some(end) = at.checked_add(length(region, block + 12)) else { return (found, false) };
        if end > region.len() {
            return (found, false);
        }
        for _ in 0..n_sections {
            let head_bytes = HEAD_BYTES + if le16(region, at + 20) >= 0x300 { 8 } else { 0 };
            let start = at + head_bytes;
            let Some(next) = start.checked_add(length(region, at + 24)) else {
                return (found, false);
            };
            let (true, Some(head), Some(body)) =
                (next <= end, region.get(at..start), region.get(start..next))
            else {
                return (found, false);
            };
            if found.len() == MOST_SECTIONS {
                return (found, false);
            }
            found.push(Raw { head, body });
            at = next;
        }
        // Data of the maker's own may follow the sections.
        let raw = block.saturating_add(length(region, block + 4));
        block = match length(region, block + 8) {
            0 => end,
            n_bytes => end.max(raw.saturating_add(n_bytes)),
        };
    }
    (found, true)
}

fn length(region: &[u8], at: usize) -> usize {
    usize::try_from(le32(region, at)).unwrap_or(usize::MAX)
}

fn severity(code: u32) -> Option<&'static str> {
    ["recoverable", "fatal", "corrected", "informational"].get(usize::try_from(code).ok()?).copied()
}

fn part(head: &[u8], body: &[u8]) -> Part {
    // Each kind of section begins with bits that say which of its fields are valid.
    let valid = le64(body, 0);
    match le32(head, 0) {
        MEMORY => {
            let names = ["node", "card", "module", "bank", "device"];
            let known = names.into_iter().enumerate().filter(|(at, _)| valid >> (3 + at) & 1 != 0);
            let place = known.filter_map(|(at, name)| {
                Some((name, array(body, 32 + 2 * at).map(u16::from_le_bytes)?))
            });
            let handle = array(body, 78).map(u16::from_le_bytes);
            Part::Memory { handle: handle.filter(|_| valid & 1 << 17 != 0), place: place.collect() }
        }
        PCI_EXPRESS => {
            let address = array::<5>(body, 31).filter(|_| valid & 1 << 3 != 0);
            Part::Pci(address.map(|[function, device, low, high, bus]| {
                (u16::from_le_bytes([low, high]), bus, device, function)
            }))
        }
        PROCESSOR => Part::Processor(
            array(body, 152).map(u64::from_le_bytes).filter(|_| valid & 1 << 8 != 0),
        ),
        PROCESSOR_X86 => {
            Part::Processor(array(body, 8).map(u64::from_le_bytes).filter(|_| valid & 1 != 0))
        }
        _ => Part::Other(Guid(array(head, 0).unwrap_or_default()).to_string()),
    }
}

/// The text that names the unit, if the head says that it is valid.
fn unit(head: &[u8]) -> Option<String> {
    let text = head.get(44..64).filter(|_| head.get(22).is_some_and(|bits| bits & 1 << 1 != 0))?;
    let text = text.split(|byte| *byte == 0).next()?.trim_ascii();
    let is_plain = !text.is_empty() && text.iter().all(|byte| matches!(byte, b' '..=b'~'));
    is_plain.then(|| String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block with one section.
    fn block(kind: u32, severity: u8, revision: u16, body: &[u8]) -> Vec<u8> {
        let head = if revision >= 0x300 { 72 } else { 64 };
        let mut bytes = vec![0; BLOCK_BYTES + head];
        bytes[0] = 0x11;
        bytes[12..16].copy_from_slice(&u32::try_from(head + body.len()).unwrap().to_le_bytes());
        bytes[20..24].copy_from_slice(&kind.to_le_bytes());
        bytes[36] = severity;
        bytes[40..42].copy_from_slice(&revision.to_le_bytes());
        bytes[42] = 1 << 1;
        bytes[44..48].copy_from_slice(&u32::try_from(body.len()).unwrap().to_le_bytes());
        bytes[64..68].copy_from_slice(b"NIC1");
        [bytes, body.to_vec()].concat()
    }

    fn pci() -> Vec<u8> {
        let mut body = vec![0; 64];
        body[0] = 1 << 3;
        body[31..36].copy_from_slice(&[1, 2, 0, 0, 0x3b]);
        body
    }

    #[test]
    fn sections_name_the_pci_device_the_dimm_and_the_processor() {
        let mut memory = vec![0; 80];
        (memory[0], memory[2]) = (0x08 | 0x20, 2);
        (memory[32], memory[36], memory[79]) = (1, 3, 0x11);
        let mut processor = vec![0; 64];
        (processor[0], processor[8]) = (1, 0x22);
        let region = [
            block(PCI_EXPRESS, 1, 0x300, &pci()),
            block(MEMORY, 2, 0x201, &memory),
            block(PROCESSOR_X86, 0, 0x300, &processor),
            vec![0; 100],
        ];
        let (found, is_whole) = sections(&region.concat());
        let parts: Vec<(&str, Part)> = found.iter().map(|s| (s.severity, s.part.clone())).collect();
        let memory = Part::Memory { handle: Some(0x1100), place: vec![("node", 1), ("module", 3)] };
        let expected = [
            ("fatal", Part::Pci(Some((0, 0x3b, 2, 1)))),
            ("corrected", memory),
            ("recoverable", Part::Processor(Some(0x22))),
        ];
        assert_eq!((parts.as_slice(), is_whole), (&expected[..], true));
        assert_eq!(found[0].unit.as_deref(), Some("NIC1"));
    }

    #[test]
    fn fields_that_are_not_valid_and_other_kinds_are_unknown() {
        let body = [vec![0; 8], vec![0xff; 200]].concat();
        let part = |kind| sections(&block(kind, 1, 0x300, &body)).0.remove(0).part;
        assert_eq!(part(MEMORY), Part::Memory { handle: None, place: Vec::new() });
        assert_eq!((part(PCI_EXPRESS), part(PROCESSOR)), (Part::Pci(None), Part::Processor(None)));
        let Part::Other(guid) = part(0x8f87_f311) else { panic!() };
        assert!(guid.starts_with("8f87f311-"), "{guid}");
    }

    #[test]
    fn no_error_is_empty_and_a_truncated_record_is_not_whole() {
        assert_eq!((sections(&[]), sections(&[0; 64])), ((vec![], true), (vec![], true)));
        let whole = block(PCI_EXPRESS, 1, 0x300, &pci());
        assert_eq!(sections(&whole).0.len(), 1);
        for n in BLOCK_BYTES..whole.len() {
            assert_eq!(sections(&whole[..n]), (vec![], false), "{n}");
        }
        assert_eq!(sections(&block(PCI_EXPRESS, 9, 0x300, &pci())), (vec![], false));
    }

    #[test]
    fn identifiers_of_the_unit_and_of_the_pci_device_are_fields() {
        let spans: Vec<_> =
            fields(&block(PCI_EXPRESS, 1, 0x300, &pci())).into_iter().map(|f| f.span).collect();
        assert_eq!(spans, [48..64, 132..140]);
    }
}
