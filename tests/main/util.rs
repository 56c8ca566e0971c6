//! Helpers: running the program, comparing with a file that `UPDATE_EXPECTED=1` rewrites.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The program under test, with an environment that sets no option.
pub(crate) fn agent() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_run-coreos-installer"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.stdin(Stdio::null());
    command
}

/// Removes the variables of our scripts, such as `RCI_STATIC_AGENT`: the program refuses those that are no option.
pub(crate) fn remove_own_variables(command: &mut Command) {
    let names = std::env::vars_os().map(|(name, _)| name);
    for name in names.filter(|name| name.to_string_lossy().starts_with("RCI_")) {
        command.env_remove(name);
    }
}

/// Runs the program with `words` (split at blanks) and returns what it printed.
pub(crate) fn run(words: &str) -> Output {
    agent().args(words.split_whitespace()).output().unwrap()
}

/// What the program prints with `words`, as JSON.
pub(crate) fn json(words: &str) -> Value {
    let output = run(words);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{words}: {error}: {}", stderr(&output)))
}

/// Runs the program with `words`, which it must refuse with this in its message; returns the message.
pub(crate) fn assert_refused(words: &str, expected: &str) -> String {
    assert_is_refused(&run(words), expected, words)
}

/// The same of a run that has ended.
pub(crate) fn assert_is_refused(output: &Output, expected: &str, what: &str) -> String {
    let said = stderr(output);
    assert_eq!((output.status.code(), &*stdout(output)), (Some(2), ""), "{what}: {said}");
    assert!(said.contains(expected), "{what}: {said}");
    said
}

/// Standard output as text.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Standard error as text.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A file of the repository.
pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

/// The names of the captured machines in `fixtures/`.
pub(crate) fn machines() -> Vec<String> {
    let folders = std::fs::read_dir(repository().join("fixtures")).unwrap();
    let folders = folders.map(|folder| folder.unwrap());
    let folders = folders.filter(|folder| folder.path().join("root.tar.zst").is_file());
    let mut names: Vec<_> =
        folders.map(|folder| folder.file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(names.len() > 3, "{names:?}");
    names
}

/// The archive of a captured machine.
pub(crate) fn captured(machine: &str) -> String {
    repository().join(format!("fixtures/{machine}/root.tar.zst")).display().to_string()
}

/// Compares `found` with the content of `file`; with `UPDATE_EXPECTED=1` writes it there instead.
pub(crate) fn assert_expected(file: &Path, found: &str) {
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(file, found).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(file).unwrap_or_default();
    let differing = expected.lines().zip(found.lines()).enumerate().find(|(_, (e, f))| e != f);
    assert!(
        expected == found,
        "{} differs (UPDATE_EXPECTED=1 rewrites it); first difference: {differing:#?}; {} lines expected, {} found",
        file.display(),
        expected.lines().count(),
        found.lines().count(),
    );
}

/// A folder of its own for a test, below the build folder.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::remove_dir_all(&dir).ok();
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Writes a file of a tree.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// The folder of downloaded programs, as `tests/setup.sh` chooses it.
pub(crate) fn cache() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    variable("RCI_CACHE").or_else(|| {
        let parent = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        parent.map(|parent| parent.join("run-coreos-installer"))
    })
}
