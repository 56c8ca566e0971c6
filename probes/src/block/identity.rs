//! Identity of a disk: vendor, model, serial number, firmware, WWN, EUI-64, NGUID.
//!
//! The kernel's own attributes take precedence, because udev replaces blanks; udev fills the gaps.
//! An identifier of zeros does not count.

use formats::text::padded;
use formats::vpd;
use formats::wwn::{self, is_blank};
use std::collections::BTreeSet;

use crate::machine::{Machine, quote};
use crate::udev::unescape_hex;

use super::disk::Disk;
use super::identifier::squash;
use super::listing::BlockDevice;
use formats::ata_identify::Identify;
use formats::disk_security;

/// Reads the identity: the disk without all other facts.
pub(super) fn identity(machine: &Machine, device: &BlockDevice, transport: Option<&str>) -> Disk {
    let at = Place::new(machine, device);
    let ata = at.ata();
    let wwid = at.attribute(&["wwid", "device/wwid"]);
    let mut issues = Vec::new();
    let mut serials = serials(&at, transport, wwid.as_deref());
    reject_blank(machine, device, "serial number", &mut serials, &mut issues);
    let mut wwns = wwns(&at, wwid.as_deref());
    reject_blank(machine, device, "WWN", &mut wwns, &mut issues);
    let mut distinct = BTreeSet::new();
    serials.retain(|serial| distinct.insert(squash(serial)));
    let mut serials = serials.into_iter();
    let attribute = |attributes: &[&str]| if at.is_pci { None } else { at.attribute(attributes) };
    let vendor = attribute(&["device/vendor"]).filter(|vendor| !is_number(vendor));
    let of_udev = || at.udev(&["ID_VENDOR_ENC", "ID_VENDOR"]);
    let model = attribute(&["device/model", "device/name"]);
    let model = fuller(model, ata.and_then(Identify::model));
    let firmware = attribute(&["device/rev", "device/firmware_rev", "device/fwrev"]);
    let firmware = fuller(firmware, ata.and_then(Identify::firmware));
    Disk {
        vendor: vendor.or_else(of_udev).filter(|vendor| !is_number(vendor)),
        model: fuller(model, at.udev(&["ID_MODEL_ENC", "ID_MODEL", "ID_NAME"])),
        serial: serials.next(),
        other_serials: serials.collect(),
        firmware: fuller(firmware, at.udev(&["ID_REVISION"])),
        wwn: wwns.into_iter().next(),
        eui64: at.attribute(&["eui"]).and_then(|text| id_of_bytes(&text, 8)),
        nguid: at.attribute(&["nguid"]).and_then(|text| id_of_bytes(&text, 16)),
        wwid: wwid.filter(|id| !is_blank(id)),
        rotation_rpm: vpd::rotation_rpm(&at.kind_page)
            .or_else(|| ata?.known_word(217).and_then(vpd::rpm)),
        form_factor: vpd::form_factor(&at.kind_page)
            .or_else(|| vpd::form_factor_name(ata?.known_word(168)?))
            .map(str::to_owned),
        security: ata.map(disk_security::of_ata),
        identity_issues: issues,
        ..Disk::default()
    }
}

/// True if the vendor is an id such as `0x1af4`, as of a virtio device, and not a name.
fn is_number(vendor: &str) -> bool {
    let digits = vendor.strip_prefix("0x").unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Source of one disk's attributes.
struct Place<'a> {
    machine: &'a Machine,
    device: &'a BlockDevice,
    /// True if its `device` is a PCI function, as with old RAID drivers: the vendor of that function is not the vendor
    /// of the disk.
    is_pci: bool,
    /// VPD page 80h of a SCSI disk, the serial number; as the other pages empty if the kernel does not keep it.
    serial_page: Vec<u8>,
    /// VPD page 83h, identifiers.
    ids_page: Vec<u8>,
    /// VPD page B1h, the kind of medium.
    kind_page: Vec<u8>,
}

