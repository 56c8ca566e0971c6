//! Keeps udev from starting arrays and volume groups again. Their members stay on the disk until it is overwritten,
//! and udev looks at a device after each write to it: it would assemble a stopped array while coreos-installer writes.
//!
//! An empty rules file in `/run` replaces the one of the same name in `/usr/lib` (udev(7)). On CoreOS,
//! `coreos-installer-disable-device-auto-activation.service` has the same purpose, where it runs.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// Directory in which the running system's rules are replaced.
const RULES: &str = "/run/udev/rules.d";
/// The rules of mdadm and LVM, as Fedora, RHEL and Debian name them.
const NAMES: [&str; 5] = [
    "64-md-raid-assembly.rules",
    "65-md-incremental.rules",
    "69-dm-lvm.rules",
    "69-dm-lvm-metad.rules",
    "69-lvm.rules",
];
/// udev looks for changed rules at most every 3 s (`manager_reload` in systemd's `udevd.c`).
const UDEV_DELAY: Duration = Duration::from_millis(3500);

/// Disables it for the rest of this boot. Returns how long udev may take to notice.
///
/// # Errors
/// The links cannot be made.
pub(in crate::act) fn disable() -> io::Result<Duration> {
    static IS_DISABLED: Mutex<bool> = Mutex::new(false);
    let mut is_disabled = IS_DISABLED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let rules = Path::new(RULES);
    // Without udev nothing is started.
    if *is_disabled || !rules.parent().is_some_and(Path::is_dir) {
        return Ok(Duration::ZERO);
    }
    replace(rules)?;
    *is_disabled = true;
    Ok(UDEV_DELAY)
}

fn replace(rules: &Path) -> io::Result<()> {
    fs::create_dir_all(rules)?;
    NAMES.into_iter().try_for_each(|name| match symlink("/dev/null", rules.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_start_arrays_and_groups_are_replaced_by_empty_ones() {
        let rules = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            replace(rules.path()).unwrap();
        }
        for name in NAMES {
            assert_eq!(fs::read(rules.path().join(name)).unwrap(), b"", "{name}");
        }
    }
}
