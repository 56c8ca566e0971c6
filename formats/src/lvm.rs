//! LVM2: the label of a physical volume on the disk, and the names that the device mapper gives to
//! volumes (LVM2 `lib/format_text/layout.h`, `lib/label/label.h`; `build_dm_name` of libdevmapper).

use crate::bytes::le32;
use crate::{Encoding, Field, Kind};

pub mod group;
mod metadata;

pub use metadata::fields as metadata_fields;

/// The label lies in one of the first four sectors of 512 bytes.
const LABEL_SECTORS: usize = 4;
const SECTOR_BYTES: usize = 512;
/// Identifiers have 32 letters and digits.
const ID_BYTES: usize = 32;
/// Prefix of the device mapper's UUID of a logical volume.
const UUID_PREFIX: &str = "LVM-";
/// Bounds of an identifier's groups when it is written with hyphens.
const GROUPS: [usize; 8] = [0, 6, 10, 14, 18, 22, 26, 32];

/// The label of a physical volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The volume's identifier in groups; `None` if it is not made of letters and digits.
    pub id: Option<String>,
    /// Places of the identifier.
    pub fields: Vec<Field>,
}

/// The label among the first bytes of a volume.
pub fn label(first: &[u8]) -> Option<Label> {
    let mut sectors = first.chunks_exact(SECTOR_BYTES).take(LABEL_SECTORS);
    let sector =
        sectors.find(|sector| sector.starts_with(b"LABELONE") && &sector[24..32] == b"LVM2 001")?;
    let at = usize::try_from(le32(sector, 20)).ok();
    let id = at.and_then(|at| sector.get(at..at.checked_add(ID_BYTES)?));
    let id = id.filter(|id| id.iter().all(u8::is_ascii_alphanumeric));
    let field = |id| Field::within(first, id, Kind::Serial, Encoding::Text);
    let fields = id.map(field).into_iter().collect();
    Some(Label { id: id.and_then(|id| std::str::from_utf8(id).ok()).map(grouped), fields })
}

/// True if a text is an identifier, with or without hyphens. Digits that are all hexadecimal are a UUID.
pub fn is_id(text: &str) -> bool {
    let bare = text.replace('-', "");
    bare.len() == ID_BYTES
        && bare.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && !bare.bytes().all(|byte| byte.is_ascii_hexdigit())
        && (text == bare || text == grouped(&bare))
}

/// An identifier as LVM's tools print it; of another length, as it is.
pub fn grouped(id: &str) -> String {
    let groups: Option<Vec<&str>> =
        GROUPS.windows(2).map(|group| id.get(group[0]..group[1])).collect();
    groups.map_or_else(|| id.to_owned(), |groups| groups.join("-"))
}

/// The names of one volume: its group's, its own, and that of a layer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Volume {
    /// The volume group.
    pub group: String,
    /// The logical volume.
    pub name: String,
    /// A part that the device mapper adds, e.g. `tpool`.
    pub layer: Option<String>,
}

impl Volume {
    /// Parses a mapping's name, `<group>-<volume>` with each hyphen of a name doubled, and `-<layer>` for its parts.
    pub fn parse(mapping: &str) -> Option<Volume> {
        // No name of LVM's contains a space, so one can stand for a doubled hyphen.
        let single = mapping.replace("--", " ");
        let mut parts = single.split('-').map(|part| part.replace(' ', "-"));
        let is_name = |name: &String| !name.is_empty();
        let (group, name) = (parts.next().filter(is_name)?, parts.next().filter(is_name)?);
        let layer = parts.next();
        parts.next().is_none().then_some(Volume { group, name, layer })
    }

    /// The name of its mapping.
    pub fn mapping(&self) -> String {
        let double = |name: &str| name.replace('-', "--");
        let layer = self.layer.as_ref().map(|layer| format!("-{layer}")).unwrap_or_default();
        format!("{}-{}{layer}", double(&self.group), double(&self.name))
    }
}

/// True if the device mapper's UUID belongs to a logical volume.
pub fn is_volume(mapping_uuid: &[u8]) -> bool {
    mapping_uuid.starts_with(UUID_PREFIX.as_bytes())
}

/// The identifiers of group and volume in the device mapper's UUID of a logical volume; `None` if it is not
/// one.
pub fn ids(mapping_uuid: &str) -> Option<Vec<&str>> {
    let rest = mapping_uuid.strip_prefix(UUID_PREFIX)?;
    let ids = [rest.get(..ID_BYTES), rest.get(ID_BYTES..2 * ID_BYTES)];
    Some(ids.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_mapping_is_split_and_joined_again() {
        for (name, group, volume) in [
            ("rhel-root", "rhel", "root"),
            ("vg--acme-data--1", "vg-acme", "data-1"),
            ("vg-pool00-tpool", "vg", "pool00"),
        ] {
            let parsed = Volume::parse(name).unwrap();
            assert_eq!((parsed.group.as_str(), parsed.name.as_str()), (group, volume));
            assert_eq!(parsed.mapping(), name);
        }
        for name in ["", "-", "vg", "vg--root", "a-b-c-d", "-x"] {
            assert_eq!(Volume::parse(name), None, "{name:?}");
        }
    }

    #[test]
    fn the_uuid_of_a_mapping_has_the_identifiers_of_group_and_volume() {
        let (group, volume) = ("a".repeat(32), "b".repeat(32));
        let uuid = format!("LVM-{group}{volume}-tpool");
        assert_eq!(ids(&uuid), Some(vec![group.as_str(), volume.as_str()]));
        assert_eq!(ids("LVM-short"), Some(vec![]));
        assert_eq!(ids("mpath-3"), None);
    }

    fn volume(sector: usize, id: &[u8]) -> Vec<u8> {
        let mut first = vec![0; 4096];
        let at = sector * 512;
        first[at..at + 8].copy_from_slice(b"LABELONE");
        first[at + 20] = 32;
        first[at + 24..at + 32].copy_from_slice(b"LVM2 001");
        first[at + 32..at + 32 + id.len()].copy_from_slice(id);
        first
    }

    #[test]
    fn the_identifier_is_read_in_groups_from_each_sector_where_a_label_may_lie() {
        let id = b"abcdefghijklmnopqrstuvwxyzABCDEF";
        for sector in 0..4 {
            let first = volume(sector, id);
            let label = label(&first).unwrap();
            assert_eq!(label.id.as_deref(), Some("abcdef-ghij-klmn-opqr-stuv-wxyz-ABCDEF"));
            assert_eq!(label.fields[0].bytes(&first), id);
        }
        assert_eq!(label(&volume(4, id)), None);
    }

    #[test]
    fn an_identifier_that_is_damaged_or_beyond_its_sector_is_unknown() {
        let id = |first: &[u8]| label(first).unwrap().id;
        assert_eq!(id(&volume(1, b"short")), None);
        let mut far = volume(1, b"");
        far[512 + 20..512 + 24].fill(0xff);
        assert_eq!(id(&far), None);
        assert_eq!(label(&[]), None);
    }
}
