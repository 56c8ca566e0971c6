//! Facts in the SMBIOS table that no other section reports: `/sys/firmware/dmi/tables/{smbios_entry_point,DMI}`
//! (DSP0134; kernel `Documentation/ABI/testing/sysfs-firmware-dmi-tables`). Both need root.
//!
//! [`formats::smbios`] parses the table. Here its size is bounded, since every structure is
//! allocated, and a truncated table is a problem.

mod onboard;
mod parts;
mod power;
mod slots;

pub use onboard::OnboardDevice;
pub use parts::{FirmwareComponent, SmbiosTpm};
pub use power::{PowerSupply, power_supplies};
pub use slots::{Slot, slots};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use formats::data;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use formats::smbios::{Smbios, Structure, text, types};
use types::SMBiosStruct;

use crate::machine::Machine;
use crate::pci_address::Address;

const ENTRY: &str = "sys/firmware/dmi/tables/smbios_entry_point";
const TABLE: &str = "sys/firmware/dmi/tables/DMI";

/// Largest table that is parsed; a machine with 64 DIMMs has about 20 KiB.
const LIMIT_BYTES: usize = 1 << 20;

/// The facts of the table that no other section reports, and the raw table.
#[serde_with::skip_serializing_none]
#[serde_with::apply(Vec => #[serde(skip_serializing_if = "Vec::is_empty")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SmbiosTable {
    /// Version that the entry point names, e.g. `3.2`.
    pub version: Option<String>,
    /// Number of structures in the table, the end of the table included; `None` if it is cut.
    pub n_structures: Option<usize>,
    /// Slots for cards (type 9), in table order.
    pub slots: Vec<Slot>,
    /// Power supplies (type 39), in table order.
    pub power_supplies: Vec<PowerSupply>,
    /// Devices on the board (type 41, otherwise 10), in table order.
    pub onboard_devices: Vec<OnboardDevice>,
    /// Firmware of the machine's parts (type 45), in table order.
    pub firmware_components: Vec<FirmwareComponent>,
    /// The TPM (type 43).
    pub tpm: Option<SmbiosTpm>,
    /// Vendor-defined strings (type 11).
    pub oem_strings: Vec<String>,
    /// Result of the last start, e.g. `no errors detected` (type 32).
    pub boot_status: Option<String>,
    /// The table's bytes, in Base64 (RFC 4648).
    pub raw_base64: Option<String>,
}

/// The PCI address in the four bytes at `offset`: segment, bus, device and function. `None` where
/// all ones say that there is none. The library takes bus 255 alone for none, but a large Intel
/// machine has devices on it.
fn pci_address<'a>(structure: &impl SMBiosStruct<'a>, offset: usize) -> Option<String> {
    let bytes = structure.parts().get_field_data(offset, offset + 4)?;
    let &[low, high, bus, device] = bytes.first_chunk::<4>()?;
    let domain = u32::from(u16::from_le_bytes([low, high]));
    let is_none = domain == 0xffff || (bus == 0xff && device == 0xff);
    let address = Address { domain, bus, device: device >> 3, function: device & 7 };
    (!is_none).then(|| address.to_string())
}

/// The name of the code in the byte at `offset`, by a table of `formats/data/codes.txt`.
pub(crate) fn named<'a>(
    structure: &impl SMBiosStruct<'a>,
    offset: usize,
    table: &'static str,
) -> Option<String> {
    data::named(table, structure.parts().get_field_byte(offset)?)
}

