//! Natural order of names: `sda` before `sdb` before `sdaa`, `cpu2` before `cpu10`.

use std::cmp::Ordering;

/// Compares two kernel names in natural order: runs of digits by value, runs of lower-case letters after
/// a common prefix first by length (so that `sdz` comes before `sdaa`), the rest by byte.
pub fn compare(a: &str, b: &str) -> Ordering {
    let (a_rest, b_rest) = from_first_difference(a.as_bytes(), b.as_bytes());
    let mut orders = runs(a_rest).zip(runs(b_rest)).map(|(a, b)| compare_runs(a, b));
    let by_length = || runs(a_rest).count().cmp(&runs(b_rest).count());
    orders.find(|order| order.is_ne()).unwrap_or_else(by_length).then_with(|| a.cmp(b))
}

/// Both names from the start of the first run that differs.
fn from_first_difference<'a>(a: &'a [u8], b: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let n_equal = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (equal, _) = a.split_at(n_equal);
    let is_other = |byte: &u8| Some(class(*byte)) != equal.last().map(|last| class(*last));
    let start = equal.iter().rposition(is_other).map_or(0, |end| end + 1);
    (a.split_at(start).1, b.split_at(start).1)
}

/// The runs of characters of one class.
fn runs(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.chunk_by(|one, next| class(*one) == class(*next))
}

/// Digits, lower-case letters, others.
fn class(byte: u8) -> (bool, bool) {
    (byte.is_ascii_digit(), byte.is_ascii_lowercase())
}

/// A total order of runs; that makes the order of names total, which sorting relies on.
fn compare_runs(a: &[u8], b: &[u8]) -> Ordering {
    let by_length = |a: &[u8], b: &[u8]| a.len().cmp(&b.len()).then_with(|| a.cmp(b));
    match (value(a), value(b)) {
        (Some(a), Some(b)) => by_length(a, b),
        _ if disk_prefix(a).is_some() && disk_prefix(a) == disk_prefix(b) => by_length(a, b),
        _ => a.cmp(b),
    }
}

/// The digits of a number without leading zeros.
fn value(run: &[u8]) -> Option<&[u8]> {
    let is_number = run.first().is_some_and(u8::is_ascii_digit);
    is_number.then(|| run.split_at(run.iter().take_while(|digit| **digit == b'0').count()).1)
}

/// The disks of these drivers are counted in letters (`sd_format_disk_name`, `drivers/scsi/sd.c`).
fn disk_prefix(run: &[u8]) -> Option<&'static str> {
    ["sd", "vd", "hd", "xvd"].into_iter().find(|prefix| run.starts_with(prefix.as_bytes()))
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
