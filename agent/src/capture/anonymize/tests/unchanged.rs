//! With a fixed key an anonymised machine is always the same: `fixtures/anonymized.sha256`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use probes::collect::Options;
use probes::machine::{Archive, Node, Source};
use sha2::{Digest as _, Sha256};

use super::*;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("fixtures")
}

/// Returns everything in an archive, not only the parts that are read today, and the failures that a replay meets.
fn whole(archive: &Archive, failures: &Recorded) -> Recorded {
    let mut recorded = Recorded::default();
    for (path, node) in archive.nodes() {
        match node {
            Node::File(content) => drop(recorded.files.insert(path, content.to_vec())),
            Node::Link(target) => drop(recorded.links.insert(path, target.clone())),
            Node::Error(_) => {}
        }
    }
    recorded.directories = archive.directories().map(|path| (path, Vec::new())).collect();
    let paths = recorded.files.keys().chain(recorded.links.keys()).cloned();
    let inner: BTreeSet<String> = paths.chain(archive.directories()).collect();
    for path in inner {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        recorded.directories.entry(folder.to_owned()).or_default().push(name.to_owned());
    }
    recorded.failures = failures.failures.clone();
    recorded.failures.retain(|_, failure| *failure != Failure::ABSENT);
    recorded
}

/// A line for everything in `recorded`, in order.
fn lines(recorded: &Recorded) -> Vec<String> {
    let sum = |bytes: &[u8]| formats::hex::hex(&Sha256::digest(bytes));
    let files = recorded.files.iter().map(|(path, bytes)| format!("F {path} {}", sum(bytes)));
    let folders = recorded.directories.iter().map(|(path, names)| format!("D {path} {names:?}"));
    let links = recorded.links.iter().map(|(path, target)| format!("L {path} {target:?}"));
    let failures = recorded.failures.iter().map(|((operation, path), failure)| {
        let operation = format!("{operation:?}").to_lowercase();
        format!("E {operation} {path} {failure:?}")
    });
    files.chain(folders).chain(links).chain(failures).collect()
}

/// The machine in the archive at `root`, anonymised with a fixed key, as lines.
pub(super) fn anonymized_lines(root: &Path) -> Vec<String> {
    let archive = Archive::open(root).unwrap();
    let source = Arc::new(Source::unpacked(archive.clone()).recording());
    let report = crate::report::report(&source, &Options::default());
    let mut report = crate::output::tree(&crate::output::json(&report).unwrap()).unwrap();
    report.as_object_mut().unwrap().retain(|key, _| !["collected_at", "timings"].contains(&&**key));
    lines(&with_key([7; 32], &whole(&archive, &source.recorded()), &report).unwrap())
}

#[test]
fn an_anonymized_fixture_is_the_same_bytes_as_recorded() {
    let mut names: Vec<String> = std::fs::read_dir(fixtures())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| fixtures().join(name).join("root.tar.zst").exists())
        .collect();
    names.sort();
    assert!(names.len() >= 2, "fixtures/ holds too few machines: {names:?}");
    let digest = |name: &String| {
        let lines = anonymized_lines(&fixtures().join(name).join("root.tar.zst"));
        assert!(lines.len() > 100, "{name} is nearly empty");
        format!("{}  {name}\n", formats::hex::hex(&Sha256::digest(lines.join("\n"))))
    };
    let found: String = names.iter().map(digest).collect();
    let file = fixtures().join("anonymized.sha256");
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(&file, &found).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), found, "UPDATE_EXPECTED=1");
}
