//! Chassis, baseboard, product and BIOS: `/sys/class/dmi/id/*`
//! (`Documentation/ABI/testing/sysfs-class-dmi`), then SMBIOS types 0 to 3 (DSP0134, sections 7.1 to
//! 7.4), then the device tree. Serial numbers and the UUID need root.
//!
//! Strings stay as the firmware gives them, placeholders too, so that nothing is lost;
//! [`is_placeholder`] recognises them.

mod placeholder;

pub use placeholder::{is_known_duplicate, is_placeholder};

use formats::data;
use formats::guid;
use formats::hex::hex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::smbios;
use crate::smbios::types::{
    SMBiosBaseboardInformation as Board, SMBiosInformation as Firmware, SMBiosString, SMBiosStruct,
    SMBiosSystemChassisInformation as Case, SMBiosSystemInformation as System,
};

/// The class link, and where it leads.
const ID: [&str; 2] = ["sys/class/dmi/id", "sys/devices/virtual/dmi/id"];

/// The enclosure.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Chassis {
    /// Maker.
    pub vendor: Option<String>,
    /// Name of the type, e.g. `Rack Mount Chassis`.
    pub kind: Option<String>,
    /// Number of the type, e.g. 23, without the bit that says that there is a lock.
    pub kind_code: Option<u8>,
    /// Serial number.
    pub serial: Option<String>,
    /// Version.
    pub version: Option<String>,
    /// Asset tag.
    pub asset_tag: Option<String>,
    /// Height in rack units (SMBIOS type 3, 11h).
    pub height_u: Option<u8>,
    /// Number of power cords (12h).
    pub n_power_cords: Option<u8>,
}

/// The main board.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Baseboard {
    /// Maker.
    pub vendor: Option<String>,
    /// Name of the product.
    pub product: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Version.
    pub version: Option<String>,
    /// Asset tag.
    pub asset_tag: Option<String>,
}

/// The machine as sold.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Product {
    /// Maker.
    pub vendor: Option<String>,
    /// Name; the model of a device tree.
    pub name: Option<String>,
    /// Family.
    pub family: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Stock keeping unit.
    pub sku: Option<String>,
    /// Version.
    pub version: Option<String>,
    /// UUID in lower case as the kernel's `product_uuid` writes it; `None` where the firmware set
    /// none (all bytes 0 or 255).
    pub uuid: Option<String>,
    /// The same UUID with its first three parts in the other byte order. Some BMCs and boot servers
    /// know the machine by this one (SMBIOS 2.6 changed the order).
    pub uuid_swapped: Option<String>,
    /// The 16 bytes of the UUID as the table contains them, in hexadecimal; a BMC may read them in
    /// the other order.
    pub uuid_raw_hex: Option<String>,
    /// Models that the device tree is compatible with, the most exact first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compatible: Vec<String>,
    /// Who names the machine: `smbios`, or `device_tree` on boards without SMBIOS.
    pub source: Option<String>,
    /// The event that started the machine, e.g. `power switch`, `network` (SMBIOS type 1, 18h).
    pub wake_up: Option<String>,
}

/// The firmware.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Bios {
    /// Maker.
    pub vendor: Option<String>,
    /// Version.
    pub version: Option<String>,
    /// Date as the firmware writes it, mostly `MM/DD/YYYY`.
    pub date: Option<String>,
    /// Release as `major.minor`.
    pub release: Option<String>,
    /// Release of the embedded controller's firmware.
    pub embedded_controller_release: Option<String>,
}

/// The firmware's facts about the machine.
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

/// Reads the firmware's facts about the machine.
pub fn dmi(machine: &Machine) -> Dmi {
    let table = smbios::read(machine).unwrap_or_default();
    let dir = ID.into_iter().find(|dir| machine.is_dir(dir)).unwrap_or(ID[0]);
    let files = Files { machine, dir };
    let mut dmi = Dmi {
        chassis: chassis(&files, table.first().as_ref()),
        baseboard: baseboard(&files, table.first().as_ref()),
        product: product(&files, table.first().as_ref(), table.version),
        bios: bios(&files, table.first().as_ref()),
    };
    device_tree(machine, &mut dmi);
    dmi
}

/// The kernel's files; a field that they lack comes from a structure of the table.
struct Files<'a> {
    machine: &'a Machine,
    dir: &'static str,
}

impl Files<'_> {
    fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.dir)
    }

    fn text<T>(
        &self,
        file: &str,
        entry: Option<&T>,
        read: fn(&T) -> SMBiosString,
    ) -> Option<String> {
        let text = self.machine.text(&self.path(file));
        let text = text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        text.or_else(|| smbios::text(&read(entry?)))
    }

    /// A release with two numbers, in the table from `offset` on; 255 means that it is not set.
    fn release(&self, file: &str, entry: Option<&Firmware>, offset: usize) -> Option<String> {
        let in_table = || {
            let number = |offset| entry?.parts().get_field_byte(offset);
            let (major, minor) = (number(offset)?, number(offset + 1)?);
            ((major, minor) != (0xff, 0xff)).then(|| format!("{major}.{minor}"))
        };
        self.machine.text(&self.path(file)).or_else(in_table)
    }
}

