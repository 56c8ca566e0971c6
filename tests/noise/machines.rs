//! The machines that are damaged: those of `fixtures/`, and foreign ones next to the repository.

use std::path::{Path, PathBuf};

use probes::machine::Archive;

/// A captured machine.
#[derive(Debug)]
pub(crate) struct Captured {
    /// The name of its folder.
    pub(crate) name: String,
    /// Whether it belongs to this repository.
    pub(crate) is_own: bool,
    file: PathBuf,
}

impl Captured {
    /// Its tree.
    pub(crate) fn tree(&self) -> Archive {
        Archive::open(&self.file).unwrap()
    }
}

/// The machine of this repository that is called `name`.
pub(crate) fn own(name: &str) -> Archive {
    all().into_iter().find(|machine| machine.is_own && machine.name == name).unwrap().tree()
}

/// The machines of this repository, and of foreign ones next to it every seventh, or all with `RCI_TORTURE`.
/// `RCI_NOISE_TREE` picks one by name.
pub(crate) fn all() -> Vec<Captured> {
    let mut all = captured("fixtures", true);
    assert!(all.len() >= 2, "fixtures/ has too few machines");
    let only = std::env::var("RCI_NOISE_TREE");
    let is_whole = only.is_ok() || std::env::var_os("RCI_TORTURE").is_some();
    let step = if is_whole { 1 } else { 7 };
    all.extend(captured("../shared/fixtures", false).into_iter().step_by(step));
    if let Ok(only) = only {
        all.retain(|machine| machine.name == only);
        assert!(!all.is_empty(), "no captured machine is called {only:?}");
    }
    all
}

fn captured(folder: &str, is_own: bool) -> Vec<Captured> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let Ok(entries) = std::fs::read_dir(repository.join(folder)) else { return Vec::new() };
    let folders = entries.map(|entry| entry.unwrap().path());
    let mut all: Vec<Captured> = folders
        .map(|path| Captured {
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            is_own,
            file: path.join("root.tar.zst"),
        })
        .filter(|machine| machine.file.exists())
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}
