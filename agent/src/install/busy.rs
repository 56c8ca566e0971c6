//! Whether a disk is in use: mounted, swapped to, held by a mapping or array, or opened exclusively.
//!
//! Sources: `/proc/self/mountinfo`, `/proc/swaps` (`Documentation/filesystems/proc.rst`),
//! `/sys/dev/block/<n>/{holders,dm/uuid}`, and `open(2)` with `O_EXCL`, which fails with `EBUSY` for a block device
//! that the kernel itself uses, in whatever mount namespace.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::{Candidate, Failure, SystemPaths};
use crate::api::Code;
use crate::bounded;

/// How many partitions of a disk are looked at.
const MAX_PARTITIONS: usize = 512;
/// The longest list of mounts or swap spaces.
const MAX_LIST_BYTES: u64 = 4 << 20;

/// A disk or partition.
struct Part {
    name: String,
    number: String,
    dir: PathBuf,
    /// Whether it is a partition of a LUN behind multipath: a mapping of its own (kpartx(8)).
    is_mapping: bool,
}

/// Refuses a disk that is in use.
///
/// # Errors
/// `DISK_BUSY` with every use, or if the kernel's lists of uses cannot be read; `TARGET_IO` if it cannot be
/// opened for another reason.
pub fn check_not_busy(disk: &Candidate, paths: &SystemPaths) -> Result<(), Failure> {
    let mut uses = Vec::new();
    let parts = parts(disk, &paths.sys);
    let mounts = list(&paths.proc.join("self/mountinfo"), disk)?;
    let swaps = list(&paths.proc.join("swaps"), disk)?;
    for part in &parts {
        let mounts = mounts_of(&mounts, &part.number);
        uses.extend(mounts.iter().map(|at| format!("{} is mounted at {at}", part.name)));
        uses.extend(is_swap(&swaps, &part.name).then(|| format!("{} is swap space", part.name)));
        uses.extend(holders(part, &parts));
    }
    // The mappings of its partitions hold a LUN; whoever holds one of those is looked for there.
    let mappings: Vec<String> = parts
        .iter()
        .filter(|part| part.is_mapping)
        .map(|part| format!("/dev/{}", part.name))
        .collect();
    let whole = mappings.is_empty().then(|| disk.device.clone());
    for device in whole.into_iter().chain(mappings) {
        if is_held(&device)? {
            uses.push(format!("{device} is held by the kernel"));
        }
    }
    if uses.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Code::DiskBusy, format!("{} is in use: {}", disk.device, uses.join("; ")))
        .advise(
            "unmount it, stop the array or volume group, or boot without device auto-activation",
        ))
}

/// Whether a device cannot be opened by one alone.
fn is_held(device: &str) -> Result<bool, Failure> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_EXCL | OFlag::O_CLOEXEC).bits())
        .open(device);
    match opened {
        Ok(_) => Ok(false),
        Err(error) if error.raw_os_error() == Some(Errno::EBUSY as i32) => Ok(true),
        Err(error) => Err(Failure::new(Code::TargetIo, format!("opening {device}: {error}"))
            .advise("the disk cannot even be read; look at the kernel log")),
    }
}

/// The disk and its partitions as sysfs shows them.
fn parts(disk: &Candidate, sys: &Path) -> Vec<Part> {
    let Some(number) = &disk.device_number else { return Vec::new() };
    let dir = sys.join("dev/block").join(number);
    let whole = Part {
        name: disk.name.clone(),
        number: number.clone(),
        dir: dir.clone(),
        is_mapping: false,
    };
    let mut parts = vec![whole];
    parts.extend(mapped_partitions(&dir));
    let Ok(entries) = std::fs::read_dir(&dir) else { return parts };
    for entry in entries.flatten().take(4096) {
        let dir = entry.path();
        if parts.len() < MAX_PARTITIONS
            && dir.join("partition").exists()
            && let Some(number) = bounded::read_text(&dir.join("dev"))
        {
            let name = entry.file_name().to_string_lossy().into();
            parts.push(Part { name, number, dir, is_mapping: false });
        }
    }
    parts.sort_by(|a, b| a.name.cmp(&b.name));
    parts
}

/// The partitions of a LUN behind multipath, each a mapping that holds the LUN and is named after it.
fn mapped_partitions(lun: &Path) -> Vec<Part> {
    let uuid = |dir: &Path| bounded::read_text(&dir.join("dm/uuid"));
    let Some(whole) = uuid(lun).filter(|uuid| uuid.starts_with("mpath-")) else {
        return Vec::new();
    };
    let Ok(entries) = std::fs::read_dir(lun.join("holders")) else { return Vec::new() };
    let part = |entry: std::fs::DirEntry| {
        let dir = entry.path();
        let own = uuid(&dir)?;
        let (part, of) = own.split_once('-')?;
        let number = part.strip_prefix("part")?;
        let is_part = number.parse::<u32>().is_ok() && of == whole;
        let (name, number) =
            (entry.file_name().to_string_lossy().into(), bounded::read_text(&dir.join("dev"))?);
        is_part.then_some(Part { name, number, dir, is_mapping: true })
    };
    entries.flatten().take(MAX_PARTITIONS).filter_map(part).collect()
}

