//! The locks that a self-encrypting disk reports: Level 0 Discovery (TCG Storage Architecture Core
//! Specification 2.01 §3.3.6, and the SSC of each standard). It is one answer to one read (IF-RECV,
//! protocol 01h, `ComID` 0001h); no session is opened, and nothing on the disk changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The TCG storage standards that a disk supports, and its locks by them.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiskTcg {
    /// The standards, by their feature codes: `Enterprise` (0100h), `Opal 1` (0200h), `Opal 2`
    /// (0203h), `Opalite` (0301h), `Pyrite 1` (0302h), `Pyrite 2` (0303h), `Ruby` (0304h).
    pub standards: Vec<String>,
    /// True if it can lock ranges at all (feature 0002h, `LockingSupported`).
    pub is_locking_supported: Option<bool>,
    /// True if its locks are in use (`LockingEnabled`).
    pub is_locking_enabled: Option<bool>,
    /// True if at least one range currently refuses reads or writes (`Locked`).
    pub is_locked: Option<bool>,
    /// True if it encrypts its data (`MediaEncryption`).
    pub is_encrypting: Option<bool>,
    /// True if a small shadow MBR replaces its first blocks after power-on (`MBREnabled`).
    pub is_shadow_mbr_enabled: Option<bool>,
    /// True if that shadow is currently disabled (`MBRDone`).
    pub is_shadow_mbr_done: Option<bool>,
}

impl DiskTcg {
    /// Reason that prevents writing to the disk; `None` if there is none.
    pub fn obstacle(&self) -> Option<String> {
        let by = match self.standards.join(", ") {
            names if names.is_empty() => "TCG".to_owned(),
            names => format!("TCG {names}"),
        };
        if self.is_locked == Some(true) {
            return Some(format!("locked by {by}: a range refuses reads or writes"));
        }
        let is_hidden =
            self.is_shadow_mbr_enabled == Some(true) && self.is_shadow_mbr_done == Some(false);
        is_hidden.then(|| format!("hidden by {by}: the shadow MBR replaces its first blocks"))
    }
}

const HEADER_BYTES: usize = 48;

/// True if the answer to protocol 00h lists protocol 01h, of TCG (SPC-5, protocol 00h).
pub fn is_listed(protocols: &[u8]) -> bool {
    let list = protocols.split_at_checked(8).map(|(header, rest)| {
        let n_bytes = usize::from(u16::from_be_bytes([header[6], header[7]]));
        &rest[..n_bytes.min(rest.len())]
    });
    list.is_some_and(|list| list.contains(&0x01))
}

/// Parses the answer to Level 0 Discovery.
///
/// # Errors
/// A description of its fault.
pub fn level_0(answer: &[u8]) -> Result<DiskTcg, String> {
    let (header, rest) =
        answer.split_at_checked(HEADER_BYTES).ok_or_else(|| format!("{} bytes", answer.len()))?;
    let n_bytes = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
    // The length counts what follows it.
    let n_bytes = usize::try_from(n_bytes).unwrap_or(usize::MAX);
    let Some(n_features) = n_bytes.checked_sub(HEADER_BYTES - 4).filter(|n| *n > 0) else {
        return Err(format!("a length of {n_bytes} bytes"));
    };
    // The disk truncates what does not fit into our buffer; that part is unknown.
    let mut rest = &rest[..n_features.min(rest.len())];
    let mut tcg = DiskTcg::default();
    let mut n_found = 0;
    while let Some(([high, low, _, length], body)) = rest.split_first_chunk::<4>() {
        let Some((data, next)) = body.split_at_checked(usize::from(*length)) else { break };
        let code = u16::from_be_bytes([*high, *low]);
        n_found += usize::from(code != 0);
        feature(&mut tcg, code, data);
        rest = next;
    }
    if n_found == 0 { Err("no feature".to_owned()) } else { Ok(tcg) }
}

fn feature(tcg: &mut DiskTcg, code: u16, data: &[u8]) {
    let standard = match code {
        0x0002 => return locking(tcg, data.first().copied()),
        0x0100 => "Enterprise",
        0x0200 => "Opal 1",
        0x0203 => "Opal 2",
        0x0301 => "Opalite",
        0x0302 => "Pyrite 1",
        0x0303 => "Pyrite 2",
        0x0304 => "Ruby",
        _ => return,
    };
    if !tcg.standards.iter().any(|known| known == standard) {
        tcg.standards.push(standard.to_owned());
    }
}

fn locking(tcg: &mut DiskTcg, flags: Option<u8>) {
    let bit = |index: u8| flags.map(|flags| flags >> index & 1 == 1);
    tcg.is_locking_supported = bit(0);
    tcg.is_locking_enabled = bit(1);
    tcg.is_locked = bit(2);
    tcg.is_encrypting = bit(3);
    tcg.is_shadow_mbr_enabled = bit(4);
    tcg.is_shadow_mbr_done = bit(5);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{opal, protocols, tcg_answer as answer};

    #[test]
    fn locks_and_standards_are_read() {
        let tcg = level_0(&opal(0b00_1011)).unwrap();
        assert_eq!(tcg.standards, ["Opal 2"]);
        assert_eq!((tcg.is_locking_supported, tcg.is_locking_enabled), (Some(true), Some(true)));
        assert_eq!((tcg.is_locked, tcg.is_encrypting), (Some(false), Some(true)));
        assert_eq!(tcg.obstacle(), None);
        let all: Vec<(u16, &[u8])> = [0x0100, 0x0200, 0x0203, 0x0302, 0x0303, 0x0304, 0x0402]
            .into_iter()
            .map(|code| (code, &[0_u8; 4][..]))
            .collect();
        let all = level_0(&answer(&all)).unwrap();
        assert_eq!(
            all.standards,
            ["Enterprise", "Opal 1", "Opal 2", "Pyrite 1", "Pyrite 2", "Ruby"]
        );
        assert_eq!(all.is_locked, None, "without the feature nothing is known of locks");
    }

    #[test]
    fn locked_range_and_active_shadow_mbr_are_obstacles() {
        let obstacle = |flags: u8| level_0(&opal(flags)).unwrap().obstacle().unwrap_or_default();
        assert!(obstacle(0b00_0111).starts_with("locked by TCG Opal 2"));
        assert!(obstacle(0b01_0011).starts_with("hidden by TCG Opal 2"));
        assert_eq!(obstacle(0b11_0011), "", "the shadow is out of the way");
        assert_eq!(obstacle(0b00_0001), "");
    }

    #[test]
    fn damaged_answers_are_described_and_a_truncated_one_gives_its_features() {
        assert!(level_0(&[]).is_err() && level_0(&[0xff; 47]).is_err());
        assert!(level_0(&[0; 512]).is_err(), "zeros are no answer");
        let mut long = opal(0b111);
        long[..4].fill(0xff);
        assert_eq!(level_0(&long).unwrap().is_locked, Some(true));
        let cut = &opal(0b111)[..HEADER_BYTES + 16 + 5];
        assert!(level_0(cut).is_ok_and(|tcg| tcg.is_locked.is_none()));
    }

    #[test]
    fn protocol_is_searched_within_the_list_only() {
        assert!(is_listed(&protocols(&[0x00, 0x01, 0xef])));
        assert!(!is_listed(&protocols(&[0x00, 0xef])));
        let mut beyond_list = protocols(&[0x00]);
        beyond_list[9] = 0x01;
        assert!(!is_listed(&beyond_list) && !is_listed(&[]) && !is_listed(&[1; 8]));
    }
}