fn chassis(files: &Files, entry: Option<&Case>) -> Chassis {
    let code: Option<u8> = files.machine.number(&files.path("chassis_type"));
    let code = code.or_else(|| Some(entry?.chassis_type()?.raw)).map(|code| code & 0x7f);
    let code = code.filter(|code| *code != 0);
    let number =
        |offset: usize| entry?.parts().get_field_byte(offset).filter(|n| !matches!(n, 0 | 0xff));
    Chassis {
        vendor: files.text("chassis_vendor", entry, Case::manufacturer),
        kind: code.and_then(|code| data::named("chassis", code)),
        kind_code: code,
        version: files.text("chassis_version", entry, Case::version),
        serial: files.text("chassis_serial", entry, Case::serial_number),
        asset_tag: files.text("chassis_asset_tag", entry, Case::asset_tag_number),
        height_u: number(0x11),
        n_power_cords: number(0x12),
    }
}

fn baseboard(files: &Files, entry: Option<&Board>) -> Baseboard {
    Baseboard {
        vendor: files.text("board_vendor", entry, Board::manufacturer),
        product: files.text("board_name", entry, Board::product),
        version: files.text("board_version", entry, Board::version),
        serial: files.text("board_serial", entry, Board::serial_number),
        asset_tag: files.text("board_asset_tag", entry, Board::asset_tag),
    }
}

fn product(files: &Files, entry: Option<&System>, version: Option<(u8, u8)>) -> Product {
    // The library drops the bytes of a UUID that is not set.
    let raw = entry.and_then(|entry| entry.parts().get_field_data(0x08, 0x18));
    let file = files.machine.parse(&files.path("product_uuid"), parse_uuid);
    let uuid = file.or_else(|| uuid_of_table(raw?, version)).filter(|uuid| !guid::is_unset(*uuid));
    let name = files.text("product_name", entry, System::product_name);
    let vendor = files.text("sys_vendor", entry, System::manufacturer);
    Product {
        source: (name.is_some() || vendor.is_some()).then(|| "smbios".to_owned()),
        vendor,
        name,
        version: files.text("product_version", entry, System::version),
        serial: files.text("product_serial", entry, System::serial_number),
        sku: files.text("product_sku", entry, System::sku_number),
        family: files.text("product_family", entry, System::family),
        uuid_swapped: uuid.map(|uuid| guid::uuid(&guid::swapped(uuid))),
        uuid: uuid.map(|uuid| guid::uuid(&uuid)),
        uuid_raw_hex: raw.map(hex),
        wake_up: entry.and_then(|entry| smbios::named(entry, 0x18, "wake_up")),
        compatible: Vec::new(),
    }
}

fn parse_uuid(text: &str) -> Result<[u8; 16], &'static str> {
    guid::parse(text).ok_or("a UUID such as 4c4c4544-0058-4a10-8034-b7c04f4b5a33")
}

/// The UUID in the order in which the kernel writes it: since SMBIOS 2.6 the first three groups are
/// little-endian (`dmi_save_uuid`, `drivers/firmware/dmi_scan.c`). `None` where the version is not known.
fn uuid_of_table(raw: &[u8], version: Option<(u8, u8)>) -> Option<[u8; 16]> {
    let bytes = <[u8; 16]>::try_from(raw).ok()?;
    Some(if version? >= (2, 6) { guid::swapped(bytes) } else { bytes })
}

fn bios(files: &Files, entry: Option<&Firmware>) -> Bios {
    Bios {
        vendor: files.text("bios_vendor", entry, Firmware::vendor),
        version: files.text("bios_version", entry, Firmware::version),
        date: files.text("bios_date", entry, Firmware::release_date),
        release: files.release("bios_release", entry, 0x14),
        embedded_controller_release: files.release("ec_firmware_release", entry, 0x16),
    }
}

