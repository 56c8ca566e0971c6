//! The SMBIOS table: `/sys/firmware/dmi/tables/{smbios_entry_point,DMI}` (DSP0134; kernel
//! `Documentation/ABI/testing/sysfs-firmware-dmi-tables`). Both need root.
//!
//! smbios-lib splits the table into structures; it checks every length against the bytes and stops
//! at the first structure that does not fit. Around it: the table's size is bounded (it allocates
//! per structure), a cut table is a problem, strings are taken as bytes because many vendors' are
//! not UTF-8 (the library gives an error for such a string and the text would be lost), and its
//! typed structures are not used, since they would drop `0x7fff` and the like into enumerations.

mod onboard;
mod parts;
mod power;
mod slots;

pub use onboard::OnboardDevice;
pub use parts::{FirmwareComponent, SmbiosTpm};
pub use power::{PowerSupply, power_supplies};
pub use slots::{Slot, slots};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smbioslib::{UndefinedStruct, UndefinedStructTable};

use crate::machine::{Machine, escape_non_utf8};
use crate::pci::Address;

const TABLES: &str = "sys/firmware/dmi/tables";

/// Largest table that is taken apart; that of a machine with 64 DIMMs has about 20 KiB.
const LIMIT_BYTES: usize = 1 << 20;
/// `End of Table` (DSP0134, section 7.45); what follows is no structure.
const END_OF_TABLE: u8 = 127;

/// The raw table, for those who know more of it, and what no other section tells of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SmbiosTable {
    /// Version that the entry point names, e.g. `3.2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How many structures the table holds, the end of the table included; `None` if it is cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_structures: Option<usize>,
    /// Slots for cards (type 9), in table order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<Slot>,
    /// Power supplies (type 39), in table order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub power_supplies: Vec<PowerSupply>,
    /// Devices on the board (type 41, else 10), in table order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub onboard_devices: Vec<OnboardDevice>,
    /// Firmware of the machine's parts (type 45), in table order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub firmware_components: Vec<FirmwareComponent>,
    /// The TPM (type 43).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpm: Option<SmbiosTpm>,
    /// The maker's own strings (type 11).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub oem_strings: Vec<String>,
    /// How the last start went, e.g. `no errors detected` (type 32).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_status: Option<String>,
    /// The table's bytes, in Base64 (RFC 4648).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_base64: Option<String>,
}

/// The table taken apart.
#[derive(Debug, Default)]
pub struct Smbios {
    /// Version as major and minor number; `None` without a readable entry point.
    pub version: Option<(u8, u8)>,
    /// Whether the table ends as it should; of a table that is cut nothing can be counted.
    pub is_complete: bool,
    /// The structures in table order.
    pub structures: Vec<Structure>,
}

impl Smbios {
    /// The structures of the type `kind`, in table order.
    pub fn of_kind(&self, kind: u8) -> impl Iterator<Item = &Structure> {
        self.structures.iter().filter(move |structure| structure.kind() == kind)
    }

    /// The structure with the handle `handle`.
    #[must_use]
    pub fn by_handle(&self, handle: u16) -> Option<&Structure> {
        self.structures.iter().find(|structure| structure.handle() == handle)
    }
}

/// One structure of the table.
#[derive(Debug)]
pub struct Structure(UndefinedStruct);

impl Structure {
    /// Its type, e.g. 17 for a memory device.
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.0.header.struct_type()
    }

    /// Its handle, by which others refer to it.
    #[must_use]
    pub fn handle(&self) -> u16 {
        *self.0.header.handle()
    }

    /// The bytes from `start` on, of which there are `len`; `None` if the structure is shorter.
    #[must_use]
    pub fn bytes(&self, start: usize, len: usize) -> Option<&[u8]> {
        self.0.get_field_data(start, start.checked_add(len)?)
    }

    /// The byte at `offset`; `None` if the structure is shorter.
    #[must_use]
    pub fn byte(&self, offset: usize) -> Option<u8> {
        self.0.get_field_byte(offset)
    }

    /// The 16-bit number at `offset`.
    #[must_use]
    pub fn word(&self, offset: usize) -> Option<u16> {
        self.0.get_field_word(offset)
    }

    /// The 32-bit number at `offset`.
    #[must_use]
    pub fn dword(&self, offset: usize) -> Option<u32> {
        self.0.get_field_dword(offset)
    }

    /// The 64-bit number at `offset`.
    #[must_use]
    pub fn qword(&self, offset: usize) -> Option<u64> {
        self.0.get_field_qword(offset)
    }

    /// The string that the byte at `offset` numbers, without blanks around it. Placeholders stay.
    /// `None` if there is none or it is blank. Bytes that are not UTF-8 become `\xNN`.
    #[must_use]
    pub fn string(&self, offset: usize) -> Option<String> {
        let number = usize::from(self.byte(offset)?).checked_sub(1)?;
        clean(self.0.strings.iter().nth(number)?)
    }

    /// All its strings, as [`Structure::string`] gives each.
    pub fn strings(&self) -> impl Iterator<Item = String> {
        self.0.strings.iter().filter_map(|string| clean(string))
    }
}

