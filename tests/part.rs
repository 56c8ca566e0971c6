//! The real programs of `../shared/parts`, a folder next to the repository that not every machine has.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skipped::skipped;

/// The folder `shared` next to the repository, seen from the root or from a folder of a crate; `None` if it is not there.
pub(crate) fn shared() -> Option<&'static Path> {
    ["../shared", "../../shared", "../../../shared"]
        .map(Path::new)
        .into_iter()
        .find(|path| path.exists())
}

/// The unpacked program `name`, kept in the cache; `None` with a line for the log if it is not next to the repository.
pub(crate) fn part(name: &str) -> Option<PathBuf> {
    let packed = shared().map(|shared| shared.join(format!("parts/bin/{name}.xz")));
    let Some(packed) = packed.filter(|packed| packed.exists()) else {
        skipped(&format!("{name} is not next to the repository"));
        return None;
    };
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = variable("RCI_CACHE").unwrap_or_else(|| {
        let caches = variable("XDG_CACHE_HOME");
        let caches = caches.unwrap_or_else(|| variable("HOME").unwrap().join(".cache"));
        caches.join("run-coreos-installer")
    });
    // Another version has another size.
    let n_bytes = packed.metadata().unwrap().len();
    let program = cache.join(format!("parts/{name}-{n_bytes}"));
    if !program.exists() {
        let script =
            "mkdir -p \"${1%/*}\" && xz -dc \"$0\" >\"$2\" && chmod +x \"$2\" && mv \"$2\" \"$1\"";
        let own = program.with_extension(std::process::id().to_string());
        let status =
            Command::new("sh").args(["-ec", script]).arg(packed).args([&program, &own]).status();
        assert!(status.unwrap().success(), "unpacking {name}");
    }
    Some(program)
}
