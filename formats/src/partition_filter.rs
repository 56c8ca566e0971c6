//! Partitions that coreos-installer keeps: patterns of labels and ranges of numbers (`--save-partlabel`,
//! `--save-partindex`; `src/install.rs`, `parse_partition_filters`).
//!
//! Patterns are those of Rust's `glob` crate, which coreos-installer uses: `?`, `*`, `[a-z]` and `[!a-z]`, with case.

use std::ops::RangeInclusive;

use glob::Pattern;

/// One filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// A pattern of labels.
    Label(Pattern),
    /// A range of numbers.
    Index(RangeInclusive<u32>),
}

impl Filter {
    /// The filters of an instruction. Commas separate several in one text.
    ///
    /// # Errors
    /// A message that names the text that is not a pattern or range.
    pub fn parse_all(labels: &[String], indexes: &[String]) -> Result<Vec<Filter>, String> {
        let split = |texts: &[String]| -> Vec<String> {
            texts.iter().flat_map(|text| text.split(',').map(str::to_owned)).collect()
        };
        let labels = split(labels).into_iter().map(|text| {
            pattern(&text).map(Filter::Label).ok_or_else(|| format!("{text:?} is not a pattern"))
        });
        let indexes = split(indexes).into_iter().map(|text| {
            let range = range(&text).ok_or_else(|| format!("{text:?} is not a number or range"));
            range.map(Filter::Index)
        });
        labels.chain(indexes).collect()
    }

    /// True if the partition with this number and label is kept.
    pub fn matches(&self, number: u32, label: &str) -> bool {
        match self {
            Self::Index(range) => range.contains(&number),
            Self::Label(pattern) => pattern.matches(label),
        }
    }
}

/// `5`, `5-7`, `5-` or `-7`; numbers begin with 1.
fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let end = |text: &str, open: u32| match text {
        "" => Some(open),
        _ => text.parse().ok().filter(|number| *number > 0),
    };
    let (first, last) = match text.split_once('-') {
        Some(("", "")) => return None,
        Some((first, last)) => (end(first, 1)?, end(last, u32::MAX)?),
        None => (end(text, 0)?, end(text, 0)?),
    };
    (first > 0 && first <= last).then_some(first..=last)
}

fn pattern(text: &str) -> Option<Pattern> {
    // Two of them are for paths, in which labels are not looked up.
    Pattern::new(text).ok().filter(|_| !text.contains("**"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label_matches(pattern: &str, label: &str) -> Option<bool> {
        let filters = Filter::parse_all(&[pattern.to_owned()], &[]).ok()?;
        Some(filters.iter().any(|filter| filter.matches(7, label)))
    }

    #[test]
    fn labels_match_as_coreos_installer_matches_them() {
        for (pattern, label, expected) in [
            ("data", "data", true),
            ("data*", "data", true),
            ("data*", "Data1", false),
            ("*data", "my-data", true),
            ("*a*a*", "banana", true),
            ("*x*", "banana", false),
            ("d?ta", "data", true),
            ("d?ta", "dta", false),
            ("var[0-9]", "var5", true),
            ("var[0-9]", "varx", false),
            ("var[!0-9]", "varx", true),
            ("var[]a]", "var]", true),
            ("", "", true),
            ("", "x", false),
            ("a,b", "b", true),
            ("*", "", true),
        ] {
            assert_eq!(label_matches(pattern, label), Some(expected), "{pattern} {label}");
        }
        for bad in ["**", "a**b", "[", "[]", "[!]", "[a"] {
            assert_eq!(label_matches(bad, "x"), None, "{bad}");
        }
    }

    #[test]
    fn numbers_match_as_coreos_installer_matches_them() {
        let kept = |text: &str| -> Option<Vec<u32>> {
            let filters = Filter::parse_all(&[], &[text.to_owned()]).ok()?;
            let is_kept = |n: &u32| filters.iter().any(|filter| filter.matches(*n, "x"));
            Some((1..10).filter(is_kept).collect())
        };
        assert_eq!(kept("5"), Some(vec![5]));
        assert_eq!(kept("5-7"), Some(vec![5, 6, 7]));
        assert_eq!(kept("7-"), Some(vec![7, 8, 9]));
        assert_eq!(kept("-2"), Some(vec![1, 2]));
        assert_eq!(kept("1,3-4"), Some(vec![1, 3, 4]));
        for bad in ["", "-", "--", "0", "0-2", "-2-3", "23q", "9-7", "0x7", "1,"] {
            assert_eq!(kept(bad), None, "{bad}");
        }
    }

    #[test]
    fn long_patterns_end_soon() {
        let pattern = "*a".repeat(120);
        assert_eq!(label_matches(&pattern, &"b".repeat(72)), Some(false));
        assert_eq!(label_matches(&pattern, &"a".repeat(72)), Some(false));
    }
}
