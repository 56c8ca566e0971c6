//! Boot by the firmware: its mode, settings and errors, from `/sys/firmware/` and the EFI variables in
//! `/sys/firmware/efi/efivars/` (UEFI Specification 2.10, 3.3 "Globally Defined Variables"). Variables need root, and
//! efivarfs mounted.

mod boot_error;

pub use boot_error::BootError;

use formats::data;
use formats::device_path;
use formats::efi::{self, HIDDEN, LoadOption, boot_id};
use formats::hest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

const EFI: &str = "sys/firmware/efi";
/// The EFI System Resource Table: parts whose firmware UEFI can update (`Documentation/ABI/testing/sysfs-firmware-efi-esrt`;
/// UEFI Specification 2.10, 23.4). Needs root.
const ESRT: &str = "sys/firmware/efi/esrt/entries";
/// A machine has a dozen.
const LIMIT_RESOURCES: usize = 128;
/// A firmware has at most some hundred entries in practice; 65536 are possible.
const LIMIT_ENTRIES: usize = 1000;

/// The firmware and its boot of the machine.
#[serde_with::skip_serializing_none]
#[serde_with::apply(Vec => #[serde(skip_serializing_if = "Vec::is_empty")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Firmware {
    /// By which interface it booted; `None` on machines with neither, and where it is not known.
    pub boot_mode: Option<BootMode>,
    /// 32 or 64: the word size of the UEFI firmware.
    pub platform_bits: Option<u32>,
    /// True if the firmware checks signatures of what it boots.
    pub secure_boot: Option<bool>,
    /// True if no platform key is enrolled, so that anyone may enrol keys.
    pub setup_mode: Option<bool>,
    /// The entry that was booted, four hexadecimal digits, e.g. `0001`.
    pub boot_current: Option<String>,
    /// The entry that is booted once, at the next start.
    pub boot_next: Option<String>,
    /// The entries in the order in which they are tried.
    pub boot_order: Option<Vec<String>>,
    /// Seconds for which the firmware's boot menu waits.
    pub boot_timeout_s: Option<u16>,
    /// All entries, by number, whether they are in the order or not.
    pub boot_entries: Vec<BootEntry>,
    /// Parts whose firmware UEFI can update, by GUID.
    pub resources: Vec<FirmwareResource>,
    /// Errors of the hardware that the firmware recorded before this boot; some keep them for several boots.
    pub boot_errors: Vec<BootError>,
    /// Errors that the firmware handles before the kernel, which may therefore not count them: `machine_check`,
    /// `corrected_machine_check`, `deferred_machine_check`, `pci_express`. `None` without the ACPI table HEST.
    pub firmware_first: Option<Vec<String>>,
}

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
    /// Result of the last update: 0 is success, other numbers are those of the specification.
    pub last_update_status: Option<u32>,
}

/// One boot entry of the firmware.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BootEntry {
    /// Its number, four hexadecimal digits, as `boot_order` names it.
    pub id: String,
    /// The line in the firmware's menu.
    pub description: Option<String>,
    /// True if the firmware tries it.
    pub is_active: Option<bool>,
    /// True if the firmware's menu leaves it out.
    pub is_hidden: Option<bool>,
    /// The path that it boots, in the text form of the UEFI specification, e.g.
    /// `HD(1,GPT,…,0x800,0x32000)/\EFI\fedora\shimx64.efi`.
    pub device_path: Option<String>,
}

/// By which interface the firmware booted the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BootMode {
    /// UEFI.
    Uefi,
    /// The BIOS of PCs, or UEFI's imitation of it.
    Bios,
}

/// Reads how the firmware booted the machine.
pub fn firmware(machine: &Machine) -> Firmware {
    Firmware {
        boot_errors: boot_error::boot_errors(machine),
        firmware_first: firmware_first(machine),
        ..boot(machine)
    }
}

/// The errors that the firmware handles first, by the table HEST, which needs root.
fn firmware_first(machine: &Machine) -> Option<Vec<String>> {
    const PATH: &str = "sys/firmware/acpi/tables/HEST";
    let (names, is_whole) = hest::firmware_first(&machine.bytes(PATH)?).unwrap_or_default();
    if !is_whole {
        machine.problem(PATH, "a source of unknown kind or length", "a whole table HEST of ACPI");
    }
    (is_whole || !names.is_empty()).then(|| names.into_iter().map(str::to_owned).collect())
}

