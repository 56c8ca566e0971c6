//! Chassis, baseboard, product and BIOS: `/sys/class/dmi/id/*`
//! (`Documentation/ABI/testing/sysfs-class-dmi`), else SMBIOS types 0 to 3 (DSP0134, sections 7.1 to
//! 7.4), else the device tree. Serial numbers and the UUID need root.
//!
//! Strings stay as the firmware gives them, placeholders too, so that nothing is lost;
//! [`is_placeholder`] tells which they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::smbios::{self, Smbios, Structure};

/// The class link, and where it leads.
const ID: [&str; 2] = ["sys/class/dmi/id", "sys/devices/virtual/dmi/id"];
const PLACEHOLDERS: &str = include_str!("../data/placeholders.txt");
const DUPLICATES: &str = include_str!("../data/known-duplicates.txt");

/// The enclosure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Chassis {
    /// Maker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Name of the type, e.g. `Rack Mount Chassis`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Number of the type, e.g. 23, without the bit that says that there is a lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind_code: Option<u8>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Asset tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asset_tag: Option<String>,
}

/// The main board.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Baseboard {
    /// Maker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Name of the product.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Asset tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asset_tag: Option<String>,
}

/// The machine as sold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Product {
    /// Maker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Name; the model of a device tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Family.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Stock keeping unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sku: Option<String>,
    /// Version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// UUID in lower case as the kernel's `product_uuid` writes it; `None` where the firmware set
    /// none (all bytes 0 or 255).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// The 16 bytes of the UUID as they stand in the table, in hexadecimal; a BMC may read them in
    /// the other order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid_raw_hex: Option<String>,
    /// What the device tree is compatible with, the most exact first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compatible: Vec<String>,
}

/// The firmware.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Bios {
    /// Maker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Date as the firmware writes it, mostly `MM/DD/YYYY`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Release as `major.minor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Release of the embedded controller's firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedded_controller_release: Option<String>,
}

/// What the firmware says of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dmi {
    /// The enclosure.
    pub chassis: Chassis,
    /// The main board.
    pub baseboard: Baseboard,
    /// The machine as sold.
    pub product: Product,
    /// The firmware.
    pub bios: Bios,
}

/// Reads what the firmware says of the machine.
#[must_use]
pub fn dmi(machine: &Machine) -> Dmi {
    let table = smbios::read(machine);
    let kind = |kind: u8| table.as_ref().and_then(|table| table.of_kind(kind).next());
    let id = ID.into_iter().find(|id| machine.is_dir(id)).unwrap_or(ID[0]);
    let sources = Sources { machine, id, entry: None };
    let mut dmi = Dmi {
        chassis: chassis(&Sources { entry: kind(3), ..sources }),
        baseboard: baseboard(&Sources { entry: kind(2), ..sources }),
        product: product(&Sources { entry: kind(1), ..sources }, table.as_ref()),
        bios: bios(&Sources { entry: kind(0), ..sources }),
    };
    device_tree(machine, &mut dmi);
    dmi
}

/// The two sources of a field: a file of sysfs, else a structure of the table.
#[derive(Clone, Copy)]
struct Sources<'a> {
    machine: &'a Machine,
    id: &'static str,
    entry: Option<&'a Structure>,
}

impl Sources<'_> {
    fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.id)
    }

    fn text(&self, file: &str, offset: usize) -> Option<String> {
        let text = self.machine.text(&self.path(file));
        let text = text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        text.or_else(|| self.entry?.string(offset))
    }

    /// A release of two numbers; 255 means that there is none.
    fn release(&self, file: &str, offset: usize) -> Option<String> {
        let table = || match self.entry?.bytes(offset, 2)? {
            [0xff, 0xff] => None,
            [major, minor] => Some(format!("{major}.{minor}")),
            _ => None,
        };
        self.machine.text(&self.path(file)).or_else(table)
    }
}

fn chassis(sources: &Sources) -> Chassis {
    let file: Option<u8> = sources.machine.number(&sources.path("chassis_type"));
    let code = file.or_else(|| sources.entry?.byte(0x05)).map(|code| code & 0x7f);
    let code = code.filter(|code| *code != 0);
    Chassis {
        vendor: sources.text("chassis_vendor", 0x04),
        kind: code.and_then(chassis_kind).map(str::to_owned),
        kind_code: code,
        version: sources.text("chassis_version", 0x06),
        serial: sources.text("chassis_serial", 0x07),
        asset_tag: sources.text("chassis_asset_tag", 0x08),
    }
}

fn baseboard(sources: &Sources) -> Baseboard {
    Baseboard {
        vendor: sources.text("board_vendor", 0x04),
        product: sources.text("board_name", 0x05),
        version: sources.text("board_version", 0x06),
        serial: sources.text("board_serial", 0x07),
        asset_tag: sources.text("board_asset_tag", 0x08),
    }
}

