//! Sizes as people say them: memory in binary units, disks in decimal ones, at most one decimal.

/// A memory size in binary units: `48GiB`, `1.5TiB`, `640KiB`.
#[must_use]
pub(super) fn memory(bytes: u64) -> String {
    scaled(bytes, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// A disk size in decimal units, as it is printed on the disk: `960GB`, `1.9TB`.
#[must_use]
pub(super) fn disk(bytes: u64) -> String {
    scaled(bytes, 1000, ["B", "KB", "MB", "GB", "TB", "PB"])
}

/// A cache size in KiB: `32 KB` in the VIM document's spelling would be a wrong unit.
#[must_use]
pub(super) fn cache(bytes: u64) -> String {
    format!("{} KiB", bytes / 1024)
}

fn scaled(bytes: u64, base: u64, units: [&str; 6]) -> String {
    let (mut divisor, mut index) = (1_u64, 0);
    while bytes / divisor >= base && index + 1 < units.len() {
        divisor *= base;
        index += 1;
    }
    let tenths = (u128::from(bytes) * 10 + u128::from(divisor) / 2) / u128::from(divisor);
    if tenths >= u128::from(base) * 10 && index + 1 < units.len() {
        return format!("1{}", units[index + 1]);
    }
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole}{}", units[index]),
        (whole, _) if whole >= 100 => {
            format!("{}{}", (tenths + 5) / 10, units[index])
        }
        (whole, tenth) => format!("{whole}.{tenth}{}", units[index]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_the_size_that_is_printed_on_it() {
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
    fn rounding_up_to_the_next_unit_takes_that_unit() {
        assert_eq!(disk(999_960_000_000), "1TB");
        assert_eq!(memory((1 << 30) - 1), "1GiB");
    }
}
