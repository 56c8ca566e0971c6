//! What was read from a source: the content of a capture.

use std::collections::BTreeMap;

/// What a source answered to one read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The bytes of a file.
    File(Vec<u8>),
    /// The names in a directory.
    Directory(Vec<String>),
    /// The target of a symbolic link, as it is written.
    Link(String),
    /// The read failed with this `errno`.
    Error(i32),
}

/// All answers of a source, by path relative to the root.
///
/// A path can have two of them: a class link that was read as a link and listed as a directory.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    /// Files, directories and errors by path.
    pub answers: BTreeMap<String, Answer>,
    /// Symbolic links by path.
    pub links: BTreeMap<String, String>,
}

impl Recorded {
    /// Adds the answer of one read.
    pub fn add(&mut self, path: &str, answer: Answer) {
        match answer {
            Answer::Link(target) => drop(self.links.insert(path.to_owned(), target)),
            answer => drop(self.answers.insert(path.to_owned(), answer)),
        }
    }
}

/// Parses `kernel/errors`: a line per failed read, `ERRNO path`.
pub(super) fn parse_errors(text: &[u8]) -> BTreeMap<String, i32> {
    let text = String::from_utf8_lossy(text);
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.filter_map(|(code, path)| Some((path.to_owned(), code.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_read_back_and_damaged_lines_are_passed_over() {
        let errors = parse_errors(b"13 sys/a b\nx sys/c\n\n5 sys/d\n");
        assert_eq!(errors.len(), 2);
        assert_eq!(errors["sys/a b"], 13);
    }
}
