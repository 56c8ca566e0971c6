//! The kernel calls of a take-down: `swapoff(2)`, `ioctl(DM_DEV_REMOVE)` (`uapi/linux/dm-ioctl.h`),
//! `ioctl(STOP_ARRAY)` (`uapi/linux/raid/md_u.h`); `ioctl(BLKRRPART)` after a table was erased (`uapi/linux/fs.h`); and
//! `ioctl(EXT4_IOC_CHECKPOINT)` of a file system whose files were replaced.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;

use super::Step;
use crate::act::device_number;

/// `struct dm_ioctl`: its size, and where its members are.
const DM_BYTES: usize = 312;
const DM_DATA_SIZE_AT: usize = 12;
const DM_DEVICE_AT: usize = 40;
const DM_UUID_AT: usize = 176;
const DM_UUID_BYTES: usize = 129;
/// The oldest version of the interface that has the call.
const DM_VERSION: [u32; 3] = [4, 0, 0];
const DM_CONTROL: &str = "/dev/mapper/control";
/// `DM_DEV_REMOVE`: `_IOWR(0xfd, 4, struct dm_ioctl)`.
const DM_DEV_REMOVE: libc::c_ulong = 0xc138_fd04;
/// `STOP_ARRAY`: `_IO(9, 0x32)`.
const STOP_ARRAY: libc::c_ulong = 0x0932;
/// `BLKRRPART`: `_IO(0x12, 95)`.
const BLKRRPART: libc::c_ulong = 0x125f;
/// `EXT4_IOC_CHECKPOINT`: `_IOW('f', 43, __u32)`, and `EXT4_IOC_CHECKPOINT_FLAG_DRY_RUN` (`uapi/linux/ext4.h`).
const CHECKPOINT: libc::c_ulong = 0x4004_662b;
const CHECKPOINT_TRIAL: u32 = 4;

/// Carries out a step on the running kernel.
///
/// # Errors
/// As the kernel answers.
pub(in crate::act) fn perform(step: &Step) -> io::Result<()> {
    match step {
        Step::SwapOff { path, number } => {
            let area = open(path, number)?;
            // By its descriptor, since the name may lead to another device by now.
            let path = format!("/proc/self/fd/{}", area.as_raw_fd());
            swap_off(&CString::new(path)?)
        }
        Step::RemoveMapping { number, uuid, .. } => {
            let request = removal(number, uuid.as_deref())
                .ok_or_else(|| io::Error::other("the mapping has no usable name"))?;
            let control = OpenOptions::new().read(true).write(true).open(DM_CONTROL)?;
            remove_mapping(&control, request)
        }
        Step::StopArray { path, number } => request(&open(path, number)?, STOP_ARRAY),
    }
}

/// Opens the block device with this number at this path.
fn open(path: &str, number: &str) -> io::Result<File> {
    let flags = OFlag::O_CLOEXEC.bits();
    let device = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match device_number(&device.metadata()?) {
        Some(found) if found == number => Ok(device),
        Some(found) => {
            Err(io::Error::other(format!("{path} is device {found}, expected {number}")))
        }
        None => Err(io::Error::other(format!("{path} is not a block device"))),
    }
}

/// The request that removes a mapping, named by its UUID or else by its number: names are not unique over time.
fn removal(number: &str, uuid: Option<&str>) -> Option<[u8; DM_BYTES]> {
    let mut request = [0; DM_BYTES];
    for (index, part) in DM_VERSION.into_iter().enumerate() {
        request[4 * index..4 * index + 4].copy_from_slice(&part.to_ne_bytes());
    }
    let n_bytes = u32::try_from(DM_BYTES).ok()?;
    request[DM_DATA_SIZE_AT..DM_DATA_SIZE_AT + 4].copy_from_slice(&n_bytes.to_ne_bytes());
    if let Some(uuid) = uuid {
        if uuid.len() >= DM_UUID_BYTES || uuid.is_empty() {
            return None;
        }
        request.get_mut(DM_UUID_AT..)?.get_mut(..uuid.len())?.copy_from_slice(uuid.as_bytes());
        return Some(request);
    }
    let (major, minor) = number.split_once(':')?;
    let (major, minor): (u64, u64) = (major.parse().ok()?, minor.parse().ok()?);
    // `new_encode_dev`, `include/linux/kdev_t.h`.
    let device = (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12);
    request[DM_DEVICE_AT..DM_DEVICE_AT + 8].copy_from_slice(&device.to_ne_bytes());
    Some(request)
}