impl<'a> Place<'a> {
    fn new(machine: &'a Machine, device: &'a BlockDevice) -> Place<'a> {
        let other = ["nvme", "vd", "mmcblk", "xvd", "pmem", "dasd", "dm-"];
        let is_scsi = !other.iter().any(|prefix| device.name.starts_with(prefix));
        let page = |name: &str| {
            let path = device.at(&format!("device/{name}")).filter(|_| is_scsi);
            path.and_then(|path| machine.bytes(&path)).unwrap_or_default()
        };
        let [serial_page, ids_page, kind_page] = ["vpd_pg80", "vpd_pg83", "vpd_pgb1"].map(page);
        let subsystem = device.at("device/subsystem").filter(|_| !device.name.starts_with("sd"));
        let is_pci = subsystem.and_then(|path| machine.link_name(&path)).as_deref() == Some("pci");
        Place { machine, device, is_pci, serial_page, ids_page, kind_page }
    }

    fn ata(&self) -> Option<Identify<'a>> {
        Identify::of_page(&self.device.ata_page)
    }

    /// The first of the kernel's attributes that is not empty.
    fn attribute(&self, attributes: &[&str]) -> Option<String> {
        let read = |name: &&str| padded(self.device.text(self.machine, name)?.as_bytes());
        attributes.iter().find_map(read)
    }

    /// The first of udev's properties that is not empty.
    fn udev(&self, names: &[&str]) -> Option<String> {
        let read = |name: &&str| {
            let value = self.device.udev.property(name)?;
            let plain = if name.ends_with("_ENC") { unescape_hex(value) } else { value.to_owned() };
            padded(plain.as_bytes())
        };
        names.iter().find_map(read)
    }
}

/// Every serial number from any source, the best first.
fn serials(at: &Place, transport: Option<&str>, wwid: Option<&str>) -> Vec<String> {
    let is_usb = transport == Some("usb");
    let of_kernel = [
        at.attribute(&["serial", "device/serial", "device/uid"]),
        vpd::unit_serial(&at.serial_page),
        at.ata().and_then(Identify::serial),
        if is_usb { usb_serial(at) } else { None },
        wwid.and_then(wwn::ata_serial),
    ];
    let mut of_kernel: Vec<String> = of_kernel.into_iter().flatten().collect();
    if of_kernel.is_empty() {
        let model = at.attribute(&["device/model"]).unwrap_or_default();
        let vendor = at.attribute(&["device/vendor"]).unwrap_or_default();
        let of_vendor = || vpd::vendor_specific_serial(&at.ids_page, &vendor, &model);
        of_kernel.extend(vpd::t10_serial(&at.ids_page, &model).or_else(of_vendor));
    }
    let names = ["ID_SERIAL_SHORT", "ID_SCSI_SERIAL", "SCSI_IDENT_SERIAL"];
    let of_udev = names.iter().map(|name| at.udev(&[name]));
    let mut serials: Vec<String> = of_kernel.into_iter().chain(of_udev.flatten()).collect();
    if serials.is_empty() {
        serials.extend(at.udev(&["ID_SERIAL"]));
    }
    serials
}

/// The serial number of the USB device above the disk.
fn usb_serial(at: &Place) -> Option<String> {
    let mut path = at.device.path.as_str();
    while let Some((above, _)) = path.rsplit_once('/') {
        if at.machine.text(&format!("{above}/idVendor")).is_some() {
            return at.machine.text(&format!("{above}/serial"));
        }
        path = above;
    }
    None
}

