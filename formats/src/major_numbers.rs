//! Major numbers of device drivers: `/proc/devices` (`chrdev_show` in `fs/char_dev.c`), by procfs-core.

use procfs_core::{Devices, FromRead as _};

/// The major number of the character devices that are called `name`; `None` if there are none.
pub fn of_character_devices(text: &str, name: &str) -> Option<u32> {
    let devices = Devices::from_read(text.as_bytes()).ok()?;
    devices.char_devices.iter().find(|device| device.name == name).map(|device| device.major)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Character devices:\n  1 mem\n240 raid_ioctl\n\nBlock devices:\n  8 sd\n";

    #[test]
    fn only_character_devices_of_exactly_that_name_count() {
        assert_eq!(of_character_devices(TEXT, "raid_ioctl"), Some(240));
        for absent in ["raid_ioctl2", "raid", "sd", ""] {
            assert_eq!(of_character_devices(TEXT, absent), None, "{absent}");
        }
    }

    #[test]
    fn damaged_text_gives_no_number() {
        for text in ["", "240 raid_ioctl\nx y\n", "Character devices:\n240\n", "-1 raid_ioctl\n"] {
            assert_eq!(of_character_devices(text, "raid_ioctl"), None, "{text}");
        }
    }
}
