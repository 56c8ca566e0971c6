//! Natural order of names: `sda` before `sdb` before `sdaa`, `cpu2` before `cpu10`.

use std::cmp::Ordering;

/// Compares two kernel names in natural order: runs of digits by value, runs of lower-case letters after
/// a common prefix first by length (so that `sdz` comes before `sdaa`), the rest by byte.
pub fn compare(a: &str, b: &str) -> Ordering {
    let (mut a_rest, mut b_rest) = from_first_difference(a, b);
    while let (Some(a_first), Some(b_first)) =
        (a_rest.as_bytes().first(), b_rest.as_bytes().first())
    {
        // Names of a directory differ early, and most comparisons end here.
        if a_first != b_first && !(a_first.is_ascii_digit() && b_first.is_ascii_digit()) {
            return a_first.cmp(b_first);
        }
        let (a_run, a_next) = split_run(a_rest);
        let (b_run, b_next) = split_run(b_rest);
        let order = compare_runs(a_run, b_run);
        if order != Ordering::Equal {
            return order;
        }
        (a_rest, b_rest) = (a_next, b_next);
    }
    a_rest.len().cmp(&b_rest.len()).then_with(|| a.cmp(b))
}

/// Both names from the start of the first run that differs.
fn from_first_difference<'a, 'b>(a: &'a str, b: &'b str) -> (&'a str, &'b str) {
    let n_equal = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    let equal = a.as_bytes().get(..n_equal).unwrap_or_default();
    let n_last_run = equal.last().map_or(0, |last| {
        equal.iter().rev().take_while(|byte| class(**byte) == class(*last)).count()
    });
    let start = n_equal - n_last_run;
    (a.get(start..).unwrap_or(a), b.get(start..).unwrap_or(b))
}

/// Splits off the first run of characters of one class: digits, lower-case letters, others.
fn split_run(text: &str) -> (&str, &str) {
    let first = text.bytes().next().map(class);
    let end = text.bytes().position(|byte| Some(class(byte)) != first).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// Digits, lower-case letters, others.
fn class(byte: u8) -> (bool, bool) {
    (byte.is_ascii_digit(), byte.is_ascii_lowercase())
}

/// A total order of runs; that makes the order of names total, which sorting relies on.
fn compare_runs(a: &str, b: &str) -> Ordering {
    let is_number = |run: &str| run.starts_with(|c: char| c.is_ascii_digit());
    if is_number(a) && is_number(b) {
        let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
        return a.len().cmp(&b.len()).then_with(|| a.cmp(b));
    }
    if disk_prefix(a).is_some() && disk_prefix(a) == disk_prefix(b) {
        return a.len().cmp(&b.len()).then_with(|| a.cmp(b));
    }
    a.cmp(b)
}

/// The disks of these drivers are counted in letters (`sd_format_disk_name`, `drivers/scsi/sd.c`).
fn disk_prefix(run: &str) -> Option<&'static str> {
    ["sd", "vd", "hd", "xvd"].into_iter().find(|prefix| run.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_in_the_kernels_counting_order() {
        let mut names = vec![
            "sdaa", "sdb", "sda", "sda10", "sda2", "cpu10", "cpu2", "nvme1n1", "nvme0n1", "bond0",
        ];
        names.sort_by(|a, b| compare(a, b));
        assert_eq!(
            names,
            ["bond0", "cpu2", "cpu10", "nvme0n1", "nvme1n1", "sda", "sda2", "sda10", "sdb", "sdaa"]
        );
    }

    #[test]
    fn numbers_compare_by_value_even_if_names_differ_within_them() {
        let mut names =
            vec!["nvme0n10p1", "nvme0n1p10", "nvme0n1p9", "nvme0n9", "nvme0n12", "nvme0n1"];
        names.sort_by(|a, b| compare(a, b));
        assert_eq!(
            names,
            ["nvme0n1", "nvme0n1p9", "nvme0n1p10", "nvme0n9", "nvme0n10p1", "nvme0n12"]
        );
        assert_eq!(compare("sdz1", "sdaa1"), Ordering::Less);
    }

    #[test]
    fn names_without_letters_or_with_other_scripts_do_not_panic() {
        assert_eq!(compare("", "a"), Ordering::Less);
        assert_eq!(compare("é1", "é2"), Ordering::Less);
        assert_eq!(compare("01", "1"), Ordering::Less);
    }

    #[test]
    fn order_is_total_so_that_sorting_hostile_names_cannot_panic() {
        let names = [
            "sdb", "sdaa", "sdab-x", "sda-x", "sd", "s", "-", "--", "-a", "A", "é", "1", "01", "1a",
        ];
        for a in names {
            for b in names {
                assert_eq!(compare(a, b), compare(b, a).reverse(), "{a} {b}");
                for c in names {
                    if compare(a, b).is_lt() && compare(b, c).is_lt() {
                        assert!(compare(a, c).is_lt(), "{a} {b} {c}");
                    }
                }
            }
        }
    }
}
