//! The Trusted Platform Module: `/sys/class/tpm/tpm0/` (`Documentation/ABI/stable/sysfs-class-tpm`).
//! A table of the firmware tells of one that has no driver. No command is sent to the TPM.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

const CLASS: &str = "sys/class/tpm";
const TABLES: &str = "sys/firmware/acpi/tables";

/// A Trusted Platform Module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Tpm {
    /// Kernel name, e.g. `tpm0`; `None` if no driver drives it and only the firmware tells of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `1.2` or `2.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Four letters of the TCG vendor list, e.g. `IFX`; only of a TPM 1.2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manufacturer: Option<String>,
    /// Version of its firmware; only of a TPM 1.2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// The firmware's description, e.g. `TPM 2.0 Device`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The firmware's name of the kind of device, e.g. `MSFT0101`, `STM0125`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware_id: Option<String>,
    /// The kernel driver, e.g. `tpm_tis`, `tpm_crb`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Hash algorithms of the banks of registers, e.g. `sha256`; of a TPM 2.0, since Linux 5.12.
    pub pcr_banks: Vec<String>,
    /// The firmware's table that tells of it: `TPM2` or `TCPA`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acpi_table: Option<String>,
}

/// Reads the first TPM; `None` if neither kernel nor firmware shows one.
#[must_use]
pub fn tpm(machine: &Machine) -> Option<Tpm> {
    let tables = machine.list(TABLES);
    let acpi_table = ["TPM2", "TCPA"].into_iter().find(|table| tables.iter().any(|t| t == table));
    let acpi_table = acpi_table.map(str::to_owned);
    let Some(name) = machine.list(CLASS).into_iter().find(|name| name.starts_with("tpm")) else {
        return acpi_table.map(|table| Tpm { acpi_table: Some(table), ..Tpm::default() });
    };
    let path = format!("{CLASS}/{name}");
    let text = |attribute: &str| machine.text(&format!("{path}/{attribute}"));
    // Up to Linux 4.0 the attributes of a TPM 1.2 stood at the parent only.
    let caps = text("caps").or_else(|| text("device/caps"));
    let caps = caps.map(|caps| parse_caps(&caps)).unwrap_or_default();
    let banks = machine.list(&path);
    let banks = banks.iter().filter_map(|name| name.strip_prefix("pcr-"));
    Some(Tpm {
        version: version(text("tpm_version_major").as_deref()).or(caps.version),
        manufacturer: caps.manufacturer,
        firmware: caps.firmware,
        description: text("device/description"),
        hardware_id: text("device/hid").or_else(|| text("device/firmware_node/hid")),
        driver: machine.link_name(&format!("{path}/device/driver")),
        pcr_banks: banks.map(str::to_owned).collect(),
        acpi_table,
        name: Some(name),
    })
}

fn version(major: Option<&str>) -> Option<String> {
    match major? {
        "2" => Some("2.0".to_owned()),
        "1" => Some("1.2".to_owned()),
        _ => None,
    }
}

/// `Manufacturer: 0x49465800`, `TCG version: 1.2`, `Firmware version: 3.19`.
fn parse_caps(text: &str) -> Tpm {
    let value = |key: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(key))?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    };
    Tpm {
        manufacturer: value("Manufacturer:").map(|id| manufacturer(&id).unwrap_or(id)),
        version: value("TCG version:"),
        firmware: value("Firmware version:"),
        ..Tpm::default()
    }
}

/// The number is up to four letters, filled up with NUL or blanks.
fn manufacturer(id: &str) -> Option<String> {
    let number = u32::from_str_radix(id.strip_prefix("0x")?, 16).ok()?;
    let text = String::from_utf8(number.to_be_bytes().to_vec()).ok()?;
    let text = text.trim_end_matches(['\0', ' ']);
    let is_word = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_word.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn a_tpm_2_has_its_banks() {
        let machine = tree(&[
            ("sys/class/tpm/tpm0/tpm_version_major", "2\n"),
            ("sys/class/tpm/tpm0/pcr-sha256/0", "00\n"),
            ("sys/class/tpm/tpm0/pcr-sha1/0", "00\n"),
            ("sys/class/tpm/tpm0/device/hid", "MSFT0101\n"),
            ("sys/firmware/acpi/tables/TPM2", "x"),
        ]);
        let tpm = tpm(&machine).unwrap();
        assert_eq!(tpm.version.as_deref(), Some("2.0"));
        assert_eq!(tpm.pcr_banks, ["sha1", "sha256"]);
        assert_eq!(tpm.hardware_id.as_deref(), Some("MSFT0101"));
    }

    #[test]
    fn a_tpm_1_2_says_who_made_it() {
        let caps = "Manufacturer: 0x49465800\nTCG version: 1.2\nFirmware version: 3.19\n";
        let found = tpm(&tree(&[("sys/class/tpm/tpm0/device/caps", caps)])).unwrap();
        assert_eq!(found.manufacturer.as_deref(), Some("IFX"));
        assert_eq!(found.version.as_deref(), Some("1.2"));
        assert_eq!(parse_caps("Manufacturer: 0xff\nTCG").manufacturer.as_deref(), Some("0xff"));
    }

    #[test]
    fn a_tpm_without_driver_is_known_from_the_firmware_and_none_is_none() {
        let found = tpm(&tree(&[("sys/firmware/acpi/tables/TPM2", "x")])).unwrap();
        assert_eq!((found.name, found.acpi_table.as_deref()), (None, Some("TPM2")));
        assert_eq!(tpm(&tree(&[("sys/firmware/acpi/tables/DSDT", "x")])), None);
    }
}
