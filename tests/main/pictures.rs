//! The pictures in docs/: each is shown by a page, each link has its picture, and none is large.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::util::repository;

/// A page with a picture should load at once also on a slow line.
const MOST_BYTES: usize = 120_000;

/// The files with this ending in a folder of the repository.
fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository().join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
}

/// The pictures that a page shows, as `![what is seen](path)`.
fn shown(page: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(page).unwrap();
    let parts = text.split("![").skip(1).map(|part| part.split_once("](").unwrap());
    let links = parts.map(|(seen, rest)| {
        assert!(seen.len() > 20, "{}: {seen:?} does not describe a picture", page.display());
        rest.split_once(')').unwrap().0
    });
    links.map(|link| page.parent().unwrap().join(link).canonicalize().unwrap()).collect()
}

#[test]
fn each_picture_is_shown_and_small() {
    let pages = ["", "docs", "lab"].into_iter().flat_map(|folder| files(folder, "md"));
    let shown: BTreeSet<PathBuf> = pages.flat_map(|page| shown(&page)).collect();
    let pictures = files("docs", "png");
    assert!(pictures.len() >= 3, "{pictures:?}");
    for picture in pictures {
        assert!(
            shown.contains(&picture.canonicalize().unwrap()),
            "{} is not shown",
            picture.display()
        );
        let bytes = std::fs::read(&picture).unwrap();
        assert!(bytes.starts_with(b"\x89PNG\r\n"), "{} is no picture", picture.display());
        assert!(bytes.len() <= MOST_BYTES, "{} has {} bytes", picture.display(), bytes.len());
    }
}