fn clean(string: &[u8]) -> Option<String> {
    let text = escape_non_utf8(string);
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The PCI address in the four bytes at `offset`: segment, bus, device and function. `None` where
/// all ones say that there is none.
fn pci_address(structure: &Structure, offset: usize) -> Option<String> {
    let &[low, high, bus, device] = structure.bytes(offset, 4)?.first_chunk::<4>()?;
    let domain = u32::from(u16::from_le_bytes([low, high]));
    let is_none = domain == 0xffff || (bus == 0xff && device == 0xff);
    let address = Address { domain, bus, device: device >> 3, function: device & 7 };
    (!is_none).then(|| address.to_string())
}

/// Reads the raw table. `None` if the machine has none or it cannot be read.
#[must_use]
pub fn table(machine: &Machine) -> Option<SmbiosTable> {
    let bytes = table_bytes(machine)?;
    let entry = machine.bytes(&format!("{TABLES}/smbios_entry_point"));
    let smbios = parse(entry.as_deref(), &bytes);
    if let (Some(entry), None) = (&entry, smbios.version) {
        let found = format!("{} bytes without such an anchor", entry.len());
        let expected = "an entry point that begins with _SM_ or _SM3_";
        machine.problem(&format!("{TABLES}/smbios_entry_point"), found, expected);
    }
    if !smbios.is_complete {
        let found = format!("{} whole structures and no end", smbios.structures.len());
        machine.problem(&format!("{TABLES}/DMI"), found, "a table that ends with type 127");
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
        raw_base64: Some(base64(&bytes)),
    })
}

/// Reads the table and takes it apart. `None` if the machine has none or it cannot be read. That a
/// table is damaged is a problem of [`table`] alone, so that it is said once.
#[must_use]
pub fn read(machine: &Machine) -> Option<Smbios> {
    let bytes = table_bytes(machine)?;
    let entry = machine.bytes(&format!("{TABLES}/smbios_entry_point"));
    Some(parse(entry.as_deref(), &bytes))
}

fn table_bytes(machine: &Machine) -> Option<Vec<u8>> {
    let path = format!("{TABLES}/DMI");
    let bytes = machine.bytes(&path).filter(|bytes| !bytes.is_empty())?;
    if bytes.len() > LIMIT_BYTES {
        let expected = format!("a table of at most {LIMIT_BYTES} bytes");
        machine.problem(&path, format!("{} bytes", bytes.len()), expected);
        return None;
    }
    Some(bytes)
}

fn parse(entry: Option<&[u8]>, bytes: &[u8]) -> Smbios {
    let structures = structures(bytes);
    let has_end = structures.last().map(Structure::kind) == Some(END_OF_TABLE);
    let expected = entry.and_then(n_structures).map(usize::from);
    Smbios {
        version: entry.and_then(entry_point_version),
        is_complete: has_end || expected == Some(structures.len()),
        structures,
    }
}

/// The structures up to the end of the table; one that is cut is left out.
fn structures(bytes: &[u8]) -> Vec<Structure> {
    let mut structures = Vec::new();
    for structure in UndefinedStructTable::from(bytes.to_vec()) {
        let is_end = structure.header.struct_type() == END_OF_TABLE;
        structures.push(Structure(structure));
        if is_end {
            break;
        }
    }
    structures
}

/// The version in an entry point of SMBIOS 2.1 (`_SM_`) or 3.0 (`_SM3_`), or of the older `_DMI_`
/// alone (DSP0134, section 5.2). 2.31 and 2.33 were written for 2.3, and 2.51 for 2.6, as in the
/// kernel's `drivers/firmware/dmi_scan.c`.
fn entry_point_version(entry: &[u8]) -> Option<(u8, u8)> {
    let at = |offset: usize| entry.get(offset).copied();
    let (major, minor) = if entry.starts_with(b"_SM3_") {
        (at(0x07)?, at(0x08)?)
    } else if entry.starts_with(b"_SM_") {
        (at(0x06)?, at(0x07)?)
    } else if entry.starts_with(b"_DMI_") {
        (at(0x0e)? >> 4, at(0x0e)? & 0x0f)
    } else {
        return None;
    };
    match (major, minor) {
        (2, 31 | 33) => Some((2, 3)),
        (2, 51) => Some((2, 6)),
        version => Some(version),
    }
}

