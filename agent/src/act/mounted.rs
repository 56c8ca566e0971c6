//! Replaces files of a file system through the kernel. It is mounted where no other process sees it; a mounted one is used where
//! it is.
//!
//! GRUB does not replay a journal, so at the end nothing is left in it: the file system is unmounted, or becomes read-only again,
//! or the kernel is asked to (`EXT4_IOC_CHECKPOINT`, Linux 5.14). Freezing it would also do, but a process that ends in between
//! would leave it frozen.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use formats::mountinfo::{self, Mount};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount, umount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{major, minor};
use nix::unistd::syncfs;
use probes::block::{Disk, Partition};

use super::device_number;
use super::takedown::checkpoint;

/// Where a file system is mounted that is mounted nowhere: a directory of every system.
const PLACE: &str = "/run";
/// The mounts of this thread.
const MOUNTS: &str = "/proc/thread-self/mountinfo";

/// A file system, by the block device that contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Device file, e.g. `/dev/sda3`.
    pub device: String,
    /// Its number, e.g. `8:3`.
    pub number: String,
    /// Kind of the file system, e.g. `ext4`.
    pub kind: String,
    /// Where it is mounted, if it is.
    pub mounted_at: Option<String>,
}

impl Volume {
    /// The file system labelled `boot` on a disk, and its first byte and size.
    ///
    /// # Errors
    /// A message if no single partition has one, something is built on that, or its place or device number is unknown.
    pub(super) fn of_boot(disk: &Disk) -> Result<(Self, (u64, u64)), String> {
        let kind = |part: &Partition| {
            let found = part.filesystem.as_ref();
            let found = found.filter(|found| found.label.as_deref() == Some("boot"));
            found.map(|found| found.kind.clone()).filter(|kind| ["ext4", "vfat"].contains(&&**kind))
        };
        let mut found = disk.partitions.iter().filter_map(|part| Some((part, kind(part)?)));
        let (Some((part, kind)), None) = (found.next(), found.next()) else {
            return Err(
                "no single partition has an ext4 or FAT file system labelled boot".to_owned()
            );
        };
        if let Some(holder) = part.holders.first() {
            return Err(format!("{} is used by {holder}", part.name));
        }
        let unknown = |what: &str| format!("the {what} of {} is unknown", part.name);
        let place = part.start_bytes.zip(part.size_bytes).ok_or_else(|| unknown("location"))?;
        let number = part.device_number.clone().ok_or_else(|| unknown("device number"))?;
        let device = format!("/dev/{}", part.name);
        let mounted_at = part.mounted_at.first().cloned();
        Ok((Self { device, number, kind, mounted_at }, place))
    }
}

/// A file that replaces another one, or is new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Path from the root directory of the file system on, without `/` at its start. Its folder is made if it is missing.
    pub path: String,
    /// Permissions, e.g. `0o600`.
    pub mode: u32,
    /// Content.
    pub bytes: Vec<u8>,
    /// What it must contain until then; `None` if that does not matter.
    pub before: Option<Vec<u8>>,
}

/// Replaces files in this order, each of them whole or not at all. The thread that calls it has mounts of its own from then on.
///
/// # Errors
/// As the kernel answers, with its number if nothing was written: the file system cannot be mounted. Without a number it was, but
/// not all files may be in their places.
pub(super) fn replace(volume: &Volume, files: &[NewFile]) -> io::Result<()> {
    let device = File::open(&volume.device)?;
    if device_number(&device.metadata()?).as_deref() != Some(&volume.number) {
        // Its name leads to another device now.
        return Err(Errno::ENODEV.into());
    }
    unshare(CloneFlags::CLONE_NEWNS)?;
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let mounts = String::from_utf8_lossy(&fs::read(MOUNTS)?).into_owned();
    let mounts = mountinfo::parse(&mounts).mounts;
    let Some(found) = mounts.iter().find(|mount| is_root_of(mount, volume)) else {
        let source = format!("/proc/self/fd/{}", device.as_raw_fd());
        mount(Some(&*source), PLACE, Some(&*volume.kind), flags, none)?;
        let written = write_all(Path::new(PLACE), files);
        return written.and(umount(PLACE).map_err(|error| after("unmounting", &error.into())));
    };
    let place = Path::new(&found.mount_point);
    let remount = |flags| mount(none, place, none, MsFlags::MS_REMOUNT | flags, none);
    if found.is_read_only {
        remount(flags)?;
        let written = write_all(place, files);
        // That empties the journal, too.
        let again = remount(flags | MsFlags::MS_RDONLY);
        return written
            .and(again.map_err(|error| after("making it read-only again", &error.into())));
    }
    // Only this mount, in case another one may be written and this one not.
    remount(flags | MsFlags::MS_BIND)?;
    let root = File::open(place)?;
    empty_journal(&root, volume, true)?;
    write_all(place, files)?;
    empty_journal(&root, volume, false).map_err(|error| after("emptying the journal", &error))
}

