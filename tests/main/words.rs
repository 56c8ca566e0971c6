//! Keeps words and phrases out of the tree that make English text hard to read, and names the plain ones.

use std::path::{Path, PathBuf};

use crate::util::repository;

/// Files and folders that are checked.
const COVERED: &[&str] = &[
    ".cargo",
    ".ci",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Makefile",
    "README.md",
    "agent/src/output",
    "agent/src/report.rs",
    "docs",
    "fixtures",
    "lab",
    "probes/FACTS.md",
    "probes/build.rs",
    "probes/data",
    "probes/fuzz/fuzz_targets",
    "probes/src/collect",
    "probes/src/devices.rs",
    "probes/src/bmc",
    "probes/src/findings",
    "probes/src/network",
    "probes/src/gpu",
    "probes/src/gpu.rs",
    "probes/src/guard.rs",
    "probes/src/identity.rs",
    "probes/src/lib.rs",
    "probes/src/memory",
    "probes/src/os.rs",
    "probes/src/pci",
    "probes/src/pool.rs",
    "probes/src/sensors.rs",
    "probes/src/sys",
    "probes/src/topology",
    "probes/src/tpm.rs",
    "probes/src/usb.rs",
    "systemd",
    "tests",
];

/// Not text, generated, or this list itself.
const SKIPPED: &[&str] = &["json", "lock", "txt", "zst", "words.rs", "LICENSE"];

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

/// All checked files with their text.
fn files() -> Vec<(PathBuf, String)> {
    fn walk(path: &Path, found: &mut Vec<(PathBuf, String)>) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let extension = path.extension().map(|e| e.to_string_lossy().into_owned());
        if SKIPPED.iter().any(|skipped| *skipped == name || Some(*skipped) == extension.as_deref())
        {
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
    for covered in COVERED {
        let path = repository().join(covered);
        assert!(path.exists(), "{covered} does not exist");
        walk(&path, &mut found);
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
    assert!(files.len() > 50, "only {} files were checked", files.len());
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
