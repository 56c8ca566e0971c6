//! Data that an ATA disk reports about itself: IDENTIFY DEVICE (ACS-4 §7.13), which the kernel keeps in VPD page 89h
//! (`device/vpd_pg89`, SAT-4 §12.4.2, since Linux 5.5). No command is sent to the disk.
//!
//! It contains model, serial number and firmware in full; the kernel's own attributes truncate them.

use crate::bytes::le16;
use crate::hex::hex;
use crate::text::padded;

/// Offset of the 512 bytes in the page.
const OFFSET: usize = 60;

/// The words of IDENTIFY DEVICE.
#[derive(Debug, Clone, Copy)]
pub struct Identify<'a>(&'a [u8]);

impl<'a> Identify<'a> {
    /// Extracts the words from VPD page 89h.
    pub fn of_page(page: &'a [u8]) -> Option<Identify<'a>> {
        let words = page.get(OFFSET..OFFSET + 512)?;
        let is_ata = page[1] == 0x89 && le16(words, 0) >> 15 == 0;
        (is_ata && words.iter().any(|byte| *byte != 0)).then_some(Identify(words))
    }

    /// The word `index`.
    pub fn word(self, index: usize) -> u16 {
        le16(self.0, 2 * index)
    }

    /// The word `index`, unless it is unused: all zeros or all ones.
    pub fn known_word(self, index: usize) -> Option<u16> {
        Some(self.word(index)).filter(|word| !matches!(*word, 0 | u16::MAX))
    }

    /// True if SMART is supported and on: bit 0 of words 82 and 85.
    pub fn has_smart(self) -> bool {
        let is_on = |index: usize| self.known_word(index).is_some_and(|word| word & 1 == 1);
        is_on(82) && is_on(85)
    }

    /// True if it is a solid state drive that keeps logs: word 217, and bit 5 of word 84, whose bits 15:14 mark it as
    /// valid.
    pub fn has_wear_log(self) -> bool {
        self.word(217) == 1 && self.word(84) & 0xc020 == 0x4020
    }

    /// Bit 0 of word 48, whose bits 15:14 mark it as valid.
    pub fn has_trusted_commands(self) -> Option<bool> {
        self.known_word(48).filter(|word| word >> 14 == 0b01).map(|word| word & 1 == 1)
    }

    /// True if it is a serial ATA disk: the transport in bits 15:12 of word 222, otherwise capabilities in word 76 that
    /// only such a disk has; `None` if it reports neither.
    pub fn is_serial_ata(self) -> Option<bool> {
        match self.known_word(222).map(|word| word >> 12) {
            Some(0) => Some(false),
            Some(1) => Some(true),
            _ => self.known_word(76).map(|_| true),
        }
    }

    /// The serial number; `None` if it is blank.
    pub fn serial(self) -> Option<String> {
        self.text(10, 20)
    }

    /// The firmware revision; `None` if it is blank.
    pub fn firmware(self) -> Option<String> {
        self.text(23, 27)
    }

    /// The model; `None` if it is blank.
    pub fn model(self) -> Option<String> {
        self.text(27, 47)
    }

    /// Words 108 to 111, if word 87 marks them as present.
    pub fn wwn(self) -> Option<String> {
        let has_wwn = self.word(87) & 0xc100 == 0x4100;
        let bytes: Vec<u8> = (108..112).flat_map(|index| self.word(index).to_be_bytes()).collect();
        has_wwn.then(|| format!("0x{}", hex(&bytes)))
    }

    /// Text has the first of two characters in the upper byte of a word.
    fn text(self, from: usize, to: usize) -> Option<String> {
        let bytes: Vec<u8> = (from..to).flat_map(|index| self.word(index).to_be_bytes()).collect();
        padded(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::identify_page as page;

    #[test]
    fn texts_are_whole_and_in_the_right_order() {
        let page = page(
            &[(87, 0x4100), (108, 0x5002), (109, 0x538c), (110, 0x1234), (111, 0x5678)],
            &[(10, "S3Z8NB0K123456A "), (23, "RVT02B6Q"), (27, "Samsung SSD 860 EVO 1TB   ")],
        );
        let identify = Identify::of_page(&page).unwrap();
        assert_eq!(identify.serial().as_deref(), Some("S3Z8NB0K123456A"));
        assert_eq!(identify.firmware().as_deref(), Some("RVT02B6Q"));
        assert_eq!(identify.model().as_deref(), Some("Samsung SSD 860 EVO 1TB"));
        assert_eq!(identify.wwn().as_deref(), Some("0x5002538c12345678"));
    }

    #[test]
    fn truncated_blank_and_packet_device_data_are_ignored() {
        let whole = page(&[(0, 0x40)], &[]);
        assert!(Identify::of_page(&whole).is_some());
        assert!(Identify::of_page(&whole[..571]).is_none());
        assert!(Identify::of_page(&page(&[], &[])).is_none());
        assert!(Identify::of_page(&page(&[(0, 0x8580)], &[])).is_none());
        assert!(Identify::of_page(&[]).is_none());
        let identify = Identify::of_page(&whole).unwrap();
        assert_eq!(
            (identify.serial(), identify.wwn(), identify.known_word(217)),
            (None, None, None)
        );
    }
}