/// Every WWN from any source, the best first.
fn wwns(at: &Place, wwid: Option<&str>) -> Vec<String> {
    let page = &at.ids_page;
    [
        wwid.and_then(wwn::of_wwid),
        vpd::naa(page),
        vpd::eui(page),
        at.ata().and_then(Identify::wwn),
        at.udev(&["ID_WWN_WITH_EXTENSION"]),
        at.udev(&["ID_WWN"]),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Removes identifiers of only zeros or only ones, and reports them.
fn reject_blank(
    machine: &Machine,
    device: &BlockDevice,
    what: &str,
    ids: &mut Vec<String>,
    issues: &mut Vec<String>,
) {
    ids.retain(|id| {
        let is_rejected = is_blank(id);
        if is_rejected {
            issues.push(format!("{what} is {}", quote(id)));
            machine.problem(&device.path, quote(id), format!("a {what} that is not blank"));
        }
        !is_rejected
    });
    issues.dedup();
}

/// The longer of two forms of one text: the kernel exposes 16 characters of an ATA model and 4 of its firmware, but
/// udev exposes them in full.
fn fuller(kernel: Option<String>, udev: Option<String>) -> Option<String> {
    match (kernel, udev) {
        (Some(kernel), Some(udev)) => {
            let (short, long) = (squash(&kernel), squash(&udev));
            let is_fuller = !short.is_empty() && long.len() > short.len();
            let is_same = long.starts_with(&short) || long.ends_with(&short);
            Some(if is_fuller && is_same { udev } else { kernel })
        }
        (kernel, udev) => kernel.or(udev),
    }
}

/// An identifier that the kernel writes as bytes with blanks or as a UUID, as plain digits.
fn id_of_bytes(text: &str, n_bytes: usize) -> Option<String> {
    let digits: String = text.chars().filter(|c| !" -".contains(*c)).collect();
    let is_id = digits.len() == 2 * n_bytes && digits.bytes().all(|b| b.is_ascii_hexdigit());
    (is_id && !is_blank(&digits)).then(|| digits.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{has, tree, tree_in, tree_of_bytes};
    use crate::udev::UdevEntry;
    use serde_json::json;

    fn device(properties: &[(&str, &str)]) -> BlockDevice {
        let properties = properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        BlockDevice {
            name: "sda".to_owned(),
            path: "sys/block/sda".to_owned(),
            udev: UdevEntry { properties: properties.collect(), links: Vec::new() },
            ..BlockDevice::default()
        }
    }

    #[test]
    fn kernel_attributes_win_over_udev_and_both_serials_are_kept() {
        let machine = tree_of_bytes(&[
            ("sys/block/sda/device/vpd_pg80", b"\x00\x80\x00\x04Z1Z0"),
            ("sys/block/sda/device/wwid", b"naa.5000C500A1B2C3D4\n"),
            ("sys/block/sda/device/model", b"ST4000NM0023    \n"),
        ]);
        let udev = [("ID_SERIAL_SHORT", "5000c500a1b2c3d4"), ("ID_SCSI_SERIAL", "Z1Z0")];
        let identity = identity(&machine, &device(&udev), Some("sas"));
        let expected = json!({
            "serial": "Z1Z0", "other_serials": ["5000c500a1b2c3d4"], "wwn": "0x5000c500a1b2c3d4",
            "model": "ST4000NM0023",
        });
        has(&identity, &expected);
    }

    #[test]
    fn full_model_and_firmware_of_an_ata_disk_come_from_udev() {
        let machine =
            tree_in(&[("sys/block/sda/device", &[("model", "Samsung SSD 860 "), ("rev", "2B6Q")])]);
        let udev =
            [("ID_MODEL_ENC", r"Samsung\x20SSD\x20860\x20EVO\x20"), ("ID_REVISION", "RVT02B6Q")];
        let identity = identity(&machine, &device(&udev), Some("sata"));
        has(&identity, &json!({"model": "Samsung SSD 860 EVO", "firmware": "RVT02B6Q"}));
    }

    #[test]
    fn id_of_a_virtio_vendor_is_not_a_name() {
        let vendor = |text: &str| {
            let machine =
                tree(&[("sys/block/vda/size", "8\n"), ("sys/block/vda/device/vendor", text)]);
            crate::block::block(&machine).disks[0].vendor.clone()
        };
        assert_eq!(vendor("0x1af4\n"), None);
        assert_eq!(vendor("QEMU\n").as_deref(), Some("QEMU"));
    }

    #[test]
    fn nvme_identifiers_are_plain_digits() {
        assert_eq!(id_of_bytes("00 25 38 5b 11 b2 c3 d4", 8).as_deref(), Some("0025385b11b2c3d4"));
        assert_eq!(
            id_of_bytes("0025385b-11b2-c3d4-0000-000000000001", 16).as_deref(),
            Some("0025385b11b2c3d40000000000000001")
        );
        assert_eq!(id_of_bytes("xyz", 8), None);
    }

    #[test]
    fn identifiers_of_zeros_are_absent_and_reported() {
        let machine = tree_in(&[
            ("sys/block/sda", &[("wwid", "naa.0000000000000000")]),
            ("sys/block/sda", &[("eui", "00 00 00 00 00 00 00 00"), ("serial", "0000000000")]),
        ]);
        let found = identity(&machine, &device(&[]), None);
        has(&found, &json!({"wwn": null, "wwid": null, "eui64": null, "serial": null}));
        assert_eq!(found.identity_issues.len(), 2);
        assert_eq!(machine.problems().len(), 2);
    }
}