/// The number of structures that an entry point of SMBIOS 2.1 names; old tables have no structure
/// that ends them.
fn n_structures(entry: &[u8]) -> Option<u16> {
    let bytes = entry.starts_with(b"_SM_").then(|| entry.get(0x1c..0x1e))??;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

/// Base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or_default());
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) & 0x3f;
            let is_padding = digit > chunk.len();
            text.push(if is_padding { '=' } else { char::from(ALPHABET[index as usize]) });
        }
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The table of some structures, as SMBIOS 3.0.
    pub(crate) fn smbios(tables: &[Vec<u8>]) -> Smbios {
        let end = structure(END_OF_TABLE, &[], &[]);
        parse(Some(b"_SM3_\0\x18\x03\0\0"), &[tables.concat(), end].concat())
    }

    /// A structure of the type `kind` with `fields` behind its header, and its strings.
    pub(crate) fn structure(kind: u8, fields: &[u8], strings: &[&[u8]]) -> Vec<u8> {
        let length = u8::try_from(fields.len() + 4).unwrap();
        let mut bytes = vec![kind, length, 7, 0];
        bytes.extend(fields);
        for string in strings {
            bytes.extend(*string);
            bytes.push(0);
        }
        bytes.extend(if strings.is_empty() { vec![0, 0] } else { vec![0] });
        bytes
    }

    #[test]
    fn fields_and_strings_are_read_and_what_is_not_there_is_none() {
        let mut table = structure(1, &[1, 2, 3, 9], &[b"Acme ", b"  ", b"M\xfcller"]);
        table.extend(structure(127, &[], &[]));
        table.extend(structure(1, &[], &[]));
        let structures = structures(&table);
        assert_eq!(structures.len(), 2, "what follows the end is no structure");
        let first = &structures[0];
        assert_eq!((first.kind(), first.handle(), first.byte(4)), (1, 7, Some(1)));
        assert_eq!(first.string(4).as_deref(), Some("Acme"));
        assert_eq!((first.string(5), first.string(7), first.string(99)), (None, None, None));
        assert_eq!(first.string(6).as_deref(), Some("M\\xfcller"));
        assert_eq!((first.word(7), first.qword(4), first.bytes(4, 9)), (None, None, None));
    }

    #[test]
    fn no_cut_and_no_flipped_byte_of_a_table_makes_a_panic() {
        let mut table = structure(17, &[1; 80], &[b"DIMM A1", b"Bank 0", b"\xff\xfe"]);
        table.extend(structure(1, &[1; 23], &[b"a"]));
        table.extend(structure(127, &[], &[]));
        let touch = |bytes: &[u8]| {
            for structure in structures(bytes) {
                for offset in 0..300 {
                    let _ = (structure.byte(offset), structure.word(offset));
                    let _ = (structure.dword(offset), structure.qword(offset));
                    let _ = (structure.string(offset), structure.bytes(offset, usize::MAX));
                }
                let _ = format!("{structure:?}");
            }
        };
        for length in 0..table.len() {
            touch(&table[..length]);
        }
        for index in 0..table.len() {
            for value in [0, 1, 3, 4, 5, 127, 128, 254, 255] {
                let mut bytes = table.clone();
                bytes[index] = value;
                touch(&bytes);
            }
        }
        // Bytes of a simple generator, so that a failure can be repeated.
        let mut state = 1_u32;
        for length in (0..2000).step_by(7) {
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state.to_le_bytes()[3] & 0x87
            };
            let bytes: Vec<u8> = (0..length).map(|_| next()).collect();
            touch(&bytes);
        }
    }

    #[test]
    fn the_version_is_read_from_each_kind_of_entry_point() {
        assert_eq!(entry_point_version(b"_SM_\0\x1f\x02\x08"), Some((2, 8)));
        assert_eq!(entry_point_version(b"_SM_\0\x1f\x02\x1f"), Some((2, 3)));
        assert_eq!(entry_point_version(b"_SM3_\0\x18\x03\x02\0"), Some((3, 2)));
        assert_eq!(entry_point_version(b"_SM3_"), None);
        assert_eq!(entry_point_version(b"nothing"), None);
    }

    #[test]
    fn a_table_that_is_cut_is_known_to_be_and_has_no_number_of_structures() {
        let table = structure(1, &[0; 23], &[b"a"]);
        assert!(!parse(None, &table).is_complete);
        let mut entry = b"_SM_\0\x1f\x02\x01".to_vec();
        entry.resize(0x1f, 0);
        entry[0x1c] = 1;
        assert!(parse(Some(&entry), &table).is_complete, "the entry point names one structure");
        assert!(!parse(Some(&entry), &table[..20]).is_complete);
    }

    #[test]
    fn base64_is_padded() {
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"f"), "Zg==");
        assert_eq!(base64(b"fo"), "Zm8=");
        assert_eq!(base64(b"foobar"), "Zm9vYmFy");
    }
}