/// Reads the raw table. `None` if the machine has none or it cannot be read.
pub fn table(machine: &Machine) -> Option<SmbiosTable> {
    let entry = machine.bytes(ENTRY);
    if entry.is_some() && machine.bytes(TABLE).is_some_and(|bytes| bytes.is_empty()) {
        machine.problem(TABLE, "an empty file", "the table that the entry point describes");
    }
    let bytes = table_bytes(machine)?;
    let smbios = formats::smbios::parse(entry.as_deref(), &bytes);
    if let (Some(entry), None) = (&entry, smbios.version) {
        let found = format!("{} bytes without such an anchor", entry.len());
        let expected = "an entry point that begins with _SM_ or _SM3_";
        machine.problem(ENTRY, found, expected);
    }
    if !smbios.is_complete {
        let has_end = smbios.first::<types::SMBiosEndOfTable>().is_some();
        let end = if has_end { "an end before others" } else { "no end" };
        let found = format!("{} whole structures and {end}", smbios.structures.len());
        machine.problem(TABLE, found, "a table that ends with type 127");
    }
    Some(SmbiosTable {
        version: smbios.version.map(|(major, minor)| format!("{major}.{minor}")),
        n_structures: Some(smbios.structures.len()).filter(|_| smbios.is_complete),
        slots: slots(&smbios),
        power_supplies: power_supplies(&smbios),
        onboard_devices: onboard::onboard_devices(&smbios),
        firmware_components: parts::firmware_components(&smbios),
        tpm: parts::tpm(&smbios),
        oem_strings: onboard::oem_strings(&smbios),
        boot_status: onboard::boot_status(&smbios),
        raw_base64: Some(STANDARD.encode(&bytes)),
    })
}

/// Reads and parses the table. `None` if the machine has none or it cannot be read. That a
/// table is damaged is a problem of [`table`] alone, so that it is said once.
pub fn read(machine: &Machine) -> Option<Smbios> {
    let bytes = table_bytes(machine)?;
    let entry = machine.bytes(ENTRY);
    Some(formats::smbios::parse(entry.as_deref(), &bytes))
}

fn table_bytes(machine: &Machine) -> Option<Vec<u8>> {
    let bytes = machine.bytes(TABLE).filter(|bytes| !bytes.is_empty())?;
    if bytes.len() > LIMIT_BYTES {
        let expected = format!("a table of at most {LIMIT_BYTES} bytes");
        machine.problem(TABLE, format!("{} bytes", bytes.len()), expected);
        return None;
    }
    Some(bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    pub(crate) use crate::testing::bytes::structure;

    /// The table of some structures, as SMBIOS 3.0.
    pub(crate) fn smbios(tables: &[Vec<u8>]) -> Smbios {
        let end = structure(formats::smbios::END_OF_TABLE, &[], &[]);
        formats::smbios::parse(Some(b"_SM3_\0\x18\x03\0\0"), &[tables.concat(), end].concat())
    }

    #[test]
    fn a_table_without_its_end_gives_its_whole_structures_and_no_count() {
        let slot = structure(9, &[1, 0xb6, 0x0d, 4, 3, 1, 0], &[b"PCIe Slot 1"]);
        let cut = [slot.as_slice(), &slot[..9]].concat();
        let machine =
            crate::testing::tree_of_bytes(&[("sys/firmware/dmi/tables/DMI", cut.as_slice())]);
        let found = super::table(&machine).unwrap();
        assert_eq!(found.slots.len(), 1);
        assert_eq!(found.slots[0].designation.as_deref(), Some("PCIe Slot 1"));
        assert_eq!(found.n_structures, None);
        let problems = machine.problems();
        assert!(
            problems.iter().any(|p| p.found == "1 whole structures and no end"),
            "{problems:?}"
        );
    }

    #[test]
    fn empty_table_with_an_entry_point_is_a_problem() {
        let entry = ("sys/firmware/dmi/tables/smbios_entry_point", &b"_SM3_"[..]);
        let empty = ("sys/firmware/dmi/tables/DMI", &b""[..]);
        let n_problems = |files: &[(&str, &[u8])]| {
            let machine = crate::testing::tree_of_bytes(files);
            assert_eq!(table(&machine), None);
            machine.problems().len()
        };
        assert_eq!((n_problems(&[entry, empty]), n_problems(&[empty])), (1, 0));
    }
}
