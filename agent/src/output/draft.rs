//! The file of `--output`, which appears under its name only when it is whole.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tempfile::NamedTempFile;

use crate::whole_file;

/// Only the owner reads it: it may contain secrets.
pub(crate) const PRIVATE: u32 = 0o600;
/// Anyone may read it, such as the user of another service.
pub(crate) const READABLE: u32 = 0o644;

/// The file before it has its name. Dropped, it is deleted.
#[derive(Debug)]
pub(crate) struct Draft {
    name: PathBuf,
    file: NamedTempFile,
}

impl Draft {
    /// Writes `content` to the file that is to be called `name`, with the permissions `mode`.
    ///
    /// # Errors
    /// If the folder cannot be written, or what is called so is no file: a link would lead elsewhere, and a
    /// device is not to be replaced.
    pub(crate) fn new(name: &Path, mode: u32, content: &[u8]) -> anyhow::Result<Draft> {
        let kind = fs::symlink_metadata(name).map(|found| found.file_type());
        if let Some(kind) = kind.ok().filter(|kind| !kind.is_file()) {
            let what = match kind {
                _ if kind.is_symlink() => "a link",
                _ if kind.is_dir() => "a directory",
                _ => "no file",
            };
            let name = name.display();
            bail!("--output {name} is {what}, expected a new name or that of a file");
        }
        name.file_name().context("--output ends without the name of a file")?;
        let doing = |what: &str| format!("{what} --output {}", name.display());
        let mut file = whole_file::begin(name, mode).with_context(|| doing("creating"))?;
        // Whatever the umask is.
        file.as_file().set_permissions(Permissions::from_mode(mode)).context("setting its mode")?;
        file.write_all(content).with_context(|| doing("writing"))?;
        Ok(Draft { name: name.to_owned(), file })
    }

    /// Where it lies until it is kept.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If it cannot be written to the disk.
    pub(crate) fn keep(self) -> anyhow::Result<()> {
        let Draft { name, file } = self;
        whole_file::keep(file, &name)
            .with_context(|| format!("writing --output {}", name.display()))
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn names(dir: &TempDir) -> Vec<String> {
        let names = fs::read_dir(dir.path()).unwrap().flatten();
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn the_file_appears_whole_and_for_its_owner_alone() {
        let dir = &tempfile::tempdir().unwrap();
        let name = dir.path().join("x");
        fs::write(&name, "old").unwrap();
        fs::set_permissions(&name, Permissions::from_mode(0o644)).unwrap();
        let draft = Draft::new(&name, PRIVATE, b"new").unwrap();
        assert_eq!(fs::read(&name).unwrap(), b"old", "until it is kept");
        assert_eq!(fs::read(draft.path()).unwrap(), b"new");
        draft.keep().unwrap();
        assert_eq!(fs::read(&name).unwrap(), b"new");
        assert_eq!(fs::metadata(&name).unwrap().permissions().mode() & 0o7777, PRIVATE);
        assert_eq!(names(dir), ["x"]);
    }

    #[test]
    fn error_names_the_option_and_the_file_that_it_names() {
        let error =
            format!("{:#}", Draft::new(Path::new("/nonexistent/x"), PRIVATE, b"").unwrap_err());
        assert!(error.starts_with("creating --output /nonexistent/x: No such file"), "{error}");
        let error = Draft::new(Path::new("/"), PRIVATE, b"").unwrap_err().to_string();
        assert!(error.starts_with("--output / is a directory"), "{error}");
    }

    #[test]
    fn a_draft_that_is_not_kept_is_deleted() {
        let dir = &tempfile::tempdir().unwrap();
        let draft = Draft::new(&dir.path().join("x"), PRIVATE, b"half").unwrap();
        assert_eq!(names(dir).len(), 1);
        drop(draft);
        assert!(names(dir).is_empty());
    }

    #[test]
    fn neither_a_link_nor_a_device_nor_a_directory_is_written_or_replaced() {
        let dir = &tempfile::tempdir().unwrap();
        fs::write(dir.path().join("target"), "precious").unwrap();
        std::os::unix::fs::symlink("target", dir.path().join("link")).unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        for (name, what) in [("link", "a link"), ("folder", "a directory")] {
            let error = Draft::new(&dir.path().join(name), PRIVATE, b"").unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        assert!(Draft::new(Path::new("/dev/null"), PRIVATE, b"").is_err());
        assert_eq!(fs::read(dir.path().join("target")).unwrap(), b"precious");
    }
}