/// True for a mount of the whole file system, not of a folder in it, that no other one hides: the root directory has inode 2 on
/// ext4, and 1 on FAT.
fn is_root_of(mount: &Mount, volume: &Volume) -> bool {
    let is_root = |found: fs::Metadata| {
        let number = format!("{}:{}", major(found.dev()), minor(found.dev()));
        number == volume.number && found.ino() <= 2
    };
    mount.device_number.as_ref() == Some(&volume.number)
        && fs::metadata(&mount.mount_point).is_ok_and(is_root)
}

/// Writes what the journal of a mounted file system has to its places, or only tries whether the kernel can. An ext4 without one
/// answers `ENODEV` (`ext4_ioctl_checkpoint` in `fs/ext4/ioctl.c`).
fn empty_journal(root: &File, volume: &Volume, is_trial: bool) -> io::Result<()> {
    syncfs(root)?;
    match checkpoint(root, is_trial) {
        Err(error) if error.raw_os_error() == Some(Errno::ENODEV as i32) => Ok(()),
        _ if volume.kind != "ext4" => Ok(()),
        emptied => emptied,
    }
}

/// An error that came when files may have been written.
fn after(what: &str, error: &io::Error) -> io::Error {
    io::Error::other(format!("{what}: {error}"))
}

fn write_all(root: &Path, files: &[NewFile]) -> io::Result<()> {
    for NewFile { path, before, .. } in files {
        if let Some(before) = before
            && fs::read(root.join(path))? != *before
        {
            // Somebody has changed it since.
            return Err(Errno::ESTALE.into());
        }
    }
    let write = |file: &NewFile| write(root, file).map_err(|error| after(&file.path, &error));
    files.iter().try_for_each(write)
}

fn write(root: &Path, file: &NewFile) -> io::Result<()> {
    let path = Path::new(&file.path);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = path.parent().map_or(Ok(root.to_owned()), |parent| folder(root, parent))?;
    let new = folder.join(format!("{}.new", name.display()));
    // Left by a power cut.
    fs::remove_file(&new).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    let mut options = OpenOptions::new();
    let mut content = options.write(true).create_new(true).mode(file.mode).open(&new)?;
    let written = content.write_all(&file.bytes).and_then(|()| content.sync_all());
    let written = written.and_then(|()| fs::rename(&new, folder.join(name)));
    if written.is_err() {
        // It would fill a file system that has no room.
        fs::remove_file(&new).ok();
    }
    written?;
    File::open(&folder)?.sync_all()
}

