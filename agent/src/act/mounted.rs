//! Replaces files of a file system through the kernel. It is mounted where no other process sees it; a mounted one is used where
//! it is.
//!
//! GRUB does not replay a journal, so at the end nothing is left in it: the file system is unmounted, or frozen and thawed as
//! `ostree` does (`fs/ioctl.c`, `FIFREEZE`).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use formats::mountinfo::{self, Mount};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount, umount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::syncfs;
use probes::block::{Disk, Partition};

use super::device_number;
use super::takedown::{freeze, thaw};

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
        Ok((Self { device: format!("/dev/{}", part.name), number, kind }, place))
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
    let mounts = mountinfo::parse(&fs::read_to_string(MOUNTS)?).mounts;
    // The last mount at a place hides those before it.
    let Some(place) = mounts.iter().rev().find(|mount| is_root_of(mount, volume)) else {
        let source = format!("/proc/self/fd/{}", device.as_raw_fd());
        mount(Some(&*source), PLACE, Some(&*volume.kind), flags, none)?;
        let written = write_all(Path::new(PLACE), files);
        return written.and(umount(PLACE).map_err(|error| after("unmounting", &error.into())));
    };
    let place = Path::new(&place.mount_point);
    let is_read_only = statvfs(place)?.flags().contains(FsFlags::ST_RDONLY);
    let remount = |flags| mount(none, place, none, MsFlags::MS_REMOUNT | flags, none);
    if is_read_only {
        remount(flags)?;
    }
    let written = write_all(place, files);
    if !is_read_only {
        return written;
    }
    let again = remount(flags | MsFlags::MS_RDONLY);
    written.and(again.map_err(|error| after("mounting it read-only again", &error.into())))
}

/// True for a mount of the whole file system, not of a folder in it: the root directory has inode 2 on ext4, and 1 on FAT.
fn is_root_of(mount: &Mount, volume: &Volume) -> bool {
    mount.device_number.as_ref() == Some(&volume.number)
        && fs::metadata(&mount.mount_point).is_ok_and(|found| found.ino() <= 2)
}

/// An error that came when files may have been written.
fn after(what: &str, error: &io::Error) -> io::Error {
    io::Error::other(format!("{what}: {error}"))
}

fn write_all(root: &Path, files: &[NewFile]) -> io::Result<()> {
    let write = |file: &NewFile| write(root, file).map_err(|error| after(&file.path, &error));
    files.iter().try_for_each(write)?;
    File::open(root)
        .and_then(|root| settle(&root))
        .map_err(|error| after("emptying the journal", &error))
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
    content.write_all(&file.bytes).and_then(|()| content.sync_all())?;
    fs::rename(&new, folder.join(name))?;
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

/// Empties the journal of a mounted file system. Those without one need only be synchronized.
fn settle(place: &File) -> io::Result<()> {
    syncfs(place)?;
    match freeze(place) {
        Ok(()) => thaw(place),
        Err(error) if error.raw_os_error() == Some(Errno::EOPNOTSUPP as i32) => Ok(()),
        Err(error) => Err(error),
    }
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

    #[test]
    fn files_are_replaced_through_the_kernel_and_nothing_is_left_in_the_journal() {
        let dir = tempfile::tempdir().unwrap();
        let (root, image) = (dir.path().join("root"), dir.path().join("image"));
        fs::create_dir_all(root.join("loader.1/entries")).unwrap();
        fs::write(root.join("loader.1/entries/a.conf"), "old").unwrap();
        std::os::unix::fs::symlink("loader.1", root.join("loader")).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("outside")).unwrap();
        File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let (root, image) = (root.to_str().unwrap(), image.to_str().unwrap());
        let made = ran("mkfs.ext4", &["-q", "-L", "boot", "-d", root, image]);
        let device = made.and_then(|_| ran("losetup", &["-f", "--show", image])).map(Loop);
        let Some(device) = device else { return skipped("no loop device can be made here") };
        let number = device_number(&fs::metadata(&device.0).unwrap()).unwrap();
        let volume = Volume { device: device.0.clone(), number, kind: "ext4".into() };
        let file = |path: &str, mode| {
            let bytes = format!("content of {path}").into_bytes();
            NewFile { path: path.into(), mode, bytes }
        };
        let put = |path: &str, mode| {
            let (volume, files) = (volume.clone(), [file(path, mode)]);
            std::thread::spawn(move || replace(&volume, &files)).join().unwrap()
        };
        put("ignition/config.ign", 0o600).unwrap();
        put("loader/entries/a.conf", 0o644).unwrap();
        assert!(
            put("outside/passwd", 0o644).unwrap_err().to_string().contains("outside is a link")
        );
        for path in ["ignition/config.ign", "loader.1/entries/a.conf"] {
            let text = ran("debugfs", &["-R", &format!("cat {path}"), image]).unwrap();
            assert!(text.starts_with("content of"), "{path}: {text}");
        }
        let stat = ran("debugfs", &["-R", "stat ignition", image]).unwrap();
        assert!(stat.contains("Mode:  0700"), "{stat}");
        assert!(ran("e2fsck", &["-fn", image]).is_some());
        // A mounted one is changed in its place, which stays read-only.
        let place = dir.path().join("mounted");
        fs::create_dir(&place).unwrap();
        let mounted = Mounted(place.to_str().unwrap().to_owned());
        if ran("mount", &["-o", "ro", &device.0, &mounted.0]).is_none() {
            skipped("nothing can be mounted here");
        } else {
            put("ignition.firstboot", 0o644).unwrap();
            let text = fs::read_to_string(place.join("ignition.firstboot")).unwrap();
            assert_eq!(text, "content of ignition.firstboot");
            assert!(fs::write(place.join("x"), "x").is_err());
            let text = ran("debugfs", &["-R", "cat ignition.firstboot", image]).unwrap();
            assert_eq!(text, "content of ignition.firstboot", "it is in the journal only");
        }
        drop(mounted);
        let other = Volume { number: "8:1".into(), ..volume.clone() };
        assert_eq!(replace(&other, &[]).unwrap_err().raw_os_error(), Some(Errno::ENODEV as i32));
    }
}