#[expect(unsafe_code, reason = "this ioctl has no safe wrapper")]
fn remove_mapping(control: &File, mut request: [u8; DM_BYTES]) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as `control` is borrowed. The kernel reads and writes `data_size`
    // bytes of the request (`ctl_ioctl` in `drivers/md/dm-ioctl.c`), which is the length of the array, and the array
    // lives longer than the call.
    let code = unsafe {
        libc::ioctl(control.as_raw_fd(), DM_DEV_REMOVE as libc::Ioctl, request.as_mut_ptr())
    };
    Errno::result(code).map(|_| ()).map_err(Into::into)
}

/// Makes the kernel read the partition table of a disk again.
///
/// # Errors
/// As the kernel answers; `EBUSY` while a partition is in use.
pub(in crate::act) fn reread_table(disk: &File) -> io::Result<()> {
    request(disk, BLKRRPART)
}

/// Empties the journal of a mounted ext4 file system, or only tries whether the kernel can.
///
/// # Errors
/// As the kernel answers.
#[expect(unsafe_code, reason = "this ioctl has no safe wrapper")]
pub(in crate::act) fn checkpoint(root: &File, is_trial: bool) -> io::Result<()> {
    let flags: u32 = if is_trial { CHECKPOINT_TRIAL } else { 0 };
    // SAFETY: the descriptor is open for as long as `root` is borrowed. The kernel reads one number of 32 bits, which lives longer
    // than the call.
    let code =
        unsafe { libc::ioctl(root.as_raw_fd(), CHECKPOINT as libc::Ioctl, &raw const flags) };
    Errno::result(code).map(|_| ()).map_err(Into::into)
}

/// Makes a request without an argument: [`STOP_ARRAY`] or [`BLKRRPART`].
#[expect(unsafe_code, reason = "these ioctls have no safe wrapper")]
fn request(device: &File, request: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as `device` is borrowed, and neither request has an argument.
    let code = unsafe { libc::ioctl(device.as_raw_fd(), request as libc::Ioctl) };
    Errno::result(code).map(|_| ()).map_err(Into::into)
}

#[expect(unsafe_code, reason = "this call has no safe wrapper")]
fn swap_off(path: &CString) -> io::Result<()> {
    // SAFETY: the kernel reads the path up to its NUL, and `path` lives longer than the call.
    let code = unsafe { libc::swapoff(path.as_ptr()) };
    Errno::result(code).map(|_| ()).map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_names_the_mapping_by_uuid_or_by_number_and_never_by_both() {
        let by_uuid = removal("253:300", Some("LVM-abc")).unwrap();
        assert_eq!(&by_uuid[..16], &[4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x38, 1, 0, 0]);
        assert_eq!(&by_uuid[DM_UUID_AT..DM_UUID_AT + 8], b"LVM-abc\0");
        assert!(by_uuid[DM_DEVICE_AT..DM_DEVICE_AT + 8].iter().all(|byte| *byte == 0));
        let by_number = removal("253:300", None).unwrap();
        let device =
            u64::from_ne_bytes(by_number[DM_DEVICE_AT..DM_DEVICE_AT + 8].try_into().unwrap());
        assert_eq!(device, 0x10_fd2c);
        assert!(removal("x", None).is_none() && removal("1:2", Some(&"u".repeat(129))).is_none());
    }

    #[test]
    fn path_that_leads_to_another_device_is_refused() {
        let error = open("/dev/null", "1:3").unwrap_err().to_string();
        assert!(error.contains("not a block device"), "{error}");
        let swap = Step::SwapOff { path: "/dev/null".into(), number: "1:3".into() };
        assert!(perform(&swap).unwrap_err().to_string().contains("not a block device"));
        // Any block device of the host that can be opened, with the number of another.
        let nodes = std::fs::read_dir("/dev").unwrap().flatten().map(|entry| entry.path());
        let is_device = |path: &std::path::PathBuf| {
            std::fs::metadata(path).is_ok_and(|found| device_number(&found).is_some())
        };
        let mut devices = nodes.filter(is_device).filter(|path| File::open(path).is_ok());
        if let Some(device) = devices.next() {
            let error = open(device.to_str().unwrap(), "1:99999").unwrap_err().to_string();
            assert!(error.contains("expected 1:99999"), "{error}");
        }
    }
}
