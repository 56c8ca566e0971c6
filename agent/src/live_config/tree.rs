//! `--tree DIR=PATH`: a local folder for the live image, as Butane's `storage.trees` (`docs/config-fcos-v1_4.md`).

use std::fs::{self, DirEntry};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use ignition::live::{ExtraFile, FileSource};

use super::additions::{MAX_FILE_BYTES, check_place};
use crate::bounded;

/// Most files, links and folders of a tree.
const MAX_ENTRIES: usize = 10_000;

/// Reads one `--tree DIR=PATH`; the result is sorted by path.
pub(super) fn tree(written: &str) -> anyhow::Result<Vec<ExtraFile>> {
    let Some((folder, path)) = written.split_once("=/") else {
        bail!("--tree is \"{}\", expected DIR=PATH with an absolute PATH", written.escape_debug());
    };
    let root = format!("/{path}").trim_end_matches('/').to_owned();
    let mut files = read(folder.into(), root).context("reading --tree")?;
    files.iter().try_for_each(|file| check_place("tree", &file.path))?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn read(folder: PathBuf, root: String) -> anyhow::Result<Vec<ExtraFile>> {
    let mut files: Vec<ExtraFile> = Vec::new();
    let mut folders = vec![(folder, root)];
    let (mut n_entries, mut n_bytes) = (0, 0);
    while let Some((folder, path)) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        let mut is_empty = true;
        for entry in entries {
            let entry = entry.with_context(|| folder.display().to_string())?;
            (is_empty, n_entries) = (false, n_entries + 1);
            if n_entries > MAX_ENTRIES {
                bail!("{} has too many files, expected at most {MAX_ENTRIES}", folder.display());
            }
            let place = format!("{path}/{}", utf8(entry.file_name().into())?);
            if entry.file_type()?.is_dir() {
                folders.push((entry.path(), place));
                continue;
            }
            let (mode, source) = node(&entry, MAX_FILE_BYTES - n_bytes)?;
            if let FileSource::Content(bytes) = &source {
                n_bytes += bytes.len() as u64;
            }
            files.push(ExtraFile { path: place, mode, source });
        }
        // The others exist because of what they contain.
        if is_empty {
            files.push(ExtraFile { path, mode: 0o755, source: FileSource::Folder });
        }
    }
    Ok(files)
}

/// The mode and the content of one file or link.
fn node(entry: &DirEntry, max_bytes: u64) -> anyhow::Result<(u32, FileSource)> {
    let path = entry.path();
    let about = entry.metadata().with_context(|| path.display().to_string())?;
    if about.is_symlink() {
        let target = fs::read_link(&path).with_context(|| path.display().to_string())?;
        return Ok((0o777, FileSource::Link(utf8(target)?)));
    }
    if !about.is_file() {
        bail!("{} is a device, pipe or socket, expected files, links and folders", path.display());
    }
    if about.len() > max_bytes {
        bail!(
            "{} has {} bytes, expected at most {MAX_FILE_BYTES} bytes in all; let Ignition fetch it with --file \
             PATH=URL",
            path.display(),
            about.len()
        );
    }
    let mode = if about.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 };
    Ok((mode, FileSource::Content(bounded::read_file(&path, max_bytes)?)))
}

fn utf8(name: PathBuf) -> anyhow::Result<String> {
    let name = name.into_os_string().into_string();
    name.map_err(|name| {
        anyhow!("{} is not UTF-8, expected a name in UTF-8", Path::new(&name).display())
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("rci-tree-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn tree_has_files_links_and_empty_folders_with_the_modes_of_butane() {
        let folder = folder("good");
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::create_dir_all(folder.join("empty")).unwrap();
        for (name, mode) in [("bin/tool", 0o700), ("note", 0o600)] {
            fs::write(folder.join(name), name).unwrap();
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("../note", folder.join("bin/link")).unwrap();
        let content = |text: &str| FileSource::Content(text.as_bytes().to_vec());
        let found = tree(&format!("{}=/opt/", folder.display())).unwrap();
        let found: Vec<_> = found.into_iter().map(|it| (it.path, it.mode, it.source)).collect();
        let expected = [
            ("/opt/bin/link", 0o777, FileSource::Link("../note".to_owned())),
            ("/opt/bin/tool", 0o755, content("bin/tool")),
            ("/opt/empty", 0o755, FileSource::Folder),
            ("/opt/note", 0o644, content("note")),
        ];
        assert_eq!(found, expected.map(|(path, mode, it)| (path.to_owned(), mode, it)));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn tree_that_is_too_large_or_has_sockets_is_refused_with_the_file() {
        let folder = folder("bad");
        let written = format!("{}=/opt/site", folder.display());
        let refused = || format!("{:#}", tree(&written).unwrap_err());
        let large = folder.join("large");
        fs::File::create(&large).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        let expected = format!("reading --tree: {} has 33554433 bytes, expected", large.display());
        assert!(refused().starts_with(&expected), "{}", refused());
        fs::remove_file(large).unwrap();
        let socket = folder.join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        let expected = format!("reading --tree: {} is a device", socket.display());
        assert!(refused().starts_with(&expected), "{}", refused());
        fs::remove_dir_all(folder).unwrap();
    }
}
