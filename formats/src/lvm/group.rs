//! The physical volumes of a volume group, from the metadata on one of them (LVM2 `lib/format_text/layout.h`,
//! `lib/format_text/export.c`).

use std::ops::Range;

use crate::bytes::{le32, le64};

use super::{LABEL_SECTORS, SECTOR_BYTES};

/// Maximum length of text that is needed: the physical volumes come first in it.
pub const MAX_TEXT_BYTES: usize = 16 << 10;
/// Length of the header of a metadata area.
pub const AREA_HEADER_BYTES: usize = 512;
/// After the identifier and the size of a physical volume its areas are listed, 16 bytes each.
const AREAS_AT: usize = 40;
const AREA_BYTES: usize = 16;
/// Maximum number of plausible data areas.
const MAX_AREAS: usize = 8;
const MAGIC: &[u8] = b" LVM2 x[5A%r0N*>";
/// `RAW_LOCN_IGNORED`: the text of this area is out of date.
const IGNORED: u32 = 1;

/// A volume group as its text describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its identifier.
    pub id: Option<String>,
    /// The identifiers of its physical volumes.
    pub members: Vec<String>,
    /// True if these are all of them; `false` for a text that is cut.
    pub is_whole: bool,
}

/// Offsets of a physical volume's metadata areas, from its first bytes.
pub fn areas(first: &[u8]) -> Vec<u64> {
    let mut sectors = first.chunks_exact(SECTOR_BYTES).take(LABEL_SECTORS);
    let header = sectors.find_map(|sector| {
        let at = usize::try_from(le32(sector, 20)).ok()?;
        sector.starts_with(b"LABELONE").then(|| sector.get(at.checked_add(AREAS_AT)?..))?
    });
    let mut places = header.unwrap_or_default().chunks_exact(AREA_BYTES).map(|area| le64(area, 0));
    // Data areas come first; a zero ends each of the two lists.
    places.by_ref().take(MAX_AREAS).find(|at| *at == 0);
    places.take_while(|at| *at != 0).take(MAX_AREAS).collect()
}

/// Places of the text within a metadata area, by the area's header: one or two ranges, since the area is a ring. Empty
/// for a physical volume that does not belong to a group; `None` if the header is damaged or its text out of date.
pub fn text_ranges(header: &[u8]) -> Option<Vec<Range<u64>>> {
    let is_area = header.get(4..4 + MAGIC.len())? == MAGIC && le32(header, 60) & IGNORED == 0;
    let (area_bytes, at, n_bytes) = (le64(header, 32), le64(header, 40), le64(header, 48));
    if !is_area || at >= area_bytes.max(1) {
        return None;
    }
    if at == 0 || n_bytes == 0 {
        return Some(Vec::new());
    }
    let n_bytes = n_bytes.min(MAX_TEXT_BYTES as u64);
    let end = at.saturating_add(n_bytes).min(area_bytes);
    let start = AREA_HEADER_BYTES as u64;
    let rest = start..start + (n_bytes - (end - at));
    Some(vec![at..end, rest].into_iter().filter(|range| !range.is_empty()).collect())
}

/// Reads the text of a group. `None` if it is not one.
pub fn parse(text: &[u8]) -> Option<Group> {
    let mut group = Group::default();
    let mut sections: Vec<&str> = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let line = std::str::from_utf8(line).unwrap_or_default().trim();
        if let Some(name) = line.strip_suffix('{') {
            if sections.is_empty() {
                name.trim().clone_into(&mut group.name);
            }
            sections.push(name.trim());
        } else if line == "}" {
            if sections.pop() == Some("physical_volumes") {
                group.is_whole = true;
                break;
            }
        } else if let Some(id) = line.strip_prefix("id = \"").and_then(|id| id.strip_suffix('"')) {
            match sections[..] {
                [_] => group.id = Some(id.to_owned()),
                [_, "physical_volumes", _] => group.members.push(id.to_owned()),
                _ => {}
            }
        }
    }
    (group.id.is_some() && !group.name.is_empty()).then_some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "vg0 {\nid = \"GROUP-1\"\nseqno = 3\nphysical_volumes {\n\npv0 {\nid = \"PV-A\"\n\
        device = \"/dev/sda2\"\n}\n\npv1 {\nid = \"PV-B\"\n}\n}\n\nlogical_volumes {\n\nroot {\n\
        id = \"LV-1\"\n}\n}\n}\n";

    #[test]
    fn group_names_every_physical_volume_and_no_logical_one() {
        let group = parse(TEXT.as_bytes()).unwrap();
        assert_eq!((group.name.as_str(), group.id.as_deref()), ("vg0", Some("GROUP-1")));
        assert_eq!(group.members, ["PV-A", "PV-B"]);
        assert!(group.is_whole);
    }

    #[test]
    fn text_that_is_cut_does_not_claim_to_be_whole() {
        let end = TEXT.find("PV-B").unwrap();
        let group = parse(&TEXT.as_bytes()[..end]).unwrap();
        assert_eq!((group.members.len(), group.is_whole), (1, false));
        for cut in 0..TEXT.len() {
            assert!(parse(&TEXT.as_bytes()[..cut]).is_none_or(|group| group.members.len() <= 2));
        }
        assert_eq!(parse(&[0; 512]), None);
    }

    #[test]
    fn areas_follow_the_list_of_data_areas() {
        let mut first = vec![0; 4096];
        first[512..520].copy_from_slice(b"LABELONE");
        first[512 + 20] = 32;
        let at = 512 + 32 + 40;
        for (n, value) in [(0, 1 << 20), (1, 0), (2, 4096), (3, 1 << 30), (4, 0_u64)] {
            first[at + 16 * n..at + 16 * n + 8].copy_from_slice(&value.to_le_bytes());
        }
        assert_eq!(areas(&first), [4096, 1 << 30]);
        first[512 + 20..512 + 24].fill(0xff);
        assert!(areas(&first).is_empty() && areas(&[]).is_empty());
    }

    fn header(at: u64, n_bytes: u64) -> Vec<u8> {
        let mut header = vec![0; AREA_HEADER_BYTES];
        header[4..20].copy_from_slice(MAGIC);
        for (place, value) in [(24, 4096), (32, 0x8000), (40, at), (48, n_bytes)] {
            header[place..place + 8].copy_from_slice(&u64::to_le_bytes(value));
        }
        header
    }

    #[test]
    fn text_that_wraps_at_the_end_of_its_area_has_two_ranges() {
        let of = |header: &[u8]| {
            let ranges = text_ranges(header)?.into_iter();
            Some(ranges.map(|range| (range.start, range.end)).collect::<Vec<_>>())
        };
        assert_eq!(of(&header(512, 900)), Some(vec![(512, 1412)]));
        assert_eq!(of(&header(0x7f00, 0x200)), Some(vec![(0x7f00, 0x8000), (512, 0x300)]));
        assert_eq!(of(&header(512, 1 << 40)), Some(vec![(512, 512 + 16384)]));
        assert_eq!(of(&header(0, 0)), Some(vec![]), "no group");
        assert_eq!(of(&header(1 << 40, 1)), None);
        assert_eq!(of(&[0; 512]), None);
        let mut ignored = header(512, 900);
        // Offset, length and checksum come before the flags of a location.
        ignored[60] = 1;
        assert_eq!(of(&ignored), None);
    }
}