fn product(sources: &Sources, table: Option<&Smbios>) -> Product {
    let raw = sources.entry.and_then(|entry| entry.bytes(0x08, 16));
    let version = table.and_then(|table| table.version);
    let file = sources.machine.parse(&sources.path("product_uuid"), parse_uuid);
    Product {
        vendor: sources.text("sys_vendor", 0x04),
        name: sources.text("product_name", 0x05),
        version: sources.text("product_version", 0x06),
        serial: sources.text("product_serial", 0x07),
        sku: sources.text("product_sku", 0x19),
        family: sources.text("product_family", 0x1a),
        uuid: file.or_else(|| uuid(raw?, version)).filter(|uuid| !is_unset(uuid)),
        uuid_raw_hex: raw.map(hex),
        compatible: Vec::new(),
    }
}

fn bios(sources: &Sources) -> Bios {
    Bios {
        vendor: sources.text("bios_vendor", 0x04),
        version: sources.text("bios_version", 0x05),
        date: sources.text("bios_date", 0x08),
        release: sources.release("bios_release", 0x14),
        embedded_controller_release: sources.release("ec_firmware_release", 0x16),
    }
}

/// Fills what is still missing from the device tree (Devicetree Specification, section 3.1), which
/// boards without SMBIOS have.
fn device_tree(machine: &Machine, dmi: &mut Dmi) {
    let bases = ["sys/firmware/devicetree/base", "proc/device-tree"];
    let text = |name: &str| {
        let read = |base: &&str| machine.text(&format!("{base}/{name}"));
        bases.iter().find_map(read).filter(|text| !text.is_empty())
    };
    let Some(compatible) = text("compatible") else { return };
    let product = &mut dmi.product;
    product.compatible = compatible.split('\0').map(str::to_owned).collect();
    let vendor = || Some(product.compatible.first()?.split_once(',')?.0.to_owned());
    product.vendor = product.vendor.take().or_else(|| text("vendor")).or_else(vendor);
    product.name = product.name.take().or_else(|| text("model"));
    // `system-id` is the serial number of IBM's POWER machines.
    let serial = || text("serial-number").or_else(|| text("system-id"));
    product.serial = product.serial.take().or_else(serial);
    dmi.chassis.kind = dmi.chassis.kind.take().or_else(|| text("chassis-type"));
}

/// Takes the text of a UUID, in lower case.
fn parse_uuid(text: &str) -> Result<String, &'static str> {
    let is_uuid = text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    let expected = "a UUID such as 4c4c4544-0058-4a10-8034-b7c04f4b5a33";
    is_uuid.then(|| text.to_ascii_lowercase()).ok_or(expected)
}

/// Writes a UUID as the kernel does: since SMBIOS 2.6 the first three parts are little-endian
/// (`dmi_save_uuid`, `drivers/firmware/dmi_scan.c`). `None` where the version is not known.
fn uuid(raw: &[u8], version: Option<(u8, u8)>) -> Option<String> {
    let mut bytes = <[u8; 16]>::try_from(raw).ok()?;
    if version? >= (2, 6) {
        bytes[..4].reverse();
        bytes[4..6].reverse();
        bytes[6..8].reverse();
    }
    let parts = [&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[8..10], &bytes[10..]];
    Some(parts.map(hex).join("-"))
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0x0f]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

/// Whether all bytes of a UUID are 0 or all are 255, which means that none is set.
fn is_unset(uuid: &str) -> bool {
    ['0', 'f'].iter().any(|digit| uuid.chars().all(|c| c == *digit || c == '-'))
}

/// Whether `text` is what firmware leaves where nobody filled a value in.
///
/// ```
/// assert!(probes::dmi::is_placeholder("To Be Filled By O.E.M."));
/// assert!(!probes::dmi::is_placeholder("7XJ4KZ3"));
/// ```
#[must_use]
pub fn is_placeholder(text: &str) -> bool {
    let text = text.trim().to_lowercase();
    let mut letters = text.bytes().filter(|byte| !b" .-_:/".contains(byte));
    // A single character again and again: 0000000, XXXXXXX, ......
    let is_repeated = match letters.next() {
        None => true,
        Some(first) => text.len() > 1 && b"0xf*?".contains(&first) && letters.all(|b| b == first),
    };
    is_repeated
        || listed(PLACEHOLDERS).any(|line| match line.strip_suffix('*') {
            Some(start) => text.starts_with(start),
            None => text == line,
        })
}

/// Whether `text` is a UUID or serial number that is known to stand in many machines.
#[must_use]
pub fn is_known_duplicate(text: &str) -> bool {
    listed(DUPLICATES).any(|line| line.eq_ignore_ascii_case(text.trim()))
}

