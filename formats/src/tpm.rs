//! Answers of a Trusted Platform Module (TPM 2.0 Library part 2), and the attribute `caps` of a TPM 1.2.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bytes::array;
use crate::text::escape_non_utf8;

/// A Trusted Platform Module.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Tpm {
    /// Kernel name, e.g. `tpm0`; `None` if it has no driver and only the firmware describes it.
    pub name: Option<String>,
    /// `1.2` or `2.0`.
    pub version: Option<String>,
    /// Up to four letters of the TCG vendor list, e.g. `IFX`, `STM`.
    pub manufacturer: Option<String>,
    /// Version of its firmware, e.g. `3.19`; for a TPM 2.0 the 16-bit halves of its two numbers, e.g.
    /// `7.85.17.51968`.
    pub firmware: Option<String>,
    /// Vendor's name of the model, e.g. `SLB9670` (TPM 2.0 only).
    pub vendor_string: Option<String>,
    /// Version of the interface for requests to the firmware to clear or enable it.
    pub ppi_version: Option<String>,
    /// The firmware's description, e.g. `TPM 2.0 Device`.
    pub description: Option<String>,
    /// The firmware's hardware id, e.g. `MSFT0101`, `STM0125`.
    pub hardware_id: Option<String>,
    /// The kernel driver, e.g. `tpm_tis`, `tpm_crb`.
    pub driver: Option<String>,
    /// Hash algorithms of the allocated PCR banks, e.g. `sha256` (TPM 2.0 only, since Linux 5.12).
    pub pcr_banks: Vec<String>,
    /// The firmware's table that describes it: `TPM2` or `TCPA`.
    pub acpi_table: Option<String>,
}

/// Parses the answer to `TPM2_GetCapability` for the fixed properties: tag, size, response code, more-data flag, capability,
/// count, then pairs of a property and its value, all big-endian (TPM 2.0 Library part 2, sections 6.13 and 10.8).
/// `None` if the TPM refused the command.
pub fn properties(answer: &[u8]) -> Option<Tpm> {
    let number = |offset: usize| array(answer, offset).map(u32::from_be_bytes);
    let (code, kind, n_pairs) = (number(6)?, number(11)?, number(15)?);
    (code == 0 && kind == 6).then_some(())?;
    let pairs = (0..n_pairs.min(64) as usize).map_while(|index| {
        let offset = 19 + 8 * index;
        Some((number(offset)?, number(offset + 4)?))
    });
    let (mut tpm, mut vendor, mut version) = (Tpm::default(), Vec::new(), [None; 2]);
    for (property, value) in pairs {
        match property {
            0x105 => tpm.manufacturer = letters(value),
            0x106..=0x109 => vendor.extend(value.to_be_bytes()),
            0x10b => version[0] = Some(value),
            0x10c => version[1] = Some(value),
            _ => {}
        }
    }
    let vendor = escape_non_utf8(&vendor).replace('\0', "");
    tpm.vendor_string = Some(vendor.trim().to_owned()).filter(|text| !text.is_empty());
    let halves = |value: u32| format!("{}.{}", value >> 16, value & 0xffff);
    let version: Vec<String> = version.into_iter().map_while(|value| value.map(halves)).collect();
    tpm.firmware = (!version.is_empty()).then(|| version.join("."));
    Some(tpm)
}

/// Parses the attribute `caps` of a TPM 1.2: `Manufacturer: 0x49465800`, `TCG version: 1.2`, `Firmware version: 3.19`.
pub fn caps(text: &str) -> Tpm {
    let value = |key: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(key))?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    };
    let number = |id: &String| u32::from_str_radix(id.strip_prefix("0x")?, 16).ok();
    Tpm {
        manufacturer: value("Manufacturer:").map(|id| number(&id).and_then(letters).unwrap_or(id)),
        version: value("TCG version:"),
        firmware: value("Firmware version:"),
        ..Tpm::default()
    }
}

/// A number that consists of up to four letters, padded with NUL or blanks.
fn letters(number: u32) -> Option<String> {
    let text = String::from_utf8(number.to_be_bytes().to_vec()).ok()?;
    let text = text.trim_end_matches(['\0', ' ']);
    let is_word = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_word.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tpm_2_says_who_made_it_and_damaged_answers_say_nothing() {
        let mut answer = vec![0x80, 1, 0, 0, 0, 83, 0, 0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 0, 8];
        let values = [
            *b"IFX\0",
            *b"SLB9",
            *b"670\0",
            [0; 4],
            [0; 4],
            [0; 4],
            [0, 7, 0, 0x55],
            [0, 0x11, 0xcb, 0],
        ];
        for (property, value) in (0x105_u32..).zip(values) {
            answer.extend(property.to_be_bytes());
            answer.extend(value);
        }
        let found = properties(&answer).unwrap();
        assert_eq!(found.manufacturer.as_deref(), Some("IFX"));
        assert_eq!(found.vendor_string.as_deref(), Some("SLB9670"));
        assert_eq!(found.firmware.as_deref(), Some("7.85.17.51968"));
        crate::testing::survives_any_bytes(&answer, |bytes| {
            drop(properties(bytes));
        });
        let refused = [0x80, 1, 0, 0, 0, 10, 0, 0, 1, 1];
        assert_eq!(properties(&refused), None);
    }
}