/// A list of the kernel's, empty where a kernel has none, as one without swap space.
///
/// # Errors
/// `DISK_BUSY` if it is there and cannot be read: what is in use is not known then.
fn list(path: &Path, disk: &Candidate) -> Result<String, Failure> {
    match bounded::read_file(path, MAX_LIST_BYTES) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(_) if is_absent(path) => Ok(String::new()),
        Err(error) => Err(Failure::new(
            Code::DiskBusy,
            format!("whether {} is in use cannot be told: {error:#}", disk.device),
        )
        .advise("run the agent as root, and make /proc readable")),
    }
}

fn is_absent(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Where a device number is mounted, by `mountinfo` (field 3 and field 5).
fn mounts_of(mountinfo: &str, number: &str) -> Vec<String> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            (fields.nth(2)? == number).then_some(())?;
            fields.nth(1).map(str::to_owned)
        })
        .take(8)
        .collect()
}

/// Whether a device is swap space, by `/proc/swaps`.
fn is_swap(swaps: &str, name: &str) -> bool {
    // A slash in the name of a device is a `!` in sysfs.
    let name = name.replace('!', "/");
    swaps.lines().skip(1).any(|line| {
        line.split_ascii_whitespace().next().and_then(|path| path.strip_prefix("/dev/"))
            == Some(name.as_str())
    })
}

/// Who holds a part, but for the mappings that are parts themselves.
fn holders(part: &Part, parts: &[Part]) -> Option<String> {
    let is_part = |name: &String| parts.iter().any(|part| part.is_mapping && part.name == *name);
    let names: Vec<String> = std::fs::read_dir(part.dir.join("holders"))
        .ok()?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !is_part(name))
        .take(16)
        .collect();
    (!names.is_empty()).then(|| format!("{} is held by {}", part.name, names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_found_by_its_device_number_and_not_by_a_longer_one() {
        let text = "22 1 8:1 / /boot rw - ext4 /dev/sda1 rw\n23 1 8:17 / /mnt rw - xfs /dev/sdb1 rw\nodd\n";
        assert_eq!(mounts_of(text, "8:1"), ["/boot"]);
        assert!(mounts_of(text, "8:0").is_empty());
    }

    #[test]
    fn the_mapped_partitions_of_a_lun_are_its_parts_and_every_other_mapping_holds_it() {
        let sys = std::env::temp_dir().join(format!("rci-busy-{}", std::process::id()));
        std::fs::remove_dir_all(&sys).ok();
        let lun = sys.join("dev/block/253:0");
        let write = |path: &str, text: &str| {
            let path = lun.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("dm/uuid", "mpath-3600508b1001c4d41aabbccddeeff0011\n");
        write("holders/dm-1/dm/uuid", "part1-mpath-3600508b1001c4d41aabbccddeeff0011\n");
        write("holders/dm-1/dev", "253:1\n");
        write("holders/dm-2/dm/uuid", "part1-mpath-3600508b1001c4d41aabbccddeeff0099\n");
        write("holders/dm-2/dev", "253:2\n");
        write("holders/dm-3/dm/uuid", "LVM-abc\n");
        write("holders/dm-3/dev", "253:3\n");
        let disk = Candidate {
            name: "dm-0".into(),
            device_number: Some("253:0".into()),
            ..Candidate::default()
        };
        let parts = parts(&disk, &sys);
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["dm-0", "dm-1"]);
        let held = holders(&parts[0], &parts).unwrap();
        assert!(held.contains("dm-2") && held.contains("dm-3") && !held.contains("dm-1"), "{held}");
        std::fs::remove_dir_all(sys).unwrap();
    }

    #[test]
    fn a_list_of_mounts_or_swap_space_that_cannot_be_read_refuses_the_disk_and_an_absent_one_does_not()
     {
        let proc = std::env::temp_dir().join(format!("rci-busy-proc-{}", std::process::id()));
        let disk = Candidate { device: "/dev/null".into(), ..Candidate::default() };
        let check =
            || check_not_busy(&disk, &SystemPaths { sys: "/nowhere".into(), proc: proc.clone() });
        for name in ["swaps", "self/mountinfo"] {
            std::fs::remove_dir_all(&proc).ok();
            assert_eq!(check(), Ok(()));
            // Nobody can read a directory as a file, not even root.
            std::fs::create_dir_all(proc.join(name)).unwrap();
            let failure = check().unwrap_err();
            assert_eq!(failure.code, Code::DiskBusy);
            let says = format!(
                "whether /dev/null is in use cannot be told: reading {}",
                proc.join(name).display()
            );
            assert!(failure.message.starts_with(&says), "{}", failure.message);
        }
        std::fs::remove_dir_all(&proc).unwrap();
    }

    #[test]
    fn a_swap_partition_is_found_by_its_whole_name() {
        let text = "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n";
        assert!(is_swap(text, "sda2"));
        assert!(!is_swap(text, "sda"));
        assert!(!is_swap("", "sda"));
    }
}
