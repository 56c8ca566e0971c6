//! Firmware and the TPM as the firmware lists them: SMBIOS types 45 and 43 (DSP0134 3.8, sections 7.46
//! and 7.44).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::types::{
    FirmwareImageSize, FirmwareInventoryCharacteristics as Flags,
    SMBiosFirmwareInventoryInformation, SMBiosTpmDevice,
};
use super::{Smbios, named, text};
use formats::text::padded;

/// A board has some dozens of chips with firmware.
const LIMIT: usize = 256;

/// A piece of firmware in the machine (type 45).
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FirmwareComponent {
    /// Name, e.g. `BMC Firmware` (offset 04h).
    pub name: Option<String>,
    /// Version as its maker writes it (05h).
    pub version: Option<String>,
    /// Its name for an updater, e.g. a GUID (07h).
    pub id: Option<String>,
    /// When it was released, as the maker writes it, by the specification ISO 8601 (09h).
    pub date: Option<String>,
    /// Maker (0Ah).
    pub manufacturer: Option<String>,
    /// Lowest version to which one may go back (0Bh).
    pub lowest_version: Option<String>,
    /// Size of its image (0Ch).
    pub size_bytes: Option<u64>,
    /// True if it may be updated (14h, bit 0).
    pub is_updatable: Option<bool>,
    /// True if it is write-protected (14h, bit 1).
    pub is_write_protected: Option<bool>,
    /// `disabled`, `enabled`, `absent`, `standby, offline`, `standby, spare` or `unavailable` (16h).
    pub state: Option<String>,
}

/// The TPM as the firmware names it (type 43), with or without a driver for it.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SmbiosTpm {
    /// The maker's four characters at the TCG, e.g. `IFX` (04h).
    pub vendor: Option<String>,
    /// Version of the TPM's specification, e.g. `2.0` (08h).
    pub spec_version: Option<String>,
    /// Version of its firmware; its two 32-bit halves in hexadecimal for a TPM 2.0, whose maker chooses
    /// their meaning (0Ah).
    pub firmware: Option<String>,
    /// Description (12h).
    pub description: Option<String>,
}

/// The firmware of the machine's parts, in table order.
pub(super) fn firmware_components(table: &Smbios) -> Vec<FirmwareComponent> {
    table.all().take(LIMIT).map(|entry| component(&entry)).collect()
}

fn component(entry: &SMBiosFirmwareInventoryInformation) -> FirmwareComponent {
    let flags = entry.characteristics();
    FirmwareComponent {
        name: text(&entry.firmware_component_name()),
        version: text(&entry.firmware_version()),
        id: text(&entry.firmware_id()),
        date: text(&entry.release_date()),
        manufacturer: text(&entry.manufacturer()),
        lowest_version: text(&entry.lowest_supported_firmware_version()),
        size_bytes: match entry.image_size() {
            Some(FirmwareImageSize::Bytes(bytes)) if bytes > 0 => Some(bytes),
            _ => None,
        },
        is_updatable: flags.as_ref().map(Flags::updatable),
        is_write_protected: flags.map(|flags| flags.write_protect()),
        state: named(entry, 0x16, "component"),
    }
}

/// The first TPM of the table.
pub(super) fn tpm(table: &Smbios) -> Option<SmbiosTpm> {
    let entry: SMBiosTpmDevice = table.first()?;
    let vendor = entry.vendor_id().map(|id| *id.array).unwrap_or_default();
    let vendor: String = vendor.into_iter().filter(|byte| *byte != 0).map(char::from).collect();
    let is_text = |text: &String| text.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    let version = entry.major_spec_version().zip(entry.minor_spec_version());
    let known = version.filter(|version| *version != (0, 0));
    let tpm = SmbiosTpm {
        vendor: Some(vendor).filter(is_text).and_then(|text| padded(text.as_bytes())),
        spec_version: known.map(|(major, minor)| format!("{major}.{minor}")),
        firmware: version.and_then(|(major, _)| firmware(&entry, major)),
        description: text(&entry.description()),
    };
    (tpm != SmbiosTpm::default()).then_some(tpm)
}

/// For a TPM 1.2 the third and fourth byte of `TPM_VERSION`, for a TPM 2.0 both halves as reported.
fn firmware(entry: &SMBiosTpmDevice, major: u8) -> Option<String> {
    let (high, low) = (entry.firmware_version_1()?, entry.firmware_version_2()?);
    match (major, high.to_le_bytes()) {
        (1, [_, _, major, minor]) if high != 0 => Some(format!("{major}.{minor}")),
        (2, _) if (high, low) != (0, 0) => Some(format!("{high:08x}.{low:08x}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smbios::tests::{smbios, structure};
    use crate::testing::has;
    use serde_json::json;

    #[test]
    fn a_piece_of_firmware_has_its_version_and_what_may_be_done_with_it() {
        let mut fields = vec![1, 2, 0, 3, 0, 4, 5, 0];
        fields.extend((32_u64 << 20).to_le_bytes());
        fields.extend([1, 0, 4, 0]);
        let strings: [&[u8]; 5] = [b"BMC", b"2.88", b"a-guid", b"2023-05-04", b"Acme"];
        let found = firmware_components(&smbios(&[structure(45, &fields, &strings)])).remove(0);
        has(&found, &json!({"name": "BMC", "version": "2.88", "date": "2023-05-04"}));
        has(&found, &json!({"manufacturer": "Acme", "lowest_version": null, "state": "enabled"}));
        has(
            &found,
            &json!({"size_bytes": 32 << 20, "is_updatable": true, "is_write_protected": false}),
        );
    }

    #[test]
    fn a_size_and_a_state_that_are_not_known_are_absent_at_every_length() {
        let mut fields = vec![0; 8];
        fields.extend([0xff; 8]);
        fields.extend([0, 0, 2, 0]);
        for length in 0..=fields.len() {
            let found =
                firmware_components(&smbios(&[structure(45, &fields[..length], &[])])).remove(0);
            assert_eq!((found.size_bytes, found.state), (None, None));
        }
    }

    #[test]
    fn a_tpm_has_its_maker_and_the_firmware_of_its_version() {
        let of = |version: [u8; 2], firmware: [u32; 2]| {
            let mut fields = b"IFX\0".to_vec();
            fields.extend(version);
            fields.extend(firmware.iter().flat_map(|half| half.to_le_bytes()));
            fields.push(1);
            tpm(&smbios(&[structure(43, &fields, &[b"TPM"])])).unwrap()
        };
        let two = of([2, 0], [0x0007_0055, 0x0011_cb00]);
        let expected =
            json!({"vendor": "IFX", "spec_version": "2.0", "firmware": "00070055.0011cb00"});
        has(&two, &expected);
        assert_eq!(of([1, 2], [0x0d04_0201, 0]).firmware.as_deref(), Some("4.13"));
        let unknown = of([0, 0], [0, 0]);
        assert_eq!((unknown.spec_version, unknown.firmware), (None, None));
        assert_eq!(tpm(&smbios(&[structure(43, &[0xff; 4], &[])])), None);
    }
}
