//! Which partitions coreos-installer keeps: patterns of labels and ranges of numbers (`--save-partlabel`,
//! `--save-partindex`; `src/install.rs`, `parse_partition_filters`).
//!
//! Patterns are those of Rust's `glob` crate: `?`, `*`, `[a-z]` and `[!a-z]`, with case.

use std::ops::RangeInclusive;

/// One filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// A pattern of labels.
    Label(Vec<Token>),
    /// A range of numbers.
    Index(RangeInclusive<u32>),
}

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// This character.
    Char(char),
    /// Any one character.
    Any,
    /// Any number of characters.
    Many,
    /// One character in these ranges, or outside of them.
    Class {
        /// Whether the character must be inside.
        is_inside: bool,
        /// The ranges.
        ranges: Vec<RangeInclusive<char>>,
    },
}

impl Filter {
    /// The filters of an instruction. Commas separate several in one text.
    ///
    /// # Errors
    /// In words: which text is no pattern or range.
    pub fn parse_all(labels: &[String], indexes: &[String]) -> Result<Vec<Filter>, String> {
        let split = |texts: &[String]| -> Vec<String> {
            texts.iter().flat_map(|text| text.split(',').map(str::to_owned)).collect()
        };
        let labels = split(labels).into_iter().map(|text| {
            let tokens = pattern(&text).ok_or_else(|| format!("{text:?} is not a pattern"));
            tokens.map(Filter::Label)
        });
        let indexes = split(indexes).into_iter().map(|text| {
            let range = range(&text).ok_or_else(|| format!("{text:?} is not a number or range"));
            range.map(Filter::Index)
        });
        labels.chain(indexes).collect()
    }

    /// Whether the partition with this number and label is kept.
    #[must_use]
    pub fn matches(&self, number: u32, label: &str) -> bool {
        match self {
            Self::Index(range) => range.contains(&number),
            Self::Label(tokens) => {
                let label: Vec<char> = label.chars().collect();
                matches(tokens, &label)
            }
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

fn pattern(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest: &[char] = &text.chars().collect::<Vec<_>>();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        tokens.push(match first {
            '?' => Token::Any,
            // Two of them are for paths, in which labels are not looked up.
            '*' if after.first() == Some(&'*') => return None,
            '*' => Token::Many,
            '[' => {
                let is_inside = after.first() != Some(&'!');
                let class = if is_inside { after } else { &after[1..] };
                // A bracket that comes first is part of the class.
                let end = 1 + class.get(1..)?.iter().position(|c| *c == ']')?;
                rest = &class[end + 1..];
                Token::Class { is_inside, ranges: ranges(&class[..end]) }
            }
            other => Token::Char(*other),
        });
    }
    Some(tokens)
}

fn ranges(mut class: &[char]) -> Vec<RangeInclusive<char>> {
    let mut ranges = Vec::new();
    loop {
        match class {
            [] => return ranges,
            [first, '-', last, after @ ..] => {
                ranges.push(*first..=*last);
                class = after;
            }
            [one, after @ ..] => {
                ranges.push(*one..=*one);
                class = after;
            }
        }
    }
}

/// Matches from left to right; after a mismatch the last `*` takes one character more.
fn matches(tokens: &[Token], label: &[char]) -> bool {
    let (mut token, mut at) = (0, 0);
    let mut retry = None;
    loop {
        let is_match = match (tokens.get(token), label.get(at)) {
            (None, None) => return true,
            (Some(Token::Many), _) => {
                retry = Some((token + 1, at));
                token += 1;
                continue;
            }
            (Some(Token::Any), Some(_)) => true,
            (Some(Token::Char(expected)), Some(found)) => expected == found,
            (Some(Token::Class { is_inside, ranges }), Some(found)) => {
                ranges.iter().any(|range| range.contains(found)) == *is_inside
            }
            _ => false,
        };
        if is_match {
            (token, at) = (token + 1, at + 1);
            continue;
        }
        match retry {
            Some((after_many, from)) if from < label.len() => {
                retry = Some((after_many, from + 1));
                (token, at) = (after_many, from + 1);
            }
            _ => return false,
        }
    }
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
