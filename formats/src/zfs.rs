//! The label of a ZFS device: a list of pairs in XDR (ZFS On-Disk Specification, §1.3; `sys/nvpair.h`).

use crate::bytes::array;

/// Types of values.
const UINT64: u32 = 8;
const STRING: u32 = 9;
const LIST: u32 = 19;
const LISTS: u32 = 20;
/// A label begins with the encoding, and each list with its version and flags.
const ENCODING_BYTES: usize = 4;
const LIST_HEADER_BYTES: usize = 8;
/// Maximum number of plausible pairs in a label.
const MAX_PAIRS: usize = 64;

/// Statements of a label about its pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Label {
    /// Name of the pool.
    pub pool: Option<String>,
    /// Number of the pool.
    pub pool_guid: Option<u64>,
    /// Number of top-level devices across which the pool stores its data.
    pub n_top_level: Option<u64>,
    /// The kind of top-level device that this one belongs to: `disk` if it is one itself, otherwise `mirror`, `raidz`, …
    pub kind: Option<String>,
    /// Number of devices in that one, unless it is a `disk`.
    pub n_children: Option<u64>,
}

impl Label {
    /// Least number of devices in the pool; `None` if the label does not contain it, as that of a spare.
    pub fn least_devices(&self) -> Option<u64> {
        let n_here = match self.kind.as_deref()? {
            "disk" | "file" => 1,
            _ => self.n_children.unwrap_or(2),
        };
        Some((self.n_top_level? - 1).saturating_add(n_here))
    }
}

/// Reads a label from its first bytes; those after them are not needed.
pub fn label(bytes: &[u8]) -> Option<Label> {
    let is_xdr = bytes.get(..4)? == [1, 1, 0, 0] || bytes.get(..4)? == [1, 0, 0, 0];
    if !is_xdr || bytes.get(20..31)? != b"\x00\x00\x00\x07version" {
        return None;
    }
    let mut label = Label::default();
    for pair in pairs(bytes.get(ENCODING_BYTES..)?) {
        match (pair.name, pair.kind) {
            ("name", STRING) => label.pool = pair.text(),
            ("pool_guid", UINT64) => label.pool_guid = pair.number(),
            ("vdev_children", UINT64) => label.n_top_level = pair.number().filter(|n| *n > 0),
            ("vdev_tree", LIST) => {
                for pair in pairs(pair.value) {
                    match (pair.name, pair.kind) {
                        ("type", STRING) => label.kind = pair.text(),
                        ("children", LISTS) => label.n_children = Some(u64::from(pair.n_values)),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Some(label)
}

struct Pair<'a> {
    name: &'a str,
    kind: u32,
    n_values: u32,
    /// As much of it as there is.
    value: &'a [u8],
}

impl Pair<'_> {
    fn number(&self) -> Option<u64> {
        array(self.value, 0).map(u64::from_be_bytes)
    }

    fn text(&self) -> Option<String> {
        let n_bytes = usize::try_from(be32(self.value, 0)?).ok()?;
        let text = std::str::from_utf8(self.value.get(4..)?.get(..n_bytes)?).ok()?;
        Some(text.to_owned()).filter(|text| !text.is_empty())
    }
}

/// The pairs of a list, up to its end or to where the bytes end.
fn pairs(list: &[u8]) -> Vec<Pair<'_>> {
    let mut found = Vec::new();
    let mut at = LIST_HEADER_BYTES;
    while found.len() < MAX_PAIRS
        && let Some((pair, n_bytes)) = list.get(at..).and_then(pair)
    {
        found.push(pair);
        at = at.saturating_add(n_bytes);
    }
    found
}

/// The pair at the beginning of `bytes`, and its length.
fn pair(bytes: &[u8]) -> Option<(Pair<'_>, usize)> {
    let n_bytes = usize::try_from(be32(bytes, 0)?).ok().filter(|n| *n > 0)?;
    // The second number is the length of the decoded pair.
    let n_name = usize::try_from(be32(bytes, 8)?).ok()?;
    let name = std::str::from_utf8(bytes.get(12..)?.get(..n_name)?).ok()?;
    let at = 12_usize.checked_add(n_name.checked_next_multiple_of(4)?)?;
    let (kind, n_values) = (be32(bytes, at)?, be32(bytes, at.checked_add(4)?)?);
    let value = bytes.get(at.checked_add(8)?..n_bytes.min(bytes.len()))?;
    Some((Pair { name, kind, n_values, value }, n_bytes))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair_of(name: &str, kind: u32, n_values: u32, value: &[u8]) -> Vec<u8> {
        let mut padded = name.as_bytes().to_vec();
        padded.resize(name.len().next_multiple_of(4), 0);
        let name_length = u32::try_from(name.len()).unwrap().to_be_bytes();
        let n_bytes = u32::try_from(20 + padded.len() + value.len()).unwrap().to_be_bytes();
        let parts: [&[u8]; 7] = [
            &n_bytes,
            &n_bytes,
            &name_length,
            &padded,
            &kind.to_be_bytes(),
            &n_values.to_be_bytes(),
            value,
        ];
        parts.concat()
    }

    fn number(name: &str, value: u64) -> Vec<u8> {
        pair_of(name, UINT64, 1, &value.to_be_bytes())
    }

    fn string(name: &str, value: &str) -> Vec<u8> {
        let mut text = u32::try_from(value.len()).unwrap().to_be_bytes().to_vec();
        text.extend(value.as_bytes());
        text.resize(text.len().next_multiple_of(4), 0);
        pair_of(name, STRING, 1, &text)
    }

    fn bytes_of(n_top_level: u64, tree: &[Vec<u8>]) -> Vec<u8> {
        let tree = [&[0; 8][..], &tree.concat(), &[0; 8]].concat();
        let pairs = [
            number("version", 5000),
            string("name", "tank"),
            number("pool_guid", 77),
            number("vdev_children", n_top_level),
            pair_of("vdev_tree", LIST, 1, &tree),
        ];
        [&[1, 1, 0, 0][..], &[0, 0, 0, 0, 0, 0, 0, 1], &pairs.concat(), &[0; 8]].concat()
    }

    #[test]
    fn pool_of_one_disk_has_one_device_and_others_have_more() {
        let disk = label(&bytes_of(1, &[string("type", "disk"), number("id", 0)])).unwrap();
        assert_eq!((disk.pool.as_deref(), disk.pool_guid), (Some("tank"), Some(77)));
        assert_eq!(disk.least_devices(), Some(1));
        let striped = label(&bytes_of(3, &[string("type", "disk")])).unwrap();
        assert_eq!(striped.least_devices(), Some(3));
        let children = pair_of("children", LISTS, 4, &[0; 64]);
        let raidz = label(&bytes_of(1, &[string("type", "raidz"), children])).unwrap();
        assert_eq!(raidz.least_devices(), Some(4));
        let mirror = label(&bytes_of(1, &[string("type", "mirror")])).unwrap();
        assert_eq!(mirror.least_devices(), Some(2));
        assert_eq!(label(&bytes_of(0, &[])).unwrap().least_devices(), None);
    }

    #[test]
    fn label_that_is_cut_gives_no_cut_name_and_a_damaged_one_never_panics() {
        let whole = bytes_of(2, &[string("type", "mirror")]);
        for cut in 0..whole.len() {
            let pool = label(&whole[..cut]).and_then(|label| label.pool);
            assert!(pool.is_none_or(|pool| pool == "tank"), "{cut}");
        }
        crate::testing::survives_any_bytes(&whole, |bytes| {
            let _ = label(bytes).and_then(|label| label.least_devices());
        });
    }
}
