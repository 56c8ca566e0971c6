//! ACPI table HEST: the sources of hardware errors, and which of them the firmware handles before the operating system
//! (ACPI 6.5, section 18.3.2; `linux/actbl1.h`).

use crate::bytes::{array, le16, le32};

/// The head of every ACPI table, then the number of sources.
const HEAD_BYTES: usize = 40;
/// The bit of a source's flags that says that the firmware handles its errors first.
const IS_FIRMWARE_FIRST: u8 = 1;
/// Length of a bank in the sources of machine checks.
const BANK_BYTES: usize = 28;
/// The most sources that are read; large servers have some hundred.
const MOST_SOURCES: u32 = 4096;

/// The kinds of errors that the firmware handles first, sorted, and true if all sources could be read. `None` if this
/// is not a HEST table.
pub fn firmware_first(table: &[u8]) -> Option<(Vec<&'static str>, bool)> {
    // The firmware's length may be less than the file's, never more.
    let length = usize::try_from(le32(table, 4)).ok()?;
    let body = table.get(..length).filter(|body| body.starts_with(b"HEST"))?;
    let n_sources = array(body, HEAD_BYTES - 4).map(u32::from_le_bytes)?;
    let (mut found, mut at) = (Vec::new(), HEAD_BYTES);
    for _ in 0..n_sources.min(MOST_SOURCES) {
        let Some((source, n_bytes)) = body.get(at..).and_then(source) else {
            return Some((sorted(found), false));
        };
        found.extend(source);
        at += n_bytes;
    }
    Some((sorted(found), n_sources <= MOST_SOURCES))
}

fn sorted(mut names: Vec<&'static str>) -> Vec<&'static str> {
    names.sort_unstable();
    names.dedup();
    names
}

/// The kind of errors that the firmware handles first for the source at the start of `bytes`, and the source's length;
/// `None` if its kind is unknown or its end is missing, since the next one cannot be found then.
fn source(bytes: &[u8]) -> Option<(Option<&'static str>, usize)> {
    let banks = |at: usize| Some(usize::from(*bytes.get(at)?) * BANK_BYTES);
    let (name, n_bytes) = match le16(bytes, 0) {
        0 => ("machine_check", 40 + banks(32)?),
        1 => ("corrected_machine_check", 48 + banks(44)?),
        // Non-maskable interrupts have no flags. The generic sources are channels by which the firmware reports errors; which
        // errors it handles first is a matter of the other sources.
        2 => ("", 20),
        6 => ("pci_express", 48),
        7 => ("pci_express", 44),
        8 => ("pci_express", 56),
        9 => ("", 64),
        10 => ("", 92),
        11 => ("deferred_machine_check", 48 + banks(44)?),
        _ => return None,
    };
    let source = bytes.get(..n_bytes)?;
    let is_first = !name.is_empty() && source.get(6)? & IS_FIRMWARE_FIRST != 0;
    // Linux ignores a disabled one and keeps counting itself (arch/x86/kernel/acpi/apei.c).
    let is_first = is_first && (name != "corrected_machine_check" || *source.get(7)? != 0);
    Some((is_first.then_some(name), n_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::survives_any_bytes;

    /// A table of enabled sources with their kind, flags and length.
    fn table(sources: &[(u8, u8, usize)]) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes[..4].copy_from_slice(b"HEST");
        bytes[36] = u8::try_from(sources.len()).unwrap();
        for (kind, flags, length) in sources {
            let mut source = vec![0; *length];
            (source[0], source[6], source[7]) = (*kind, *flags, 1);
            bytes.extend(source);
        }
        let length = u32::try_from(bytes.len()).unwrap();
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    #[test]
    fn only_sources_with_the_flag_are_handled_by_the_firmware() {
        let sources = [(0, 0, 40), (1, 1, 48), (2, 1, 20), (6, 3, 48), (7, 1, 44)];
        let all = (vec!["corrected_machine_check", "pci_express"], true);
        assert_eq!(firmware_first(&table(&sources)), Some(all));
        assert_eq!(firmware_first(&table(&[(8, 2, 56)])), Some((Vec::new(), true)));
        let deferred = [(11, 1, 48), (9, 1, 64), (10, 1, 92)];
        let all = (vec!["deferred_machine_check"], true);
        assert_eq!(firmware_first(&table(&deferred)), Some(all));
    }

    #[test]
    fn source_of_corrected_machine_checks_that_is_disabled_is_not_handled() {
        let mut bytes = table(&[(1, 1, 48), (6, 1, 48)]);
        bytes[HEAD_BYTES + 7] = 0;
        assert_eq!(firmware_first(&bytes), Some((vec!["pci_express"], true)));
    }

    #[test]
    fn banks_of_a_machine_check_are_skipped() {
        let mut bytes = table(&[(0, 0, 40 + 2 * BANK_BYTES), (6, 1, 48)]);
        bytes[HEAD_BYTES + 32] = 2;
        assert_eq!(firmware_first(&bytes), Some((vec!["pci_express"], true)));
    }

    #[test]
    fn unknown_or_truncated_source_ends_the_list() {
        let known = vec!["pci_express"];
        let unknown = table(&[(6, 1, 48), (3, 1, 64)]);
        assert_eq!(firmware_first(&unknown), Some((known.clone(), false)));
        let mut more = table(&[(6, 1, 48)]);
        more[36] = 2;
        assert_eq!(firmware_first(&more), Some((known, false)));
        let mut endless = table(&[]);
        endless[36..40].copy_from_slice(&[0xff; 4]);
        assert_eq!(firmware_first(&endless), Some((Vec::new(), false)));
    }

    #[test]
    fn other_bytes_are_no_table() {
        let whole = table(&[(6, 1, 48)]);
        assert_eq!(firmware_first(&whole[..whole.len() - 1]), None);
        assert_eq!(firmware_first(b"BERT"), None);
        survives_any_bytes(&whole, |bytes| drop(firmware_first(bytes)));
    }
}
