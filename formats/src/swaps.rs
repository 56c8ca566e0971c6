//! Swap areas: `/proc/swaps` (`swap_show` in `mm/swapfile.c`). procfs-core has no parser of it.
//!
//! It has no secret fields: the path of a swap file says which mount it is in.

use crate::octal;

/// A swap area in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapArea {
    /// Path of the device or file, e.g. `/dev/sda2`.
    pub path: String,
    /// True if it is a block device, not a file; `None` where the line does not contain its type.
    pub is_partition: Option<bool>,
}

/// The swap areas of a `/proc/swaps` file.
pub fn parse(text: &str) -> Vec<SwapArea> {
    let area = |line: &str| {
        let mut columns = line.split_ascii_whitespace();
        let path = octal::decode(columns.next()?);
        let is_partition = match columns.next() {
            Some("partition") => Some(true),
            Some("file") => Some(false),
            _ => None,
        };
        Some(SwapArea { path, is_partition })
    };
    text.lines().skip(1).filter_map(area).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Filename\t\tType\t\tSize\tUsed\tPriority\n\
                        /dev/sda2                               partition\t1\t0\t-2\n\
                        /var/my\\040swap (deleted)\tfile\t1\t0\t-3\n";

    #[test]
    fn devices_and_files_are_areas_and_the_heading_is_none() {
        let areas = parse(TEXT);
        assert_eq!(areas.len(), 2);
        assert_eq!((areas[0].path.as_str(), areas[0].is_partition), ("/dev/sda2", Some(true)));
        assert_eq!(areas[1].path, "/var/my swap");
        assert!(parse("Filename Type\n").is_empty() && parse("").is_empty());
    }
}
