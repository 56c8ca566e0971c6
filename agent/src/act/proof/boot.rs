//! The file system labelled `boot`: the Ignition config and the boot loader entries in it.
//!
//! Entries follow the Boot Loader Specification, `/loader/entries/*.conf`.

use std::io::{self, Read, Seek, SeekFrom};

use super::disk::Window;
use super::fat::Fat;

/// Directory of the boot loader entries.
const ENTRIES: &str = "/loader/entries";

/// The largest boot loader entry in bytes.
pub(super) const MAX_ENTRY_BYTES: u64 = 64 * 1024;
/// The most names of a directory that are read.
const MAX_NAMES: usize = 4096;

/// An open file.
trait ReadSeek: Read + Seek {}
impl<T: Read + Seek> ReadSeek for T {}

/// A file system that is read without being mounted.
pub(super) enum BootFiles {
    Ext4(ext4_view::Ext4),
    Fat(Fat),
}

impl BootFiles {
    /// Reads the superblock.
    pub(super) fn open(window: Window) -> Result<Self, String> {
        match ext4_view::Ext4::load(Box::new(window.clone())) {
            Ok(ext4) => Ok(Self::Ext4(ext4)),
            Err(not_ext4) => Fat::open(window)
                .map(Self::Fat)
                .map_err(|not_fat| format!("neither ext4 ({not_ext4}) nor FAT ({not_fat})")),
        }
    }

    /// Asks a question to an open file.
    fn ask<T: Send + 'static>(
        &self,
        path: &str,
        question: impl FnOnce(&mut dyn ReadSeek) -> io::Result<T> + Send + 'static,
    ) -> Result<T, String> {
        match self {
            Self::Ext4(ext4) => {
                let mut file = ext4.open(path).map_err(|error| error.to_string())?;
                question(&mut file).map_err(|error| error.to_string())
            }
            Self::Fat(fat) => {
                let path = relative(path);
                fat.ask(move |root| question(&mut root.open_file(&path)?))
            }
        }
    }

    /// Reads a file that must not be larger than `max_bytes`.
    pub(super) fn read(&self, path: &str, max_bytes: u64) -> Result<Vec<u8>, String> {
        let size = self.size(path)?;
        if size > max_bytes {
            return Err(format!("{size} bytes, expected at most {max_bytes}"));
        }
        self.read_part(path, 0, size)
    }

    /// The size of a file in bytes.
    pub(super) fn size(&self, path: &str) -> Result<u64, String> {
        self.ask(path, |file| file.seek(SeekFrom::End(0)))
    }

    /// Reads a part of a file.
    pub(super) fn read_part(&self, path: &str, at: u64, n_bytes: u64) -> Result<Vec<u8>, String> {
        let n_bytes = usize::try_from(n_bytes).map_err(|error| error.to_string())?;
        self.ask(path, move |file| {
            let mut bytes = vec![0; n_bytes];
            file.seek(SeekFrom::Start(at))?;
            file.read_exact(&mut bytes)?;
            Ok(bytes)
        })
    }

    /// The names in a directory.
    pub(super) fn names(&self, path: &str) -> Result<Vec<String>, String> {
        match self {
            Self::Ext4(ext4) => ext4
                .read_dir(path)
                .map_err(|error| error.to_string())?
                .take(MAX_NAMES)
                .map(|entry| {
                    let entry = entry.map_err(|error| error.to_string())?;
                    Ok(entry.file_name().display().to_string())
                })
                .collect(),
            Self::Fat(fat) => {
                let path = relative(path);
                fat.ask(move |root| {
                    let entries = root.open_dir(&path)?;
                    entries.iter().take(MAX_NAMES).map(|entry| Ok(entry?.file_name())).collect()
                })
            }
        }
    }

    /// The boot loader entries, in the order of their names.
    pub(super) fn entries(&self) -> Result<Vec<Entry>, String> {
        let mut names = self.names(ENTRIES).map_err(|error| format!("{ENTRIES}: {error}"))?;
        names.retain(|name| {
            std::path::Path::new(name).extension().is_some_and(|extension| extension == "conf")
        });
        names.sort();
        let entry = |name: String| {
            let bytes = self.read(&format!("{ENTRIES}/{name}"), MAX_ENTRY_BYTES);
            let bytes = bytes.map_err(|error| format!("{ENTRIES}/{name}: {error}"))?;
            let text = String::from_utf8_lossy(&bytes);
            let value = |key| value_of(&text, key).map(str::to_owned);
            Ok(Entry {
                options: value("options"),
                linux: value("linux"),
                initrd: value("initrd"),
                name,
            })
        };
        names.into_iter().map(entry).collect()
    }
}

/// A file in a folder of the root directory; `None` if there is none.
///
/// # Errors
/// A message if the file system cannot be read, or the file is larger than `max_bytes`.
pub(in crate::act) fn content(
    window: Window,
    (folder, name): (&str, &str),
    max_bytes: u64,
) -> Result<Option<Vec<u8>>, String> {
    let files = BootFiles::open(window)?;
    let has =
        |folder: &str, name: &str| files.names(folder).map(|all| all.iter().any(|n| n == name));
    let folder_path = format!("/{folder}");
    if !has("/", folder)? || !has(&folder_path, name)? {
        return Ok(None);
    }
    files.read(&format!("{folder_path}/{name}"), max_bytes).map(Some)
}

/// A path from the root directory on, as the FAT library takes it.
fn relative(path: &str) -> String {
    path.trim_start_matches('/').to_owned()
}

/// A boot loader entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// File name, e.g. `ostree-1.conf`.
    pub(super) name: String,
    /// Kernel arguments.
    pub(super) options: Option<String>,
    /// Path of the kernel in the boot file system.
    pub(super) linux: Option<String>,
    /// Path of the initramfs in the boot file system.
    pub(super) initrd: Option<String>,
}

/// The value of the first line with this key.
fn value_of<'a>(entry: &'a str, key: &str) -> Option<&'a str> {
    entry.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix(key)?;
        rest.starts_with(char::is_whitespace).then(|| rest.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_among_the_other_lines() {
        let entry = "title x\noptionsfoo no\nlinux /a\noptions  a=1 b \ninitrd\t/i\n";
        assert_eq!(value_of(entry, "options"), Some("a=1 b"));
        assert_eq!(value_of(entry, "initrd"), Some("/i"));
        assert_eq!(value_of("title x\n", "options"), None);
    }
}
