//! Parts whose firmware UEFI can update, with its version: the EFI System Resource Table
//! (`Documentation/ABI/testing/sysfs-firmware-efi-esrt`; UEFI Specification 2.10, 23.4). Needs root.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::data;
use crate::machine::Machine;

const ENTRIES: &str = "sys/firmware/efi/esrt/entries";
/// A machine has a dozen.
const LIMIT: usize = 128;

/// A part whose firmware UEFI can update.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FirmwareResource {
    /// GUID by which its maker knows it.
    pub class: String,
    /// `system firmware`, `device firmware` or `uefi driver`; `None` where not known.
    pub kind: Option<String>,
    /// Version of its firmware, as the maker counts.
    pub version: Option<u32>,
    /// The oldest version that it accepts.
    pub lowest_version: Option<u32>,
    /// How the last update ended; 0 is well, other numbers are those of the specification.
    pub last_update_status: Option<u32>,
}

/// Reads the table, by GUID.
pub(super) fn esrt(machine: &Machine) -> Vec<FirmwareResource> {
    let names = machine.list(ENTRIES).into_iter().take(LIMIT);
    let mut entries: Vec<FirmwareResource> =
        names.filter_map(|name| entry(machine, &format!("{ENTRIES}/{name}"))).collect();
    entries.sort_by(|a, b| (&a.class, a.version).cmp(&(&b.class, b.version)));
    entries
}

fn entry(machine: &Machine, path: &str) -> Option<FirmwareResource> {
    let number = |name: &str| machine.number::<u32>(&format!("{path}/{name}"));
    // An update that was never tried has a version of 0 and a status that means nothing.
    let was_tried = number("last_attempt_version").is_some_and(|version| version != 0);
    Some(FirmwareResource {
        class: machine.text(&format!("{path}/fw_class"))?.trim().to_ascii_lowercase(),
        kind: number("fw_type").and_then(|kind| data::named("resource", kind)),
        version: number("fw_version"),
        lowest_version: number("lowest_supported_fw_version"),
        last_update_status: number("last_attempt_status").filter(|_| was_tried),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn parts_have_their_version_and_an_update_that_was_never_tried_has_no_status() {
        let at = |name: &str| format!("{ENTRIES}/entry0/{name}");
        let guid = "DDC0EE61-E7F0-4E7D-ACC5-C070A398838E\n";
        let machine = tree(&[
            (&at("fw_class"), guid),
            (&at("fw_type"), "1\n"),
            (&at("fw_version"), "65586\n"),
            (&at("lowest_supported_fw_version"), "65585\n"),
            (&at("last_attempt_version"), "0\n"),
            (&at("last_attempt_status"), "0\n"),
            (&format!("{ENTRIES}/entry1/fw_type"), "9\n"),
        ]);
        let found = esrt(&machine);
        assert_eq!(found.len(), 1, "a part without GUID is none");
        assert_eq!(found[0].class, "ddc0ee61-e7f0-4e7d-acc5-c070a398838e");
        assert_eq!(found[0].kind.as_deref(), Some("system firmware"));
        assert_eq!((found[0].version, found[0].last_update_status), (Some(65586), None));
    }
}