fn listed(file: &'static str) -> impl Iterator<Item = &'static str> {
    file.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The name of a chassis type (DSP0134, section 7.4.1).
fn chassis_kind(code: u8) -> Option<&'static str> {
    const KINDS: &[&str] = &[
        "Other",
        "Unknown",
        "Desktop",
        "Low Profile Desktop",
        "Pizza Box",
        "Mini Tower",
        "Tower",
        "Portable",
        "Laptop",
        "Notebook",
        "Hand Held",
        "Docking Station",
        "All in One",
        "Sub Notebook",
        "Space-saving",
        "Lunch Box",
        "Main Server Chassis",
        "Expansion Chassis",
        "SubChassis",
        "Bus Expansion Chassis",
        "Peripheral Chassis",
        "RAID Chassis",
        "Rack Mount Chassis",
        "Sealed-case PC",
        "Multi-system Chassis",
        "Compact PCI",
        "Advanced TCA",
        "Blade",
        "Blade Enclosure",
        "Tablet",
        "Convertible",
        "Detachable",
        "IoT Gateway",
        "Embedded PC",
        "Mini PC",
        "Stick PC",
    ];
    // Type 2 is «Unknown», and says nothing.
    let kind = KINDS.get(usize::from(code).checked_sub(1)?).copied();
    kind.filter(|kind| *kind != "Unknown")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smbios::tests::structure;
    use crate::testing::{tree, tree_of_bytes};

    #[test]
    fn the_files_of_the_kernel_come_before_the_table() {
        let mut fields = vec![1, 2, 0, 3];
        fields.extend(b"DDEL\0\0\0\0\0\0\0\0\0\0\0\0");
        let table = structure(1, &fields, &[b"Other", b"R650", b"S1"]);
        let machine = tree_of_bytes(&[
            ("sys/class/dmi/id/sys_vendor", b"Dell Inc. \n".as_slice()),
            ("sys/class/dmi/id/chassis_type", b"151\n"),
            ("sys/firmware/dmi/tables/smbios_entry_point", b"_SM3_\0\x18\x03\x02\0"),
            ("sys/firmware/dmi/tables/DMI", &table),
        ]);
        let dmi = dmi(&machine);
        assert_eq!(dmi.product.vendor.as_deref(), Some("Dell Inc."));
        assert_eq!(dmi.product.name.as_deref(), Some("R650"));
        assert_eq!(dmi.product.serial.as_deref(), Some("S1"));
        assert_eq!(dmi.product.uuid.as_deref(), Some("4c454444-0000-0000-0000-000000000000"));
        assert_eq!(dmi.product.uuid_raw_hex.as_deref(), Some("4444454c000000000000000000000000"));
        assert_eq!(dmi.chassis.kind_code, Some(23), "bit 7 says that there is a lock");
        assert_eq!(dmi.chassis.kind.as_deref(), Some("Rack Mount Chassis"));
    }

    #[test]
    fn a_board_without_smbios_is_named_by_its_device_tree() {
        let machine = tree(&[
            ("proc/device-tree/model", "Raspberry Pi 5\0"),
            ("proc/device-tree/compatible", "raspberrypi,5-model-b\0brcm,bcm2712\0"),
            ("proc/device-tree/serial-number", "62511f5a1550c74c\0"),
        ]);
        let product = dmi(&machine).product;
        assert_eq!(product.vendor.as_deref(), Some("raspberrypi"));
        assert_eq!(product.name.as_deref(), Some("Raspberry Pi 5"));
        assert_eq!(product.serial.as_deref(), Some("62511f5a1550c74c"));
        assert_eq!(product.compatible.len(), 2);
    }

    #[test]
    fn the_order_of_a_uuids_bytes_depends_on_the_version() {
        let raw: Vec<u8> = (0..16).collect();
        let new = uuid(&raw, Some((2, 6))).unwrap();
        let old = uuid(&raw, Some((2, 5))).unwrap();
        assert_eq!(new, "03020100-0504-0706-0809-0a0b0c0d0e0f");
        assert_eq!(old, "00010203-0405-0607-0809-0a0b0c0d0e0f");
        assert_eq!(uuid(&raw, None), None);
    }

    #[test]
    fn a_uuid_that_is_not_set_is_not_known() {
        for text in ["00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"]
        {
            let machine = tree(&[("sys/class/dmi/id/product_uuid", text)]);
            assert_eq!(dmi(&machine).product.uuid, None);
        }
        let machine = tree(&[("sys/class/dmi/id/product_uuid", "nonsense")]);
        assert_eq!(dmi(&machine).product.uuid, None);
        assert_eq!(machine.problems().len(), 1);
    }

    #[test]
    fn placeholders_are_known_and_real_values_are_not_taken_for_them() {
        for text in [
            "To be filled by O.E.M.",
            "Default string",
            " None ",
            "Not Specified",
            "0123456789",
            "0000000000",
            "00:00:00:00",
            "........",
            "XXXXXXXX",
            "",
            "SKU=NotProvided;ModelName=",
        ] {
            assert!(is_placeholder(text), "{text}");
        }
        for text in ["7XJ4KZ3", "0PYXKY", "1.0", "A00", "F", "Dell Inc.", "00000001", "FOX123"] {
            assert!(!is_placeholder(text), "{text}");
        }
        assert!(is_known_duplicate("03000200-0400-0500-0006-000700080009"));
        assert!(!is_known_duplicate("4c4c4544-0058-4a10-8034-b7c04f4b5a33"));
    }
}