/// All but what concerns errors.
fn boot(machine: &Machine) -> Firmware {
    match machine.has_directory(EFI) {
        Some(true) => {}
        Some(false) => {
            let folders = machine.names("sys/firmware");
            return Firmware { boot_mode: bios(machine, &folders), ..Firmware::default() };
        }
        // Neither is certain.
        None => return Firmware::default(),
    }
    let variables = Variables::find(machine);
    let number = |name: &str| variables.value(machine, name).and_then(|value| efi::number(&value));
    let flag = |name: &str| variables.value(machine, name).and_then(|value| parse_flag(&value));
    let boot_order = variables.value(machine, "BootOrder").map(|value| efi::boot_order(&value));
    Firmware {
        boot_mode: Some(BootMode::Uefi),
        platform_bits: machine.parse(&format!("{EFI}/fw_platform_size"), |text| match text {
            "32" => Ok(32),
            "64" => Ok(64),
            _ => Err("32 or 64"),
        }),
        secure_boot: flag("SecureBoot"),
        setup_mode: flag("SetupMode"),
        boot_current: number("BootCurrent").map(boot_id),
        boot_next: number("BootNext").map(boot_id),
        boot_order: boot_order.map(|order| order.into_iter().map(boot_id).collect()),
        boot_timeout_s: number("Timeout").filter(|seconds| *seconds != u16::MAX),
        boot_entries: variables.boot_entries(machine),
        resources: resources(machine),
        ..Firmware::default()
    }
}

/// Only a PC's kernel makes one of these: the memory map and the disk table of a BIOS, or ACPI on
/// x86. A folder that lacks them all says nothing.
fn bios(machine: &Machine, folders: &[String]) -> Option<BootMode> {
    let has = |name: &str| folders.iter().any(|folder| folder == name);
    let architecture = || crate::cpu::architecture(machine);
    let is_x86 = || architecture().is_some_and(|a| a.ends_with("86") || a == "x86_64");
    let is_pc = has("memmap") || has("edd") || (has("acpi") && is_x86());
    is_pc.then_some(BootMode::Bios)
}

/// The variables and their place.
struct Variables {
    names: Vec<String>,
    is_old: bool,
}

impl Variables {
    /// efivarfs, or the `vars` of kernels before 6.0 with efivarfs not mounted.
    fn find(machine: &Machine) -> Variables {
        let names = machine.list(&format!("{EFI}/efivars"));
        if names.is_empty() {
            return Variables { names: machine.list(&format!("{EFI}/vars")), is_old: true };
        }
        Variables { names, is_old: false }
    }

    /// The value of a global variable, without the four bytes of attributes that efivarfs puts
    /// before it. `None` if it is absent.
    fn value(&self, machine: &Machine, name: &str) -> Option<Vec<u8>> {
        let name = efi::file_name(name);
        if !self.names.contains(&name) {
            return None;
        }
        if self.is_old {
            return machine.bytes(&format!("{EFI}/vars/{name}/data"));
        }
        let path = format!("{EFI}/efivars/{name}");
        let bytes = machine.bytes(&path)?;
        let value = efi::value(&bytes).map(<[u8]>::to_vec);
        if value.is_none() {
            let found = format!("{} bytes", bytes.len());
            machine.problem(&path, found, "4 bytes of attributes and a value");
        }
        value
    }

    fn boot_entries(&self, machine: &Machine) -> Vec<BootEntry> {
        let variables = self.names.iter().filter_map(|name| {
            let variable = efi::variable_of(name)?;
            Some((efi::boot_number(variable)?, variable))
        });
        let entries = variables.take(LIMIT_ENTRIES).filter_map(|(number, variable)| {
            Some(boot_entry(&boot_id(number), &self.value(machine, variable)?))
        });
        let mut entries: Vec<BootEntry> = entries.collect();
        entries.sort_by(|a, b| a.id.cmp(&b.id));
        entries
    }
}

fn parse_flag(value: &[u8]) -> Option<bool> {
    match value {
        [0] => Some(false),
        [1] => Some(true),
        _ => None,
    }
}

