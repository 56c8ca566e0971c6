//! Files that appear under their names only when they are whole: each is written under another name in the same folder,
//! and put in its place by `rename(2)`.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::NamedTempFile;

/// Begins the file that is to be called `name`, with the permissions `mode` as far as the umask allows. Dropped, it is
/// deleted.
///
/// # Errors
/// If the folder cannot be written.
pub fn begin(name: &Path, mode: u32) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(name.file_name().unwrap_or_default())
        .suffix(".partial")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder(name))
}

/// Gives a file its name.
///
/// # Errors
/// If it cannot be written to the disk, or cannot have this name.
pub fn keep(file: NamedTempFile, name: &Path) -> io::Result<()> {
    file.as_file().sync_all()?;
    file.persist(name)?;
    // The new name is on the disk once its folder is.
    File::open(folder(name)).and_then(|folder| folder.sync_all()).ok();
    Ok(())
}

/// Writes the whole file or, if that fails, nothing.
///
/// # Errors
/// As [`begin`] and [`keep`].
pub fn write(name: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
    let mut file = begin(name, mode)?;
    file.write_all(content)?;
    keep(file, name)
}

fn folder(name: &Path) -> &Path {
    name.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}
