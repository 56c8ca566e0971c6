//! Names of vendors, devices and classes, from pci.ids as the crate `pci-ids` compiles it in.

use pci_ids::{Class, Device, FromId as _, Subclass, Vendor};

use super::PciDevice;
use super::ids::Ids;

/// Fills in the names of the ids; a name that the list lacks stays absent.
pub(super) fn set(ids: &Ids, device: &mut PciDevice) {
    device.class_name = ids.class.and_then(class_name).map(str::to_owned);
    let Some(vendor) = ids.vendor.and_then(Vendor::from_id) else { return };
    device.vendor_name = Some(vendor.name().to_owned());
    let Some(model) = ids.device.and_then(|id| Device::from_vid_pid(vendor.id(), id)) else {
        return;
    };
    device.device_name = Some(model.name().to_owned());
    if let (Some(subvendor), Some(subdevice)) = (ids.subvendor, ids.subdevice) {
        let is_ours = |(a, b): (u16, u16)| (a, b) == (subvendor, subdevice);
        let subsystem = model.subsystems().find(|s| is_ours((s.subvendor(), s.subdevice())));
        device.subsystem_name = subsystem.map(|subsystem| subsystem.name().to_owned());
    }
}

fn class_name(class: u32) -> Option<&'static str> {
    let [_, base, sub, _] = class.to_be_bytes();
    let subclass = Subclass::from_cid_sid(base, sub).map(Subclass::name);
    subclass.or_else(|| Class::from_id(base).map(Class::name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_ids_have_names_and_unknown_ones_have_none() {
        assert_eq!(class_name(0x02_00_00), Some("Ethernet controller"));
        assert_eq!(class_name(0x02_7f_00), Some("Network controller"));
        assert_eq!(class_name(0x77_00_00), None);
        let mut device = PciDevice::default();
        set(&Ids { vendor: Some(0x8086), device: Some(0xfffe), ..Ids::default() }, &mut device);
        assert_eq!(device.vendor_name.as_deref(), Some("Intel Corporation"));
        assert_eq!(device.device_name, None);
    }
}