/// Reads the entry `id`; of a damaged one only what comes before the damage.
fn boot_entry(id: &str, value: &[u8]) -> BootEntry {
    let option = LoadOption::parse(value);
    BootEntry {
        id: id.to_owned(),
        description: option.description.map(formats::utf16::line).filter(|text| !text.is_empty()),
        is_active: option.attributes.map(|_| option.is_active()),
        is_hidden: option.attributes.map(|attributes| attributes & HIDDEN != 0),
        device_path: option.path.and_then(device_path::text),
    }
}

/// Reads the table, by GUID.
fn resources(machine: &Machine) -> Vec<FirmwareResource> {
    let names = machine.list(ESRT).into_iter().take(LIMIT_RESOURCES);
    let mut entries: Vec<FirmwareResource> =
        names.filter_map(|name| resource(machine, &format!("{ESRT}/{name}"))).collect();
    entries.sort_by(|a, b| (&a.class, a.version).cmp(&(&b.class, b.version)));
    entries
}

fn resource(machine: &Machine, path: &str) -> Option<FirmwareResource> {
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
    use crate::testing::{tree, tree_in, tree_of_bytes};

    #[test]
    fn errors_that_the_firmware_handles_first_are_those_of_its_table() {
        let mut table = b"HEST".to_vec();
        table.resize(40 + 48, 0);
        (table[4], table[36], table[40], table[46]) = (88, 1, 6, 1);
        let first = |table: &[u8]| {
            let machine = tree_of_bytes(&[("sys/firmware/acpi/tables/HEST", table)]);
            (firmware(&machine).firmware_first, machine.problems().len())
        };
        assert_eq!(first(&table), (Some(vec!["pci_express".to_owned()]), 0));
        table[46] = 0;
        assert_eq!(first(&table), (Some(Vec::new()), 0));
        assert_eq!(first(&table[..80]), (None, 1), "truncated");
        assert_eq!(firmware(&tree(&[("proc/version", "x")])).firmware_first, None);
    }

    #[test]
    fn secure_boot_order_and_current_entry_are_read_from_the_variables() {
        let at = |name: &str| format!("{EFI}/efivars/{}", efi::file_name(name));
        let option = [1, 0, 0, 0, 4, 0, b'U', 0, 0, 0, 0x7f, 0xff, 4, 0];
        let boot = [&[7, 0, 0, 0], option.as_slice()].concat();
        let machine = tree_of_bytes(&[
            (&at("SecureBoot"), &[6, 0, 0, 0, 1]),
            (&at("SetupMode"), &[6, 0, 0, 0, 0]),
            (&at("BootOrder"), &[7, 0, 0, 0, 1, 0, 0x0a, 0x20]),
            (&at("BootCurrent"), &[6, 0, 0, 0, 1, 0]),
            (&at("Boot0001"), &boot),
            (&at("BootOptionSupport"), &[6, 0, 0, 0, 3, 3, 0, 0]),
            ("sys/firmware/efi/fw_platform_size", b"64\n"),
        ]);
        let firmware = firmware(&machine);
        assert_eq!(firmware.boot_mode, Some(BootMode::Uefi));
        assert_eq!((firmware.secure_boot, firmware.setup_mode), (Some(true), Some(false)));
        assert_eq!(firmware.boot_order, Some(vec!["0001".to_owned(), "200A".to_owned()]));
        assert_eq!(firmware.boot_current.as_deref(), Some("0001"));
        assert_eq!(firmware.platform_bits, Some(64));
        assert_eq!(firmware.boot_entries.len(), 1);
        assert_eq!(firmware.boot_entries[0].description.as_deref(), Some("U"));
    }

    #[test]
    fn cut_variables_give_no_value() {
        let at = |name: &str| format!("{EFI}/efivars/{}", efi::file_name(name));
        let machine = tree_of_bytes(&[
            (&at("SecureBoot"), &[6, 0, 0]),
            (&at("BootCurrent"), &[6, 0, 0, 0, 1]),
            (&at("Boot0001"), &[6, 0, 0, 0, 1]),
        ]);
        let firmware = firmware(&machine);
        assert_eq!((firmware.secure_boot, firmware.boot_current), (None, None));
        assert_eq!(firmware.boot_entries[0].description, None);
        assert!(machine.problems()[0].path.ends_with(&at("SecureBoot")));
    }

    #[test]
    fn only_a_directory_that_does_not_exist_means_bios() {
        let memmap = ("sys/firmware/memmap/0/type", "System RAM\n");
        for (errno, name) in [(20, "ENOTDIR"), (22, "EINVAL"), (19, "ENODEV"), (5, "EIO")] {
            let errors = format!("{errno} {EFI}\n");
            let machine = tree(&[memmap, ("kernel/errors", &errors)]);
            assert_eq!(firmware(&machine), Firmware::default(), "{name}");
            let problems = machine.problems();
            assert_eq!(problems.len(), 1, "{name}");
            assert_eq!(problems[0].path, "/sys/firmware/efi", "{name}");
        }
        let machine = tree(&[memmap, ("sys/firmware/efi", "")]);
        assert_eq!(firmware(&machine).boot_mode, None, "a regular file");
        assert_eq!(machine.problems().len(), 1);
    }

    #[test]
    fn a_pc_without_efi_booted_by_bios_and_other_machines_by_neither() {
        let pc = tree(&[("sys/firmware/memmap/0/type", "System RAM\n")]);
        assert_eq!(firmware(&pc).boot_mode, Some(BootMode::Bios));
        let board = tree(&[("sys/firmware/devicetree/base/model", "x")]);
        assert_eq!(firmware(&board).boot_mode, None);
        assert_eq!(firmware(&tree(&[("proc/cpuinfo", "flags : lm\n")])).boot_mode, None);
    }

    /// `value` as the bytes of UCS-2 text with its NUL.
    fn wide(value: &str) -> Vec<u8> {
        value.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
    }

    fn option(description: &str, path: &[u8]) -> Vec<u8> {
        let length = u16::try_from(path.len()).unwrap().to_le_bytes();
        [&[1, 0, 0, 0], length.as_slice(), &wide(description), path, b"optional data"].concat()
    }

    #[test]
    fn an_entry_has_its_description_and_path() {
        let file = wide("\\EFI\\fedora\\shimx64.efi");
        let length = u8::try_from(file.len() + 4).unwrap();
        let path = [&[4, 4, length, 0], file.as_slice(), &[0x7f, 0xff, 4, 0]].concat();
        let entry = boot_entry("0001", &option("Fedora ü", &path));
        assert_eq!(entry.description.as_deref(), Some("Fedora ü"));
        assert_eq!((entry.is_active, entry.is_hidden), (Some(true), Some(false)));
        assert_eq!(entry.device_path.as_deref(), Some("\\EFI\\fedora\\shimx64.efi"));
    }

    #[test]
    fn an_entry_that_is_cut_anywhere_does_not_panic() {
        let whole = option("Fedora", &[4, 4, 6, 0, b'a', 0, 0x7f, 0xff, 4, 0]);
        for length in 0..whole.len() {
            let entry = boot_entry("0001", &whole[..length]);
            assert_eq!(entry.id, "0001");
            assert!(entry.description.is_none_or(|text| text == "Fedora"));
        }
    }

    #[test]
    fn parts_have_their_version_and_an_update_that_was_never_tried_has_no_status() {
        let guid = "DDC0EE61-E7F0-4E7D-ACC5-C070A398838E\n";
        let machine = tree_in(&[
            (ESRT, &[("entry0/fw_class", guid)]),
            (ESRT, &[("entry0/fw_type", "1"), ("entry0/fw_version", "65586")]),
            (ESRT, &[("entry0/lowest_supported_fw_version", "65585")]),
            (ESRT, &[("entry0/last_attempt_version", "0")]),
            (ESRT, &[("entry0/last_attempt_status", "0"), ("entry1/fw_type", "9")]),
        ]);
        let found = resources(&machine);
        assert_eq!(found.len(), 1, "a part without GUID is none");
        assert_eq!(found[0].class, "ddc0ee61-e7f0-4e7d-acc5-c070a398838e");
        assert_eq!(found[0].kind.as_deref(), Some("system firmware"));
        assert_eq!((found[0].version, found[0].last_update_status), (Some(65586), None));
    }
}
