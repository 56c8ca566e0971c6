//! The Trusted Platform Module: `/sys/class/tpm/tpm0/` (`Documentation/ABI/stable/sysfs-class-tpm`).
//! A firmware table shows a TPM without a driver. Vendor and version of a TPM 2.0 come from the one
//! command of `sys/tpm.rs`, which needs root.

use formats::tpm;
pub use formats::tpm::Tpm;

use crate::machine::Machine;
use crate::sys::tpm::TPM_PROPERTIES;

const CLASS: &str = "sys/class/tpm";
const TABLES: &str = "sys/firmware/acpi/tables";

/// Reads the first TPM; `None` if neither kernel nor firmware shows one.
pub fn tpm(machine: &Machine) -> Option<Tpm> {
    let tables = machine.names(TABLES);
    let acpi_table = ["TPM2", "TCPA"].map(str::to_owned).into_iter().find(|t| tables.contains(t));
    let Some(name) = machine.list(CLASS).into_iter().find(|name| name.starts_with("tpm")) else {
        return acpi_table.map(|table| Tpm { acpi_table: Some(table), ..Tpm::default() });
    };
    let path = format!("{CLASS}/{name}");
    let text = |attribute: &str| machine.text(&format!("{path}/{attribute}"));
    // Up to Linux 4.0 only the parent had the attributes of a TPM 1.2.
    let caps = text("caps").or_else(|| text("device/caps"));
    let caps = caps.map(|caps| tpm::caps(&caps)).unwrap_or_default();
    let version = match text("tpm_version_major").as_deref() {
        Some("2") => Some("2.0".to_owned()),
        Some("1") => Some("1.2".to_owned()),
        _ => caps.version,
    };
    let fixed = if version.as_deref() == Some("2.0") { properties(machine) } else { None };
    let fixed = fixed.unwrap_or_default();
    let banks = machine.list(&path);
    let banks = banks.iter().filter_map(|name| name.strip_prefix("pcr-"));
    Some(Tpm {
        version,
        manufacturer: caps.manufacturer.or(fixed.manufacturer),
        firmware: caps.firmware.or(fixed.firmware),
        vendor_string: fixed.vendor_string,
        ppi_version: text("ppi/version"),
        description: text("device/description"),
        hardware_id: text("device/hid").or_else(|| text("device/firmware_node/hid")),
        driver: machine.link_name(&format!("{path}/device/driver")),
        pcr_banks: banks.map(str::to_owned).collect(),
        acpi_table,
        name: Some(name),
    })
}

fn properties(machine: &Machine) -> Option<Tpm> {
    let answer = machine.ask(&TPM_PROPERTIES)?;
    let found = tpm::properties(&answer);
    if found.is_none() {
        let start = &answer[..answer.len().min(16)];
        machine.problem("tpm/properties", formats::hex::hex(start), "properties of a TPM");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tree, tree_in};

    #[test]
    fn a_tpm_2_has_its_banks() {
        let machine = tree_in(&[
            ("sys/class/tpm/tpm0", &[("tpm_version_major", "2"), ("pcr-sha256/0", "00")]),
            ("sys/class/tpm/tpm0", &[("pcr-sha1/0", "00"), ("device/hid", "MSFT0101")]),
            ("sys/firmware/acpi/tables", &[("TPM2", "x")]),
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
        assert_eq!(tpm::caps("Manufacturer: 0xff\nTCG").manufacturer.as_deref(), Some("0xff"));
    }

    #[test]
    fn tpm_without_driver_is_known_from_the_firmware() {
        let found = tpm(&tree(&[("sys/firmware/acpi/tables/TPM2", "x")])).unwrap();
        assert_eq!((found.name, found.acpi_table.as_deref()), (None, Some("TPM2")));
        assert_eq!(tpm(&tree(&[("sys/firmware/acpi/tables/DSDT", "x")])), None);
    }
}
