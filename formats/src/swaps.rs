//! Swap areas: `/proc/swaps` (`swap_show` in `mm/swapfile.c`). procfs-core has no parser of it.

use crate::octal;
use crate::{Field, Kind};

/// A swap area in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapArea {
    /// Path of the device or file, e.g. `/dev/sda2`.
    pub path: String,
    /// Whether it is a block device, not a file; `None` where the line does not contain its type.
    pub is_partition: Option<bool>,
}

/// The swap areas of a `/proc/swaps` file.
#[must_use]
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

/// What the file reveals: names of files that a person chose.
#[must_use]
pub fn fields(text: &str) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut start = 0;
    for (index, line) in text.split('\n').enumerate() {
        let path = line.split_ascii_whitespace().next().unwrap_or_default();
        if index > 0 && !path.is_empty() {
            let at = start + line.len() - line.trim_ascii_start().len();
            let is_device = path.starts_with("/dev/");
            let kind = if is_device { Kind::Plain } else { Kind::FreeText };
            fields.push(Field::text(at..at + path.len(), kind));
        }
        start += line.len() + 1;
    }
    fields
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

    #[test]
    fn a_swap_file_is_free_text_and_a_device_is_plain() {
        let found: Vec<(Kind, &[u8])> =
            fields(TEXT).iter().map(|f| (f.kind, f.bytes(TEXT.as_bytes()))).collect::<Vec<_>>();
        let expected: [(Kind, &[u8]); 2] =
            [(Kind::Plain, b"/dev/sda2"), (Kind::FreeText, b"/var/my\\040swap")];
        assert_eq!(found, expected);
    }
}
