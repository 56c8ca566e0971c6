//! The SMBIOS table (DSP0134 3.7): its structures, their strings, and what in them names the machine.
//!
//! smbios-lib splits the table into structures; it checks every length against the bytes and stops
//! at the first structure that does not fit. Around it: strings are kept as bytes because many
//! vendors' are not UTF-8 (the library gives an error for such a string and the text would be lost),
//! and its typed structures are not used, since they would drop `0x7fff` and the like into
//! enumerations.

mod secrets;

pub use secrets::fields;

use std::ops::Range;

use smbioslib::{UndefinedStruct, UndefinedStructTable};

use crate::text::escape_non_utf8;

/// `End of Table` (DSP0134, section 7.45); what follows is not a structure.
pub const END_OF_TABLE: u8 = 127;

/// The parsed table.
#[derive(Debug, Default)]
pub struct Smbios {
    /// Version as major and minor number; `None` without a readable entry point.
    pub version: Option<(u8, u8)>,
    /// Whether the table has its end, and nothing says that there are structures after it. Otherwise the
    /// structures are facts all the same, but how many there are, and sums over them, are unknown.
    pub is_complete: bool,
    /// The whole structures in table order.
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
pub struct Structure {
    inner: UndefinedStruct,
    /// Where it begins in the table.
    at: usize,
}

impl Structure {
    /// Its type, e.g. 17 for a memory device.
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.inner.header.struct_type()
    }

    /// Its handle, by which others refer to it.
    #[must_use]
    pub fn handle(&self) -> u16 {
        *self.inner.header.handle()
    }

    /// `len` bytes from `start` on; `None` if the structure is shorter.
    #[must_use]
    pub fn bytes(&self, start: usize, len: usize) -> Option<&[u8]> {
        self.inner.get_field_data(start, start.checked_add(len)?)
    }

    /// The byte at `offset`; `None` if the structure is shorter.
    #[must_use]
    pub fn byte(&self, offset: usize) -> Option<u8> {
        self.inner.get_field_byte(offset)
    }

    /// The 16-bit number at `offset`.
    #[must_use]
    pub fn word(&self, offset: usize) -> Option<u16> {
        self.inner.get_field_word(offset)
    }

    /// The 32-bit number at `offset`.
    #[must_use]
    pub fn dword(&self, offset: usize) -> Option<u32> {
        self.inner.get_field_dword(offset)
    }

    /// The 64-bit number at `offset`.
    #[must_use]
    pub fn qword(&self, offset: usize) -> Option<u64> {
        self.inner.get_field_qword(offset)
    }

    /// The string that the byte at `offset` numbers, without surrounding blanks. Placeholders stay.
    /// `None` if there is none or it is blank. Bytes that are not UTF-8 become `\xNN`.
    #[must_use]
    pub fn string(&self, offset: usize) -> Option<String> {
        let number = usize::from(self.byte(offset)?).checked_sub(1)?;
        clean(self.inner.strings.iter().nth(number)?)
    }

    /// All its strings, as [`Structure::string`] gives each.
    pub fn strings(&self) -> impl Iterator<Item = String> {
        self.inner.strings.iter().filter_map(|string| clean(string))
    }

    /// All its strings as bytes, with the place of each in the table.
    fn string_spans(&self) -> impl Iterator<Item = (Range<usize>, &[u8])> {
        let mut at = self.at + self.inner.fields.len();
        self.inner.strings.iter().map(move |string| {
            let span = at..at + string.len();
            at = span.end + 1;
            (span, string.as_slice())
        })
    }

    /// Where the next structure begins. Two zeros end this one: that after the last string, and one more.
    fn end(&self) -> usize {
        let n_string_bytes: usize = self.inner.strings.iter().map(|s| s.len() + 1).sum();
        self.at + self.inner.fields.len() + n_string_bytes.max(1) + 1
    }

    /// The place in the table of `len` bytes from `start` on; `None` if the structure is shorter.
    fn span(&self, start: usize, len: usize) -> Option<Range<usize>> {
        self.bytes(start, len).map(|_| self.at + start..self.at + start + len)
    }
}

fn clean(string: &[u8]) -> Option<String> {
    let text = escape_non_utf8(string);
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Parses a table, with its entry point if there is one.
#[must_use]
pub fn parse(entry: Option<&[u8]>, table: &[u8]) -> Smbios {
    let mut structures = structures(table);
    let expected = entry.and_then(n_structures).map(usize::from);
    let end = structures.iter().position(|structure| structure.kind() == END_OF_TABLE);
    let is_complete = match end {
        Some(end) => {
            let rest = structures.get(end).and_then(|structure| table.get(structure.end()..));
            // Firmware pads the table with zeros or ones. Anything else, or a larger number in the entry
            // point, means that a damaged structure only looks like the end.
            let is_padding = rest.unwrap_or_default().iter().all(|byte| matches!(byte, 0 | 0xff));
            is_padding && expected.is_none_or(|expected| expected <= end + 1)
        }
        // Old tables have no structure that ends them.
        None => expected == Some(structures.len()),
    };
    if let Some(end) = end {
        structures.truncate(end + 1);
    }
    Smbios { version: entry.and_then(entry_point_version), is_complete, structures }
}

/// The whole structures, those after the end of the table too: they may hold what an older table did.
fn structures(table: &[u8]) -> Vec<Structure> {
    let mut at = 0;
    let place = |inner: UndefinedStruct| {
        let structure = Structure { inner, at };
        at = structure.end();
        structure
    };
    UndefinedStructTable::from(table.to_vec()).into_iter().map(place).collect()
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

/// The number of structures that an entry point of SMBIOS 2.1 states.
fn n_structures(entry: &[u8]) -> Option<u16> {
    let bytes = entry.starts_with(b"_SM_").then(|| entry.get(0x1c..0x1e))??;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests;
