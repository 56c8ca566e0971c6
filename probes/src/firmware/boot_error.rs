//! Errors that the firmware recorded before this boot: the region of the ACPI table BERT (ACPI 6.5, section 18.3.1), which
//! the kernel shows as `/sys/firmware/acpi/tables/data/BERT`. Needs root.

use formats::cper::{Part, Section, sections};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::pci_address::Address;
use crate::smbios::{self, types::SMBiosMemoryDevice};

const PATH: &str = "sys/firmware/acpi/tables/data/BERT";

/// An error of the hardware that the firmware recorded before this boot.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BootError {
    /// `recoverable`, `fatal`, `corrected` or `informational`.
    pub severity: String,
    /// `memory`, `PCI Express`, `processor`, or the GUID of another kind of record (UEFI 2.10, appendix N).
    pub kind: String,
    /// The part as the firmware calls it, e.g. `DIMM_A1`.
    pub unit: Option<String>,
    /// Slot, PCI address or APIC id of the part, e.g. `P1-DIMMA1`, `0000:3b:00.0`, `APIC 34`.
    pub part: Option<String>,
    /// The place of the memory, as the controller counts, e.g. `node 0, card 1, module 0`.
    pub place: Option<String>,
}

/// Reads the record; empty if there is none, which is usual.
pub(super) fn boot_errors(machine: &Machine) -> Vec<BootError> {
    let (found, is_whole) =
        machine.bytes(PATH).map_or((Vec::new(), true), |bytes| sections(&bytes));
    if !is_whole {
        let read = format!("{} whole sections before one that is damaged", found.len());
        machine.problem(PATH, read, "error records of ACPI");
    }
    found.into_iter().map(|section| boot_error(machine, section)).collect()
}

fn boot_error(machine: &Machine, section: Section) -> BootError {
    let mut place = None;
    let (kind, part) = match section.part {
        Part::Memory { handle, place: numbers } => {
            let texts: Vec<String> =
                numbers.iter().map(|(name, n)| format!("{name} {n}")).collect();
            place = Some(texts.join(", ")).filter(|text| !text.is_empty());
            ("memory".to_owned(), handle.and_then(|handle| slot(machine, handle)))
        }
        Part::Pci(address) => {
            let address = address.map(|(segment, bus, device, function)| {
                Address { domain: u32::from(segment), bus, device, function }.to_string()
            });
            ("PCI Express".to_owned(), address)
        }
        Part::Processor(id) => ("processor".to_owned(), id.map(|id| format!("APIC {id}"))),
        Part::Other(guid) => (guid, None),
    };
    BootError { severity: section.severity.to_owned(), kind, unit: section.unit, part, place }
}

/// The name that the SMBIOS table gives the slot with this handle.
fn slot(machine: &Machine, handle: u16) -> Option<String> {
    let table = smbios::read(machine)?;
    let device: SMBiosMemoryDevice = table.by_handle(handle)?.as_type()?;
    smbios::text(&device.device_locator())
}
