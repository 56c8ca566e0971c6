//! Ways to erase and lock a disk: IDENTIFY DEVICE of ATA (ACS-4 §7.13.6: words 48, 59 and 128), Identify Controller of
//! NVMe (Base Specification 2.0, figure 275: OACS and SANICAP).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ata_identify::Identify;
use crate::bytes::{le16, le32};

/// The means of a disk to erase and lock itself.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiskSecurity {
    /// Methods by which it can sanitize itself: `crypto erase`, `block erase`, `overwrite`. Empty if it
    /// reports none; `None` if it does not fill the word that reports them.
    pub sanitize: Option<Vec<String>>,
    /// True if it supports the commands of TCG storage (Opal, Pyrite, Enterprise); its answers to them
    /// are in the disk's `tcg`.
    pub has_trusted_commands: Option<bool>,
    /// True if an ATA password blocked reads and writes when the kernel detected the disk.
    pub is_locked: Option<bool>,
    /// True if an ATA password is set.
    pub has_password: Option<bool>,
    /// True if the firmware has frozen the password commands until the next power cycle.
    pub is_frozen: Option<bool>,
}

/// From the words of an ATA disk.
pub fn of_ata(identify: Identify<'_>) -> DiskSecurity {
    // Bit 12 says that there is any method. Disks older than this use of the word have zeros there.
    let sanitize = Some(identify.word(59)).filter(|word| *word != u16::MAX);
    let sanitize = sanitize.map(|word| if word & 1 << 12 == 0 { 0 } else { word });
    let password = identify.known_word(128).filter(|word| word & 1 != 0);
    let bit = |index: u16| password.map(|word| word >> index & 1 == 1);
    DiskSecurity {
        sanitize: sanitize.map(|word| methods(word.into(), [13, 15, 14])),
        has_trusted_commands: identify.has_trusted_commands(),
        has_password: bit(1),
        is_locked: bit(2),
        is_frozen: bit(3),
    }
}

/// From the 4096 bytes of an NVMe controller.
pub fn of_nvme(page: &[u8]) -> Option<DiskSecurity> {
    let page = page.get(..4096)?;
    Some(DiskSecurity {
        sanitize: Some(methods(le32(page, 328), [0, 1, 2])),
        has_trusted_commands: Some(le16(page, 256) & 1 == 1),
        ..DiskSecurity::default()
    })
}

/// The ways to erase a disk, each with a bit.
fn methods(capabilities: u32, bits: [u32; 3]) -> Vec<String> {
    let methods = ["crypto erase", "block erase", "overwrite"].into_iter().zip(bits);
    let found = methods.filter(|(_, bit)| capabilities >> bit & 1 == 1);
    found.map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::identify_page as page;

    #[test]
    fn lock_and_erase_methods_of_an_ata_disk_are_read() {
        let page = page(&[(48, 0x4001), (59, 0xb000), (128, 0x000f)], &[]);
        let security = of_ata(Identify::of_page(&page).unwrap());
        assert_eq!(security.sanitize.unwrap(), ["crypto erase", "block erase"]);
        assert_eq!(security.has_trusted_commands, Some(true));
        assert_eq!((security.is_locked, security.has_password), (Some(true), Some(true)));
        assert_eq!(security.is_frozen, Some(true));
    }

    #[test]
    fn words_marked_invalid_are_ignored() {
        let words = page(&[(48, 0x0001), (59, 0xffff), (128, 0x0004)], &[]);
        let security = of_ata(Identify::of_page(&words).unwrap());
        assert_eq!(security, DiskSecurity::default());
        let words = page(&[(0, 0x40), (59, 0xa000)], &[]);
        let security = of_ata(Identify::of_page(&words).unwrap());
        assert_eq!(security.sanitize, Some(Vec::new()), "it says that it has none");
        let mut identify = vec![0; 4096];
        (identify[256], identify[328]) = (1, 0b110);
        let security = of_nvme(&identify).unwrap();
        assert_eq!(security.sanitize.unwrap(), ["block erase", "overwrite"]);
        assert_eq!(of_nvme(&identify[..100]), None);
    }
}
