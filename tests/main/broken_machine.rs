//! docs/broken-machine.md shows what the program really prints about the machines of `fixtures/rack/`.

use crate::util::{agent, assert_expected, repository, stderr, stdout};

/// The line in front of each command.
const PROMPT: &str = "```console\n$ run-coreos-installer ";

/// The block of a command with what it prints and its exit status.
fn block(words: &str) -> String {
    let mut program = agent();
    program.args(words.split_whitespace()).current_dir(repository().join("fixtures/rack"));
    let output = program.output().unwrap();
    assert_eq!(stderr(&output), "", "{words}");
    let status = output.status.code().unwrap();
    format!("{PROMPT}{words}\n{}$ echo $?\n{status}\n```", stdout(&output))
}

#[test]
fn page_about_a_broken_machine_shows_what_the_program_prints() {
    let page = repository().join("docs/broken-machine.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let mut parts = text.split(PROMPT);
    let mut made = parts.next().unwrap().to_owned();
    for part in parts {
        let (shown, after) = part.split_once("\n```").unwrap();
        made += &block(shown.lines().next().unwrap());
        made += after;
    }
    assert_expected(&page, &made);
    // The page explains these.
    for words in ["disk.failing", "DIMM_B2", "serial ZC1DATA4", "replaced  size", "0 departures"] {
        assert!(made.contains(words), "{words} is not on the page");
    }
    assert!(made.matches("\n$ run-coreos-installer ").count() == 5, "commands are missing");
}
