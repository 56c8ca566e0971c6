//! Sizes for people: memory in binary units, disks in decimal ones, at most one decimal.

/// A memory size in binary units: `48GiB`, `1.5TiB`, `640KiB`.
pub(super) fn memory(bytes: u64) -> String {
    scaled(bytes, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// A disk size in decimal units, as on the disk's label: `960GB`, `1.9TB`.
pub(crate) fn disk(bytes: u64) -> String {
    scaled(bytes, 1000, ["B", "KB", "MB", "GB", "TB", "PB"])
}

/// A cache size in KiB. The VIM document prints `32 KB`, which is a different unit.
pub(super) fn cache(bytes: u64) -> String {
    format!("{} KiB", bytes / 1024)
}

/// A measured value, given in thousandths of `unit`: volts and amperes keep three decimals, since a
/// 1.2 V rail fails at 1.14 V; the rest is rounded to one.
pub(super) fn measured(thousandths: i64, unit: &str) -> String {
    let (n_decimals, step) = if matches!(unit, "V" | "A") { (3, 1) } else { (1, 100) };
    let rounded = (thousandths.unsigned_abs() + step / 2) / step;
    let sign = if thousandths < 0 && rounded > 0 { "-" } else { "" };
    let whole = 1000 / step;
    let text = format!("{sign}{}.{:0n_decimals$} {unit}", rounded / whole, rounded % whole);
    text.trim_end().to_owned()
}

/// A USB speed in the standard's unit: `1.5Mbit/s`, `480Mbit/s`, `5000Mbit/s`.
pub(super) fn usb_speed(kbit_s: u64) -> String {
    match (kbit_s / 1000, kbit_s % 1000) {
        (mbit_s, 0) => format!("{mbit_s}Mbit/s"),
        (mbit_s, rest) => format!("{}Mbit/s", format!("{mbit_s}.{rest:03}").trim_end_matches('0')),
    }
}

fn scaled(bytes: u64, base: u64, units: [&str; 6]) -> String {
    let (mut divisor, mut index) = (1_u64, 0);
    while bytes / divisor >= base && index + 1 < units.len() {
        divisor *= base;
        index += 1;
    }
    let tenths = (u128::from(bytes) * 10 + u128::from(divisor) / 2) / u128::from(divisor);
    // From 100 on a decimal adds nothing.
    let tenths = if tenths < 1000 { tenths } else { (tenths + 5) / 10 * 10 };
    match (tenths / 10, tenths % 10) {
        (whole, _) if whole >= u128::from(base) && index + 1 < units.len() => {
            format!("1{}", units[index + 1])
        }
        (whole, 0) => format!("{whole}{}", units[index]),
        (whole, tenth) => format!("{whole}.{tenth}{}", units[index]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_the_size_of_its_label() {
        assert_eq!(disk(1_000_204_886_016), "1TB");
        assert_eq!(disk(960_197_124_096), "960GB");
        assert_eq!(disk(1_920_383_410_176), "1.9TB");
        assert_eq!(disk(512), "512B");
        assert_eq!(disk(0), "0B");
    }

    #[test]
    fn memory_is_in_binary_units() {
        assert_eq!(memory(48 << 30), "48GiB");
        assert_eq!(memory((3 << 40) / 2), "1.5TiB");
        assert_eq!(memory(u64::MAX), "16384PiB");
    }

    #[test]
    fn a_measured_value_is_rounded_and_zero_has_no_sign() {
        for (thousandths, unit, expected) in [
            (3290, "V", "3.290 V"),
            (1197, "V", "1.197 V"),
            (-5, "A", "-0.005 A"),
            (0, "A", "0.000 A"),
            (-50, "°C", "-0.1 °C"),
            (-49, "°C", "0.0 °C"),
            (97_250, "°C", "97.3 °C"),
            (99_960, "W", "100.0 W"),
            (1500, "", "1.5"),
        ] {
            assert_eq!(measured(thousandths, unit), expected);
        }
        assert_eq!(measured(i64::MIN, "V"), "-9223372036854775.808 V");
    }

    #[test]
    fn a_usb_speed_is_printed_as_in_the_standard() {
        let speeds = [1500, 12_000, 480_000, 5_000_000].map(usb_speed);
        assert_eq!(speeds, ["1.5Mbit/s", "12Mbit/s", "480Mbit/s", "5000Mbit/s"]);
    }

    #[test]
    fn a_size_that_rounds_up_to_the_next_unit_is_printed_in_it() {
        assert_eq!(disk(999_960_000_000), "1TB");
        assert_eq!(disk(999_600_000_000), "1TB");
        assert_eq!((disk(999_400_000_000), disk(99_960_000)), ("999GB".into(), "100MB".into()));
        assert_eq!(memory((1 << 30) - 1), "1GiB");
    }
}