/// The folder at a path, with what is missing of it.
fn folder(root: &Path, path: &Path) -> io::Result<PathBuf> {
    path.components().try_fold(root.to_owned(), |at, part| {
        let mut next = at.join(part);
        let is_link = fs::symlink_metadata(&next).is_ok_and(|found| found.is_symlink());
        if is_link {
            // `loader` leads to `loader.0` or `loader.1`. Any other link could lead out of the file system.
            let to = fs::read_link(&next)?;
            let mut parts = to.components();
            let (Some(Component::Normal(name)), None) = (parts.next(), parts.next()) else {
                return Err(io::Error::other(format!("{} is a link", part.as_os_str().display())));
            };
            next = at.join(name);
        }
        match fs::symlink_metadata(&next) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::DirBuilder::new().mode(0o700).create(&next)?;
            }
            Err(error) => return Err(error),
        }
        Ok(next)
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::skipped::skipped;

    fn ran(program: &str, args: &[&str]) -> Option<String> {
        let output = Command::new(program).args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// A loop device, which is taken away at the end.
    struct Loop(String);

    impl Drop for Loop {
        fn drop(&mut self) {
            ran("losetup", &["-d", &self.0]);
        }
    }

    /// A mount, which is ended at the end.
    struct Mounted(String);

    impl Drop for Mounted {
        fn drop(&mut self) {
            ran("umount", &[&self.0]);
        }
    }

    /// A file system `boot` in a file, on a loop device.
    struct Made {
        dir: tempfile::TempDir,
        image: String,
        volume: Volume,
        _device: Loop,
    }

    impl Made {
        /// `None` where no loop device can be made.
        fn new() -> Option<Self> {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().join("root");
            fs::create_dir_all(root.join("loader.1/entries")).unwrap();
            fs::write(root.join("loader.1/entries/a.conf"), "old").unwrap();
            std::os::unix::fs::symlink("loader.1", root.join("loader")).unwrap();
            std::os::unix::fs::symlink("/etc", root.join("outside")).unwrap();
            let image = dir.path().join("image");
            File::create(&image).unwrap().set_len(16 << 20).unwrap();
            let (root, image) = (root.to_str().unwrap(), image.to_str().unwrap().to_owned());
            let made = ran("mkfs.ext4", &["-q", "-L", "boot", "-d", root, &image]);
            let device = made.and_then(|_| ran("losetup", &["-f", "--show", &image])).map(Loop);
            let Some(device) = device else {
                skipped("no loop device can be made here");
                return None;
            };
            let number = device_number(&fs::metadata(&device.0).unwrap()).unwrap();
            let kind = "ext4".to_owned();
            let volume = Volume { device: device.0.clone(), number, kind, mounted_at: None };
            Some(Self { dir, image, volume, _device: device })
        }

        fn put(&self, path: &str, mode: u32, before: Option<&str>) -> io::Result<()> {
            let bytes = format!("content of {path}").into_bytes();
            let before = before.map(|text| text.as_bytes().to_owned());
            let (volume, file) =
                (self.volume.clone(), NewFile { path: path.into(), mode, bytes, before });
            std::thread::spawn(move || replace(&volume, &[file])).join().unwrap()
        }

        /// What the disk contains, without the journal.
        fn read(&self, command: &str) -> String {
            ran("debugfs", &["-R", command, &self.image]).unwrap()
        }

        fn mounted(&self, options: &[&str]) -> Option<Mounted> {
            let place = self.dir.path().join("mounted");
            fs::create_dir_all(&place).unwrap();
            let place = place.to_str().unwrap();
            let mounted = ran("mount", &[options, &[&self.volume.device, place]].concat());
            if mounted.is_none() {
                skipped("nothing can be mounted here");
            }
            mounted.map(|_| Mounted(place.to_owned()))
        }
    }

    #[test]
    fn files_are_replaced_whole_through_the_kernel_and_no_link_leads_out() {
        let Some(made) = Made::new() else { return };
        made.put("ignition/config.ign", 0o600, None).unwrap();
        made.put("loader/entries/a.conf", 0o644, Some("old")).unwrap();
        let outside = made.put("outside/passwd", 0o644, None).unwrap_err().to_string();
        assert!(outside.contains("outside is a link"), "{outside}");
        let code = |found: io::Result<()>| found.unwrap_err().raw_os_error();
        let stale = made.put("loader/entries/a.conf", 0o644, Some("older"));
        assert_eq!(code(stale), Some(Errno::ESTALE as i32));
        for path in ["ignition/config.ign", "loader.1/entries/a.conf"] {
            let text = made.read(&format!("cat {path}"));
            assert!(text.starts_with("content of"), "{path}: {text}");
        }
        assert!(made.read("stat ignition").contains("Mode:  0700"));
        assert!(ran("e2fsck", &["-fn", &made.image]).is_some());
        let other = Volume { number: "8:1".into(), ..made.volume.clone() };
        assert_eq!(code(replace(&other, &[])), Some(Errno::ENODEV as i32));
    }

    #[test]
    fn mounted_file_system_stays_as_it_is_and_nothing_is_left_in_its_journal() {
        let Some(made) = Made::new() else { return };
        for (path, options) in [("ignition.firstboot", &["-o", "ro"][..]), ("config.ign", &[][..])]
        {
            let Some(mounted) = made.mounted(options) else { return };
            made.put(path, 0o644, None).unwrap();
            let expected = format!("content of {path}");
            assert_eq!(fs::read_to_string(Path::new(&mounted.0).join(path)).unwrap(), expected);
            assert_eq!(made.read(&format!("cat {path}")), expected, "it is in the journal only");
            let written = fs::write(Path::new(&mounted.0).join("x"), "x");
            assert_eq!(written.is_err(), !options.is_empty());
        }
        // Another file system in the same place hides it.
        let Some(mounted) = made.mounted(&[]) else { return };
        let hiding = Mounted(mounted.0.clone());
        ran("mount", &["-t", "tmpfs", "none", &hiding.0]).unwrap();
        made.put("ignition.firstboot", 0o644, None).unwrap();
        assert_eq!(fs::read_dir(&mounted.0).unwrap().count(), 0);
        drop((hiding, mounted));
    }
}
