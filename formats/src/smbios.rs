//! The SMBIOS table (DSP0134 3.7): its structures, their strings, and the values in them that name the machine.
//!
//! smbios-lib splits the table into structures, checks every length against the bytes, stops at the
//! first structure that does not fit, and names the fields of each type: [`types`]. Here are whether
//! the table is complete, which the library does not say, and where each string lies, for `secrets`.

mod secrets;

pub use secrets::fields;

use std::ops::Range;

pub use smbioslib as types;
use smbioslib::{
    SMBiosString, SMBiosStringError, SMBiosStruct, UndefinedStruct, UndefinedStructTable,
};

use crate::text::padded;

/// `End of Table` (DSP0134, section 7.45); the bytes after it are not a structure.
pub const END_OF_TABLE: u8 = 127;

/// The parsed table.
#[derive(Debug, Default)]
pub struct Smbios {
    /// Version as major and minor number; `None` without a readable entry point.
    pub version: Option<(u8, u8)>,
    /// True if the table has its end, and nothing announces structures after it. Otherwise the structures are facts all
    /// the same, but their number, and sums over them, are unknown.
    pub is_complete: bool,
    /// The whole structures in table order.
    pub structures: Vec<Structure>,
}

impl Smbios {
    /// The structures of the type `T`, in table order.
    pub fn all<'a, T: SMBiosStruct<'a>>(&'a self) -> impl Iterator<Item = T> {
        self.structures.iter().filter_map(Structure::as_type)
    }

    /// The first structure of the type `T`.
    pub fn first<'a, T: SMBiosStruct<'a>>(&'a self) -> Option<T> {
        self.all().next()
    }

    /// The structure with the handle `handle`.
    pub fn by_handle(&self, handle: u16) -> Option<&Structure> {
        self.structures.iter().find(|structure| structure.handle() == handle)
    }
}

/// One structure of the table.
#[derive(Debug)]
pub struct Structure {
    inner: UndefinedStruct,
    /// Its offset in the table.
    at: usize,
}

impl Structure {
    /// Its type, e.g. 17 for a memory device.
    pub fn kind(&self) -> u8 {
        self.inner.header.struct_type()
    }

    /// Its handle, by which others refer to it.
    pub fn handle(&self) -> u16 {
        *self.inner.header.handle()
    }

    /// The structure as smbios-lib's type `T`; `None` if it is of another type.
    pub fn as_type<'a, T: SMBiosStruct<'a>>(&'a self) -> Option<T> {
        self.inner.as_type()
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

    /// Offset of the next structure. Two zeros end this one: that after the last string, and one more.
    fn end(&self) -> usize {
        let n_string_bytes: usize = self.inner.strings.iter().map(|s| s.len() + 1).sum();
        self.at + self.inner.fields.len() + n_string_bytes.max(1) + 1
    }

    /// The bytes before its strings.
    fn data<'t>(&self, table: &'t [u8]) -> &'t [u8] {
        table.get(self.at..self.at + self.inner.fields.len()).unwrap_or_default()
    }
}

/// A string without surrounding blanks. Placeholders stay; `None` if there is none or it is blank. Many vendors write
/// other encodings than UTF-8: such bytes become `\xNN`.
pub fn text(string: &SMBiosString) -> Option<String> {
    match string.as_ref() {
        Ok(text) => padded(text.as_bytes()),
        Err(SMBiosStringError::Utf8(wrong)) => padded(wrong.as_bytes()),
        Err(_) => None,
    }
}

/// Every string of a structure, as [`text`] gives each.
pub fn texts<'a>(structure: &impl SMBiosStruct<'a>) -> impl Iterator<Item = String> {
    structure.parts().strings.iter().filter_map(|string| padded(string))
}

/// Parses a table, with its entry point if there is one.
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
