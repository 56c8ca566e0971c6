//! Keeps words and phrases out of the tree that make English text hard to read, and names the plain ones.

use std::path::{Path, PathBuf};

use crate::util::repository;

/// Names of files and folders that are not checked: build outputs, data, the licence, and this list itself.
const SKIPPED_NAMES: &[&str] = &[".git", "target", "LICENSE", "words.rs"];

/// Endings of names of data. Of JSON only the documents of the API are text that people read.
const SKIPPED_ENDINGS: &[&str] = &["json", "lock", "txt", "zst"];

/// A phrase, the words before which it is allowed, and what to write instead.
struct Phrase {
    words: &'static str,
    allowed_before: &'static [&'static str],
    instead: &'static str,
}

const fn phrase(words: &'static str, instead: &'static str) -> Phrase {
    Phrase { words, allowed_before: &[], instead }
}

const fn stand(words: &'static str) -> Phrase {
    // "stands in for" and "stands for" are plain English.
    Phrase { words, allowed_before: &["in", "ins", "for", "alone"], instead: "is, exists" }
}

/// `_` and punctuation separate words, so names of functions and tests are checked too.
const PHRASES: &[Phrase] = &[
    phrase("tell", "report, show, distinguish"),
    phrase("tells", "reports, shows, distinguishes"),
    phrase("told", "reported, configured, instructed"),
    phrase("telling", "reporting"),
    phrase("whoever", "anyone who"),
    phrase("of which", "whose, or a new sentence"),
    phrase("so many", "this many, that number of"),
    phrase("so long", "as long as, until"),
    phrase("put right", "correct, fix"),
    phrase("puts right", "corrects, fixes"),
    phrase("taken for", "mistaken for, treated as"),
    phrase("takes for", "treats as"),
    phrase("pass over", "skip, ignore"),
    phrase("passes over", "skips, ignores"),
    phrase("passed over", "skipped, ignored"),
    stand("stand"),
    stand("stands"),
    stand("stood"),
    phrase("beside", "next to, besides, in addition to"),
];

/// Whether a file or folder is data instead of text.
fn is_skipped(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    SKIPPED_NAMES.contains(&name.as_ref())
        || (SKIPPED_ENDINGS.contains(&ending) && !name.ends_with(".openapi.json"))
}

/// All checked files of the repository with their text.
fn files() -> Vec<(PathBuf, String)> {
    fn walk(path: &Path, found: &mut Vec<(PathBuf, String)>) {
        if is_skipped(path) {
            return;
        }
        if path.is_dir() {
            for entry in std::fs::read_dir(path).unwrap() {
                walk(&entry.unwrap().path(), found);
            }
        } else if let Ok(text) = std::fs::read_to_string(path) {
            found.push((path.to_owned(), text));
        }
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(repository()).unwrap() {
        walk(&entry.unwrap().path(), &mut found);
    }
    found
}

/// The words of a text in lower case, each with its line.
fn words(text: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for word in line.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()) {
            words.push((number + 1, word.to_lowercase()));
        }
    }
    words
}

/// The places where a text uses one of the phrases, as `LINE: "PHRASE", write INSTEAD`.
fn complaints(text: &str) -> Vec<String> {
    let words = words(text);
    let word = |at: usize| words.get(at).map_or("", |(_, word)| word.as_str());
    let mut found = Vec::new();
    for (at, (line, _)) in words.iter().enumerate() {
        for phrase in PHRASES {
            let parts: Vec<&str> = phrase.words.split(' ').collect();
            let is_here = parts.iter().enumerate().all(|(n, part)| word(at + n) == *part);
            let is_allowed = phrase.allowed_before.contains(&word(at + parts.len()));
            if is_here && !is_allowed {
                found.push(format!("{line}: \"{}\", write {}", phrase.words, phrase.instead));
            }
        }
    }
    for (number, line) in text.lines().enumerate() {
        if line.contains(['«', '»']) {
            found.push(format!("{}: « », write \" \" or nothing", number + 1));
        }
        if ends_with_else(line) {
            found.push(format!("{}: \"else\" at the end of a clause, write otherwise", number + 1));
        }
    }
    found
}

/// Whether a clause ends with "else", other than "nothing else" and its like.
fn ends_with_else(line: &str) -> bool {
    const PRONOUNS: &[&str] = &[
        "anybody",
        "anyone",
        "anything",
        "anywhere",
        "everybody",
        "everyone",
        "everything",
        "nobody",
        "nothing",
        "nowhere",
        "one",
        "somebody",
        "someone",
        "something",
        "somewhere",
        "what",
        "where",
        "who",
    ];
    // A word of Python.
    if line.trim() == "else:" {
        return false;
    }
    line.match_indices(" else").any(|(at, _)| {
        let before = line[..at].rsplit(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        let after = &line[at + " else".len()..];
        let ends = [". ", ", ", "; ", ": ", ")"].iter().any(|end| after.starts_with(end))
            || [".", ",", ";", ":"].contains(&after);
        ends && !PRONOUNS.contains(&before.to_lowercase().as_str())
    })
}

#[test]
fn the_text_of_the_tree_is_plain_english() {
    let files = files();
    assert!(files.len() > 500, "only {} files were checked", files.len());
    let all: Vec<String> = files
        .iter()
        .flat_map(|(path, text)| {
            let path = path.strip_prefix(repository()).unwrap_or(path).display().to_string();
            complaints(text).into_iter().map(move |complaint| format!("{path}:{complaint}"))
        })
        .collect();
    assert!(all.is_empty(), "{} places:\n{}", all.len(), all.join("\n"));
}

#[test]
fn every_source_and_the_api_documents_are_checked() {
    for path in
        ["agent/src/main.rs", "agent/vim-api-v1.openapi.json", "probes/src/bmc/mod.rs", "README.md"]
    {
        assert!(files().iter().any(|(file, _)| *file == repository().join(path)), "{path}");
    }
    assert!(is_skipped(Path::new("fixtures/a/expected.json")));
}

#[test]
fn each_phrase_is_found_across_lines_in_names_and_in_comments() {
    assert_eq!(complaints("/// so\n/// many").len(), 1);
    assert_eq!(complaints("fn the_vim_is_told_so() {}").len(), 1);
    assert_eq!(complaints("Disks, two of which are full").len(), 1);
    assert_eq!(complaints("it is absent else.").len(), 1);
    assert_eq!(complaints("the «name»").len(), 1);
}

#[test]
fn plain_text_raises_no_complaint() {
    for text in ["a stand-in", "it stands for a word", "nothing else.", "if a { b } else { c }"] {
        assert_eq!(complaints(text), Vec::<String>::new(), "{text}");
    }
}