/// Fills missing values from the device tree (Devicetree Specification, section 3.1), which boards without SMBIOS have.
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
    if product.source.is_none() && product.name.is_some() {
        product.source = Some("device_tree".to_owned());
    }
    product.serial = product.serial.take().or_else(serial);
    dmi.chassis.kind = dmi.chassis.kind.take().or_else(|| text("chassis-type"));
    // U-Boot leaves its version where it hands the tree on.
    let boot_loader = || text("chosen/u-boot,version");
    dmi.bios.version = dmi.bios.version.take().or_else(boot_loader);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::smbios::tests::structure;
    use crate::testing::{has, tree, tree_in, tree_of_bytes};

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
        has(&dmi.product, &json!({"vendor": "Dell Inc.", "name": "R650", "serial": "S1"}));
        has(&dmi.product, &json!({"uuid": "4c454444-0000-0000-0000-000000000000"}));
        has(&dmi.product, &json!({"uuid_raw_hex": "4444454c000000000000000000000000"}));
        // Bit 7 says that there is a lock.
        has(&dmi.chassis, &json!({"kind_code": 23, "kind": "Rack Mount Chassis"}));
    }

    #[test]
    fn an_arm_server_with_smbios_and_a_device_tree_is_named_by_smbios() {
        let machine = tree_in(&[
            ("sys/class/dmi/id", &[("sys_vendor", "Ampere"), ("product_name", "Mt. Jade")]),
            ("sys/firmware/devicetree/base", &[("compatible", "linux,dummy\0")]),
            ("sys/firmware/devicetree/base", &[("model", "linux,dummy\0")]),
        ]);
        has(&dmi(&machine).product, &json!({"name": "Mt. Jade", "source": "smbios"}));
    }

    #[test]
    fn a_uuid_is_given_in_both_byte_orders_and_raw() {
        let mut fields = vec![1, 2, 0, 3];
        fields.extend([0x44, 0x45, 0x4c, 0x4c, 0x58, 0, 0x10, 0x4a, 0x80, 0x34, 1, 2, 3, 4, 5, 6]);
        let table = structure(1, &[fields, vec![5]].concat(), &[b"a"]);
        for (version, uuid, swapped) in [
            (8, "4c4c4544-0058-4a10-8034-010203040506", "44454c4c-5800-104a-8034-010203040506"),
            (4, "44454c4c-5800-104a-8034-010203040506", "4c4c4544-0058-4a10-8034-010203040506"),
        ] {
            let entry = [b"_SM_\0\x1f\x02".as_slice(), &[version]].concat();
            let machine = tree_of_bytes(&[
                ("sys/firmware/dmi/tables/smbios_entry_point", &entry),
                ("sys/firmware/dmi/tables/DMI", &table),
            ]);
            let product = dmi(&machine).product;
            has(&product, &json!({"uuid": uuid, "uuid_swapped": swapped, "wake_up": "network"}));
            has(&product, &json!({"uuid_raw_hex": "44454c4c5800104a8034010203040506"}));
        }
    }

    #[test]
    fn table_of_unknown_version_has_no_uuid() {
        let raw: Vec<u8> = (0..16).collect();
        let of = |version| uuid_of_table(&raw, version).map(|uuid| uuid[..4].to_vec());
        assert_eq!(of(Some((2, 6))), Some(vec![3, 2, 1, 0]));
        assert_eq!((of(Some((2, 5))), of(None)), (Some(vec![0, 1, 2, 3]), None));
        assert_eq!(uuid_of_table(&raw[1..], Some((3, 0))), None);
    }

    #[test]
    fn strings_that_are_not_utf_8_are_escaped_and_placeholders_stay() {
        let table =
            structure(2, &[1, 2, 0, 3], &[b"M\xfcller", b"To be filled by O.E.M.", b"S\xff"]);
        let machine = tree_of_bytes(&[
            ("sys/class/dmi/id/board_name", b"X\xfe9 \n".as_slice()),
            ("sys/firmware/dmi/tables/DMI", &table),
        ]);
        let expected = json!({"vendor": "M\\xfcller", "product": "X\\xfe9", "serial": "S\\xff"});
        has(&dmi(&machine).baseboard, &expected);
    }

    #[test]
    fn without_root_what_is_denied_is_a_problem_and_the_rest_is_read() {
        let machine = tree(&[
            ("sys/class/dmi/id/product_name", "R650\n"),
            ("kernel/errors", "13 sys/class/dmi/id/product_uuid\n13 sys/firmware/dmi/tables/DMI\n"),
        ]);
        let product = dmi(&machine).product;
        assert_eq!((product.name.as_deref(), product.uuid), (Some("R650"), None));
        let found: Vec<_> = machine.problems().into_iter().map(|p| (p.path, p.found)).collect();
        assert!(found.contains(&(
            "/sys/class/dmi/id/product_uuid".to_owned(),
            "permission denied".to_owned()
        )));
    }

    #[test]
    fn a_board_without_smbios_is_named_by_its_device_tree() {
        let machine = tree(&[
            ("proc/device-tree/model", "Raspberry Pi 5\0"),
            ("proc/device-tree/compatible", "raspberrypi,5-model-b\0brcm,bcm2712\0"),
            ("proc/device-tree/serial-number", "62511f5a1550c74c\0"),
            ("proc/device-tree/chassis-type", "embedded\0"),
            ("proc/device-tree/chosen/u-boot,version", "2024.01\0"),
        ]);
        let Dmi { product, chassis, bios, .. } = dmi(&machine);
        has(&chassis, &json!({"kind": "embedded"}));
        has(&bios, &json!({"version": "2024.01"}));
        has(&product, &json!({"source": "device_tree", "serial": "62511f5a1550c74c"}));
        has(&product, &json!({"vendor": "raspberrypi", "name": "Raspberry Pi 5"}));
        has(&product, &json!({"compatible": ["raspberrypi,5-model-b", "brcm,bcm2712"]}));
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
}
