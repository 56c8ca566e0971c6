//! Media that a management controller shows to the machine as USB disks: names as data.

use formats::data;

/// Starts of their vendors and models.
const NAMES: &str = include_str!("../../data/virtual-media.txt");

/// Words that only such drives carry in their model.
const WORDS: [&str; 5] =
    ["virtual floppy", "virtual cd", "virtual media", "virtual hdisk", "oemdrv"];

/// True if a disk is such a medium, by its transport, vendor and model.
pub(super) fn is_virtual_media(
    transport: Option<&str>,
    vendor: Option<&str>,
    model: Option<&str>,
) -> bool {
    let plain = |text: Option<&str>| text.unwrap_or_default().trim().to_ascii_lowercase();
    let (vendor, model) = (plain(vendor), plain(model));
    let is_named = |[v, m]: [&str; 2]| vendor.starts_with(v) && model.starts_with(m);
    transport == Some("usb")
        && (data::rows(NAMES).filter_map(data::cells).any(is_named)
            || WORDS.iter().any(|word| model.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_of_management_controllers_and_usb_sticks_are_distinguished() {
        let is = |vendor, model| is_virtual_media(Some("usb"), Some(vendor), Some(model));
        assert!(is("AMI", "Virtual Floppy0"));
        assert!(is("iDRAC", "LCDRIVE"));
        assert!(is("HP iLO", "Virtual DVD-ROM"));
        assert!(is("iLO", "Virtual DVD-ROM"));
        assert!(!is("SanDisk", "Ultra USB 3.0"));
        assert!(!is("QEMU", "QEMU HARDDISK"));
        assert!(!is_virtual_media(Some("sas"), Some("Dell"), Some("Virtual Disk")));
    }
}
